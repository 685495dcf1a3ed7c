"""A server in a process of its own, and those who send to it, over HTTP and gRPC, and keep account of the answers."""

import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from served import PATIENCE_S, traced_as
from stored import told

PROTOBUF = {"Content-Type": "application/x-protobuf"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SERVER = Path(__file__).with_name("killable_server.py")


class Child:
    """The server: with a store and a spool in a folder, at ports or where there is room, to be ended, or killed."""

    def __init__(self, folder, *arguments, ports=(0, 0)):
        self.process = subprocess.Popen(
            [sys.executable, SERVER, folder, *map(str, ports), *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        ports = self.process.stdout.readline().split()
        assert len(ports) == 2, "it did not start"
        self.http, self.grpc = f"http://127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"

    def memory_mb(self):
        """What it has in memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = [line for line in status if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def health(self):
        return httpx.get(f"{self.http}/healthz", timeout=PATIENCE_S).json()

    def end(self, number=signal.SIGTERM):
        """Send it the signal; return what it said at its end."""
        self.process.send_signal(number)
        said = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(PATIENCE_S)
        return said.strip()


class Bodies:
    """Requests without end, each of its own trace: of others, to be scored, and scored ones of ragmeter's."""

    def __init__(self, runs):
        (self._spans, _) = told(runs[:1])
        self._whole = self._spans.SerializeToString()

    def foreign(self, number):
        """One that is to be scored."""
        return traced_as(number)[0]

    def scored(self, number):
        """One that ragmeter elsewhere has scored."""
        request = type(self._spans).FromString(self._whole)
        for group in request.resource_spans:
            for scoped in group.scope_spans:
                for span in scoped.spans:
                    span.trace_id = number.to_bytes(16, "big")
                    for item in span.attributes:
                        if item.key == "ragmeter.run_id":
                            item.value.string_value = f"run-{number}"
        return request.SerializeToString()


class Sender:
    """Sends, at once after each answer; what was refused comes again until it is acknowledged, or all ends.

    Args:
        way: Gives what sends a body, which returns whether it was acknowledged, and raises `GoneError` when nobody
            answers.
        body: Makes one, of a number.
        numbers: Its own.

    Attributes:
        acknowledged: The numbers of those that were.
        under_way: The number of the one that may have come and may not; None: there is none.
        refused: How often it was asked to come again.
    """

    def __init__(self, way, body, numbers):
        self._way, self._body, self._numbers = way, body, iter(numbers)
        self.acknowledged = set()
        self.under_way = None
        self.refused = 0
        self.failure = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    @property
    def offered(self):
        return len(self.acknowledged) + self.refused

    def end(self):
        self.ended.set()
        self.thread.join(PATIENCE_S)
        assert self.failure is None, self.failure

    def _run(self):
        try:
            with self._way as send:
                while not self.ended.is_set():
                    self._send_one(send)
        except GoneError:
            pass
        except BaseException as error:
            self.failure = error
            raise

    def _send_one(self, send):
        number = self.under_way = next(self._numbers)
        body = self._body(number)
        while not self.ended.is_set():
            if send(body):
                self.acknowledged.add(number)
                self.under_way = None
                return
            self.refused += 1


class GoneError(Exception):
    """Nobody answers any more."""


@contextmanager
def over_http(url):
    """Sends by HTTP; who is refused is told when to come again."""

    def send(body):
        try:
            answer = client.post(f"{url}/v1/traces", content=body)
        except httpx.HTTPError as error:
            raise GoneError from error
        if answer.status_code == 200:
            return True
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        return False

    with httpx.Client(headers=PROTOBUF, timeout=PATIENCE_S) as client:
        yield send


@contextmanager
def over_grpc(address):
    """Sends by gRPC, likewise."""

    def send(body):
        answer = call.future(body, timeout=PATIENCE_S)
        if answer.exception() is None:
            return True
        if answer.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            raise GoneError
        assert answer.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        status = Status.FromString(dict(answer.trailing_metadata())["grpc-status-details-bin"])
        hint = RetryInfo()
        assert status.details[0].Unpack(hint)
        assert hint.retry_delay.seconds > 0
        return False

    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(EXPORT)
        yield send
