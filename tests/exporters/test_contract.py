"""What the meter relies on in every exporter; a new one is added to `EXPORTERS` and that is all."""

import copy

import pytest
from at_once import at_once
from loopback_server import LoopbackServer

from ragmeter.exporters.console import ConsoleExporter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.langfuse import LangfuseScores
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.exporters.protocol import MeterStats, ObservesJudge, ObservesMeter
from ragmeter.metrics.judge.protocol import JudgeCall

EXPORTERS = {
    "memory": lambda tmp_path, sdk, url: InMemoryExporter(),
    "console": lambda tmp_path, sdk, url: ConsoleExporter(),
    "console with content": lambda tmp_path, sdk, url: ConsoleExporter(color=True, capture_content=True),
    "jsonl": lambda tmp_path, sdk, url: JsonlExporter(tmp_path / "scores.jsonl"),
    "jsonl with content": lambda tmp_path, sdk, url: JsonlExporter(
        tmp_path / "scores.jsonl", include_content=True
    ),
    "otel": lambda tmp_path, sdk, url: OpenTelemetryExporter(**sdk.providers),
    "otel with content": lambda tmp_path, sdk, url: OpenTelemetryExporter(
        **sdk.providers, capture_content=True, events="both"
    ),
    "phoenix": lambda tmp_path, sdk, url: PhoenixAnnotations(url, include_explanations=True),
    "langfuse": lambda tmp_path, sdk, url: LangfuseScores(url, "pk", "sk"),
}


@pytest.fixture
def url():
    with LoopbackServer(lambda _: 200) as server:
        yield server.url


@pytest.fixture(params=list(EXPORTERS))
def exporter(request, tmp_path, sdk, url):
    one = EXPORTERS[request.param](tmp_path, sdk, url)
    yield one
    one.shutdown(60)


def test_it_takes_every_run_an_adapter_can_build(exporter, make):
    """Missing texts, odd texts, huge texts, no scores, no retrievals, errors: nothing raises."""
    exporter.export(make.hard_runs())


def test_it_takes_an_empty_batch(exporter):
    """Nothing to write is fine."""
    exporter.export([])


def test_it_changes_nothing_it_is_given(exporter, make):
    """Several exporters share one result."""
    run = make.scored_run(target=make.span_context(span=0xC1))
    before = copy.deepcopy(run)
    exporter.export([run])

    assert run == before


def test_flush_and_shutdown_answer_and_may_be_repeated(exporter, make):
    """flush tells whether all went; a second shutdown is harmless."""
    exporter.export([make.scored_run(target=make.span_context(span=0xC1))])

    assert exporter.flush(60) is True
    exporter.shutdown(60)
    exporter.shutdown(60)


def test_it_can_be_exported_to_from_several_threads(exporter, make):
    """The meter uses one thread per exporter, but two meters may share one exporter."""

    def work(n):
        for i in range(20):
            exporter.export([make.scored_run(target=make.span_context(span=0xC1), run_id=f"{n}-{i}")])

    at_once(work, range(4))


def test_optional_hooks_take_what_the_meter_gives(exporter):
    """Counters and judge calls, for exporters that publish them."""
    if isinstance(exporter, ObservesMeter):
        exporter.observe_meter(MeterStats)
    if isinstance(exporter, ObservesJudge):
        exporter.judge_called(JudgeCall("m", "model", -1.0, 0, 0))
        exporter.judge_called(JudgeCall("\ud800", "", 1.0, -5, 5, error_type="E", cached=True))
