"""Storing of ragmeter's own telemetry by `ragmeter serve`, and response times of its page with much data.

``python benchmarks/storing.py``. Export requests of a scored request each and of hundreds, with their texts,
as ragmeter sends them over OTLP: spans and events of 9 scores, three chunks. The server responds 200 after
the commit. The peer is a minimal store, in the same run and on the same disk: the same bodies over the same
HTTP, parsed, inserted unchanged into one table of SQLite, and committed. Then the page, with many requests
stored over a day: each view first in a server that was just started, and again.

With ``RAGMETER_BENCH_POSTGRESQL=postgresql://…``, the address of an empty database, the same over HTTP into that.
"""

from __future__ import annotations

import html
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from environments import child_environment
from measure import Row, Settings, Worker, median, run, spread
from meter_capacity import resident_mb

NAME = "storing"
AIMED_RATE = 500
AIMED_COLD_MS, AIMED_WARM_MS = 1_000.0, 500.0
AIMED_MB = 120.0
SENDERS = 4
PER_EXPORT = 64
AGAIN = 5
PAGES_ON = 40
"""Pages of the list, 50 requests each, that are read before one is timed."""
HTTP, GRPC, BARE = "over HTTP", "over gRPC", "bare"
POSTGRESQL = "over HTTP, in PostgreSQL"
SCORING, HOUR, OPENS_S = "scoring", 1_500, 1.0
ADDRESS = os.environ.get("RAGMETER_BENCH_POSTGRESQL")
SIGNALS = ("traces", "logs")
VIEWS = {
    "overview": "/",
    "overview of a day": "/?range=24h",
    "requests": "/requests?range=24h",
    "late page of requests": "{late}",
    "requests of a part": "/requests?range=24h&seg=metadata.tenant:acme",
    "bad requests": "/requests?range=24h&verdict=bad",
    "requests by a score": "/requests?range=24h&sort=lexical_groundedness",
    "what is scored": "/scoring?range=24h",
    "one request": "/trace/{trace}",
    "API: overview": "/api/overview?range=24h",
    "API: requests": "/api/requests?range=24h&limit=500",
    "API: one request": "/api/requests/{trace}",
}
TEXT = "The tide is high twice a day, because the Earth turns under the Moon's pull, chunk {} of request {}. "


def prepare(variant: str, options: dict[str, Any]) -> Mapping[str, Any]:
    """Return the commands of a worker that is a server, or that measures one."""
    if variant == BARE:
        return bare_server()
    from ragmeter import RagMeter
    from ragmeter.cli.serve import collect_rarely
    from ragmeter.metrics.text import limit_texts
    from ragmeter.serve import ServeOptions, Server
    from ragmeter.serve.store import StoreOptions

    limit_texts()  # as `ragmeter serve` does
    folder = tempfile.TemporaryDirectory()
    path = Path(options.get("path") or Path(folder.name) / "serve.db")
    store = StoreOptions(url=ADDRESS) if variant == POSTGRESQL else StoreOptions(path=path)
    given = None if variant == SCORING else RagMeter(metrics=["retrieval_health"], exporters=[])
    server = Server(ServeOptions(http_port=0, grpc_port=0, grace_s=0.0, store=store), meter=given)
    server.start()
    collect_rarely()

    def ports() -> list[int]:
        return [server.http_port, server.grpc_port]

    def state() -> dict[str, float]:
        """Return memory, seconds of CPU, stored requests, and senders that were asked to retry."""
        return {
            "mb": resident_mb(),
            "cpu": time.process_time(),
            "stored": server.store.stats().requests if server.store else 0,
            "busy": server.stats()["exports"].get("busy", 0),
        }

    def close() -> None:
        server.stop(10.0)
        folder.cleanup()

    return {"ports": ports, "state": state, "close": close}


