"""Decide whether an evaluation passes: limits for means, comparison with an earlier run, four outcomes.

The 95 % interval of a mean decides: ``pass`` or ``fail`` if all of it lies on one side, else
``inconclusive``; ``blocked`` if missing values could change the outcome, or two runs cannot be compared.
Called by the command line and by users' tests.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from ragmeter.metrics import ConfigurationError, Metric, Score, ScoreDirection
from ragmeter.metrics._display.mean_interval import NORMAL_QUANTILE
from ragmeter.metrics._display.summary import ScoreSummary
from ragmeter.metrics.registry import known_metrics, resolve_metrics

from .estimate import difference_interval
from .manner import PARTS, notes_on_fall
from .row_scores import LACKING, RowScores

Outcome = Literal["pass", "fail", "inconclusive", "blocked"]
_STRENGTH: Sequence[Outcome] = ("fail", "blocked", "inconclusive", "pass")
"""Outcomes by precedence: the combined outcome of several checks is the first of these that occurs."""
LEAST_PAIRED = 0.9
"""Least share of the rows with a value, of either run, with a counterpart in the other run."""
Side = Literal["least", "most"]


class Limit(NamedTuple):
    """The required mean of a score."""

    name: str
    value: float
    side: Side | None = None
    """Lower or upper limit; None: lower, or upper for scores where lower is better."""


@dataclass(frozen=True, slots=True)
class Check:
    """One decided criterion."""

    what: str
    """The criterion, e.g. ``recall at least 0.8``."""
    outcome: Outcome
    reason: str
    """The reason, in words and numbers."""
    mean: float | None = None
    """Mean, or mean difference."""
    interval: tuple[float, float] | None = None
    """Its 95 % interval."""
    count: int = 0
    """Number of values, or pairs of values."""
    score: str | None = None
    """The score compared with an earlier run; None: no comparison."""
    before: float | None = None
    """Its mean in the earlier run, over the pairs."""
    now: float | None = None
    """Its mean in this run, over the pairs."""

    def as_json(self) -> dict[str, Any]:
        """Return the check as JSON-ready fields."""
        return {
            "what": self.what,
            "outcome": self.outcome,
            "reason": self.reason,
            "mean": self.mean,
            "ci95": None if self.interval is None else list(self.interval),
            "count": self.count,
            **({} if self.score is None else {"score": self.score, "before": self.before, "now": self.now}),
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """All checks of a run."""

    checks: Sequence[Check]
    fallen: Sequence[Check] = ()
    """Scores without a criterion that became worse than the baseline; they do not affect the outcome."""
    consists: str | None = None
    """The components of a fall of `lexical_groundedness`, in words; None: it did not fall, or they are
    unknown."""

    @property
    def outcome(self) -> Outcome:
        """Return the combined outcome."""
        said = {check.outcome for check in self.checks}
        for outcome in _STRENGTH:
            if outcome in said:
                return outcome
        return "blocked"


_SIGNS: Mapping[str, Side | None] = {">=": "least", "<=": "most", "=": None}


def limit_of(text: str, given_as: str = "--fail-under") -> Limit:
    """Parse ``NAME=VALUE``, ``NAME>=VALUE`` or ``NAME<=VALUE``.

    Args:
        text: The text of the limit.
        given_as: The option or argument that errors name.

    Raises:
        ConfigurationError: The text has another form.
    """
    sign = next((one for one in _SIGNS if one in text), "=")
    name, _, number = text.partition(sign)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not name.strip() or not math.isfinite(value):
        sign_of = "=" if given_as.startswith("--") else ">="  # a shell reads > as a redirection
        raise ConfigurationError(f"{given_as} {text!r}: write NAME{sign_of}VALUE, e.g. recall{sign_of}0.8")
    return Limit(name.strip(), value, _SIGNS[sign])


def check_limits(limits: Sequence[Limit], metrics: Sequence[Metric]) -> None:
    """Check limits before anything is scored.

    Args:
        limits: The limits.
        metrics: The metrics of the run.

    Raises:
        ConfigurationError: A limit names a score that no metric has, or a value outside its range.
    """
    of_name = {name: metric for metric in metrics for name in metric.score_names}
    for limit in limits:
        metric = of_name.get(limit.name)
        if metric is None:
            raise ConfigurationError(
                f"--fail-under {limit.name}: no such score is measured{_hint_for_name(limit.name, of_name)}"
            )
        lowest, highest = metric.range
        if metric.direction_of(limit.name) == "none":
            continue  # `decide` reports what is possible for such a score
        if (lowest is not None and limit.value < lowest) or (highest is not None and limit.value > highest):
            raise ConfigurationError(
                f"--fail-under {limit.name}: {limit.value:g} is not from {lowest} to {highest}, its range"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """The criteria of a decision."""

    limits: Sequence[Limit] = ()
    baseline: RowScores | None = None
    """The scores of an earlier run; None: no comparison."""
    tolerance: float = 0.03
    """Accepted fall of a mean below the baseline."""


def decide(
    asked: Criteria, summaries: Sequence[ScoreSummary], rows: RowScores, unreadable: int
) -> Decision | None:
    """Return the decision; None without criteria.

    Args:
        asked: The limits and the baseline to decide on.
        summaries: The scores of the run.
        rows: The same by question; needed for a baseline only.
        unreadable: Number of unreadable rows, each of which could have any value.
    """
    if not asked.limits and asked.baseline is None:
        return None
    fallen: Sequence[Check] = ()
    known = {one.name: one for one in summaries}
    checks = [_check_limit(limit, known.get(limit.name), unreadable, known) for limit in asked.limits]
    if asked.baseline is not None:
        named = {limit.name for limit in asked.limits}
        compared = {
            one.name: _check_baseline(one, asked.baseline, rows, asked.tolerance, unreadable)
            for one in summaries
            if one.direction != "none" and _ends(one) is not None
        }
        deciding = [check for name, check in compared.items() if not named or name in named]
        checks += deciding
        fallen = [check for check in compared.values() if check not in deciding and check.outcome == "fail"]
        if not deciding:
            checks.append(Check("not worse than the baseline", "blocked", "no score to compare"))
    consists = None if asked.baseline is None else _consists(asked.baseline, rows)
    return Decision(checks, fallen, consists)


def _consists(old: RowScores, new: RowScores) -> str | None:
    """Describe the components of a fall of groundedness, over the questions of both runs."""
    before: dict[str, float] = {}
    now: dict[str, float] = {}
    for name in PARTS:
        pairs = [
            (was.value, then.value)
            for question, earlier, later in old.pairs(new, name)
            if question is not None
            for was, then in zip(earlier, later, strict=False)
            if was.measurement == then.measurement and was.value is not None and then.value is not None
        ]
        if pairs:
            before[name], now[name] = (math.fsum(half) / len(pairs) for half in zip(*pairs, strict=True))
    return "; ".join(map(str, notes_on_fall(before, now))) or None


def _ends(one: ScoreSummary) -> tuple[float, float] | None:
    lowest, highest = one.range
    return None if lowest is None or highest is None or lowest >= highest else (lowest, highest)


def _check_limit(limit: Limit, one: ScoreSummary | None, unreadable: int, names: Collection[str]) -> Check:
    side = _side_of(limit, "none" if one is None else one.direction)
    what = f"{limit.name} at {side} {limit.value:g}"
    if one is None:
        if not names:
            return Check(what, "blocked", "nothing was scored")
        return Check(what, "blocked", f"this run has no such score{_hint_for_name(limit.name, names)}")
    ends = _ends(one)
    problem = _contradiction(limit, one.direction)
    if ends is None and problem is None:
        problem = "of this score neither end is better, or its range is open"
    if problem is not None or ends is None:
        return Check(what, "blocked", str(problem))
    missing = unreadable + sum(one.without_value.get(status, 0) for status in LACKING)
    if not one.count:
        return Check(what, "blocked", _without_values(one))
    lower, upper = one.interval() or ends
    outcome = _side(lower, upper, limit.value, side)
    others = {_side(*(one.interval(missing, end) or ends), limit.value, side) for end in ends}
    values = "1 value" if one.count == 1 else f"{one.count} values"
    said = f"mean {one.mean:.3f}, 95 % interval {lower:.3f} to {upper:.3f}, {values}"
    if missing and others != {outcome}:
        outcome = "blocked"
        said += f"; {missing} values are missing and could change the outcome"
    elif outcome == "inconclusive" and (least := _fewest(limit.value, ends, side)) > one.count:
        said += f"; no fewer than {least} can pass, even if each is as good as can be"
    return Check(what, outcome, said, one.mean, (lower, upper), one.count)


def _side_of(limit: Limit, direction: ScoreDirection) -> Side:
    return limit.side or ("most" if direction == "lower" else "least")


def _contradiction(limit: Limit, direction: ScoreDirection) -> str | None:
    """Return why a limit is impossible for a score, or None."""
    if direction == "none":
        has_side = limit.side is not None
        return None if has_side else "of this score neither end is better, or its range is open"
    usual = _side_of(Limit(limit.name, limit.value), direction)
    if _side_of(limit, direction) == usual:
        return None
    return f"of this score {direction} values are better: ask for at {usual} {limit.value:g}"


def _hint_for_name(name: str, names: Collection[str]) -> str:
    """Return a hint for the name of a score that no row has."""
    for known in known_metrics():
        try:
            [metric] = resolve_metrics([known])
        except ConfigurationError:  # a third-party metric that cannot be loaded
            continue
        if name in metric.score_names:
            lacking = ["a judge"] if metric.judged else []
            if any(need.startswith("reference") for need in metric.needs):
                lacking.append("a reference")
            why = f"measured: it needs {' and '.join(lacking)}" if lacking else "asked for"
            return f"; it is one of the metric {metric.name}, which was not {why}"
        if name == metric.name:
            return f"; the scores of this metric are {', '.join(metric.score_names)}"
    near = get_close_matches(name, names, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def decide_each(limits: Sequence[Limit], rows: Sequence[Mapping[str, Score]]) -> Decision:
    """Decide whether every single row reaches its limits; for a few selected rows nothing is estimated.

    A row without a value blocks, whatever its status: selected rows need a value.

    Args:
        limits: The limits for the value of each row.
        rows: The scores of each row by name.
    """
    names = {name for scores in rows for name in scores}
    return Decision([_each(limit, rows, names) for limit in limits])


def _each(limit: Limit, rows: Sequence[Mapping[str, Score]], names: Collection[str]) -> Check:
    found = [scores.get(limit.name) for scores in rows]
    there = [score for score in found if score is not None]
    direction = there[0].direction if there else "none"
    side = _side_of(limit, direction)
    what = f"each {limit.name} at {side} {limit.value:g}"
    if not there:
        said = f"no row has such a score{_hint_for_name(limit.name, names)}" if rows else "there are no rows"
        return Check(what, "blocked", said)
    if (problem := _contradiction(limit, direction)) is not None:
        return Check(what, "blocked", problem)
    values = [score.value for score in there if score.value is not None]
    below = sum(_side(value, value, limit.value, side) == "fail" for value in values)
    lacking = Counter(
        "no such score" if score is None else score.status
        for score in found
        if score is None or score.value is None
    )
    said = f"{len(values) - below} of {len(rows)} reach it"
    if lacking:
        said += f", {', '.join(f'{count} {status}' for status, count in lacking.items())}"
    outcome: Outcome = "fail" if below else "blocked" if lacking else "pass"
    mean = math.fsum(values) / len(values) if values else None
    return Check(what, outcome, said, mean, None, len(values))


def _fewest(limit: float, ends: tuple[float, float], side: Side) -> int:
    """Return the least number of values, all the best, for a whole interval to reach a limit; 0: impossible.

    Wilson's interval of n values that are all the best ends at n / (n + z²).
    """
    place = (limit - ends[0]) / (ends[1] - ends[0])
    reach = place if side == "least" else 1.0 - place
    if not 0.0 < reach < 1.0:
        return 0
    return math.ceil(reach / (1.0 - reach) * NORMAL_QUANTILE**2 - 1e-9)


def _without_values(one: ScoreSummary) -> str:
    statuses = ", ".join(f"{count} {status}" for status, count in one.without_value.items())
    lacking = f" (not given: {', '.join(one.lacking)})" if one.lacking else ""
    return f"no value: {statuses or 'nothing was measured'}{lacking}"


def _side(lower: float, upper: float, limit: float, side: Side = "least") -> Outcome:
    """Return on which side of a limit the whole interval lies."""
    if side == "most":
        lower, upper, limit = -upper, -lower, -limit
    return "pass" if lower >= limit else "fail" if upper < limit else "inconclusive"


def _check_baseline(
    one: ScoreSummary, old: RowScores, new: RowScores, tolerance: float, unreadable: int
) -> Check:
    """Compare the mean with the baseline's, over the questions of both."""
    name = one.name
    what = f"{name} not more than {tolerance:g} worse than the baseline"
    lowest, highest = _ends(one) or (0.0, 1.0)
    width = highest - lowest
    differences = array("d")
    earlier, present = array("d"), array("d")
    measured: Counter[str] = Counter()
    here = there = lacking = 0
    for question, before, after in old.pairs(new, name):
        there += sum(score.value is not None for score in before)
        here += sum(score.value is not None for score in after)
        if question is None:
            continue  # unknown, so they may differ
        for was, now in zip(before, after, strict=False):
            if was.measurement != now.measurement:
                measured[f"{was.measurement} then, {now.measurement} now"] += 1
            elif was.value is not None and now.value is not None:
                differences.append((now.value - was.value) / width)
                earlier.append(was.value)
                present.append(now.value)
            elif was.is_lacking or now.is_lacking:
                lacking += 1
    if measured:
        (different, _), *_ = measured.most_common(1)
        return Check(what, "blocked", f"measured otherwise: {different}", score=name)
    paired = len(differences)
    if not paired or paired < LEAST_PAIRED * max(here, there):
        said = f"{paired} questions have a value in both runs, of {there} then and {here} now"
        return Check(what, "blocked", said, count=paired, score=name)
    mean, lower, upper = difference_interval(differences)
    missing = lacking + unreadable

    def side(low: float, high: float) -> Outcome:
        return _side(*((-high, -low) if one.direction == "lower" else (low, high)), -tolerance)

    outcome = side(lower, upper)
    others = {side(*difference_interval([*differences, *[end] * missing])[1:]) for end in (-1.0, 1.0)}
    said = (
        f"difference {mean * width:+.3f}, 95 % interval {lower * width:+.3f} to {upper * width:+.3f}, "
        f"{paired} pairs"
    )
    if missing and others != {outcome}:
        outcome = "blocked"
        said += f"; {missing} values are missing and could change the outcome"
    return Check(
        what,
        outcome,
        said,
        mean * width,
        (lower * width, upper * width),
        paired,
        score=name,
        before=math.fsum(earlier) / paired,
        now=math.fsum(present) / paired,
    )
