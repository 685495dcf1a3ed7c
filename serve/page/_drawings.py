"""The page's two drawings, as SVG text: a value on its scale, and a trend.

Made on the server: readable without a script, printable, deterministic and so testable as text. Colours come
from the style sheet by class; no attribute needs ``style=``, which the page's content policy forbids. On
every scale better is to the right, whichever direction the score has; colour means "worse than usual here" or
"better", never "below some number".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from ragmeter.metrics import ScoreDirection

SCALE_WIDTH, SCALE_HEIGHT = 88, 14
TREND_WIDTH, TREND_HEIGHT, COUNT_HEIGHT = 420, 44, 12
_LEAST_WIDTH = 1.5
"""Least width of an interval, so that one without width is still visible."""


class Scale(NamedTuple):
    """A value, its interval and the usual value, on the score's own range."""

    value: float
    """The value or mean."""
    lower: float | None = None
    """Lower end of its interval or bounds."""
    upper: float | None = None
    """Upper end of its interval or bounds."""
    usual: tuple[float, float] | None = None
    """The usual range; None: unknown, and nothing is coloured."""
    direction: ScoreDirection = "higher"
    """The better direction."""
    low: float = 0.0
    """Left end of the score's range."""
    high: float = 1.0
    """Right end."""
    coloured: bool = True
    """Whether it is coloured when outside the usual range."""

    def svg(self, width: int = SCALE_WIDTH) -> Markup:
        """Return the drawing; hidden from screen readers, as the numbers are beside it."""
        middle = SCALE_HEIGHT / 2
        start, end = self._span(self.lower, self.upper)
        kind = standing(self) if self.coloured else "flat"
        parts = [f'<rect class="rail" x="0" y="{middle - 1:.0f}" width="{width}" height="2"/>']
        if self.usual is not None:
            left, right = self._span(*self.usual)
            box = max(2.0, (right - left) * width)
            parts.append(
                f'<rect class="usual" x="{min(left * width, width - box):.1f}" y="2" '
                f'width="{box:.1f}" height="{SCALE_HEIGHT - 4}"/>'
            )
        span = max(_LEAST_WIDTH, (end - start) * width)
        parts.append(
            f'<rect class="span {kind}" x="{min(start * width, width - span):.1f}" y="4" '
            f'width="{span:.1f}" height="{SCALE_HEIGHT - 8}"/>'
        )
        point = min(width - 3.0, max(0.0, self._place(self.value) * width - 1.5))
        parts.append(f'<rect class="point {kind}" x="{point:.1f}" y="0" width="3" height="{SCALE_HEIGHT}"/>')
        return _svg("scale", width, SCALE_HEIGHT, "".join(parts))

    def _place(self, value: float) -> float:
        """Return the position of a value, from 0 (worst) to 1."""
        at = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return 1.0 - at if self.direction == "lower" else at

    def _span(self, lower: float | None, upper: float | None) -> tuple[float, float]:
        ends = (self.value if lower is None else lower, self.value if upper is None else upper)
        start, end = sorted(map(self._place, ends))
        return start, end


def standing(scale: Scale) -> str:
    """Return ``bad`` if the whole interval is worse than usual, ``good`` if better, else ``flat``.

    Without a known usual range, or without a better direction, it is ``flat``.
    """
    if scale.usual is None or scale.direction == "none":
        return "flat"
    least = scale.value if scale.lower is None else scale.lower
    most = scale.value if scale.upper is None else scale.upper
    below, above = most < min(scale.usual) - 1e-9, least > max(scale.usual) + 1e-9
    if scale.direction == "lower":
        below, above = above, below
    return "bad" if below else "good" if above else "flat"


class TrendPoint(NamedTuple):
    """One bin of a trend."""

    start: float
    """Start of the bin."""
    end: float
    """End of the bin, in the same unit."""
    mean: float | None
    """The mean; None: unknown, and the line has a gap."""
    lower: float
    """Lower end of the mean's interval."""
    upper: float
    """Upper end."""
    n: int
    """Number of values."""


