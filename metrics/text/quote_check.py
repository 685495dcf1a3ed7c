"""Check a judge's quotations against the text: copied words, or a restatement.

The batching of the judge and the metrics with extracted texts call it. Otherwise a judge that invents a name,
an answer or a claim would determine the numbers itself.
"""

from __future__ import annotations

from .analysis import analyse
from .entities import stands_in
from .named_entities import named_entities
from .sentences import sentences
from .tokens import content_tokens, tokens

_LEAST_SHARED = 0.5
"""Least share of a restatement's content words that its text has; names for pronouns come from there, too."""
_NEGATIONS = frozenset({"no", "not", "nor", "never", "without"})
"""English negations, which are no content words; those of other languages are."""
_SHORT = 3
"""Most tokens of a whole sentence that may be nothing but a name."""


def stands_as_entity(entity: str, source: str) -> bool:
    """Return whether `entity` was copied from `source`.

    The text has it by the tiers of `EntityFinder`, or has several of its words, without a digit, in a row. A
    single word and a number need the tiers: US is not us, nor 5 % five dollars.
    """
    words = tokens(entity)
    if words and stands_in(entity, source):
        return True
    return len(words) > 1 and not any(map(str.isdigit, entity)) and _in_a_row(words, source)


def is_sentence_of(entity: str, source: str) -> bool:
    """Return whether `entity` is a whole sentence of `source`, or all of it, and so not a name.

    A sentence that consists only of a name is a name, and so is a very short one.
    """
    words = tokens(entity)
    if len(words) <= _SHORT:
        return False
    if all(words != tokens(whole) for whole in (source, *sentences(source))):
        return False
    return all(words != tokens(name) for name in named_entities(entity))


def is_answer_from(answer: str, source: str) -> bool:
    """Return whether the short `answer` was taken from `source`.

    As an entity or in a row of tokens; or in pieces, if all its content words and negations are there.
    """
    words = tokens(answer)
    if not words:
        return False
    content = [*content_tokens(answer), *_NEGATIONS.intersection(words)]
    there = analyse(source).content_set | _NEGATIONS.intersection(analyse(source).tokens)
    in_pieces = bool(content) and there.issuperset(content)
    return in_pieces or _in_a_row(words, source) or stands_in(answer, source)


def is_restatement(claim: str, source: str) -> bool:
    """Return whether at least half of the content words of `claim` are in `source`."""
    words = content_tokens(claim) or tokens(claim)
    if not words:
        return False
    there = analyse(source).content_set | frozenset(analyse(source).tokens)
    return sum(word in there for word in words) >= _LEAST_SHARED * len(words)


def _in_a_row(words: list[str], source: str) -> bool:
    return f" {' '.join(words)} " in f" {' '.join(analyse(source).tokens)} "
