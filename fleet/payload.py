"""A message: captured requests as bytes, and back, without a loss.

Version 1.0 is JSON, compressed by zlib at its fastest level.  Texts of chunks stand in it once, however often
a request refers to them; what was never given is absent, which is not the same as null: a metric says
``missing_input`` to the one and ``undefined`` to the other.  A reader takes its own major version and the one
before, with any minor one, and passes over fields that it does not know; so workers are rolled out first.

No error raised here says a word of what is in a message: it may end in a log.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import (
    RagmeterError,
    RagSample,
    Reference,
    RetrievalStage,
    RetrievedContext,
)
from ragmeter.metrics._files.json_lines import plain

__all__ = [
    "MAX_BYTES",
    "MAX_RUNS",
    "VERSION",
    "MessageContent",
    "MessageTooLargeError",
    "SentRun",
    "UnreadableError",
    "each_alone",
    "pack",
    "unpack",
]

VERSION = (1, 0)
"""Major and minor version of what is written."""
MAX_RUNS = 32
"""Requests in a message, at most."""
MAX_BYTES = 64 * 1024 * 1024
"""What a message may unpack to: a small body can claim to be anything."""
_LEVEL = 1
_READABLE = (VERSION[0] - 1, VERSION[0])
_SAMPLE_TEXTS = (
    ("q", "question"),
    ("a", "answer"),
    ("status", "status"),
    ("name", "name"),
    ("by", "contexts_by"),
    ("search", "search_query"),
)
_RETRIEVAL_TEXTS = (
    ("query", "query"),
    ("name", "name"),
    ("src", "data_source_id"),
    ("emb", "embedding_model"),
    ("prov", "provider"),
    ("err", "error_type"),
)
_RUN_TEXTS = (
    ("conv", "conversation_id"),
    ("resp", "response_id"),
    ("user", "user_id"),
    ("err", "error_type"),
)
_UNREADABLE = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)

Kind = Literal["run", "again"]


class UnreadableError(RagmeterError):
    """A message that no retry will make readable. Quotes nothing of it.

    Args:
        said: Why.
        requests: How many requests are in it; 1: at least one, as far as is known.
    """

    def __init__(self, said: str, requests: int = 1) -> None:
        super().__init__(said)
        self.requests = requests


class MessageTooLargeError(RagmeterError):
    """Requests that do not fit into one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRun:
    """A request on its way to be scored, and how it came to be chosen."""

    run: RagRun
    """The request, redacted and with its reference."""
    kind: Kind = "run"
    """``again``: it was sent before, and a reference has come since."""
    revision: str = ""
    """Which of several references that came later; empty: of a ``run``."""
    sample_rate: float = 1.0
    """The probability with which it was chosen to be scored."""
    judge_sample_rate: float = 1.0
    """The probability with which it is to be judged."""
    worst: bool = False
    """It was kept for being bad, not by chance: it is judged, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """What one message holds."""

    runs: Sequence[SentRun]
    """The requests, in order."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The application's: ``service.name`` and the like."""
    published_ns: int = 0
    """When it was published, by the application's clock, nanoseconds since the epoch; 0: unknown."""
    unreadable: Sequence[bytes] = ()
    """Those of its requests that could not be read, each as a message of its own."""
    version: tuple[int, int] = VERSION
    """Major and minor version that it was written in; `pack` writes `VERSION`, `each_alone` keeps it."""

    @property
    def is_newer(self) -> bool:
        """Whether it may hold what this version of ragmeter ignores."""
        return self.version > VERSION


def pack(batch: MessageContent) -> bytes:
    """Return a batch as a message; `MessageContent.unreadable` is not part of it.

    Raises:
        MessageTooLargeError: It holds more than `MAX_RUNS` requests, or unpacks to more than `MAX_BYTES`.
    """
    if len(batch.runs) > MAX_RUNS:
        raise MessageTooLargeError(f"{len(batch.runs)} requests; a message holds {MAX_RUNS}")
    return _pack(
        [_fields_of(sent) for sent in batch.runs], dict(batch.resource), batch.published_ns
    )


