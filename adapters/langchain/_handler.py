"""LangChain and LangGraph: a callback handler that offers each request that retrieved to a meter.

``chain.invoke(question, config={"callbacks": [RagMeterCallbackHandler(meter)]})`` is sufficient. LangChain
calls the handler in the request's own thread or task; it records ids, times and references, and offers the
request to the meter when its root run ends. `_build` interprets the records on the meter's worker,
`_payloads` has the shapes of payloads. The handler never attaches an OpenTelemetry context, never changes
payloads, and contains its own errors.

`instrument` attaches one handler to every run of the process, through LangChain's own hook. A hook cannot be
unregistered, so it is registered once and reads a switch: a context variable whose default is a handler that
does nothing while it has no meter. Nothing is patched.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from ragmeter import RagMeter
from ragmeter._runtime.guard import is_hosts
from ragmeter.adapters import check_meter
from ragmeter.adapters._unseen import retrieval_rules
from ragmeter.adapters.reading.fields import Reader, check_readers
from ragmeter.metrics import ConfigurationError

from ._calls import messages_sent, prompts_sent
from ._events import (
    chain_ended,
    llm_ended,
    on_end,
    on_start,
    retriever_ended,
    retriever_failed,
    run_failed,
    tool_ended,
)
from ._state import Attachment, Options, attachment_of, default_attachment, restore_handler

if TYPE_CHECKING:
    from ragmeter.adapters.opentelemetry import RetrievalTool


class RagMeterCallbackHandler(BaseCallbackHandler):
    """Offers every LangChain or LangGraph request that retrieves to a meter, as one sample.

    Attach it once, anywhere: in the call's ``config``, by ``with_config``, in a constructor. One handler
    serves all threads and event loops; all handlers of one meter share their records, so that attaching twice
    counts once (the first one attached decides how the request is read). It copies, deep-copies (to itself)
    and pickles: in its own process it is restored with its meter, in another one it uses the meter passed to
    `ragmeter.adapters.instrument` there, and does nothing until there is one.

    Args:
        meter: Receives the requests. None: the one passed to `ragmeter.adapters.instrument`, if any.
        question: The place of the question, if not the usual one: a key of the root run's input, or a
            function of that input. Called on the request's own path.
        contexts: The place of the contexts that reached the model: a key of the root run's output, or a
            function of that output that returns documents or texts. As above.
        answer: The place of the answer: a key of the root run's output, or a function of it.
        include: Only retrievers with one of these names or tags count.
        exclude: Retrievers with one of these names or tags do not count, nor do those within them;
            ``ragmeter:ignore`` is always among them.
        strict: Only the documents that retrievers return count, in their order: no tool artifacts, no
            documents from functions, no reranking by functions.
        name: Name of the requests; default: the root run's name.
        retrieval_tools: Names of tools whose results are retrieved documents, e.g. ``"search_*"``, or
            `RetrievalTool` with rules for reading them.
        retrieval_functions: The same for functions, chains and nodes of a graph, by the names of their runs.

    Raises:
        ConfigurationError: An argument has the wrong type.
    """

    def __init__(
        self,
        meter: RagMeter | None = None,
        *,
        question: Reader | None = None,
        contexts: Reader | None = None,
        answer: Reader | None = None,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        strict: bool = False,
        name: str | None = None,
        retrieval_tools: Iterable[str | RetrievalTool] = (),
        retrieval_functions: Iterable[str | RetrievalTool] = (),
    ) -> None:
        check_readers(question=question, contexts=contexts, answer=answer)
        self._options = Options(
            question=question,
            contexts=contexts,
            answer=answer,
            include=None if include is None else _names("include", include),
            exclude=_names("exclude", exclude or ()),
            strict=strict,
            name=name,
            rules=retrieval_rules(retrieval_tools, retrieval_functions),
        )
        if meter is not None:
            check_meter(meter)
        self._meter = meter  # held here: the shared state must not keep a meter alive
        self._own = None if meter is None else attachment_of(meter)

    @property
    def raise_error(self) -> bool:  # type: ignore[override]
        """Whether LangChain re-raises the exception that it has just caught from a callback of this handler.

        Only for an exception that a signal handler of the application raised meanwhile, such as a task
        queue's time limit: callbacks raise no other, and this one belongs to the application.
        """
        return is_hosts(sys.exc_info()[1])

    @property
    def run_inline(self) -> bool:  # type: ignore[override]
        """Whether LangChain calls the handler in the request's own task, without a thread hop.

        Always, with one exception: before an asynchronous text model starts, LangChain asks all handlers, and
        as soon as one returns true it leaves out the others. For this check the value is false (LangChain
        asks again, and calls inline, when it delivers the event), unless another handler has already returned
        true, which requires true here, too, lest the event be missed.
        """
        asking = sys._getframe(1)  # noqa: SLF001 -- only the caller decides this
        if asking.f_code.co_name == "<listcomp>" and asking.f_back is not None:
            asking = asking.f_back
        if asking.f_code.co_name != "on_llm_start":
            return True
        handlers = getattr(asking.f_locals.get("self"), "handlers", ())
        return any(
            handler.run_inline for handler in handlers if not isinstance(handler, RagMeterCallbackHandler)
        )

    @property
    def meter(self) -> RagMeter | None:
        """The current meter, or None."""
        attached = self._attachment
        return None if attached is None else attached.meter()

    @property
    def open_requests(self) -> int:
        """Number of open requests of this handler's meter."""
        attached = self._attachment
        return 0 if attached is None else len(attached.requests)

    def annotate(self, run_id: UUID | str, **note: Any) -> None:
        """Add a note about one request, identified by the ``run_id`` of its config.

        For references that must not be in metadata, which other tracers copy. Call it before the request
        ends. Keys as in ``metadata["ragmeter"]``: ``reference``, ``name``, ``question``, ``session_id``,
        ``user_id``, ``tags``; others become metadata. A malformed note or run id loses the note, never the
        request: it is counted, and logged with what to pass instead.
        """
        attached = self._attachment
        if attached is not None:
            with attached.on_annotate:
                attached.annotate(_as_run_id(run_id), note)

    @property
    def _attachment(self) -> Attachment | None:
        return self._own or default_attachment()

    def __copy__(self) -> RagMeterCallbackHandler:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RagMeterCallbackHandler:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        token = None if self._own is None else self._own.token
        return restore_handler, (type(self), token, self._options.portable())

    on_chain_start = on_start("chain", "inputs")
    """Record a chain, graph, node or function; the topmost one begins a request."""
    on_chain_end = on_end("on_chain_end", "outputs", chain_ended)
    """Record a chain's output documents; the end of the topmost one ends the request."""
    on_chain_error = on_end("on_error", "error", run_failed)
    """Record a failure, a cancellation or a graph's pause."""
    on_retriever_start = on_start("retriever", "query")
    """Record a retriever's start, and whether it is nested in another."""
    on_retriever_end = on_end("on_retriever_end", "documents", retriever_ended)
    """Copy the documents of an outermost retriever."""
    on_retriever_error = on_end("on_retriever_error", "error", retriever_failed)
    """Record a failed retrieval."""
    on_chat_model_start = on_start("llm", "messages", messages_sent)
    """Record a model call and, by reference, its input."""
    on_llm_start = on_start("llm", "prompts", prompts_sent)
    """Record a call to a model that completes text."""
    on_llm_end = on_end("on_llm_end", "response", llm_ended)
    """Record a model's reply."""
    on_llm_error = on_end("on_error", "error", run_failed)
    """Record a failed model call."""
    on_tool_end = on_end("on_tool_end", "output", tool_ended)
    """Record the documents in a tool's artifact."""
    on_tool_error = on_end("on_error", "error", run_failed)
    """Record a failed tool."""
    _on_tool_start = on_start("tool", "inputs")

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **event: Any) -> None:
        """Record a tool."""
        given = event.pop("inputs", None)
        if event.get("name") is None and isinstance(serialized, dict):
            event["name"] = serialized.get("name")
        given = input_str if given is None else given
        self._on_tool_start(serialized, given, run_id=run_id, **event)

    def on_interrupt(self, *args: Any, **kwargs: Any) -> None:
        """Ignore it: the pausing node's error has the same information on every version of LangGraph."""

    def on_resume(self, *args: Any, **kwargs: Any) -> None:
        """Ignore it, as `on_interrupt`."""


