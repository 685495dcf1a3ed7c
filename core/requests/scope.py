"""The scope of a request: what the surrounding code states about it.

``with ragmeter.reference(...)``, ``with ragmeter.request(...)`` and ``with ragmeter.suppress()`` set context
variables; adapters read them once, when a request starts, by `current_scope` and `is_suppressed`. Nothing
here affects other tracers or the framework. Context variables follow asyncio tasks and copied contexts, not
bare threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextlib import suppress as ignoring
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from ragmeter._runtime.guard import Guard, front_door
from ragmeter.metrics import ConfigurationError, Reference

from .references import as_reference

if TYPE_CHECKING:
    from .by_hand import Request

T = TypeVar("T")

# The key that all OpenTelemetry instrumentations check; its constant moved between versions.
_SUPPRESS_KEY = "suppress_instrumentation"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """What the application states about a request, outside the framework."""

    reference: Reference | None = None
    """The expected answer and contexts."""
    name: str | None = None
    """Name of the workflow; low cardinality."""
    question: str | None = None
    """The user's question, if the framework's differs."""
    conversation_id: str | None = None
    """Session, thread or conversation id."""
    user_id: str | None = None
    """The user's id."""
    tags: tuple[str, ...] = ()
    """Tags of the request."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Anything else; scalars go on spans."""
    group: Request | None = None
    """The open group that framework requests started here belong to, if any."""

    def merged_over(self, outer: RequestScope | None) -> RequestScope:
        """Return this scope with unset fields filled from `outer`."""
        if outer is None:
            return self
        return RequestScope(
            reference=self.reference if self.reference is not None else outer.reference,
            name=self.name or outer.name,
            question=self.question if self.question is not None else outer.question,
            conversation_id=self.conversation_id or outer.conversation_id,
            user_id=self.user_id or outer.user_id,
            tags=tuple(dict.fromkeys((*outer.tags, *self.tags))),
            metadata={**outer.metadata, **self.metadata},
            group=self.group or outer.group,
        )


_scope: ContextVar[RequestScope | None] = ContextVar("ragmeter_scope", default=None)
_suppressed: ContextVar[bool] = ContextVar("ragmeter_suppressed", default=False)


current_scope: Callable[[], RequestScope | None] = _scope.get
"""Return the scope of requests that start now; without a Python call."""
is_suppressed: Callable[[], bool] = _suppressed.get
"""Return whether requests that start now are ignored (see `suppress`); without a Python call."""


@contextmanager
def apply_scope(scope: RequestScope) -> Iterator[RequestScope]:
    """Apply `scope` over the current one within the block."""
    token = _scope.set(scope.merged_over(_scope.get()))
    try:
        yield scope
    finally:
        _restore(_scope, token)


@contextmanager
def suppress() -> Iterator[None]:
    """Do not capture requests that start within the block, e.g. those of an offline evaluator."""
    token = _suppressed.set(True)
    try:
        yield
    finally:
        _restore(_suppressed, token)


def _restore(variable: ContextVar[T], token: Token[T]) -> None:
    # A generator may be closed in another context, where there is nothing to restore.
    with ignoring(ValueError):
        variable.reset(token)


def leave_host() -> None:
    """Detach this worker thread, so that its work is neither traced nor captured."""
    unsampled = NonRecordingSpan(SpanContext(trace_id=1, span_id=1, is_remote=True, trace_flags=TraceFlags(0)))
    quiet = otel_context.set_value(_SUPPRESS_KEY, True, Context())
    otel_context.attach(trace.set_span_in_context(unsampled, quiet))
    _suppressed.set(True)


@contextmanager
def reference(
    answer: str | None = None,
    contexts: Sequence[str] | None = None,
    context_ids: Sequence[str | int] | None = None,
) -> Iterator[Reference]:
    """Attach a reference to every request that starts within the block, in any framework.

    Never raises: an argument of a wrong type is left out, counted and logged.

    Args:
        answer: The expected answer.
        contexts: The texts to retrieve.
        context_ids: The ids to retrieve.
    """
    given = {"answer": answer, "contexts": contexts, "context_ids": context_ids}
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            with _reference_guard:
                fields[name] = getattr(as_reference({name: value}, "ragmeter.reference()"), name)
    stated = Reference(**fields)
    with apply_scope(RequestScope(reference=stated if fields else None)):
        yield stated


_reference_guard = Guard("reference", front_door)


_TEXT_KEYS: Mapping[str, str] = {
    "name": "name",
    "question": "question",
    "session_id": "conversation_id",
    "thread_id": "conversation_id",
    "conversation_id": "conversation_id",
    "user_id": "user_id",
}


def parse_scope(note: object) -> RequestScope | None:
    """Read the nested ``"ragmeter"`` dictionary that travels in framework metadata or tags.

    Keys: ``reference`` (a `Reference`, its fields, or the answer), ``name``, ``question``, ``session_id`` (or
    ``thread_id``, ``conversation_id``), ``user_id``, ``tags``; everything else becomes metadata.

    Raises:
        ConfigurationError: The note is not a mapping or its reference is malformed. Adapters call this under
            a guard, so that only the dictionary is lost, not the request.
    """
    if note is None:
        return None
    if isinstance(note, RequestScope):
        return note
    if not isinstance(note, Mapping):
        raise ConfigurationError(
            f"the 'ragmeter' metadata is a {type(note).__name__}; pass a dictionary such as "
            "{'reference': {'answer': '...'}}"
        )
    given: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in note.items():
        if key == "reference":
            given["reference"] = as_reference(value, "reference")
        elif key in _TEXT_KEYS:
            if value is not None:
                given[_TEXT_KEYS[key]] = str(value)
        elif key == "tags":
            given["tags"] = (value,) if isinstance(value, str) else tuple(map(str, value))
        else:
            extra[str(key)] = value
    return RequestScope(**given, metadata=extra)
