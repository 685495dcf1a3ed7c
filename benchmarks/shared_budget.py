"""Cost of a judge's budget that many processes share: latency of a call's check, load of Redis.

``python benchmarks/shared_budget.py``. A private Redis on a free port of 127.0.0.1; calls are taken and
settled through the event loop, as a judge does, one after the other and sixteen at once, alternating with a
budget of the process; then by several processes at once. Without ``redis-server`` only the process's own
budget is measured.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from measure import Row, Settings, median, quantile, run, spread

NAME = "shared_budget"
AT_ONCE = 16
"""Concurrent calls in a process, as many as a judge has by default."""
LIMITS: dict[str, Any] = {
    "calls_per_minute": 10**8,
    "tokens_per_minute": 10**12,
    "cost_per_minute": 10.0**6,
    "input_price": 0.15,
    "output_price": 0.6,
}
"""Limits that are never reached: only the check is measured."""


@contextmanager
def redis_server() -> Iterator[str | None]:
    """Run a private Redis; yield its URL, or None without one."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            for _ in range(600):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


async def calls(budget: Any, count: int, at_once: int) -> list[float]:
    """Take and settle `count` calls; return the milliseconds that each waited for permission."""
    waited: list[float] = []

    async def some(number: int) -> None:
        for _ in range(number):
            began = time.perf_counter()
            room = await budget.obtain(1400, 100)
            waited.append((time.perf_counter() - began) * 1000)
            budget.settle(room, 1300, 60)

    await asyncio.gather(*(some(count // at_once) for _ in range(at_once)))
    return waited


def in_a_process(url: str, count: int, said: Any) -> None:
    from ragmeter.metrics.judge import SharedBudget

    budget = SharedBudget(url, name="several", **LIMITS)
    waited = asyncio.run(calls(budget, count, AT_ONCE))
    budget.close()
    said.put((waited, budget.granted_alone))


def cpu_and_commands(url: str) -> tuple[float, int]:
    """Return the server's seconds of processor time, and the number of script runs."""
    import redis

    with redis.Redis.from_url(url) as client:
        used: Any = client.info("cpu")
        ran: Any = client.info("commandstats")
    scripts = sum(ran.get(f"cmdstat_{kind}", {}).get("calls", 0) for kind in ("eval", "evalsha"))
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"]), scripts


def one_process(url: str | None, rounds: int, count: int) -> list[Row]:
    from ragmeter.metrics.judge import JudgeBudget, SharedBudget

    rows: list[Row] = []
    for at_once in (1, AT_ONCE):
        own = JudgeBudget(**LIMITS)
        shared = None if url is None else SharedBudget(url, name=str(at_once), **LIMITS)
        waits: dict[str, list[list[float]]] = {"own": [], "shared": []}
        for _ in range(rounds):
            waits["own"].append(asyncio.run(calls(own, count, at_once)))
            if shared is not None:
                waits["shared"].append(asyncio.run(calls(shared, count, at_once)))
        for share in (0.5, 0.99):
            ours = [quantile(one, share) for one in waits["shared"] or waits["own"]]
            alone = [quantile(one, share) for one in waits["own"]]
            what = f"room for a call, {at_once} at once, p{share * 100:.0f}"
            if shared is None:
                rows.append(Row(NAME, what, "ms", median(ours), note="no redis-server: own budget"))
            else:
                rows.append(
                    Row(NAME, what, "ms", median(ours), median(alone), "the process's own budget",
                        median(ours) / median(alone), spread=spread(ours),
                        note=f"{shared.granted_alone} granted without Redis")
                )  # fmt: skip
    return rows


def several_processes(url: str, processes: int, count: int) -> list[Row]:
    context = multiprocessing.get_context("spawn")
    said = context.Queue()
    worked, ran = cpu_and_commands(url)
    children = [context.Process(target=in_a_process, args=(url, count, said)) for _ in range(processes)]
    for child in children:
        child.start()
    results = [said.get(timeout=600) for _ in children]
    for child in children:
        child.join()
    worked_later, ran_later = cpu_and_commands(url)
    waited = [wait for one, _ in results for wait in one]
    a_command = (worked_later - worked) / max(1, ran_later - ran)
    note = f"{sum(alone for _, alone in results)} granted without Redis"
    return [
        Row(NAME, f"room for a call, {processes} processes, p50", "ms", quantile(waited, 0.5), note=note),
        Row(NAME, f"room for a call, {processes} processes, p99", "ms", quantile(waited, 0.99)),
        Row(NAME, f"Redis's processor for a take or a settlement, {processes} processes", "µs",
            a_command * 1e6),
        Row(NAME, "commands a second that fill one of its cores", "/s", 1 / a_command),
    ]  # fmt: skip


def benchmark(settings: Settings) -> list[Row]:
    rounds, count = (2, 160) if settings.quick else (9, 4_000)
    with redis_server() as url:
        rows = one_process(url, rounds, count)
        if url is not None:
            rows += several_processes(url, 2 if settings.quick else 8, count)
    return rows


if __name__ == "__main__":
    run(benchmark)
