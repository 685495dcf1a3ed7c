"""`ragmeter serve` as a separate process, started like by a user."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import listening_addresses, wait_until

LINE = re.compile(r"OTLP/HTTP on (http://127\.0\.0\.1:\d+), OTLP/gRPC on (127\.0\.0\.1:\d+)")


@dataclass
class Server:
    """A running `ragmeter serve`."""

    process: subprocess.Popen
    log: Path
    http: str
    """Its address for OTLP over HTTP, in the form of OTEL_EXPORTER_OTLP_ENDPOINT."""
    grpc: str
    """Its address for OTLP over gRPC: host and port."""

    def drain(self):
        """End it like an orchestrator, and return its exit code: pending requests are scored and sent."""
        self.process.terminate()
        return self.process.wait(120)


@contextmanager
def serving(folder, scores_to, *options, popen=subprocess.Popen, **variables):
    """Run `ragmeter serve` on ports that it chooses until the block ends; enter it when it listens.

    Args:
        folder: An empty folder for its log.
        scores_to: The destination of its scores, over HTTP.
        options: More of its command line.
        popen: Starts it.
        variables: More of its environment.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ours = ("OTEL_", "RAGMETER_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    env |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": scores_to,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        **variables,
    }
    log = folder / "log"
    command = [sys.executable, "-m", "ragmeter", "serve", "--http-port", "0"]
    with log.open("wb") as output:
        process = popen([*command, "--grpc-port", "0", *options], stdout=output, stderr=output, env=env)

    def told():
        assert process.poll() is None, f"ragmeter serve ended:\n{log.read_text()[-4000:]}"
        return LINE.search(log.read_text(errors="replace"))

    try:
        http, grpc = wait_until(told, 120, "ragmeter serve does not say where it listens").groups()
        assert all(address.is_loopback for address, _ in listening_addresses(process.pid))
        yield Server(process, log, http, grpc)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
