"""A provider, tracer, meter, logger or span is whatever the application has: no oddity of one costs a score.

Everything here is written against the API's abstract classes alone, with traits that these allow.
"""

import gc
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry import _logs, metrics, trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, get_value

from ragmeter import RagMeter
from ragmeter.exporters.otel import OpenTelemetryExporter

TRACE = 0xA0


def _refuse(*_):
    raise RuntimeError("not supported here")


def _is_suppressed():
    return any(get_value(key) for key in ("suppress_instrumentation", _SUPPRESS_INSTRUMENTATION_KEY))


def _returns(value):
    return lambda *_, **__: value


TRAITS = {
    "unhashable": {"__hash__": None},
    "equal to everything": {"__eq__": _returns(True), "__hash__": _returns(1)},
    "equality refuses": {"__eq__": _refuse, "__hash__": _refuse},
    "false": {"__bool__": _returns(False)},
    "empty": {"__len__": _returns(0)},
    "truth refuses": {"__bool__": _refuse},
    "frozen": {"__setattr__": _refuse},
    "takes and forgets": {"__setattr__": _returns(None)},
    "unknown attributes refuse": {"__getattr__": _refuse},
    "unknown attributes are anything": {"__getattr__": lambda _, name: SimpleNamespace(said=name)},
    "ids are read-only": {"id_generator": property(_returns(SimpleNamespace(generate_span_id=int)))},
    "odd ids": {"id_generator": "none", "_span_limits": 7},
    "odd limits": {"_span_limits": SimpleNamespace(max_span_attributes="many")},
    "odd span": {"attributes": ["a"], "end_time": _refuse, "parent": "the one above"},
    "odd marks": {"attributes": {"gen_ai.operation.name": ["a"]}, "instrumentation_scope": 3},
    "flushes without limit": {"force_flush": lambda _: True},
    "cannot flush": {"force_flush": None},
    "no context": {},
    "without a module": {"__module__": None},
    "without weak references": {"__slots__": ()},
}


def _made(base, methods, traits):
    """Return an instance of `base` with `methods`, and what `traits` add to its class."""
    body = {**dict.fromkeys(base.__abstractmethods__, _returns(None)), "__init__": lambda _: None}
    for trait in traits:
        body.update(TRAITS[trait])
    if "__slots__" not in body:
        return type(base.__name__, (base,), {**body, **methods})()
    # The API's classes have no slots; what is only registered with them is no less one of theirs.
    concrete = {
        name: value
        for name, value in vars(base).items()
        if callable(value) and not getattr(value, "__isabstractmethod__", False)
    }
    kind = type(base.__name__, (), {**concrete, **body, **methods})
    base.register(kind)
    return kind()


class Host:
    """An application whose three providers are its own; keeps what arrives."""

    def __init__(self, traits):
        self._traits = traits
        self.spans, self.events, self.points, self.observed = [], [], {}, []

    def make(self, base, **methods):
        return _made(base, methods, self._traits)

    def span(self, name, attributes=None):
        context = trace.SpanContext(TRACE, len(self.spans) + 1, False, trace.TraceFlags(1))
        record = SimpleNamespace(name=name, context=context, attributes=dict(attributes or {}))
        self.spans.append(record)
        return self.make(
            trace.Span,
            get_span_context=lambda _: context,
            is_recording=_returns(True),
            set_attribute=lambda _, key, value: record.attributes.update({key: value}),
            set_attributes=lambda _, more: record.attributes.update(more),
        )

    def providers(self):
        def start_span(_, name, context=None, kind=None, attributes=None, *args, **kwargs):
            # As Logfire's and OpenInference's do, whatever context is handed over; and as Azure Monitor's does.
            parent = trace.get_current_span(context)
            is_dropped = parent.get_span_context().is_valid and not (
                parent.is_recording() and "_MS.sampleRate" in parent.attributes
            )
            return trace.INVALID_SPAN if _is_suppressed() or is_dropped else self.span(name, attributes)

        def instrument(base, record):
            def create(_, name, *args, **kwargs):
                if record is None:
                    self.observed.append(name)
                    return self.make(base)
                kept = self.points.setdefault(name, [])
                return self.make(base, **{record: lambda _, amount, *more: kept.append(amount)})

            return create

        tracer = self.make(trace.Tracer, start_span=start_span, start_as_current_span=_refuse)
        meter = self.make(
            metrics.Meter,
            create_counter=instrument(metrics.Counter, "add"),
            create_up_down_counter=_refuse,
            create_histogram=instrument(metrics.Histogram, "record"),
            create_observable_counter=instrument(metrics.ObservableCounter, None),
            create_observable_gauge=instrument(metrics.ObservableGauge, None),
            create_observable_up_down_counter=instrument(metrics.ObservableUpDownCounter, None),
        )
        logger = self.make(
            _logs.Logger, emit=lambda _, record: None if _is_suppressed() else self.events.append(record)
        )
        return {
            "tracer_provider": self.make(trace.TracerProvider, get_tracer=lambda *_: tracer),
            "meter_provider": self.make(metrics.MeterProvider, get_meter=lambda *_: meter),
            "logger_provider": self.make(_logs.LoggerProvider, get_logger=lambda *_: logger),
        }


