"""False alarms of the detector of falls, and the delay until it notices a fall.

Weeks of traffic are simulated whose quality is known: steady, by hour and weekend, wandering without cause,
in sessions; with a fall, a drift, another mix of questions, one of many segments. Blocks of five minutes are
drawn as sums and passed to the shipped detector, from its first hour on: the weeks from which it learns are
simulated, too, and an alarm in its first two weeks counts like any other. Every row has its own seed, named
in the notes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from measure import Row, Settings, held_to, run
from numpy.typing import NDArray

from ragmeter.watch.change import Fall, FallDetector
from ragmeter.watch.evidence import ALARM_EVIDENCE, Block, FallEvidence, e_bh

NAME = "alarms"
_row = partial(held_to, NAME)
Numbers = NDArray[np.float64]
SLOT_S = 300
PER_HOUR, PER_DAY, PER_WEEK = 12, 288, 2016
START = 1_767_571_200  # a Monday, 0 o'clock, UTC
RATES = (20, 40, 200, 1000)
LEARNING_WEEKS = 2
MEAN = 0.75
"""Judge-like scores: 60 % ones, 15 % zeros, the rest between .3 and .9."""


@dataclass(frozen=True)
class Scene:
    """The properties of a world besides chance."""

    name: str
    daily_traffic: bool = True
    """Whether nights have a fifth of the traffic, and weekends half."""
    daily_quality: float = 0.0
    """Amplitude of the mean's movement during a day; on weekends the mean is lower by half of it."""
    wander: float = 0.0
    """Standard deviation of the mean's autoregressive movement,"""
    wander_hours: float = 3.0
    """with this time constant."""
    sessions: int = 1
    """Number of similar requests, correlation .3, within minutes; scores are then 0 or 1."""


STEADY = (
    Scene("independent", daily_traffic=False),
    Scene("daily and weekly traffic"),
    Scene("quality ±.08 by hour, weekend −.04", daily_quality=0.08),
    Scene("sessions of 5", sessions=5),
)
WANDERING = (
    Scene("mean wanders by .02 in 3 h", wander=0.02),
    Scene("mean wanders by .05 in 3 h", wander=0.05),
    Scene("mean wanders by .05 in 24 h", wander=0.05, wander_hours=24.0),
)
PLAIN = STEADY[1]


@dataclass(frozen=True)
class Traffic:
    """Sums by block."""

    n: Numbers
    total: Numbers
    squares: Numbers

    def blocks(self) -> Iterator[tuple[float, Block]]:
        sums = zip(self.n.tolist(), self.total.tolist(), self.squares.tolist(), strict=True)
        for index, block in enumerate(sums):
            yield START + SLOT_S * index, Block(*block)


def world(
    scene: Scene, rate: float, weeks: float, chance: np.random.Generator, lower: Numbers | float = 0.0
) -> Traffic:
    """Return simulated traffic.

    Args:
        scene: The properties besides chance.
        rate: Requests per hour, on average over a day.
        weeks: Duration in weeks.
        chance: The random generator.
        lower: The amount by which the mean is lower, in each block or in all.
    """
    count = round(weeks * PER_WEEK)
    slot = np.arange(count)
    hour, weekend = 2 * np.pi * (slot % PER_DAY) / PER_DAY, slot // PER_DAY % 7 >= 5
    rates = np.full(count, rate / PER_HOUR)
    if scene.daily_traffic:
        rates *= (1 + 0.8 * np.sin(hour - np.pi / 2)) * np.where(weekend, 0.5, 1.2)
    shift = np.zeros(count) + lower
    shift += scene.daily_quality * (np.sin(hour + 1.0) + np.where(weekend, 0.5, 0.0))
    if scene.wander:
        shift += _wandering(count, scene, chance)
    if scene.sessions > 1:
        return _in_sessions(rates, shift, scene.sessions, chance)
    n = chance.poisson(rates)
    ones = chance.binomial(n, np.clip(0.60 - shift, 0, 1))
    other = np.clip(0.25 / np.clip(0.40 + shift, 0.25, None), 0, 1)
    between = chance.binomial(n - ones, other)
    values = chance.uniform(0.3, 0.9, between.sum())
    at = np.repeat(slot, between)
    return Traffic(
        n.astype(float), ones + np.bincount(at, values, count), ones + np.bincount(at, values * values, count)
    )


def _wandering(count: int, scene: Scene, chance: np.random.Generator) -> Numbers:
    keep = math.exp(-1 / (scene.wander_hours * PER_HOUR))
    moves = chance.normal(0, scene.wander * math.sqrt(1 - keep * keep), count)
    moves[0] = chance.normal(0, scene.wander)
    moved = 0.0
    for index, move in enumerate(moves.tolist()):
        moved = keep * moved + move
        moves[index] = moved
    return moves


