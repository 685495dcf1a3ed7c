"""The answer in an output of unknown shape, as one of its strings: one rule for every framework.

A chain, graph or workflow may return anything: a custom dictionary, a dataclass, a list of messages.
`strings_in` collects the strings in it, on the request's own path; `choose_answer` decides on the worker, by
the replies of the request's model calls (`heard`). The answer is the text that the user received: a string of
the output or none, never the ``repr`` of an object, and never the last reply only because it was last (a
moderation's verdict, follow-up questions, a grade).
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from ragmeter.metrics.sample import THOUGHT_TAGS

from .fields import FIELD_NAMES, OutputString, strings_in
from .prompts import seen_in_prompts
from .step import Step

ANSWER_NAMES = FIELD_NAMES["answer"]
"""Names of fields that state their content; a string under one of them needs no further proof."""

USUAL_NAMES = frozenset(FIELD_NAMES["often_answer"])
"""Names under which an answer, or something else, is often stored: they break ties."""

SELDOM_NAMES = frozenset(FIELD_NAMES["seldom_answer"])
"""Names of an answer only if no other field has it."""

OTHER_NAMES = frozenset(FIELD_NAMES["never_answer"])
"""Names of fields with other content: nothing below them is the answer."""

MAX_SAID = 100
"""Number of a request's model calls that are compared: the last ones."""
MAX_PARSED = 200_000
"""Characters of a reply that are parsed as JSON."""

LONG_CHARACTERS = 20
LONG_WORDS = 3
LONG_IDEOGRAPHS = 10


class Said(NamedTuple):
    """The reply of one model call of the request."""

    text: str
    saw_contexts: bool = False
    """Whether its prompt showed a retrieved context: it is then more likely the one that answered."""
    merges: bool = False
    """Whether its prompt showed several such replies: they are its drafts."""


def choose_answer(
    strings: Sequence[OutputString],
    said: Iterable[Said | str],
    *,
    copied: Iterable[OutputString | str] = (),
    contexts: Iterable[str] = (),
    unheard: bool = False,
) -> str | None:
    """Return the string of an output that is the answer, or None.

    The first match of these; strings under `OTHER_NAMES` never:

    1. in a conversation that ends with a verdict of one word or with follow-up questions, the message before
       it whose call saw retrieved contexts;
    2. a string under one of `ANSWER_NAMES`, or the model's message that ends a conversation, if a model replied
       with it or if it is the only such string;
    3. a string from a reply of this request; of several, in this order of preference: its call saw retrieved
       contexts, it does not only ask questions, it joins other replies, it is under one of `USUAL_NAMES`, it is
       the longest. If it is in a list, with all strings of the same reply in that list;
    4. the only long string (`is_long`);
    5. if no reply is known, the only one under one of `USUAL_NAMES`.

    A string is from a reply if it equals the reply, or a value in the JSON of the reply, without the text
    that parsers remove (white space, quotation marks, fences, ``<think>``), if it was cut out of it at its
    lines' ends or is a long part of it, if it contains it, or if it shares four fifths of its words (an
    application may have rendered it as HTML or linked its citations).

    Args:
        strings: The output's strings, from `strings_in`.
        said: The replies of the request's model calls, in order.
        copied: Strings of the request's input: their repetitions in the output are no answer, except a
            message of the model's that it repeats.
        contexts: Retrieved texts; neither they nor texts that join them are answers, unless a model replied
            with exactly that.
        unheard: Whether a model call's reply is not known (it was streamed): then a short text of another
            call, which may be a verdict, is not preferred to the only long string.

    Returns:
        The application's own string, or None.
    """
    contexts = tuple(contexts)
    texts = [bare for text in contexts if (bare := _bare(text))]
    asked, repeated = set[str](), set(texts)
    for given in copied:
        if isinstance(given, str):
            asked.add(_bare(given))
        else:
            (repeated if given.is_message else asked).add(_bare(given.text))
    candidates = [
        candidate
        for item in strings
        if not OTHER_NAMES.intersection(item.path)
        and (candidate := _Candidate(item)).bare
        and candidate.bare not in asked
    ]
    calls = [_Call(item) for item in list(said)[-MAX_SAID:]]
    hits = [
        hit
        for item in candidates
        for call in calls
        if (hit := _hit(item, call, texts)) is not None
        and (hit.closeness == _SAME or item.bare not in repeated)
    ]
    named = [hit for hit in hits if hit.candidate.is_named]
    if not named:
        alone = [
            item
            for item in candidates
            if item.is_named and item.bare not in repeated and not _pastes(item.bare, texts)
        ]
        # One list of paragraphs is one answer.
        if len({item.item.siblings or item.bare for item in alone}) == 1:
            return _whole(alone[0].item, candidates)
    long = {
        item.bare: item.item.text
        for item in candidates
        if is_long(item.bare)
        and not _pastes(item.bare, texts)
        and not any(item.bare in whole for whole in (*asked, *repeated))
    }
    only_long = next(iter(long.values())) if len(long) == 1 else None
    if named and all(_is_aside(hit, contexts) for hit in named):
        named = [hit for hit in hits if _reads_like_answer(hit)][-1:] or named
    if hits:
        # Beside nothing but a verdict, a draft is the answer.
        is_beside = any(not (_is_seldom(hit) or _is_verdict(hit.candidate.bare, contexts)) for hit in hits)
        best = max(named or hits, key=lambda hit: (is_beside and not _is_seldom(hit), *_rank(hit)))
        is_sure = named or best.call.saw_contexts or is_long(best.candidate.bare)
        if unheard and only_long is not None and not is_sure:
            return only_long
        return _text_of(best, hits, candidates)
    if only_long is not None or (calls and not unheard):
        return only_long
    usual = {
        item.bare: item.item.text
        for item in candidates
        if item.name in USUAL_NAMES and item.bare not in repeated
    }
    return next(iter(usual.values())) if len(usual) == 1 else None


