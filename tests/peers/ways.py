"""A program: each application by our handler, by `instrument()`, by OpenInference's spans here, and by the same spans
in `ragmeter serve`. ``python ways.py langchain|llama_index`` prints what each way tells, as JSON, by application."""

import contextlib
import json
import sys
from importlib import import_module

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ragmeter import RagMeter
from ragmeter.adapters import instrument, uninstrument
from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.serve import ServeOptions, Server

FRAMEWORK = sys.argv[1]
APPLICATIONS = import_module(f"{FRAMEWORK}_applications").APPLICATIONS


class Watch:
    """A meter, and the requests it scored since the last reading."""

    def __init__(self):
        self.memory = InMemoryExporter()
        self.meter = RagMeter(exporters=[self.memory])
        self._seen = 0

    def rows(self):
        """Return the newly scored requests, in the order in which they began."""
        assert self.meter.flush(60)
        new = self.memory.results[self._seen :]
        self._seen += len(new)
        return [_row(one) for one in sorted(new, key=lambda one: one.run.started_ns)]


def _row(one):
    sample = one.sample
    return {
        "question": sample.question,
        "contexts": None if sample.contexts is None else [item.text for item in sample.contexts],
        "carried": [item.text for item in sample.carried],
        "answer": sample.answer,
        "status": sample.status,
        "scores": {name: score.value for name, score in sorted(one.scores.items())},
    }


def ask(name, config=None):
    """Run an application; one whose name says that it fails does."""
    with contextlib.suppress(*([Exception] if name.endswith("fails") else [])):
        APPLICATIONS[name](config or {}) if FRAMEWORK == "langchain" else APPLICATIONS[name]()


def by_handler(watch):
    if FRAMEWORK == "langchain":
        from ragmeter.adapters.langchain import RagMeterCallbackHandler

        handler = RagMeterCallbackHandler(watch.meter)
        return lambda name: ask(name, {"callbacks": [handler]})
    from ragmeter.adapters.llama_index import RagMeterHandler

    def in_block(name):
        with RagMeterHandler(watch.meter):
            ask(name)

    return in_block


def main():
    told = {name: {} for name in APPLICATIONS}
    watch = Watch()
    handled = by_handler(watch)
    for name in APPLICATIONS:
        handled(name)
        told[name]["handler"] = watch.rows()
    watch = Watch()
    instrument(watch.meter, frameworks=[FRAMEWORK])
    for name in APPLICATIONS:
        ask(name)
        told[name]["instrument()"] = watch.rows()
    uninstrument()

    here, there, callback = Watch(), Watch(), Watch()
    server = Server(ServeOptions(http_port=0, grpc_port=0, durable=False, grace_s=0.2), meter=there.meter)
    server.start()
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    processor = RagMeterSpanProcessor(here.meter)
    processor.attach(provider)
    sent = SimpleSpanProcessor(OTLPSpanExporter(f"http://127.0.0.1:{server.http_port}/v1/traces"))
    provider.add_span_processor(sent)
    peer = import_module(f"openinference.instrumentation.{FRAMEWORK}")
    named = "LangChainInstrumentor" if FRAMEWORK == "langchain" else "LlamaIndexInstrumentor"
    getattr(peer, named)().instrument(tracer_provider=provider, skip_dep_check=True)
    tracer = trace.get_tracer("app")
    traces = {}
    for name in APPLICATIONS:
        with tracer.start_as_current_span("POST /ask", kind=trace.SpanKind.SERVER) as outer:
            traces[f"{outer.get_span_context().trace_id:032x}"] = name
            ask(name)
        processor.force_flush()
        told[name]["spans"] = here.rows()
        told[name]["serve"] = []
    sent.shutdown()
    handled = by_handler(callback)
    for name in APPLICATIONS:  # with both, each counts once
        with tracer.start_as_current_span("POST /ask", kind=trace.SpanKind.SERVER):
            handled(name)
    processor.force_flush()
    assert callback.meter.flush(60)
    twice = len(here.rows())
    server.stop()
    for one in sorted(there.memory.results, key=lambda one: one.run.started_ns):
        spans = (one.run.target, one.run.parent, *(each.target for each in one.run.retrievals))
        of_trace = next(f"{span.trace_id:032x}" for span in spans if span is not None)
        if of_trace in traces:
            told[traces[of_trace]]["serve"].append(_row(one))
    sys.stdout.write(json.dumps({"told": told, "twice": twice}) + "\n")


main()
