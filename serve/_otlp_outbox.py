"""Sends scores until they are taken: an endpoint that is down for a while loses none.

An SDK's exporter tries for seconds and gives up, and its processor then forgets what it had.  `Outbox`
takes its place: what an endpoint cannot take now is tried again for as long as that lasts, what it never will
take is dropped and counted, and how much waits is known, so that the server can stop taking more in.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SpanExportResult

from ragmeter.adapters.opentelemetry.otlp import Signal

from ._endpoint import Endpoint
from ._sender import Answer, OtlpSender

_LONGEST_PAUSE_S = 15.0
_LAST_PAUSE_S = 0.5
"""The longest pause between attempts when the server ends."""
_QUIET_S = 60.0
"""Least seconds between two error lines in the log."""
_MOST_NAMES = 200
"""Traces that one line of the log names."""
_ENCODERS: dict[Signal, Callable[[Any], Any]] = {"traces": encode_spans, "logs": encode_logs}

_log = logging.getLogger("ragmeter")


def names_of(traces: Iterable[int]) -> str:
    """Return the ids of traces that are lost, for a line of the log that names them."""
    ids = sorted({f"{trace:032x}" for trace in traces})
    more = len(ids) - _MOST_NAMES
    return ", ".join(ids[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


class Outbox:
    """What waits to be sent of one signal, and the exporter that sends it, with patience.

    It is an exporter for the SDK's batch processor, and counts what that processor is given.

    Args:
        signal: What it sends.
        endpoint: Where to.
    """

    def __init__(self, signal: Signal, endpoint: Endpoint) -> None:
        self._signal: Signal = signal
        self._encode = _ENCODERS[signal]
        self._sender = OtlpSender(signal, endpoint)
        self._lock = threading.Lock()
        self._written = 0
        self._sent = 0
        self._lost = 0
        self._deadline: float | None = None
        self._ending = threading.Event()
        self._last_error_at = -_QUIET_S

    @property
    def waiting(self) -> int:
        """Items that wait to be sent."""
        with self._lock:
            return self._written - self._sent - self._lost

    @property
    def lost(self) -> int:
        """Items that no endpoint took."""
        with self._lock:
            return self._lost

    def written(self) -> None:
        """Count one item passed to the processor."""
        with self._lock:
            self._written += 1

    def export(self, batch: Sequence[Any]) -> Any:
        """Send a batch, as often as it takes."""
        answer = Answer("error")
        try:
            body = self._encode(batch).SerializeToString()
            answer = self._sender.send_patiently(body, self._rest, longest_s=_LONGEST_PAUSE_S)
        finally:
            lost = min(answer.rejected, len(batch)) if answer.problem is None else len(batch)
            with self._lock:
                self._sent += len(batch) - lost
                self._lost += lost
            if lost:
                self._report_loss(batch, lost, answer)
        return SpanExportResult.FAILURE if lost else SpanExportResult.SUCCESS

    def end(self, deadline: float) -> None:
        """Try no more after `deadline` (monotonic)."""
        self._deadline = deadline
        self._ending.set()

    def shutdown(self) -> None:
        """Release the connections."""
        self._sender.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held here."""
        del timeout_millis
        return True

    def _rest(self, seconds: float, _: Answer) -> bool:
        """Wait so long, or less when the server ends; return whether there is time for another attempt."""
        if not self._ending.wait(seconds) or self._deadline is None:
            return True
        left_s = self._deadline - time.monotonic()
        time.sleep(max(0.0, min(seconds, _LAST_PAUSE_S, left_s)))
        return left_s > 0

    def _report_loss(self, batch: Sequence[Any], lost: int, answer: Answer) -> None:
        _log.warning(
            "ragmeter serve: not sent (%s), and not tried again: %sthe scores of %s",
            self._signal,
            "" if lost == len(batch) else f"{lost} of ",
            names_of(map(_trace_of, batch)),
        )
        now = time.monotonic()
        if now - self._last_error_at >= _QUIET_S:
            self._last_error_at = now
            _log.error(
                "ragmeter serve: %d scored items (%s) were not sent: %s; counted in "
                "ragmeter.serve.unsent. Does the endpoint take %s? --signal says what it is sent.",
                lost,
                self._signal,
                f"the endpoint said {answer.problem or 'so of a part'}"
                if not answer.passing
                else "the server ends",
                self._signal,
            )


def _trace_of(item: Any) -> int:
    """Return the trace of a span, or of a record as the SDK hands it to an exporter."""
    record = getattr(item, "log_record", item)
    context = getattr(record, "context", record)
    return int(getattr(context, "trace_id", None) or getattr(record, "trace_id", None) or 0)
