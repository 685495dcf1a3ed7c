"""Clauses of an answer that deny a clause of a chunk, or state what the chunk denies.

`_claims` calls this. Only the plain case counts, in English, Russian and Chinese: one clause has every word
of the other and exactly one of the two has a negation. A word and its opposite (allowed, prohibited) are one
word and a negation. Any restriction (another clause, word or limit) makes it no conflict.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

from .analysis import Analysis
from .function_words import russian_function_stems
from .terms import held_in_line, search_terms, sentence_lines, terms_of_line
from .tokens import has_han, is_han
from .word_lists import read_entries, read_pattern

_NEGATION = read_pattern("negation.negation")
_QUICK = ("not", "n't", "never", "nobody", "no ")
_QUICK_ELSEWHERE = (*_QUICK, "n’t", "не", "никогда", "不", "没", "未", "无法", "并非")
"""Every match of `_NEGATION` has one of these, which are cheap to search for."""
_MEANING: dict[str, str] = {}
"""Each word of `opposites` and the one that stands for its meaning."""
_DENYING: dict[str, str] = {}
"""The same for words that deny it."""
for _meaning, _words in read_entries("opposites").items():
    _at = _words.index("|")
    _MEANING.update(dict.fromkeys([_meaning, *_words[:_at]], _meaning))
    _DENYING.update(dict.fromkeys(_words[_at + 1 :], _meaning))
_OPPOSING = tuple(one for one in _DENYING if not any(other in one for other in _DENYING if other != one))
_OPPOSING_ASCII = tuple(filter(str.isascii, _OPPOSING))
"""Every text with one of `_DENYING` has one of these."""
_HAN_WORDS = sorted((word for word in (*_DENYING, *_MEANING) if has_han(word)), key=len, reverse=True)
_WORD = re.compile(f"(?i){'|'.join(_HAN_WORDS)}|[a-zа-я]{{4,}}")
_LIMITS = read_pattern("negation.limits")
"""Words that say when and where something holds: open until five is closed after five."""
_CLAUSES = read_pattern("negation.clauses")
_SUPPOSED = read_pattern("negation.supposed")
"""Signs that a sentence is not a plain statement."""
_DONE = re.compile("已经?|了")
"""Chinese particles of what is done: 已包含 is denied by 未包含."""
_LEAST = 3
"""Least number of words of a clause that can be contradicted; one less if both sentences are such a clause."""


class Denial(NamedTuple):
    """A clause that a chunk contradicts."""

    sentence: int
    """Index of the answer's sentence, from 0."""
    text: str
    """The answer's clause."""
    chunk: int
    """Index of the chunk, from 0."""
    said: str
    """The chunk's sentence."""


def denials(
    texts: Sequence[str],
    claiming: Sequence[Sequence[str]],
    lacking: Sequence[Sequence[str]],
    contexts: Sequence[Analysis],
) -> list[Denial]:
    """Return the clauses of an answer whose opposite a chunk states.

    Args:
        texts: The sentences of the answer, from `framing.claim_texts`.
        claiming: The terms of each sentence.
        lacking: The terms of each sentence that no chunk has.
        contexts: The chunks.
    """
    whole = "\n".join(texts)
    opposed = not _opposite_terms().isdisjoint(chain.from_iterable(claiming)) or (
        has_han(whole) and any(map(whole.__contains__, _HAN_WORDS))
    )
    may_deny = _may_deny_or_oppose if opposed else _may_deny
    # Few chunks have an opposite: the sentences of others are searched for a negation alone.
    may_deny_there = [may_deny if opposed and _opposes(one.text) else _may_deny for one in contexts]
    denied_there = [check(one.text) for check, one in zip(may_deny_there, contexts, strict=True)]
    if not (any(map(may_deny, texts)) or any(denied_there)):
        return []
    found: list[Denial] = []
    clauses_in = cache(_clauses)  # sentences of chunks are compared with many clauses
    denying = [
        line
        for context, denied, check in zip(contexts, denied_there, may_deny_there, strict=True)
        if denied
        for said, line in zip(context.sentences, context.memoize(sentence_lines), strict=True)
        if check(said)
    ]
    for at, (sentence, terms, missing) in enumerate(zip(texts, claiming, lacking, strict=True)):
        denies = may_deny(sentence)
        han = has_han(sentence)
        if not han and not _AUXILIARY.issuperset(frozenset(missing) - _opposite_terms()):
            continue
        if not denies:
            own = search_terms(terms)
            if not any(len(held_in_line(line, own)) >= _LEAST - 1 for line in denying):
                continue
        if _SUPPOSED.search(sentence):
            continue
        clauses = clauses_in(sentence)
        for clause in clauses:
            if len(clause.terms) < _LEAST - (len(clauses) == 1):
                continue
            sides = [
                (own.denied, place, said)
                for place, context in enumerate(contexts)
                if denies or denied_there[place]
                for own, said in _like(clause, context, clauses_in, None if denies else may_deny_there[place])
            ]
            opposite = [side for side in sides if side[0] != clause.denied]
            if opposite and not _is_stated(clause, contexts, clauses_in):
                found.append(Denial(at, clause.text, *opposite[0][1:]))
    return found


