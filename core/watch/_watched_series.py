"""One score under watch: its detector, its sums of the last weeks, and what of it is kept over a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import tzinfo
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from ragmeter.exporters.protocol import QualitySums
from ragmeter.quality.estimate import estimate
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.manner import PARTS
from ragmeter.quality.moments import Moments

from .change import ALARM_EVIDENCE, Block, Change, DetectorStep, Fall, FallDetector
from .history import History

__all__ = ["SeriesKey", "SeriesState", "change_of", "series_from_json", "series_to_json"]

_CHANGE = TypeAdapter(Change)
DAY_S = 86_400.0


class SeriesKey(NamedTuple):
    service: str
    workflow: str
    score: str
    segment: str
    measurement: str = ""
    """Names formula and judge, as `ragmeter.quality.measurement` does."""

    @property
    def of_all(self) -> SeriesKey:
        """The same, by any judge or formula."""
        return self._replace(measurement="")


class SeriesState:
    """One score that is watched."""

    __slots__ = (
        "_day",
        "_effect",
        "counted",
        "detector",
        "fall",
        "held",
        "held_since",
        "history",
        "last_at",
        "peak",
        "step",
    )

    def __init__(
        self, detector: FallDetector, counted: QualitySums, history: History | None = None
    ) -> None:
        self.detector = detector
        self.counted = counted
        self.history = History.of(counted.sums) if history is None else history
        self._begin(0)
        self.step = DetectorStep(status="learning")
        self.fall: Change | None = None
        self.peak = 0.0
        self.held: Fall | None = None
        self.held_since = 0.0
        self.last_at = 0.0

    def take(self, at: float, counted: QualitySums | None) -> DetectorStep:
        """Feed the detector what was counted in a slot; None: nothing was."""
        block = Block(0.0, 0.0, 0.0)
        if counted is not None:
            self.counted = counted
            if at // DAY_S != self._day and self.fall is None:
                self._begin(int(at // DAY_S))
            self.last_at = at
            self.history.add(at, counted.sums)
            if counted.score not in PARTS:  # a fall consists of these; they have no alarm
                block = Block(*counted.values)
                if counted.direction == "lower":
                    block = block.mirror()
        self.step = self.detector.step(
            at, block, self.counted.measured_by, design_effect=self._effect
        )
        return self.step

    def _begin(self, day: int) -> None:
        """Begin a day: how alike conversations are is known from before it, so that no fall hides itself."""
        self._day = day
        alike = self.history.split(0.0)[1].clustering()
        self._effect = 1.0 if alike is None else alike.design_effect

    def restart(self) -> None:
        """Learn again what is usual."""
        self.detector.restart()
        self.history.clear()
        self._begin(0)
        self.step = DetectorStep(status="learning")
        self.calm()

    def accept(self) -> None:
        """Take what is now for what is usual."""
        self.detector.accept()
        self.step = DetectorStep(status="learning")
        self.calm()

    def calm(self) -> None:
        """No change is on, or waits for its notification."""
        self.fall = None
        self.held = None
        self.peak = 0.0

    def estimate(self, sums: Moments) -> Estimate:
        """Return the mean of some of its sums."""
        return estimate(sums, design_effect=self.counted.design_effect)

    def on_score_scale(self, value: float) -> float:
        """Return a value of the detector's, for which more is better, as the score has it."""
        return 1.0 - value if self.counted.direction == "lower" else value

    @property
    def ratio(self) -> float:
        """Evidence for a change, 1 being what an alarm takes."""
        if self.fall is not None:
            return max(self.peak, 1.0 + 1e-9)
        if self.held is not None:
            return min(1.0, self.peak)
        return self.step.evidence / ALARM_EVIDENCE


def series_to_json(key: SeriesKey, one: SeriesState) -> dict[str, Any]:
    return {
        "key": list(key),
        "judge": one.counted.judge,
        "direction": one.counted.direction,
        "design_effect": one.counted.design_effect,
        "last_at": one.last_at,
        "peak": one.peak,
        "held": None if one.held is None else asdict(one.held),
        "held_since": one.held_since,
        "fall": None if one.fall is None else asdict(one.fall),
        "step": asdict(one.step),
        "detector": one.detector.state(),
        "history": one.history.state(),
    }


def series_from_json(kept: Mapping[str, Any], zone: tzinfo | None) -> tuple[SeriesKey, SeriesState]:
    judge = str(kept["judge"])
    # An earlier version named no measurement, and those of free scores are only known when the next comes.
    names = [*map(str, kept["key"]), judge][: len(SeriesKey._fields)]
    key = SeriesKey(*names)
    counted = QualitySums(
        score=key.score,
        workflow=key.workflow,
        segment=key.segment,
        judge=judge,
        measurement=key.measurement,
        direction=kept["direction"],
        design_effect=float(kept["design_effect"]),
        sums={},
    )
    detector = FallDetector.from_state(kept["detector"], zone=zone)
    one = SeriesState(detector, counted, History.from_state(kept["history"]))
    one.last_at = float(kept["last_at"])
    one.peak = float(kept["peak"])
    one.held = None if kept["held"] is None else Fall(**kept["held"])
    one.held_since = float(kept["held_since"])
    one.fall = None if kept["fall"] is None else change_of(kept["fall"])
    one.step = DetectorStep(**kept["step"])
    return key, one


def change_of(kept: Mapping[str, Any]) -> Change:
    return _CHANGE.validate_python(kept)