def unpack(body: bytes) -> MessageContent:
    """Return what a message holds. A request in it that cannot be read leaves the others alone.

    Raises:
        UnreadableError: The message cannot be read at all.
    """
    try:
        message = _message(body)
        major, minor = _version(message["v"])
        if major not in _READABLE:
            runs = message.get("runs")
            raise UnreadableError(
                f"the message has version {major}, and this worker reads {_READABLE[0]} and {_READABLE[1]}",
                max(1, len(runs)) if isinstance(runs, list) else 1,
            )
        resource = _texts(message.get("res"))
        published_ns = _whole(message.get("pub", 0))
        tried = [(one, _attempt(one)) for one in _list(message["runs"])]
        unreadable = [
            _pack([one], resource, published_ns, message["v"])
            for one, read in tried
            if read is None
        ]
    except _UNREADABLE as error:
        raise UnreadableError(f"no message of ragmeter: {type(error).__name__}") from None
    return MessageContent(
        runs=[read for _, read in tried if read is not None],
        resource=resource,
        published_ns=published_ns,
        unreadable=unreadable,
        version=(major, minor),
    )


def each_alone(body: bytes) -> tuple[bytes, ...]:
    """Return those requests of a message that can be read, each as a message of its own, as they were written.

    Raises:
        UnreadableError: As for `unpack`.
    """
    try:
        message = _message(body)
        runs = [one for one in _list(message["runs"]) if _attempt(one) is not None]
    except _UNREADABLE as error:
        raise UnreadableError(f"no message of ragmeter: {type(error).__name__}") from None
    return tuple(_compressed({**message, "runs": [one]}) for one in runs)


def _version(value: Any) -> tuple[int, int]:
    major, *more = _list(value)
    return _whole(major), _whole(more[0]) if more else 0


def _attempt(one: Any) -> SentRun | None:
    try:
        return _read(one)
    except _UNREADABLE:
        return None


def _pack(
    runs: list[Any], resource: Mapping[str, str], published_ns: int, version: Any = VERSION
) -> bytes:
    return _compressed({"v": list(version), "res": resource, "pub": published_ns, "runs": runs})


