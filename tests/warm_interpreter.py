"""Programs in processes of their own, forked from an interpreter that has imported the frameworks already.

Importing them is most of what a short program costs.  Each program is a fork that becomes `__main__`, with its own
environment, folder and streams, and ends as every program does.  Of no use where the start itself is the matter:
variables that the interpreter reads, and what is imported when.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["WarmInterpreter", "plain_environment"]

_SERVER = """
import gc, json, os, sys, threading
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
for number, path in enumerate((os.devnull, program["out"], program["err"])):
    opened = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, number)
    os.close(opened)
sys.argv[:] = ["-c", *program["arguments"]]
exec(compile(program["code"], "<string>", "exec"), {"__name__": "__main__"})
"""


def plain_environment() -> dict[str, str]:
    """Return the environment without what configures OpenTelemetry, a model, a backend or ragmeter."""
    prefixes = ("OPENAI_", "OTEL_", "PHOENIX_", "RAGMETER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


class WarmInterpreter:
    """An isolated interpreter after some preparation, and the programs that it forks into, one at a time."""

    def __init__(self, preparation: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-Ic", _SERVER, preparation],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        code: str,
        *arguments: str,
        cwd: Path | None = None,
        env: dict[str, str],
        timeout: float = 100,
    ) -> "subprocess.CompletedProcess[str]":
        """Run `code` as `python -Ic` would, and return what it wrote and how it ended."""
        with TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            program = {
                "code": code,
                "arguments": arguments,
                "folder": str(cwd or Path.cwd()),
                "environment": env,
                "out": str(out),
                "err": str(err),
            }
            self._server.stdin.write(json.dumps(program) + "\n")
            self._server.stdin.flush()
            pid = int(self._server.stdout.readline())
            patience = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            patience.start()
            code = int(self._server.stdout.readline())
            patience.cancel()
            return subprocess.CompletedProcess(
                arguments, code, *(one.read_text("utf-8", "replace") for one in (out, err))
            )

    def close(self) -> None:
        """End the interpreter."""
        self._server.communicate(timeout=60)
