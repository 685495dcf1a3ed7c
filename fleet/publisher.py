"""`FleetPublisher`: an exporter that publishes requests for workers instead of writing scores.

The meter provides its bounded queue, the thread that may wait, and the counts of losses. Another exporter
writes the application's spans at once; workers add the scores below them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from opentelemetry import trace

from ragmeter.exporters._foreign import attribute_of
from ragmeter.exporters._format import clean
from ragmeter.exporters._span_targets import KnowsSpans, delivers
from ragmeter.exporters.protocol import RagRun, RunsLostError, ScoredRun
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process import fork
from ragmeter.quality.segments import own_resource

from ._spool_folder import DEFAULT_BYTES, SpoolReader, SpoolSender
from .payload import MAX_RUNS, MessageContent, MessageTooLargeError, SentRun, pack
from .transport import Sender, TransportDownError, open_sender

_SPANS_PATIENCE_S = 1.0
"""Seconds to wait for a request's spans, while earlier waits were successful."""
_LITTLE_PATIENCE_S = 0.02
_REST_S = 5.0
"""Seconds without attempts after a failure of the broker, if there is a spool."""
_FIRST_PAUSE_S = 0.25
_RESOURCE_KEYS = ("service.name", "service.namespace", "service.version", "deployment.environment.name")
"""Attributes of the application's resource to send."""


