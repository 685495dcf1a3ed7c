"""SVG plot of the growth of cost with size, from the rows of ``deterministic_metrics``: two log-log panels.

``run.py`` calls it when it writes RESULTS.md, so that plot and table are of the same run. It draws the rows
and measures nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from measure import Row

SIZE = re.compile(r"PrecisionRecallF1 (rouge_\w+), (\d+) × 3 × (\d+) words")
COLOURS = {"ragmeter": "#0072b2", "continuous-eval": "#d55e00"}
DASHES = {"rouge_chunk_match": "", "rouge_sentence_match": "5 3"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 340, 250, 75, 40, 90
Points = dict[tuple[str, str], dict[int, float]]


def panels(rows: Iterable[Row]) -> dict[str, Points]:
    """Return, for words and for chunks, milliseconds by size of each package and strategy."""
    by_words: Points = {}
    by_chunks: Points = {}
    for row in rows:
        found = SIZE.fullmatch(row.what)
        if found is None or row.ours is None:
            continue
        strategy, chunks, words = found[1], int(found[2]), int(found[3])
        for package, value in (("ragmeter", row.ours), (row.peer_name, row.peer)):
            if package is None or value is None:
                continue
            if chunks == 10:
                by_words.setdefault((package, strategy), {})[words] = value
            if words == 100:
                by_chunks.setdefault((package, strategy), {})[chunks] = value
    return {"words per chunk, 10 × 3 chunks": by_words, "retrieved chunks, n × 3 × 100 words": by_chunks}


def panel(title: str, points: Points, left: float, low: int, high: int) -> list[str]:
    """Return the elements of one panel; `low` and `high`: decades of milliseconds."""
    sizes = sorted({size for line in points.values() for size in line})
    first, last = math.log10(sizes[0]), math.log10(max(sizes[-1], sizes[0] * 2))

    def x(size: float) -> float:
        return left + WIDTH * (math.log10(size) - first) / (last - first)

    def y(ms: float) -> float:
        return TOP + HEIGHT * (high - math.log10(ms)) / (high - low)

    out = [f'<text x="{left}" y="{TOP - 14}" font-weight="bold">CPU by {title}</text>']
    for decade in range(low, high + 1):
        at, label = y(10.0**decade), f"{10.0**decade:g} ms"
        out.append(f'<path d="M{left} {at:.1f}h{WIDTH}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for size in sizes:
        out.append(f'<path d="M{x(size):.1f} {TOP}v{HEIGHT}" stroke="#eee"/>')
        middle = f'x="{x(size):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle"'
        out.append(f"<text {middle}>{size}</text>")
    for (package, strategy), line in points.items():
        places = [(x(size), y(ms)) for size, ms in sorted(line.items())]
        way = "L".join(f"{px:.1f} {py:.1f}" for px, py in places)
        look = f'stroke="{COLOURS[package]}" stroke-dasharray="{DASHES[strategy]}"'
        out.append(f'<path d="M{way}" fill="none" stroke-width="2" {look}/>')
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{COLOURS[package]}"/>' for px, py in places]
    return out


def draw(rows: Iterable[Row]) -> str | None:
    """Return the plot, or None if the rows lack its data."""
    found = panels(rows)
    values = [ms for points in found.values() for line in points.values() for ms in line.values()]
    if not all(found.values()) or min(values) <= 0:
        return None
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    width, height = LEFT + 2 * WIDTH + GAP + 25, TOP + HEIGHT + 60
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (title, points) in enumerate(found.items()):
        out += panel(title, points, LEFT + number * (WIDTH + GAP), low, max(high, low + 1))
    for number, (package, strategy) in enumerate(dict.fromkeys(key for p in found.values() for key in p)):
        at, base = 20 + number * 212, height - 14
        look = f'stroke="{COLOURS[package]}" stroke-dasharray="{DASHES[strategy]}"'
        out.append(f'<path d="M{at} {base - 4}h24" stroke-width="2" {look}/>')
        name = strategy.removeprefix("rouge_").removesuffix("_match")
        out.append(f'<text x="{at + 30}" y="{base}">{package}, by {name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