def _in_sessions(rates: Numbers, shift: Numbers, size: int, chance: np.random.Generator) -> Traffic:
    begun = np.repeat(np.arange(len(rates)), chance.poisson(rates / size))
    level = np.repeat(chance.beta(1.75, 0.583, len(begun)), size)
    at = np.minimum(np.repeat(begun, size) + chance.integers(0, 3, len(level)), len(rates) - 1)
    good = (chance.random(len(level)) < level - shift[at]).astype(float)
    total = np.bincount(at, good, len(rates))
    return Traffic(np.bincount(at, minlength=len(rates)).astype(float), total, total)


def falls(traffic: Traffic) -> list[tuple[int, Fall]]:
    """Return the alarms of a detector on this traffic, each with the block after which it came."""
    detector = FallDetector()
    found = []
    for index, (at, block) in enumerate(traffic.blocks()):
        if detector.step(at, block).evidence >= ALARM_EVIDENCE:
            found.append((index, detector.alarm(at)))
    return found


def false_alarm_rows(weeks: int, rates: Sequence[int] = RATES) -> list[Row]:
    """Return the rows of traffic without a fall; `weeks`: watched ones without wander, and again with it."""
    rows = []
    for what, scenes, limit in (("without wander", STEADY, 0.05), ("amid wander", WANDERING, 0.1)):
        seed = 21 if scenes is STEADY else 22
        each = max(1, math.ceil(weeks / len(scenes) / len(rates)))
        in_all = each * len(rates)
        lines: dict[tuple[str, int], int] = {}
        for number, scene in enumerate(scenes):
            for rate in rates:
                chance = np.random.default_rng([seed, number, rate])
                lines[scene.name, rate] = sum(
                    len(falls(world(scene, rate, LEARNING_WEEKS + part, chance))) for part in _parts(each, 8)
                )
        note = f"{in_all} weeks, as many at each of {', '.join(map(str, rates))}/h, seed {seed}"
        for scene in scenes:
            alarms = sum(lines[scene.name, rate] for rate in rates)
            rows.append(_row(f"false alarms a week: {scene.name}", alarms / in_all, limit, note=note))
        worst = max(lines, key=lambda line: lines[line])
        rows += [
            _row(f"false alarms a week: all {what}", sum(lines.values()) / in_all / len(scenes), limit,
                 note=f"{in_all * len(scenes)} weeks"),
            _row(f"false alarms a week: the worst line {what}", lines[worst] / each, 0.1,
                 note=f"{worst[0]}, {worst[1]}/h: {lines[worst]} in {each} weeks"),
        ]  # fmt: skip
    return rows


def _parts(weeks: int, size: int) -> Iterable[int]:
    """Return the watched weeks of worlds with a total length of `weeks`."""
    return [min(size, weeks - start) for start in range(0, weeks, size)]


DELAYS = {  # requests per hour: hours until a fall of .1, of .2
    20: (None, None),
    40: (16.0, 5.0),
    200: (4.0, 1.0),
    1000: (1.0, 0.5),
}


def delay_rows(worlds: int, rates: Sequence[int] = RATES) -> list[Row]:
    """Return the rows of falls at a random time in the first half of the third week."""
    rows = []
    for rate in rates:
        for fall, most in zip((0.1, 0.2), DELAYS[rate], strict=True):
            seed = 23
            chance = np.random.default_rng([seed, rate, round(100 * fall)])
            delays, starts, missed = [], [], 0
            for _ in range(worlds):
                found, at = _fallen(PLAIN, rate, fall, chance)
                if found is None:
                    missed += 1
                    continue
                delays.append((found[0] + 1 - at) / PER_HOUR)
                starts.append(abs((found[1].since - START) / SLOT_S - at) / PER_HOUR)
            missing = [math.inf] * missed
            rows.append(
                _row(f"hours until a fall of {fall} is alarmed, {rate}/h",
                     float(np.median(delays + missing)), most, unit="h",
                     note=f"median of {worlds}, missed in 5 days {missed}; start off by"
                     f" {np.median(starts + missing):.1f} h; seed {seed}")
            )  # fmt: skip
    return rows


