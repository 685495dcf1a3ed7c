"""`PhoenixAnnotations` and `LangfuseScores` against real local servers that behave like theirs."""

import json
import logging
import re
import socket
import threading
import time
from dataclasses import replace
from email.utils import formatdate
from types import SimpleNamespace

import pytest
from forked import in_child
from waiting import until

from ragmeter import RagMeter
from ragmeter.exporters import _http as delivery
from ragmeter.exporters import langfuse as langfuse_module
from ragmeter.exporters import phoenix as phoenix_module
from ragmeter.exporters._http import DeliveryError
from ragmeter.exporters._span_targets import JudgedSpans, SpanDirectory
from ragmeter.exporters.langfuse import LangfuseScores
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.exporters.protocol import RunsLostError
from ragmeter.metrics import ConfigurationError, RagSample, Verdict
from ragmeter.metrics._process import retry
from ragmeter.metrics.errors import install_command

KEY = "sk-very-secret-key"


@pytest.fixture
def patient(monkeypatch):
    """Shorter pauses, same code."""
    monkeypatch.setattr(retry, "FIRST_PAUSE_S", 0.01)


def phoenix(backend, **options):
    # What it says of documents is its own: test_phoenix.
    return PhoenixAnnotations(backend.url, KEY, document_annotations=False, **options)


def langfuse(backend, **options):
    return LangfuseScores(backend.url, "pk-1", KEY, **options)


SINKS = pytest.mark.parametrize("sink", [phoenix, langfuse])


@SINKS
def test_sent_twice_it_is_there_once(backend, recorded, sink):
    """The identifiers are functions of what is said."""
    one = sink(backend)
    one.export([recorded])
    one.export([recorded])

    assert len(backend.stored) == 2


@SINKS
def test_no_explanation_leaves_without_an_opt_in(backend, recorded, make, sink):
    """It quotes contexts."""
    sink(backend).export([recorded])
    assert "-TEXT" not in json.dumps([body for _, _, body, _ in backend.requests])

    sink(backend, include_explanations=True).export([recorded])
    assert make.content["explanation"] in json.dumps(backend.requests[-1][2])


@SINKS
def test_without_spans_to_attach_to_there_is_nothing_to_judge_for(backend, sink):
    """The sink delivers as long as the exporter that writes the spans does."""

    class Spans:
        there = False

        def judged_spans(self, run, timeout_s=0.0):
            return None

        def delivers(self):
            return self.there

    spans = Spans()
    told = sink(backend, spans=spans)
    assert told.delivers() is False
    spans.there = True
    assert told.delivers() is True
    assert sink(backend).delivers() is True


@SINKS
def test_what_may_pass_is_tried_again(backend, recorded, sink, patient):
    """503, 429, 408: the scores arrive in the end."""
    backend.answers = [(503, {}), (429, {}), (408, {}), (500, {})]
    sink(backend).export([recorded])

    assert len(backend.stored) == 2


@SINKS
@pytest.mark.parametrize("as_date", [False, True])
def test_the_server_says_how_long_to_wait(backend, recorded, sink, patient, as_date):
    """Retry-After, in seconds or as a date."""

    def in_two_seconds():
        return formatdate(time.time() + 2, usegmt=True)  # whole seconds, so at least 1 from now

    pause = in_two_seconds if as_date else "1"
    backend.answers = [(429, {"Retry-After": pause})]
    sink(backend).export([recorded])
    first, second = (moment for *_, moment in backend.requests[:2])

    assert second - first >= 0.9
    assert len(backend.stored) == 2


@SINKS
def test_a_dead_server_is_given_up_within_the_deadline(backend, recorded, sink, patient):
    """The error names the backend and the reason, not the key."""
    backend.close()
    with pytest.raises(DeliveryError) as caught:
        sink(backend, deadline_s=0.3, timeout_s=30).export([recorded])

    assert "no answer (ConnectError); gave up" in str(caught.value)
    assert KEY not in str(caught.value)


