"""Throughput of `ragmeter serve` over HTTP: spans a second and core, with and without spool; memory under load.

``python benchmarks/receiving.py``. Export requests of 60 spans of 8 KB each, in protobuf, from a few senders
in another process: until requests are found in them, and until these are scored by the cheapest metric. Texts
are new in every one. The spool's commits wait for this machine's disk. Memory is that of the server's process
under a minute of maximum load.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import Row, Settings, Worker, median, run, spread
from meter_capacity import Nowhere, resident_mb
from spans import SPANS_PER_REQUEST, body_of, request_spans

NAME = "receiving"
SIZE_KB = 8
REQUESTS = 10
"""Number of spans in one export request."""
AIMED_RATE = 5_000
SENDERS = 4
READ, SCORED, KEPT = "read", "scored", "scored, with a spool"


def prepare(variant: str, options: dict[str, Any]) -> Mapping[str, Any]:
    """Return the commands of a worker that is a server."""
    from ragmeter import RagMeter
    from ragmeter.serve import ServeOptions, Server

    folder = tempfile.TemporaryDirectory()
    # Sampled out: a request was found in its spans, and no more is done.
    rate = 0.0 if variant == READ else 1.0
    meter = RagMeter(metrics=["retrieval_health"], exporters=[Nowhere()], sample_rate=rate)
    spool = Path(folder.name) if variant == KEPT else None
    server = Server(ServeOptions(http_port=0, grpc_port=0, grace_s=0.0, spool=spool), meter=meter)
    server.start()

    def port() -> int:
        return server.http_port

    def through() -> int:
        counts = server.stats()["requests"]
        return counts.get("scored", 0) + counts.get("sampled_out", 0)

    def taken(requests: int) -> float:
        """Return the seconds of CPU so far, once that number of requests has been processed."""
        while through() < requests:
            time.sleep(0.02)
        return time.process_time()

    def state() -> dict[str, float]:
        """Return the memory, the number of processed requests, and of rejected senders."""
        stats = server.stats()
        return {"mb": resident_mb(), "through": through(), "busy": stats["exports"].get("busy", 0)}

    def close() -> None:
        server.stop(10.0)
        folder.cleanup()

    return {"port": port, "taken": taken, "state": state, "close": close}


def bodies(count: int) -> list[bytes]:
    """Return export requests with new texts."""
    return [
        body_of([span for _ in range(REQUESTS) for span in request_spans(SIZE_KB)], "protobuf")
        for _ in range(count)
    ]


def send(port: int, given: Sequence[bytes], until: float | None = None, first_id: int = 0) -> int:
    """Send requests from a few senders, each again until it is accepted; return the number of accepted ones.

    Args:
        port: The server's port.
        given: The requests.
        until: Time until which they are sent repeatedly, under new ids (monotonic).
        first_id: The first of these.
    """
    lock = threading.Lock()
    left = list(enumerate(given)) if until is None else []
    sent = [0]

    def sending(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        turn = first
        while True:
            if until is None:
                with lock:
                    if not left:
                        break
                    _, body = left.pop()
            else:
                if time.monotonic() >= until:
                    break
                body = renamed(given[turn % len(given)], first_id + turn)
                turn += SENDERS
            while True:
                connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    break
                if until is not None and time.monotonic() >= until:
                    connection.close()
                    return
                time.sleep(0.05)
            with lock:
                sent[0] += 1
        connection.close()

    senders = [threading.Thread(target=sending, args=(number,)) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return sent[0]


def renamed(body: bytes, number: int) -> bytes:
    """Return the request with other trace ids."""
    # `request_spans` counts its traces up from 1: the first bytes of their ids are 0.
    return body.replace(b"\x0a\x10" + bytes(8), b"\x0a\x10" + (number + 1).to_bytes(8, "big"))


class Load:
    """Sends to the servers, and reads their measurements."""

    def __init__(self, workers: Mapping[str, Worker], count: int) -> None:
        self._ports = {name: worker.ask("port") for name, worker in workers.items()}
        self._workers = workers
        self._count = count
        self._done = dict.fromkeys(workers, 0)

    def round(self, name: str) -> tuple[float, float]:
        """Return spans a second of the server's CPU, and of the clock."""
        given = bodies(self._count)
        before = self._workers[name].ask("taken", requests=self._done[name])
        began = time.perf_counter()
        self._done[name] += REQUESTS * send(self._ports[name], given)
        after = self._workers[name].ask("taken", requests=self._done[name])
        spans = self._count * REQUESTS * SPANS_PER_REQUEST
        return spans / (after - before), spans / (time.perf_counter() - began)

    def hold(self, name: str, seconds: float, parts: int) -> list[dict[str, float]]:
        """Return the server's state after each part of a period under full load."""
        given = bodies(8)
        states = []
        for number in range(parts):
            # Other ids in each part: what is sent twice counts once.
            first_id = 1_000_000 * (number + 1)
            send(self._ports[name], given, time.monotonic() + seconds / parts, first_id)
            states.append(self._workers[name].ask("state"))
        return states


