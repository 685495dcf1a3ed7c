"""`RagMeterSpanProcessor` in an SDK: requests of this process's spans, scored once each."""

import json
import logging
import os
import textwrap
import threading
from pathlib import Path

import pytest
from opentelemetry import _logs, baggage, context, trace
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, SynchronousMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags
from python_process import run_python

import ragmeter
from ragmeter import RagMeter, Scoring
from ragmeter.adapters._other_spans import captured
from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor, TextStrippingExporter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import ConfigurationError

KIND = "openinference.span.kind"


@pytest.fixture
def traced():
    """A provider with the processor, its meter's results, and a tracer of an instrumentation's."""
    made = _Traced()
    yield made
    made.provider.shutdown()


class _Traced:
    def __init__(self, **options):
        self.memory = InMemoryExporter()
        self.provider = TracerProvider()
        self.spans = InMemorySpanExporter()
        self.exporter = OpenTelemetryExporter(tracer_provider=self.provider, metrics=False, events="off")
        self.meter = RagMeter(exporters=[self.memory, self.exporter], **options.pop("meter", {}))
        self.processor = RagMeterSpanProcessor(self.meter, **options).attach(self.provider)
        self.provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = self.provider.get_tracer("openinference.instrumentation.toy")

    def results(self):
        assert self.meter.flush(60)
        return self.memory.results

    def ask(self, question="Why?", answer="Because it rains.", texts=("It rains.",), **attributes):
        with self.tracer.start_as_current_span("qa", attributes={KIND: "CHAIN"}) as request:
            request.set_attributes({"input.value": question, "output.value": answer, **attributes})
            with self.tracer.start_as_current_span("retrieve", attributes={KIND: "RETRIEVER"}) as found:
                for place, text in enumerate(texts):
                    found.set_attribute(f"retrieval.documents.{place}.document.content", text)
        return request


@pytest.mark.parametrize(
    ("attributes", "below", "told"),
    [
        ({"gen_ai.data_source.id": "KB1", "db.collection.name": "docs"}, {}, "KB1"),
        ({"db.collection.name": "docs"}, {"db.collection.name": "other"}, "docs"),
        ({}, {"db.system.name": "qdrant", "db.collection.name": "docs"}, "docs"),
        ({}, {"db.milvus.search.collection_name": "docs"}, "docs"),
        ({"metadata": '{"ls_vector_store_provider": "Chroma"}'}, {}, "Chroma"),
        ({"metadata": '{"ls_vector_store_provider": "Chroma"}'}, {"db.collection.name": "d"}, "d"),
        ({"db.collection.name": "x" * 201}, {"db.collection.name": ["d"]}, None),
    ],
)
def test_a_retrieval_is_of_the_collection_that_spans_name(traced, attributes, below, told):
    """The retrieval's own span, or that of a store's client below it."""
    with traced.tracer.start_as_current_span("qa", attributes={KIND: "CHAIN"}):
        with traced.tracer.start_as_current_span("retrieve", attributes=attributes) as found:
            found.set_attribute(KIND, "RETRIEVER")
            found.set_attribute("retrieval.documents.0.document.content", "It rains.")
            with traced.provider.get_tracer("store").start_as_current_span("query") as client:
                client.set_attributes(below)

    [result] = traced.results()

    assert result.run.retrievals[0].data_source_id == told


def test_a_traced_request_is_scored(traced):
    request = traced.ask()

    [result] = traced.results()

    assert result.sample.question == "Why?"
    assert result.sample.answer == "Because it rains."
    assert [one.text for one in result.sample.contexts] == ["It rains."]
    context = request.get_span_context()
    assert (result.run.target.trace_id, result.run.target.span_id) == (context.trace_id, context.span_id)
    assert result.run.target.trace_flags.sampled
    assert result.run.retrievals[0].target is not None
    assert result.scores["context_count"].value == 1.0


def test_a_request_of_one_call_is_judged_on_that_calls_span(traced):
    """No span above it says anything, and its documents stand in its prompt."""
    sent = "Context:\nIt rains a lot in the mountains.\n---\nThe sun shines on the plains.\n\nQuestion: Why?"
    said = {"gen_ai.prompt": sent, "gen_ai.completion": "It rains in the mountains a lot."}
    with traced.tracer.start_as_current_span("job"), traced.tracer.start_as_current_span("chat") as call:
        call.set_attributes({"gen_ai.operation.name": "chat", **said})

    [result] = traced.results()

    assert result.sample.question == "Why?"
    assert result.run.target.span_id == call.get_span_context().span_id
    traced.provider.force_flush()
    [scores] = [
        one for one in traced.spans.get_finished_spans() if one.instrumentation_scope.name == "ragmeter"
    ]
    assert scores.parent.span_id == call.get_span_context().span_id


