"""Runs a user's program unchanged, after calling one function before its first line.

The program replaces this process, so process id, signals, terminal, output and exit status are the program's.
The function takes no arguments and is named ``module:function``; `startup` calls it in that process, and in
Python processes that it starts. Nothing is printed here.

In our process (`runpy`) the program would see loaded modules, another ``__main__`` and our frames; as a child,
it would need signals and terminal passed on.  At its end no module may be imported that starts threads or
registers exit functions, such as the SDK's.  A killed program gets no report.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from ragmeter.metrics import ConfigurationError

STARTUP = "RAGMETER_STARTUP"
"""The variable with the functions to call, separated by commas."""
_PROCESS = "_RAGMETER_PROGRAM"
"""The variable with the process id of the program, which others inherit."""
_FOLDER = Path(__file__).parent / "startup"
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_PYTHON = re.compile(r"python[\d.]*(\.exe)?")
_WITHOUT = re.compile(r"-[bBdiOPqsuvx]*[EIS]")
"""Options by which Python reads no variables, or imports no `sitecustomize`."""
_CALL = """\
import asyncio, functools, importlib, inspect, sys
del sys.argv[0]
module, _, names = sys.argv[0].partition(":")
made = functools.reduce(getattr, names.split("."), importlib.import_module(module))()
made = asyncio.run(made) if inspect.iscoroutine(made) else made
sys.exit(made if isinstance(made, int) else None)
"""


def program_command(target: str, arguments: Sequence[str] = (), *, is_module: bool = False) -> list[str]:
    """Return the command that runs a program as its user would.

    Args:
        target: A Python file, a folder or archive with ``__main__.py``; a function of no arguments as
            ``module:function``, which may be asynchronous; or a command such as ``uvicorn``, on the path
            or in this environment.
        arguments: The program's arguments.
        is_module: The target is a module, to be run as ``python -m`` does.

    Raises:
        ConfigurationError: There is no such program.
    """
    if is_module:
        return [sys.executable, "-m", target, *arguments]
    path = Path(target)
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise ConfigurationError(f"{target} is a folder without __main__.py; name a file in it")
    is_python = path.is_dir() or path.suffix in (".py", ".pyw", ".pyz")
    if path.exists() and (is_python or not os.access(path, os.X_OK)):
        return [sys.executable, target, *arguments]
    if path.exists():
        return [str(path.absolute()), *arguments]
    if _CALLABLE.fullmatch(target):
        return [sys.executable, "-c", _CALL, target, *arguments]
    command = shutil.which(target) or shutil.which(target, path=str(Path(sys.executable).parent))
    if command is not None:
        return [command, *arguments]
    folder = path.parent if path.parent.is_dir() else Path()
    near = get_close_matches(path.name, [one.name for one in folder.glob("*.py")], 1)
    raise ConfigurationError(
        f"{target}: no such file or command"
        + (f"; did you mean {folder / near[0]}?" if near else "; pass app.py or module:function")
    )


def become_program(
    command: Sequence[str], startup: str, environment: Mapping[str, str] | None = None
) -> NoReturn:
    """Replace this process by the program.

    Args:
        command: The result of `program_command`.
        startup: The function to call before the program's first line, as ``module:function``.
        environment: Variables to set for it.

    Raises:
        ConfigurationError: The command cannot be run, or not with ragmeter.
    """
    if _PYTHON.fullmatch(Path(command[0]).name):
        for option in filter(_WITHOUT.match, takewhile(lambda one: one.startswith("-"), command[1:])):
            raise ConfigurationError(f"python {option}: Python starts without ragmeter; leave it out")
    given = os.environ.copy()
    paths = [str(_FOLDER), *filter(None, [given.get("PYTHONPATH")])]
    begun = [*filter(None, [given.get(STARTUP)]), startup]
    given |= {**(environment or {}), "PYTHONPATH": os.pathsep.join(paths), STARTUP: ",".join(begun)}
    given[_PROCESS] = str(os.getpid())
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        if sys.platform == "win32":  # on a system where a process cannot be replaced
            sys.exit(subprocess.call(command, env=given))  # noqa: S603 -- the user's own command
        os.execve(command[0], list(command), given)  # noqa: S606 -- likewise
    except OSError as error:
        raise ConfigurationError(f"{command[0]} cannot be run: {error.strerror}") from None
