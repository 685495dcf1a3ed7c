"""`RagMeterSpanProcessor`: scores the requests in the spans of this process.

An SDK calls it when a span ends, and it only stores the span. A separate thread assembles traces, finds
requests in them and offers them to the meter.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from opentelemetry import _logs, baggage, trace

from ragmeter._runtime.threads import Bell, start_elsewhere, taking
from ragmeter.adapters import check_meter
from ragmeter.adapters._callers import is_preparation
from ragmeter.adapters._other_spans import ambient_context, captured
from ragmeter.adapters.reading.results import RetrievalTool, as_tools
from ragmeter.exporters._foreign import attribute_of
from ragmeter.metrics._process import fork
from ragmeter.requests.scope import RequestScope, current_scope, is_suppressed, leave_host

from ._sdk import join, join_logs, note_of, processors_of, record_of
from .assembly import AssembledTrace, AssemblyStats, TraceAssembler
from .build import reference_in
from .conventions import ANY_SPAN, holds_content
from .heard import Account
from .record import LogNote, SpanRecord
from .reporter import Missing, Reporter
from .requests import OWN_SCOPE

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import TracerProvider
    from typing_extensions import Self

    from ragmeter import RagMeter
else:
    SpanProcessor = object  # for type checkers; at run time the SDK is the application's

logger = logging.getLogger("ragmeter")
_PACE_S = 0.25
"""Seconds between two readings of the stored spans."""
_EXIT_S = 10.0
"""Maximum seconds that a provider's shutdown waits for scores."""
_MAX_WAITING = 50_000
"""Maximum spans waiting to be read; beyond that the oldest is dropped and counted."""


_AT_A_TIME = 256
"""Spans that are passed to the assembler at once."""


processors: WeakSet[RagMeterSpanProcessor] = WeakSet()
"""All processors of this process, for ``ragmeter doctor``."""


_ASKS = ("query", "retrieve", "synthesize", ".workflow", ".task")
"""Ends of the names of spans of LlamaIndex in which an engine is asked something, asynchronously too."""


class _Waiting(NamedTuple):
    span: Any
    scope: RequestScope | None
    around: Any
    """OpenTelemetry's context in which it ended; None if empty."""


class _LogProcessor:
    """Has models' input and replies kept where an instrumentation writes them into log records."""

    def __init__(self, keep: Callable[[Any], object]) -> None:
        self.on_emit = keep

    def enabled(self, *, event_name: str | None = None, **_about: object) -> bool:
        return event_name is not None and holds_content(event_name)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        del timeout_millis
        return True

    def shutdown(self) -> None:
        """Do nothing: spans may still end."""


