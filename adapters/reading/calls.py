"""Which call answered, and on whose replies it rests: graders, rewriters and critics are none of these."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from .answer import is_label, is_long, only_asks, texts_that_said
from .layout import place_in
from .letters import letters_of, tokens_in, weight_of
from .step import Step, Unknown

__all__ = [
    "MAX_CALLS", "UNFINISHED", "UNHEARD", "authors_of", "brief_replies_in", "drafts_for", "is_grade",
    "last_call", "last_reply", "refusal_before", "response_id_of", "speakers_of",
]  # fmt: skip

MAX_CALLS = 100
"""Calls of a request that are read: the last ones."""

_LEAST_BRIEF = 6
_MOST_BRIEF = 200
"""Letters of a brief reply at least, and its characters at most: it counts only where it stands on its own."""

_LEAST_REPLY = 4
"""Letters of an answer at least, where nothing else says that it is one."""

UNFINISHED = Unknown("unfinished")
"""What a call was about to say that failed or has not ended: it may be the answer."""

UNHEARD = Unknown("streamed")
"""What a call said to a reader of its stream."""


def authors_of(calls: Sequence[Step], answer: str | None, after_ns: int) -> tuple[Step, ...] | None:
    """Return the calls that gave the answer: one, or all that it is pasted together of.

    Args:
        calls: The request's calls, in start order.
        answer: What was answered; without one the last call decides that says more than a label.
        after_ns: When the last retrieval ended: such a call began later.

    Returns:
        Empty: the answering call was not seen, or what it was sent. None: what some calls said is not
        known, so it may be any of these.
    """
    speaking = [call for call in calls if call.words.strip()]
    speakers = speakers_of(calls, answer)
    if speakers and not _may_quote(speakers, calls, answer or ""):
        found = tuple(_telling(call, speaking) for call in speakers)
        return found if all(call.sent for call in found) else ()
    unfinished = [call for call in calls if call.said == UNFINISHED]
    if unfinished:
        return tuple(unfinished)
    if not (answer or "").strip():
        for call in reversed(speaking):
            if call.started_ns >= after_ns and is_long(call.words):
                return (call,) if call.sent else ()
    return None if any(isinstance(call.said, Unknown) for call in calls) else ()


def _may_quote(speakers: Sequence[Step], calls: Iterable[Step], answer: str) -> bool:
    """Return whether a later call, which was not heard, may have said the answer and quoted these."""
    said = letters_of(answer)
    return (
        any(call.said == UNHEARD and call.started_ns > speakers[-1].started_ns for call in calls)
        and not any(call.answers for call in speakers)
        and not any(said in letters_of(call.words) for call in speakers)
    )


def last_call(calls: Sequence[Step], answer: str | None, after_ns: int) -> Step | None:
    """Return the call whose words the answer ends with, else the last one if it may have answered.

    One that graded, or that began before the last retrieval ended, did not: then a model answered that is not
    seen, and this is None.
    """
    if speakers := speakers_of(calls, answer):
        return speakers[-1]
    last = calls[-1] if calls else None
    return None if last is None or last.started_ns < after_ns or is_grade(last.words) else last


def is_grade(words: str) -> bool:
    """Return whether a reply is a judge's: a label, a number, or a form with fields."""
    plain = words.strip()
    return is_label(plain) or plain[:1] == "{" or weight_of(letters_of(plain)) < _LEAST_REPLY


def last_reply(calls: Sequence[Step]) -> str | None:
    """Return the last reply that may be the answer: graders say a word, and titles are given to it later.

    Args:
        calls: The request's calls of models, by their end.
    """
    speaking = [call for call in calls if call.words.strip()]
    for place in range(len(speaking) - 1, -1, -1):
        call = speaking[place]
        if is_long(call.words) and not _is_aside(call, speaking[:place]):
            return call.words
    return speaking[-1].words if speaking else None


_ASIDE = re.compile(
    r"\b(?:tit(?:le|el|re)|headline|tags|keywords|sentiment|memory|memories|harmful|safe|unsafe|toxic|moderate|"
    r"summari[sz]e (?:the|this|our) (?:chat|conversation|dialog\w*)|"
    r"título|заголовок)\b|标题|タイトル|"
    r"\b(?P<check>check|verify|evaluate|assess|judge|rate|grade)\b[^.\n]{0,60}\b(?:answer|response|reply)\b",
    re.IGNORECASE,
)
"""Instructions of a call that writes about an answer that was given."""
_INSTRUCTION = 200
"""So many characters of a message are read for it."""


