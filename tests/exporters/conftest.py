"""A real SDK in memory, real receivers on loopback, and scored runs to send through them."""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from loopback_server import LoopbackServer
from memory_sdk import memory_sdk
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import SpanContext, TraceFlags
from otlp_receiver import OtlpReceiver, attributes_of, value_of

from ragmeter import RagRun, Retrieval, ScoredRun
from ragmeter.metrics import RagSample, Reference, RetrievedContext, Score, ScoreItem

T0 = 1_700_000_000_000_000_000
MS = 1_000_000
CONTENT = {
    "question": "QUESTION-TEXT what is it?",
    "query": "QUERY-TEXT rewritten",
    "context": "CONTEXT-TEXT 检索到的段落",
    "answer": "ANSWER-TEXT это оно",
    "reference": "REFERENCE-TEXT",
    "explanation": "EXPLANATION-TEXT quotes a context",
    "item": "ITEM-TEXT",
}
SUMMARY = "1 of 2 chunks"
"""Metadata of a score, without any text."""


@pytest.fixture
def otlp() -> Iterator[Any]:
    """Yield an OTLP/HTTP receiver that decodes its requests."""
    receiver = OtlpReceiver()
    receiver.attributes_of = attributes_of
    receiver.value_of = value_of
    yield receiver
    receiver.close()


@pytest.fixture
def sdk() -> Iterator[SimpleNamespace]:
    """Yield the three providers of a real SDK, and their received data."""
    made = memory_sdk()
    yield made
    for provider in made.providers.values():
        provider.shutdown()


def span_context(trace: int = 0xA1, span: int = 0xB1, *, sampled: bool = True) -> SpanContext:
    """Return a span of the application or of another instrumentation."""
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(trace, span, is_remote=False, trace_flags=flags)


def score(name: str, value: float | None = 0.5, **changes: Any) -> Score:
    """Return a score of a deterministic retrieval metric."""
    given = {
        "status": "ok" if value is not None else "undefined",
        "method": "exact",
        "definition": "d1",
        "target": "retrieval",
        "explanation": CONTENT["explanation"],
        "summary": SUMMARY,
        "items": (ScoreItem(id="chunk-1", verdict=True, text=CONTENT["item"]),),
    }
    return Score(name=name, value=value, **{**given, **changes})


SCORES = (
    score("context_precision", 0.73, method="llm", definition="p1"),
    score("recall", None),
    score("context_count", 2.0, range=(0.0, None)),
    score("faithfulness", 0.9, target="answer", method="llm", label="pass"),
    score("context_recall", None, status="judge_error", method="llm", error_type="RateLimitError"),
    score("answer_relevancy", None, status="skipped", target="answer", method="llm"),
    score("ndcg", None, status="missing_input", missing="reference.contexts"),
)


@pytest.fixture
def scored_run() -> Callable[..., ScoredRun]:
    """Return a function that makes a scored run; keyword arguments replace the run's fields."""
    return make_scored_run


def make_scored_run(
    scores: tuple[Score, ...] = SCORES,
    *,
    late: bool = False,
    sample: dict[str, Any] | None = None,
    retrieval: dict[str, Any] | None = None,
    rates: tuple[float, float] = (1.0, 1.0),
    **changes: Any,
) -> ScoredRun:
    """Return a request with one retrieval, in the application's trace, with content in every field."""
    contexts = (
        RetrievedContext(text=CONTENT["context"], id="doc-1", score=0.8, metadata={"p": 1}),
        RetrievedContext(text=CONTENT["context"] + " two"),
    )
    one = Retrieval(
        **{
            "started_ns": T0 + 10 * MS,
            "ended_ns": T0 + 40 * MS,
            "contexts": contexts,
            "query": CONTENT["query"],
            "name": "VectorStoreRetriever",
            "data_source_id": "handbook",
            "top_k": 2,
            "embedding_model": "embed-small",
            "provider": "chroma",
            **(retrieval or {}),
        }
    )
    run = RagRun(
        **{
            "sample": RagSample(
                **{
                    "question": CONTENT["question"],
                    "contexts": contexts,
                    "answer": CONTENT["answer"],
                    "reference": Reference(answer=CONTENT["reference"]),
                    "name": "support_bot",
                    **(sample or {}),
                }
            ),
            "run_id": "run-1",
            "framework": "langchain",
            "started_ns": T0,
            "ended_ns": T0 + 100 * MS,
            "retrievals": (one,),
            "parent": span_context(),
            "conversation_id": "thread-7",
            "user_id": "user-9",
            "tags": ("beta",),
            "metadata": {"tenant": "acme", "turn": 3, "deep": {"not": "scalar"}},
            **changes,
        }
    )
    return ScoredRun(
        run=run,
        scores={each.name: each for each in scores},
        late=late,
        sample_rate=rates[0],
        judge_sample_rate=rates[1],
    )


