"""Documents found only in a prompt: by its layout, or as results of this turn's tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragmeter.metrics import RetrievedContext

from .answer import is_long
from .calls import authors_of, is_grade
from .chat_template import written_out
from .documents import Document
from .label_words import QUESTION_LABEL
from .layout import Passages, divided
from .letters import letters_of
from .prompt_layout import place_in, question_in_prompt
from .prompts import MAX_PROMPTS, turn_in
from .results import ANY_TOOL, cut, reads_as_retrieved
from .stages import to_contexts
from .step import Message, Step

_QUESTIONS = 3
_MOST_NAMES = 1_000


def contexts_in_prompts(
    calls: Sequence[Step],
    answer: str | None,
    question: str | None,
    known: Sequence[Document] = (),
    filled: str | None = None,
) -> Passages | None:
    """Return the documents in the answering call's prompt; None if it has no place for any.

    Those known have ids and no texts. The place is the context that a template was filled with, if known.
    """
    authors = authors_of(calls, answer, 0) or tuple(
        call for call in calls[-1:] if call.sent and is_long(call.words)
    )
    if not authors or is_grade(authors[-1].words):
        return None
    if sum(len(text) for _, text in authors[-1].sent) > MAX_PROMPTS:
        return None
    sent = written_out(authors[-1].sent)
    turn = turn_in([role for role, _ in sent])
    first = next((at for at, message in enumerate(sent) if message.role == "user"), 0)
    asked = [
        message
        for at, message in enumerate(sent)
        if message.role not in ("user", "assistant")
        or (at >= turn if message.role == "user" else at < first or at == len(sent) - 1)
    ]
    if filled is not None and stands_in(filled, authors[-1:]):
        place: Passages | None = divided(filled)
    else:
        place = place_in(asked, question, len(known) or None) or _given_before(sent[:turn], question or "")
    if place is not None and place.documents:
        if not (known and place.is_divided):
            return place
        pairs = zip(known, place.documents, strict=True)
        return Passages(tuple(item._replace(text=one.text) for item, one in pairs), is_divided=True)
    replies = {letters_of(call.words) for call in calls}  # of an agent that is called as a tool
    found = tuple(
        item
        for message in dict.fromkeys(sent[turn:])  # some emitters record an output twice
        if message.role == "tool" and letters_of(message.text) not in replies
        for documents in [cut(message.text, ANY_TOOL) or ()]
        if reads_as_retrieved(documents)
        for item in documents
    )
    return Passages(found, is_divided=True) if found and not known else None


_ASKS = re.compile(rf"[?？]|(?:{QUESTION_LABEL})[ \t]*[:：]", re.IGNORECASE)


def _given_before(earlier: Sequence[Message], question: str) -> Passages | None:
    """Return the passages of the turn before if it gave documents and asked nothing, and this one asks."""
    if not question.rstrip().endswith(("?", "？")):
        return None
    text = next((text for role, text in reversed(earlier) if role == "user"), "")
    place = place_in([Message("user", text)])
    for item in () if place is None else place.documents:
        text = text.replace(item.text or "", "")
    return None if _ASKS.search(text) else place


class PromptTemplates:
    """The texts in every prompt of an application, whatever the question: its template, no documents."""

    def __init__(self) -> None:
        self._constant: dict[str, tuple[frozenset[int], frozenset[str]]] = {}

    def shown(
        self,
        name: str,
        calls: Sequence[Step],
        answer: str | None,
        question: str | None,
        filled: str | None = None,
    ) -> Passages | None:
        """Return `contexts_in_prompts` of a request without retrievals, without the texts of the template.

        A passage belongs to the template of an application, or workflow, of this name once it was seen beside
        three questions.
        """
        shown = contexts_in_prompts(calls, answer, question, filled=filled)
        if shown is None or question is None or not shown.is_divided:
            return shown
        found = self._without(name, question, shown.documents)
        return shown._replace(documents=found) if found else None

    def _without(self, name: str, question: str, documents: Sequence[Document]) -> tuple[Document, ...]:
        shown = {hash(letters_of(item.text or "")): item for item in documents}
        constant, asked = self._constant.get(name) or (frozenset(shown), frozenset())
        constant &= shown.keys()
        if len(asked) < _QUESTIONS:
            asked |= {question}
        if name in self._constant or len(self._constant) < _MOST_NAMES:
            self._constant[name] = constant, asked
        if len(asked) < _QUESTIONS:
            return tuple(documents)
        return tuple(item for passage, item in shown.items() if passage not in constant)


def carried_in(
    calls: Sequence[Step], answer: str | None, contexts: Iterable[str]
) -> tuple[RetrievedContext, ...]:
    """Return the texts retrieved in earlier turns and sent again to the calls that answered.

    Args:
        calls: The request's calls of models, in start order.
        answer: The answer.
        contexts: Texts of this turn's documents, which are excluded.
    """
    found: dict[str, Document] = {}
    for author in authors_of(calls, answer, 0) or ():
        sent = written_out(author.sent)
        earlier = sent[: turn_in([role for role, _ in sent])]
        if sum(len(text) for _, text in earlier) > MAX_PROMPTS:
            continue
        for message in earlier:
            documents: tuple[Document, ...] = ()
            if message.role == "tool":
                documents = cut(message.text, ANY_TOOL) or ()
            elif message.role == "user" and (place := place_in([message])) is not None:
                documents = place.documents
            if reads_as_retrieved(documents):
                found |= {letters_of(item.text): item for item in documents if item.text}
    known = {letters_of(text) for text in contexts} if found else set()
    return to_contexts([item for letters, item in found.items() if letters not in known])


def asked_in(calls: Iterable[Step], texts: Iterable[str | None] = ()) -> str | None:
    """Return the question in the first prompt that shows one; a text that contains a retrieved one is none.

    If that is an instruction with a later call's question behind its colon, return that question.
    """
    letters = [letters for text in texts if text and len(letters := letters_of(text)) > 20]
    questions = (asked for call in calls if (asked := question_in_prompt(call.sent)) is not None)
    first = next(questions, None)
    if first is None:
        return None
    plain = letters_of(first)
    if any(one in plain for one in letters):
        return None
    if not _INSTRUCTION.search(first):
        return first
    return next((asked for asked in questions if _stands_behind_a_colon(asked, first)), first)


_INSTRUCTION = re.compile(r"[:：\n]")


def _stands_behind_a_colon(asked: str, instruction: str) -> bool:
    before = instruction.removesuffix(asked)
    return before != instruction and before.rstrip(" \t\"'").endswith((":", "：", "\n"))


def stands_in(text: str, calls: Iterable[Step]) -> bool:
    """Return whether one of the calls was sent a text."""
    letters = letters_of(text)
    return bool(letters) and any(letters in letters_of(message.text) for call in calls for message in call.sent)
