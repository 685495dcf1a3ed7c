"""Runs the processes of ``ragmeter worker``."""

from __future__ import annotations

import os
from collections.abc import Callable

from ragmeter.fleet.transport import address_shown, engine_of, run_worker
from ragmeter.fleet.worker import BatchWorker, worker_from_settings
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.text import limit_texts
from ragmeter.settings.config import Settings, read_settings
from ragmeter.settings.from_settings import worker_arguments

from ._sdk import WorkerTelemetry, has_provider, wanted_signals


def queue_of(given: str | None, settings: Settings) -> str:
    """Return the URL of the queue.

    Raises:
        ConfigurationError: No queue is set.
    """
    if given:
        return given
    if settings.queue_url is None:
        raise ConfigurationError(
            "which queue? Pass --queue spool:///var/lib/ragmeter/queue or a broker's address, or set "
            "RAGMETER_QUEUE_URL to what the applications have there"
        )
    return settings.queue_url.get_secret_value()


def run(
    queue: str | None, *, processes: int | None, once: bool, require_export: bool, say: Callable[[str], None]
) -> bool:
    """Score messages until a signal ends it; return whether everything succeeded.

    Args:
        queue: URL of the queue; None: that of the settings.
        processes: Number of processes; None: that of the settings, else one per core.
        once: End when the queue is empty.
        require_export: Requeue a message whose scores could not be exported.
        say: Prints a line.

    Raises:
        ConfigurationError: An option or a variable is invalid.
        MissingDependencyError: A required package is not installed.
    """
    settings = read_settings()
    url = queue_of(queue, settings)
    worker_arguments()  # report their errors here, not in each process
    if not (wanted_signals() or settings.writes_elsewhere or has_provider()):
        raise ConfigurationError(
            "the worker has nowhere to write scores to; set OTEL_EXPORTER_OTLP_ENDPOINT, RAGMETER_JSONL or "
            "RAGMETER_CONSOLE"
        )

    if settings.judge_model is not None and settings.worker_limit_s < settings.judge_deadline_s + 60:
        raise ConfigurationError(
            f"RAGMETER_WORKER_LIMIT_S={settings.worker_limit_s:g} would end what a judge is still asked for; "
            f"give RAGMETER_JUDGE_DEADLINE_S ({settings.judge_deadline_s:g}) and 60 s more"
        )

    def make() -> BatchWorker:
        limit_texts()
        telemetry = WorkerTelemetry()
        return worker_from_settings(
            require_export=require_export, unsent=telemetry.unsent, closed=telemetry.shutdown
        )

    number = processes or settings.worker_processes or os.cpu_count() or 1
    engine_of(url)  # refuse an invalid URL before printing
    end = "what waits there" if once else "what comes there, until SIGTERM or Ctrl-C"
    who = "1 process scores" if number == 1 else f"{number} processes score"
    say(f"ragmeter worker: {address_shown(url)}: {who} {end}")
    return run_worker(url, make, processes=number, once=once, limit_s=settings.worker_limit_s)
