"""The call that answered, and the replies it rests on; graders, rewriters and critics are excluded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from .answer import is_label, is_long, only_asks, texts_that_said
from .letters import letters_of, tokens_in, weight_of
from .prompt_layout import place_in, question_in_prompt
from .request_texts import answer_in_form
from .step import Step, Unknown

MAX_CALLS = 100
"""Calls of a request that are read at most: the last ones."""

_LEAST_BRIEF = 6
_MOST_BRIEF = 200
"""Minimum letters of a brief reply, and its maximum characters: it counts only where it is set apart."""

_LEAST_REPLY = 4
"""Minimum letters of an answer that nothing else identifies."""

UNFINISHED = Unknown("unfinished")
"""Placeholder for the reply of a call that failed or has not ended: it may be the answer."""

UNHEARD = Unknown("streamed")
"""Placeholder for the reply of a call to a reader of its stream."""


def authors_of(calls: Sequence[Step], answer: str | None, after_ns: int) -> tuple[Step, ...] | None:
    """Return the calls that gave the answer: one, or all whose replies it joins.

    Args:
        calls: The request's calls, in start order.
        answer: The answer; without one the last call decides whose reply is more than a label.
        after_ns: The end of the last retrieval: such a call began later.

    Returns:
        Empty: the answering call, or its input, was not seen. None: some replies are not known, so it may be
        any of these.
    """
    speakers = speakers_of(calls, answer)
    if speakers and not _may_quote(speakers, calls, answer or ""):
        found = tuple([_telling(call, calls) for call in speakers])
        return found if all(call.sent for call in found) else ()
    unfinished = [call for call in calls if call.said == UNFINISHED]
    if unfinished:
        return tuple(unfinished)
    if not (answer or "").strip():
        for call in reversed(calls):
            if call.started_ns >= after_ns and is_long(call.words):
                return (call,) if call.sent else ()
    return None if any(isinstance(call.said, Unknown) for call in calls) else ()


def _may_quote(speakers: Sequence[Step], calls: Iterable[Step], answer: str) -> bool:
    """Return whether a later call with an unknown reply may have given the answer, quoting these calls."""
    began = speakers[-1].started_ns
    if not [call for call in calls if call.said == UNHEARD and call.started_ns > began]:
        return False
    said = letters_of(answer)
    return not any(call.answers or said in letters_of(call.words) for call in speakers)


def last_call(calls: Sequence[Step], speakers: Sequence[Step], after_ns: int) -> Step | None:
    """Return the call whose words the answer ends with, else the last one if it may have answered.

    One that graded, or that began before the last retrieval ended, did not: then an unseen model answered,
    and the result is None.
    """
    if speakers:
        return speakers[-1]
    last = calls[-1] if calls else None
    return None if last is None or last.started_ns < after_ns or is_grade(last.words) else last


def is_grade(words: str) -> bool:
    """Return whether a reply is a judge's: a label, a number, or a form without an answer."""
    plain = (answer_in_form(words.strip()) or "").strip()
    return is_label(plain) or plain[:1] == "{" or weight_of(letters_of(plain)) < _LEAST_REPLY


def last_reply(
    calls: Sequence[Step], passages: Iterable[str | None] = (), question: str | None = None
) -> str | None:
    """Return the last reply that may be the answer; replies of graders and replies about replies are skipped.

    Args:
        calls: The request's calls of models, by their end.
        passages: Retrieved texts, where they are known; else prompts show them by their layout.
        question: The question.
    """
    replies = [call for call in calls if call.words.strip()]
    replies = [call for call in replies if _CALLS_A_TOOL.search(call.words) is None] or replies
    speaking = [_Reply(call, passages, question) for call in replies]
    for place in range(len(speaking) - 1, -1, -1):
        reply = speaking[place]
        if is_long(reply.call.words) and not any(map(reply.is_about, speaking[:place])):
            return reply.call.words
    return speaking[-1].call.words if speaking else None