def _fallen(
    scene: Scene, rate: float, fall: float, chance: np.random.Generator
) -> tuple[tuple[int, Fall] | None, int]:
    """Return the first alarm in the five days after a fall, and the block of the fall."""
    at = LEARNING_WEEKS * PER_WEEK + int(chance.integers(0, PER_WEEK // 2))
    lower = np.where(np.arange(4 * PER_WEEK) < at, 0.0, fall)
    for found in falls(world(scene, rate, 4, chance, lower)):
        if at <= found[0] < at + 5 * PER_DAY:
            return found, at
    return None, at


def slow_rows(worlds: int, rates: Sequence[int] = (40, 200, 1000)) -> list[Row]:
    """Return the rows of slow changes: drift, other questions, the second week, and undetectable ones."""
    rows = []
    weeks = 4
    slot = np.arange(weeks * PER_WEEK)
    began = LEARNING_WEEKS * PER_WEEK
    drift = 0.1 * np.clip((slot - began) / (2 * PER_WEEK), 0, 1)
    mix = np.where(slot < began, 0.0, 0.06)
    bad = np.where(slot < began, 0.0, 0.1)
    for what, lower, share in (
        ("drift of .1 in two weeks", drift, 0.9),
        ("a third of the questions is worse by .2", mix, None),
    ):
        for rate in rates:
            seed = 24
            chance = np.random.default_rng([seed, rate])
            first = [
                next((at for at, _ in falls(world(PLAIN, rate, weeks, chance, lower)) if at >= began), None)
                for _ in range(worlds)
            ]  # fmt: skip
            seen = [(at - began) / PER_HOUR for at in first if at is not None]
            rows.append(
                _row(f"seen within two weeks: {what}, {rate}/h", len(seen) / worlds,
                     share if rate == 1000 else None, least=True,
                     note=f"{worlds} worlds, seed {seed}; median of those seen {_median(seen):.0f} h")
            )  # fmt: skip
    seed = 25
    chance = np.random.default_rng(seed)
    second, first_day = [], []
    for _ in range(worlds):
        found = falls(world(PLAIN, 200, weeks, chance, bad))
        second.append(any(at >= began + PER_WEEK and fall.again for at, fall in found))
        first_day.append(len(falls(world(PLAIN, 200, weeks, chance, 0.2))))
    rows.append(
        _row("alarms again in the second week of a fall of .1, 200/h", float(np.mean(second)), 0.95,
             least=True, note=f"share of {worlds} worlds, seed {seed}")
    )  # fmt: skip
    rows.append(
        _row("alarms about what was bad from the first day, 200/h", float(np.mean(first_day)), None,
             note="none is to be expected: an objective sees it")
    )  # fmt: skip
    return rows


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else math.nan


def segment_rows(runs: int, segments: int = 50, fallen: int = 5) -> list[Row]:
    """Return the rows of many segments of one service, some of which fall by .2."""
    seed = 26
    chance = np.random.default_rng(seed)
    began = LEARNING_WEEKS * PER_WEEK + 1000
    weeks = LEARNING_WEEKS + 1.0
    lower = np.where(np.arange(round(weeks * PER_WEEK)) < began, 0.0, 0.2)
    wrong, together, alone = set(), [], []
    for number in range(runs):
        detectors = [FallDetector() for _ in range(segments)]
        traffic = [world(PLAIN, 40, weeks, chance, lower if one < fallen else 0.0) for one in range(segments)]
        first: dict[int, int] = {}
        by_itself: dict[int, int] = {}
        for index, blocks in enumerate(zip(*[one.blocks() for one in traffic], strict=True)):
            evidence = {one: detectors[one].step(*blocks[one]).evidence for one in range(segments)}
            for one in range(fallen):
                if index >= began and evidence[one] >= ALARM_EVIDENCE:
                    by_itself.setdefault(one, index)
            for one in e_bh(evidence):
                detectors[one].alarm(blocks[one][0])
                first.setdefault(one, index)
                if one >= fallen or index < began:
                    wrong.add((number, one))
        for one in range(fallen):
            together.append((first.get(one, 10**9) + 1 - began) / PER_HOUR)
            alone.append((by_itself.get(one, 10**9) + 1 - began) / PER_HOUR)
    note = f"{runs} runs of {segments} segments of 40/h, {fallen} fall by .2, seed {seed}"
    return [
        _row("wrong segments", len(wrong), max(1.0, runs / 20), note=note),
        _row("hours until a segment among many is alarmed, beside it alone",
             float(np.median(together) / np.median(alone)), 2.0,
             note=f"{note}; {np.median(together):.1f} and {np.median(alone):.1f} h"),
    ]  # fmt: skip


def limit_rows(worlds: int) -> list[Row]:
    """Return the rows of four weeks with a mean exactly at the floor: the worst case of the stated rate."""
    rows = []
    for floor in (0.8, 0.97):
        seed = 27
        chance = np.random.default_rng([seed, round(100 * floor)])
        alarmed = 0
        for _ in range(worlds):
            n = chance.poisson(40 / PER_HOUR, 4 * PER_WEEK)
            good = chance.binomial(n, floor)
            evidence = FallEvidence()
            for index, (count, total) in enumerate(zip(n.tolist(), good.tolist(), strict=True)):
                if count:
                    evidence.add(index, Block(count, total, total), floor=floor, usual=floor)
                    if evidence.total >= ALARM_EVIDENCE:
                        alarmed += 1
                        break
        rows.append(
            _row(f"alarms within four weeks at the very floor, {floor}", alarmed / worlds, 0.63,
                 note=f"share of {worlds} worlds at 40/h, seed {seed}; waiting without memory gives .63")
        )  # fmt: skip
    return rows


WORDS = {"verdict_bad": (0.005, 0.97), "verdict_not_good": (0.08, 0.99)}
"""Shares of the verdicts on right answers, and on answers with wrong chunks: the shares that are watched
(RAGTruth QA, GPT, with its own chunks and with the nearest wrong ones)."""
MISSED_H = 4 * 24.0


def verdict_rows(worlds: int, weeks: int, rates: Sequence[int] = (40, 200)) -> list[Row]:
    """Return the rows of shares of verdicts: from the third week on some requests get wrong chunks."""
    rows = []
    for name, (usual, wrong) in WORDS.items():
        for rate in rates:
            for part in (0.05, 0.2):
                seed = 29
                chance = np.random.default_rng([seed, rate, round(100 * part), len(name)])
                hours = []
                for _ in range(worlds):
                    at = LEARNING_WEEKS * PER_WEEK + int(chance.integers(0, PER_WEEK // 2))
                    share = np.where(np.arange(4 * PER_WEEK) < at, usual, usual + part * (wrong - usual))
                    found = next((one for one, _ in falls(_shares(share, rate, chance)) if one >= at), None)
                    late = math.inf if found is None else (found + 1 - at) / PER_HOUR
                    hours.append(late if late <= MISSED_H else math.inf)
                rows.append(
                    _row(f"hours until wrong chunks for {part:.0%} of requests are alarmed, {name}, {rate}/h",
                         float(np.median(hours)), None, unit="h",
                         note=f"median of {worlds}, missed in four days {sum(map(math.isinf, hours))},"
                         f" seed {seed}")
                )  # fmt: skip
    seed = 30
    chance = np.random.default_rng(seed)
    alarms = sum(
        len(falls(_shares(np.full((LEARNING_WEEKS + part) * PER_WEEK, usual), rate, chance)))
        for usual, _ in WORDS.values()
        for rate in rates
        for part in _parts(weeks, 8)
    )
    watched = weeks * len(rates) * len(WORDS)
    rows.append(
        _row("false alarms a week: shares of verdicts", alarms / watched, 0.05,
             note=f"{alarms} in {watched} weeks, as many at each of {', '.join(map(str, rates))}/h, seed {seed}")
    )  # fmt: skip
    return rows


def _shares(share: Numbers, rate: float, chance: np.random.Generator) -> Traffic:
    """Return traffic of day and night with a share of a verdict in each block, inverted: more is better."""
    slot = np.arange(len(share))
    hour, weekend = 2 * np.pi * (slot % PER_DAY) / PER_DAY, slot // PER_DAY % 7 >= 5
    rates = rate / PER_HOUR * (1 + 0.8 * np.sin(hour - np.pi / 2)) * np.where(weekend, 0.5, 1.2)
    n = chance.poisson(rates)
    good = (n - chance.binomial(n, share)).astype(float)
    return Traffic(n.astype(float), good, good)


def cost_rows(weeks: int) -> list[Row]:
    """Return the rows of the cost of a block, learning included."""
    traffic = world(PLAIN, 200, weeks, np.random.default_rng(28))
    began = time.thread_time()
    falls(traffic)
    took = (time.thread_time() - began) / len(traffic.n) * 1e6
    return [_row("CPU of a block of five minutes", took, 31.0, unit="µs", note=f"{weeks} weeks, 200/h")]


def benchmark(settings: Settings) -> list[Row]:
    quick = settings.quick
    return [
        *(false_alarm_rows(1, (40,)) if quick else false_alarm_rows(1_000)),
        *(delay_rows(1, (200,)) if quick else delay_rows(40)),
        *(slow_rows(1, (200,)) if quick else slow_rows(40)),
        *(segment_rows(1, 5, 1) if quick else segment_rows(20)),
        *limit_rows(1 if quick else 200),
        *(verdict_rows(1, 1, (200,)) if quick else verdict_rows(40, 250)),
        *cost_rows(1 if quick else 8),
    ]


if __name__ == "__main__":
    run(benchmark)
