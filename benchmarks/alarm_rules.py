"""False alarms of the shipped Prometheus rules, and the delay until they notice a fall.

`RagmeterQualityFell` and `RagmeterObjectiveBurning`, reimplemented in numpy, on the same simulated weeks as
the detector (`alarms.py`), in steps of five minutes and with all requests scored. Sessions are left out: the
rules multiply the variance by a design effect that the processes measure, and none is simulated here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from alarms import PER_DAY, PER_HOUR, PER_WEEK, PLAIN, STEADY, WANDERING, Traffic, world
from measure import Row, Settings, run
from numpy.typing import NDArray

from ragmeter.cli.dashboards import RuleSettings

NAME = "alarm_rules"
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
RATES = (5, 20, 40, 200, 1000)
WEEKS = 4
"""Weeks of a world: one for comparison, and three that are watched."""
RULES = RuleSettings()
HELD = 4
"""Steps in a quarter of an hour, both ends counted."""
SURE = 2.5758293035489


def over(values: Numbers, steps: int) -> Numbers:
    """Return the sums of the last `steps` values at each step; of fewer at the beginning."""
    added = np.cumsum(np.concatenate([np.zeros(steps), values]))
    return np.asarray(added[steps:] - added[:-steps])


def wilson(mean: Numbers, n: Numbers, z: float = 1.959964) -> tuple[Numbers, Numbers]:
    """Return the ends of Wilson's interval."""
    half = z * np.sqrt(np.maximum(mean * (1 - mean), 0) / n + z * z / (4 * n * n))
    centre, scale = mean + z * z / (2 * n), 1 + z * z / n
    return (centre - half) / scale, (centre + half) / scale


def fell(traffic: Traffic) -> Flags:
    """Return for each step whether `RagmeterQualityFell` fires."""
    n, total, squares = (over(each, 6 * PER_HOUR) for each in (traffic.n, traffic.total, traffic.squares))
    known, n = n >= 5, np.maximum(n, 1.0)
    mean = total / n
    left = np.maximum(n - 1, 1.0)
    error = np.sqrt((np.maximum(squares - total * total / n, 0) + 0.5) / (n * left))
    half = (1.959964 + 2.372271 / left + 2.8225 / left**2 + 2.555 / left**3) * error
    rich = (n >= 30) & (n * mean >= 5) & (n * (1 - mean) >= 5)
    lower, upper = wilson(mean, n)
    down = np.where(rich, half, mean - lower)
    up = np.where(rich, half, upper - mean)
    fires = np.zeros(len(n), bool)
    for ago in (PER_WEEK, 2 * PER_WEEK):
        if len(n) > ago:
            beyond = RULES.fall + 3 * np.sqrt((down[:-ago] / 1.96) ** 2 + (up[ago:] / 1.96) ** 2)
            fires[ago:] |= (mean[:-ago] - mean[ago:] > beyond) & known[:-ago] & known[ago:]
    return held(fires, HELD)