def benchmark(settings: Settings) -> list[Row]:
    """Return the rows."""
    rounds, count, seconds = (2, 3, 2.0) if settings.quick else (7, 25, 60.0)
    workers = {name: Worker(__file__, name) for name in (READ, SCORED, KEPT)}
    try:
        load = Load(workers, count)
        for name in workers:
            load.round(name)
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in workers}
        for number in range(rounds):
            for name in workers if number % 2 == 0 else reversed(list(workers)):
                rates[name].append(load.round(name))
        states = {name: load.hold(name, seconds, 6) for name in (SCORED, KEPT)}
    finally:
        for worker in workers.values():
            worker.close()
    return [*rate_rows(rates), *memory_rows(states, seconds)]


def rate_rows(rates: Mapping[str, Sequence[tuple[float, float]]]) -> list[Row]:
    """Return the rows of spans per second of CPU and of the clock."""
    cores = {name: [core for core, _ in found] for name, found in rates.items()}
    clocks = {
        name: f"{median(clock for _, clock in found):,.0f} spans/s by the clock"
        for name, found in rates.items()
    }
    ratios = [ours / peer for ours, peer in zip(cores[KEPT], cores[SCORED], strict=True)]
    return [
        Row(
            NAME,
            f"received over HTTP and read, spans of {SIZE_KB} KB",
            "spans/s per core",
            median(cores[READ]),
            target=f"≥ {AIMED_RATE:,}",
            met=median(cores[READ]) >= AIMED_RATE,
            spread=spread(cores[READ]),
            note=clocks[READ],
        ),
        Row(
            NAME,
            "the same, built and scored",
            "spans/s per core",
            median(cores[SCORED]),
            spread=spread(cores[SCORED]),
            note=clocks[SCORED],
        ),
        Row(
            NAME,
            "the same, built and scored, with a spool",
            "spans/s per core",
            median(cores[KEPT]),
            median(cores[SCORED]),
            "without",
            median(ratios),
            spread=spread(cores[KEPT]),
            note=clocks[KEPT],
        ),
    ]


def memory_rows(states: Mapping[str, Sequence[Mapping[str, float]]], seconds: float) -> list[Row]:
    """Return the rows of memory at the end of the load, beside that after its first sixth."""
    return [
        Row(
            NAME,
            f"memory of the server under load for {seconds:.0f} s, {name}",
            "MB",
            state[-1]["mb"],
            state[0]["mb"],
            "after a sixth of it",
            state[-1]["mb"] / state[0]["mb"],
            note=f"{state[-1]['through']:,.0f} requests scored, {state[-1]['busy']:,.0f} times told to wait",
        )
        for name, state in states.items()
    ]


if __name__ == "__main__":
    run(benchmark, prepare)
