"""Detect judge drift: compare old and new verdicts on a frozen set of requests.

When the model behind a judge's name is replaced or its endpoint updated, means move although no answer became
worse. `Ruler` records the rounds that `ragmeter.watch.judge_check` runs, and reports the state of each
score's judge. Thread-safe; calls no judge.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from ragmeter.exporters.changes import ChangeNote, JudgeDrift
from ragmeter.metrics import ConfigurationError, RagSample
from ragmeter.metrics._files.rows import BadRow, read_rows
from ragmeter.metrics._process import fork
from ragmeter.quality.estimate import difference_interval, estimate
from ragmeter.quality.moments import FreeMoments, JudgedMoments

from .change import ALARM_EVIDENCE, Change

__all__ = ["Drift", "FrozenRequest", "Ruler", "Standing", "read_frozen"]

Standing = Literal["unchecked", "pending", "steady", "moved"]
"""State of a judge since some time. ``unchecked``: the frozen set has no verdicts of the score; ``pending``:
no round since then; ``steady``: it judges as before; ``moved``: it has drifted."""
TOLERANCE = 0.03
"""A judge has drifted when the whole 95 % interval of the mean difference lies beyond this."""
LEAST_REQUESTS = 30
"""Least number of verdicts of a score; with fewer, the interval is too wide."""


class FrozenRequest(NamedTuple):
    """A request with the judge's verdicts at the time it was frozen."""

    sample: RagSample
    verdicts: Mapping[str, float]
    """By score, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(JudgeDrift):
    """The drift that exporters see, with its time and number of requests."""

    n: int
    """Number of requests judged again."""
    at: float
    """Time of measurement, Unix seconds."""

    @property
    def has_moved(self) -> bool:
        """Whether the whole interval lies beyond the tolerance, on either side."""
        return self.lower > TOLERANCE or self.upper < -TOLERANCE


def read_frozen(path: Path, scores: Collection[str]) -> list[FrozenRequest]:
    """Read a frozen set: judged requests written by ``JsonlExporter(path, include_content=True)``.

    Args:
        path: The file.
        scores: Judged scores; other verdicts, and requests without verdicts, are dropped.

    Raises:
        ConfigurationError: The file cannot be read, a line is no request, or there are too few verdicts.
    """
    frozen: list[FrozenRequest] = []
    for row in read_rows(path, ("contexts",)):
        if isinstance(row, BadRow):
            raise ConfigurationError(f"judge_check {str(path)!r}, line {row.line}: {row.reason}")
        try:
            verdicts = _verdicts(row.fields.get("scores") or {}, scores)
            if verdicts:
                frozen.append(FrozenRequest(_sample(row.fields), verdicts))
        except (ValidationError, TypeError, ValueError, AttributeError):
            problem = f"judge_check {str(path)!r}, line {row.line}: no request with scores"
        else:
            continue
        # Raised outside: the caught error quotes texts and must not be its context.
        raise ConfigurationError(f"{problem}; JsonlExporter(path, include_content=True) writes them")
    most = max((sum(name in one.verdicts for one in frozen) for name in scores), default=0)
    if most < LEAST_REQUESTS:
        raise ConfigurationError(
            f"judge_check {str(path)!r} has {most} requests with a verdict of {', '.join(sorted(scores))}; "
            f"freeze {LEAST_REQUESTS} or more, better 100, as JsonlExporter(path, include_content=True) "
            "wrote them"
        )
    return frozen


def _sample(fields: Mapping[str, Any]) -> RagSample:
    names = ("question", "contexts", "answer", "reference", "status", "search_query")
    return RagSample.model_validate({name: fields[name] for name in names if fields.get(name) is not None})


def _verdicts(given: Mapping[str, Any], scores: Collection[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, score in given.items():
        if name not in scores:
            continue
        is_object = isinstance(score, Mapping)
        value = score.get("value") if is_object else score
        lowest, highest = (score.get("range") if is_object else None) or (0.0, 1.0)
        if value is not None and (not is_object or score.get("status", "ok") == "ok"):
            found[name] = scale_to_unit(float(value), lowest, highest)
    return found


def scale_to_unit(value: float, lowest: float | None, highest: float | None) -> float:
    """Scale `value` from its range to 0 to 1.

    Raises:
        ValueError: The range is open or empty, or the value is not finite.
    """
    if lowest is None or highest is None or not lowest < highest or not math.isfinite(value):
        raise ValueError("a verdict has a range with two ends")
    return min(1.0, max(0.0, (value - lowest) / (highest - lowest)))


class Ruler:
    """Records rounds of repeated judgements.

    Args:
        scores: The scores with verdicts in the frozen set.
    """

    def __init__(self, scores: Collection[str]) -> None:
        self._scores = frozenset(scores)
        self._lock = fork.lock()
        self._began: dict[str, float] = {}
        self._drifts: dict[str, Drift] = {}
        self._steady_at: dict[str, float] = {}

    def standing(self, score: str, since: float) -> Standing:
        """Return the state of a score's judge, by a round that began at `since` (Unix seconds) or later."""
        if score not in self._scores:
            return "unchecked"
        with self._lock:
            drift = self._drifts.get(score)
            if drift is not None and drift.has_moved:
                return "moved"
            return "steady" if self._began.get(score, -math.inf) >= since else "pending"

    def moved_scores(self) -> Collection[str]:
        """Return the scores whose judge is drifted now."""
        with self._lock:
            return [name for name, drift in self._drifts.items() if drift.has_moved]

    def drifts(self) -> Sequence[Drift]:
        """Return the drift of each score in the last round."""
        with self._lock:
            return list(self._drifts.values())

    def take(
        self, pairs: Mapping[str, Sequence[tuple[float, float]]], began: float, ended: float
    ) -> list[Change]:
        """Record a round, and return the judges that have drifted since the one before.

        Args:
            pairs: By score, the frozen verdicts and the new ones.
            began: When the round began, Unix seconds.
            ended: When it ended.
        """
        changes: list[Change] = []
        for score, found in pairs.items():
            if len(found) < LEAST_REQUESTS:
                continue  # the judge failed on most requests
            mean, lower, upper = difference_interval([new - old for old, new in found])
            drift = Drift(score=score, mean=mean, lower=lower, upper=upper, n=len(found), at=ended)
            with self._lock:
                before = self._drifts.get(score)
                self._drifts[score] = drift
                self._began[score] = began
                since = self._steady_at.get(score, began)
                if not drift.has_moved:
                    self._steady_at[score] = ended
            if drift.has_moved and not (before is not None and before.has_moved):
                changes.append(_change(drift, found, since))
        return changes


def _change(drift: Drift, pairs: Sequence[tuple[float, float]], since: float) -> Change:
    old, new = FreeMoments(), JudgedMoments()
    for then, now in pairs:
        old.add_value(then)
        new.add_request(then)
        new.judged(then, 1.0, now)
    word = "harsher" if drift.mean < 0 else "kinder"
    return Change(
        score=drift.score,
        workflow="",
        since=since,
        at=drift.at,
        before=estimate(old),
        now=estimate(new),
        evidence=ALARM_EVIDENCE,
        kind="judge",
        notes=(ChangeNote(word, (abs(drift.mean), drift.n, drift.lower, drift.upper)),),
    )
