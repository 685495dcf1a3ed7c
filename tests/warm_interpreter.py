"""Programs in separate processes, forked from an interpreter that has already imported the frameworks.

Importing them is most of the cost of a short program. Each program is a fork that becomes `__main__`, with
its own environment, folder and streams. It ends as every program does, threads joined and exit functions run,
except that modules are not torn down, which would cost as much as the program. Not for tests of the start
itself: variables that the interpreter reads, and the order of imports.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Program", "WarmInterpreter"]

_SERVER = """
import atexit, gc, json, os, sys, threading
exec(sys.argv[1], {})
gc.freeze()
assert threading.active_count() == 1  # a fork has one thread only
for line in os.fdopen(os.dup(0)):
    pid = os.fork()
    if not pid:
        break
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
program = json.loads(line)
os.chdir(program["folder"])
os.environ.clear()
os.environ.update(program["environment"])
for number, path in enumerate(program["streams"]):
    opened = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, number)
    os.close(opened)
sys.argv[:] = ["-c", *program["arguments"]]
try:
    exec(compile(program["code"], "<string>", "exec"), {"__name__": "__main__"})
    status = 0
except SystemExit as ending:
    status = ending.code or 0
    if not isinstance(status, int):
        raise
threading._shutdown()
atexit._run_exitfuncs()
for stream in (sys.stdout, sys.stderr):
    stream.flush()
os._exit(status)
"""


class WarmInterpreter:
    """An isolated interpreter after some preparation, and the programs into which it forks, one at a time."""

    def __init__(self, preparation: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-Ic", _SERVER, preparation],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(
        self,
        code: str,
        *arguments: str,
        cwd: Path,
        env: dict[str, str],
        stdin: str = os.devnull,
        stderr: "Path | None" = None,
    ) -> "Program":
        """Start `code` like `python -Ic`."""
        folder = Path(tempfile.mkdtemp(prefix="warm-"))
        program = {
            "code": code,
            "arguments": arguments,
            "folder": str(cwd),
            "environment": env,
            "streams": [stdin, str(folder / "out"), str(stderr or folder / "err")],
        }
        self._server.stdin.write(json.dumps(program).encode() + b"\n")
        return Program(int(self._server.stdout.readline()), arguments, folder, self._server.stdout)

    def close(self) -> None:
        """End the interpreter."""
        self._server.communicate(timeout=60)


@dataclass
class Program:
    """A program that runs, or has ended; with methods of `subprocess.Popen`."""

    pid: int
    arguments: Sequence[str]
    folder: Path
    replies: IO[bytes]
    returncode: "int | None" = None

    def wait(self, timeout: "float | None" = None) -> int:
        """Wait for its end and return the exit code."""
        if self.returncode is None:
            if not select.select([self.replies], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.arguments, timeout)
            self.returncode = int(self.replies.readline())
        return self.returncode

    def poll(self) -> "int | None":
        """Return the exit code if it has ended, else None."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Terminate it, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def end(self, timeout: float = 100) -> "subprocess.CompletedProcess[str]":
        """Wait for its end, and return its output and exit code."""
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        status = self.wait()
        written = [(self.folder / name).read_text("utf-8", "replace") for name in ("out", "err")]
        shutil.rmtree(self.folder)
        return subprocess.CompletedProcess(self.arguments, status, *written)
