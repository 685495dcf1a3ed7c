"""Coverage of the 95 % intervals of quality, and their cost.

Worlds are simulated whose mean is known: judge-like scores, nearly perfect ones, graded ones; free scores
without and with much information; few and many judged requests; rates that vary; requests kept for being bad;
undefined scores; conversations of similar requests. Every world has its own seed, named in the notes. With
labelled data (see `labelled_data.py`) the intervals of people's labels are measured on it, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from labelled_data import read_json
from measure import Row, Settings, held_to, run
from numpy.typing import NDArray

from ragmeter import Estimate, RagRun, RagSample, Score
from ragmeter.metrics.judge import JudgeBudget
from ragmeter.pipeline._admission import Admission
from ragmeter.pipeline.sampling import Candidate
from ragmeter.quality.agreement import Confusion, binary_confusion, kappa
from ragmeter.quality.estimate import estimate
from ragmeter.quality.label_transport import TransportedShare, transport_share
from ragmeter.quality.moments import FreeMoments, JudgedMoments
from ragmeter.quality.population import JudgedScore
from ragmeter.quality.sums import QualityTable

NAME = "estimates"
_row = partial(held_to, NAME, least=True)
Numbers = NDArray[np.float64]
KINDS = {"judge-like": 0.75, "0/1, mean .80": 0.80, "0/1, mean .97": 0.97, "graded": None}
JUDGED = (8, 15, 30, 100, 400)
CORRELATIONS = (0.0, 0.6, 0.85)
SHARE = 0.1
LABELS = 50
TRAFFIC = 5_000


def scores(kind: str, count: int, chance: np.random.Generator, shift: float = 0.0) -> Numbers:
    """Return a judge's scores of `count` requests."""
    if kind == "judge-like":  # 60 % ones, 15 % zeros
        u = chance.random(count)
        between = np.where(u < 0.85 - shift, chance.uniform(0.3, 0.9, count), 0.0)
        return np.where(u < 0.60 - shift, 1.0, between)
    if kind == "graded":
        return np.clip(chance.normal(0.62 - shift, 0.2, count), 0, 1)
    return (chance.random(count) < (KINDS[kind] or 0.0) - shift).astype(float)


def free_scores(judged: Numbers, correlation: float, chance: np.random.Generator) -> Numbers:
    """Return free scores correlated with the judged ones, on another scale."""
    if not correlation:
        return chance.random(len(judged))
    noise = 0.5 * (judged.std() or 0.3) * (1 / correlation**2 - 1) ** 0.5
    return np.clip(0.3 + 0.5 * judged + chance.normal(0, noise, len(judged)), 0, 1)


def moments(x: Numbers, chosen: Numbers, probability: Numbers, y: Numbers) -> JudgedMoments:
    """Return the sums from counting each request; `y` is NaN where it is undefined."""
    c = chosen.astype(bool)
    w, xj, yj = 1 / probability[c], x[c], np.nan_to_num(y[c])
    d = (~np.isnan(y[c])).astype(float)
    q = w * w
    sums = {
        "n": len(x), "x": x.sum(), "xx": (x * x).sum(), "k": c.sum(), "kd": d.sum(), "w": w.sum(),
        "wx": (w * xj).sum(), "wd": (w * d).sum(), "wy": (w * yj).sum(), "wl": (w * yj).sum(),
        "wu": (w * yj).sum(), "wb": (w * d).sum(), "q": q.sum(), "qx": (q * xj).sum(),
        "qxx": (q * xj * xj).sum(), "qd": (q * d).sum(), "qxd": (q * d * xj).sum(), "qy": (q * yj).sum(),
        "qyy": (q * yj * yj).sum(), "qxy": (q * xj * yj).sum(),
        "c": d.sum(), "y": yj.sum(), "yy": (yj * yj).sum(), "low": 0.0,
    }  # fmt: skip
    return JudgedMoments([float(sums.get(name, 0.0)) for name in JudgedMoments.names])