@SINKS
@pytest.mark.parametrize(
    ("status", "hint"), [(401, "check the key"), (403, "may not write"), (404, "address is wrong")]
)
def test_a_refusal_is_clear_and_not_repeated(backend, recorded, sink, status, hint):
    """One request, then silence for a minute: the backend is not hammered with a wrong key."""
    backend.answers = [(status, {})]
    one = sink(backend)
    for _ in range(5):
        with pytest.raises(DeliveryError, match=hint) as caught:
            one.export([recorded])
        assert KEY not in str(caught.value)

    assert len(backend.requests) == 1


@SINKS
def test_after_a_refusal_it_is_tried_again(backend, recorded, sink, monkeypatch):
    """Somebody mends the key on the server: no restart of the application is needed."""
    monkeypatch.setattr(delivery, "REFUSED_FOR_S", 0.0)
    backend.answers = [(401, {})]
    one = sink(backend)
    with pytest.raises(DeliveryError):
        one.export([recorded])
    one.export([recorded])

    assert len(backend.stored) == 2


@SINKS
def test_shutdown_ends_a_pause_at_once(backend, recorded, sink):
    """The process can exit while a backend asks for half an hour."""
    backend.answers = [(503, {"Retry-After": "1800"})]
    one = sink(backend)
    failures = []

    def work():
        try:
            one.export([recorded])
        except DeliveryError as error:
            failures.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: backend.requests)
    one.shutdown(60)
    thread.join(60)

    assert not thread.is_alive()
    assert "shut down" in failures[0]


@SINKS
def test_scores_of_unsampled_spans_are_not_sent(backend, make, sink):
    """Their span never arrives there."""
    sink(backend).export([make.scored_run(target=make.span_context(sampled=False))])

    assert backend.requests == []


@SINKS
def test_keys_never_show(backend, sink, caplog):
    """Neither in repr nor in a log line, nor a password in the address."""
    one = sink(backend)

    assert KEY not in repr(one)
    assert backend.url in repr(one)
    assert KEY not in caplog.text
    hidden = PhoenixAnnotations(f"http://me:{KEY}@127.0.0.1:1/x")
    assert repr(hidden) == "PhoenixAnnotations('http://127.0.0.1:1/x')"


def test_misconfiguration_raises_at_construction():
    """With the fix in the message."""
    with pytest.raises(ConfigurationError, match="not a URL"):
        PhoenixAnnotations("localhost:6006")
    with pytest.raises(ConfigurationError, match="project's settings"):
        LangfuseScores("http://127.0.0.1:1", "", "")


@SINKS
def test_scores_find_the_spans_that_ragmeter_writes(backend, sdk, make, sink):
    """Own spans have ids only once they are written; the sink asks who writes them."""
    otel = OpenTelemetryExporter(**sdk.providers)
    otel.export([make.scored_run()])
    sink(backend, spans=otel).export([make.scored_run()])
    retrieval = sdk.spans()["retrieval handbook"].context
    sent = json.dumps([body for _, _, body, _ in backend.requests])

    assert f"{retrieval.span_id:016x}" in sent


@SINKS
def test_a_sink_that_is_earlier_than_the_spans_waits_for_them(backend, make, sink):
    """Each exporter has its own thread; order is nobody's promise."""

    class Slow:
        def __init__(self):
            self.directory = SpanDirectory()

        def judged_spans(self, run, timeout_s=0.0):
            return self.directory.find(run.run_id, timeout_s)

    slow = Slow()
    judged = JudgedSpans(make.span_context(span=0xE1), make.span_context(span=0xE2))
    timer = threading.Timer(0.2, slow.directory.remember, ("run-1", judged))
    timer.start()
    sink(backend, spans=slow).export([make.scored_run()])
    timer.join()

    assert len(backend.stored) == 2


@SINKS
def test_of_a_batch_only_what_was_not_taken_is_lost(backend, make, recorded, sink):
    """Two runs of three have no known span: two are lost, not three."""
    with pytest.raises(RunsLostError, match="pass spans=") as caught:
        sink(backend).export([make.scored_run(), recorded, make.scored_run()])

    assert caught.value.lost == 2
    assert len(backend.stored) == 2


