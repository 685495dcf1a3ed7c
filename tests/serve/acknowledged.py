"""The meaning of 200 as a table: ways to run the server × faults, tried with `ragmeter serve` as a process."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing, contextmanager, suppress

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_endpoint import Endpoint
from served import PATIENCE_S, traced_as, until
from serving import serving

PROTOBUF = {"Content-Type": "application/x-protobuf"}
FAULTS = (
    "killed",
    "disk full",
    "store read-only",
    "store locked",
    "database away",
    "refused for a while",
    "refused for good",
)
BATCH = 6
REASON = re.compile(r"ragmeter: the (store|spool's folder) \S+ cannot be used(: | \()[^()]+\)?; ")


@contextmanager
def small_disk(folder, size):
    """Yield a disk for the folder, if this user may mount one: ext4, whose open files can become read-only."""
    folder.mkdir()
    image = folder.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(size)
    for command in (["mkfs.ext4", "-q", "-m", "0", image], ["mount", "-o", "loop", image, folder]):
        if (
            shutil.which(command[0]) is None
            or subprocess.run(command, capture_output=True, check=False).returncode
        ):
            pytest.skip("this user may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        image.unlink()


def traces_in(body):
    request = ExportTraceServiceRequest.FromString(body)
    return {
        span.trace_id.hex()
        for group in request.resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans
    }


class Setup:
    """A way to run the server: with a store in a file, and its other files, on a small disk.

    Attributes:
        options: Of the command line.
        faults: The possible faults: by name, a function of this object that returns a context manager.
        popen: Starts the server, as `subprocess.Popen` does.
    """

    options = ()

    popen = staticmethod(subprocess.Popen)

    def __init__(self, disk, endpoint, folder):
        self.disk, self.endpoint, self.folder = disk, endpoint, folder
        self.faults = {
            "killed": self.killed,
            "disk full": self.full,
            "store read-only": self.read_only,
            "store locked": self.locked,
            "refused for a while": lambda: self.refusing(503),
            "refused for good": lambda: self.refusing(400),
        }
        self._starts = 0
        self._context = None

    # --- the server

    def start(self):
        self._starts += 1
        self._context = serving(
            self.folder / f"start-{self._starts}",
            f"http://127.0.0.1:{self.endpoint.port}",
            *("--grace", "0", "--signal", "traces", *self.options),
            XDG_STATE_HOME=str(self.disk),
            OTEL_BSP_SCHEDULE_DELAY="100",
            popen=self.popen,
        )
        self.server = self._context.__enter__()

    def stop(self):
        if self._context is not None:
            context, self._context = self._context, None
            context.__exit__(None, None, None)

    def said(self):
        logs = sorted(self.folder.glob("start-*/log"))
        return "\n".join(path.read_text(errors="replace") for path in logs)

    def health(self):
        return httpx.get(f"{self.server.http}/healthz", timeout=PATIENCE_S).json()

    def send(self, numbers):
        """Send requests once; return the traces of those that were acknowledged."""
        taken = set()
        with httpx.Client(headers=PROTOBUF, timeout=PATIENCE_S) as client:
            for number in numbers:
                body, trace = traced_as(number)
                with suppress(httpx.HTTPError):
                    answer = client.post(f"{self.server.http}/v1/traces", content=body)
                    assert answer.status_code in (200, 503), answer.text
                    if answer.status_code == 200:
                        taken.add(trace)
                    else:
                        assert int(answer.headers["Retry-After"]) > 0
        return taken

    def found(self):
        """Return the traces in the store, which must not contain any twice."""
        with closing(sqlite3.connect(self.disk / "ragmeter" / "serve.db")) as database:
            traces = [trace for (trace,) in database.execute("SELECT lower(hex(trace_id)) FROM request")]
        assert len(traces) == len(set(traces))
        return set(traces)

    # --- what goes wrong

    def kill(self):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait(PATIENCE_S)

    @contextmanager
    def killed(self):
        self.kill()
        yield
        self.stop()
        self.start()

    @contextmanager
    def full(self):
        filler = self.disk / "filler"
        room = os.statvfs(self.disk)
        with filler.open("wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - (1 << 16))
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0")
        yield
        filler.unlink()

    @contextmanager
    def read_only(self):
        """Make the files read-only for all, even for root, who has them open."""
        # Except SQLite's memory: a process that writes there is killed.
        files = [path for path in self.disk.glob("**/*.db*") if path.suffix != ".db-shm"]
        files = [path for path in files if path.is_file()]
        subprocess.run(["chattr", "+i", *files], check=True)
        try:
            yield
        finally:
            subprocess.run(["chattr", "-i", *files], check=True)

    @contextmanager
    def locked(self):
        with closing(sqlite3.connect(self.disk / "ragmeter" / "serve.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    @contextmanager
    def refusing(self, status):
        before, self.endpoint.answers = self.endpoint.answers, iter(lambda: status, None)
        yield
        if status == 400:  # all of it was refused by now
            until(lambda: self.health().get("unsent"))
        self.endpoint.answers = before


class SpoolAlone(Setup):
    """Without a store: found requests are at the endpoint, where repeated ones have the same ids."""

    def __init__(self, disk, endpoint, folder):
        super().__init__(disk, endpoint, folder)
        self.options = ("--no-store", "--spool", str(disk / "spool"))
        del self.faults["store locked"]  # nobody else can open it

    def found(self):
        return set().union(*map(traces_in, self.endpoint.bodies))


@contextmanager
def set_up(kind, tmp_path, *arguments, size=16 << 20, popen=subprocess.Popen):
    with small_disk(tmp_path / "disk", size) as disk, Endpoint() as endpoint:
        setup = kind(disk, endpoint, tmp_path, *arguments)
        setup.popen = popen
        try:
            yield setup
        finally:
            setup.stop()


def holds(setup, fault):
    """Try one cell: acknowledged requests, before, during and after, are found, or the operator is warned."""
    if fault not in setup.faults:
        pytest.skip("cannot happen there")
    setup.start()
    acknowledged = setup.send(range(1, 1 + BATCH))
    assert acknowledged, setup.said()
    with setup.faults[fault]():
        acknowledged |= setup.send(range(101, 101 + BATCH))
        if fault in ("disk full", "store read-only"):
            until(lambda: setup.health()["status"] != "ok", what="its operator is not told")
    wanted = {traced_as(number)[1] for number in (*range(101, 101 + BATCH), 201)}

    def come_again():
        nonlocal acknowledged
        missing = [n for n in (*range(101, 101 + BATCH), 201) if traced_as(n)[1] not in acknowledged]
        acknowledged |= setup.send(missing)
        return acknowledged >= wanted

    until(come_again, what="senders are not let in again")
    until(lambda: setup.health()["status"] == "ok")
    lost = setup.health()["unsent"].get("traces", 0)
    if fault == "refused for good":
        assert lost

        def missing():
            return acknowledged - set().union(*map(traces_in, setup.endpoint.bodies))

        until(lambda: all(trace in setup.said() for trace in missing()), what="lost and not named")
        assert missing()
    else:
        assert not lost
        until(lambda: setup.found() >= acknowledged, what=f"{fault}: acknowledged and not found")
    setup.stop()
    if fault != "refused for good":
        assert setup.found() >= acknowledged


def begins(setup, fault):
    """Try the cell at a start: the server keeps its acknowledged requests, or ends with the reason."""
    if fault not in setup.faults or fault in ("killed", "refused for good"):
        pytest.skip("cannot happen there")  # or is irrelevant to a start
    setup.start()
    acknowledged = setup.send(range(1, 1 + BATCH))
    assert acknowledged, setup.said()
    setup.kill()
    setup.stop()
    with setup.faults[fault]():
        try:
            setup.start()
        except AssertionError as ended:
            assert REASON.search(str(ended)), ended  # noqa: PT017 -- or it starts
        else:
            assert setup.health()["durable"]
            acknowledged |= setup.send(range(101, 101 + BATCH))
            setup.kill()
            setup.stop()
    setup.start()
    until(lambda: setup.found() >= acknowledged, what=f"{fault}: acknowledged and not found")