def test_a_request_that_runs_while_its_provider_is_flushed_stays_whole(traced):
    """Strands' agents flush at the end of every span."""
    with traced.tracer.start_as_current_span("qa", attributes={KIND: "CHAIN"}) as request:
        request.set_attributes({"input.value": "Why?", "output.value": "Because it rains."})
        with traced.tracer.start_as_current_span("retrieve", attributes={KIND: "RETRIEVER"}) as found:
            found.set_attribute("retrieval.documents.0.document.content", "It rains.")
        traced.provider.force_flush()
    traced.provider.force_flush()

    [result] = traced.results()

    assert (result.sample.question, result.sample.answer) == ("Why?", "Because it rains.")
    assert [one.text for one in result.sample.contexts] == ["It rains."]


def test_our_own_spans_are_not_taken_in(traced):
    traced.ask()

    assert len(traced.results()) == 1
    assert len(traced.results()) == 1
    assert [span for span in traced.spans.get_finished_spans() if span.instrumentation_scope.name == "ragmeter"]
    assert traced.processor.assembly().lost == {}


def test_requests_are_scored_without_a_flush():
    traced = _Traced(grace_s=0.0)
    arrived = threading.Event()
    export = traced.memory.export
    traced.memory.export = lambda batch: (export(batch), arrived.set())

    traced.ask()

    assert arrived.wait(30)
    traced.provider.shutdown()


def test_the_shutdown_of_the_provider_loses_nothing():
    traced = _Traced()
    traced.ask()

    traced.provider.shutdown()

    assert len(traced.memory.results) == 1
    judged = [s for s in traced.spans.get_finished_spans() if s.instrumentation_scope.name == "ragmeter"]
    assert judged


def test_a_failed_request_is_one(traced):
    with traced.tracer.start_as_current_span("qa", attributes={KIND: "CHAIN", "input.value": "Why?"}) as span:
        with traced.tracer.start_as_current_span("retrieve", attributes={KIND: "RETRIEVER"}) as found:
            found.set_status(Status(StatusCode.ERROR))
        span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", "ConnectionError")

    [result] = traced.results()

    assert (result.sample.status, result.sample.contexts) == ("error", None)
    assert result.run.error_type == "ConnectionError"


def test_a_request_of_another_processs_trace(traced):
    """Its parent never comes, and need not."""
    remote = SpanContext(7, 9, is_remote=True, trace_flags=TraceFlags(1))
    around = trace.set_span_in_context(trace.NonRecordingSpan(remote))
    token = context.attach(around)
    traced.ask()
    context.detach(token)
    traced.processor._read()

    assert [one.looks_complete for one in traced.processor._assembler._open.values()] == [True]
    assert traced.results()[0].run.parent.span_id == 9


def test_references_come_from_the_meter_by_question():
    traced = _Traced(meter={"references": {"why?": {"answer": "It rains."}}})
    traced.ask()

    assert traced.results()[0].scores["token_f1"].value is not None
    traced.provider.shutdown()


def test_references_come_from_the_code_around(traced):
    with ragmeter.reference(answer="It rains."):
        traced.ask()

    assert traced.results()[0].sample.reference.answer == "It rains."


def test_references_come_from_baggage(traced):
    said = baggage.set_baggage("ragmeter.reference.context_ids", json.dumps(["a", "b"]))
    token = context.attach(said)
    traced.ask()
    context.detach(token)

    assert traced.results()[0].sample.reference.context_ids == ("a", "b")


def test_references_come_from_attributes(traced):
    traced.ask(**{"ragmeter.reference.answer": "It rains."})

    assert traced.results()[0].sample.reference.answer == "It rains."


def test_what_is_suppressed_is_not_captured(traced):
    with ragmeter.suppress():
        traced.ask()

    assert traced.results() == []


def test_sampling_and_redaction_are_the_meters():
    traced = _Traced(meter={"scoring": Scoring(redact=lambda text: text.replace("rains", "xxx"))})
    traced.ask()
    assert traced.results()[0].sample.answer == "Because it xxx."
    traced.provider.shutdown()

    unsampled = _Traced(meter={"sample_rate": 0.0})
    unsampled.ask()
    assert unsampled.results() == []
    unsampled.provider.shutdown()


