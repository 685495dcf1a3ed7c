"""Attachment of each rival, and its reports on requests, in one form for all.

`rivals.py` calls this in the rival's own environment. Everything is read in the tool's favour: any text in a
trace's outermost retrieval, parsed or not, counts as retrieved, and any text in the root's input and output
as question and answer. Nothing here judges correctness.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rival_requests import Asked

DOCUMENT = re.compile(r"doc-\w+ says what is known of \w+\.")
"""The documents of the runs, at any place and in any form of a span."""


@dataclass(frozen=True, slots=True)
class Report:
    """A tool's report of one request."""

    asked: str
    """All text in the question's place."""
    contexts: tuple[str, ...]
    answered: str
    clean: bool
    """Whether it is reported as a request that ended well."""

    def is_about(self, right: Asked) -> bool:
        """Return whether question and answer are right."""
        whole = re.search(re.escape(right.answer) + r"(?![\w,-])", self.answered)
        return right.question in self.asked and bool(whole)

    def tells(self, right: Asked) -> bool:
        """Return whether the report is correct: question, contexts in order, answer."""
        return self.contexts == right.contexts and self.is_about(right)


@dataclass(slots=True)
class Span:
    """One span of any tool."""

    trace: str
    id: str
    parent: str | None
    kind: str
    """``retrieval``, ``rerank`` or anything else."""
    input: str
    output: str
    clean: bool
    started: float


@dataclass(slots=True)
class Tool:
    """A tool that is attached to this process."""

    callbacks: list[Any]
    """The callbacks of each request."""
    take: Callable[[], list[Report]]
    """Returns the reports since the last call."""
    drain: Callable[[], Any] = lambda: None
    """Waits for the tool's background."""
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    """The context that the application opens around each run for this tool."""


def requests_of(spans: Iterable[Span], *, whole: bool = False) -> list[Report]:
    """Return one report for each root that has a retrieval in its tree.

    Args:
        spans: The tool's spans, in any order.
        whole: Look for question and answer in every span of the tree, not in the root alone.
    """
    spans = sorted(spans, key=lambda span: span.started)
    by_id = {span.id: span for span in spans}

    def above(span: Span) -> list[Span]:
        path = []
        while span.parent is not None and span.parent in by_id and len(path) < 1000:
            span = by_id[span.parent]
            path.append(span)
        return path

    found: dict[str, list[Span]] = {}
    for span in spans:
        path = above(span)
        if span.kind in ("retrieval", "rerank") and not any(one.kind == span.kind for one in path):
            found.setdefault((path or [span])[-1].id, []).append(span)
    reports = []
    for root_id, retrievals in found.items():
        root = by_id[root_id]
        reranked = [span for span in retrievals if span.kind == "rerank"]
        contexts: list[str] = []
        for span in reranked[-1:] or retrievals:
            # An output may contain a text twice, as content and as embedded text.
            contexts += dict.fromkeys(DOCUMENT.findall(span.output))
        tree = [root]
        if whole:
            tree = [span for span in spans if span is root or root in above(span)]
        asked = "\n".join(span.input for span in tree)
        answered = "\n".join(span.output for span in tree)
        reports.append(Report(asked, tuple(contexts), answered, root.clean))
    return reports


def attach(name: str) -> Tool:
    """Attach the tool `name` to this process."""
    return {
        "ragmeter": _ragmeter,
        "openinference": _openinference,
        "openlit": _openlit,
        "deepeval": _deepeval,
        "mlflow": _mlflow,
    }[name]()


def _ragmeter() -> Tool:
    from ragmeter import RagMeter
    from ragmeter.adapters import instrument
    from ragmeter.exporters.memory import InMemoryExporter

    memory = InMemoryExporter()
    meter = RagMeter(exporters=[memory])
    instrument(meter)

    def take() -> list[Report]:
        meter.flush(60)
        samples = [result.sample for result in memory.results]
        memory.clear()
        return [
            Report(
                sample.question or "",
                tuple(one.text for one in sample.contexts or ()),
                sample.answer or "",
                sample.status == "ok",
            )
            for sample in samples
        ]

    return Tool([], take, lambda: meter.flush(60))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)


