"""State of one watched score: its detector, its sums of the last weeks, and their JSON form."""

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

_CHANGE = TypeAdapter(Change)
DAY_S = 86_400.0


class SeriesKey(NamedTuple):
    service: str
    workflow: str
    score: str
    segment: str
    measurement: str = ""
    """Formula and judge, see `ragmeter.quality.measurement`."""

    @property
    def of_all(self) -> SeriesKey:
        """The same series for any formula and judge."""
        return self._replace(measurement="")


class SeriesState:
    """State of one watched score."""

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

    def __init__(self, detector: FallDetector, counted: QualitySums, history: History | None = None) -> None:
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
        """Feed the detector the sums of a slot; None: it has no scores."""
        block = Block(0.0, 0.0, 0.0)
        if counted is not None:
            self.counted = counted
            if at // DAY_S != self._day and self.fall is None:
                self._begin(int(at // DAY_S))
            self.last_at = at
            self.history.add(at, counted.sums)
            if counted.score not in PARTS:  # parts of a fall; they raise no alarm
                block = Block(*counted.values)
                if counted.direction == "lower":
                    block = block.mirror()
        self.step = self.detector.step(at, block, self.counted.measured_by, design_effect=self._effect)
        return self.step

    def _begin(self, day: int) -> None:
        """Begin a day. The design effect comes from the days before, so that a fall cannot hide itself."""
        self._day = day
        alike = self.history.split(0.0)[1].clustering()
        self._effect = 1.0 if alike is None else alike.design_effect

    def restart(self) -> None:
        """Discard the baseline and learn a new one."""
        self.detector.restart()
        self.history.clear()
        self._begin(0)
        self.step = DetectorStep(status="learning")
        self.calm()

    def accept(self) -> None:
        """Accept the current level as the baseline."""
        self.detector.accept()
        self.step = DetectorStep(status="learning")
        self.calm()

    def calm(self) -> None:
        """Clear the current change and any that waits for its notification."""
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


def series_from_json(saved: Mapping[str, Any], zone: tzinfo | None) -> tuple[SeriesKey, SeriesState]:
    judge = str(saved["judge"])
    # Files of earlier versions have no measurement; that of a free score is known with its next value.
    names = [*map(str, saved["key"]), judge][: len(SeriesKey._fields)]
    key = SeriesKey(*names)
    counted = QualitySums(
        score=key.score,
        workflow=key.workflow,
        segment=key.segment,
        judge=judge,
        measurement=key.measurement,
        direction=saved["direction"],
        design_effect=float(saved["design_effect"]),
        sums={},
    )
    detector = FallDetector.from_state(saved["detector"], zone=zone)
    one = SeriesState(detector, counted, History.from_state(saved["history"]))
    one.last_at = float(saved["last_at"])
    one.peak = float(saved["peak"])
    one.held = None if saved["held"] is None else Fall(**saved["held"])
    one.held_since = float(saved["held_since"])
    one.fall = None if saved["fall"] is None else change_of(saved["fall"])
    one.step = DetectorStep(**saved["step"])
    return key, one


def change_of(saved: Mapping[str, Any]) -> Change:
    if note := saved.get("note"):  # files of earlier versions have a text
        saved = {**saved, "notes": [{"code": "", "values": [note]}]}
    return _CHANGE.validate_python(saved)
