"""Has a score fallen? `FallDetector`, asked once in five minutes, and `Change`, what people learn of it.

A detector learns what is usual (`baseline`), and adds up what speaks for less than that (`evidence`).  It
is fed sums and times, has no clock, no thread and no lock, and survives a restart by its `state`.  One belongs
to each score of each workflow and segment, in the one place that sees all requests.

It sees falls from what was usual. Quality that was bad from the first day is usual: objectives are for that.
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
"""``fell``: a score fell; ``mix``: a whole fell, but no part of it: other questions are asked; ``judge``: the
judge judges otherwise than before; ``recovered``: a fall is over; ``version``: a new version is worse than the
one before."""
SILENCE_S = 86_400.0
"""After an alarm, seconds until the same score may alarm again; and seconds after a fall in which nothing
is learned."""
RECOVERY_EVIDENCE = 288.0
"""Blocks of five minutes in a day: on average that long until a fall that goes on is taken for over."""
STATE_VERSION = 1


class Block(NamedTuple):
    """The scores of one block of time, usually five minutes; scores lie between 0 and 1, more is better."""

    n: float
    """How many; of judged ones, those alone that a hash chose."""
    total: float
    """Their sum."""
    squares: float
    """The sum of their squares."""

    def mirror(self) -> Block:
        """Return the same of 1 - score, for scores of which less is better."""
        return Block(self.n, self.n - self.total, self.n - 2 * self.total + self.squares)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorStep:
    """What a detector knows after a block."""

    status: Literal["learning", "watching", "fallen"]
    """``learning``: not yet known what is usual; ``fallen``: an alarm was given and the fall is not over."""
    evidence: float = 0.0
    """For a fall, to be compared with `ALARM_EVIDENCE`; 0 while learning, and for a day after an alarm."""
    baseline: float | None = None
    """What is usual in this hour of the week; None: not known."""
    floor: float | None = None
    """The mean below which it is a fall, if it lasts; None: not known."""
    mean: float | None = None
    """Of this block; None: it had no scores."""
    since: float | None = None
    """When the fall began that is on, or that there is any evidence for: Unix seconds, estimated."""
    recovered: bool = False
    """Whether a fall ended with this block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A fall that was alarmed."""

    since: float
    """Estimated start, Unix seconds."""
    before: float
    """What the mean usually is in the hours since then."""
    now: float
    """The mean since then. Chosen for being low, so it is a little lower than the truth."""
    n: float
    """How many scores it is of."""
    evidence: float
    again: bool
    """Whether it was alarmed before and still is not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(QualityChange):
    """A change of quality, as people see it; its evidence is to be compared with `ALARM_EVIDENCE`."""

    before: Estimate
    now: Estimate
    kind: ChangeKind
    earlier: str = ""
    """Of kind ``version``: the value before that which `segment` names; else empty."""


class FallDetector:
    """Watches one score. Not thread-safe; costs some 20 µs a block, and some 30 kB.

    The caller picks from the evidence of all detectors of a service by `e_bh`, and tells them by `alarm`.

    Args:
        zone: Whose hours and weekends count; None: UTC.
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
        """Take in a block, and return what is known now.

        Args:
            at: When it began, Unix seconds. Blocks come in order; one that is late counts as evidence, and
                is not learned from. A block may be longer than five minutes, and blocks may be missing.
            block: Its sums; one without scores changes nothing.
            judge: Names what gave the scores; another one than before begins again. None: the same as before;
                empty: it has no name yet.
            design_effect: How much more sums are known to vary because values of one conversation are alike;
                what half hours say of it is learned besides, and the larger one counts.
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
        """Take note that an alarm was given after the block that began `at`, and return what it is about.

        From now on nothing is learned until a day after the fall is over, and for a day there is no evidence.
        What came since the fall began is taken out of what was learned.
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
            since=fallen.since,
            before=path.usual,
            now=path.mean,
            n=path.n,
            evidence=evidence,
            again=again,
        )

    def accept(self) -> None:
        """Take what is now for usual: what came since the fall is the new baseline, or its beginning."""
        fallen, today = self._fallen, self._today
        self._forget()
        if fallen is not None:
            self._history, self._today = fallen.history, today
            self._baseline = learn(self._history.before(today + 1))

    def restart(self) -> None:
        """Forget everything, and learn again: something was changed on purpose."""
        self._forget()

    def state(self) -> dict[str, Any]:
        """Return everything, as values that JSON knows; `from_state` makes a detector of it."""
        known, fallen = self._baseline, self._fallen
        return {
            "version": STATE_VERSION,
            "judge": self._judge,
            "today": self._today,
            "history": _days_state(self._history),
            "baseline": None
            if known is None
            else asdict(known) | {"expected": list(known.expected)},
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
        """Return the detector whose state this is.

        Raises:
            ValueError: If it is none, or one of another version: begin with a new detector.
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
        """Begin a day: learn from those before it."""
        self._today = day
        if self._fallen is None and at >= self._frozen_until:
            self._baseline = learn(self._history.before(day)) or self._baseline

    def _weigh(
        self, at: float, block: Block, baseline: Baseline, usual: float, effect: float
    ) -> bool:
        """Take in what a block says of a fall; return whether it says that one is over."""
        allowance = baseline.allowance
        n, total, squares = block
        self._evidence.add(
            at, n, total, squares, floor=usual - allowance, usual=usual, design_effect=effect
        )
        fallen = self._fallen
        if fallen is None:
            return False
        # Whether the mean has left the depth for the floor is whether it is above the middle of the two;
        # upside down, whether it is below.
        middle = usual - (allowance + max(fallen.depth, allowance)) / 2
        n, total, squares = block.mirror()
        fallen.rise.add(
            at, n, total, squares, floor=1 - middle, usual=1 - usual, design_effect=effect
        )
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
    """What is known of a fall that is not over."""

    __slots__ = ("depth", "history", "rise", "since")

    def __init__(self, since: float, depth: float, history: ScoreHistory) -> None:
        self.since = since
        self.depth = depth
        """How far the mean is below what is usual."""
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
