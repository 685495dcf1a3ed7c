"""Formats numbers, words and quotations for explanations, summaries, reasons and tables.

An explanation may quote the request's texts; a summary has only ids, counts and numbers.
"""

from collections.abc import Iterable, Mapping, Sequence

SHORT_STATUSES: Mapping[str, str] = {
    "missing_input": "n/a",
    "undefined": "–",
    "skipped": "skip",
    "judge_error": "err",
    "metric_error": "err",
    "timeout": "time",
    "partial": "part",
}
"""Content of a narrow cell without a value, by status."""
STATUS_MEANINGS: Mapping[str, str] = {
    "n/a": "the request lacks what it is compared with",
    "–": "undefined, the formula has nothing to divide by",
    "skip": "not measured",
    "err": "failed",
    "time": "took too long",
    "part": "known in part only",
}
"""The meaning of the words in such cells."""

_LONGEST_QUOTE = 80
_MOST_SHOWN = 5


def percent(share: float) -> str:
    """Return ``62 %``; only exactly 0 and 1 give ``0 %`` and ``100 %``."""
    whole = round(share * 100)
    if 0 < share < 1:
        whole = min(max(whole, 1), 99)
    return f"{whole} %"


def value_text(value: float, ends: tuple[float | None, float | None]) -> str:
    """Return a score's value with two decimals, a whole number of a count without."""
    if ends != (0.0, 1.0) and value == int(value):
        return str(int(value))
    return f"{value:.2f}"


def number_of(number: float, thing: str, things: str | None = None) -> str:
    """Return ``1 word``, ``2 words``, ``2.5 words``."""
    return f"{number:g} {thing if number == 1 else things or f'{thing}s'}"


def quote_text(text: str | None, longest: int = _LONGEST_QUOTE) -> str:
    """Return the first `longest` characters of `text` in quotation marks, on one line."""
    line = " ".join((text or "")[: 4 * longest].split())
    if len(line) > longest:
        line = f"{line[: longest - 1].rstrip()}…"
    return f"“{line}”"


def first_words(words: Sequence[str]) -> str:
    """Return the first few of `words`, separated by commas."""
    more = ", …" if len(words) > _MOST_SHOWN else ""
    return ", ".join(words[:_MOST_SHOWN]) + more


def listed_ids(numbers: Iterable[int], thing: str) -> str:
    """Return ``chunk 2``, ``chunks 1 and 3``, ``chunks 1, 2 and 5``; many are cut off."""
    shown = list(map(str, numbers))
    if len(shown) == 1:
        return f"{thing} {shown[0]}"
    if len(shown) > _MOST_SHOWN:
        return f"{thing}s {', '.join(shown[:_MOST_SHOWN])}, …"
    return f"{thing}s {', '.join(shown[:-1])} and {shown[-1]}"