_CALLS_A_TOOL = re.compile(r"^Action Input:", re.MULTILINE)
"""An agent's way to call a tool in words: no answer, and no later reply is about it."""
_REVISES = re.compile(
    r"\btranslat|übersetz|перевед|перевод|翻译|翻訳|\btradu|"
    r"(?:^|[.!?:]\s+)(?:please\s+)?(?:rewrite|rephrase|revise|improve|refine|polish|edit|correct|fix|shorten|"
    r"simplify|format|convert|adapt|merge|combine|expand)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Instructions of a call whose reply replaces the one in its prompt."""
_CHECKS = re.compile(
    r"\b(?:check|verif|evaluat|assess|judge|rate|grad|ground|support|faithful|hallucinat|compare|review|"
    r"critici)\w*\b",
    re.IGNORECASE,
)
_INSTRUCTION = 200
"""Characters that are read of a message's beginning and of its end, for either."""
_LABEL = 30
"""Letters of the words between a question and its answer, where a conversation is quoted."""


class _Reply:
    """The reply of a call, with its prompt as letters, each computed once."""

    def __init__(self, call: Step, passages: Iterable[str | None], question: str | None) -> None:
        self.call = call
        self._question = "" if question is None else letters_of(question)
        self._passages = passages

    @cached_property
    def _prompts(self) -> list[str]:
        return [letters_of(text) for _, text in self.call.sent]

    @cached_property
    def _page(self) -> str:
        return "".join(self._prompts)

    @cached_property
    def _letters(self) -> str:
        return letters_of(self.call.words)

    @cached_property
    def _evidence(self) -> frozenset[str]:
        """The passages shown in its prompt."""
        known = frozenset(letters_of(text) for text in self._passages if text)
        if known:
            return frozenset(one for one in known if any(one in text for text in self._prompts))
        place = place_in(self.call.sent)
        found = () if place is None else place.documents
        return frozenset(letters_of(item.text or "") for item in found)

    def is_about(self, other: _Reply) -> bool:
        """Return whether it is about an earlier reply: a check, a title, a note, follow-up questions.

        It quotes the other reply, rests on no passage that the other did not see, and has other words,
        repeats it as part of a conversation, or was asked to check it; or it was written beside it and saw no
        passage.
        """
        if not is_long(other.call.words) or other._letters == self._letters:
            return False
        places = [at for at, text in enumerate(self._prompts) if other._letters in text]
        asks = only_asks(self.call.words)
        if asks or not places:
            is_beside = other.call.ended_ns > self.call.started_ns and not self._evidence
            return bool(places) if asks else is_beside and bool(other._evidence)
        goes_on = any(role == "tool" for role, _ in self.call.sent[places[-1] :]) or any(
            self._prompts[at].startswith(text) for at in places for text in other._prompts if text
        )
        # An agent that calls tools in words.
        goes_on = goes_on or any(f"observation{other._letters}" in self._prompts[at] for at in places)
        if goes_on or not all(one in other._page for one in self._evidence):
            return False
        instructions = "\n".join(
            part
            for role, text in self.call.sent
            if role != "assistant"
            for part in (text[:_INSTRUCTION], text[_INSTRUCTION:][-_INSTRUCTION:])
        )
        if _REVISES.search(instructions) is not None:
            return False
        before = self._page[: self._page.rfind(other._letters)]
        is_quoted = bool(self._question) and self._question in before[-len(self._question) - _LABEL :]
        if is_quoted or (self._evidence and _CHECKS.search(instructions) is not None):
            return True
        own, words = set(tokens_in(self.call.words)), set(tokens_in(other.call.words))
        return bool(other._evidence) and 2 * len(own & words) < min(len(own), len(words))


def refusal_before(calls: Sequence[Step], speakers: Sequence[Step]) -> str | None:
    """Return the refusal of the call that answered, possibly empty; None if it did not refuse."""
    found = speakers or calls[-1:]
    return found[-1].refusal if found else None


def response_id_of(speakers: Sequence[Step], answer: str | None) -> str | None:
    """Return the provider's id of the completion that is the answer; None if unknown or several."""
    return speakers[0].response_id if answer and len(speakers) == 1 else None


def speakers_of(calls: Sequence[Step], answer: str | None) -> list[Step]:
    """Return the calls whose replies are the answer: one, or all whose parts were joined."""
    answering: list[Step] = []
    speaking: list[Step] = []
    said: list[str] = []
    for call in calls:
        if call.answers:
            answering.append(call)
        elif isinstance(call.said, str) and call.said.strip():
            speaking.append(call)
            said.append(call.said)
    if answering or answer is None or not answer.strip():
        return answering
    return [speaking[place] for place in texts_that_said(answer, said)]


def _telling(author: Step, calls: Iterable[Step]) -> Step:
    """Return the call, or one with the same reply around or within it that recorded its prompt."""
    if author.sent:
        return author
    words = author.words.strip()
    alike = (call for call in calls if call.sent and call.words.strip() == words != "")
    return next(alike, author)


def drafts_for(together: Sequence[Step], calls: Iterable[Step], others: Collection[str]) -> list[Step]:
    """Return earlier calls whose replies may occur in the prompts of calls that answer together.

    Excluded are calls whose reply is a query or a document, and calls whose whole input these calls were
    sent, too: steps of an agent are sent one growing conversation.

    Args:
        together: The later calls: one, or those of a group.
        calls: All calls of the request.
        others: Letters of queries and documents.
    """
    sent = {message.text for call in together for message in call.sent}
    began = max(call.started_ns for call in together)
    return [
        earlier
        for earlier in calls
        if earlier not in together
        and earlier.started_ns < began
        and letters_of(earlier.words) not in others
        and any(message.text not in sent for message in earlier.sent)
        and (
            is_long(earlier.words)
            or _is_brief(earlier.words)
            or ((reply := _beside_question(earlier)) is not None and any(map(reply.search, sent)))
        )
    ]


def _is_brief(words: str) -> bool:
    """Return whether a short reply may be looked for where it is set apart; labels never."""
    plain = words.strip()
    return not is_label(plain) and len(plain) <= _MOST_BRIEF and weight_of(letters_of(plain)) >= _LEAST_BRIEF


def _beside_question(draft: Step) -> re.Pattern[str] | None:
    """Return how any short reply stands behind the question that its call was asked, perhaps with a label."""
    asked, words = question_in_prompt(draft.sent) or "", draft.words.strip()
    if not is_long(asked) or not 0 < len(words) <= _MOST_BRIEF:
        return None
    return re.compile(rf"{re.escape(asked)}\W{{1,9}}(?:\w+\W{{1,3}}){{0,2}}?({re.escape(words)})(?!\w)")


def brief_replies_in(texts: Sequence[str], drafts: Sequence[Step]) -> list[tuple[int, Step]]:
    """Return the places of brief replies in all letters, and their calls.

    They stand behind a colon or alone on a line; of equal ones, the first call's comes first. Labels and
    numbers stand behind their question.
    """
    waiting: dict[str, list[Step]] = {}
    found: list[tuple[int, Step]] = []
    for draft in drafts:
        if _is_brief(draft.words) and not is_long(draft.words):
            waiting.setdefault(draft.words.strip(), []).append(draft)
        elif not is_long(draft.words) and (reply := _beside_question(draft)) is not None:
            for place, text in enumerate(texts):
                if (match := reply.search(text)) is not None:
                    start = sum(len(letters_of(one)) + 1 for one in texts[:place])
                    found.append((start + len(letters_of(text[: match.start(1)])), draft))
                    break
    if not waiting:
        return found
    words = "|".join(map(re.escape, sorted(waiting, key=len, reverse=True)))
    alone = re.compile(rf"(?:^|[:：>\"'\n])[^\S\n]*({words})[^\S\n]*(?=$|[\n\"'<])")
    before = 0
    for text in texts:
        start = 0
        for match in alone.finditer(text):
            before += len(letters_of(text[start : match.start(1)]))
            start = match.start(1)
            if left := waiting[match[1]]:
                found.append((before, left.pop(0)))
        before += len(letters_of(text[start:])) + 1
    return found