def test_a_request_that_a_callback_captured_is_left_out(traced):
    request = traced.ask()
    captured.note(request.get_span_context(), None, request.start_time)
    traced.ask(question="And now?")

    assert [one.sample.question for one in traced.results()] == ["And now?"]
    assert traced.processor._reporter.captured == 1


def test_a_callback_that_saw_only_the_span_around_is_known_by_its_time(traced):
    with traced.tracer.start_as_current_span("POST /ask") as around:
        request = traced.ask()
        captured.note(None, around.get_span_context(), request.start_time)

    assert traced.results() == []


def test_spans_that_come_late_make_no_second_request(traced):
    held = []
    take = traced.processor.on_end
    traced.processor.on_end = lambda span: held.append(span) if span.name == "qa" else take(span)
    traced.ask()
    assert len(traced.results()) == 1

    take(held[0])

    assert len(traced.results()) == 1


def test_what_is_missing_is_counted_and_said_once(traced, caplog):
    with caplog.at_level(logging.WARNING, "ragmeter"):
        for _ in range(3):
            traced.ask(texts=("__REDACTED__",))
        assert traced.results() == []

    [(missing, count)] = traced.processor.missing.items()
    assert (missing.convention, missing.scope) == ("openinference", "openinference.instrumentation.toy")
    assert (missing.reason, count) == ("redacted", 3)
    assert traced.meter.stats().dropped == {"redacted": 3}
    said = [record.getMessage() for record in caplog.records if "redacted" in record.getMessage()]
    assert len([line for line in said if "OPENINFERENCE_HIDE_INPUTS" in line]) == 1


@pytest.mark.parametrize("later", [False, True], ids=["at once", "set after attach"])
def test_what_stands_in_log_records_is_read(traced, later, monkeypatch):
    """As OpenTelemetry's instrumentation of OpenAI and Semantic Kernel write it, in old and newer form."""
    logs = LoggerProvider()
    kept = InMemoryLogRecordExporter()
    if later:
        monkeypatch.setattr(_logs, "get_logger_provider", lambda: logs)
    else:
        traced.processor.attach(traced.provider, logs=logs)
    logs.add_log_record_processor(SimpleLogRecordProcessor(kept))
    logger = logs.get_logger("opentelemetry.instrumentation.openai_v2")
    prompt = "Context:\nIt rains in May, mostly at night.\n\nHail falls in June, mostly at noon."
    with traced.tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
        logger.emit(LogRecord(event_name="", body="connected"))
        for name, body in (
            ("system.message", {"content": prompt}),
            ("user.message", {"content": "When does hail fall?"}),
            ("choice", {"message": {"role": "assistant", "content": "In June, mostly at noon."}}),
        ):
            logger.emit(LogRecord(event_name=f"gen_ai.{name}", body=body))
    logs.shutdown()

    (result,) = traced.results()

    assert result.sample.question == "When does hail fall?"
    assert [item.text for item in result.sample.contexts][-1].startswith("Hail falls in June")
    assert result.sample.answer == "In June, mostly at noon."
    assert len(kept.get_finished_logs()) == 4


def test_tools_that_retrieve_are_named():
    traced = _Traced(retrieval_tools=["search_*"])
    with traced.tracer.start_as_current_span("agent", attributes={KIND: "AGENT", "input.value": "Why?"}):
        with traced.tracer.start_as_current_span("search_docs", attributes={KIND: "TOOL"}) as tool:
            tool.set_attribute("output.value", "one\n\ntwo")

    assert [c.text for c in traced.results()[0].sample.contexts] == ["one", "two"]
    traced.provider.shutdown()


class _Replacing(TracerProvider):
    """As Phoenix's was: a processor that is added ends those that are there."""

    def add_span_processor(self, span_processor):
        for default in self._active_span_processor._span_processors:
            default.shutdown()
        self._active_span_processor._span_processors = ()
        TracerProvider.add_span_processor(self, span_processor)


class _Asking(_Replacing):
    """As Phoenix's is: likewise, unless told not to."""

    def add_span_processor(self, span_processor, *, replace_default_processor=True):
        kind = _Replacing if replace_default_processor else TracerProvider
        kind.add_span_processor(self, span_processor)


class _Hiding(trace.TracerProvider):
    """A proxy that shows nothing of what it stands for; or holds it, as Logfire's."""

    def __init__(self, kind=TracerProvider, *, holds=False):
        within = kind()
        self.provider = within if holds else None
        self.get_tracer, self.shutdown = within.get_tracer, within.shutdown
        self.add_span_processor = within.add_span_processor

    def get_tracer(self):
        """Replaced above."""