def _opentelemetry(
    convert: Callable[[Any], Span], *, whole: bool = False
) -> tuple[Any, Callable[[], list[Report]]]:
    """Return a provider that stores its spans, and a function that reads them."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))

    def take() -> list[Report]:
        spans = [convert(span) for span in memory.get_finished_spans()]
        memory.clear()
        return requests_of(spans, whole=whole)

    return provider, take


def _of_opentelemetry(span: Any, kind: str, given: str, said: str) -> Span:
    return Span(
        f"{span.context.trace_id:x}",
        f"{span.context.span_id:x}",
        f"{span.parent.span_id:x}" if span.parent is not None else None,
        kind,
        given,
        said,
        span.status.status_code.name != "ERROR",
        span.start_time,
    )


def _openinference() -> Tool:
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

    def convert(span: Any) -> Span:
        told = dict(span.attributes or {})
        kind = {"RETRIEVER": "retrieval", "RERANKER": "rerank"}.get(
            str(told.get("openinference.span.kind")), ""
        )
        start = "reranker.output_documents." if kind == "rerank" else "retrieval.documents."
        # Numbered in the order in which they were set; the attributes' own order is that of the list.
        documents = [
            str(value)
            for key, value in told.items()
            if key.startswith(start) and key.endswith("document.content")
        ]
        said = "\n".join(documents) if kind and documents else str(told.get("output.value", ""))
        return _of_opentelemetry(span, kind, str(told.get("input.value", "")), said)

    provider, take = _opentelemetry(convert)
    LangChainInstrumentor().instrument(tracer_provider=provider)
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    return Tool([], take)


def _openlit() -> Tool:
    def convert(span: Any) -> Span:
        told = dict(span.attributes or {})
        operation = str(told.get("gen_ai.operation.name", ""))
        kind = {"retrieval": "retrieval", "retrieve": "retrieval", "rerank": "rerank"}.get(operation, "")
        everything = {**told, **{event.name: dict(event.attributes or {}) for event in span.events}}
        given = {key: one for key, one in everything.items() if not _is_output(key)}
        said = {key: one for key, one in everything.items() if _is_output(key)}
        # The place of a retrieval's documents differs by framework: all of it is read.
        return _of_opentelemetry(span, kind, _text(given), _text(everything if kind else said))

    def _is_output(key: str) -> bool:
        return any(word in key for word in ("output", "completion", "response", "result"))

    provider, take = _opentelemetry(convert, whole=True)
    start_openlit(provider)
    # It has no span for a request: without one of the application's, retrieval and model call
    # are two traces, and nothing would ever be right.
    tracer = provider.get_tracer("application")
    return Tool([], take, around=lambda: tracer.start_as_current_span("request"))


def start_openlit(provider: Any) -> None:
    """Have OpenLIT write spans to `provider`, without the price list that it fetches at its start."""
    import openlit
    from opentelemetry import trace

    prices = Path(tempfile.mkdtemp(prefix="ragmeter-bench-openlit-")) / "prices.json"
    prices.write_text("{}", "utf-8")
    trace.set_tracer_provider(provider)
    openlit.init(disable_metrics=True, disable_events=True, pricing_json=str(prices))


def _deepeval() -> Tool:
    import llama_index.core.instrumentation as instrument
    from deepeval.integrations.langchain import CallbackHandler
    from deepeval.integrations.llama_index import instrument_llama_index
    from deepeval.tracing import trace_manager
    from deepeval.tracing.types import RetrieverSpan

    # Without an account it stores no finished trace: the data to send is read instead.
    finished: list[Any] = []
    trace_manager.post_trace = finished.append
    instrument_llama_index(instrument.get_dispatcher())

    def walk(trace: Any, span: Any, parent: str | None) -> Iterable[Span]:
        retrieves = isinstance(span, RetrieverSpan) or span.retrieval_context is not None
        said = span.retrieval_context or span.output if retrieves else span.output
        own = f"{trace.uuid}/{span.uuid}"
        yield Span(
            trace.uuid,
            own,
            parent,
            "retrieval" if retrieves else "",
            _text([span.input, trace.input if parent is None else None]),
            _text([said, trace.output] if parent is None and not retrieves else said),
            span.status.name == "SUCCESS" and span.end_time is not None,
            span.start_time,
        )
        for child in span.children:
            yield from walk(trace, child, own)

    def take() -> list[Report]:
        traces = list(finished)
        finished.clear()
        spans = [span for trace in traces for root in trace.root_spans for span in walk(trace, root, None)]
        return requests_of(spans)

    return Tool([CallbackHandler()], take)


def _mlflow() -> Tool:
    import mlflow

    place = Path(tempfile.mkdtemp(prefix="ragmeter-bench-mlflow-"))
    mlflow.set_tracking_uri(f"sqlite:///{place / 'traces.db'}")
    mlflow.set_experiment("rivals")
    mlflow.langchain.autolog()
    mlflow.llama_index.autolog()
    read: set[str] = set()

    def drain() -> None:
        flush = getattr(mlflow, "flush_trace_async_logging", None)
        if flush is not None:
            flush()

    def take() -> list[Report]:
        drain()
        spans = []
        for trace in mlflow.search_traces(return_type="list", max_results=500):
            if trace.info.trace_id in read:
                continue
            read.add(trace.info.trace_id)
            spans += [_of_mlflow(span) for span in trace.data.spans]
        return requests_of(spans)

    return Tool([], take, drain)


def _of_mlflow(span: Any) -> Span:
    return Span(
        span.trace_id,
        span.span_id,
        span.parent_id,
        {"RETRIEVER": "retrieval", "RERANKER": "rerank"}.get(span.span_type, ""),
        _text(span.inputs),
        _text(span.outputs),
        str(getattr(span.status.status_code, "name", "")) != "ERROR",
        span.start_time_ns,
    )