class _Clause(NamedTuple):
    text: str
    terms: frozenset[str]
    denied: bool
    across: frozenset[str]
    """Pairs of Han across the negation, which the opposite has: 上允 of 上不允许."""
    limits: frozenset[str]


def _may_deny(text: str) -> bool:
    low = text.lower()
    return any(map(low.__contains__, _QUICK if text.isascii() else _QUICK_ELSEWHERE))


def _may_deny_or_oppose(text: str) -> bool:
    return _may_deny(text) or _opposes(text)


def _opposes(text: str) -> bool:
    low = text.lower()
    if text.isascii():
        return any(map(low.__contains__, _OPPOSING_ASCII))
    return any(map(low.replace("ё", "е").__contains__, _OPPOSING))


@cache
def _opposite_terms() -> frozenset[str]:
    """Return the terms of all words of `opposites`."""
    return frozenset(chain.from_iterable(map(terms_of_line, (*_MEANING, *_DENYING))))


_MayDeny = Callable[[str], bool]
_ClausesIn = Callable[[str], list[_Clause]]


def _clauses(sentence: str) -> list[_Clause]:
    return [_clause(part.strip()) for part in _CLAUSES.split(sentence) if part.strip()]


def _clause(text: str) -> _Clause:
    opposed = 0

    def stated(found: re.Match[str]) -> str:
        nonlocal opposed
        word = found[0].lower()
        opposed += word in _DENYING
        meaning = _DENYING.get(word) or _MEANING.get(word)
        return f" {meaning} " if meaning else found[0]

    plain = _WORD.sub(stated, _DONE.sub("", text.replace("’", "'").replace("ё", "е")))
    bare = _NEGATION.sub(" ", plain)
    across: list[str] = []
    if bare != plain and has_han(plain):  # 楼有 of 楼没有
        across = [*terms_of_line(_NEGATION.sub("", plain)), *terms_of_line(plain.replace("没有", "有"))]
    dropped = russian_function_stems()
    return _Clause(
        text,
        frozenset(terms_of_line(bare)) - dropped - _AUXILIARY,
        (bare != plain) != (opposed % 2 == 1),
        frozenset(across),
        frozenset(map(str.lower, _LIMITS.findall(text))),
    )


_AUXILIARY = frozenset(
    [f"{verb}n" for verb in "does did do is are was were has have had should would could".split()]
) | frozenset("can won t ca wo need".split())
"""Remainders of contractions whose negation was cut out."""


def _like(
    said: _Clause, context: Analysis, clauses_in: _ClausesIn, may_deny: _MayDeny | None
) -> Iterator[tuple[_Clause, str]]:
    """Return the clauses of a chunk with these words and hardly any others, with their sentences."""
    terms = said.terms
    for sentence in _sentences_with(terms, context):
        if (may_deny is None or may_deny(sentence)) and not _SUPPOSED.search(sentence):
            clauses = clauses_in(sentence)
            for clause in clauses:
                there = clause.terms
                if len(there) > len(terms) + (1 if clause.denied else 2) or clause.limits != said.limits:
                    continue
                if len(terms) < _LEAST and (len(clauses) > 1 or there - terms - said.across):
                    continue
                # 狗 of 狗不可以 is in 狗可 of the opposite.
                begins = {one[0] for one in there}
                rest = [one for one in terms - there - clause.across if one not in begins]
                if not rest:
                    yield clause, sentence


def _sentences_with(terms: frozenset[str], context: Analysis) -> Iterator[str]:
    """Return the sentences of a chunk that have all these terms, but for those with an opposite."""
    terms -= _opposite_terms()
    letters = [*filter(is_han, frozenset("".join(terms)))] if context.has_han else ()
    if letters:
        lines = context.memoize(sentence_lines)
        for sentence, line in zip(context.sentences, lines, strict=True):
            if all(map(line.__contains__, letters)):
                yield sentence
        return
    for sentence, own in zip(context.sentences, context.sentence_sets, strict=True):
        if terms <= own:
            yield sentence


def _is_stated(clause: _Clause, contexts: Sequence[Analysis], clauses_in: _ClausesIn) -> bool:
    """Return whether a chunk also states the same: then nothing is contradicted."""
    return any(
        own.denied == clause.denied and clause.terms <= own.terms
        for context in contexts
        for sentence in _sentences_with(clause.terms, context)
        for own in clauses_in(sentence)
    )
