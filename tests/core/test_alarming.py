"""A meter that watches its scores: changes come out as log line, event, gauge, webhook and callback."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_server import LoopbackServer, Received
from metric_points import points_of
from moved_clock import MovedClock
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ragmeter import Alarms, Change, RagMeter, RagSample
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import ConfigurationError, metric
from ragmeter.quality import sums
from ragmeter.watch import alarming, webhook_retry

MONDAY = 1_699_833_600.0  # 2023-11-13 00:00 UTC
HOUR = 3600.0
USUAL_H = 90
"""Hours of usual traffic before anything changes: what is usual is learned from three whole days."""


@metric(needs=("answer",), target="answer", name="goodness")
def goodness(sample: RagSample) -> float:
    """The answer itself."""
    return float(sample.answer or 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    made = MovedClock(MONDAY)
    for module in (sums, alarming):
        monkeypatch.setattr(module, "unix_clock", lambda: made)
    return made


def _live(meter: RagMeter, clock: MovedClock, answers: tuple[str, ...], hours: int) -> None:
    """Let so many hours pass with each of `answers` in each."""
    for _ in range(hours):
        clock.now += HOUR
        for answer in answers:
            meter.submit(RagSample(question="q", answer=answer, name="qa"))
        assert meter.flush(120)


GOOD = ("1.0", "0.8", "0.9", "0.7", "1.0", "0.8", "0.9", "0.7")
BAD = ("0.2", "0.0", "0.3", "0.1", "0.2", "0.0", "0.3", "0.1")


class Hook(LoopbackServer):
    """Refuses the first time, as a server does that is just being restarted; takes what comes then."""

    path = "/services/secret/path"

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.statuses = [503]
        super().__init__()

    def reply(self, received: Received) -> tuple[int, bytes, dict[str, str]]:
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.bodies.append(json.loads(received.body))
            self.paths.append(received.path)
        return status, b"ok", {}


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as made:
        yield made


def _telemetry() -> tuple[OpenTelemetryExporter, InMemoryLogRecordExporter, InMemoryMetricReader]:
    records, reader = InMemoryLogRecordExporter(), InMemoryMetricReader()
    loggers = LoggerProvider(shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(records))
    exporter = OpenTelemetryExporter(
        logger_provider=loggers, meter_provider=MeterProvider([reader], shutdown_on_exit=False), span_mode="off"
    )
    return exporter, records, reader


def _evidence(reader: InMemoryMetricReader) -> dict[str, float]:
    return {
        str(point.attributes["gen_ai.evaluation.name"]): point.value
        for point in points_of(reader).get("ragmeter.change.evidence", ())
    }


def test_a_fall_comes_out_as_log_line_event_gauge_webhook_and_callback(
    clock: MovedClock, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    exporter, records, reader = _telemetry()
    alarms = Alarms(webhook=hook.url, page="https://ragmeter.example/")
    meter = RagMeter([goodness], exporters=[exporter], alarms=alarms)
    told: list[Change] = []
    assert meter.on_change(told.append) is not None

    _live(meter, clock, GOOD, USUAL_H)
    assert (told, meter.watch.changes(), hook.bodies) == ([], (), [])
    assert _evidence(reader)["goodness"] < 1.0
    with caplog.at_level(logging.WARNING, "ragmeter"):
        _live(meter, clock, BAD, 4)

    (change,) = told
    assert (change.score, change.workflow, change.kind) == ("goodness", "qa", "fell")
    assert change.before.mean == pytest.approx(0.85, abs=0.01)
    assert change.now.mean == pytest.approx(0.15, abs=0.1)
    assert meter.watch.changes() == meter.watch.changes(on=True) == (change,)
    assert _evidence(reader)["goodness"] > 1.0
    (event,) = [
        item.log_record
        for item in records.get_finished_logs()
        if item.log_record.event_name == "ragmeter.change"
    ]
    (line,) = [one.getMessage() for one in caplog.records if "goodness" in one.getMessage()]
    assert line == f"ragmeter: {event.body}"
    (body,) = hook.bodies
    since = int(change.since * 1000)
    assert body["link"] == f"https://ragmeter.example/requests?workflow=qa&since={since}"
    assert body["text"] == f"{line} {body['link']}"
    assert hook.paths == ["/services/secret/path"]
    assert body["before"]["mean"] == change.before.mean
    assert body["since"].startswith("2023-11-16T")

    assert meter.watch.accept("goodness") == 1
    assert meter.watch.changes(on=True) == ()
    assert not any(value > 1.0 for value in _evidence(reader).values())
    meter.shutdown(60)


@pytest.mark.contains_errors
def test_a_callback_that_raises_and_a_webhook_that_refuses_keep_nobody_else_from_hearing(
    clock: MovedClock, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    hook.statuses[:] = [404]
    meter = RagMeter([goodness], exporters=[InMemoryExporter()], alarms=Alarms(webhook=hook.url))
    told: list[Change] = []

    @meter.on_change
    def fails(change: Change) -> None:
        raise ValueError(change.score)

    meter.on_change(told.append)
    _live(meter, clock, GOOD, USUAL_H)
    _live(meter, clock, BAD, 4)
    assert [change.kind for change in told] == ["fell"]
    assert meter.stats().internal_errors["meter.changes"] == 2
    assert "secret" not in caplog.text
    meter.shutdown(60)


def test_requests_are_done_while_a_webhook_does_not_take_a_change(
    clock: MovedClock, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.statuses[:] = [503] * 99
    monkeypatch.setattr(webhook_retry, "AT_ONCE_S", 0.0)  # as a minute later
    with RagMeter([goodness], exporters=[InMemoryExporter()], alarms=Alarms(webhook=hook.url)) as meter:
        _live(meter, clock, GOOD, USUAL_H)
        _live(meter, clock, BAD, 4)  # which flushes
        assert meter.port.alarming is not None
        assert meter.port.alarming.deliveries() == (0, 1, 0)


def test_a_meter_that_was_not_asked_to_watch_says_so() -> None:
    with RagMeter([goodness], exporters=[]) as meter:
        asked: tuple[Callable[[], object], ...] = (
            lambda: meter.on_change(print), lambda: meter.watch
        )  # fmt: skip
        for ask in asked:
            with pytest.raises(ConfigurationError, match="alarms=True"):
                ask()
    with pytest.raises(ConfigurationError, match=r"alarms is 'yes'; pass ragmeter.Alarms"):
        RagMeter([goodness], exporters=[], alarms="yes")
    with pytest.raises(ConfigurationError, match="webhook"):
        RagMeter([goodness], exporters=[], alarms=Alarms(webhook="not an address"))
    with RagMeter([goodness], exporters=[], alarms=Alarms()) as meter:
        with pytest.raises(ConfigurationError, match="on_change"):
            meter.on_change("print")  # type: ignore[type-var]
        assert meter.watch.mark() == 0


def test_how_the_watch_stands_is_told_from_the_first_five_minutes_on(clock: MovedClock) -> None:
    meter = RagMeter([goodness], exporters=[InMemoryExporter()], alarms=Alarms())
    _live(meter, clock, GOOD, 3)
    (series,) = meter.watch.series()
    assert (series.score, series.workflow, series.status) == ("goodness", "qa", "learning")
    assert series.scores == 2 * len(GOOD)
    assert meter.watch.mark() == 1
    assert meter.watch.series()[0].scores == 0
    meter.shutdown(60)


def test_a_restart_goes_on_where_it_was(clock: MovedClock, tmp_path: Path) -> None:
    """What is usual was learned before it; the fall comes after it."""
    given: dict[str, Any] = {
        "metrics": [goodness],
        "exporters": [InMemoryExporter()],
        "alarms": Alarms(state=tmp_path / "watch.json"),
    }
    meter = RagMeter(**given)
    _live(meter, clock, GOOD, USUAL_H)
    meter.shutdown(60)
    assert stat.S_IMODE((tmp_path / "watch.json").stat().st_mode) == 0o600
    meter = RagMeter(**given)
    assert [one.status for one in meter.watch.series()] == ["watching"]
    _live(meter, clock, BAD, 4)
    assert [change.kind for change in meter.watch.changes()] == ["fell"]
    told = meter.watch.changes()
    meter.shutdown(60)
    meter = RagMeter(**given)
    assert meter.watch.changes(on=True) == told
    meter.shutdown(60)


@pytest.mark.parametrize("content", ["", "[1]", '{"version": 99}', '{"version": 1, "next": 0}'])
def test_a_file_that_cannot_be_read_is_said_and_learned_anew(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "watch.json"
    path.write_text(content, encoding="utf-8")
    with RagMeter([goodness], exporters=[], alarms=Alarms(state=path)) as meter:
        assert meter.watch.series() == ()
    assert "learned again" in caplog.text


def test_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere" / "watch.json"):
        with pytest.raises(ConfigurationError, match="the alarms' state"):
            RagMeter([goodness], exporters=[], alarms=Alarms(state=place))
