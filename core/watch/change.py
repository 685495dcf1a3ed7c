"""Detect a fall of a score (`FallDetector`), and describe it to people (`Change`).

A detector learns a baseline (`baseline`) and accumulates evidence for a mean below it (`evidence`). It takes
sums and times, has no clock, thread or lock, and its fields are all that a restart needs. Each score of each
workflow and segment has one.

It detects falls below the baseline. For quality that is bad from the first day there are objectives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Literal

from ragmeter.exporters.changes import QualityChange
from ragmeter.quality.estimates import Estimate

from .baseline import Baseline, ScoreHistory, learn
from .evidence import Block, FallEvidence

ChangeKind = Literal["fell", "mix", "judge", "recovered", "version"]
"""``fell``: a score fell; ``mix``: a whole fell, but none of its parts: users ask other questions; ``judge``:
the judge has drifted; ``recovered``: a fall is over; ``version``: a new version is worse than the one
before."""
SILENCE_S = 86_400.0
"""Seconds after an alarm until the same score may alarm again, and after a fall until learning resumes."""
RECOVERY_EVIDENCE = 288.0
"""Five-minute blocks in a day: on average, an ongoing fall counts as over no sooner than that."""


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


@dataclass(slots=True)
class OpenFall:
    """State of a fall that is not over."""

    since: float
    """Estimated start, Unix seconds."""
    history: ScoreHistory
    """The scores since then: the next baseline, if they are accepted."""
    depth: float = 0.0
    """Distance of the mean below the usual mean."""
    rise: FallEvidence = field(default_factory=FallEvidence)
    """Evidence that it is over."""


@dataclass(slots=True)
class FallDetector:
    """Detects falls of one score. Not thread-safe; costs some 20 µs a block, and some 30 kB.

    The caller selects alarms among all detectors of a service by `e_bh`, and calls `alarm` on each. Hours and
    weekends are those of UTC. The fields are the state, which `ragmeter.watch.watch` saves.
    """

    today: int = 0
    """Ordinal of the current day."""
    history: ScoreHistory = field(default_factory=ScoreHistory)
    baseline: Baseline | None = None
    evidence: FallEvidence = field(default_factory=FallEvidence)
    silent_until: float = 0.0
    """Until then, Unix seconds, no evidence is reported,"""
    frozen_until: float = 0.0
    """and until then no scores are learned from."""
    fallen: OpenFall | None = None

    def step(self, at: float, block: Block, *, design_effect: float = 1.0) -> DetectorStep:
        """Add a block, and return the new state.

        Args:
            at: When it began, Unix seconds. Blocks come in order; a late one counts as evidence only, and is
                not learned from. A block may be longer than five minutes, and blocks may be missing.
            block: Its sums; one without scores changes nothing.
            design_effect: Variance inflation by similar values within a conversation; the larger of this and
                the one learned from half hours counts.
        """
        when = datetime.fromtimestamp(at, timezone.utc)
        day, half = when.toordinal(), 2 * when.hour + when.minute // 30
        if day > self.today:
            self.today = day
            if self.fallen is None and at >= self.frozen_until:
                self.baseline = learn(self.history.before(day)) or self.baseline
        hour = when.hour + (24 if when.weekday() >= 5 else 0)
        baseline = self.baseline
        usual = None if baseline is None else baseline.expected[hour]
        recovered = False
        if block.n > 0 and math.isfinite(sum(block)):
            if baseline is not None and usual is not None:
                effect = max(baseline.design_effect, design_effect)
                recovered = self._weigh(at, block, baseline, usual, effect)
            if self.fallen is not None:
                self.fallen.history.add(day, half, block)
            elif at >= self.frozen_until:
                self.history.add(day, half, block)
        return DetectorStep(
            status="fallen" if self.fallen else "learning" if self.baseline is None else "watching",
            evidence=self.evidence.total if at >= self.silent_until else 0.0,
            baseline=usual,
            floor=None if baseline is None or usual is None else usual - baseline.allowance,
            mean=block.total / block.n if block.n > 0 else None,
            since=self._since(),
            recovered=recovered,
        )

    def alarm(self, at: float) -> Fall:
        """Note the alarm raised after the block that began `at`, and return the fall.

        Learning stops until a day after the fall is over, and evidence is 0 for a day. Scores since the start
        of the fall are removed from the baseline.
        """
        evidence, path = self.evidence.total, self.evidence.path
        if path is None or self.baseline is None:
            raise ValueError("there is no evidence for a fall")
        fallen, again = self.fallen, self.fallen is not None
        if fallen is None:
            start = datetime.fromtimestamp(path.since, timezone.utc)
            later = self.history.split(start.toordinal(), 2 * start.hour + start.minute // 30)
            fallen = OpenFall(path.since, later)
        fallen.depth = path.usual - path.mean
        fallen.rise = FallEvidence()
        self.fallen = fallen
        self.evidence = FallEvidence()
        self.silent_until = at + SILENCE_S
        return Fall(
            since=fallen.since, before=path.usual, now=path.mean, n=path.n, evidence=evidence, again=again
        )

    def accept(self) -> None:
        """Accept the current level: the scores since the fall become the new baseline, or its beginning."""
        self.history = ScoreHistory() if self.fallen is None else self.fallen.history
        self.baseline = learn(self.history.before(self.today + 1))
        self.evidence, self.fallen = FallEvidence(), None
        self.silent_until = self.frozen_until = 0.0

    def _weigh(self, at: float, block: Block, baseline: Baseline, usual: float, effect: float) -> bool:
        """Add the evidence of a block; return whether it ends a fall."""
        allowance = baseline.allowance
        self.evidence.add(at, block, floor=usual - allowance, usual=usual, design_effect=effect)
        fallen = self.fallen
        if fallen is None:
            return False
        # The mean has recovered if it is above the middle between depth and floor; mirrored, below it.
        middle = usual - (allowance + max(fallen.depth, allowance)) / 2
        fallen.rise.add(at, block.mirror(), floor=1 - middle, usual=1 - usual, design_effect=effect)
        path = fallen.rise.path
        if path is None or fallen.rise.total < RECOVERY_EVIDENCE:
            return False
        depth = path.mean - path.usual
        if depth > allowance:  # better, and still too low
            fallen.depth = depth
            fallen.rise = FallEvidence()
            return False
        self.fallen = None
        self.evidence = FallEvidence()
        self.silent_until = 0.0
        self.frozen_until = at + SILENCE_S
        return True

    def _since(self) -> float | None:
        if self.fallen is not None:
            return self.fallen.since
        path = self.evidence.path
        return path.since if path is not None and path.log > 0 else None