def trend(
    points: Sequence[TrendPoint],
    start: float,
    end: float,
    *,
    label: str,
    low: float = 0.0,
    high: float = 1.0,
    change_at: float | None = None,
    other: Sequence[TrendPoint] = (),
) -> Markup:
    """Draw means over time with their intervals, and the numbers of values.

    Args:
        points: The bins, in order. A bin without a mean breaks the line.
        start: Left end of the drawing, in the points' unit.
        end: Right end; more than `start`.
        label: The drawing in one sentence, for people who cannot see it.
        low: Value at the bottom.
        high: Value at the top.
        change_at: Start of a change, as a dashed line; None: no change.
        other: A second line, of the segment at fault.
    """
    view = _View(start, end, low, high)
    body = [view.rule(high), view.rule(low)]
    for run in _runs(points):
        upper = [f"{view.x(one)},{view.y(one.upper)}" for one in run]
        lower = [f"{view.x(one)},{view.y(one.lower)}" for one in reversed(run)]
        if len(run) > 1:
            body.append(f'<polygon class="band" points="{" ".join(upper + lower)}"/>')
        body.append(view.line(run, "line"))
    body.extend(view.line(run, "other") for run in _runs(other))
    if change_at is not None and start <= change_at <= end:
        at = f"{(change_at - start) / (end - start) * TREND_WIDTH:.1f}"
        bottom = TREND_HEIGHT + COUNT_HEIGHT
        body.append(f'<line class="change" x1="{at}" x2="{at}" y1="0" y2="{bottom}"/>')
    body.append(view.counts(points))
    return _svg("trend", TREND_WIDTH, TREND_HEIGHT + COUNT_HEIGHT + 2, "".join(body), label)


class _View(NamedTuple):
    """Maps times and values to positions."""

    start: float
    end: float
    low: float
    high: float

    def at(self, time: float) -> float:
        share = (time - self.start) / (self.end - self.start)
        return min(1.0, max(0.0, share)) * TREND_WIDTH

    def x(self, point: TrendPoint) -> str:
        return _short((self.at(point.start) + self.at(point.end)) / 2)

    def y(self, value: float) -> str:
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return _short(3 + (1 - share) * (TREND_HEIGHT - 6))

    def rule(self, value: float) -> str:
        y = self.y(value)
        return f'<line class="rule" x1="0" x2="{TREND_WIDTH}" y1="{y}" y2="{y}"/>'

    def line(self, run: Sequence[TrendPoint], kind: str) -> str:
        places = [(self.x(one), self.y(one.mean or 0.0)) for one in run]
        if len(places) == 1:
            (x, y), *_ = places
            return f'<circle class="{kind}" cx="{x}" cy="{y}" r="2"/>'
        return f'<polyline class="{kind}" points="{" ".join(",".join(at) for at in places)}"/>'

    def counts(self, points: Sequence[TrendPoint]) -> str:
        """Draw a bar for each bin, as high as its number of values."""
        rates = [one.n / max(1e-9, one.end - one.start) for one in points]
        most = max(rates, default=0.0)
        bars: list[str] = []
        for one, rate in zip(points, rates, strict=True):
            if not rate:
                continue
            tall = _short(max(1.0, COUNT_HEIGHT * rate / most))
            left = round(self.at(one.start))
            wide = max(1, round(self.at(one.end)) - left - 1)
            bars.append(f"M{left} {TREND_HEIGHT + COUNT_HEIGHT}h{wide}v-{tall}h-{wide}z")
        return f'<path class="count" d="{"".join(bars)}"/>' if bars else ""


def _short(place: float) -> str:
    return f"{place:.1f}".removesuffix(".0")


def _runs(points: Sequence[TrendPoint]) -> list[list[TrendPoint]]:
    """Return the runs of bins without a gap."""
    runs: list[list[TrendPoint]] = [[]]
    for one in points:
        if one.mean is None or not math.isfinite(one.mean):
            runs.append([])
        else:
            runs[-1].append(one)
    return [run for run in runs if run]


def _svg(kind: str, width: int, height: int, body: str, label: str | None = None) -> Markup:
    said = 'aria-hidden="true"' if label is None else f'role="img" aria-label="{escape(label)}"'
    return Markup(  # noqa: S704 -- numbers and class names of this module, and an escaped label
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f"{said}>{body}</svg>"
    )
