"""A server in a separate process, and its senders over HTTP and gRPC, which record the responses."""

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
    """The server: with a store and a spool in a folder, at given or free ports, to be ended, or killed."""

    def __init__(self, folder, *arguments, ports=(0, 0)):
        self.process = subprocess.Popen(
            [sys.executable, SERVER, folder, *map(str, ports), *arguments], stdout=subprocess.PIPE, text=True
        )
        ports = self.process.stdout.readline().split()
        assert len(ports) == 2, "it did not start"
        self.http, self.grpc = f"http://127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"

    def memory_mb(self):
        """Return its current resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = [line for line in status if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def health(self):
        return httpx.get(f"{self.http}/healthz", timeout=PATIENCE_S).json()

    def end(self, number=signal.SIGTERM):
        """Send it the signal; return its final output."""
        self.process.send_signal(number)
        said = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(PATIENCE_S)
        return said.strip()


class Bodies:
    """Endless requests, each with its own trace: others' to be scored, and ragmeter's scored ones."""

    def __init__(self, runs):
        (self._spans, _) = told(runs[:1])
        self._whole = self._spans.SerializeToString()

    def foreign(self, number):
        """Return one that is to be scored."""
        return traced_as(number)[0]

    def scored(self, number):
        """Return one that ragmeter has scored elsewhere."""
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
    """Sends continuously; rejected requests are repeated until they are acknowledged, or all ends.

    Args:
        way: Context manager of a function that sends a body and returns whether it was acknowledged; it
            raises `GoneError` when the server is gone.
        body: Creates one, from a number.
        numbers: Its numbers.

    Attributes:
        acknowledged: The numbers of acknowledged requests.
        under_way: The number of the one that may or may not have arrived, or None.
        refused: Number of requests to retry.
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
    """The server no longer responds."""


@contextmanager
def over_http(url):
    """Yield a function that sends by HTTP; a rejection has the time to retry."""

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
    """Yield a function that sends by gRPC, likewise."""

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