def bare_server() -> Mapping[str, Any]:
    """Return the commands of a minimal store."""
    import socket
    import sqlite3

    import uvicorn
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    folder = tempfile.TemporaryDirectory()
    database = sqlite3.connect(Path(folder.name) / "bare.db", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE body (id INTEGER PRIMARY KEY, body BLOB)")
    kinds = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}

    async def take(request: Request) -> Response:
        body = await request.body()
        kinds[request.path_params["signal"]].FromString(body)
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO body (body) VALUES (?)", (body,))
        database.execute("COMMIT")
        return Response(status_code=200)

    listening = socket.create_server(("127.0.0.1", 0))
    application = Starlette(routes=[Route("/v1/{signal}", take, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()

    def close() -> None:
        server.should_exit = True
        thread.join(30)
        database.close()
        folder.cleanup()

    return {
        "ports": lambda: [listening.getsockname()[1], 0],
        "state": lambda: {"mb": resident_mb(), "cpu": time.process_time(), "stored": 0, "busy": 0},
        "close": close,
    }


def scored_runs() -> list[Any]:
    """Return a few scored requests."""
    from ragmeter import RagMeter
    from ragmeter.exporters.memory import InMemoryExporter

    results = InMemoryExporter()
    meter = RagMeter(exporters=[results])
    for number in range(PER_EXPORT):
        metadata = {"tenant": "acme" if number % 3 else "umbrella"}
        question = f"How often is the tide high, {number}?"
        with meter.request(question, name="tides", metadata=metadata) as one:
            one.retrieved([TEXT.format(chunk, number) * 6 for chunk in range(3)])
            one.answered("Bread rises." if number % 8 == 0 else "The tide is high twice a day.")
    meter.flush(60)
    meter.shutdown(10)
    return list(results.results)


def bodies_of(runs: Sequence[Any]) -> dict[str, bytes]:
    """Return their form in ragmeter's exporter: spans, and events of their scores."""
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from ragmeter.exporters.otel import OpenTelemetryExporter

    spans, records = InMemorySpanExporter(), InMemoryLogRecordExporter()
    resource = Resource({"service.name": "tides"})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(records))
    OpenTelemetryExporter(tracers, logger_provider=loggers, metrics=False, capture_content=True).export(runs)
    return {
        "traces": encode_spans(spans.get_finished_spans()).SerializeToString(),
        "logs": encode_logs(records.get_finished_logs()).SerializeToString(),
    }


class Exports:
    """Endless export requests, each with different ids.

    Args:
        runs: The scored requests that they contain.
    """

    def __init__(self, runs: Sequence[Any]) -> None:
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

        self._bodies = bodies_of(runs)
        found = TracesData.FromString(self._bodies["traces"])
        self._ids = {
            span.trace_id
            for group in found.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        }
        runs_told = {run.run.run_id.encode() for run in runs}
        self._names = [name for name in runs_told if name in self._bodies["traces"]]
        self.requests = len(runs)

    def number(self, number: int) -> dict[str, bytes]:
        """Return an export of spans and one of events, the same for the same number."""
        bodies = dict(self._bodies)
        salt = number.to_bytes(4, "big")
        for name, body in bodies.items():
            changed = body
            for one in self._ids:
                changed = changed.replace(one, salt + one[4:])
            for run_id in self._names:
                changed = changed.replace(run_id, salt.hex().encode() + run_id[8:])
            bodies[name] = changed
        return bodies


def sent(ports: Sequence[int], way: str, exports: Sequence[Mapping[str, bytes]]) -> float:
    """Send exports from a few senders, each until it is accepted; return the seconds it took."""
    began = time.perf_counter()
    with ThreadPoolExecutor(SENDERS) as senders:
        send = sent_by_grpc if way == GRPC else sent_by_http
        for done in [senders.submit(send, ports, exports[place::SENDERS]) for place in range(SENDERS)]:
            done.result()
    return time.perf_counter() - began


def sent_by_http(ports: Sequence[int], exports: Sequence[Mapping[str, bytes]]) -> None:
    """Send exports one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)
    for bodies in exports:
        for name, body in bodies.items():
            while True:
                headers = {"Content-Type": "application/x-protobuf"}
                connection.request("POST", f"/v1/{name}", body, headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    break
                time.sleep(float(answer.headers.get("Retry-After", 0.1)))
    connection.close()


def sent_by_grpc(ports: Sequence[int], exports: Sequence[Mapping[str, bytes]]) -> None:
    """Send exports one after the other."""
    import grpc

    service = "/opentelemetry.proto.collector.{}.v1.{}Service/Export"
    with grpc.insecure_channel(f"127.0.0.1:{ports[1]}") as channel:
        calls = {
            "traces": channel.unary_unary(service.format("trace", "Trace")),
            "logs": channel.unary_unary(service.format("logs", "Logs")),
        }
        for bodies in exports:
            for signal_name in SIGNALS:
                while True:
                    try:
                        calls[signal_name](bodies[signal_name], timeout=60)
                        break
                    except grpc.RpcError as error:
                        if error.code() != grpc.StatusCode.UNAVAILABLE:  # type: ignore[attr-defined]
                            raise
                        time.sleep(0.1)


@dataclass
class Filled:
    """A store with many requests over a day."""

    path: Path
    requests: int
    trace: str


def filled(folder: Path, runs: Sequence[Any], requests: int) -> Filled:
    """Return a store of `requests` requests, spread over the last day."""
    from opentelemetry.trace import SpanContext, TraceFlags

    from ragmeter.serve.store import Store, StoreOptions

    now_ns = time.time_ns()
    path = folder / "filled.db"
    store = Store(StoreOptions(path=path))

    def many() -> Iterator[Any]:
        for number in range(requests):
            like = runs[number % len(runs)]
            started_ns = now_ns - 86_000 * 10**9 * (requests - number) // requests
            span = SpanContext(
                number + 1, number + 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
            )
            made = replace(
                like.run, run_id=f"{number:032x}", started_ns=started_ns, ended_ns=started_ns + 10**9,
                target=span,
            )  # fmt: skip
            yield replace(like, run=made)

    batch: list[Any] = []
    for one in many():
        batch.append(one)
        if len(batch) == 500:
            store.export(batch)
            batch = []
    store.export(batch)
    while store.maintain():
        pass
    store.close()
    return Filled(path, requests, f"{requests // 2:032x}")


def body_of(port: int, address: str) -> str:
    """Return the response of an address."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", address)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{address} answered {answer.status}")
    return body.decode()


def looked(port: int, address: str) -> float:
    """Return the milliseconds until a whole response has arrived."""
    began = time.perf_counter()
    body_of(port, address)
    return (time.perf_counter() - began) * 1000


@dataclass
class Looks:
    """Durations of a view, in milliseconds of the clock and of the server's processor."""

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    first_cpu: list[float] = field(default_factory=list)
    again_cpu: list[float] = field(default_factory=list)


def last_page_of(port: int) -> str:
    """Return the address of a late page of a day's list, as reached by a reader who continues."""
    address = "/requests?range=24h&sort=newest"
    for _ in range(PAGES_ON):
        following = re.search(r'href="(/requests\?[^"]*before=[^"]*)"', body_of(port, address))
        if following is None:
            return address
        address = html.unescape(following[1])
    return address


def views_of(store: Filled, rounds: int) -> tuple[dict[str, Looks], float, float]:
    """Return the duration of each view, first in a server of its own, and again; and the server's MB.

    The MB are those after every view, and the maximum after one view.
    """
    found = {name: Looks() for name in VIEWS}
    most = 0.0
    worker = Worker(__file__, HTTP, options={"path": str(store.path)})
    try:
        port, _ = worker.ask("ports")
        late = last_page_of(port)
        for address in VIEWS.values():
            looked(port, address.format(trace=store.trace, late=late))
        after_all = worker.ask("state")["mb"]
    finally:
        worker.close()
    for _ in range(rounds):
        for name, address in VIEWS.items():
            worker = Worker(__file__, HTTP, options={"path": str(store.path)})
            try:
                port, _ = worker.ask("ports")
                looked(port, "/healthz")
                asked = address.format(trace=store.trace, late=late)
                looks, before = found[name], worker.ask("state")["cpu"]
                looks.first.append(looked(port, asked))
                between = worker.ask("state")["cpu"]
                looks.again.extend(looked(port, asked) for _ in range(AGAIN))
                state = worker.ask("state")
                looks.first_cpu.append((between - before) * 1000)
                looks.again_cpu.append((state["cpu"] - between) * 1000 / AGAIN)
                most = max(most, state["mb"])
            finally:
                worker.close()
    return found, after_all, most


def opened_again(store: Filled, exports: Exports) -> float:
    """Kill a server while it receives into the store; return the seconds until another's first page arrives."""
    worker = Worker(__file__, HTTP, options={"path": str(store.path)})
    port, grpc_port = worker.ask("ports")

    def send() -> None:
        with suppress(OSError, http.client.HTTPException):
            for number in count(2**31):
                sent_by_http([port], [exports.number(number)])

    sender = threading.Thread(target=send)
    sender.start()
    before = worker.ask("state")["stored"]
    while worker.ask("state")["stored"] == before:
        time.sleep(0.05)
    os.kill(worker.pid, signal.SIGKILL)
    sender.join()
    worker.close()
    where = f"--http-port {port} --grpc-port {grpc_port} --store {store.path}".split()
    began, command = time.perf_counter(), [sys.executable, "-m", "ragmeter", "serve", *where]
    with subprocess.Popen(command, env=child_environment()) as again:
        while again.poll() is None:
            with suppress(OSError):
                looked(port, "/")
                again.terminate()
                return time.perf_counter() - began
            time.sleep(0.005)
    raise RuntimeError("the server did not start")


def after_an_hour(requests: int) -> float:
    """Return the MB of a server that scored an hour's requests with every free metric and showed 10 pages."""
    body = foreign_request()
    worker = Worker(__file__, SCORING)
    try:
        port, _ = worker.ask("ports")
        for number in range(1, requests + 1):
            made = body.replace(FOREIGN, number.to_bytes(16, "big"))
            made = made.replace(b"tide", f"tide {number:08}".encode()[-4:])  # as long, else no protobuf
            sent_by_http([port], [{"traces": made}])
        until = time.monotonic() + 120
        while worker.ask("state")["stored"] < requests and time.monotonic() < until:
            time.sleep(0.2)
        for address in ("/", "/requests", "/scoring", "/?range=24h", f"/trace/{1:032x}") * 2:
            looked(port, address)
        return float(worker.ask("state")["mb"])
    finally:
        worker.close()


FOREIGN = b"\x7f" * 16


def foreign_request() -> bytes:
    """Return a request of an application with other tracing: retrieval, model, answer; trace id `FOREIGN`."""
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    data = TracesData()
    scoped = data.resource_spans.add().scope_spans.add()

    def span(number: int, parent: int, kind: str, told: Mapping[str, str]) -> None:
        made = scoped.spans.add(trace_id=FOREIGN, span_id=number.to_bytes(8, "big"), name=kind.lower())
        if parent:
            made.parent_span_id = parent.to_bytes(8, "big")
        made.start_time_unix_nano = time.time_ns() - 10**9 + number
        made.end_time_unix_nano = made.start_time_unix_nano + 10**8
        for key, value in {"openinference.span.kind": kind, **told}.items():
            item = made.attributes.add(key=key)
            item.value.string_value = value

    question, answer = "How often is the tide high?", "The tide is high twice a day."
    chunks = {
        f"retrieval.documents.{place}.document.content": TEXT.format(place, "tide") * 6 for place in range(3)
    }
    span(2, 1, "RETRIEVER", {"input.value": question, **chunks})
    span(3, 1, "LLM", {"input.value": question, "output.value": answer})
    span(1, 0, "CHAIN", {"input.value": question, "output.value": answer})
    return data.SerializeToString()


def benchmark(settings: Settings) -> list[Row]:
    """Return the rows."""
    rounds, exported, stored, looks = (2, 4, 1_000, 1) if settings.quick else (7, 25, 50_000, 3)
    exports = Exports(runs := scored_runs())
    kept = (HTTP, GRPC, POSTGRESQL) if ADDRESS else (HTTP, GRPC)
    workers = {name: Worker(__file__, name) for name in (*kept, BARE)}
    rates: dict[str, list[float]] = {name: [] for name in workers}
    cores: dict[str, list[float]] = {name: [] for name in workers}
    first = 1
    try:
        ports = {name: worker.ask("ports") for name, worker in workers.items()}
        for name in workers:
            sent(ports[name], name, [exports.number(0)])
        for number in range(rounds):
            for name in workers if number % 2 == 0 else reversed(list(workers)):
                given = [exports.number(first + place) for place in range(exported)]
                first += exported
                before = workers[name].ask("state")["cpu"]
                seconds = sent(ports[name], name, given)
                rates[name].append(exported * exports.requests / seconds)
                worked = workers[name].ask("state")["cpu"] - before
                cores[name].append(exported * exports.requests / worked)
        states = {name: worker.ask("state") for name, worker in workers.items()}
    finally:
        for worker in workers.values():
            worker.close()
    with tempfile.TemporaryDirectory() as folder:
        store = filled(Path(folder), runs, stored)
        views, *memory = views_of(store, looks)
        opens = [opened_again(store, exports) for _ in range(looks)]
    hour = 50 if settings.quick else HOUR
    hourly = after_an_hour(hour)
    return [
        *rate_rows(rates, cores, states),
        *view_rows(views, stored),
        memory_row(*memory, stored),
        Row(
            NAME, f"first page after kill -9 while receiving, {stored:,} requests stored", "s", median(opens),
            target=f"< {OPENS_S:g}", met=median(opens) < OPENS_S, spread=spread(opens),
            note="of `ragmeter serve`, with Python's own start and all imports that the page needs",
        ),
        Row(
            NAME, f"memory after scoring {hour:,} requests with texts and showing 10 pages", "MB", hourly,
            target=f"< {AIMED_MB:.0f}", met=hourly < AIMED_MB, note="spans of others, every free metric",
        ),
    ]  # fmt: skip


def rate_rows(
    rates: Mapping[str, Sequence[float]],
    cores: Mapping[str, Sequence[float]],
    states: Mapping[str, Mapping[str, float]],
) -> list[Row]:
    """Return the rows of requests stored a second, beside the bare table."""
    return [
        Row(
            NAME,
            f"kept {name}, {PER_EXPORT} requests an export, with texts",
            "requests/s by the clock",
            median(rates[name]),
            median(rates[BARE]),
            "bodies in one table",
            median([ours / bare for ours, bare in zip(rates[name], rates[BARE], strict=True)]),
            target=f"≥ {AIMED_RATE}",
            met=median(rates[name]) >= AIMED_RATE,
            spread=spread(rates[name]),
            note=f"{median(cores[name]):,.0f} a second of the server's CPU; {states[name]['stored']:,.0f} stored, "
            f"{states[name]['mb']:.0f} MB; the senders{' and PostgreSQL' if name == POSTGRESQL else ''} are on the "
            "same cores",
        )
        for name in rates
        if name != BARE
    ]


def view_rows(views: Mapping[str, Looks], stored: int) -> list[Row]:
    """Return the rows of each view's duration, first and again; by the clock, and of the processor."""
    return [
        Row(
            NAME,
            f"{name} of {stored:,} requests, {when}",
            "ms",
            median(taken),
            target=f"< {aimed:,.0f}",
            met=median(taken) < aimed,
            spread=spread(taken),
            note=f"{median(cpu):,.0f} ms of the server's CPU",
        )
        for name, looks in views.items()
        for when, taken, cpu, aimed in (
            ("first", looks.first, looks.first_cpu, AIMED_COLD_MS),
            ("again", looks.again, looks.again_cpu, AIMED_WARM_MS),
        )
    ]


def memory_row(after_all: float, most: float, stored: int) -> Row:
    """Return the row of the memory of a server after the views."""
    return Row(
        NAME,
        f"memory of a server with {stored:,} requests after {PAGES_ON} pages of the list and every view",
        "MB",
        after_all,
        target=f"< {AIMED_MB:.0f}",
        met=max(most, after_all) < AIMED_MB,
        note=f"after one view and five more {most:.0f} at most",
    )


if __name__ == "__main__":
    run(benchmark, prepare)
