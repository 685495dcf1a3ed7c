"""Detect a fall of a score (`FallDetector`), and describe it to people (`Change`).

A detector learns a baseline (`baseline`) and accumulates evidence for a mean below it (`evidence`). It takes
sums and times, has no clock, thread or lock, and survives a restart by its `state`. Each score of each
workflow and segment has one.

It detects falls below the baseline. For quality that is bad from the first day there are objectives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone, tzinfo
from typing import Any, Literal, NamedTuple

from ragmeter.exporters.changes import NewSince, QualityChange
from ragmeter.quality.estimates import Estimate

from .baseline import HALF_HOURS, HOURS_OF_WEEK, Baseline, Day, ScoreHistory, learn
from .evidence import ALARM_EVIDENCE, FallEvidence, e_bh

__all__ = [
    "ALARM_EVIDENCE",
    "Block",
    "Change",
    "ChangeKind",
    "DetectorStep",
    "Fall",
    "FallDetector",
    "NewSince",
    "e_bh",
]

ChangeKind = Literal["fell", "mix", "judge", "recovered", "version"]
"""``fell``: a score fell; ``mix``: a whole fell, but none of its parts: users ask other questions; ``judge``:
the judge has drifted; ``recovered``: a fall is over; ``version``: a new version is worse than the one
before."""
SILENCE_S = 86_400.0
"""Seconds after an alarm until the same score may alarm again, and after a fall until learning resumes."""
RECOVERY_EVIDENCE = 288.0
"""Five-minute blocks in a day: on average, an ongoing fall counts as over no sooner than that."""
STATE_VERSION = 1


class Block(NamedTuple):
    """The scores of one block of time, usually five minutes; scores lie between 0 and 1, more is better."""

    n: float
    """Number of scores; of judged ones only those sampled by hash."""
    total: float
    """Their sum."""
    squares: float
    """The sum of their squares."""

    def mirror(self) -> Block:
        """Return the block of 1 - score, for scores where lower is better."""
        return Block(self.n, self.n - self.total, self.n - 2 * self.total + self.squares)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorStep:
    """The detector's state after a block."""

    status: Literal["learning", "watching", "fallen"]
    """``learning``: no baseline yet; ``fallen``: an alarm was raised and the fall is not over."""
    evidence: float = 0.0
    """Evidence for a fall, compared with `ALARM_EVIDENCE`; 0 while learning, and for a day after an alarm."""
    baseline: float | None = None
    """The usual mean in this hour of the week; None: unknown."""
    floor: float | None = None
    """A mean that stays below this is a fall; None: unknown."""
    mean: float | None = None
    """Mean of this block; None: no scores."""
    since: float | None = None
    """Estimated start of the current or suspected fall, Unix seconds."""
    recovered: bool = False
    """Whether a fall ended with this block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A fall that raised an alarm."""

    since: float
    """Estimated start, Unix seconds."""
    before: float
    """The usual mean in the hours since then."""
    now: float
    """The mean since then. Biased slightly low, as it was selected for being low."""
    n: float
    """Number of scores since then."""
    evidence: float
    again: bool
    """Whether it raised an alarm before and is still not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(QualityChange):
    """A change of quality, as people see it; compare its evidence with `ALARM_EVIDENCE`."""

    before: Estimate
    now: Estimate
    kind: ChangeKind
    earlier: str = ""
    """For kind ``version``, the version before the one in `segment`; else empty."""


class FallDetector:
    """Detects falls of one score. Not thread-safe; costs some 20 µs a block, and some 30 kB.

    The caller selects alarms among all detectors of a service by `e_bh`, and calls `alarm` on each.

    Args:
        zone: Time zone of hours and weekends; None: UTC.
    """

    def __init__(self, *, zone: tzinfo | None = None) -> None:
        self._zone = timezone.utc if zone is None else zone
        self._judge: str | None = None
        self._forget()

    def _forget(self) -> None:
        self._history = ScoreHistory()
        self._baseline: Baseline | None = None
        self._today = 0
        self._evidence = FallEvidence()
        self._silent_until = -math.inf
        self._frozen_until = -math.inf
        self._fallen: _OpenFall | None = None

    def step(
        self, at: float, block: Block, judge: str | None = None, *, design_effect: float = 1.0
    ) -> DetectorStep:
        """Add a block, and return the new state.

        Args:
            at: When it began, Unix seconds. Blocks come in order; a late one counts as evidence only, and is
                not learned from. A block may be longer than five minutes, and blocks may be missing.
            block: Its sums; one without scores changes nothing.
            judge: Name of the measurement; a new one resets the detector. None: the same as before; empty: no
                name yet.
            design_effect: Variance inflation by similar values within a conversation; the larger of this and
                the one learned from half hours counts.
        """
        if judge is not None and judge != self._judge:
            if self._judge:
                self._forget()
            self._judge = judge
        n, total, squares = block
        when = datetime.fromtimestamp(at, self._zone)
        day, half = when.toordinal(), 2 * when.hour + when.minute // 30
        if day > self._today:
            self._begin(day, at)
        hour = when.hour + (24 if when.weekday() >= 5 else 0)
        baseline = self._baseline
        usual = None if baseline is None else baseline.expected[hour]
        recovered = False
        if n > 0 and math.isfinite(n + total + squares):
            if baseline is not None and usual is not None:
                effect = max(baseline.design_effect, design_effect)
                recovered = self._weigh(at, block, baseline, usual, effect)
            if self._fallen is not None:
                self._fallen.history.add(day, half, n, total, squares)
            elif at >= self._frozen_until:
                self._history.add(day, half, n, total, squares)
        return DetectorStep(
            status=self._status(),
            evidence=self._evidence.total if at >= self._silent_until else 0.0,
            baseline=usual,
            floor=None if baseline is None or usual is None else usual - baseline.allowance,
            mean=total / n if n > 0 else None,
            since=self._since(),
            recovered=recovered,
        )

    def alarm(self, at: float) -> Fall:
        """Note the alarm raised after the block that began `at`, and return the fall.

        Learning stops until a day after the fall is over, and evidence is 0 for a day. Scores since the start
        of the fall are removed from the baseline.
        """
        evidence, path = self._evidence.total, self._evidence.path
        if path is None or self._baseline is None:
            raise ValueError("there is no evidence for a fall")
        fallen, again = self._fallen, self._fallen is not None
        if fallen is None:
            start = datetime.fromtimestamp(path.since, self._zone)
            later = self._history.split(start.toordinal(), 2 * start.hour + start.minute // 30)
            fallen = _OpenFall(path.since, 0.0, later)
        fallen.depth = path.usual - path.mean
        fallen.rise.clear()
        self._fallen = fallen
        self._evidence.clear()
        self._silent_until = at + SILENCE_S
        return Fall(
            since=fallen.since, before=path.usual, now=path.mean, n=path.n, evidence=evidence, again=again
        )

    def accept(self) -> None:
        """Accept the current level: the scores since the fall become the new baseline, or its beginning."""
        fallen, today = self._fallen, self._today
        self._forget()
        if fallen is not None:
            self._history, self._today = fallen.history, today
            self._baseline = learn(self._history.before(today + 1))

    def restart(self) -> None:
        """Forget everything and learn again, after an intended change."""
        self._forget()

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values, for `from_state`."""
        known, fallen = self._baseline, self._fallen
        return {
            "version": STATE_VERSION,
            "judge": self._judge,
            "today": self._today,
            "history": _days_state(self._history),
            "baseline": None if known is None else asdict(known) | {"expected": list(known.expected)},
            "evidence": self._evidence.state(),
            "silent_until": _finite(self._silent_until),
            "frozen_until": _finite(self._frozen_until),
            "fallen": None
            if fallen is None
            else {
                "since": fallen.since,
                "depth": fallen.depth,
                "history": _days_state(fallen.history),
                "rise": fallen.rise.state(),
            },
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, zone: tzinfo | None = None) -> FallDetector:
        """Restore a detector from its `state`.

        Raises:
            ValueError: The state is damaged, or of another version: begin with a new detector.
        """
        made = cls(zone=zone)
        try:
            _check_version(state["version"])
            made._judge = None if state["judge"] is None else str(state["judge"])
            made._today = int(state["today"])
            made._history = _history_of(state["history"])
            if (known := state["baseline"]) is not None:
                made._baseline = _baseline_of(known)
            made._evidence = FallEvidence.of_state(state["evidence"])
            made._silent_until = _time_of(state["silent_until"])
            made._frozen_until = _time_of(state["frozen_until"])
            if (fallen := state["fallen"]) is not None:
                made._fallen = _OpenFall(
                    float(fallen["since"]), float(fallen["depth"]), _history_of(fallen["history"])
                )
                made._fallen.rise = FallEvidence.of_state(fallen["rise"])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"this is no state of a FallDetector: {error}") from error
        return made

    def _begin(self, day: int, at: float) -> None:
        """Begin a day: learn from the days before it."""
        self._today = day
        if self._fallen is None and at >= self._frozen_until:
            self._baseline = learn(self._history.before(day)) or self._baseline

    def _weigh(self, at: float, block: Block, baseline: Baseline, usual: float, effect: float) -> bool:
        """Add the evidence of a block; return whether it ends a fall."""
        allowance = baseline.allowance
        n, total, squares = block
        self._evidence.add(at, n, total, squares, floor=usual - allowance, usual=usual, design_effect=effect)
        fallen = self._fallen
        if fallen is None:
            return False
        # The mean has recovered if it is above the middle between depth and floor; mirrored, below it.
        middle = usual - (allowance + max(fallen.depth, allowance)) / 2
        n, total, squares = block.mirror()
        fallen.rise.add(at, n, total, squares, floor=1 - middle, usual=1 - usual, design_effect=effect)
        path = fallen.rise.path
        if path is None or fallen.rise.total < RECOVERY_EVIDENCE:
            return False
        depth = path.mean - path.usual
        if depth > allowance:  # better, and still too low
            fallen.depth = depth
            fallen.rise.clear()
            return False
        self._fallen = None
        self._evidence.clear()
        self._silent_until = -math.inf
        self._frozen_until = at + SILENCE_S
        return True

    def _status(self) -> Literal["learning", "watching", "fallen"]:
        if self._fallen is not None:
            return "fallen"
        return "learning" if self._baseline is None else "watching"

    def _since(self) -> float | None:
        if self._fallen is not None:
            return self._fallen.since
        path = self._evidence.path
        return path.since if path is not None and path.log > 0 else None


