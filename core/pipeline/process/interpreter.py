"""Choose the interpreter, arguments and environment of the worker process.

The worker is a fresh interpreter, so that the application's main module is not run again, and an isolated
one, so that no environment variable instruments it.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path

from ragmeter.metrics import ConfigurationError

__all__ = ["command", "environment", "find_interpreter"]

_BOOTSTRAP = """
import pickle, socket, sys
end = socket.socket(fileno=int(sys.argv[1]))
def read(size):
    data = b""
    while len(data) < size:
        part = end.recv(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data
sys.path[:] = pickle.loads(read(int.from_bytes(read(4), "big")))
from ragmeter.pipeline.process.serving import serve
serve(end, int(sys.argv[2]))
"""

_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]*")


def find_interpreter() -> str:
    """Return the path of the Python that runs this process, also if it is embedded.

    Raises:
        ConfigurationError: No interpreter was found.
    """
    if not hasattr(os, "fork"):  # Windows: sockets cannot be handed to a process as files are
        raise ConfigurationError(
            "scoring='process' is not supported on this platform; keep scoring='thread'"
        )
    from multiprocessing import spawn  # noqa: PLC0415 -- only where a process is wanted

    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    chosen = os.fsdecode(spawn.get_executable() or "")
    if chosen and chosen != sys.executable and os.access(chosen, os.X_OK):
        return chosen  # named by multiprocessing.set_executable
    folders = [sysconfig.get_path("scripts")]
    folders += [str(Path(prefix, "bin")) for prefix in (sys.exec_prefix, sys.base_exec_prefix)]
    for path in (sys.executable or "", *(str(Path(folder, name)) for folder in folders)):
        # An application server that embeds Python, or a frozen program, has its own name here.
        if _PYTHON.fullmatch(Path(path).name) and os.access(path, os.X_OK):
            return path
    raise ConfigurationError(
        "scoring='process' finds no Python interpreter to start (sys.executable is "
        f"{sys.executable!r}); name it: multiprocessing.set_executable('/usr/bin/{name}')"
    )


def command(interpreter: str, channel: int, progress: int) -> list[str]:
    """Return the command line of a worker, given the file descriptors of its socket and its pipe."""
    options = ["-I"]
    if sys.flags.dont_write_bytecode or sys.dont_write_bytecode:
        options.append("-B")
    if sys.flags.utf8_mode:
        options += ["-X", "utf8"]
    return [interpreter, *options, "-c", _BOOTSTRAP, str(channel), str(progress), "ragmeter-worker"]


def environment() -> dict[str, str]:
    """Return the application's environment with telemetry of the worker switched off."""
    return {**os.environ, "OTEL_SDK_DISABLED": "true", "RAGMETER_ENABLED": "false"}