def _as_run_id(value: UUID | str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(str(value))
    except ValueError as error:
        raise ConfigurationError(
            f"run_id is a {type(value).__name__} that is no UUID; pass the one that the request's "
            "config has as run_id"
        ) from error


def _names(label: str, names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise ConfigurationError(f"{label}={names!r}: pass a list of names or tags, e.g. [{names!r}]")
    return frozenset(names)


HANDLER = RagMeterCallbackHandler
"""Arguments of `attach_globally`."""


class _GlobalHandler(RagMeterCallbackHandler):
    """The one handler behind the hook: can be pointed at a meter, and switched off."""

    def point_at(self, handler: RagMeterCallbackHandler | None) -> None:
        """Work as `handler` does; None: do nothing."""
        if handler is None:
            self._own = self._meter = None
        else:
            self.__dict__.update(vars(handler))

    @property
    def ignore_chain(self) -> bool:
        """Whether LangChain skips all its events: chains, retrievers, tools, calls, tokens."""
        return self._own is None

    # One property under five names, which a checker takes for separate methods.
    ignore_llm = ignore_chain  # pyright: ignore[reportIncompatibleMethodOverride]
    ignore_chat_model = ignore_chain  # pyright: ignore[reportIncompatibleMethodOverride]
    ignore_agent = ignore_chain  # pyright: ignore[reportIncompatibleMethodOverride]
    ignore_retriever = ignore_chain  # pyright: ignore[reportIncompatibleMethodOverride]


_handler = _GlobalHandler()
_hook: ContextVar[RagMeterCallbackHandler | None] = ContextVar("ragmeter_langchain", default=_handler)
_registered: list[bool] = []


def attach_globally(handler: RagMeterCallbackHandler) -> None:
    """Capture every request of the process as `handler` does, for its meter."""
    _handler.point_at(handler)
    if not _registered:
        from langchain_core.tracers.context import register_configure_hook  # noqa: PLC0415 -- slow

        # The default makes it visible in every thread, task and copied context.
        register_configure_hook(_hook, inheritable=True)
        _registered.append(True)


def detach_globally() -> None:
    """Stop capturing. Open requests are dropped by age."""
    _handler.point_at(None)