def _is_aside(call: Step, earlier: Iterable[Step]) -> bool:
    """Return whether a reply is about an earlier one: questions that follow, a title, a note, a check of it.

    It quotes that one, or was written beside it, and says other words.
    """
    asks = only_asks(call.words)
    lines = [
        (line, match.lastgroup)
        for role, text in call.sent
        if role != "assistant"
        for line in text[:_INSTRUCTION].splitlines()
        if (match := _ASIDE.search(line)) is not None
    ]
    is_check = any(group for _, group in lines)
    if not asks and not (lines and (is_check or place_in(call.sent) is None)):
        return False
    sent = [letters_of(text) for _, text in call.sent]
    about: set[str] = set()
    for one in filter(lambda one: is_long(one.words), earlier):
        is_quoted = any(letters_of(one.words) in text for text in sent)
        if asks and is_quoted:
            return True
        if (is_quoted or one.ended_ns > call.started_ns) and not any(
            line in text for line, _ in lines for _, text in one.sent
        ):
            about.update(tokens_in(one.words))
    own = set(tokens_in(call.words))
    return bool(about) and not asks and 2 * len(own & about) < len(own)


def refusal_before(calls: Sequence[Step], answer: str | None) -> str | None:
    """Return the words by which the call that answered refused, perhaps none; None: it did not."""
    found = speakers_of(calls, answer) or calls[-1:]
    return found[-1].refusal if found else None


def response_id_of(calls: Sequence[Step], answer: str | None) -> str | None:
    """Return what the provider calls the completion that is the answer; None: unknown, or there are several."""
    found = speakers_of(calls, answer)
    return found[0].response_id if answer and len(found) == 1 else None


def speakers_of(calls: Sequence[Step], answer: str | None) -> list[Step]:
    """Return the calls whose words are the answer: one, or all whose parts it was joined from."""
    if answering := [call for call in calls if call.answers]:
        return answering
    if answer is None or not answer.strip():
        return []
    speaking = [call for call in calls if call.words.strip()]
    return [speaking[place] for place in texts_that_said(answer, [one.words for one in speaking])]


def _telling(author: Step, calls: Iterable[Step]) -> Step:
    """Return the call, or the one with the same words around or within it that recorded its prompt."""
    if author.sent:
        return author
    words = author.words.strip()
    return next((call for call in calls if call.sent and call.words.strip() == words), author)


def drafts_for(
    together: Sequence[Step], calls: Iterable[Step], others: Collection[str]
) -> list[Step]:
    """Return earlier calls whose replies may stand in the prompts of calls that answer together.

    Not those whose words are a query or a document, nor those that were sent nothing which these calls
    were not sent: steps of an agent are sent one conversation, ever longer.

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
        and (is_long(earlier.words) or _is_brief(earlier.words))
    ]


def _is_brief(words: str) -> bool:
    """Return whether a reply that is not long may be looked for where it stands on its own; labels never."""
    plain = words.strip()
    return (
        not is_label(plain)
        and len(plain) <= _MOST_BRIEF
        and weight_of(letters_of(plain)) >= _LEAST_BRIEF
    )


def brief_replies_in(texts: Iterable[str], drafts: Sequence[Step]) -> list[tuple[int, Step]]:
    """Return where brief replies stand behind a colon or alone on a line, in letters of all texts, and whose.

    Of equal ones, the first call's stands first.
    """
    waiting: dict[str, list[Step]] = {}
    for draft in drafts:
        if not is_long(draft.words):
            waiting.setdefault(draft.words.strip(), []).append(draft)
    if not waiting:
        return []
    words = "|".join(map(re.escape, sorted(waiting, key=len, reverse=True)))
    alone = re.compile(rf"(?:^|[:：>\"'\n])[^\S\n]*({words})[^\S\n]*(?=$|[\n\"'<])")
    found: list[tuple[int, Step]] = []
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