@SINKS
def test_runs_taken_before_a_refusal_are_not_lost(backend, make, sink, monkeypatch):
    """The second of three runs is refused: it and the one after it are lost."""
    monkeypatch.setattr(phoenix_module, "PER_REQUEST", 3)
    monkeypatch.setattr(langfuse_module, "PER_REQUEST", 3)
    runs = [
        make.scored_run(
            target=make.span_context(span=0xC1 + n), retrieval={"target": make.span_context(span=0xD1 + n)}
        )
        for n in range(3)
    ]
    backend.answers = [(200, {}), (422, {})]
    with pytest.raises(RunsLostError, match="status 422") as caught:
        sink(backend).export(runs)

    assert caught.value.lost == 2
    assert isinstance(caught.value, DeliveryError)


@SINKS
def test_in_a_meter_scores_reach_the_backend_off_the_request_path(backend, sdk, sink):
    """The whole path: meter, spans, sink; each on a thread of its own."""
    otel = OpenTelemetryExporter(**sdk.providers)
    meter = RagMeter(metrics=["lexical_groundedness"], exporters=[sink(backend, spans=otel), otel])
    meter.submit(RagSample(question="q", contexts=("tide",), answer="tide"))
    assert meter.flush(60)
    meter.shutdown()

    assert "lexical_groundedness" in {body["name"] for body in backend.stored.values()}


@SINKS
def test_what_is_sent_can_be_chosen(backend, make, sink):
    """By default what judges something or is not as usual; by name, whatever one names."""
    scores = (
        make.score("context_count", 3.0, range=(0.0, None), direction="none"),
        make.score("faithfulness", 0.5),
        make.score("empty_retrieval", 0.0, direction="lower"),
        make.score("duplicate_ratio", 0.5, direction="lower"),
        make.score("repeated_context_ratio", 0.1, direction="lower"),
        make.score("refusal", 0.0, direction="none", label="answered"),
    )
    run = make.scored_run(scores, target=make.span_context(span=0xC1))
    sent = {}
    for chosen in (None, ["context_count", "faithfulness", "empty_retrieval"]):
        backend.stored.clear()
        backend.seen.clear()
        sink(backend, scores=chosen).export([run])
        sent[chosen is None] = {body["name"] for body in backend.stored.values()}

    assert sent == {
        True: {"faithfulness", "duplicate_ratio"},
        False: {"faithfulness", "context_count", "empty_retrieval"},
    }
    with pytest.raises(ConfigurationError, match="pass a list of names"):
        sink(backend, scores="faithfulness")


@SINKS
def test_the_verdict_comes_first_and_says_why(backend, make, sink):
    """Its word is the label; the reasons are the words beside it."""
    run = replace(
        make.scored_run(target=make.span_context(span=0xC1)),
        verdict=Verdict(
            word="bad",
            codes=("unsupported_answer", "off_topic_context"),
            reasons=("little of the answer is in the chunks", "the chunks are off topic"),
        ),
    )
    sink(backend).export([run])
    first = next(iter(backend.stored.values()))
    said = first.get("result", {"label": first.get("value"), "explanation": first.get("comment")})
    assert said.pop("score", 0.0) == 0.0  # Phoenix sorts and colours by it

    assert first["name"] == "ragmeter.verdict"
    assert said == {
        "label": "bad",
        "explanation": "little of the answer is in the chunks; the chunks are off topic",
    }
    assert first["metadata"] == {"codes": ["unsupported_answer", "off_topic_context"]}


@SINKS
def test_a_request_that_cannot_be_judged_has_no_verdict(backend, recorded, sink):
    """None is not good."""
    sink(backend).export([recorded])

    assert "ragmeter.verdict" not in {body["name"] for body in backend.stored.values()}


