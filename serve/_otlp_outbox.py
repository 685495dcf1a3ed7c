"""Sends scores until they are accepted: an endpoint that is down for a time loses none.

An SDK's exporter retries for seconds and gives up, and its processor then drops the data. `Outbox` replaces
it: temporary failures are retried for as long as they last, data refused for good is dropped and counted, and
the amount of waiting data is known, so that the server can stop accepting more.
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
"""Longest pause between attempts while the server ends."""
_QUIET_S = 60.0
"""Fewest seconds between two error lines in the log."""
_MOST_NAMES = 200
"""Most traces to name in one line of the log."""
_ENCODERS: dict[Signal, Callable[[Any], Any]] = {"traces": encode_spans, "logs": encode_logs}

_log = logging.getLogger("ragmeter")


def names_of(traces: Iterable[int]) -> str:
    """Return the ids of lost traces, for a line of the log."""
    ids = sorted({f"{trace:032x}" for trace in traces})
    more = len(ids) - _MOST_NAMES
    return ", ".join(ids[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


class Outbox:
    """The waiting data of one signal, with a persistent exporter that sends it.

    It is an exporter for the SDK's batch processor, and counts the items that the processor gets.
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
        """Number of items that wait to be sent."""
        with self._lock:
            return self._written - self._sent - self._lost

    @property
    def lost(self) -> int:
        """Number of items that no endpoint accepted."""
        with self._lock:
            return self._lost

    def written(self) -> None:
        """Count one item passed to the processor."""
        with self._lock:
            self._written += 1

    def export(self, batch: Sequence[Any]) -> Any:
        """Send a batch, with as many attempts as necessary."""
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
        """Make no more attempts after `deadline` (monotonic)."""
        self._deadline = deadline
        self._ending.set()

    def shutdown(self) -> None:
        """Release the connections."""
        self._sender.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: nothing is buffered here."""
        del timeout_millis
        return True

    def _rest(self, seconds: float, _: Answer) -> bool:
        """Wait, briefly while the server ends; return whether there is time for another attempt."""
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
    """Return the trace id of a span, or of a log record in the form that the SDK passes to exporters."""
    record = getattr(item, "log_record", item)
    context = getattr(record, "context", record)
    return int(getattr(context, "trace_id", None) or getattr(record, "trace_id", None) or 0)
