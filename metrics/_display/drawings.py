"""Two drawings of results, as SVG text: the distribution of a score, and the shares of verdicts.

For notebooks and the report of `ragmeter evaluate --html`. Made without a script and deterministic. Colours
come from `html` by class; better is to the right, whichever direction a score has.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from .summary import ScoreSummary
from .wording import number_of, value_text

BINS = 20
WIDTH, BARS, RAIL, HEIGHT = 176, 26, 33, 48
_LEAST_BAR, _LEAST_SPAN = 1.5, 2.0
_BAR_WIDTH = 1000


def distribution(one: ScoreSummary) -> str:
    """Draw the distribution of values with the mean and its 95 % interval below; empty without values."""
    if not one.count or one.mean is None:
        return ""
    counts, low, high = one.histogram(BINS)
    turned = one.direction == "lower"

    def x(value: float) -> float:
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return 2 + (1.0 - share if turned else share) * (WIDTH - 4)

    tallest = max(counts)
    parts = []
    for number, count in enumerate(counts):
        if not count:
            continue
        start, end = (low + (high - low) * edge / BINS for edge in (number, number + 1))
        left, right = sorted((x(start), x(end)))
        tall = max(_LEAST_BAR, (BARS - 2) * count / tallest)
        parts.append(
            f'<rect class="count" x="{left + 0.5:.1f}" y="{BARS - tall:.1f}" '
            f'width="{right - left - 1:.1f}" height="{tall:.1f}">'
            f"<title>{start:.3g} to {end:.3g}: {count}</title></rect>"
        )
    parts.append(f'<rect class="rail" x="2" y="{RAIL - 1}" width="{WIDTH - 4}" height="2"></rect>')
    if one.interval95 is not None:
        left, right = sorted(map(x, one.interval95))
        span = max(_LEAST_SPAN, right - left)
        parts.append(
            f'<rect class="span" x="{min(left, WIDTH - 2 - span):.1f}" y="{RAIL - 4}" '
            f'width="{span:.1f}" height="8"></rect>'
        )
    at = min(WIDTH - 5.0, max(2.0, x(one.mean) - 1.5))
    parts.append(f'<rect class="point" x="{at:.1f}" y="{RAIL - 6}" width="3" height="12"></rect>')
    first, last = (high, low) if turned else (low, high)
    parts.append(
        f'<text x="2" y="{HEIGHT - 2}">{_end(first, one)}</text>'
        f'<text x="{WIDTH - 2}" y="{HEIGHT - 2}" text-anchor="end">{_end(last, one)}</text>'
    )
    return _svg("spread", WIDTH, HEIGHT, "".join(parts), _description(one, low, high))


def _end(value: float, one: ScoreSummary) -> str:
    return f"{value:.3g}" if one.range == (0.0, 1.0) else value_text(value, one.range)


def _description(one: ScoreSummary, low: float, high: float) -> str:
    mean = "" if one.mean is None else f"; mean {one.mean:.2f}"
    if one.interval95 is not None:
        mean += ", 95 % interval {:.2f} to {:.2f}".format(*one.interval95)
    return f"{number_of(one.count, 'value')} of {one.name} from {low:.3g} to {high:.3g}{mean}"


def verdict_bar(words: Mapping[str, int], unjudged: int = 0) -> str:
    """Draw the numbers of good, suspect, bad and unjudged requests as parts of one bar."""
    parts = [*((word, words.get(word, 0)) for word in ("bad", "suspect", "good")), ("", unjudged)]
    total = sum(count for _, count in parts)
    if not total:
        return ""
    drawn, left = "", 0.0
    for word, count in parts:
        width = _BAR_WIDTH * count / total
        if count:
            drawn += (
                f'<rect class="{word or "unknown"}" x="{left:.1f}" y="1" '
                f'width="{max(1.0, width - 3):.1f}" height="14"></rect>'
            )
        left += width
    said = ", ".join(f"{count} {word or 'without a verdict'}" for word, count in parts if count)
    return _svg("verdicts", _BAR_WIDTH, 16, drawn, said, ' preserveAspectRatio="none"')


def _svg(kind: str, width: int, height: int, body: str, label: str, more: str = "") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" width="{width}" height="{height}"{more} '
        f'role="img" aria-label="{escape(label)}">{body}</svg>'
    )
