"""Detect judge drift: compare old and new verdicts on a frozen set of requests.

When the model behind a judge's name is replaced or its endpoint updated, means move although no answer became
worse. Called by `ragmeter.watch.judge_check`, which runs the rounds; calls no judge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from ragmeter.exporters.changes import ChangeNote, JudgeDrift
from ragmeter.metrics import ConfigurationError, RagSample
from ragmeter.metrics._display.mean_interval import scale_to_unit
from ragmeter.metrics._files.rows import BadRow, read_rows
from ragmeter.quality.estimate import difference_interval, estimate
from ragmeter.quality.moments import FreeMoments, JudgedMoments

from .change import Change
from .evidence import ALARM_EVIDENCE

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

    @classmethod
    def of(cls, score: str, pairs: Sequence[tuple[float, float]], at: float) -> Drift:
        """Return the drift of a score, from its frozen verdicts and the new ones, measured at a time."""
        mean, lower, upper = difference_interval([new - old for old, new in pairs])
        return cls(score=score, mean=mean, lower=lower, upper=upper, n=len(pairs), at=at)

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


def drift_change(drift: Drift, pairs: Sequence[tuple[float, float]], since: float) -> Change:
    """Return a drift as a change.

    Args:
        drift: The judge's.
        pairs: The frozen verdicts and the new ones.
        since: When the judge was last known to be steady, Unix seconds.
    """
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
