"""The drawings of the overview, as SVG text: shares over time, a fall, a share of a whole.

Horizontal positions are percentages, so that a drawing fills its column and its text is not stretched. The
count of each bin is a line of that height, one path per verdict, in a box that is stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup, escape

STRIP_HEIGHT, VOLUME_HEIGHT = 34, 7
AXIS_HEIGHT = 34
PAIR_WIDTH = 180
_WORDS = ("bad", "suspect", "good")
_ALL = STRIP_HEIGHT + 3 + VOLUME_HEIGHT

Bins = Sequence[tuple[int, int, int, int]]


def strip(
    bins: Bins, marks: Sequence[float] = (), *, label: str, said: Callable[[int], str] | None = None
) -> Markup:
    """Draw the shares of bad, suspect and good requests, bad at the bottom, and the number of requests below.

    Args:
        bins: Numbers of bad, suspect and good requests in each bin, and of those without a verdict. None at
            all: a gap.
        marks: Positions of deployments, 0 to 1.
        label: The drawing in one sentence.
        said: Returns the tooltip of a bin; None: no tooltips.
    """
    most = max([sum(one) for one in bins] + [1])
    paths: dict[str, str] = dict.fromkeys((*_WORDS, "volume"), "")
    hovers: list[str] = []
    for at, counts in enumerate(bins):
        if not sum(counts):
            continue
        judged, y = sum(counts[:3]), float(STRIP_HEIGHT)
        for word, n in zip(_WORDS, counts, strict=False):
            if n:
                high = STRIP_HEIGHT * n / judged
                y -= high
                gap = 1.0 if y > 0.5 else 0.0
                paths[word] += _column(at, y + gap, max(0.8, high - gap))
        tall = max(1.5, VOLUME_HEIGHT * sum(counts) / most)
        paths["volume"] += _column(at, _ALL - tall, tall)
        if said is not None:
            hovers.append(f'<rect x="{at}"><title>{escape(said(at))}</title></rect>')
    lines = "".join(
        f'<line class="mark" x1="{_percent(x)}" x2="{_percent(x)}" y1="-2" y2="{_ALL}"/>' for x in marks
    )
    return Markup(  # noqa: S704 -- numbers and class names of this module, and escaped texts
        f'<svg class="strip" height="{_ALL}" role="img" aria-label="{escape(label)}">'
        f'<svg viewBox="0 0 {max(1, len(bins))} {_ALL}" preserveAspectRatio="none" width="100%" '
        f'height="{_ALL}">'
        f'{_drawn(paths)}<g class="hover">{"".join(hovers)}</g></svg>{lines}</svg>'
    )


def axis(ticks: Sequence[tuple[float, str]], marks: Sequence[tuple[float, str]] = ()) -> Markup:
    """Draw the time axis, with deployments above it.

    Args:
        ticks: Positions, 0 to 1, and labels.
        marks: Positions and labels of deployments.
    """
    texts = [
        f'<text x="{_percent(x)}" y="{AXIS_HEIGHT - 4}" text-anchor="{"start" if x < 0.04 else "middle"}">'
        f"{escape(text)}</text>"
        for x, text in ticks
        if x < 0.97
    ]
    for x, text in marks:
        side, step = ("end", -5) if x > 0.55 else ("start", 5)
        texts.append(
            f'<text class="deployed" x="{_percent(x)}" dx="{step}" y="11" text-anchor="{side}">'
            f"{escape(text)}</text>"
            f'<line class="mark" x1="{_percent(x)}" x2="{_percent(x)}" y1="2" y2="{AXIS_HEIGHT}"/>'
        )
    return Markup(  # noqa: S704 -- as above
        f'<svg class="axis" height="{AXIS_HEIGHT}" aria-hidden="true">{"".join(texts)}</svg>'
    )


def pair(before: float | None, now: float, lower: float, upper: float, *, is_bad: bool) -> Markup:
    """Draw before (a ring) and now (a dot with its interval) on one scale from 0 to 1."""

    def x(value: float) -> float:
        return 6 + (PAIR_WIDTH - 12) * min(1.0, max(0.0, value))

    ring = "" if before is None else f'<circle class="before" cx="{x(before):.1f}" cy="7" r="4.5"/>'
    return Markup(  # noqa: S704 -- as above
        f'<svg class="pair{" bad" if is_bad else ""}" width="{PAIR_WIDTH}" height="14" aria-hidden="true" '
        f'viewBox="0 0 {PAIR_WIDTH} 14"><line class="rail" x1="6" x2="{PAIR_WIDTH - 6}" y1="7" y2="7"/>'
        f'<rect class="span" x="{x(lower):.1f}" y="4.5" width="{max(2.0, x(upper) - x(lower)):.1f}" height="5" '
        f'rx="2.5"/>{ring}<circle class="now" cx="{x(now):.1f}" cy="7" r="5"/></svg>'
    )


def bar(share: float, *, is_bad: bool = False) -> Markup:
    """Draw a share of a whole, in the size set by the style sheet."""
    kind = ' class="bad"' if is_bad else ""
    width = 100 * min(1.0, max(0.0, share))
    return Markup(f'<svg class="bar"><rect{kind} width="{width:.0f}%"/></svg>')  # noqa: S704 -- as above


def histogram(bins: Bins, *, label: str) -> Markup:
    """Draw counts over time at full width: bad, suspect, good, and without a verdict."""
    most = max((sum(one) for one in bins), default=0) or 1
    paths: dict[str, str] = dict.fromkeys((*_WORDS, "volume"), "")
    for at, one in enumerate(bins):
        y = float(_ALL)
        for kind, n in zip(paths, one, strict=True):
            y -= _ALL * n / most
            if n:
                paths[kind] += _column(at, y, _ALL * n / most)
    return Markup(  # noqa: S704 -- as above
        f'<svg class="strip" viewBox="0 0 {max(1, len(bins))} {_ALL}" height="{_ALL}" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(label)}">{_drawn(paths)}</svg>'
    )


def _drawn(paths: Mapping[str, str]) -> str:
    return "".join(f'<path class="{kind}" d="{d}"/>' for kind, d in paths.items() if d)


def _column(at: int, top: float, high: float) -> str:
    return f"M{at}.5 {top + high:.3g}V{top:.3g}"


def _percent(x: float) -> str:
    return f"{100 * x:.2f}%"
