"""Where a request's spans stand: in the application's own trace, with true times, on the wire too."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_fakes import FixedRetriever, context_tally, docs, lcel
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.otel import OpenTelemetryExporter


class App:
    """An application with an OpenTelemetry SDK of its own, and our meter in it."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = self.provider.get_tracer("app")
        self.meter = RagMeter(
            metrics=[context_tally],
            exporters=[
                OpenTelemetryExporter(tracer_provider=self.provider, metrics=False, events="off")
            ],
        )
        self.config: Any = {"callbacks": [RagMeterCallbackHandler(self.meter)]}

    def finished(self) -> dict[str, ReadableSpan]:
        """Finished spans by name, once all scores are out."""
        assert self.meter.flush(30)
        return {span.name: span for span in self.spans.get_finished_spans()}


@pytest.fixture
def app() -> Iterator[App]:
    """A running application."""
    made = App()
    yield made
    made.meter.shutdown(timeout_s=60)
    made.provider.shutdown()


def own(spans: dict[str, ReadableSpan], prefix: str) -> ReadableSpan:
    """The one span of ours with this operation."""
    (found,) = [span for name, span in spans.items() if name.startswith(prefix)]
    return found


@pytest.mark.parametrize("call", ["invoke", "ainvoke", "stream", "batch"])
def test_spans_sit_in_the_applications_trace(app: App, call: str) -> None:
    """Workflow below the application's span, retrieval below the workflow, times as they were."""
    chain = lcel(FixedRetriever(found=docs("a")))
    with app.tracer.start_as_current_span("handle request") as outer:
        if call == "ainvoke":
            asyncio.run(chain.ainvoke("who?", config=app.config))
        elif call == "stream":
            list(chain.stream("who?", config=app.config))
        elif call == "batch":
            chain.batch(["who?"], config=app.config)
        else:
            chain.invoke("who?", config=app.config)
        current = trace.get_current_span()

    spans = app.finished()
    workflow, retrieval = own(spans, "invoke_workflow"), own(spans, "retrieval")
    request = spans["handle request"]
    assert current is outer
    assert workflow.parent is not None
    assert workflow.parent.span_id == outer.get_span_context().span_id
    assert retrieval.parent is not None
    assert retrieval.parent.span_id == workflow.get_span_context().span_id
    assert {span.get_span_context().trace_id for span in spans.values()} == {
        outer.get_span_context().trace_id
    }
    assert request.start_time is not None
    assert workflow.start_time is not None
    assert workflow.end_time is not None
    assert request.end_time is not None
    assert request.start_time <= workflow.start_time <= workflow.end_time <= request.end_time
    assert retrieval.attributes is not None
    assert retrieval.attributes["ragmeter.score.context_tally"] == 1.0


def test_a_request_without_a_span_starts_a_trace(app: App) -> None:
    """No span around: a trace of its own."""
    lcel(FixedRetriever(found=docs("a"))).invoke("who?", config=app.config)

    assert own(app.finished(), "invoke_workflow").parent is None


def test_an_ended_span_left_current_is_no_parent(app: App) -> None:
    """Some instrumentations leave their own ended span current; the next request is not its child."""
    with app.tracer.start_as_current_span("left behind", end_on_exit=False) as span:
        span.end()
        lcel(FixedRetriever(found=docs("a"))).invoke("who?", config=app.config)

    assert own(app.finished(), "invoke_workflow").parent is None


def test_a_workflow_span_of_others_is_judged_in_its_place(app: App) -> None:
    """A span marked as a workflow by another instrumentation takes the scores on an evaluation span."""
    attributes = {"gen_ai.operation.name": "invoke_workflow"}
    with app.tracer.start_as_current_span("their workflow", attributes=attributes) as theirs:
        lcel(FixedRetriever(found=docs("a"))).invoke("who?", config=app.config)

    spans = app.finished()
    evaluation = own(spans, "evaluation")
    assert evaluation.parent is not None
    assert evaluation.parent.trace_id == theirs.get_span_context().trace_id
    assert not [name for name in spans if name.startswith("invoke_workflow ")]


def test_a_retrieval_span_of_others_is_found(app: App) -> None:
    """The span that is current while the retriever ends, and says that it is a retrieval."""
    attributes = {"gen_ai.operation.name": "retrieval"}
    retriever = FixedRetriever(found=docs("a"))

    def search(question: str) -> Any:
        with app.tracer.start_as_current_span("their retrieval", attributes=attributes):
            return retriever.invoke(question)

    from ragmeter.exporters.memory import InMemoryExporter

    memory = InMemoryExporter()
    meter = RagMeter(metrics=[context_tally], exporters=[memory])
    config: Any = {"callbacks": [RagMeterCallbackHandler(meter)]}
    lcel(RunnableLambda(search)).invoke("who?", config=config)
    assert meter.flush(60)
    meter.shutdown(timeout_s=60)

    (result,) = memory.results
    (theirs,) = [span for span in app.spans.get_finished_spans() if span.name == "their retrieval"]
    target = result.run.retrievals[0].target
    assert target is not None
    assert target.span_id == theirs.get_span_context().span_id