class _Listing(TracerProvider):
    """An SDK that keeps its processors otherwise, without a lock."""

    def __init__(self):
        self._active_span_processor = SynchronousMultiSpanProcessor()
        super().__init__(active_span_processor=self._active_span_processor)
        self._active_span_processor._span_processors = []
        self._active_span_processor._lock = None

    def add_span_processor(self, span_processor):
        self._active_span_processor._span_processors.append(span_processor)


PROVIDERS = {
    "the SDK's": TracerProvider,
    "concurrent": lambda: TracerProvider(active_span_processor=ConcurrentMultiSpanProcessor(2)),
    "replacing": _Replacing,
    "replacing unless told not to": _Asking,
    "around": lambda: _Hiding(holds=True),
    "hiding": _Hiding,
    "hiding one that replaces": lambda: _Hiding(_Asking),
    "listing": _Listing,
}


@pytest.mark.parametrize("kind", PROVIDERS)
def test_attaching_takes_nothing_away(kind):
    """Whoever exported goes on exporting, and the request is scored, once, however often it is attached."""
    provider, theirs, memory = PROVIDERS[kind](), InMemorySpanExporter(), InMemoryExporter()
    provider.add_span_processor(SimpleSpanProcessor(theirs))
    meter = RagMeter(exporters=[memory])
    processor = RagMeterSpanProcessor(meter)

    for _ in range(1 if "hiding" in kind else 2):
        assert processor.attach(provider) is processor
    _Traced.tracer = provider.get_tracer("toy")
    _Traced.ask(_Traced)
    provider.shutdown()
    assert meter.flush(60)

    assert [span.name for span in theirs.get_finished_spans()] == ["retrieve", "qa"]
    assert [one.sample.question for one in memory.results] == ["Why?"]


@pytest.mark.parametrize("kind", ["the SDK's", "around"])
def test_what_was_attached_last_still_sends_its_scores_at_shutdown(kind):
    """It stands before the processor that exports, which a provider shuts down in order."""
    traced = _Traced()
    traced.provider, traced.spans = PROVIDERS[kind](), InMemorySpanExporter()
    traced.provider.add_span_processor(SimpleSpanProcessor(traced.spans))
    RagMeterSpanProcessor(RagMeter()).attach(traced.provider)
    traced.tracer = traced.provider.get_tracer("toy")
    traced.ask()
    traced.provider.shutdown()

    assert [s.name for s in traced.spans.get_finished_spans()][-1].startswith("evaluation")


def test_a_program_that_ends_at_once_sends_its_scores_through_a_provider_that_hides_its_processors():
    """The provider's own exit handler ends its processors in the order in which they were added."""
    code = """
        from test_opentelemetry_processor import *
        from test_opentelemetry_processor import _Hiding, _Traced
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        provider = _Hiding()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
        meter = RagMeter(exporters=[OpenTelemetryExporter(provider, metrics=False, events="off")])
        RagMeterSpanProcessor(meter).attach(provider)
        _Traced.tracer = provider.get_tracer("toy")
        _Traced.ask(_Traced)
    """
    here = Path(__file__).parent
    found = os.pathsep.join(map(str, (here, here.parent)))
    done = run_python("-c", textwrap.dedent(code), env={**os.environ, "PYTHONPATH": found})

    assert '"ragmeter.verdict"' in done.stdout, done.stderr


def test_a_second_meter_on_a_provider_is_named_with_what_to_do(traced, caplog):
    """A script that runs again (Streamlit, a notebook's cell) attaches another, and requests would count twice."""
    with caplog.at_level(logging.WARNING, "ragmeter"):
        RagMeterSpanProcessor(traced.meter).attach(traced.provider)
        assert not caplog.records
        RagMeterSpanProcessor(RagMeter(exporters=[InMemoryExporter()])).attach(traced.provider)

    [warning] = caplog.records
    assert "both score each request" in warning.getMessage()
    assert "cache_resource" in warning.getMessage()
    traced.ask()
    traced.provider.force_flush()
    assert [one.sample.question for one in traced.results()] == ["Why?"]


RAIN = "Rain falls when drops in a cloud grow too heavy for the air to carry them."