def _compressed(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate is no UTF-8; the reader knows, and the text comes back as it was.
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_BYTES:
        raise MessageTooLargeError(f"{len(raw)} bytes; a message holds {MAX_BYTES}")
    return zlib.compress(raw, _LEVEL)


def _message(body: bytes) -> Mapping[str, Any]:
    unpacking = zlib.decompressobj()
    raw = unpacking.decompress(body, MAX_BYTES)
    if unpacking.unconsumed_tail:
        raise UnreadableError(f"the message unpacks to more than {MAX_BYTES} bytes")
    if not unpacking.eof:
        raise UnreadableError("the message is cut off")
    return _mapping(json.loads(raw.decode("utf-8", "surrogatepass")))


class _Chunks:
    """The chunks of one request, each once: an object that several places hold is one again when it is read."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self._known: dict[int, int] = {}

    def places(self, contexts: Iterable[RetrievedContext] | None) -> list[int] | None:
        """Return where each stands, and add those that are new."""
        return None if contexts is None else [self._place(context) for context in contexts]

    def _place(self, context: RetrievedContext) -> int:
        place = self._known.get(id(context))
        if place is not None:
            return place
        given = context.model_fields_set
        one: dict[str, Any] = {"t": context.text}
        if "id" in given:
            one["id"] = context.id
        if "score" in given:
            one["s"] = context.score
        if "metadata" in given:
            one["m"] = plain(context.metadata) if context.metadata else {}
        place = self._known[id(context)] = len(self.written)
        self.written.append(one)
        return place


def _fields_of(sent: SentRun) -> dict[str, Any]:
    run, chunks = sent.run, _Chunks()
    sample = run.sample
    given = sample.model_fields_set
    written: dict[str, Any] = {
        "kind": sent.kind,
        "id": run.run_id,
        "at": [run.started_ns, run.ended_ns],
        "rates": [sent.sample_rate, sent.judge_sample_rate],
        "fw": run.framework,
    }
    if sent.revision:
        written["rev"] = sent.revision
    if sent.worst:
        written["worst"] = True
    for key, name in _SAMPLE_TEXTS:
        if name in given:
            written[key] = getattr(sample, name)
    if "contexts" in given:
        written["ctx"] = chunks.places(sample.contexts)
    if sample.carried:
        written["carried"] = chunks.places(sample.carried)
    if "stages" in given:
        written["stages"] = (
            None if sample.stages is None else [_stage(one, chunks) for one in sample.stages]
        )
    if "reference" in given:
        reference = sample.reference
        written["ref"] = None if reference is None else reference.model_dump(exclude_unset=True)
    if run.retrievals:
        written["ret"] = [_retrieval(one, chunks) for one in run.retrievals]
    for key, span in (("parent", run.parent), ("target", run.target)):
        if span is not None and span.is_valid:
            written[key] = _span(span)
    for key, name in _RUN_TEXTS:
        value = getattr(run, name)
        if value is not None:
            written[key] = value
    if run.tags:
        written["tags"] = list(run.tags)
    for key, known in (("meta", run.metadata), ("fmeta", run.framework_metadata)):
        if known:
            written[key] = plain(known)
    if run.resource:
        written["res"] = dict(run.resource)
    if chunks.written:
        written["chunks"] = chunks.written
    return written


def _stage(stage: RetrievalStage, chunks: _Chunks) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": stage.name,
        "kind": stage.kind,
        "ctx": chunks.places(stage.contexts),
    }
    if "inputs" in stage.model_fields_set:
        written["in"] = list(stage.inputs)
    if "recorded" in stage.model_fields_set:
        written["rec"] = stage.recorded
    return written


def _retrieval(retrieval: Retrieval, chunks: _Chunks) -> dict[str, Any]:
    written: dict[str, Any] = {"at": [retrieval.started_ns, retrieval.ended_ns]}
    if retrieval.contexts:
        written["ctx"] = chunks.places(retrieval.contexts)
    for key, name in _RETRIEVAL_TEXTS:
        value = getattr(retrieval, name)
        if value is not None:
            written[key] = value
    if retrieval.top_k is not None:
        written["k"] = retrieval.top_k
    if retrieval.target is not None and retrieval.target.is_valid:
        written["target"] = _span(retrieval.target)
    return written


def _span(span: SpanContext) -> list[Any]:
    trace, own, flags = f"{span.trace_id:032x}", f"{span.span_id:016x}", int(span.trace_flags)
    return [trace, own, flags, *([span.trace_state.to_header()] if span.trace_state else [])]


def _read(one: Any) -> SentRun:
    """Return a request; raises one of `_UNREADABLE` where a field is not what it should be."""
    one = _mapping(one)
    if one["kind"] not in ("run", "again"):
        raise ValueError
    chunks = [_chunk(chunk) for chunk in _list(one.get("chunks"))]
    sample: dict[str, Any] = {"question": None}
    for key, name in _SAMPLE_TEXTS:
        if key in one:
            sample[name] = _text(one[key])
    if "ctx" in one:
        sample["contexts"] = _of(chunks, one["ctx"])
    if "carried" in one:
        sample["carried"] = _of(chunks, one["carried"])
    if "stages" in one:
        stages = one["stages"]
        sample["stages"] = (
            None if stages is None else tuple(_read_stage(each, chunks) for each in _list(stages))
        )
    if "ref" in one:
        sample["reference"] = None if one["ref"] is None else _reference(_mapping(one["ref"]))
    started_ns, ended_ns = (_whole(at) for at in one["at"])
    rates = _list(one.get("rates")) or [1.0, 1.0]
    run = RagRun(
        sample=RagSample(**sample),
        run_id=_required_text(one["id"]),
        framework=_required_text(one.get("fw", "manual")),
        started_ns=started_ns,
        ended_ns=ended_ns,
        retrievals=tuple(_read_retrieval(each, chunks) for each in _list(one.get("ret"))),
        parent=_read_span(one.get("parent")),
        target=_read_span(one.get("target")),
        conversation_id=_text(one.get("conv")),
        response_id=_text(one.get("resp")),
        user_id=_text(one.get("user")),
        tags=tuple(_required_text(tag) for tag in _list(one.get("tags"))),
        metadata=dict(_mapping(one.get("meta", {}))),
        framework_metadata=dict(_mapping(one.get("fmeta", {}))),
        error_type=_text(one.get("err")),
        resource=_texts(one.get("res")),
    )
    return SentRun(
        run=run,
        kind=one["kind"],
        revision=_required_text(one.get("rev", "")),
        sample_rate=_rate(rates[0]),
        judge_sample_rate=_rate(rates[1]),
        worst=_flag(one.get("worst", False)),
    )


def _chunk(chunk: Any) -> RetrievedContext:
    chunk = _mapping(chunk)
    fields: dict[str, Any] = {"text": _required_text(chunk["t"])}
    if "id" in chunk:
        fields["id"] = _text(chunk["id"])
    if "s" in chunk:
        score = chunk["s"]
        fields["score"] = None if score is None else _number(score)
    if "m" in chunk:
        fields["metadata"] = _mapping(chunk["m"])
    return RetrievedContext(**fields)


def _read_stage(stage: Any, chunks: Sequence[RetrievedContext]) -> RetrievalStage:
    stage = _mapping(stage)
    fields: dict[str, Any] = {
        "name": _required_text(stage["name"]),
        "kind": stage["kind"],
        "contexts": _of(chunks, stage.get("ctx")),
    }
    if "in" in stage:
        fields["inputs"] = tuple(_whole(place) for place in _list(stage["in"]))
    if "rec" in stage:
        fields["recorded"] = _flag(stage["rec"])
    return RetrievalStage(**fields)


def _read_retrieval(retrieval: Any, chunks: Sequence[RetrievedContext]) -> Retrieval:
    retrieval = _mapping(retrieval)
    started_ns, ended_ns = (_whole(at) for at in retrieval["at"])
    texts = {name: _text(retrieval.get(key)) for key, name in _RETRIEVAL_TEXTS}
    top_k = retrieval.get("k")
    return Retrieval(
        started_ns=started_ns,
        ended_ns=ended_ns,
        contexts=_of(chunks, retrieval.get("ctx")) or (),
        top_k=None if top_k is None else _whole(top_k),
        target=_read_span(retrieval.get("target")),
        **texts,
    )


def _reference(given: Mapping[str, Any]) -> Reference:
    return Reference(**{name: given[name] for name in Reference.model_fields if name in given})


def _of(chunks: Sequence[RetrievedContext], places: Any) -> tuple[RetrievedContext, ...] | None:
    if places is None:
        return None
    wanted = [_whole(place) for place in _list(places)]
    if any(place < 0 for place in wanted):
        raise IndexError
    return tuple(chunks[place] for place in wanted)


def _read_span(span: Any) -> SpanContext | None:
    if span is None:
        return None
    trace, own, flags, *state = _list(span)
    read = SpanContext(
        int(_required_text(trace), 16),
        int(_required_text(own), 16),
        is_remote=True,
        trace_flags=TraceFlags(_whole(flags)),
        trace_state=TraceState.from_header([_required_text(state[0])]) if state else None,
    )
    return read if read.is_valid else None


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _list(value: Any) -> list[Any]:
    """Return a list; of an absent one, an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError
    return value


def _texts(value: Any) -> dict[str, str]:
    known = {} if value is None else _mapping(value)
    return {name: text for name, text in known.items() if isinstance(text, str)}


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value


def _required_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def _rate(value: Any) -> float:
    rate = _number(value)
    if not 0.0 <= rate <= 1.0:
        raise ValueError
    return rate


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value
