"""Sends scores until they are taken: an endpoint that is down for a while loses none.

An SDK's exporter tries for seconds and gives up, and its processor then forgets what it had.  `Outbox`
wraps both: what an endpoint cannot take now is tried again for as long as it takes, what it never will take is
dropped and counted, and how much waits is known, so that the server can stop taking more in.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ragmeter.exporters._session import refuse_redirects

if TYPE_CHECKING:
    import requests

__all__ = ["Outbox", "names_of", "watch_grpc", "watched_session"]

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0
_LAST_PAUSE_S = 0.5
"""The longest pause between attempts when the server ends."""
_QUIET_S = 60.0
"""Seconds between two complaints."""
_TRY_AGAIN: frozenset[int | str] = frozenset(
    {401, 403, 408, 429, 502, 503, 504}
    | {"UNAUTHENTICATED", "PERMISSION_DENIED", "CANCELLED", "DEADLINE_EXCEEDED"}
    | {"RESOURCE_EXHAUSTED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
"""What the protocol calls retryable, and a key that is not accepted: it may be put right."""

_MOST_NAMES = 200
"""Traces that one line of the log names."""

_log = logging.getLogger("ragmeter")


def names_of(traces: Iterable[int]) -> str:
    """Return the ids of traces that are lost, for a line of the log that names them."""
    ids = sorted({f"{trace:032x}" for trace in traces})
    more = len(ids) - _MOST_NAMES
    return ", ".join(ids[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


class _LastAttempt(threading.local):
    """What came of the last attempt on this thread."""

    made = False
    code: int | str | None = None


_last = _LastAttempt()


class _GrpcStatus(logging.Handler):
    """Notes the status that the SDK's gRPC exporter logs, its only sign of why it failed."""

    def emit(self, record: logging.LogRecord) -> None:
        for argument in record.args if isinstance(record.args, tuple) else ():
            if type(argument).__name__ == "StatusCode":
                _last.made, _last.code = True, str(getattr(argument, "name", ""))


_grpc_status = _GrpcStatus()


def watched_session() -> requests.Session:
    """Return a session for an SDK's HTTP exporter whose failures an `Outbox` then understands."""
    # Some 6 MB, which only a server that sends scores over HTTP has a use for.
    import requests  # noqa: PLC0415

    class WatchedSession(requests.Session):
        """Notes the status of every answer."""

        def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
            _last.made, _last.code = True, None
            response = super().send(request, **options)
            _last.code = response.status_code
            return response

    return refuse_redirects(WatchedSession())


def watch_grpc() -> None:
    """Have an `Outbox` understand the failures of the SDK's gRPC exporters."""
    logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter").addHandler(_grpc_status)


class Outbox:
    """What waits to be sent of one signal, and the exporter that sends it, with patience.

    It is an exporter itself, for the SDK's batch processor, and counts what that processor is given.

    Args:
        signal: ``traces`` or ``logs``.
        exporter: The SDK's exporter.
    """

    def __init__(self, signal: str, exporter: Any) -> None:
        self._signal = signal
        self._exporter = exporter
        self._lock = threading.Lock()
        self._written = 0
        self._sent = 0
        self._lost = 0
        self._deadline: float | None = None
        self._ending = threading.Event()
        self._told = -_QUIET_S

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
        """Count one item that the processor was given."""
        with self._lock:
            self._written += 1

    def export(self, batch: Sequence[Any]) -> Any:
        """Send a batch, as often as it takes."""
        pause_s = _FIRST_PAUSE_S
        while True:
            _last.made, _last.code = False, None
            result = self._exporter.export(batch)
            if result.name == "SUCCESS":
                with self._lock:
                    self._sent += len(batch)
                return result
            if not self._may_succeed():
                with self._lock:
                    self._lost += len(batch)
                self._tell(batch)
                return result
            self._pause(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def end(self, deadline: float) -> None:
        """Try no more after `deadline` (monotonic)."""
        self._deadline = deadline
        self._ending.set()

    def shutdown(self) -> None:
        """Release the exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held here."""
        return bool(self._exporter.force_flush(timeout_millis))

    def _may_succeed(self) -> bool:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return False
        if not _last.made:
            return False  # it could not even be written down
        return _last.code is None or _last.code in _TRY_AGAIN

    def _pause(self, seconds: float) -> None:
        if not self._ending.is_set():
            self._ending.wait(seconds)
        elif self._deadline is not None:
            time.sleep(max(0.0, min(seconds, _LAST_PAUSE_S, self._deadline - time.monotonic())))

    def _tell(self, batch: Sequence[Any]) -> None:
        _log.warning(
            "ragmeter serve: not sent (%s), and not tried again: the scores of %s",
            self._signal,
            names_of(map(_trace_of, batch)),
        )
        now = time.monotonic()
        if now - self._told >= _QUIET_S:
            self._told = now
            _log.error(
                "ragmeter serve: %d scored items (%s) were not sent: %s; counted in "
                "ragmeter.serve.unsent. Does the endpoint take %s? --signal says what it is sent.",
                len(batch),
                self._signal,
                "the server ends" if self._ending.is_set() else f"the endpoint said {_last.code}",
                self._signal,
            )


def _trace_of(item: Any) -> int:
    """Return the trace of a span, or of a record as the SDK hands it to an exporter."""
    record = getattr(item, "log_record", item)
    context = getattr(record, "context", record)
    return int(getattr(context, "trace_id", None) or getattr(record, "trace_id", None) or 0)