class RagMeterSpanProcessor(SpanProcessor):
    """Offers a meter every RAG request that is traced in this process, by any instrumentation.

    ``RagMeterSpanProcessor(meter).attach(provider)``. Spans are not changed, and released once they have been
    read. A request that ragmeter's callback handler captured is not counted again, nor are evaluations and
    ragmeter's own spans.

    References come from the meter (by question), from ``with ragmeter.reference(...)``, from baggage or
    attributes named ``ragmeter.reference.answer``, ``.contexts`` and ``.context_ids`` (lists as JSON).

    Args:
        meter: The meter that receives the requests.
        retrieval_tools: Names of tools whose results are retrieved documents, e.g. ``"search_*"``, or
            `RetrievalTool` with rules for reading them.
        retrieval_spans: The same for spans that are not marked as retrievals, e.g. ``"retrieve*"``.
        grace_s: Seconds without new data after which a trace without known gaps is complete.
        idle_s: Seconds without new data after which any trace is.

    Raises:
        ConfigurationError: `meter` accepts no requests, or a tool has no name.
    """

    def __init__(
        self,
        meter: RagMeter,
        *,
        retrieval_tools: Iterable[str | RetrievalTool] = (),
        retrieval_spans: Iterable[str | RetrievalTool] = (),
        grace_s: float = 1.0,
        idle_s: float = 30.0,
    ) -> None:
        check_meter(meter)
        self._meter = meter
        self._end_guard = meter.port.guard("opentelemetry.span_end")
        self._read_guard = meter.port.guard("opentelemetry.read")
        spans = as_tools(retrieval_spans, "retrieval_spans", is_span=True)
        self._reporter = Reporter(meter, (*as_tools(retrieval_tools), *spans))
        self._assembler = TraceAssembler(self._report, grace_s=grace_s, idle_s=idle_s)
        self._waiting: deque[_Waiting] = deque()
        self._notes: deque[LogNote] = deque()
        self._log_processor = _LogProcessor(self._keep)
        self._scopes: dict[str, dict[str, RequestScope]] = {}
        self._prepared: dict[int, None] = {}
        self._reading = fork.reentrant_lock()
        self._bell = Bell()
        self._running = False
        self._stopped = False
        self._looks_for_logs = False
        captured.watch()
        processors.add(self)
        fork.forget(self._begin_child)
        meter.port.expect_requests("opentelemetry", self._drain)

    def attach(
        self, provider: TracerProvider | None = None, *, logs: _logs.LoggerProvider | None = None
    ) -> Self:
        """Add it to a provider as the first processor, beside the others.

        First, so that at shutdown scores still leave through the processor that exports. It takes the place of
        the same meter's former one there, so that a notebook's cell may run again.

        Args:
            provider: An SDK's, perhaps wrapped or of a subclass; None: the global one. Scores are written to it
                if the process has no other.
            logs: Provider of the loggers to which instrumentations write models' input and replies, if not on
                spans; None: the global one, if there is one.

        Raises:
            ConfigurationError: There is no provider yet, or it accepts no processors.
        """
        provider = trace.get_tracer_provider() if provider is None else provider
        found = [e for e in processors_of(provider) if isinstance(e, RagMeterSpanProcessor)]
        former = [each for each in found if each._meter is self._meter]  # noqa: SLF001
        if any(each not in former and not each._stopped for each in found):  # noqa: SLF001
            logger.warning(
                "ragmeter: another meter's processor is attached to this provider: both score each request. "
                "In a script that runs again at every click (Streamlit) or cell (notebook), make the processor "
                "once, as with @streamlit.cache_resource, or call shutdown() of the former one"
            )
        join(self, provider, former)
        self._meter.port.pipeline.follow_spans(provider)
        logs = _logs.get_logger_provider() if logs is None else logs
        before = [each._log_processor for each in former]  # noqa: SLF001
        self._looks_for_logs = not join_logs(self._log_processor, logs, before)
        return self

    @property
    def missing(self) -> Mapping[Missing, int]:
        """Requests that could not be scored in full, by convention, instrumentation and reason."""
        return self._reporter.missing

    def accounts(self) -> Sequence[Account]:
        """Return the received spans by service and instrumentation: scored, why not the rest, what to add."""
        return self._reporter.accounts()

    def assembly(self) -> AssemblyStats:
        """Return the number of received spans, by outcome."""
        return self._assembler.stats()

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Note what LlamaIndex's own code asks, and look once for a provider of loggers set after `attach`.

        Called when a span starts: who asks is on the stack only then.
        """
        if span.name.endswith(_ASKS) and "llama" in span.instrumentation_scope.name:
            with self._end_guard:
                scope = attribute_of(trace.get_current_span(parent_context), "instrumentation_scope")
                is_whole = scope is None or scope.name != span.instrumentation_scope.name
                if (is_whole or span.name.endswith("query")) and is_preparation():
                    self._prepared[span.context.span_id] = None
                    if len(self._prepared) > _MAX_WAITING:
                        self._prepared.pop(next(iter(self._prepared)))
        if self._looks_for_logs:
            self._looks_for_logs = False
            with self._end_guard:
                join_logs(self._log_processor, _logs.get_logger_provider())

    def _on_ending(self, span: Any) -> None:
        """Do nothing; called by the SDK just before a span ends."""

    def on_end(self, span: Any) -> None:
        """Store the span, without waiting; called by the SDK when a span has ended."""
        with self._end_guard:
            scope = span.instrumentation_scope
            if self._stopped or (scope is not None and scope.name == OWN_SCOPE) or is_suppressed():
                return
            if len(self._waiting) >= _MAX_WAITING:
                self._waiting.popleft()
                self._meter.port.count_lost("evicted")
            self._waiting.append(_Waiting(span, current_scope(), ambient_context() or None))
            if not self._running:
                self._running = True
                start_elsewhere(self._start)

    def _keep(self, emitted: Any) -> None:
        with self._end_guard:
            note = None if self._stopped or is_suppressed() else note_of(emitted)
            if note is not None:
                if len(self._notes) >= _MAX_WAITING:
                    self._notes.popleft()
                    self._meter.port.count_lost("evicted")
                self._notes.append(note)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Offer the received requests to the meter; ``meter.flush()`` then awaits the scores.

        Not those that still run, as far as their spans say: Strands flushes at the end of every span.
        """
        # Scores are not awaited: a meter that flushes has its providers flush, too.
        return self._drain(time.monotonic() + timeout_millis / 1000, running=False)

    def _drain(self, deadline: float, *, running: bool = True) -> bool:
        """Offer the received requests; return False if another thread did so until `deadline` (monotonic)."""
        with self._read_guard:
            held = deque[bool]()
            try:
                held.extend(taking(self._reading, deadline - time.monotonic()))
                if held:
                    self._read()
                    self._assembler.drain(running=running)
            finally:
                if held:
                    self._reading.release()
            return bool(held)
        return False

    def shutdown(self) -> None:
        """Offer the received requests, and flush the meter. Spans that end later are ignored."""
        self._stopped = True
        self._bell.ring()
        self._drain(time.monotonic() + _EXIT_S)
        with self._read_guard:
            self._meter.flush(_EXIT_S)

    def _start(self) -> None:
        threading.Thread(target=self._run, name="ragmeter-spans", daemon=True).start()

    def _run(self) -> None:
        leave_host()
        while not self._stopped:
            self._bell.wait(_PACE_S)
            # Held until the spans are offered: a drain meanwhile must not see an empty queue.
            with self._read_guard, self._reading:
                self._read()
                self._assembler.tick()
            if not self._waiting and not self._assembler.stats().bytes:
                self._running = False
                if not self._waiting:  # spans stored in between have found it running
                    return
                self._running = True

    def _read(self) -> None:
        while self._waiting:
            records: list[SpanRecord] = []
            try:
                while self._waiting and len(records) < _AT_A_TIME:
                    noted = self._waiting.popleft()
                    record = record_of(noted.span)
                    records.append(record)
                    if self._prepared and noted.span.context.span_id in self._prepared:
                        del self._prepared[noted.span.context.span_id]
                        record.reading = ANY_SPAN, "evaluation"
                    scope = _scope_of(noted)
                    if scope is not None:
                        self._scopes.setdefault(record.trace_id, {})[record.span_id] = scope
            finally:
                notes = [self._notes.popleft() for _ in range(len(self._notes))]
                self._assembler.add(records, notes)
        while len(self._scopes) > _MAX_WAITING:
            self._scopes.pop(next(iter(self._scopes)))

    def _report(self, trace: AssembledTrace) -> None:
        with self._read_guard:
            self._reporter.report(trace, self._scopes.pop(trace.trace_id, None))

    def _begin_child(self) -> None:
        self._waiting.clear()
        self._notes.clear()
        self._scopes.clear()
        self._prepared.clear()
        self._running = False


def _scope_of(noted: _Waiting) -> RequestScope | None:
    """Return the scope set by the code around a span: in this process, or by baggage from another."""
    said = None if noted.around is None else baggage.get_all(noted.around)
    reference = reference_in([said]) if said else None
    if reference is None:
        return noted.scope
    by_baggage = RequestScope(reference=reference)
    return by_baggage if noted.scope is None else noted.scope.merged_over(by_baggage)