@SINKS
def test_health_that_is_not_as_usual_is_a_word_not_a_number(backend, make, sink):
    """A mean over the unusual ones alone would read as if every request were so."""
    score = make.score("empty_retrieval", 1.0, direction="lower", summary="nothing was retrieved")
    sink(backend).export([make.scored_run((score,), target=make.span_context(span=0xC1))])
    (body,) = backend.stored.values()
    label = body["value"] if "value" in body else body["result"].pop("label")

    assert label == "abnormal"
    assert "nothing was retrieved" in json.dumps(body)
    assert "score" not in body.get("result", {})


@SINKS
def test_without_an_opt_in_a_score_still_says_what_it_saw(backend, recorded, make, sink):
    """Its summary has no text of the request."""
    sink(backend).export([recorded])

    assert all(make.summary in json.dumps(body) for body in backend.stored.values())
    assert all(
        body["metadata"]["items"] == [{"id": "chunk-1", "verdict": True}] for body in backend.stored.values()
    )


@SINKS
def test_a_rate_limit_is_waited_out_not_given_up(backend, recorded, sink, patient, monkeypatch):
    """The pause the server asks for does not count towards the deadline of a failing one."""
    now = [0.0]

    class Pauses:
        """Time passes in pauses only."""

        def wait(self, seconds):
            now[0] += seconds
            return False

        def set(self):
            """Nobody waits."""

    monkeypatch.setattr(delivery, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(delivery, "threading", SimpleNamespace(Event=Pauses))
    backend.answers = [(429, {"Retry-After": "20"})] * 4
    sink(backend, deadline_s=30).export([recorded])

    assert 80.0 <= now[0] < 81.0  # some chance is added to each
    assert len(backend.stored) == 2


@pytest.mark.contains_errors
@SINKS
def test_a_refusing_backend_is_one_log_line_and_a_count(backend, sdk, sink, caplog):
    """The application sees nothing else of it."""
    backend.answers = [(401, {})] * 50
    otel = OpenTelemetryExporter(**sdk.providers)
    meter = RagMeter(metrics=["lexical_groundedness"], exporters=[sink(backend, spans=otel), otel])
    with caplog.at_level(logging.ERROR, "ragmeter"):
        for _ in range(5):
            meter.submit(RagSample(question="q", contexts=("tide",), answer="tide"))
            meter.flush(60)
    meter.shutdown()
    lines = [record for record in caplog.records if "refused" in record.getMessage()]

    assert len(lines) == 1
    assert KEY not in caplog.text
    assert sum(meter.stats().export_errors.values()) == 5


@pytest.mark.contains_errors
@SINKS
def test_a_backend_that_never_answers_holds_up_neither_flush_nor_shutdown(sdk, sink):
    """Each keeps to its own seconds, whatever the sink's timeouts are."""
    others = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = SimpleNamespace(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        otel = OpenTelemetryExporter(**sdk.providers)
        exporters = [otel, sink(address, spans=otel, timeout_s=60, deadline_s=600)]
        meter = RagMeter(metrics=["lexical_groundedness"], exporters=exporters)
        meter.submit(RagSample(question="q", contexts=("tide",), answer="tide"))
        until(sdk.all_spans)
        before = time.monotonic()
        assert not meter.flush(0.5)
        meter.shutdown(0.5)
        # Far below the sink's own minute, far above what a busy machine adds.
        assert time.monotonic() - before < 30
    # The silent socket is gone now: what the sink reports about that belongs to this test.
    for thread in set(threading.enumerate()) - others:
        if thread.name.startswith("ragmeter-export"):
            thread.join(60)


@SINKS
def test_a_forked_child_opens_its_own_connections(backend, recorded, sink):
    """The parent's sockets are the parent's."""
    one = sink(backend)
    one.export([recorded])
    assert in_child(lambda: one.export([recorded])) == "None"
    one.export([recorded])
    one.shutdown(60)

    assert len(backend.stored) == 2


def test_without_httpx_the_extra_is_named(monkeypatch):
    """pip install 'ragmeter-otel[sinks]'."""
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ImportError, match=re.escape(install_command("sinks"))):
        PhoenixAnnotations("http://127.0.0.1:1")
