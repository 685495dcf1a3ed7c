"""Where a request's spans stand: in the application's own trace, with true times; which span is whose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

import wrapt
from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.runnables import RunnableLambda
from langchain_fakes import FixedRetriever, docs, lcel
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_fakes import QUESTION, ListRetriever, custom, llm, nodes
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from ragmeter import RagMeter
from ragmeter.adapters import instrument, uninstrument
from ragmeter.adapters._other_spans import SeenSpan, choose_spans, seen_span
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter


class App:
    """An application with an OpenTelemetry SDK of its own, and our meter in it."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = self.provider.get_tracer("app")
        self.memory = InMemoryExporter()
        exporter = OpenTelemetryExporter(tracer_provider=self.provider, metrics=False, events="off")
        self.meter = RagMeter(metrics=["retrieval_health"], exporters=[exporter, self.memory])
        instrument(self.meter)

    def finished(self) -> dict[str, ReadableSpan]:
        """Finished spans by their first word, once all scores are out."""
        assert self.meter.flush(30)
        return {span.name.split()[0]: span for span in self.spans.get_finished_spans()}


@pytest.fixture
def app() -> Iterator[App]:
    """A running application."""
    made = App()
    yield made
    uninstrument()
    made.meter.shutdown(60)
    made.provider.shutdown()


def chain() -> Any:
    return lcel(FixedRetriever(found=docs("a")))


def engine(**options: Any) -> Any:
    return RetrieverQueryEngine.from_args(ListRetriever(nodes()[:1]), llm=llm(), **options)


REQUESTS: dict[str, Callable[[], object]] = {
    "invoke": lambda: chain().invoke("who?"),
    "ainvoke": lambda: asyncio.run(chain().ainvoke("who?")),
    "chain's stream": lambda: list(chain().stream("who?")),
    "batch": lambda: chain().batch(["who?"]),
    "query": lambda: engine().query(QUESTION),
    "aquery": lambda: asyncio.run(engine().aquery(QUESTION)),
    "engine's stream": lambda: list(engine(streaming=True).query(QUESTION).response_gen),
}
BOTH = pytest.mark.parametrize("way", ["invoke", "query"])


def id_of(span: Any) -> int:
    return int(span.get_span_context().span_id)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


@pytest.mark.parametrize("way", REQUESTS)
def test_spans_sit_in_the_applications_trace(app: App, way: str) -> None:
    """Workflow below the application's span, retrieval below the workflow; nothing made current."""
    with app.tracer.start_as_current_span("handle") as outer:
        REQUESTS[way]()
        assert trace.get_current_span() is outer
    spans = app.finished()
    workflow, retrieval, handle = spans["invoke_workflow"], spans["retrieval"], spans["handle"]

    assert (parent_of(workflow), parent_of(retrieval)) == (id_of(outer), id_of(workflow))
    assert workflow.name == f"invoke_workflow {app.memory.results[0].sample.name}"
    times = [handle.start_time, workflow.start_time, retrieval.start_time]
    times += [retrieval.end_time, workflow.end_time, handle.end_time]
    assert times == sorted(time or 0 for time in times)
    assert (retrieval.attributes or {})["ragmeter.score.context_count"] == 1.0


def test_stream_read_after_the_enclosing_span_closed(app: App) -> None:
    """The request belongs to the span in which it began, however late it ends."""
    with app.tracer.start_as_current_span("handle") as outer:
        response = engine(streaming=True).query(QUESTION)
    with app.tracer.start_as_current_span("later"):
        list(response.response_gen)
    spans = app.finished()
    workflow = spans["invoke_workflow"]

    assert parent_of(workflow) == id_of(outer)
    assert (workflow.end_time or 0) > (spans["handle"].end_time or 0)


@BOTH
def test_request_without_any_span_around_it(app: App, way: str) -> None:
    """A trace of its own."""
    REQUESTS[way]()

    assert parent_of(app.finished()["invoke_workflow"]) is None


@BOTH
def test_an_ended_span_left_current_is_no_parent(app: App, way: str) -> None:
    """Some instrumentations leave their own ended span current; the next request is not its child."""
    with app.tracer.start_as_current_span("left behind", end_on_exit=False) as span:
        span.end()
        REQUESTS[way]()

    assert parent_of(app.finished()["invoke_workflow"]) is None


@pytest.mark.parametrize("way", REQUESTS)
def test_a_workflow_span_of_others_is_judged_in_its_place(app: App, way: str) -> None:
    """A span marked as a workflow by another instrumentation takes the scores on an evaluation span."""
    attributes = {"gen_ai.operation.name": "invoke_workflow"}
    with app.tracer.start_as_current_span("theirs", attributes=attributes) as theirs:
        REQUESTS[way]()
    spans = app.finished()

    evaluation = spans["evaluation"].parent
    assert evaluation is not None
    assert evaluation.trace_id == theirs.get_span_context().trace_id
    assert "invoke_workflow" not in spans


RETRIEVAL = {"gen_ai.operation.name": "retrieval"}


@BOTH
def test_a_retrieval_span_of_others_is_found(app: App, way: str) -> None:
    """The span that is current while the retriever ends, and says that it is a retrieval."""

    retriever = {"invoke": FixedRetriever(found=docs("a")).invoke, "query": ListRetriever(nodes()[:1]).retrieve}

    def search(question: str) -> Any:
        with app.tracer.start_as_current_span("theirs", attributes=RETRIEVAL):
            return retriever[way](question)

    if way == "invoke":
        lcel(RunnableLambda(search)).invoke("who?")
    else:
        custom(lambda question: str(llm().complete(f"{search(question)[0].text} {question}"))).query(QUESTION)
    theirs = app.finished()["theirs"]

    (result,) = app.memory.results
    target = result.run.retrievals[0].target
    assert target is not None
    assert target.span_id == id_of(theirs)