def ask(meter, n):
    with meter.request(f"Question {n}?", name="guide") as request:
        request.retrieved(["The bridge was opened in 1932."])
        request.answered("In 1932.")


@pytest.mark.timeout(300)
@given(traits=st.lists(st.sampled_from(sorted(TRAITS)), max_size=4, unique=True))
@example(traits=["unhashable"])
@example(traits=["ids are read-only"])
@example(traits=["without weak references"])
@example(traits=["truth refuses", "equality refuses", "frozen"])
@example(traits=["odd span", "unknown attributes refuse"])
def test_no_oddity_of_a_provider_costs_a_score(traits):
    host = Host(traits)
    providers = host.providers()
    meter = RagMeter(exporters=[OpenTelemetryExporter(**providers)])
    second = RagMeter(exporters=[OpenTelemetryExporter(**providers)])

    with trace.use_span(host.span("app"), end_on_exit=False):
        for n in range(3):
            ask(meter, n)
    assert meter.flush(60)
    ask(second, 3)
    assert second.flush(60)

    for each, requests in ((meter, 3), (second, 1)):
        stats = each.stats()
        assert (stats.exported, stats.dropped) == (requests, {})
        assert (stats.internal_errors, stats.export_errors) == ({}, {})
        each.shutdown()
    written = [span for span in host.spans if span.name != "app"]
    assert len([span for span in written if "ragmeter.verdict" in span.attributes]) == 4
    assert host.events
    assert sum(host.points["ragmeter.requests"]) == 4
    # Both meters report to one board: each instrument is registered once.
    assert host.observed
    assert len(host.observed) == len(set(host.observed))


@pytest.mark.parametrize("trait", sorted(TRAITS))
def test_no_oddity_of_a_span_costs_a_callbacks_request(trait):
    """LangChain's handler looks at the span around a request: it is its parent, whatever it is."""
    runnables = pytest.importorskip("langchain_core.runnables")
    documents = pytest.importorskip("langchain_core.documents")
    retrievers = pytest.importorskip("langchain_core.retrievers")
    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    class Retriever(retrievers.BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [documents.Document(page_content="The bridge was opened in 1932.")]

    host = Host([trait])
    around = trace.NonRecordingSpan(None) if trait == "no context" else host.span("app")  # MLflow's
    meter = RagMeter(exporters=[OpenTelemetryExporter(**host.providers())])
    chain = Retriever() | runnables.RunnableLambda(lambda _: "In 1932.")
    with trace.use_span(around, end_on_exit=False):
        chain.invoke("When?", {"callbacks": [RagMeterCallbackHandler(meter)]})
        ask(meter, 1)
    assert meter.flush(60)

    assert (meter.stats().exported, meter.stats().internal_errors) == (2, {})
    meter.shutdown()


def test_boards_of_providers_that_are_gone_are_forgotten():
    """What is known of a provider by identity is not taken for its successor's at the same address."""
    for _ in range(300):
        host = Host([])
        meter = RagMeter(exporters=[OpenTelemetryExporter(**host.providers())])
        meter.shutdown()
        assert host.observed, "the board of an earlier provider was taken for this one's"
        del host, meter
        gc.collect(0)
