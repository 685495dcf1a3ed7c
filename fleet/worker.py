"""`BatchWorker`: score messages of any engine and export the scores.

It feeds a meter with requests captured by others: judging, budgets, exporters, estimates and counts are the
meter's, so that scores are the same. This module decides when a message is done, and what to do with one that
fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragmeter import RagMeter
from ragmeter.exporters._span_targets import delivers
from ragmeter.exporters.protocol import MeterStats, ScoredRun
from ragmeter.metrics import ConfigurationError
from ragmeter.settings.config import read_settings
from ragmeter.settings.from_settings import worker_arguments

from .payload import VERSION, MessageContent, SentRun, UnreadableError, each_alone, unpack
from .transport import Dead, Disposition

if TYPE_CHECKING:
    from ._marks import DoneMarks

_log = logging.getLogger("ragmeter")

DEATHS_TO_SPLIT = 2
"""Workers that may end over a message before its requests are retried one by one."""
_LOOK_S = 5.0
"""Seconds of each wait for the exports."""
_GRACE_S = 120.0
"""Seconds to wait for slow exporters beyond the judge's deadline."""


def split(body: bytes, batch: MessageContent, deaths: int) -> tuple[bytes, ...]:
    """Split a message into messages of one request each; empty: score it whole.

    After a second death, one of the requests may be the cause; in a separate message it affects no other.
    """
    if deaths < DEATHS_TO_SPLIT or len(batch.runs) < 2:
        return ()
    return each_alone(body)


class BatchWorker:
    """Scores messages, as a `transport.MessageWorker`. For one thread; made in the process that scores.

    Args:
        meter: Scores the requests; used only here.
        judge_deadline_s: Time limit of judging a request in seconds.
        require_export: Redeliver a message whose scores could not be exported, instead of counting them as
            lost.
        marks: Marks of finished requests; None: a redelivered message is scored twice.
        unsent: Returns the number of exports known to be rejected by their destination.
        closed: Called last, with the remaining seconds, to shut down the exporters' destinations.
    """

    def __init__(
        self,
        meter: RagMeter,
        *,
        judge_deadline_s: float = 60.0,
        require_export: bool = False,
        marks: DoneMarks | None = None,
        unsent: Callable[[], int] = lambda: 0,
        closed: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._meter = meter
        self._judge_deadline_s = judge_deadline_s
        self._require_export = require_export
        self._marks = marks
        self._unsent = unsent
        self._closed = closed
        self._guard = meter.port.guard("fleet.worker")
        self._warned_of: set[tuple[int, int]] = set()

    def handle(self, body: bytes, deaths: int) -> Disposition:
        """Score a message and export the scores; see `transport.MessageWorker`."""
        with self._guard:
            return self._handle(body, deaths)
        return Disposition(dead=(Dead(body=body, reason="the worker failed on it, see its log"),))

    def stats(self) -> MeterStats:
        """Return the meter's counters."""
        return self._meter.stats()

    def close(self, timeout_s: float) -> None:
        """Shut down the meter and its destinations within `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        self._meter.shutdown(timeout_s)
        if self._marks is not None:
            with self._guard:
                self._marks.close()
        with self._guard:
            self._closed(max(0.1, deadline - time.monotonic()))

    def _handle(self, body: bytes, deaths: int) -> Disposition:
        try:
            batch = unpack(body)
        except UnreadableError as error:
            self._meter.port.count_lost("unreadable", error.requests)
            return Disposition(dead=(Dead(body=body, reason=str(error)),))
        if batch.is_newer:
            self._warn_of_newer(batch.version)
        if deaths:
            _log.warning(
                "ragmeter worker: %d requests are tried for the %d. time, as a worker ended while it had them",
                len(batch.runs),
                deaths + 1,
            )
        why = "the request cannot be read"
        if batch.is_newer:
            sent, known = _version_text(batch.version), _version_text(VERSION)
            why += f": its message has version {sent}, and this worker knows {known}"
        dead = tuple(Dead(body=one, reason=why) for one in batch.unreadable)
        alone = split(body, batch, deaths)
        if not alone:
            ids = {f"{one.kind}:{one.run.run_id}:{one.revision}": one for one in batch.runs}
            seen = set() if self._marks is None else self._marks.seen(ids)
            left = {key: one for key, one in ids.items() if key not in seen}
            if left and not self._score([*left.values()], batch.resource):
                return Disposition(done=False)
            if self._marks is not None:
                self._marks.add(left)
        if dead:
            self._meter.port.count_lost("unreadable", len(dead))
        return Disposition(split=alone, dead=dead)

    def _warn_of_newer(self, version: tuple[int, int]) -> None:
        if version in self._warned_of:
            return
        self._warned_of.add(version)
        _log.warning(
            "ragmeter worker: applications send messages of version %s, and this worker knows %s: what is new "
            "in them is ignored; update the workers",
            _version_text(version),
            _version_text(VERSION),
        )

    def _score(self, runs: Sequence[SentRun], resource: Mapping[str, str]) -> bool:
        """Score and export requests; return whether the message may be acknowledged."""
        before = self._count_lost()
        for sent in runs:
            self._meter.port.take_over(_scored_run(sent, resource))
        deadline = time.monotonic() + self._judge_deadline_s + _GRACE_S
        flushed = self._meter.flush(_LOOK_S)
        # Wait for hanging requests until the engine ends this process: acknowledged, they would be lost.
        while not flushed:
            stats = self._meter.stats()
            exporting = sum(stats.export_backlog.values())
            is_scoring, is_at_work = stats.in_flight > exporting, stats.in_flight > 0 or exporting > 0
            if not (is_scoring or (is_at_work and time.monotonic() < deadline)):
                break
            flushed = self._meter.flush(_LOOK_S)
        if not self._require_export:
            return True
        return flushed and self._count_lost() == before

    def _count_lost(self) -> int:
        return sum(self._meter.stats().export_errors.values()) + self._unsent()


def _version_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _scored_run(sent: SentRun, resource: Mapping[str, str]) -> ScoredRun:
    run = sent.run
    return ScoredRun(
        run=run if run.resource else replace(run, resource=dict(resource)),
        scores={},
        late=sent.kind == "again",
        sample_rate=sent.sample_rate,
        judge_sample_rate=sent.judge_sample_rate,
        selection="worst" if sent.worst else "sampled",
        revision=sent.revision,
    )


def worker_from_settings(
    *,
    require_export: bool = False,
    unsent: Callable[[], int] = lambda: 0,
    closed: Callable[[float], None] = lambda _: None,
) -> BatchWorker:
    """Build a `BatchWorker` from the ``RAGMETER_*`` variables, with metrics, judge and exporters.

    Raises:
        ConfigurationError: A variable is invalid; names it and the allowed values.
        MissingDependencyError: A required package is not installed.
    """
    settings = read_settings()
    arguments = worker_arguments()
    arguments["exporters"] = [one for one in arguments["exporters"] if delivers(one)]
    if not arguments["exporters"]:
        raise ConfigurationError(
            "the worker has nowhere to write scores to: no OpenTelemetry SDK, no RAGMETER_JSONL, no "
            "RAGMETER_CONSOLE"
        )
    marks: DoneMarks | None = None
    if settings.worker_dedupe_url is not None:
        from ._marks import DoneMarks as RedisMarks  # noqa: PLC0415 -- needs an extra

        marks = RedisMarks(settings.worker_dedupe_url.get_secret_value())
    return BatchWorker(
        RagMeter(**arguments),
        judge_deadline_s=settings.judge_deadline_s,
        require_export=require_export,
        marks=marks,
        unsent=unsent,
        closed=closed,
    )