class FleetPublisher:
    """Publishes captured requests, to be scored by ``ragmeter worker``.

    ``RagMeter(scoring="queue")`` makes one from the settings; in code it is an exporter of a meter without
    metrics: ``RagMeter(metrics=[], exporters=[spans, FleetPublisher("spool:///dir", spans=spans)])``.
        Requests it loses count as dropped, even if other exporters accepted them.

    Args:
        queue: Where requests are published: ``spool:///dir`` or the URL of a broker; or a `Sender`.
        spans: The exporter of the requests' own spans, so that scores can refer to them.
        resource: ``service.name`` and the like; None: from the OpenTelemetry SDK.
        batch: Most requests in a message, up to 32.
        linger_s: Seconds to wait after a partial message, so that the next one fills up.
        patience_s: Seconds of retries before the requests of a message are given up.
        confirm_s: Seconds for a broker to confirm a message.
        spool: A folder that buffers messages while the broker is unreachable, shared by the processes of this
            machine.
        spool_bytes: Most bytes of this process there, or in the folder of `queue`.
        judge_sample_rate: Probability that a request is judged.

    Raises:
        ConfigurationError: An argument is invalid; the message names the allowed values.
        MissingDependencyError: The package for this kind of queue is not installed.
    """

    carries_requests = True
    """Requests that this exporter loses are not scored: see `ragmeter.exporters.protocol.CarriesRequests`."""

    def __init__(
        self,
        queue: str | Sender,
        *,
        spans: KnowsSpans | None = None,
        resource: Mapping[str, str] | None = None,
        batch: int = MAX_RUNS,
        linger_s: float = 0.05,
        patience_s: float = 300.0,
        confirm_s: float = 2.0,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = DEFAULT_BYTES,
        judge_sample_rate: float = 1.0,
    ) -> None:
        if not 1 <= batch <= MAX_RUNS:
            raise ConfigurationError(f"batch is {batch!r}; a message holds 1 to {MAX_RUNS} requests")
        if isinstance(queue, str):
            self._sender = open_sender(queue, confirm_s=confirm_s, spool_bytes=spool_bytes)
        else:
            self._sender = queue
        self._spans = spans
        self._spans_patience_s = _SPANS_PATIENCE_S
        self._resource = resource
        self._batch = batch
        self._linger_s = linger_s
        self._patience_s = patience_s
        self._judge_sample_rate = judge_sample_rate
        self._folder = None if spool is None else Path(spool)
        self._spool = None if self._folder is None else SpoolSender(self._folder, max_bytes=spool_bytes)
        self._begin()
        fork.forget(self._begin)

    def _begin(self) -> None:
        # Also in a forked child, where sender and spool reset themselves.
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._down_until = 0.0
        self._reader: SpoolReader | None = None
        self._draining: threading.Thread | None = None

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Publish requests. Waits for an unreachable queue, for `patience_s` at most.

        Raises:
            RunsLostError: It was unreachable for too long, or requests are too large for a message.
        """
        # Feedback is a score that changes no other: the application's own exporter writes it.
        runs = [self._message_run(one) for one in batch if not (one.late and one.scores)]
        lost = 0
        for first in range(0, len(runs), self._batch):
            lost += self._publish(runs[first : first + self._batch])
        if lost:
            raise RunsLostError("requests could not be published", lost)
        if len(batch) < self._batch:
            self._stop.wait(self._linger_s)

    def flush(self, timeout_s: float) -> bool:
        """Send spooled messages to the broker; return whether the spool is empty."""
        deadline = time.monotonic() + timeout_s
        while self._spool is not None:
            with suppress(TransportDownError):
                if self._drain():
                    break
            if time.monotonic() + _FIRST_PAUSE_S > deadline or self._stop.wait(_FIRST_PAUSE_S):
                return False
        return True

    def shutdown(self, timeout_s: float) -> None:
        """End within `timeout_s` seconds; spooled messages wait for the next process."""
        self._stop.set()
        if self._turn.acquire(timeout=max(0.0, timeout_s)):
            try:
                self._sender.close(timeout_s)
                if self._spool is not None:
                    self._spool.close(timeout_s)
                if self._reader is not None:
                    self._reader.close()
                    self._reader = None
            finally:
                self._turn.release()

    def _message_run(self, scored: ScoredRun) -> SentRun:
        return SentRun(
            run=self._with_spans(scored.run),
            kind="again" if scored.late else "run",
            revision=scored.revision,
            sample_rate=scored.sample_rate,
            judge_sample_rate=self._judge_sample_rate,
            worst=scored.selection == "worst",
        )

    def _with_spans(self, run: RagRun) -> RagRun:
        spans = self._spans
        if spans is None or not delivers(spans):
            return run
        judged = spans.judged_spans(run, self._spans_patience_s)
        self._spans_patience_s = _LITTLE_PATIENCE_S if judged is None else _SPANS_PATIENCE_S
        if judged is None:
            return run
        places = judged.retrievals
        if len(run.retrievals) == 1 and judged.retrieval is not None:
            places = (judged.retrieval,)
        retrievals = run.retrievals
        if len(places) == len(retrievals):
            retrievals = tuple(
                one if span is None else replace(one, target=span)
                for one, span in zip(retrievals, places, strict=True)
            )
        return replace(run, target=judged.request or run.target, retrievals=retrievals)

    def _publish(self, runs: Sequence[SentRun]) -> int:
        """Publish requests in one message, or in several if they are large; return the number lost."""
        try:
            body = pack(MessageContent(runs=runs, resource=self._own_resource(), published_ns=time.time_ns()))
        except MessageTooLargeError:
            if len(runs) == 1:
                return 1
            middle = len(runs) // 2
            return self._publish(runs[:middle]) + self._publish(runs[middle:])
        return 0 if self._deliver(body, len(runs)) else len(runs)

    def _deliver(self, body: bytes, count: int) -> bool:
        deadline = time.monotonic() + self._patience_s
        pause = _FIRST_PAUSE_S
        while True:
            with suppress(TransportDownError):
                self._send(body, count)
                return True
            if time.monotonic() + pause > deadline or self._stop.wait(pause):
                return False
            pause = min(2 * pause, _REST_S)

    def _send(self, body: bytes, count: int) -> None:
        if self._spool is None:
            with self._turn:
                self._sender.send(body, count=count)
            return
        if time.monotonic() >= self._down_until:
            with suppress(TransportDownError):
                # Spooled messages go first; meanwhile, new ones are spooled behind them.
                if self._drain():
                    with self._turn:
                        self._sender.send(body, count=count)
                    return
        self._down_until = max(self._down_until, time.monotonic() + _REST_S)
        with self._turn:
            self._spool.send(body, count=count)
        self._drain_later()

    def _drain(self) -> bool:
        """Send all spooled messages, including those of other processes; return whether none is left."""
        with self._turn:
            if self._folder is None:
                return True
            if self._reader is None:
                self._reader = SpoolReader(self._folder)
            while not self._stop.is_set():
                taken = self._reader.take(1)
                if not taken:
                    return self._reader.is_drained
                try:
                    self._sender.send(taken[0].message.body, count=taken[0].message.requests)
                except TransportDownError:
                    self._reader.give_back()
                    self._down_until = time.monotonic() + _REST_S
                    raise
                self._reader.done(taken[0])
            return False

    def _drain_later(self) -> None:
        """Schedule a drain of the spool, for the case that no further requests arrive."""
        if self._draining is None or not self._draining.is_alive():
            self._draining = threading.Thread(target=self._keep_draining, name="ragmeter-spool", daemon=True)
            with suppress(RuntimeError):  # interpreter exit: the next process will drain
                self._draining.start()

    def _keep_draining(self) -> None:
        stop = self._stop
        while not stop.wait(_REST_S):
            with suppress(TransportDownError):
                if self._drain():
                    return

    def _own_resource(self) -> Mapping[str, str]:
        if self._resource is None:
            found = _resource_of_sdk()
            if found is None:
                return _resource_of_variables()  # the OpenTelemetry SDK may be set up later
            self._resource = found
        return self._resource


def _resource_of_sdk() -> dict[str, str] | None:
    resource = attribute_of(trace.get_tracer_provider(), "resource")
    attributes = attribute_of(resource, "attributes")
    if not isinstance(attributes, Mapping):
        return None
    return {key: clean(str(attributes[key])) for key in _RESOURCE_KEYS if attributes.get(key)}


def _resource_of_variables() -> dict[str, str]:
    known = dict(own_resource())
    known["service.name"] = os.environ.get("OTEL_SERVICE_NAME") or known.get("service.name", "")
    return {key: clean(known[key]) for key in _RESOURCE_KEYS if known.get(key)}
