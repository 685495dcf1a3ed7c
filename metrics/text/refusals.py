"""Classifies the sentences of an answer as refusals, claims and others.

`refusal`, `lexical_context_utilization` and the citation scores call this; the wordings are in
`words/refusals.txt`. Only known wordings count as refusals: some refusals are missed, and few answers are
mistaken for one.
"""

import re
from functools import cache
from typing import NamedTuple

from .analysis import Analysis
from .characters import HAN
from .function_words import has_cyrillic
from .word_lists import read_lines

LANGUAGES = ("en", "ru", "zh")
"""Languages in which refusals are recognised."""

_LETTERS = {"en": re.compile("[a-z]{2}|n/a"), "ru": re.compile("[а-я]{2}"), "zh": re.compile(f"[{HAN}]")}
_LONGEST_READ = 600
"""Characters of a sentence to examine; a refusal beyond them is missed."""
_LONGEST_MATCH = 120
_LAYOUT = re.compile(r"[\s*_`#]+")
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "´": "'", "ё": "е"})
_WRITTEN_OUT = (
    (re.compile(r"\bcan'?t\b|\bcannot\b"), "can not"),
    (re.compile(r"\bwon'?t\b"), "will not"),
    (re.compile(r"n't\b|(?<=\bdo)nt\b|(?<=\bdoes)nt\b|(?<=\bdid)nt\b|(?<=\bis)nt\b"), " not"),
    (re.compile(r"\bi'?m\b"), "i am"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"\b(it|that|there|this|what|one)'s\b"), r"\1 is"),
)
_WORD = re.compile(rf"[{HAN}]|[^\W_]+")
_LEAST_WORDS = 3
"""Least number of words, or Han characters, of a clause that claims something beside a refusal."""
_END = 4
"""Characters at the end of refusing words that identify their clause."""
_COMMA = re.compile("[,，]")
_QUESTION = re.compile(r"[?？]\W*\Z")
_SECTION = re.compile(r"\[([a-z_]+)\]")
_PART = re.compile(r"\{([a-z_]+)\}")
_QUOTED = re.compile('"[^"]{1,200}"|“[^”]{1,200}”|«[^»]{1,200}»|「[^」]{1,200}」')


class SentenceKind(NamedTuple):
    """The role of a sentence in an answer."""

    refuses: str | None
    """The words of the refusal, or None."""
    claims: bool
    """Whether it makes a claim: it does not only refuse, apologise, offer or refer elsewhere."""
    beside: str = ""
    """The part of a refusing sentence that claims: "..., but it leaves at nine"."""


_CLAIM = SentenceKind(None, claims=True)


@cache
def _wordings() -> dict[str, list[str]]:
    """Return the lines of ``words/refusals.txt`` by section, with references to parts expanded."""
    parts: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    section: list[str] = []
    for line in filter(None, read_lines("refusals")):
        begun = _SECTION.fullmatch(line)
        filled = _PART.sub(lambda found: parts[found[1]], line)
        if begun is not None:
            section = sections[begun[1]] = []
        elif len(sections) > 1:
            section.append(filled)
        else:
            name, _, parts[name] = filled.partition(": ")
    return sections


@cache
def _rules(language: str) -> list[re.Pattern[str]]:
    return list(map(re.compile, _wordings()[language]))


@cache
def _pattern(section: str) -> re.Pattern[str]:
    [wording] = _wordings()[section]
    return re.compile(wording)


@cache
def _words(section: str) -> frozenset[str]:
    [words] = _wordings()[section]
    return frozenset(words.split())


def sentence_kinds(known: Analysis) -> list[SentenceKind]:
    """Return the kind of each sentence of an answer. For ``known.memoize(sentence_kinds)``."""
    if known.has_han or has_cyrillic(known.text):
        return list(map(_kind, known.sentences))
    return [
        _CLAIM if _surely_claims(words) else _kind(sentence)
        for sentence, words in zip(known.sentences, known.sentence_tokens, strict=True)
    ]