def burns(n: Numbers, bad: Numbers, budget: float, rule: int) -> Flags:
    """Return for each step whether a rule of `RagmeterObjectiveBurning` fires."""
    minutes = {"5m": 5, "30m": 30, "1h": 60, "6h": 360, "3d": 4320}
    long, short, factor, _ = RULES.burning[rule]
    limit = min(factor * budget, 1 - (1 - budget) / factor)
    n_long, bad_long = (over(each, minutes[long] // 5) for each in (n, bad))
    n_short, bad_short = (over(each, minutes[short] // 5) for each in (n, bad))
    least, _ = wilson(bad_long / np.maximum(n_long, 1), np.maximum(n_long, 1), SURE)
    _, most = wilson(bad_short / np.maximum(n_short, 1), np.maximum(n_short, 1), SURE)
    is_over = (n_short > 0) & (most < limit)
    return (least > limit) & (bad_long >= RULES.least_bad) & ~is_over


def held(fires: Flags, steps: int) -> Flags:
    """Return for each step whether `fires` was true for the last `steps` steps."""
    return over(fires.astype(float), steps) >= steps


def alarms(fires: Flags) -> int:
    """Return the number of alarms; firings less than a day apart are one."""
    steps = np.flatnonzero(fires)
    return 0 if not len(steps) else 1 + int(np.sum(np.diff(steps) > PER_DAY))


def false_alarm_rows(worlds: int, rates: tuple[int, ...] = RATES) -> list[Row]:
    """Return the rows of traffic without a fall."""
    rows = []
    for number, scene in enumerate((*STEADY[:3], *WANDERING)):
        count = 0
        for rate in rates:
            chance = np.random.default_rng([31, number, rate])
            count += sum(alarms(fell(world(scene, rate, WEEKS, chance))[PER_WEEK:]) for _ in range(worlds))
        weeks = worlds * len(rates) * (WEEKS - 1)
        note = f"{weeks} weeks, as many at each of {', '.join(map(str, rates))}/h, seed 31"
        limit = 0.05 if scene in STEADY else None
        rows.append(_row(f"RagmeterQualityFell: false alarms a week, {scene.name}", count / weeks, limit, note))
    return rows


def delay_rows(worlds: int, rates: tuple[int, ...] = RATES) -> list[Row]:
    """Return the rows of falls at noon of a Tuesday in the third week, watched until the end of the fourth."""
    rows = []
    begins = 2 * PER_WEEK + PER_DAY + 12 * PER_HOUR
    for rate in rates:
        for fall in (0.1, 0.2):
            chance = np.random.default_rng([32, rate, round(100 * fall)])
            lower = np.where(np.arange(WEEKS * PER_WEEK) >= begins, fall, 0.0)
            waits = []
            for _ in range(worlds):
                fires = fell(world(PLAIN, rate, WEEKS, chance, lower))[begins:]
                waits.append(float(np.argmax(fires)) / PER_HOUR if fires.any() else np.inf)
            missed = sum(np.isinf(waits))
            note = f"median of {worlds} worlds, {missed} unseen in twelve days, seed 32"
            hours = min(float(np.median(waits)), 24.0 * 12)
            what = f"RagmeterQualityFell: hours until a fall of {fall} is told, {rate}/h"
            rows.append(_row(what, hours, None, note))
    return rows


def objective_rows(weeks: int, rates: tuple[int, ...] = (2, 5, 20, 200)) -> list[Row]:
    """Return the rows of traffic whose true share of bad requests is 70 % of the budget."""
    rows = []
    for number, (long, *_) in enumerate(RULES.burning):
        worst, where, total = 0.0, "", 0
        for budget in (0.02, 0.05, 0.1, 0.25):
            for rate in rates:
                chance = np.random.default_rng([33, round(100 * budget), rate])
                n = chance.poisson(rate / PER_HOUR, (weeks + 1) * PER_WEEK)
                bad = chance.binomial(n, 0.7 * budget)
                fires = burns(n.astype(float), bad.astype(float), budget, number)[PER_WEEK:]
                count = alarms(fires)
                total += count
                if count / weeks > worst:
                    worst, where = count / weeks, f", worst {count} at {budget:.0%}, {rate}/h"
        each = total / (weeks * 4 * len(rates))
        note = f"{weeks} weeks at each of 4 budgets and {len(rates)} rates, seed 33{where}"
        what = f"RagmeterObjectiveBurning within {long}: false alarms a week"
        rows.append(_row(what, each, 0.05, note))
    return rows


def _row(what: str, ours: float, target: float | None, note: str) -> Row:
    aim: dict[str, Any] = {}
    if target is not None:
        aim = {"target": f"at most {target:g}", "met": ours <= target}
    return Row(NAME, what, "", ours, note=note, **aim)


def benchmark(settings: Settings) -> list[Row]:
    if settings.quick:
        return [*false_alarm_rows(1, (40,)), *delay_rows(1, (200,)), *objective_rows(1, (20,))]
    return [*false_alarm_rows(60), *delay_rows(30), *objective_rows(200)]


if __name__ == "__main__":
    run(benchmark)
