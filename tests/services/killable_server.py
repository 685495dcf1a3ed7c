"""`ragmeter serve` as an object, in a process of its own: ``killable_server.py FOLDER HTTP_PORT GRPC_PORT [SLOW]``.

It stores scored requests in the folder; with SLOW each request takes a twentieth of a second as long as the
file ``slow`` exists, and the trace ids of scored requests are written to ``scored.txt``, one a line.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from ragmeter import RagMeter
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve.store import StoreOptions

MB = 1_000_000


class Slow:
    """An exporter with a delay."""

    def __init__(self, folder):
        self._flag, self._file = folder / "slow", (folder / "scored.txt").open("a")

    def export(self, batch):
        for one in batch:
            if self._flag.exists():
                time.sleep(0.05)
            self._file.write(f"{one.run.trace_id:032x}\n")
            self._file.flush()

    def flush(self, timeout_s):
        return True

    def shutdown(self, timeout_s):
        self._file.close()


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main():
    folder, slow = Path(sys.argv[1]), len(sys.argv) > 4
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    for name in [name for name in os.environ if name.startswith(("OTEL_", "RAGMETER_"))]:
        del os.environ[name]
    meter = RagMeter(exporters=[Slow(folder)]) if slow else None
    server = Server(
        ServeOptions(
            http_port=int(sys.argv[2]),
            grpc_port=int(sys.argv[3]),
            grace_s=0.0,
            max_held_bytes=4 * MB if slow else 256 * MB,
            store=StoreOptions(path=folder / "serve.db"),
            settle_s=0.1,
            token="",
        ),
        meter=meter,
    )
    server.start()
    say(server.http_port, server.grpc_port)
    while not ending.wait(1.0):
        pass
    say(server.stop(60.0))
    if meter is not None:
        meter.shutdown(60.0)


if __name__ == "__main__":
    main()