class Held:
    """The coverage of intervals, their width, and the error of means."""

    def __init__(self) -> None:
        self._held: list[bool] = []
        self._widths: list[float] = []
        self._errors: list[float] = []

    def add(self, found: Estimate | TransportedShare, truth: float) -> None:
        self._held.append(found.lower <= truth <= found.upper)
        self._widths.append(found.upper - found.lower)
        mean = found.mean if isinstance(found, Estimate) else found.share
        if mean is not None:
            self._errors.append(mean - truth)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def share(self) -> float:
        return float(np.mean(self._held))

    @property
    def width(self) -> float:
        return float(np.mean(self._widths))

    @property
    def bias(self) -> float:
        return float(np.mean(self._errors))


def coverage_rows(worlds: int) -> list[Row]:
    """Return the rows of every kind of score, number of judged requests and free score: 60 cells."""
    seed = 11
    chance = np.random.default_rng(seed)
    cells: dict[tuple[str, int, float], Held] = {}
    alone = Held()
    for kind, known in KINDS.items():
        truth = float(scores(kind, 2_000_000, chance).mean()) if known is None else known
        for judged in JUDGED:
            for correlation in CORRELATIONS:
                held = cells[kind, judged, correlation] = Held()
                count = round(judged / SHARE)
                for _ in range(worlds):
                    y = scores(kind, count, chance)
                    x = free_scores(y, correlation, chance)
                    chosen = chance.random(count) < SHARE
                    if chosen.sum() < 3:
                        continue
                    share = np.full(count, SHARE)
                    held.add(estimate(moments(x, chosen, share, y)), truth)
                    if (kind, judged, correlation) == ("judge-like", 400, 0.85):
                        none = np.full(count, 0.5)
                        alone.add(estimate(moments(none, chosen, share, y)), truth)
    lowest = min(cells, key=lambda cell: cells[cell].share)
    said = f"{worlds} worlds a cell, seed {seed}"
    at = cells["judge-like", 400, 0.85]
    return [
        _row("interval holds the truth, lowest of 60 cells", cells[lowest].share, 0.925,
             note=f"{said}; {lowest[0]}, {lowest[1]} judged, correlation {lowest[2]}"),
        _row("interval holds the truth, mean of 60 cells",
             float(np.mean([one.share for one in cells.values()])), 0.95, note=said),
        _row("width beside judged requests alone, 400 of 4,000, correlation .85", at.width / alone.width,
             0.62, least=False, note=said),
    ]  # fmt: skip


class _Clock:
    """A clock with a settable time."""

    def __init__(self) -> None:
        self.now = 1_000_000_800.0

    def __call__(self) -> float:
        return self.now


def hour_of(
    chance: np.random.Generator, count: int, turns: int, spread_s: float, alike: float, named: str
) -> tuple[Estimate, Estimate]:
    """Return the estimates of an hour of conversations, as counted and as if requests were independent.

    Args:
        chance: The random generator of the values: 0 or 1, 80 % of them 1.
        count: Conversations.
        turns: Requests per conversation.
        spread_s: Duration of one.
        alike: Correlation of two values of one conversation.
        named: The identifier of one: ``id``, ``question``, or none.
    """
    usual = (
        np.full(count, 0.8)
        if not alike
        else (chance.random(count) < 0.8).astype(float)
        if alike == 1.0
        else chance.beta(0.8 * (1 - alike) / alike, 0.2 * (1 - alike) / alike, count)
    )
    began = chance.uniform(0, 3600 - spread_s, count)
    turn = [
        (at + chance.uniform(0, spread_s), number, float(chance.random() < usual[number]))
        for number, at in enumerate(began)
        for _ in range(turns)
    ]
    clock, alone = _Clock(), FreeMoments()
    began_s = clock.now
    table = QualityTable(clock)
    for place, (at, number, value) in enumerate(sorted(turn)):
        clock.now = began_s + at
        sample = RagSample(question=f"{number if named == 'question' else f'{number} {place}'}", name="qa")
        request = RagRun(
            sample=sample, run_id=str(place), framework="manual", started_ns=1, ended_ns=2,
            conversation_id=f"{number}" if named == "id" else None,
        )  # fmt: skip
        score = Score(name="s", value=value, status="ok", method="lexical", definition="1")
        table.count_request(request, {"s": score}, ())
        alone.add_value(value)
    return table.estimate("s", None, 3600.0), estimate(alone)