def texts_that_said(answer: str, said: Sequence[str]) -> list[int]:
    """Return the indices of the replies from which an answer stems, by the rules of `choose_answer`.

    Indices of `said`: of the last reply equal to it, or from which it was cut out; else of all replies that
    it contains or shares its words with.
    """
    if said and said[-1] == answer and _bare(answer):
        return [len(said) - 1]
    candidate = _Candidate(OutputString(answer))
    hits: list[tuple[int, int]] = []
    for place in range(len(said) - 1, -1, -1):
        if said[place] == answer and candidate.bare:
            return [place]
        hit = _hit(candidate, _Call(said[place]), ())
        if hit is not None and hit.closeness == _SAME:
            return [place]
        if hit is not None:
            hits.append((place, hit.closeness))
    cut_out = [place for place, closeness in hits if closeness == _CUT_OUT]
    return cut_out[:1] or [place for place, _ in reversed(hits)]


def is_pasted(answer: str, texts: Collection[str]) -> bool:
    """Return whether an answer is only the retrieved texts, joined without a model."""
    return bool(texts) and all(text in answer for text in texts)


def is_label(text: str) -> bool:
    """Return whether a text is one word without a digit, like a verdict: ``SAFE``, ``TERMINATE``."""
    return (
        bool(text) and len(text.split()) == 1 and not (_IDEOGRAPH.search(text) or any(map(str.isdigit, text)))
    )


def is_long(text: str) -> bool:
    """Return whether a text reads like a sentence rather than a label, an id or an address.

    Twenty characters in three words with letters, or ten ideographs.
    """
    if len(_IDEOGRAPH.findall(text)) >= LONG_IDEOGRAPHS:
        return True
    return len(text.strip()) >= LONG_CHARACTERS and len(_WORD_WITH_LETTER.findall(text)) >= LONG_WORDS


