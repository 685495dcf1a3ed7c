"""`RagMeterHandler`: captures the requests of a LlamaIndex application as they run.

Attached to LlamaIndex's root dispatcher it sees every query engine, retriever, chat engine, agent and
workflow of the process, those built before it included, and offers one run per user request that retrieved to
a `RagMeter`. It is a span handler: LlamaIndex's events lack the nodes that reach the model, and its legacy
callbacks miss existing engines. Of events it receives only a model's responses while a stream of plain
strings is read, because strings do not show refusals, and the ends of streams that the application asked a
model for by itself. It must never change the application's objects, exceptions, streams, or current span.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from inspect import BoundArguments
from typing import TYPE_CHECKING, Any

from llama_index.core import instrumentation
from llama_index.core.instrumentation import dispatcher as dispatching
from llama_index.core.instrumentation.span import active_span_id

from ragmeter.adapters import check_meter
from ragmeter.adapters._unseen import retrieval_rules
from ragmeter.adapters.reading.fields import Reader
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process import fork

from ._answers import LlamaIndexRequest, Readers
from ._events import SpanFollower
from ._payloads import TextMode
from ._streams import heard_by

if TYPE_CHECKING:
    from ragmeter import RagMeter
    from ragmeter._runtime.guard import Guard
    from ragmeter.adapters.opentelemetry import RetrievalTool


class RagMeterHandler:
    """Captures LlamaIndex requests for a meter. Thread-safe; one instance serves the process.

    Start it with ``RagMeterHandler(meter).attach()``, as a context manager, or with
    ``get_dispatcher().add_span_handler(...)``. Streams that are open when it is detached are still captured
    to their end; calls still running then are dropped and counted (``detached``). Several handlers of one
    meter report a request once.

    Args:
        meter: The meter that receives the requests.
        engine: Capture only requests in which this object (or one of these) takes part: a query
            engine, chat engine, retriever or workflow. Held weakly. Default: all requests.
        text_mode: ``"llm"``: a context's text is what the model sees, its metadata above it as the
            node's templates say; ``"none"``: the bare text.
        filter: Called with each request that begins; False: it is not captured.
        question: The place of the question, if not the usual one: the name of an argument or of a field of
            the start event, or a function of the `LlamaIndexRequest` that begins. If it finds none, the
            built-in rule applies.
        contexts: The place of the contexts that reached the model: a key of the request's return value (for a
            workflow: its result), or a function of it that returns nodes or texts. Called on the request's
            own path.
        answer: The place of the answer: a key of the request's return value, or a function of it.
        name: Name of the requests; low cardinality. Default: the callee's class.
        retrieval_tools: Names of tools whose results are retrieved documents, e.g. ``"search_*"``, or
            `RetrievalTool` with rules for reading them.
        retrieval_functions: The same for a workflow's steps and for instrumented functions.

    Raises:
        ConfigurationError: `text_mode` is neither ``"llm"`` nor ``"none"``; `question`, `contexts` or
            `answer` is neither a name nor a function.
    """

    def __init__(
        self,
        meter: RagMeter,
        *,
        engine: object | Iterable[object] | None = None,
        text_mode: TextMode = "llm",
        filter: Callable[[LlamaIndexRequest], bool] | None = None,  # noqa: A002 -- the users' word
        question: str | Callable[[LlamaIndexRequest], Any] | None = None,
        contexts: Reader | None = None,
        answer: Reader | None = None,
        name: str | None = None,
        retrieval_tools: Iterable[str | RetrievalTool] = (),
        retrieval_functions: Iterable[str | RetrievalTool] = (),
    ) -> None:
        if text_mode not in ("llm", "none"):
            raise ConfigurationError(f"text_mode is {text_mode!r}; use 'llm' or 'none'")
        check_meter(meter)
        self._meter = meter
        self._enter_guard = meter.port.guard("llama_index.span_enter")
        self._exit_guard = meter.port.guard("llama_index.span_exit")
        self._drop_guard = meter.port.guard("llama_index.span_drop")
        self._spans = SpanFollower(
            meter,
            text_mode=text_mode,
            is_engine=None if engine is None else _Engines(engine),
            active_tags=dispatching.active_instrument_tags.get,  # type: ignore[attr-defined]
            active_span=active_span_id.get,
            readers=Readers(filter, question, contexts, answer, meter.port.guard("llama_index.hook")),
            name=name,
            rules=retrieval_rules(retrieval_tools, retrieval_functions),
        )
        self._listener = _Listener(self._spans, meter.port.guard("llama_index.event"))
        self.open_spans: dict[str, Any] = {}
        """Always empty: read by ``Dispatcher.shutdown()``."""

    def attach(self) -> RagMeterHandler:
        """Attach to LlamaIndex's root dispatcher, for the whole process. Does nothing if attached."""
        root = _root_dispatcher()
        with _attaching:
            if not self.is_attached:
                root.span_handlers = [*root.span_handlers, self]
                root.event_handlers = [*root.event_handlers, self._listener]
                self._meter.port.expect_requests("llama_index")
        return self

    def detach(self) -> None:
        """Detach from LlamaIndex's root dispatcher. Does nothing if not attached."""
        root = _root_dispatcher()
        with _attaching:
            # A new list: a thread that iterates over the old one must not skip its next handler.
            root.span_handlers = [item for item in root.span_handlers if item is not self]
            root.event_handlers = [item for item in root.event_handlers if item is not self._listener]
        self.close()

    def __enter__(self) -> RagMeterHandler:
        return self.attach()

    def __exit__(self, *_: object) -> None:
        self.detach()

    @property
    def is_attached(self) -> bool:
        """Whether it is attached to the root dispatcher."""
        return any(item is self for item in _root_dispatcher().span_handlers)

    @property
    def open_entries(self) -> int:
        """Number of spans and requests that are being followed; 0 when none is open."""
        return len(self._spans)

    def span_enter(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Handle the begin of a span; called by the dispatcher."""
        try:  # twelve spans a request: a `with` would cost two calls for each
            self._spans.enter(id_, bound_args.arguments, instance, parent_id, tags)
        except Exception as error:
            if not self._enter_guard.contains(error):
                raise

    def span_exit(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,  # noqa: ARG002 -- the dispatcher's signature
        result: Any | None = None,
        **_: Any,
    ) -> None:
        """Handle the end of a span without an error; called by the dispatcher."""
        try:
            self._spans.exit(id_, bound_args.arguments, result)
        except Exception as error:
            if not self._exit_guard.contains(error):
                raise

    def span_drop(
        self,
        id_: str,
        bound_args: BoundArguments,  # noqa: ARG002 -- the dispatcher's signature
        instance: Any | None = None,  # noqa: ARG002
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        """Handle the end of a span with an exception; called by the dispatcher."""
        with self._drop_guard:
            self._spans.drop(id_, err)

    def close(self) -> None:
        """Drop the calls that are still running; also called by ``Dispatcher.shutdown()``."""
        given_up = self._spans.forget()
        if given_up:
            self._meter.port.count_lost("detached", given_up)

    def capture_propagation_context(self) -> dict[str, Any]:
        """Return nothing: a serialised workflow carries no data of ragmeter."""
        return {}

    def restore_propagation_context(self, context: dict[str, Any]) -> None:
        """Do nothing: a serialised workflow carries no data of ragmeter."""

    @classmethod
    def class_name(cls) -> str:
        """Return the handler's name, for LlamaIndex's and other tools' tables."""
        return "RagMeterHandler"


_SAYING = frozenset({
    "LLMChatInProgressEvent", "LLMChatEndEvent", "LLMCompletionInProgressEvent", "LLMCompletionEndEvent",
})  # fmt: skip
_BEGINNING = frozenset({"LLMChatStartEvent", "LLMCompletionStartEvent"})
_ENDING = frozenset({"LLMChatEndEvent", "LLMCompletionEndEvent", "ExceptionEvent"})


class _Listener:
    """Receives models' responses for the streams that are being read, and the ends of models' own streams."""

    def __init__(self, spans: SpanFollower, guard: Guard) -> None:
        self._spans = spans
        self._guard = guard

    def handle(self, event: object, **_: Any) -> None:
        """Handle an event; called by the dispatcher, on the reader's thread."""
        text, name = heard_by.get(), type(event).__name__
        try:  # each streamed piece is an event
            if text is not None and name in _SAYING:
                text.hear(getattr(event, "response", None))
            if name in _BEGINNING:
                self._spans.announce(getattr(event, "span_id", None))
            elif name in _ENDING:
                self._spans.end_announced(event)
        except Exception as error:
            if not self._guard.contains(error):
                raise

    async def ahandle(self, event: object, **_: Any) -> None:
        """Do the same: another task, in a copy of the reader's context."""
        self.handle(event)

    @classmethod
    def class_name(cls) -> str:
        """Return the listener's name, for LlamaIndex's and other tools' tables."""
        return "RagMeterListener"


def _root_dispatcher() -> Any:
    """Return LlamaIndex's root dispatcher; its handler lists take any object of the right shape."""
    return instrumentation.root_dispatcher  # type: ignore[attr-defined]


class _Engines:
    """The instances a handler is limited to, held weakly where they allow it."""

    def __init__(self, engine: object | Iterable[object]) -> None:
        engines = engine if isinstance(engine, (list, tuple, set, frozenset)) else (engine,)
        self._by_id: dict[int, Callable[[], object]] = {id(item): _hold(item) for item in engines}

    def __call__(self, instance: Any) -> bool:
        held = self._by_id.get(id(instance))
        return held is not None and held() is instance


def _hold(item: object) -> Callable[[], object]:
    try:
        return weakref.ref(item)
    except TypeError:
        return lambda: item


_attaching = fork.lock()


HANDLER = RagMeterHandler
"""Arguments of `attach_globally`."""

_attached: list[RagMeterHandler] = []


def attach_globally(handler: RagMeterHandler) -> None:
    """Capture every request of the process with `handler`, for its meter."""
    detach_globally()
    _attached.append(handler.attach())


def detach_globally() -> None:
    """Stop capturing. Streams that are open are still captured to their end."""
    while _attached:
        _attached.pop().detach()
