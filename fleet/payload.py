"""Serialise captured requests as messages, and read them, without loss.

Version 1.0 is JSON, compressed by zlib at its fastest level. The text of a chunk is in it once, however often
a request refers to it. An unset field is absent, which differs from null: metrics score ``missing_input`` for
one and ``undefined`` for the other. A reader accepts its own major version and the one before, with any minor
one, and ignores unknown fields; so workers are upgraded first. No error here quotes content of a message: it
may be logged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal, get_type_hints

from opentelemetry.trace import SpanContext, TraceFlags, TraceState
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import RagmeterError, RagSample, Reference, RetrievalStage, RetrievedContext
from ragmeter.metrics._files.json_lines import plain

VERSION = (1, 0)
"""Major and minor version of written messages."""
MAX_RUNS = 32
"""Most requests in a message."""
MAX_BYTES = 64 * 1024 * 1024
"""Most bytes of an unpacked message, as a small body can unpack to any size."""
_LEVEL = 1
_READABLE = (VERSION[0] - 1, VERSION[0])
_UNREADABLE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError, zlib.error)

Kind = Literal["run", "again"]


class UnreadableError(RagmeterError):
    """A message that will never be readable. The error quotes none of its content.

    Args:
        reason: Why it is unreadable.
        requests: Number of its requests; 1 if unknown.
    """

    def __init__(self, reason: str, requests: int = 1) -> None:
        super().__init__(reason)
        self.requests = requests


class MessageTooLargeError(RagmeterError):
    """Requests that do not fit into one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRun:
    """A request to be scored elsewhere, with its sampling."""

    run: RagRun
    """The request, redacted and with its reference."""
    kind: Kind = "run"
    """``again``: the request was sent before, and has a new reference."""
    revision: str = ""
    """Number of the late reference; empty for a ``run``."""
    sample_rate: float = 1.0
    """The request's probability of being scored."""
    judge_sample_rate: float = 1.0
    """The request's probability of being judged."""
    worst: bool = False
    """The request was selected for being bad, not by chance: it is judged in any case."""


_SHORT: Mapping[type, Mapping[str, str]] = {
    RetrievedContext: {"text": "t", "score": "s", "metadata": "m"},
    RetrievalStage: {"contexts": "ctx", "inputs": "in", "recorded": "rec"},
    Reference: {},
    Retrieval: {
        "contexts": "ctx",
        "data_source_id": "src",
        "top_k": "k",
        "embedding_model": "emb",
        "provider": "prov",
        "error_type": "err",
    },
    RagSample: {
        "question": "q",
        "answer": "a",
        "contexts": "ctx",
        "contexts_by": "by",
        "reference": "ref",
        "search_query": "search",
    },
    RagRun: {
        "run_id": "id",
        "framework": "fw",
        "retrievals": "ret",
        "conversation_id": "conv",
        "response_id": "resp",
        "user_id": "user",
        "metadata": "meta",
        "framework_metadata": "fmeta",
        "error_type": "err",
        "resource": "res",
    },
    SentRun: {"revision": "rev"},
}
"""The parts of a message, with the short keys of fields; other fields have their own name as key."""
_ELSEWHERE = frozenset({"run", "sample", "started_ns", "ended_ns", "sample_rate", "judge_sample_rate"})
"""Fields without a key: request and sample share one object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """The content of one message."""

    runs: Sequence[SentRun]
    """The requests, in order."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """The application's resource: ``service.name`` and the like."""
    published_ns: int = 0
    """Time of publication by the application's clock, nanoseconds since the epoch; 0: unknown."""
    unreadable: Sequence[bytes] = ()
    """Unreadable requests, each as a separate message."""
    version: tuple[int, int] = VERSION
    """Major and minor version of the message; `pack` writes `VERSION`, `each_alone` keeps it."""

    @property
    def is_newer(self) -> bool:
        """Whether it may have fields that this version of ragmeter ignores."""
        return self.version > VERSION


def pack(batch: MessageContent) -> bytes:
    """Serialise a batch, without `MessageContent.unreadable`.

    Raises:
        MessageTooLargeError: It has more than `MAX_RUNS` requests, or unpacks to more than `MAX_BYTES`.
    """
    if len(batch.runs) > MAX_RUNS:
        raise MessageTooLargeError(f"{len(batch.runs)} requests; a message holds {MAX_RUNS}")
    return _pack([_fields_of(sent) for sent in batch.runs], dict(batch.resource), batch.published_ns)


