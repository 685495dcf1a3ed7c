"""Words of an answer without a claim: about the given texts, the question and the answer itself.

"Based on the provided passages, here is my answer" can be in no chunk and is not invented. `claim_terms`
leaves these words out, and also English function words beyond `stems.STOP_WORDS`, which stay in the tokens
because other scores are defined by them; likewise sentences that only agree, laugh or admire ("Yes, it is!").
`claim_texts` are sentences without such introductions. To add a word, add it to the list of its language.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from .analysis import Analysis
from .function_words import HAN_GRAMMAR, has_cyrillic, russian_function_stems
from .refusals import sentence_kinds
from .stems import CONTENT, stem
from .terms import sentence_terms, terms_of_line
from .tokens import has_han, normalise
from .word_lists import read_entries, read_pattern

_HAN_REPLY = read_pattern("framing.han_reply")
_REPLY = read_pattern("framing.reply")
"""The beginning of a sentence that only agrees or disagrees: what follows it claims."""
_WORD = re.compile(r"[^\W_]+")
_AFTER_LEAD = " \t,:;，：；、—–-…"
_HAN_FRAMING = read_pattern("framing.han_framing")
_LIST_MARK = read_pattern("framing.list_mark")
_LABELS = read_pattern("framing.labels")
"""Numbers that only enumerate: of a step, a passage; and round the clock."""
_HAN_DENYING = frozenset("不没未无")
"""Characters that claim something beside any other."""
_SHORT_NUMBER = re.compile("[0-9](?<![0-9]{2})[0-9]{0,2}(?![0-9])")
"""A number that may be one; begins with a digit, so that the search jumps to them."""
_LISTED = re.compile(r"(?<![^\s:;,.：；，。])[(（]?(\d{1,2})[.)、）．](?![\d)])")
"""Numbers of list items within a line."""
_MAY_BE_LISTED = re.compile("[0-9][.)、）．]")


_FENCED = re.compile(r"^[ \t]*(```+|~~~+)(.*?)(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_PROSE = frozenset("text txt plain plaintext markdown md".split())


class _FramingWords(NamedTuple):
    """Stems without a claim."""

    framing: frozenset[str]
    claimless: frozenset[str]
    """These, function words and interjections."""
    replies: frozenset[str]


@lru_cache(maxsize=1)
def _words() -> _FramingWords:
    stems = {kind: frozenset(map(stem, words)) for kind, words in read_entries("claimless").items()}
    framing, replies = stems["framing"], stems.pop("replies")
    return _FramingWords(framing, russian_function_stems().union(*stems.values()), replies)


def fenced_code(known: Analysis) -> str:
    """Return the lines of code in an answer: their numbers and names are there to be typed.

    None in an answer that is fenced as a whole, and in prose (```markdown). For ``known.memoize(fenced_code)``.
    """
    if "```" not in known.text and "~~~" not in known.text:
        return ""
    if not _FENCED.sub("", known.text).strip():
        return ""
    fenced = [found[2].partition("\n") for found in _FENCED.finditer(known.text)]
    blocks = [lines for name, _, lines in fenced if name.strip().lower() not in _PROSE]
    return "\n".join([" ".join(line.split()) for line in "\n".join(blocks).split("\n")])


def compared_terms(known: Analysis) -> list[list[str]]:
    """Return the terms of each sentence of an answer, without list marks and Russian function words.

    For ``known.memoize(compared_terms)``.
    """
    found = [
        terms if text is sentence else terms_of_line(text)
        for terms, text, sentence in zip(
            known.memoize(sentence_terms), known.memoize(_unlisted), known.sentences, strict=True
        )
    ]
    if not has_cyrillic(known.text):
        return found
    dropped = russian_function_stems()
    return [[term for term in sentence if term not in dropped] for sentence in found]


def claim_texts(known: Analysis) -> list[str]:
    """Return the sentences of an answer reduced to the parts that may claim something.

    These are without refusals, enumerating numbers and introductory words about the texts. For
    ``known.memoize(claim_texts)``.
    """
    words = _words()
    return [
        _claim_text(kind.beside or text, words)
        for text, kind in zip(known.memoize(_unlisted), known.memoize(sentence_kinds), strict=True)
    ]


def _unlisted(known: Analysis) -> list[str]:
    """Return the sentences without marks of lists; the same objects where there are none.

    Within a line these are numbers that count up from 1. For ``known.memoize(_unlisted)``.
    """
    texts = known.sentences.copy()
    counting: list[tuple[int, re.Match[str]]] = []
    left_out: list[tuple[int, re.Match[str]]] = []
    for at, text in enumerate(texts):
        for one in _LISTED.finditer(text) if _MAY_BE_LISTED.search(text) else ():
            number = int(one[1])
            if number == len(counting) + 1:
                counting.append((at, one))
            else:
                counting = [(at, one)] if number == 1 else []
            if len(counting) > 1:
                left_out += counting[-2:]
    for at, mark in reversed(dict.fromkeys(left_out)):
        start, end = mark.span()
        texts[at] = f"{texts[at][:start]} {texts[at][end:]}".strip()
    for at, text in enumerate(texts):
        if begun := _LIST_MARK.match(text):
            texts[at] = text[begun.end() :].lstrip(_AFTER_LEAD)
    return known.sentences if texts == [""] else texts  # an answer that is a number


def _claim_text(sentence: str, words: _FramingWords) -> str:
    bare = _LABELS.sub(" ", sentence) if _SHORT_NUMBER.search(sentence) else sentence
    reply = _REPLY.match(bare)
    if reply is not None and reply.end() < len(bare):
        bare = bare[reply.end() :].lstrip()
    if has_han(bare):
        framed = _HAN_FRAMING.sub("，", bare)
        return bare if framed == bare else framed.strip("，, ")
    lead = first = 0
    for word in _WORD.finditer(bare):
        stemmed = CONTENT[normalise(word[0])]
        first = word.start()
        if stemmed is not None and stemmed not in words.claimless:
            break
        if stemmed in words.framing:
            lead = word.end()
    if lead:
        lead = max(lead, *(bare.rfind(mark, lead, first) + 1 for mark in ",:"))
        return bare[lead:].lstrip(_AFTER_LEAD)
    return bare if bare == sentence else bare.lstrip(_AFTER_LEAD)


def claim_terms(known: Analysis) -> list[list[str]]:
    """Return the claiming terms of each sentence of an answer; empty for one that only refuses.

    For ``known.memoize(claim_terms)``.
    """
    words = _words()
    found: list[list[str]] = []
    for terms, sentence, text, kind in zip(
        known.memoize(compared_terms),
        known.sentences,
        known.memoize(claim_texts),
        known.memoize(sentence_kinds),
        strict=True,
    ):
        if not (kind.refuses is None or kind.beside) or (has_han(text) and _HAN_REPLY.match(text)):
            found.append([])
            continue
        own = terms if text == sentence else terms_of_line(text)
        said = [term for term in own if term not in words.claimless]
        if has_han(text):
            said = [term for term in said if HAN_GRAMMAR.isdisjoint(term) or _HAN_DENYING & {*term}] or said
        found.append([] if words.replies.issuperset(said) else said)
    return found
