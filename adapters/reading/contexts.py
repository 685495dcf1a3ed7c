"""The retrieved documents that the answering call saw, in its prompt or through replies quoted in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeVar

from .align import MIN_CUT, Shown, align, stands_for_itself
from .answer import is_long
from .calls import MAX_CALLS, UNHEARD, authors_of, brief_replies_in, drafts_for
from .letters import letters_of
from .prompts import MAX_PROMPTS
from .stages import SourceDocument
from .step import Step, Unknown

_MAX_LEVELS = 8
"""Levels that are followed of replies in prompts of replies."""


D = TypeVar("D", bound=SourceDocument)


class _Stretch(NamedTuple):
    """Retrieved text in a prompt that the answer rests on."""

    passage: int
    """The index of the retrieved text."""
    text: str | None
    """The part of it, or of its metadata, that is shown; None: all of it."""


def _metadata_texts(documents: Iterable[SourceDocument], calls: Iterable[Step]) -> list[list[str]]:
    """Return the texts in each document's metadata that may replace it in a prompt.

    The window of a sentence, or the answer to a question that was found: sentences that no other document
    shares, and no model wrote, such as the statement that a database was asked with.
    """
    found = [
        [
            value
            for value in item.metadata.values()
            if type(value) is str and is_long(value) and value != item.text
            if len(value) >= MIN_CUT
        ]
        for item in documents
    ]
    if not any(found):
        return found
    owners = Counter(value for values in found for value in set(values))
    replies = {letters_of(call.words) for call in calls}
    return [[one for one in values if owners[one] == 1 and letters_of(one) not in replies] for values in found]


def shown_documents(
    calls: Sequence[Step],
    documents: Sequence[D],
    *,
    answer: str | None,
    question: str | None = None,
    queries: Iterable[str | None] = (),
    after_ns: int = 0,
    by_tool: bool = False,
    are_whole: bool = False,
    this_turn: bool = False,
) -> tuple[tuple[D, D], ...] | None:
    """Return the documents the answering call saw, in prompt order, each with the part it saw.

    A document that an earlier call saw takes the place of that call's reply. Of a document, the longest of its
    text and the texts in its metadata counts.

    Args:
        calls: The request's calls of models, in start order.
        documents: The retrieved documents in retrieval order, duplicates included.
        answer: The answer.
        question: The user's question.
        queries: The search queries: rewritten questions are no replies.
        after_ns: The end of the last retrieval.
        by_tool: Whether a tool ran in the request: results of tools are often missing from recorded prompts.
        are_whole: Whether prompts are complete: spans often omit parts.
        this_turn: Whether documents that only earlier turns show are ignored.

    Returns:
        Empty: the answering call is known to have seen none of them. None: the prompts do not determine it.
    """
    calls = calls[-MAX_CALLS:]
    authors = authors_of(calls, answer, after_ns)
    streamed = any(call.said == UNHEARD for call in calls)
    sure = authors is not None and not streamed
    if authors is None and not streamed:
        authors = tuple(call for call in calls if call.sent)
    if not authors and not streamed:
        return None
    passages = [item.text or "" for item in documents]
    beside = _metadata_texts(documents, calls)
    reader = _Reader(calls, passages, question, queries, beside, this_turn=this_turn)
    found = [one for author in authors or () for one in reader.read(author, 0)]
    if not found and streamed:  # the last call that shows any: graders precede it, verdicts show none
        found = next(filter(None, (reader.read(call, 0) for call in reversed(calls))), [])
    if reader.is_too_large:
        return None
    if found:
        return tuple(
            [
                (item, item if one.text is None else item._replace(text=one.text))
                for one in found
                for item in [documents[one.passage]]
            ]
        )
    return (
        ()
        if authors and sure and not by_tool and reader.absence_is_known(authors, are_whole=are_whole)
        else None
    )


class _Reader:
    """Follows replies from prompt to prompt; reads each call once and counts each passage once."""

    def __init__(
        self,
        calls: Sequence[Step],
        passages: Sequence[str],
        question: str | None,
        queries: Iterable[str | None],
        beside: Sequence[Sequence[str]],
        *,
        this_turn: bool,
    ) -> None:
        self._calls = calls
        self._this_turn = this_turn
        self._texts = [*enumerate(passages)]
        self._texts += [(place, text) for place, texts in enumerate(beside) for text in texts]
        self._passages = passages
        self._question = question
        self._others: Collection[str] = {letters_of(text) for text in (*passages, *filter(None, queries))}
        self._since: dict[str, int] = {}
        for call in reversed(calls):
            self._since |= dict.fromkeys(call.prompt().texts, call.started_ns)
        self._read: set[str] = set()
        self._used: set[int] = set()
        self._found_reply = False
        self._size = 0
        self.is_too_large = False
        """Whether the prompts exceed the limits: then nothing is known."""

    def read(self, call: Step, level: int, above: Collection[str] = frozenset()) -> list[_Stretch]:
        """Return the passages a call saw: in its prompt, and in the prompts of replies quoted there.

        Args:
            call: The call.
            level: How many replies lie between it and the answer.
            above: Passages in the prompts between: what was retrieved again for these is counted there.
        """
        if call.id in self._read:
            return []
        together = [one for one in self._calls if one is call or (call.group == one.group != "")]
        self._read.update(one.id for one in together)
        self._size += sum([len(text) for one in together for _, text in one.sent])
        if level > _MAX_LEVELS or self._size > MAX_PROMPTS:
            self.is_too_large = True
            return []
        # A turn continues through the calls of a request, whatever the role of their texts.
        new = {text for text, since in self._since.items() if since < call.started_ns}
        prompts = [one.prompt(new) for one in together]
        history = [text for prompt in prompts for text in prompt.history]
        left = [
            item
            for item in self._texts
            if item[0] not in self._used and not (above and self._passages[item[0]] in above)
        ]
        drafts = [
            draft for draft in drafts_for(together, self._calls, self._others) if draft.id not in self._read
        ]
        long = [draft for draft in drafts if is_long(draft.words)]
        texts = [text for _, text in left] + [draft.words for draft in long]
        sent = [history, *(prompt.texts for prompt in prompts)]
        hits = align(texts, sent, self._question)
        # Texts of earlier turns count only where this turn shows nothing.
        is_now = any(hit.call for hit in hits if hit.passage < len(left))
        stretches: list[tuple[int, _Stretch | Step]] = []
        shown: dict[int, list[Shown]] = {}
        for hit in hits:
            if hit.passage >= len(left):
                if hit.text is None or 5 * len(hit.text) >= 3 * len(texts[hit.passage]):
                    stretches.append((hit.place, long[hit.passage - len(left)]))
            elif bool(hit.call) == is_now and (is_now or not self._this_turn):
                shown.setdefault(left[hit.passage][0], []).append(hit)
        for owner, places in shown.items():
            self._used.add(owner)
            hit = places[0]
            if len(places) > 1:
                hit = max(places, key=lambda one: len(one.text or texts[one.passage]))
            is_own = texts[hit.passage] is self._passages[owner]
            text = hit.text if is_own else hit.text or texts[hit.passage]
            # Text that is too long for one call of a group continues in the next one.
            text = None if is_own and len(together) > 1 else text
            stretches.append((hit.place, _Stretch(owner, text)))
        stretches += brief_replies_in([text for texts in sent for text in texts], drafts)
        above = {*above, *(self._passages[owner] for owner in shown)}
        found: list[_Stretch] = []
        for _, one in sorted(stretches, key=itemgetter(0)):
            if isinstance(one, _Stretch):
                found.append(one)
            else:
                self._found_reply = True
                found += self.read(one, level + 1, above)
        return found

    def absence_is_known(self, authors: Collection[Step], *, are_whole: bool) -> bool:
        """Return whether these prompts, which show nothing, are known to be complete.

        They are if something else explains them: they quote a reply, or another call recorded in the same way
        shows retrieved texts.
        """
        if not all(map(stands_for_itself, self._passages)):
            return False
        if not are_whole and any(
            not text.strip() or role == "tool" for one in authors for role, text in one.sent
        ):
            return False
        if self._found_reply:
            return not any(isinstance(call.messages, Unknown) for call in self._calls)
        scopes = {author.scope for author in authors}
        if sum(len(text) for call in self._calls for _, text in call.sent) > MAX_PROMPTS:
            return False
        return any(
            align(self._passages, [[text for _, text in call.sent]])
            for call in self._calls
            if call.id not in self._read and call.scope in scopes
        )
