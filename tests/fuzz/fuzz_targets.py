"""The fuzzed functions and their invariants: one function of bytes per input of foreign data.

`test_fuzz.py` runs them with hypothesis, `fuzz_atheris.py` with coverage feedback.  A target raises
`AssertionError` when a promise is broken; any other exception is a crash.
"""

import contextlib
import json
import tempfile
import time
import uuid
from pathlib import Path

from langchain_core.documents import Document
from pydantic import ValidationError

from ragmeter._runtime.guard import observed_errors
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.opentelemetry import RetrievalTool
from ragmeter.adapters.opentelemetry.build import build_run
from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.cli.spans import as_row, read_recording
from ragmeter.metrics import ConfigurationError, RagSample, Reference, ReferenceFileError, evaluate
from ragmeter.metrics._files.rows import BadRow
from ragmeter.metrics._files.samples import Row, read_samples
from ragmeter.metrics.judge import Group, Item
from ragmeter.metrics.judge.replies import UnusableReplyError, read_reply
from ragmeter.requests.references import load_references
from ragmeter.requests.scope import RequestScope, parse_scope

FREE = [
    "precision_recall_f1", "ranked_retrieval", "id_precision_recall", "answer_overlap",
    "lexical_context_precision", "lexical_context_recall", "lexical_entity_recall",
    "lexical_groundedness", "lexical_context_relevance", "retrieval_health",
]  # fmt: skip


class within:  # noqa: N801 -- reads as a phrase
    """Fail if the block computes for longer than a generous bound by the size of its input."""

    def __init__(self, data):
        self.bound_s = 20.0 + len(data) / 50_000

    def __enter__(self):
        self.started = time.process_time()

    def __exit__(self, *_):
        assert time.process_time() - self.started < self.bound_s, "too slow"


def _text(data):
    return data.decode("utf-8", "surrogatepass" if len(data) % 2 else "replace")


def _texts(data):
    with contextlib.suppress(UnicodeDecodeError):
        return [*_text(data).split("\x1f"), "", "", ""]
    return [*data.decode("latin-1").split("\x1f"), "", "", ""]


def texts(data):
    """Check free metrics on any texts: a value in its range and status ok, or a status and no value."""
    question, answer, wanted, *contexts = _texts(data)
    reference = Reference(answer=wanted, contexts=contexts[:2], context_ids=contexts[:1])
    sample = RagSample(question=question, answer=answer, contexts=contexts, reference=reference)
    [scores] = evaluate([sample], FREE)
    for score in scores.values():
        assert score.status != "judge_error", score
        assert (score.value is not None) == (score.status == "ok"), score
        low, high = score.range
        assert score.value is None or low <= score.value, score
        assert score.value is None or high is None or score.value <= high, score


def _file(data, ending):
    folder = Path(tempfile.mkdtemp())
    path = folder / f"file.{ending}"
    path.write_bytes(data)
    return path


def _gone(path):
    path.unlink()
    path.parent.rmdir()


def reference_files(data):
    """Check that any bytes are references, or an error with file and line, or about the whole file."""
    for ending in ("jsonl", "csv"):
        path = _file(data, ending)
        try:
            find = load_references(path)
            assert find("no such question 8f2b") is None or b"8f2b" in data
        except (ReferenceFileError, ConfigurationError) as error:
            assert str(path) in str(error)  # noqa: PT017 -- no test, a target
        finally:
            _gone(path)


def rows(data):
    """Check that any bytes are rows, good or bad, each with its line; never another exception."""
    for ending in ("jsonl", "csv"):
        path = _file(data, ending)
        try:
            for row in read_samples(path):
                assert isinstance(row, (Row, BadRow))
        except ConfigurationError:
            pass
        finally:
            _gone(path)


GROUPS = [
    Group("chunks", tuple(Item(f"c{n}", (str(n),)) for n in (1, 2, 3))),
    Group("lines", (Item("s1", ("1",)), Item("s2", ("2",))), compact=True),
    Group("words", (Item("a1", ("1",)),), kind="choice", choices=("supported", "absent")),
    Group("texts", (Item("t1", ("1",)),), kind="texts"),
    Group("pairs", (Item("p1", ("1",)),), kind="pairs"),
]
_KINDS = {"verdict": bool, "choice": str, "texts": tuple, "pairs": tuple}


def replies(data):
    """Check that replies have only asked ids and values of the requested kind; a quotation answers nothing."""
    text = data.decode("utf-8", "replace")
    asked = {item.id: group for group in GROUPS for item in group.items}
    with contextlib.suppress(UnusableReplyError):
        for item_id, answer in read_reply(text, GROUPS).items():
            assert answer.known
            assert isinstance(answer.value, _KINDS[asked[item_id].kind])
    with contextlib.suppress(UnusableReplyError):
        assert read_reply(text, GROUPS, f"before {text} after") == {}