def _surely_claims(words: list[str]) -> bool:
    """Return whether an English sentence has no word that every refusal or courtesy has."""
    return bool(words) and words[0] not in _words("courteous") and _words("refusing").isdisjoint(words)


def _kind(sentence: str) -> SentenceKind:
    kind = _kind_as_a_whole(sentence)
    if kind.refuses is None:
        return kind
    concession = _pattern("concession").match(sentence.casefold())
    start, parts = 0, []
    if concession is not None and (comma := _COMMA.search(sentence)):
        start = comma.end()
        parts = [sentence[concession.end() : comma.start()]]
    parts += _pattern("clause").split(sentence[start:_LONGEST_READ])
    beside = [part for part in parts if _says_something(part, kind.refuses)] if len(parts) > 1 else []
    return SentenceKind(kind.refuses, bool(beside), ", ".join(map(str.strip, beside)))


def _says_something(clause: str, refuses: str) -> bool:
    """Return whether a clause of a sentence with these refusing words claims something, not about the texts."""
    said = _plain(clause.casefold().translate(_APOSTROPHES)).strip()
    return (
        len(_WORD.findall(said)) >= _LEAST_WORDS
        and _kind_as_a_whole(clause).claims
        and refuses[-_END:] not in said
        and not _QUESTION.search(said)
        and not _pattern("about_texts").search(said)
    )


def _kind_as_a_whole(sentence: str) -> SentenceKind:
    text = _LAYOUT.sub(" ", sentence[:_LONGEST_READ].casefold().translate(_APOSTROPHES)).strip()
    plain = _plain(text)
    refusing = _refusing_words(_own_words(plain))
    if refusing is None and (":" in plain or "：" in plain):
        said = _pattern("answer_is").sub("", plain)
        refusing = _refusing_words(said) if said != plain else None
    polite = _pattern("courtesies").match(plain) or _pattern("greeting").match(plain)
    return SentenceKind(refusing, refusing is None and not polite)


def greets(known: Analysis) -> bool:
    """Return whether an answer begins with a greeting or thanks, and claims and refuses nothing."""
    kinds = known.memoize(sentence_kinds)
    return (
        bool(kinds)
        and not any(kind.claims or kind.refuses for kind in kinds)
        and _pattern("greeting").match(known.sentences[0].casefold()) is not None
    )


def asks_back(known: Analysis) -> bool:
    """Return whether an answer only asks: it ends with a question and claims at most one sentence.

    A question that only offers more ("Would you like ...?") does not count beside a claim.
    """
    sentences = known.sentences
    if not sentences:
        return False
    last = sentences[-1].casefold()
    if not (_QUESTION.search(last) or _pattern("clarifying").match(last)):
        return False
    others = [
        sentence
        for sentence, kind in zip(sentences[:-1], known.memoize(sentence_kinds), strict=False)
        if kind.claims and not _QUESTION.search(sentence)
    ]
    return len(others) <= 1 and not (others and _pattern("offer").match(last))


def _own_words(text: str) -> str:
    """Remove quotations, unless all is one, and the condition that a sentence begins with."""
    unquoted = _QUOTED.sub(" x ", text)
    if not _QUOTED.match(text) or len(_WORD.findall(unquoted)) > 1:
        text = unquoted
    return _pattern("condition").sub("", text)


def _refusing_words(text: str) -> str | None:
    for language, letters in _LETTERS.items():
        if language != "en" and text.isascii():
            break
        if letters.search(text) is None:
            continue
        hint, *rules = _rules(language)
        if hint.search(text) is None:
            continue
        for rule in rules:
            found = rule.search(text)
            if found is not None:
                return found.group().strip()[:_LONGEST_MATCH]
    return None


def _plain(text: str) -> str:
    """Expand contractions and remove adverbs of an English sentence in small letters."""
    if "'" in text or "nt" in text or "cannot" in text or "im " in text:
        for contraction, whole in _WRITTEN_OUT:
            text = contraction.sub(whole, text)
    return _pattern("adverbs").sub("", text)