def unpack(body: bytes) -> MessageContent:
    """Parse a message. An unreadable request does not affect the others.

    Raises:
        UnreadableError: The whole message is unreadable.
    """
    try:
        message = _message(body)
        major, minor, *_ = (*_WHOLE_NUMBERS.validate_python(message["v"]), 0)
        if major not in _READABLE:
            runs = message.get("runs")
            raise UnreadableError(
                f"the message has version {major}, and this worker reads {_READABLE[0]} and {_READABLE[1]}",
                max(1, len(runs)) if isinstance(runs, list) else 1,
            )
        envelope = _Envelope(**message)
        resource, published_ns = _texts(envelope.res), envelope.pub
        tried = [(one, _attempt(one)) for one in envelope.runs]
        unreadable = [_pack([one], resource, published_ns, message["v"]) for one, read in tried if read is None]
    except _UNREADABLE as error:
        raise UnreadableError(f"not a message of ragmeter: {type(error).__name__}") from None
    return MessageContent(
        runs=[read for _, read in tried if read is not None],
        resource=resource,
        published_ns=published_ns,
        unreadable=unreadable,
        version=(major, minor),
    )


def each_alone(body: bytes) -> tuple[bytes, ...]:
    """Return the readable requests of a message, each as a separate message, unchanged.

    Raises:
        UnreadableError: As for `unpack`.
    """
    try:
        message = _message(body)
        runs = [one for one in _Envelope(**message).runs if _attempt(one) is not None]
    except _UNREADABLE as error:
        raise UnreadableError(f"not a message of ragmeter: {type(error).__name__}") from None
    return tuple(_compressed({**message, "runs": [one]}) for one in runs)


class _Envelope(BaseModel):
    model_config = ConfigDict(strict=True)

    runs: list[Any]
    res: dict[str, Any] | None = None
    pub: int = 0


def _attempt(one: Any) -> SentRun | None:
    try:
        return _Reading(one).read()
    except _UNREADABLE:
        return None


def _pack(runs: list[Any], resource: Mapping[str, str], published_ns: int, version: Any = VERSION) -> bytes:
    return _compressed({"v": list(version), "res": resource, "pub": published_ns, "runs": runs})


def _compressed(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate is not UTF-8; the reader restores it.
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
    return _MAPPING.validate_python(json.loads(raw.decode("utf-8", "surrogatepass")))


@cache
def _keys(kind: Any) -> Mapping[str, str]:
    names = (
        kind.model_fields
        if issubclass(kind, BaseModel)
        else [one.name for one in fields(kind) if one.name not in _ELSEWHERE]
    )
    return {name: _SHORT[kind].get(name, name) for name in names}


class _Writing:
    """Serialises one request. A chunk in several places is written once, and read as one object."""

    def __init__(self) -> None:
        self.chunks: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}

    def part(self, kind: type, value: Any) -> dict[str, Any]:
        """Serialise the set fields of a part."""
        given = value.model_fields_set if isinstance(value, BaseModel) else None
        written: dict[str, Any] = {}
        if isinstance(value, (Retrieval, RagRun)):
            written["at"] = [value.started_ns, value.ended_ns]
        for name, key in _keys(kind).items():
            one = getattr(value, name)
            if _says_something(one) if given is None else name in given:
                written[key] = self._plain(one)
        return written

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, (str, int, float)):
            return value
        if isinstance(value, SpanContext):
            return _span(value)
        if isinstance(value, RetrievedContext):
            return self._place(value)
        if isinstance(value, (tuple, list)):
            return [self._plain(one) for one in value]
        if isinstance(value, Mapping):
            return plain(value)
        return self.part(next(kind for kind in _SHORT if isinstance(value, kind)), value)

    def _place(self, context: RetrievedContext) -> int:
        place = self._places.get(id(context))
        if place is None:
            place = self._places[id(context)] = len(self.chunks)
            self.chunks.append(self.part(RetrievedContext, context))
        return place


def _says_something(value: Any) -> bool:
    if value is None or value is False or isinstance(value, str):
        return isinstance(value, str)
    return value.is_valid if isinstance(value, SpanContext) else value not in ((), {})


