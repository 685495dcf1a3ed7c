"""A private Redis on a free port of 127.0.0.1, stopped by its process id."""

import os
import shutil
import signal
import socket
import subprocess

import pytest
from processes import free_port, listening_addresses, wait_until


class RedisServer:
    """A Redis that can hang, die, and restart empty."""

    def __init__(self, folder, *options):
        self._program = shutil.which("redis-server") or pytest.skip(
            "no redis-server found; .ci/services installs it"
        )
        self._folder = folder
        self._options = options
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process = None
        self.start()

    def start(self):
        """Start it, without data."""
        command = [self._program, "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--save", "", "--appendonly", "no", *self._options]
        with (self._folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        wait_until(self._answers, 60, "redis-server does not listen")
        addresses = listening_addresses(self.process.pid)
        assert addresses
        assert all(address.is_loopback for address, _ in addresses)

    def _answers(self):
        assert self.process.poll() is None, (self._folder / "redis.log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def hang(self):
        """Suspend it, with open connections and no answers, until `go_on`."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        """Let it answer again."""
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        """Kill it, with all its data."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """End it, in whatever state it is."""
        if self.process.poll() is None:
            self.kill()