def hard_runs() -> list[ScoredRun]:
    """Return requests at the limits of what adapters build."""
    target = span_context(span=0xC1)
    odd = RetrievedContext(
        text="\x00\ud800" * 10,
        id="\ud800",
        score=float("nan"),
        metadata={"o": object(), "d": {1: {2: {3}}}, "n": float("inf")},
    )
    return [
        make_scored_run(target=target),
        make_scored_run((), target=target),
        make_scored_run(target=target, late=True),
        make_scored_run(target=target, retrievals=()),
        make_scored_run(
            target=target, sample={"question": None, "contexts": None, "answer": None, "name": None}
        ),
        make_scored_run(target=target, sample={"contexts": (odd,)}, retrieval={"contexts": (odd,)}),
        make_scored_run(target=target, sample={"answer": "x" * 10_000_000}),
        make_scored_run(target=target, sample={"status": "error"}, error_type="E"),
        make_scored_run(target=target, ended_ns=0),
        make_scored_run(target=target, metadata={"k" * 5000: "v" * 5000, "": None}),
        make_scored_run((score("sc\ud800re", 0.5, label="\ud800", definition="\ud800"),), target=target),
    ]


@pytest.fixture
def make() -> SimpleNamespace:
    """Return the builders of this folder, by name."""
    return SimpleNamespace(
        score=score,
        span_context=span_context,
        scored_run=make_scored_run,
        hard_runs=hard_runs,
        scores=SCORES,
        content=CONTENT,
        summary=SUMMARY,
        t0=T0,
        ms=MS,
    )


class Backend(LoopbackServer):
    """An HTTP API on loopback: answers as scripted, upserts accepted data, and records the rest."""

    def __init__(self):
        self.requests = []
        self.answers = []
        self.stored = {}
        self.puts = []
        self.configs = []
        """Phoenix's display configuration of annotations; not among the requests."""
        self.traces = []
        """OTLP requests received, as (path, headers, request)."""
        self.seen = set()
        self.refuses = None
        """The events of a batch that are rejected with a status each; None: none."""
        super().__init__()

    def reply(self, received):
        path, headers, content = received.path, dict(received.headers), received.body
        if received.method == "PUT":
            self.puts.append(path)
            return 200
        if path.endswith("/v1/traces"):
            plain = gzip.decompress(content) if headers.get("Content-Encoding") == "gzip" else content
            self.traces.append((path, headers, ExportTraceServiceRequest.FromString(plain)))
            return 200
        body = json.loads(content)
        if path == "/v1/annotation_configs":
            self.configs.append(body)
            return 200
        self.requests.append((path, headers, body, time.monotonic()))
        status, more = self.answers.pop(0) if self.answers else (200, {})
        answer = self.take(path, body) if status == 200 else {}
        named = {name: value() if callable(value) else value for name, value in more.items()}
        return 207 if answer else status, json.dumps(answer).encode(), named

    def take(self, path, body):
        """Store accepted data; return the response, which only a batch has."""
        if "batch" not in body:
            self.store(path, body)
            return {}
        events = body["batch"]
        refused = [event for event in events if self.refuses and self.refuses(event["body"])]
        kept = [event for event in events if event not in refused]
        self.store(path, {"batch": kept})
        return {
            "successes": [{"id": event["id"], "status": 201} for event in kept],
            "errors": [{"id": event["id"], "status": 400, "message": "not valid"} for event in refused],
        }

    def store(self, path, body):
        """Upsert as Phoenix does (span, name, identifier) and as Langfuse does (id)."""
        if path == "/api/public/ingestion":
            for event in body["batch"]:
                if event["id"] not in self.seen:  # an event it has seen is dropped
                    self.seen.add(event["id"])
                    self.stored[event["body"]["id"]] = event["body"]
        else:
            for item in body.get("data", ()):
                target = (item.get("span_id") or item["trace_id"], item.get("document_position"))
                self.stored[path, target, item["name"], item["identifier"]] = item


@pytest.fixture
def backend():
    with Backend() as server:
        yield server


@pytest.fixture
def recorded(make):
    """Return a run whose spans another instrumentation recorded."""
    return make.scored_run(
        target=make.span_context(span=0xC1), retrieval={"target": make.span_context(span=0xD1)}
    )