class Storing(BaseCallbackHandler):
    """A handler of others, whose spans stand in a table of the given name, and are not current."""

    def __init__(self, tracer: trace.Tracer, table: str, *, inline: bool) -> None:
        self.run_inline = inline
        self._tracer = tracer
        self._held: dict[Any, Any] = {}
        setattr(self, table, self._held.get if table == "get_span" else self._held)
        self._key: Callable[[Any], Any] = str if table == "spans" else lambda run_id: run_id

    def on_chain_start(self, serialized: Any, given: Any, *, run_id: Any, **event: Any) -> None:
        span = self._tracer.start_span(event.get("name") or "model")
        self._held[self._key(run_id)] = SimpleNamespace(_otel_span=span) if hasattr(self, "_runs") else span

    on_retriever_start = on_chat_model_start = on_llm_start = on_chain_start  # type: ignore[assignment]

    def on_chain_end(self, output: Any, *, run_id: Any, **event: Any) -> None:
        held = self._held.pop(self._key(run_id))
        getattr(held, "_otel_span", held).end()

    on_retriever_end = on_llm_end = on_chain_end  # type: ignore[assignment]


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "function"])
@pytest.mark.parametrize("table", ["get_span", "_runs", "spans"])
@pytest.mark.parametrize("place", ["every call", "configuration"])
def test_spans_that_others_store_by_run_are_judged(
    app: App, place: str, table: str, way: str, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenInference's, Langfuse's and LangWatch's; asynchronous calls run them in contexts of their own."""
    handler = Storing(app.tracer, table, inline=inline)

    class Adding:
        _callback_handler = handler

        def __call__(self, wrapped: Any, manager: Any, args: Any, options: Any) -> None:
            wrapped(*args, **options)
            if handler not in manager.inheritable_handlers:
                manager.add_handler(handler, inherit=True)

    config: Any = {}
    if place == "configuration":
        config["callbacks"] = [handler]
    else:
        patched = wrapt.FunctionWrapper(BaseCallbackManager.__init__, Adding())
        monkeypatch.setattr(BaseCallbackManager, "__init__", patched)
    if way == "invoke":
        chain().invoke("who?", config)
    elif way == "ainvoke":
        asyncio.run(chain().ainvoke("who?", config))
    elif way == "stream":
        list(chain().stream("who?", config))
    else:
        (RunnableLambda(chain().invoke) | RunnableLambda(str.strip)).invoke("who?", config)
    spans = app.finished()

    (result,) = app.memory.results
    ids = {one.name: id_of(one) for one in app.spans.get_finished_spans()}  # the root ends last
    target, retrieval = result.run.target, result.run.retrievals[0].target
    assert target is not None
    assert retrieval is not None
    assert (target.span_id, retrieval.span_id) == (ids["RunnableSequence"], ids["FixedRetriever"])
    assert "invoke_workflow" not in spans


def test_the_span_of_a_node_is_not_that_of_its_request(app: App) -> None:
    """An agent's span that an instrumentation, or the application, opens within a function of the chain."""

    def node(question: str) -> Any:
        with app.tracer.start_as_current_span("node", attributes={"gen_ai.operation.name": "invoke_agent"}):
            return chain().invoke(question)

    with app.tracer.start_as_current_span("handle") as outer:
        (RunnableLambda(node) | RunnableLambda(str.strip)).invoke("who?")

    assert parent_of(app.finished()["invoke_workflow"]) == id_of(outer)


def seen(number: int, parent: int | None = None, library: str = "lib", kind: Any = None) -> SeenSpan:
    def context(span_id: int) -> SpanContext:
        return SpanContext(7, span_id, is_remote=False, trace_flags=TraceFlags(1))

    around = None if parent is None else context(parent)
    return SeenSpan(context(number), around, True, library, kind)


@pytest.mark.parametrize(
    ("begin", "end", "target", "parent"),
    [
        (None, None, None, None),
        (seen(1), seen(1), None, 1),  # only the application
        (seen(2, 1), seen(1), 2, 1),  # another instrumentation was attached before us
        (seen(1), seen(2, 1), 2, 1),  # after us
        (seen(2), None, 2, None),  # before us, no application span
        (None, seen(2), 2, None),  # after us, no application span
        (seen(2, 1), None, None, 2),  # a span that cannot be the call's own
        (seen(3), seen(4), None, 3),  # unrelated
        (seen(3, kind="workflow"), seen(3), 3, 3),  # it says what it is
        (seen(2, 1, kind="workflow"), seen(3, 2), 3, 2),  # its child is nearer
        (seen(2, 1, "opentelemetry.instrumentation.llamaindex"), seen(5, 4), None, 1),  # never ends
    ],
)
def test_which_span_is_the_calls_own(
    begin: SeenSpan | None, end: SeenSpan | None, target: int | None, parent: int | None
) -> None:
    """Of what was current at begin and end, the one whose parent is the other."""
    chosen = choose_spans(begin, end)

    assert (chosen.target.span_id if chosen.target else None) == target
    assert (chosen.parent.span_id if chosen.parent else None) == parent


def test_remote_parent_is_a_parent_never_a_target() -> None:
    """A propagated context is no recorded span of this process."""
    context = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(context)):
        chosen = choose_spans(seen_span(), None)

    assert chosen.target is None
    assert chosen.parent == context