class _OpenFall:
    """State of a fall that is not over."""

    __slots__ = ("depth", "history", "rise", "since")

    def __init__(self, since: float, depth: float, history: ScoreHistory) -> None:
        self.since = since
        self.depth = depth
        """Distance of the mean below the usual mean."""
        self.history = history
        """The scores since then: the next baseline, if they are accepted."""
        self.rise = FallEvidence()


def _check_version(version: object) -> None:
    if version != STATE_VERSION:
        raise ValueError(f"version {STATE_VERSION} is known, not {version!r}")


def _finite(time: float) -> float | None:
    return time if math.isfinite(time) else None


def _time_of(value: Any) -> float:
    return -math.inf if value is None else float(value)


def _days_state(history: ScoreHistory) -> list[list[Any]]:
    return [[day.number, list(day.sums)] for day in history.days]


def _history_of(state: Sequence[Sequence[Any]]) -> ScoreHistory:
    days = [Day(int(number), [float(one) for one in sums]) for number, sums in state]
    if any(len(day.sums) != 3 * HALF_HOURS for day in days):
        raise ValueError("a day has 48 half hours")
    return ScoreHistory(days)


def _baseline_of(state: Mapping[str, Any]) -> Baseline:
    expected = tuple(None if one is None else float(one) for one in state["expected"])
    if len(expected) != HOURS_OF_WEEK:
        raise ValueError("a baseline has 48 hours")
    return Baseline(
        expected=expected,
        tolerance=float(state["tolerance"]),
        error=float(state["error"]),
        design_effect=float(state["design_effect"]),
        scores=float(state["scores"]),
    )
