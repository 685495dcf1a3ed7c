"""Find citation marks of chunks in an answer: [1], [1, 3], [2-4], [^1], 【1†source】.

The citation scores call this, and the comparisons of an answer's words. A number is a rank in the contexts;
its meaning after documents were reordered between the retriever and the prompt is unknown. The mark of a
tool's file, 【4:0†source】, is no word, and cites no rank.
"""

import re

from .analysis import Analysis, analyse
from .word_lists import read_pattern

# At most two digits: [2024] is a year. No link [1](url), and no definition of a footnote [^1]: ...
_MARK = re.compile(
    r"[\[【［]\s*(?:\^|(?:sources?|src|ref|reference|doc(?:ument)?s?|chunks?|passages?|context|"
    r"источники?|документы?|док|来源|文档|资料|資料|參考|参考|片段)\s*[:#№]?\s*)?"
    r"(?:(\d{1,2}(?:\s*[,;，、–—-]\s*\d{1,2}){0,30})\s*(?:†[^\[\]【】]{0,60})?|"
    r"\d{1,2}:\d{1,2}†[^\[\]【】]{0,60})[\]】］](?![(:：])",
    re.IGNORECASE,
)
_AFTER_STOP = re.compile(
    rf"(?P<stop>[.!?…。！？][\"'”’»)）」』]{{0,3}})[^\S\n]{{0,3}}(?P<marks>(?:{_MARK.pattern}[^\S\n]{{0,3}}){{1,9}})",
    re.IGNORECASE,
)
_NAMED = read_pattern("citations.named")
"""A chunk cited in words: "Passage 3 says", "according to sources 1 and 2"."""
_NUMBER = re.compile(r"\d{1,2}")
_SEPARATOR = re.compile("[,;，、]")
_RANGE = re.compile("[–—-]")
_LONGEST_RANGE = 20


def marks_inside(text: str) -> str:
    """Return the cleaned `text`, with marks after a full stop moved into the sentence before it."""
    return _AFTER_STOP.sub(lambda found: f" {found['marks'].strip()}{found['stop']} ", analyse(text).text)


def cited_numbers(sentence: str) -> list[int]:
    """Return the distinct numbers that a sentence cites, in order."""
    found: list[int] = []
    for mark in _MARK.finditer(sentence):
        for part in _SEPARATOR.split(mark[1]) if mark[1] else ():
            ends = [int(end) for end in _RANGE.split(part)]
            if len(ends) > 1 and 0 <= ends[-1] - ends[0] <= _LONGEST_RANGE:
                found += range(ends[0], ends[-1] + 1)
            else:
                found += ends
    for named in _NAMED.finditer(sentence):
        found += map(int, _NUMBER.findall(named[0]))
    return list(dict.fromkeys(found))


def without_marks(text: str) -> Analysis:
    """Return the analysis of a text without its citation marks."""
    known = analyse(text)
    brackets = any(map(known.text.__contains__, "[【［"))
    return known.memoize(_without_marks) if brackets and _MARK.search(known.text) else known


def _without_marks(known: Analysis) -> Analysis:
    return known.without(_MARK)
