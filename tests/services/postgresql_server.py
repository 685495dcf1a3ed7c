"""A private PostgreSQL server: its data in its own folder, reached only by a socket there."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import psycopg
import pytest

PATIENCE_S = 100.0


def programs():
    """Return the folder of the server's programs, which is not on Debian's PATH; None if not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


class PostgreSQL:
    """The server."""

    def __init__(self, folder):
        self.folder = folder
        self._programs = programs()
        # It refuses to run as root.
        self._as = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(folder, "postgres", "postgres")
        self._numbers = count(1)
        self._process = None
        subprocess.run(
            [
                self._programs / "initdb", "--pgdata", folder / "data", "--username", "tester", "--auth", "trust",
                "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync",
            ],
            check=True, capture_output=True, cwd=folder, **self._as,
        )  # fmt: skip
        self.start()

    def start(self):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder, "-h", "",
                        # A kill of its processes loses no data that the system was given to write.
                        "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "max_connections=60",
                    ],
                    stdout=log, stderr=log, cwd=self.folder, **self._as,
                )  # fmt: skip
            while self._process.poll() is None:
                if self.answers():
                    return
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.05)
            # The children of a killed one may not have ended yet.
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.1)

    def answers(self):
        try:
            return self.run("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    def address(self, name="postgres"):
        return f"postgresql://tester:hush-hush@/{name}?host={self.folder}"

    def run(self, statement, name="postgres"):
        """Return the result of a statement."""
        with psycopg.connect(host=str(self.folder), dbname=name, user="tester", autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def database(self):
        """Return the address of a new database."""
        name = f"one_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.address(name)

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def stop(self):
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE_S)


@pytest.fixture(scope="session")
def postgresql():
    """Yield one server for all tests."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="ragmeter-postgresql-"))
    server = PostgreSQL(folder)
    yield server
    server.stop()
    shutil.rmtree(folder)