_IDEOGRAPH = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W_]+")
_WORD_WITH_LETTER = re.compile(r"[^\W\d_]\S*")
_LETTER = re.compile(r"[^\W\d_]")
_END_OF_THOUGHTS = re.compile(rf"</(?:{THOUGHT_TAGS})>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_SENTENCE = re.compile(r"([^.!?。！？\n]+)([.!?。！？]?)")
_TRIMMED = " \t\r\n\"'`*“”«»‘’…"
_OPENS = frozenset("\n:：>—")
_CLOSES = frozenset("\n<")

MAX_PLACES = 20
"""Occurrences of a short text in a reply that are checked at most."""


def _bare(text: str) -> str:
    """Return a text without the wrapping that parsers remove and templates add."""
    return " ".join(text.split()).strip(_TRIMMED)


class _Candidate:
    """A string of the output, possibly the answer."""

    def __init__(self, item: OutputString) -> None:
        self.item = item
        self.bare = _bare(item.text)
        self.plain = _bare(html.unescape(item.text)) if "&" in item.text else self.bare
        self.name = next((name for name in reversed(item.path) if name), "")
        self.is_named = item.closes or self.name in ANSWER_NAMES
        self.words: Counter[str] | None = None


class _Call:
    """One call's reply, in the forms that parsers produce."""

    def __init__(self, said: Said | str) -> None:
        text, self.saw_contexts, self.merges = Said(said) if isinstance(said, str) else said
        ends = [match.end() for match in _END_OF_THOUGHTS.finditer(text)]
        self.spoken = (text[ends[-1] :] if ends else text).strip()
        fence = _FENCE.search(self.spoken)
        inner = fence.group(1) if fence else self.spoken
        self.bare = _bare(self.spoken)
        self.forms = {self.bare, _bare(text), _bare(inner), *_values(inner.strip())}
        self.words: Counter[str] | None = None
        self.only_asks = only_asks(self.spoken)


def _values(text: str) -> list[str]:
    """Return the strings in a reply that is JSON."""
    if text[:1] not in ("{", "[") or len(text) > MAX_PARSED:
        return []
    try:
        parsed = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return []
    return [_bare(item.text) for item in strings_in(parsed)]


def only_asks(text: str) -> bool:
    """Return whether a text consists of questions."""
    marks = {mark for words, mark in _SENTENCE.findall(text) if _LETTER.search(words)}
    return bool(marks) and marks <= {"?", "？"}


class _Hit(NamedTuple):
    """A string of the output that stems from a call's reply, and the closeness of the match."""

    candidate: _Candidate
    call: _Call
    closeness: int


_SAME, _CUT_OUT, _CONTAINS, _PASTES, _REWRITTEN = 4, 3, 2, 1, 0


def _hit(candidate: _Candidate, call: _Call, contexts: Sequence[str]) -> _Hit | None:
    if not call.bare:
        return None
    plain = candidate.plain
    if candidate.bare in call.forms or plain in call.forms:
        return _Hit(candidate, call, _SAME)
    if _is_cut_out(plain, call):
        return _Hit(candidate, call, _CUT_OUT)
    if call.bare in plain and (is_long(call.bare) or 2 * len(call.bare) >= len(plain)):
        pastes = any(context in plain and context not in call.bare for context in contexts)
        return _Hit(candidate, call, _PASTES if pastes else _CONTAINS)
    if is_long(plain) and is_long(call.bare):
        if candidate.words is None:
            candidate.words = Counter(_WORD.findall(plain.casefold()))
        if call.words is None:
            call.words = Counter(_WORD.findall(call.bare.casefold()))
        least = min(candidate.words.total(), call.words.total())
        if least >= 5 and 5 * (candidate.words & call.words).total() >= 4 * least:
            return _Hit(candidate, call, _REWRITTEN)
    return None


def _is_cut_out(text: str, call: _Call) -> bool:
    """Return whether a parser may have cut `text` out: a long part, or all between two marks."""
    if is_long(text):
        return text in call.bare
    spoken = call.spoken
    start = spoken.find(text)
    for _ in range(MAX_PLACES):
        if start < 0:
            return False
        end = start + len(text)
        before = spoken[max(0, start - 20) : start].rstrip(" \t\"'`*“«")
        after = spoken[end : end + 20].lstrip(" \t\"'`*.”»")
        if (not before or before[-1] in _OPENS) and (not after or after[0] in _CLOSES):
            return True
        start = spoken.find(text, start + 1)
    return False


def _is_aside(hit: _Hit, contexts: Sequence[str]) -> bool:
    """Return whether a conversation's last message is a verdict of one word, or follow-up questions.

    A word that occurs in retrieved texts, in the same spelling, is an answer: ``Paris``.
    """
    word = hit.candidate.bare
    return hit.candidate.item.closes and (hit.call.only_asks or _is_verdict(word, contexts))


def _is_verdict(word: str, contexts: Sequence[str]) -> bool:
    return is_label(word) and not any(_stands_alone(word, text) for text in contexts)


def _is_seldom(hit: _Hit) -> bool:
    return bool(SELDOM_NAMES.intersection(hit.candidate.item.path))


def _stands_alone(word: str, text: str) -> bool:
    """Return whether `word` occurs in `text` as a whole word."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not text[start - 1 : start].isalnum() and not text[end : end + 1].isalnum():
            return True
        start = text.find(word, start + 1)
    return False


def _reads_like_answer(hit: _Hit) -> bool:
    """Return whether the message before a verdict or follow-up question reads like the answer."""
    return (
        hit.candidate.item.is_message
        and hit.call.saw_contexts
        and hit.closeness == _SAME
        and is_long(hit.candidate.bare)
        and not hit.call.only_asks
    )


def _rank(hit: _Hit) -> tuple[Any, ...]:
    """Return the sort key of a string by its likelihood of being the answer."""
    candidate, call, closeness = hit
    return (
        call.saw_contexts,
        not call.only_asks,
        call.merges,
        candidate.name in USUAL_NAMES,
        min(len(candidate.plain), len(call.bare)),
        closeness,
        -len(candidate.item.path),
    )


def _text_of(hit: _Hit, hits: Sequence[_Hit], candidates: Sequence[_Candidate]) -> str:
    """Return the answer: the application's string without the contexts appended to it."""
    if hit.closeness == _PASTES:
        return hit.call.spoken
    if hit.candidate.is_named:
        return _whole(hit.candidate.item, candidates)
    parts = _listed(hit, hits)
    if len(parts) < 2 or not hit.candidate.item.siblings:
        return "\n".join(part.item.text for part in parts)
    return "\n".join(
        other.item.text
        for other in candidates
        if other.item.siblings == hit.candidate.item.siblings
        and (other in parts or re.search(rf"(?<!\w){re.escape(other.bare)}(?!\w)", hit.call.bare))
    )


def _listed(hit: _Hit, hits: Sequence[_Hit]) -> list[_Candidate]:
    """Return a call's texts in one list (steps, or sentences with a source each), else the string alone."""
    item = hit.candidate.item
    if item.is_message or "" not in item.path:
        return [hit.candidate]
    return [
        other.candidate
        for other in hits
        if other.call is hit.call
        and other.candidate.item.path == item.path
        and other.candidate.item.siblings == item.siblings
        and not other.candidate.item.is_message
        and other.closeness in (_SAME, _CUT_OUT)
    ] or [hit.candidate]


def _whole(item: OutputString, candidates: Sequence[_Candidate]) -> str:
    """Return a named string, with its neighbours where it is one paragraph of several."""
    if item.closes or not item.siblings:
        return item.text
    return "\n".join(other.item.text for other in candidates if other.item.siblings == item.siblings)


def _pastes(text: str, contexts: Sequence[str]) -> bool:
    """Return whether a text contains a whole retrieved text, or is a part of one."""
    return any(text in context or context in text for context in contexts)


MAX_SEARCHED = 50_000_000
"""Characters of prompts in which earlier replies are looked for, each prompt once per call."""


def heard(calls: Iterable[Step], contexts: Sequence[str]) -> list[Said]:
    """Return the replies of calls, with whether they had seen contexts and whether they joined drafts.

    A call that combines the replies of others about one document each received no document, yet saw them all
    through these replies.

    Args:
        calls: The request's calls of models, in order; the last `MAX_SAID` with a reply count.
        contexts: Texts that were retrieved.
    """
    said: list[Said] = []
    drafts: dict[str, None] = {}
    searched = 0
    for call in [call for call in calls if call.words][-MAX_SAID:]:
        text, prompt = call.words, call.prompt()
        merges = False
        if len(drafts) > 1 and searched < MAX_SEARCHED:
            page = _plain("\n".join(prompt.texts))
            searched += len(page) * len(drafts)
            merges = sum(draft in page for draft in drafts) > 1
        saw = merges or seen_in_prompts(contexts, [prompt]) is not None
        said.append(Said(text, saw, merges))
        if saw and is_long(text):
            drafts[_plain(text)] = None
    return said


def _plain(text: str) -> str:
    return " ".join(text.split())
