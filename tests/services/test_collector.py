"""A real OpenTelemetry Collector before two `ragmeter serve` and behind them, as docs/already-traced.md shows it."""

import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib.resources import files

import pytest
from otel_collector import ARRIVED_S, collecting, deciding_at_the_end, listening_here, shown_on, spans_of
from otlp_receiver import OtlpReceiver
from processes import wait_until
from serving import serving
from two_services import ask_many

COUNT = 60
SPANS_OF_A_REQUEST = {"POST /ask", "POST /answer", "shop assistant", "shelf", "model"}


@dataclass
class Line:
    """What went through Collector → two servers → Collector, and what came out."""

    asked: dict
    """Question by trace."""
    spans: list
    """Every span that came back from the servers."""
    kept: list
    """Every span that the sampler let through."""
    codes: list
    """How the servers ended."""


@pytest.fixture(scope="module")
def line(collector_program, tmp_path_factory):
    """Send requests through the configuration of the page: two services, many at once, a span at a time."""
    folder = tmp_path_factory.mktemp("line")
    config = shown_on("already-traced.md", "Behind a Collector")
    http, grpc = listening_here(config, "otlp/applications")
    back, _ = listening_here(config, "otlp/scored")
    everything, backend = OtlpReceiver(), OtlpReceiver()
    config["exporters"]["otlp_http/backend"]["endpoint"] = backend.url
    config["exporters"]["otlp_http/everything"] = {"endpoint": everything.url}
    pipelines = config["service"]["pipelines"]
    pipelines["traces/everything"] = {"receivers": ["otlp/scored"], "exporters": ["otlp_http/everything"]}
    deciding_at_the_end(config)
    quick = {"OTEL_BSP_SCHEDULE_DELAY": "200"}
    with (
        serving(folder / "1", back, "--forward", **quick) as one,
        serving(folder / "2", back, "--forward", **quick) as two,
    ):
        resolver = config["exporters"]["load_balancing"]["resolver"]
        resolver["static"]["hostnames"] = [one.grpc, two.grpc]
        with collecting(collector_program, config, folder / "collector"):
            asked = ask_many(http, grpc, COUNT)

            def scored():
                spans = spans_of(everything)
                verdicts = {span.trace_id for span in spans if span.verdict}
                forwarded = sum(span.name in SPANS_OF_A_REQUEST for span in spans)
                return verdicts >= set(asked) and forwarded >= COUNT * len(SPANS_OF_A_REQUEST)

            wait_until(scored, ARRIVED_S, "not every request was scored")
            codes = [one.drain(), two.drain()]
    yield Line(asked, spans_of(everything), spans_of(backend), codes)
    everything.close()
    backend.close()


def test_every_request_is_scored_once(line):
    verdicts = Counter(span.trace_id for span in line.spans if span.verdict)
    assert verdicts == dict.fromkeys(line.asked, 1)
    scores = Counter((span.trace_id, name) for span in line.spans for name in span.scores)
    assert set(scores.values()) == {1}
    assert line.codes == [0, 0]


def test_every_span_is_passed_on_once(line):
    passed = Counter((span.trace_id, span.name) for span in line.spans if span.name in SPANS_OF_A_REQUEST)
    assert passed == {(trace, name): 1 for trace in line.asked for name in SPANS_OF_A_REQUEST}


def test_both_servers_take_part_and_none_sees_half_a_request(line):
    """The spans of a trace come in five calls from two services; by its id all reach one server."""
    by_server = defaultdict(set)
    for span in line.spans:
        if span.scores:
            assert span.service == "assistant"
            by_server[span.instance].add(span.trace_id)
    assert len(by_server) == 2
    assert not set.intersection(*by_server.values())
    told = defaultdict(list)
    for trace, question in line.asked.items():
        merged = {}
        for span in line.spans:
            if span.trace_id == trace:
                merged |= span.scores
        told[question].append(merged)
    # The same question is answered alike, so its scores are alike, whoever scored it and beside whom.
    for question, all_scores in told.items():
        assert all(scores == all_scores[0] for scores in all_scores), question
    assert len({str(scores[0]) for scores in told.values()}) == len(told)


def test_scores_stand_in_the_trace_below_the_spans_they_judge(line):
    names = {(span.trace_id, span.span_id): span.name for span in line.spans}
    judged = {names[span.trace_id, span.parent_id] for span in line.spans if span.scores}
    assert judged == {"shop assistant", "shelf"}


def test_the_sampler_behind_ragmeter_keeps_bad_requests_whole(line):
    bad = {span.trace_id for span in line.spans if span.verdict in ("bad", "suspect")}
    assert 0 < len(bad) < COUNT
    kept = {span.trace_id for span in line.kept}
    assert bad <= kept < set(line.asked)

    def whole(spans):
        return Counter((span.trace_id, span.span_id) for span in spans if span.trace_id in kept)

    assert whole(line.kept) == whole(line.spans)


def test_a_collector_accepts_the_file_of_the_dashboards(collector_program):
    file = files("ragmeter.cli.dashboards") / "stack" / "collector.yaml"
    command = [collector_program, "validate", "--config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