def conversation_rows(worlds: int, largest: int) -> list[Row]:
    """Return the rows of conversations of five within five and over ten minutes, and of repeated questions."""
    rows = []
    kinds = [
        ("sessions of 5 within 5 minutes", 5, 300.0, 0.3, "id"),
        ("sessions of 5 over 10 minutes", 5, 600.0, 0.6, "id"),
        *((f"questions sent {times} times", times, 600.0, 1.0, "question") for times in (3, 5, 10)),
        ("sessions of 5, nothing alike", 5, 600.0, 0.0, "id"),
    ]
    for what, turns, spread_s, alike, named in kinds:
        for count in (30, 100, largest):
            seed = 31
            chance = np.random.default_rng(seed)
            held, before = Held(), Held()
            for _ in range(worlds if count < largest else max(10, worlds // 4)):
                found, plain = hour_of(chance, count, turns, spread_s, alike, named)
                held.add(found, 0.8)
                before.add(plain, 0.8)
            note = (
                f"{len(held)} hours, seed {seed}, correlation {alike}; as if each request stood alone "
                f"{before.share:.1%}; width {held.width:.3f}, {before.width:.3f} alone"
            )
            rows.append(
                _row(f"{what}, {count} of them: interval holds the truth", held.share,
                     0.89 if count < 100 else 0.925, note=note)
            )  # fmt: skip
            if not alike:
                rows.append(
                    _row(f"{what}, {count} of them: width beside requests alone",
                         held.width / before.width, 1.1, least=False, note=note)
                )  # fmt: skip
    return rows


def weight_rows(worlds: int) -> list[Row]:
    """Return the rows of rates from 1/2 to 1/32, the worst kept with certainty, one in five undefined."""
    seed = 13
    chance = np.random.default_rng(seed)
    held = Held()
    quiet, busy = 1200, 12_000
    truth = (quiet * 0.75 + busy * 0.60) / (quiet + busy)
    for _ in range(worlds):
        y = np.concatenate([scores("judge-like", quiet, chance), scores("judge-like", busy, chance, 0.15)])
        x = free_scores(y, 0.6, chance)
        rate = np.concatenate([np.full(quiet, 0.5), np.full(busy, 1 / 32)])
        probability = np.where(x < np.quantile(x, 0.02), 1.0, rate)
        y = np.where(chance.random(len(y)) < 0.2, np.nan, y)
        chosen = chance.random(len(y)) < probability
        held.add(estimate(moments(x, chosen, probability, y)), truth)
    note = f"{worlds} worlds, seed {seed}: rates 1/2 to 1/32, the worst 2 % kept, 20 % undefined"
    return [
        _row("bias, whatever chose the requests", abs(held.bias), 0.003, least=False, note=note),
        _row("interval holds the truth, whatever chose the requests", held.share, 0.935, note=note),
    ]


def rate_rows(requests: int) -> list[Row]:
    """Return the rows of steady traffic and bursts under a budget: the inverse rates sum to the requests."""
    rows = []
    for what, burst in (("steady", 1), ("in bursts of 30", 30)):
        seed = 17
        chance = np.random.default_rng(seed)
        now = [0.0]
        admission = Admission(JudgeBudget(calls_per_minute=60), 1.0, lambda now=now: now[0])
        total = 0.0
        for number in range(requests):
            if burst == 1:
                now[0] += chance.exponential(1.0)
            elif number % burst == 0:
                now[0] += 30.0
            probability = admission.count_request()
            if Candidate(str(number), None).within("judge", probability):
                total += 1 / probability
        rows.append(
            Row(NAME, f"sum of 1/rate over judged requests, {what}", "of the requests", total / requests,
                target="0.97 to 1.03", met=0.97 <= total / requests <= 1.03,
                note=f"{requests} requests, seed {seed}")
        )  # fmt: skip
    return rows


def cost_rows(requests: int) -> list[Row]:
    """Return the rows of the CPU time that counting adds to the meter's own threads."""
    names = ["lexical_groundedness", *(f"score_{number}" for number in range(19))]
    free = {name: Score(name=name, value=0.5, status="ok", method="lexical", definition="1") for name in names}
    verdict = Score(name="faithfulness", value=0.7, status="ok", method="llm", definition="1")
    one = [JudgedScore("faithfulness", "hash", 0.0, 1.0)]
    known = {"lexical_groundedness": free["lexical_groundedness"], "faithfulness": verdict}
    sample = RagSample(question="q", contexts=["c"], answer="a", name="qa")
    runs = [
        RagRun(sample=sample, run_id=str(number), framework="manual", started_ns=1, ended_ns=2)
        for number in range(requests)
    ]

    def judged(table: QualityTable, run_: RagRun) -> None:
        if (counted := table.count_request(run_, {}, one)) is not None:
            table.count_judged(counted, known, one, 0.25)

    def cpu_us(count: Callable[[QualityTable, RagRun], object]) -> float:
        took = []
        for _ in range(7):
            table = QualityTable()
            began = time.thread_time()
            for each in runs:
                count(table, each)
            took.append((time.thread_time() - began) / requests * 1e6)
        return min(took)

    return [
        _row("CPU of counting a judged request", cpu_us(judged), 5.0, least=False, unit="µs"),
        _row("CPU of counting a free score",
             cpu_us(lambda table, run_: table.count_request(run_, free, ())) / len(free), 1.0, least=False,
             unit="µs", note="20 of them a request"),
    ]  # fmt: skip


def mtrag() -> tuple[Numbers, Numbers] | None:
    """Return people's ratings of MTRAG's answers, the mean of their raters from 0 to 1, and a judge's."""
    folder = os.environ.get("RAGMETER_BENCH_DATA")
    if not folder:
        return None
    found = read_json(Path(folder), "mtrag_human", "reference_subset_with_human_evaluations.json.gz")
    rows = [one["annotations"] for one in found["evaluations"]]
    people = [(np.mean([int(one["value"]) for one in row["faithfulness"].values()]) - 1) / 3 for row in rows]
    judge = [float(next(iter(row["rl_f"].values()))["value"]) for row in rows]
    return np.array(people), np.array(judge)


def label_rows(worlds: int) -> list[Row]:
    """Return the rows of people's labels of MTRAG, drawn like traffic, with the published judge and without."""
    data = mtrag()
    if data is None:
        return []
    people, judge = data
    seed = 19
    chance = np.random.default_rng(seed)
    helped, alone = Held(), Held()
    truth = float(people.mean())
    for _ in range(worlds):
        drawn = chance.integers(0, len(people), TRAFFIC)
        z, y = people[drawn], judge[drawn]
        labelled = chance.random(TRAFFIC) < LABELS / TRAFFIC
        probability = np.full(TRAFFIC, LABELS / TRAFFIC)
        everything, nothing = np.ones(TRAFFIC), np.full(TRAFFIC, 0.5)
        verdicts = moments(nothing, everything, everything, y)
        helped.add(estimate(verdicts, moments(y, labelled, probability, z)), truth)
        alone.add(estimate(moments(nothing, labelled, probability, z)), truth)
    note = f"{len(people)} answers of MTRAG as traffic of {TRAFFIC}, {worlds} worlds, seed {seed}"
    return [
        _row(f"{LABELS} labels and a judge: interval holds the truth", helped.share, 0.93, note=note),
        _row(f"{LABELS} labels and a judge: width beside labels alone", helped.width / alone.width, 0.80,
             least=False, note=f"{note}; widths {helped.width:.3f} and {alone.width:.3f}"),
    ]  # fmt: skip


class _World:
    """Requests of which a share is good, and a judge that calls shares of good and bad ones good."""

    def __init__(self, good: Numbers, bad: Numbers, chance: np.random.Generator) -> None:
        self._says = {True: good, False: bad}
        self._chance = chance

    def drawn(self, count: int, share: float) -> tuple[Numbers, Numbers]:
        """Return for `count` requests whether each is good, and whether the judge calls it good."""
        z = self._chance.random(count) < share
        says = np.where(
            z, self._chance.choice(self._says[True], count), self._chance.choice(self._says[False], count)
        )
        return z.astype(float), says


def transport_rows(worlds: int) -> list[Row]:
    """Return the rows of labels of another time: before a fall of .3, and with MTRAG's mixture changed."""
    seed = 23
    chance = np.random.default_rng(seed)
    ones_and_zeros = np.repeat([1.0, 0.0], [9, 1]), np.repeat([1.0, 0.0], [3, 7])
    cases = [("labels from before a fall of .3", ones_and_zeros, 200, 300, 0.8, 0.5)]
    if (data := mtrag()) is not None:
        people, judge = data
        good, says = people >= 0.9, (judge >= 0.8).astype(float)
        before = float(good.mean())
        cases.append(("MTRAG's labels, good share .25", (says[good], says[~good]), 300, 400, before, 0.25))
    rows = []
    for what, answers, labels, judged, before, now in cases:
        world = _World(*answers, chance)
        held, by_regression, silent = Held(), Held(), 0
        for _ in range(worlds):
            z, y = world.drawn(labels, before)
            errors = binary_confusion(list(z), list(y), is_good=bool)
            _, today = world.drawn(judged, now)
            found = transport_share(float(today.mean()), judged, errors)
            if found.share is None:
                silent += 1
                continue
            held.add(found, now)
            everything = np.ones(judged)
            verdicts = moments(np.full(judged, 0.5), everything, everything, today)
            ones = np.ones(labels)
            by_regression.add(estimate(verdicts, moments(y, ones, ones, z)), now)
        note = (
            f"{labels} labels, {judged} judged, {worlds} worlds, seed {seed}; width {held.width:.2f}; "
            f"silent in {silent / worlds:.1%}; regression would hold it in {by_regression.share:.1%}"
        )
        rows.append(_row(f"{what}: interval holds the truth", held.share, 0.93, note=note))
    return rows


def kappa_rows(worlds: int) -> list[Row]:
    """Return the rows of tables of two raters, drawn from one whose κ is known."""
    seed = 29
    chance = np.random.default_rng(seed)
    cells = np.array([0.32, 0.29, 0.07, 0.32])  # good and bad as in MTRAG
    agree, rows_good, columns_good = cells[0] + cells[3], cells[0] + cells[1], cells[0] + cells[2]
    by_chance = rows_good * columns_good + (1 - rows_good) * (1 - columns_good)
    truth = (agree - by_chance) / (1 - by_chance)
    found = []
    for n in (30, 50, 100):
        held = 0
        for _ in range(worlds):
            drawn = Confusion(*map(int, chance.multinomial(n, cells)))
            interval = kappa(drawn.table)
            held += interval.lower <= truth <= interval.upper
        note = f"{worlds} tables, seed {seed}"
        found.append(_row(f"interval of κ holds the truth, {n} requests", held / worlds, 0.925, note=note))
    return found


def benchmark(settings: Settings) -> list[Row]:
    quick = settings.quick
    return [
        *coverage_rows(100 if quick else 2000),
        *conversation_rows(10 if quick else 800, 200 if quick else 1000),
        *weight_rows(30 if quick else 2000),
        *rate_rows(20_000 if quick else 60_000),
        *cost_rows(2_000 if quick else 20_000),
        *label_rows(100 if quick else 3000),
        *transport_rows(200 if quick else 3000),
        *kappa_rows(100 if quick else 1000),
    ]


if __name__ == "__main__":
    run(benchmark)