def _json(data):
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("latin-1")


def notes(data):
    """Check that any note in a framework's metadata is read, or rejected with a contained error."""
    with contextlib.suppress(ConfigurationError, ValidationError, TypeError):
        scope = parse_scope(_json(data))
        assert scope is None or isinstance(scope, RequestScope)


class _Taking:
    """A meter that builds offered runs at once, and does not contain errors."""

    def __init__(self):
        from ragmeter import RagMeter

        self.runs = []
        self.meter = RagMeter(metrics=[], exporters=[])
        self.meter.port.offer = self._offer

    def _offer(self, build, **_):
        run = build()
        if run is not None:
            self.runs.append(run)


def payloads(data):
    """Check that any input and output of a chain and a retriever is captured without an internal error."""
    value = _json(data)
    if isinstance(value, dict) and set(value) >= {"page_content", "metadata"}:
        value = [Document(str(value["page_content"]), metadata={"m": value["metadata"]})]
    taking, errors = _Taking(), []
    handler = RagMeterCallbackHandler(taking.meter)
    root, retriever = uuid.uuid4(), uuid.uuid4()
    with observed_errors(lambda component, error: errors.append((component, error))):
        metadata = {"ragmeter": value} if isinstance(value, dict) else {"k": value}
        handler.on_chain_start({}, value, run_id=root, name="fuzzed", metadata=metadata)
        handler.on_retriever_start({}, str(value), run_id=retriever, parent_run_id=root)
        documents = value if isinstance(value, list) else [value]
        handler.on_retriever_end(documents, run_id=retriever, parent_run_id=root)
        handler.on_chain_end(value, run_id=root)
    taking.meter.shutdown(60)
    # Only the malformed note is lost, reported under this component, not the request.
    assert {component for component, _ in errors} <= {"langchain.metadata"}, errors
    assert len(taking.runs) == 1


def recordings(data):
    """Check recorded spans: a request, or the unreadable part with the reason; equal in all formats."""
    for ending in ("pb", "traces.pb", "logs.pb", "json", "jsonl"):
        path = _file(data, ending)
        try:
            recording = read_recording([path], [RetrievalTool("*")])
        finally:
            _gone(path)
        for bad in recording.bad:
            assert bad.reason
        for request in recording.requests:
            assert (request.usable == "full") == (request.reason is None)
            json.dumps(as_row(request, score=True), default=str)


def span_values(data):
    """Check that no reader raises on spans of every convention with any values in their attributes."""
    value = _text(data) if _is_text(data) else data.decode("latin-1")
    keys = [
        "input.value", "output.value", "retrieval.documents", "traceloop.entity.input",
        "traceloop.entity.output", "langfuse.observation.input", "langfuse.observation.output",
        "mlflow.spanInputs", "mlflow.spanOutputs", "haystack.component.input",
        "haystack.component.output", "haystack.pipeline.input_data", "haystack.pipeline.output_data",
        "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.documents",
        "gen_ai.tool.call.result", "pydantic_ai.all_messages", "final_result", "ai.prompt",
        "ai.toolCall.result", "llm.output_messages.0.message.content",
        "retrieval.documents.0.document.content", "retrieval.documents.0.document.metadata",
    ]  # fmt: skip
    said = dict.fromkeys(keys, value)
    kinds = [
        ("openinference.span.kind", ("CHAIN", "RETRIEVER", "RERANKER", "LLM", "TOOL")),
        ("traceloop.span.kind", ("workflow", "task", "tool")),
        ("langfuse.observation.type", ("chain", "retriever", "generation", "tool")),
        ("mlflow.spanType", ('"CHAIN"', '"RETRIEVER"', '"RERANKER"', '"LLM"', '"TOOL"')),
        ("haystack.component.type", ("ARetriever", "ARanker", "AGenerator")),
        ("gen_ai.operation.name", ("invoke_agent", "retrieval", "rerank", "chat", "execute_tool")),
        ("ai.operationId", ("ai.generateText", "ai.toolCall", "ai.generateText.doGenerate")),
    ]
    for key, roles in kinds:
        spans = [
            SpanRecord(
                trace_id="1" * 32,
                span_id=f"{place:016x}",
                parent_id=f"{0:016x}" if place else None,
                started_ns=place,
                ended_ns=99 if place == 0 else place + 1,
                attributes={**said, key: role},
            )
            for place, role in enumerate(roles)
        ]
        for request in read_trace(spans, (), [RetrievalTool("*")]).requests:
            build_run(request)


def _is_text(data):
    with contextlib.suppress(UnicodeDecodeError):
        _text(data)
        return True
    return False


TARGETS = [texts, reference_files, rows, replies, notes, payloads, recordings, span_values]