def _fields_of(sent: SentRun) -> dict[str, Any]:
    writing = _Writing()
    written = {
        "rates": [sent.sample_rate, sent.judge_sample_rate],
        **writing.part(SentRun, sent),
        **writing.part(RagSample, sent.run.sample),
        **writing.part(RagRun, sent.run),
    }
    return {**written, "chunks": writing.chunks} if writing.chunks else written


def _span(span: SpanContext) -> list[Any]:
    trace, own, flags = f"{span.trace_id:032x}", f"{span.span_id:016x}", int(span.trace_flags)
    return [trace, own, flags, *([span.trace_state.to_header()] if span.trace_state else [])]


_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
_WHOLE_NUMBERS = TypeAdapter(list[int], config=_STRICT)
_NUMBERS = TypeAdapter(list[float], config=_STRICT)
_SPAN: TypeAdapter[list[Any]] = TypeAdapter(list[str | int], config=_STRICT)
_MAPPING = TypeAdapter(dict[str, Any], config=_STRICT)
_LIST = TypeAdapter(list[Any] | None, config=_STRICT)


@cache
def _checks(kind: type) -> type[BaseModel]:
    """Return a strict model of a dataclass's fields."""
    hints: dict[str, Any] = {name: (hint, None) for name, hint in get_type_hints(kind).items()}
    return create_model(kind.__name__, __config__=_STRICT, **hints)


class _Reading:
    """Parses one request; raises one of `_UNREADABLE` if a field is invalid."""

    def __init__(self, one: Any) -> None:
        self._one = _MAPPING.validate_python(one)
        self._readers: dict[str, Callable[[Any], Any]] = {
            "contexts": self._contexts,
            "carried": self._contexts,
            "stages": lambda those: None if those is None else self._parts(RetrievalStage, those),
            "retrievals": lambda those: self._parts(Retrieval, those),
            "reference": lambda one: None if one is None else Reference(**_known_fields(Reference, one)),
            "parent": _read_span,
            "target": _read_span,
            "inputs": _tuple,
            "tags": _tuple,
            "resource": _texts,
        }
        self._chunks = self._parts(RetrievedContext, self._one.get("chunks"))

    def read(self) -> SentRun:
        """Return the request."""
        one = {"q": None, "fw": "manual", **self._one}
        rates = _NUMBERS.validate_python(one.get("rates") or [1.0, 1.0])
        if not all(0.0 <= rate <= 1.0 for rate in rates):
            raise ValueError
        run = self._part(RagRun, one, sample=self._part(RagSample, one))
        chances = {"sample_rate": rates[0], "judge_sample_rate": rates[1]}
        sent: SentRun = self._part(SentRun, {"kind": None, **one}, run=run, **chances)
        return sent

    def _part(self, kind: Any, one: Any, **more: Any) -> Any:
        for name, value in _known_fields(kind, one).items():
            more[name] = self._readers[name](value) if name in self._readers else value
        if issubclass(kind, BaseModel):
            return kind.model_validate(more, strict=True)
        if kind is not SentRun:
            more["started_ns"], more["ended_ns"] = one["at"]
        read = _checks(kind)(**more)
        return kind(**{name: getattr(read, name) for name in more})

    def _parts(self, kind: type, those: Any) -> tuple[Any, ...]:
        return tuple(self._part(kind, one) for one in _tuple(those))

    def _contexts(self, places: Any) -> tuple[RetrievedContext, ...] | None:
        if places is None:
            return None
        at = _WHOLE_NUMBERS.validate_python(places)
        if any(place < 0 for place in at):
            raise IndexError
        return tuple(self._chunks[place] for place in at)


def _known_fields(kind: type, one: Any) -> dict[str, Any]:
    there = _MAPPING.validate_python(one)
    return {name: there[key] for name, key in _keys(kind).items() if key in there}


def _read_span(span: Any) -> SpanContext | None:
    if span is None:
        return None
    trace, own, flags, *state = _SPAN.validate_python(span)
    read = SpanContext(
        int(trace, 16),
        int(own, 16),
        is_remote=True,
        trace_flags=TraceFlags(flags),
        trace_state=TraceState.from_header([state[0]]) if state else None,
    )
    return read if read.is_valid else None


def _tuple(those: Any) -> tuple[Any, ...]:
    return tuple(_LIST.validate_python(those) or ())


def _texts(known: Any) -> dict[str, str]:
    there = _MAPPING.validate_python(known or {})
    return {name: text for name, text in there.items() if isinstance(text, str)}
