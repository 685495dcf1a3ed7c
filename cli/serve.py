"""``ragmeter serve``: run the server until a signal ends it, then report the outcome of all received data."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ragmeter.cli._interrupt import EXIT_INTERRUPTED
from ragmeter.metrics import ConfigurationError
from ragmeter.serve.kafka_options import KafkaOptions, read_properties
from ragmeter.serve.store import StoreOptions

if TYPE_CHECKING:
    from ragmeter.serve import Server

_ALWAYS_REPORTED = ("exports", "spans", "requests")
_OVERTIME_S = 5.0
"""Seconds after the time to drain until the process is forced to end."""


def collect_rarely() -> None:
    """Have garbage collection skip what is imported, and run less often: it took a sixth of the CPU."""
    gc.freeze()
    gc.set_threshold(20_000)


def run_server(server: Server, say: Callable[[str], None]) -> bool:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the process at once.

    Args:
        server: The server to run.
        say: Prints a line.

    Returns:
        Whether all received requests were scored and sent.
    """
    ending = False
    # A lock, not an event: a signal handler that sets an event may deadlock with the code that it interrupts.
    running = threading.Lock()
    running.acquire()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal ending
        if ending:
            os._exit(EXIT_INTERRUPTED)
        ending = True
        running.release()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    from ragmeter.metrics.text import limit_texts  # noqa: PLC0415 -- the page is there before it

    limit_texts()
    server.start()
    collect_rarely()
    say(f"ragmeter serve: {server.address}")
    say(f"ragmeter serve: {server.durability}")
    if server.reader is not None:
        say(f"ragmeter serve: look at {server.url}")
    if server.options.token_file is not None:
        say(f"ragmeter serve: the token that all need is in {server.options.token_file}")
    elif server.access.token:
        say(f"ragmeter serve: senders and browsers need the token: {server.url}")
    if server.view_url is not None:
        say(f"ragmeter serve: for those who only look: {server.view_url}")
    running.acquire()
    say(f"ragmeter serve: draining, at most {server.options.drain_timeout_s:g} s")
    watchdog = threading.Timer(server.options.drain_timeout_s + _OVERTIME_S, os._exit, args=(EXIT_INTERRUPTED,))
    watchdog.daemon = True
    watchdog.start()
    complete = server.stop()
    say(f"ragmeter serve: {summary(server.stats())}")
    return complete


_SECONDS: Mapping[str, float] = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_BYTES: Mapping[str, int] = {"mb": 10**6, "gb": 10**9, "mib": 2**20, "gib": 2**30}


STORE_VARIABLE = "RAGMETER_SERVE_STORE"


def store_options(
    where: str | None,
    keep: str,
    max_size: str,
    *,
    texts: bool,
    keep_service: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> StoreOptions:
    """Return the options of the request store.

    Args:
        where: The file, or the address of a database; None: ``RAGMETER_SERVE_STORE``, which unlike an
            argument stays out of process lists, else a file in the user's state folder, or a temporary one.
        keep: Retention, e.g. ``7d``.
        max_size: Largest size, e.g. ``1GB``.
        texts: Whether texts are stored.
        keep_service: Retention of single services, e.g. ``shop=30d``.
        environ: The environment's variables.

    Raises:
        ConfigurationError: An option is invalid.
    """
    where = where or environ.get(STORE_VARIABLE) or None
    states = (environ.get(variable) for variable in ("XDG_STATE_HOME", "LOCALAPPDATA"))
    folder = Path(next(filter(None, states), Path.home() / ".local" / "state")) / "ragmeter"
    is_address = where is not None and "://" in where
    return StoreOptions(
        path=None if is_address else folder / "serve.db" if where is None else Path(where),
        url=where if is_address else None,
        folder=folder if is_address else None,
        or_private=where is None,
        keep_s=_amount("--keep", keep, _SECONDS, "7d"),
        keep_by_service=dict(map(_of_service, keep_service)),
        max_bytes=int(_amount("--max-size", max_size, _BYTES, "1GB")),
        texts=texts,
    )


def kafka_options(servers: str | None, topic: str, group: str, config: Path | None) -> KafkaOptions | None:
    """Return the brokers and the topic to read, or None without Kafka.

    Raises:
        ConfigurationError: The file cannot be read, or an option is invalid.
    """
    if servers is None:
        if config is not None:
            raise ConfigurationError("--kafka-config needs --kafka HOST:PORT")
        return None
    properties = {} if config is None else read_properties(config)
    return KafkaOptions(servers=servers, topic=topic, group=group, properties=properties)


def _amount(option: str, value: str, units: Mapping[str, float], example: str) -> float:
    number = value.strip().lower().rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = value.strip().lower().removeprefix(number).strip()
    try:
        amount = float(number) * units[unit]
    except (ValueError, KeyError):
        amount = 0.0
    if not 0 < amount < float("inf"):
        raise ConfigurationError(
            f"{option} is {value!r}; write for example {example} (units: {', '.join(units)})"
        )
    return amount


def _of_service(value: str) -> tuple[str, float]:
    name, _, time = value.rpartition("=")
    if not name.strip():
        raise ConfigurationError(f"--keep-service is {value!r}; write for example shop=30d")
    return name.strip(), _amount("--keep-service", time, _SECONDS, "shop=30d")


def summary(stats: Mapping[str, Mapping[str, int]]) -> str:
    """Return the number of received requests, by outcome, in one line."""
    parts: list[str] = []
    for name, counts in stats.items():
        if counts or name in _ALWAYS_REPORTED:
            outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
            parts.append(f"{sum(counts.values())} {name}" + (f" ({outcomes})" if outcomes else ""))
    return "; ".join(parts)
