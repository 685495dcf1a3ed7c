"""SVG pictures of the detector's input: a fall with an alarm, and a mean that only moves.

``python benchmarks/alarms_plot.py`` writes the pictures of docs/quality.md, from simulated traffic with
separate seeds and the shipped detector. It measures nothing: `alarms.py` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from alarms import LEARNING_WEEKS, PER_DAY, PER_HOUR, PER_WEEK, PLAIN, Numbers, Scene, Traffic, world

from ragmeter.watch.change import FallDetector
from ragmeter.watch.evidence import ALARM_EVIDENCE

INTO = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, LEFT, TOP, HIGH, LOW_TOP, LOW_HIGH = 700, 75, 40, 210, 300, 110
LOWEST, HIGHEST, DECADES = 0.4, 1.0, 6
DAYS = 7
RATE = 120
QUARTER = 3
"""Blocks of an hour: evidence is drawn once per hour."""
MEAN, USUAL, FLOOR, BAD, GOOD = "#999", "#0072b2", "#d55e00", "#b00020", "#00794f"


@dataclass
class Seen:
    """The course of the watched days, by block."""

    means: list[tuple[float, float]] = field(default_factory=list)
    """Days since the start, and the mean of an hour."""
    usual: list[tuple[float, float]] = field(default_factory=list)
    floor: list[tuple[float, float]] = field(default_factory=list)
    evidence: list[tuple[float, float]] = field(default_factory=list)
    alarms: list[float] = field(default_factory=list)
    over: list[float] = field(default_factory=list)


def watched(traffic: Traffic) -> Seen:
    """Return a detector's values on traffic, after two weeks in which it learned."""
    detector, seen = FallDetector(), Seen()
    first = LEARNING_WEEKS * PER_WEEK
    for index, (at, block) in enumerate(traffic.blocks()):
        step = detector.step(at, block)
        day = (index - first) / PER_DAY
        if step.evidence >= ALARM_EVIDENCE:
            detector.alarm(at)
            seen.alarms.append(day)
        if index < first:
            continue
        if step.recovered:
            seen.over.append(day)
        if index % QUARTER == 0:
            seen.evidence.append((day, step.evidence))
        if index % PER_HOUR == 0 and step.baseline is not None and step.floor is not None:
            seen.usual.append((day, step.baseline))
            seen.floor.append((day, step.floor))
    hours = range(first, len(traffic.n), PER_HOUR)
    for start in hours:
        n = traffic.n[start : start + PER_HOUR].sum()
        if n >= PER_HOUR:
            total = traffic.total[start : start + PER_HOUR].sum()
            seen.means.append(((start - first + PER_HOUR / 2) / PER_DAY, float(total / n)))
    return seen


def draw(seen: Seen, title: str, fell: float | None) -> str:
    """Return a picture: means, usual range and floor above, evidence below."""
    height = LOW_TOP + LOW_HIGH + 50
    size = f'viewBox="0 0 {WIDTH + LEFT + 30} {height}" width="{WIDTH + LEFT + 30}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH + LEFT + 30}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>',
        f'<text x="{LEFT}" y="{LOW_TOP - 10}">evidence for a fall</text>',
    ]
    for tenth in range(round(10 * LOWEST), round(10 * HIGHEST) + 1, 2):
        out += _tick(_mean_y(tenth / 10), f"{tenth / 10:.1f}")
    for decade in range(0, DECADES + 1, 2):
        out += _tick(_evidence_y(10.0**decade), f"{10**decade:,}")
    for day in range(DAYS + 1):
        across = f'text-anchor="middle" x="{_x(day):.1f}" y="{LOW_TOP + LOW_HIGH + 18}"'
        out.append(f"<text {across}>day {14 + day}</text>")
    dashes = f'stroke="{FLOOR}" stroke-dasharray="6 3"'
    limit = _evidence_y(ALARM_EVIDENCE)
    said = "an alarm, by chance once in four weeks at most"
    out += [
        f'<path d="{_way(seen.means, _mean_y)}" fill="none" stroke="{MEAN}"/>',
        f'<path d="{_way(seen.usual, _mean_y)}" fill="none" stroke="{USUAL}" stroke-width="2"/>',
        f'<path d="{_way(seen.floor, _mean_y)}" fill="none" stroke-width="2" {dashes}/>',
        f'<path d="{_way(seen.evidence, _evidence_y)}" fill="none" stroke="{BAD}"/>',
        f'<path d="M{LEFT} {limit:.1f}h{WIDTH}" {dashes}/>',
        f'<text x="{LEFT + 4}" y="{limit - 4:.1f}" fill="{FLOOR}">{said}</text>',
    ]
    if fell is not None:
        out += _event(fell, "the fall", MEAN, "end")
    for number, day in enumerate(seen.alarms):
        said = "still bad" if number else f"alarm, {24 * (day - (fell or 0)):.1f} h later"
        out += _event(day, said, BAD, "start", number % 2)
    for day in seen.over:
        out += _event(day, "over", GOOD, "start")
    legend = (("mean of an hour", MEAN), ("usual in this hour", USUAL), ("floor", FLOOR))
    for number, (said, colour) in enumerate(legend):
        at = LEFT + 170 * number
        out.append(
            f'<path d="M{at} {height - 14}h24" stroke-width="2" stroke="{colour}"/>'
            f'<text x="{at + 30}" y="{height - 10}">{said}</text>'
        )
    return "\n".join([*out, "</svg>"]) + "\n"


def _x(day: float) -> float:
    return LEFT + WIDTH * day / DAYS


def _mean_y(mean: float) -> float:
    return TOP + HIGH * (HIGHEST - min(max(mean, LOWEST), HIGHEST)) / (HIGHEST - LOWEST)


def _evidence_y(evidence: float) -> float:
    decade = min(max(math.log10(max(evidence, 1.0)), 0.0), DECADES)
    return LOW_TOP + LOW_HIGH * (1 - decade / DECADES)


def _way(points: list[tuple[float, float]], y: Callable[[float], float]) -> str:
    return "M" + "L".join(f"{_x(day):.1f} {y(value):.1f}" for day, value in points)


def _tick(y: float, said: str) -> list[str]:
    return [
        f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#eee"/>',
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{said}</text>',
    ]


def _event(day: float, said: str, colour: str, anchor: str, row: int = 0) -> list[str]:
    aside = 4 if anchor == "start" else -4
    look = f'fill="{colour}" text-anchor="{anchor}"'
    return [
        f'<path d="M{_x(day):.1f} {TOP}V{LOW_TOP + LOW_HIGH}" stroke="{colour}"/>',
        f'<text x="{_x(day) + aside:.1f}" y="{TOP + 12 + 16 * row}" {look}>{said}</text>',
    ]


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    slots = np.arange(round((LEARNING_WEEKS + DAYS / 7) * PER_WEEK))
    days = slots / PER_DAY - 7 * LEARNING_WEEKS
    fell = 2.4
    lower: Numbers = np.where((days >= fell) & (days < 5.0), 0.12, 0.0)
    weeks = len(slots) / PER_WEEK
    fall = world(PLAIN, RATE, weeks, np.random.default_rng(31), lower)
    moves = Scene("", daily_quality=0.08, wander=0.03)
    moving = world(moves, RATE, weeks, np.random.default_rng(32))
    return {
        "alarm-fall.svg": draw(
            watched(fall), "A fall of .12 for two and a half days, 120 requests an hour", fell
        ),
        "alarm-none.svg": draw(
            watched(moving),
            "A mean that follows the hour and the weekend, and wanders by itself: no alarm",
            None,
        ),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (INTO / name).write_text(picture, encoding="utf-8")
