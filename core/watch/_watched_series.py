"""State of one watched score: its detector, and its sums of the last weeks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ragmeter.exporters.protocol import QualitySums
from ragmeter.quality.estimate import estimate
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.manner import PARTS
from ragmeter.quality.moments import Moments

from .change import Change, DetectorStep, Fall, FallDetector
from .evidence import ALARM_EVIDENCE, Block
from .history import History

DAY_S = 86_400.0
_LEARNING = DetectorStep(status="learning")


class SeriesKey(NamedTuple):
    service: str
    workflow: str
    score: str
    segment: str
    measurement: str
    """Formula and judge, see `ragmeter.quality.measurement`."""

    @property
    def of_all(self) -> SeriesKey:
        """The same series for any formula and judge."""
        return self._replace(measurement="")


@dataclass(slots=True)
class SeriesState:
    """State of one watched score."""

    counted: QualitySums
    """The sums of its last slot."""
    history: History
    detector: FallDetector = field(default_factory=FallDetector)
    step: DetectorStep = _LEARNING
    fall: Change | None = None
    """The current change."""
    peak: float = 0.0
    """Evidence for it when it was found."""
    held: Fall | None = None
    """A fall that waits for a check of the judge,"""
    held_since: float = 0.0
    """since then, Unix seconds."""
    last_at: float = 0.0
    """Start of its last slot, Unix seconds."""
    day: int = 0
    effect: float = 1.0
    """Design effect of the days before `day`: a fall cannot hide itself."""

    def take(self, at: float, counted: QualitySums | None) -> DetectorStep:
        """Feed the detector the sums of a slot; None: it has no scores."""
        block = Block(0.0, 0.0, 0.0)
        if counted is not None:
            self.counted = counted
            if at // DAY_S != self.day and self.fall is None:
                self.day = int(at // DAY_S)
                alike = self.history.split(0.0)[1].clustering()
                self.effect = 1.0 if alike is None else alike.design_effect
            self.last_at = at
            self.history.add_slot(at, counted.sums)
            if counted.score not in PARTS:  # parts of a fall; they raise no alarm
                block = Block(*counted.values)
                if counted.direction == "lower":
                    block = block.mirror()
        self.step = self.detector.step(at, block, design_effect=self.effect)
        return self.step

    def restart(self) -> None:
        """Discard the baseline and learn a new one."""
        self.detector = FallDetector()
        self.history = History(judged=self.history.judged)
        self.day, self.effect = 0, 1.0
        self.calm(_LEARNING)

    def accept(self) -> None:
        """Accept the current level as the baseline."""
        self.detector.accept()
        self.calm(_LEARNING)

    def calm(self, step: DetectorStep | None = None) -> None:
        """Clear the current change and any that waits for its notification."""
        self.step = step or self.step
        self.fall = None
        self.held = None
        self.peak = 0.0

    def estimate(self, sums: Moments) -> Estimate:
        """Return the mean of `sums`."""
        return estimate(sums, design_effect=self.counted.design_effect)

    def on_score_scale(self, value: float) -> float:
        """Convert a detector's value (higher is better) to the direction of the score."""
        return 1.0 - value if self.counted.direction == "lower" else value

    @property
    def ratio(self) -> float:
        """Evidence for a change; 1 raises an alarm."""
        if self.fall is not None:
            return max(self.peak, 1.0 + 1e-9)
        if self.held is not None:
            return min(1.0, self.peak)
        return self.step.evidence / ALARM_EVIDENCE
