"""Separate the words of a question that name its topic from those that only ask.

`lexical_context_relevance` calls this: "How long does a refund take?" is about a refund, and a chunk with
"Refunds are paid within 14 days." is on topic although it has no "long" and no "take". The lists are English,
Russian and Chinese; to add a word, add it to the list of its language.
"""

from functools import cache
from itertools import chain

from .analysis import Analysis, analyse
from .function_words import russian_function_stems
from .stems import stem
from .terms import sentence_terms
from .tokens import has_han, is_han
from .word_lists import read_entries, read_pattern

# Removed before bigrams are made, or their pieces would count as topics; the longest first.
_CHINESE = read_pattern("question_words.chinese")
CHINESE_FUNCTION = frozenset(
    "的了吗呢吧啊是在有和与及或也都就而但被把将从到对于为以之其这那哪谁什么怎样如何多少几个请问我你您他她它们会能可要不没"
)
"""A bigram of two of these names no topic."""
_CONTRACTIONS = read_pattern("question_words.contractions")


@cache
def _stems_of(*lists: str) -> frozenset[str]:
    """Return the stems of lists of ``words/asking.txt``."""
    words = chain.from_iterable(map(read_entries("asking").__getitem__, lists))
    return frozenset(map(stem, words))


def topic_terms(known: Analysis) -> list[str]:
    """Return the distinct terms of a question that name its topic; all of them if none would remain.

    Empty if all are courtesies: "Hello", "Thank you".

    To be used as ``known.memoize(topic_terms)``.
    """
    text = _CONTRACTIONS.sub(" ", known.plain)
    if has_han(text):
        text = _CHINESE.sub(" ", text)
    every = _distinct_terms(analyse(text)) or _distinct_terms(known)
    asking, function = _stems_of("english", "russian"), russian_function_stems()
    topic = [
        term
        for term in every
        if term not in asking
        and term not in function
        and not (is_han(term) and CHINESE_FUNCTION.issuperset(term))
    ]
    return [] if _stems_of("courtesies").issuperset(every) else topic or every


_TURN = read_pattern("question_words.turn")
_KEY_WORDS = 12
"""Most words of a text without sentence marks that counts as a search rather than a turn of a chat."""


def asks(known: Analysis) -> bool:
    """Return whether a turn asks: a question mark, an asking word or command, or key words to search for."""
    text = known.plain
    if "?" in text or "？" in text or (has_han(text) and _CHINESE.search(text)):
        return True
    words = known.tokens
    asking = _stems_of("english", "russian") - _stems_of("small_talk") - russian_function_stems()
    if any(stem(word) in asking for word in words if word not in _MEANINGLESS):
        return True
    return len(words) <= _KEY_WORDS and _TURN.search(text) is None


_MEANINGLESS = frozenset("s t".split())


def _distinct_terms(known: Analysis) -> list[str]:
    sentences = known.memoize(sentence_terms)
    return list(dict.fromkeys(term for sentence in sentences for term in sentence))