@pytest.mark.parametrize(
    ("prompt", "sessions", "wanted"),
    [
        (f"Context: {RAIN}\nQuestion: Why?", ("", ""), [("Why?", [RAIN], "So.")]),
        (f"Context: {RAIN}\nQuestion: Why?", ("a", "a"), [("Why?", [RAIN], "So.")]),
        (f"Context: {RAIN}\nQuestion: Why?", ("a", "b"), [("Why?", [RAIN], None)]),
        ("Tell me a story of some length about the sea.", ("", ""), [("Why?", [RAIN], None)]),
    ],
)
def test_a_retrieval_and_a_call_of_another_trace_that_is_sent_its_documents(traced, prompt, sessions, wanted):
    """They are one request, as a script has no span around them, unless they are of two conversations."""
    began, went_on = ({"session.id": session} if session else {} for session in sessions)
    with traced.tracer.start_as_current_span(
        "find", attributes={KIND: "RETRIEVER", "input.value": "Why?"}
    ) as found:
        found.set_attributes({"retrieval.documents.0.document.content": RAIN, **began})
    with traced.tracer.start_as_current_span("ask", attributes={KIND: "LLM", "input.value": prompt}) as asked:
        asked.set_attributes({"output.value": "So.", "output.mime_type": "text/plain", **went_on})
    traced.provider.force_flush()

    samples = [one.sample for one in traced.results()]
    assert [(one.question, [item.text for item in one.contexts], one.answer) for one in samples] == wanted


@pytest.mark.parametrize(("scope", "requests"), [("openinference.instrumentation.llama_index", 0), ("toy", 1)])
def test_what_llama_index_evaluators_ask_is_known_by_who_asks(traced, scope, requests):
    """Whatever the prompt's language, where their spans begin in this process."""
    evaluation = pytest.importorskip("llama_index.core.evaluation.base")
    traced.tracer = traced.provider.get_tracer(scope)

    class Judge(evaluation.BaseEvaluator):
        def evaluate(self, **_):
            with traced.tracer.start_as_current_span("RetrieverQueryEngine.query", attributes={KIND: "CHAIN"}):
                traced.ask("Это так?", "ДА")

        aevaluate = _get_prompts = _update_prompts = evaluate

    Judge().evaluate()
    traced.provider.force_flush()

    assert len(traced.results()) == requests


@pytest.mark.parametrize("provider", [None, trace.ProxyTracerProvider(), trace.NoOpTracerProvider()])
def test_a_provider_without_processors_is_refused_with_the_fix(provider, monkeypatch):
    """Not where tracing was switched off from outside: the application starts as before."""
    processor = RagMeterSpanProcessor(RagMeter(exporters=[InMemoryExporter()]))
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)

    with pytest.raises(ConfigurationError, match=r"takes no span processors: attach after.*`ragmeter serve`"):
        processor.attach(provider)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "True")
    assert processor.attach(provider) is processor


@pytest.mark.parametrize("arguments", [(None,), (RagMeter,)], ids=["none", "class"])
def test_what_is_no_meter_is_refused(arguments):
    with pytest.raises(ConfigurationError):
        RagMeterSpanProcessor(*arguments)


def test_a_string_of_tools_is_refused():
    with pytest.raises(ConfigurationError):
        RagMeterSpanProcessor(RagMeter(exporters=[InMemoryExporter()]), retrieval_tools="search")


def test_texts_are_left_out_of_what_is_exported():
    traced, sent = _Traced(), InMemorySpanExporter()
    traced.provider.add_span_processor(SimpleSpanProcessor(TextStrippingExporter(sent)))

    request = traced.ask(question="Who is Anna?", **{"session.id": "s1", "llm.token_count.total": 7})
    with traced.tracer.start_as_current_span("model", attributes={KIND: "LLM"}) as span:
        span.record_exception(ValueError("Anna was refused"))
        span.set_status(Status(StatusCode.ERROR, "Anna was refused"))
    with traced.tracer.start_as_current_span("SELECT", attributes={"db.statement": "SELECT 1"}):
        pass

    whole = "".join(span.to_json() for span in traced.spans.get_finished_spans())
    left = {span.name: span for span in sent.get_finished_spans()}
    shown = str(
        [
            (dict(s.attributes), [dict(e.attributes) for e in s.events], s.status.description)
            for s in left.values()
        ]
    )
    assert "Anna" in whole
    assert "Anna" not in shown
    assert "rains" not in shown
    assert dict(left["qa"].attributes) == {KIND: "CHAIN", "session.id": "s1", "llm.token_count.total": 7}
    assert left["qa"].context == request.get_span_context()
    assert left["SELECT"].attributes["db.statement"] == "SELECT 1"
    assert left["model"].status.status_code is StatusCode.ERROR
    assert traced.results()[0].sample.question == "Who is Anna?"
    traced.provider.shutdown()
