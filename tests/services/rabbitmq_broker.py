"""A private RabbitMQ on loopback: own folders, ports and name daemon; killed and restarted by tests."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from certificates import Certificates
from processes import free_port, wait_until

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
"""Debian's own scripts; the ones on the PATH run as root and as `rabbitmq` only."""


def installed():
    """Return whether this machine has a RabbitMQ and the name daemon of Erlang."""
    return (PROGRAMS / "rabbitmq-server").exists() and shutil.which("epmd") is not None


class Broker:
    """One node, with and without TLS. Its stored data survives `kill` and `start`.

    Args:
        folder: The folder of its files.
        asks: Whether it requires a certificate of TLS clients.
    """

    def __init__(self, folder: Path, *, asks=False) -> None:
        self.folder, self.port, self._epmd_port = folder, free_port(), free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"amqp://guest:guest@{self.host}//"
        self.certificates = Certificates(folder / "certificates")
        self.tls_port = free_port()
        self._process = self._epmd = None
        (folder / "home").mkdir(parents=True)
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlisteners.ssl.1 = 127.0.0.1:{self.tls_port}\n"
            f"ssl_options.cacertfile = {self.certificates.authority}\n"
            f"ssl_options.certfile = {self.certificates.server}\n"
            f"ssl_options.keyfile = {self.certificates.server_key}\n"
            f"ssl_options.verify = {'verify_peer' if asks else 'verify_none'}\n"
            f"ssl_options.fail_if_no_peer_cert = {str(asks).lower()}\nlog.console = false\n"
        )
        (folder / "enabled_plugins").write_text("[].\n")
        ours = ("RABBITMQ_", "ERL_")
        self._env = {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {
            "HOME": str(folder / "home"),
            "RABBITMQ_NODENAME": f"ragmeter{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the node, and its id the node's
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
        }

    def start(self, *, wait=True):
        """Start the node, and by default wait until it accepts connections."""
        if self._epmd is None:
            self._epmd = subprocess.Popen(
                ["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)], env=self._env
            )
        with (self.folder / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAMS / "rabbitmq-server"],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            self.wait_ready()

    def wait_ready(self):
        """Wait until the node answers the first words of the protocol."""
        wait_until(self._answers, 120, f"RabbitMQ does not answer, see {self.folder}/node.log")

    def _answers(self):
        assert self._process.poll() is None, (self.folder / "node.log").read_text()[-4000:]
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as probe:
                probe.settimeout(30)
                probe.sendall(b"AMQP\0\0\x09\x01")
                return bool(probe.recv(1))
        except OSError:
            return False

    def kill(self):
        """Kill the node like a power failure would, with its list of quorum queues on the disk.

        RabbitMQ 3.10 writes that list some time after a queue was declared. If killed before, it restarts
        with an empty queue of the same name and no leader for it: a fault of its own that these tests do not
        cover.
        """
        self.ctl("eval", "dets:sync(ra_directory_reverse).")
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self):
        """End the node like an operator who stops it."""
        self._process.terminate()
        self._process.wait(120)

    @contextmanager
    def paused(self):
        """Suspend the node: it keeps its connections and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def memory_alarm(self):
        """Raise the node's memory alarm: it accepts connections and confirms no publishing."""
        self.ctl("set_vm_memory_high_watermark", "0.00001")
        try:
            yield
        finally:
            self.ctl("set_vm_memory_high_watermark", "0.6")

    def ctl(self, *words):
        """Run `rabbitmqctl` and return what it prints."""
        done = subprocess.run(
            [PROGRAMS / "rabbitmqctl", "--quiet", *words],
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    def stop(self):
        """End the node and the name daemon."""
        for process in (self._process, self._epmd):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """Yield one node for all tests of the run."""
    if not installed():
        pytest.skip("no RabbitMQ found; .ci/services installs it")
    running = Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        running.start()
        yield running
    finally:
        running.stop()
