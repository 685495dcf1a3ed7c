"""The shell for the commands of the pages: a folder for each page, and stand-ins for unavailable programs.

`Shell` runs a page's blocks with ``bash -e``, one after the other, as their reader would. On its PATH this
same file runs under the names of `STAND_INS`: ``python3 -m venv`` makes an environment that is this one,
``pip`` checks that its arguments are existing distributions or extras, ``ragmeter``, ``gunicorn`` and
``opentelemetry-instrument`` are the real ones. Servers continue to run once they have answered, are ended
with their page by their process id, and must then exit without an error.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = ("python", "python3", "pip", "ragmeter", "gunicorn", "opentelemetry-instrument", "make")
PATIENCE_S = 60.0
"""Seconds within which a server must answer, and end."""
SERVED = re.compile(r"(?:HTTP on|Listening at:) https?://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)")
WORKS = "until SIGTERM or Ctrl-C"
APPLICATION = """
from ragmeter import RagMeter

meter = RagMeter.from_env()
with meter.request("When does the ferry leave?") as request:
    request.retrieved(["The ferry to the island leaves at seven."])
    request.answered("The ferry leaves at seven.")
meter.flush(30)


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"well"]
"""
"""Content of ``app.py`` for pages that do not show one."""


class Shell:
    """The shell of one page.

    Args:
        folder: The page's working folder; empty except for the files that it mentions.
        ports: Replacements of OTLP's, 4318 and 4317, which may be in use.
        judge: Address of the stand-in for an OpenAI-compatible endpoint.
        names: Addresses and places of the pages, and their replacements here.
    """

    def __init__(self, folder: Path, ports: tuple[int, int], judge: str, names: dict[str, str]) -> None:
        self._folder = folder
        self._names = {**names, "4318": str(ports[0]), "4317": str(ports[1])}
        (folder / "app.py").write_text(APPLICATION, "utf-8")
        self._state = folder / ".state"
        self._state.mkdir()
        _fill(self._state / "bin")
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("RAGMETER_", "OTEL_", "OPENAI_", "PYTHON"))
        }
        self._environment = {
            **kept,
            "PATH": f"{self._state / 'bin'}{os.pathsep}{os.defpath}",
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "RAGMETER": str(ROOT),
            "DOCUMENTED_STATE": str(self._state),
            "DOCUMENTED_PORTS": json.dumps(ports),
            "DOCUMENTED_JUDGE": judge,
        }

    def run(self, code: str, keys: str = "") -> str:
        """Run a block; return its errors, or an empty text.

        Args:
            code: The page's text.
            keys: The reader's input.
        """
        for name, here in self._names.items():
            code = here.join(re.split(rf"(?<!\d){re.escape(name)}(?!\d)", code))
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", code],
            cwd=self._folder,
            env=self._environment,
            input=keys,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE_S,
            check=False,
        )
        if done.returncode == 0:
            return ""
        return f"{code}\nexit code {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}"

    def close(self) -> list[str]:
        """End servers, the last one first; return the errors of their ends."""
        wrong = []
        for pid in sorted(self._state.glob("*.pid"), key=lambda one: -one.stat().st_mtime_ns):
            ended = pid.with_suffix(".ended")
            if not ended.exists():
                os.kill(int(pid.read_text()), signal.SIGTERM)
            until = time.monotonic() + PATIENCE_S
            while not (ended.exists() and ended.read_text()) and time.monotonic() < until:
                time.sleep(0.05)
            told = pid.with_suffix(".log").read_text("utf-8", "replace")
            code = ended.read_text().strip() if ended.exists() else "none"
            if code != "0":
                wrong.append(f"{pid.stem} ended with {code}\n{told[-2500:]}")
        return wrong


def _fill(folder: Path) -> None:
    """Write the stand-ins into a folder of programs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in STAND_INS:
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P {shlex.quote(__file__)} {name} "$@"\n'
        )
        program.chmod(0o755)


def _fail(why: str) -> NoReturn:
    sys.stderr.write(f"{why}\n")
    raise SystemExit(90)


def _become(program: str, arguments: list[str]) -> NoReturn:
    path = Path(sys.executable).with_name(program)
    os.execv(path, [str(path), *arguments])


def _python(arguments: list[str]) -> None:
    """Run as Python; ``-m venv`` creates an environment with this one's packages, at once."""
    if arguments[:2] == ["-m", "venv"]:
        _fill(Path(arguments[2]) / "bin")
        return
    os.environ["OPENAI_API_KEY"] = "sk-none"
    _become("python", arguments)


def _known_distributions() -> set[str]:
    """Return the names of all distributions that this repository installs, in CI or for a benchmark."""
    places = [ROOT / "pyproject.toml", ROOT / "benchmarks/peers.toml", *ROOT.glob(".ci/*")]
    text = "\n".join(place.read_text("utf-8") for place in places if place.is_file())
    return {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"[\w.-]+", text)}


def _pip(arguments: list[str]) -> None:
    """Check that the packages to install exist; build those that are to be built."""
    from packaging.requirements import Requirement

    own = "ragmeter-otel"
    told = importlib.metadata.metadata(own)
    version, extras = told["Version"], set(told.get_all("Provides-Extra") or ())
    command, *rest = arguments
    if command == "wheel":
        folder = Path(rest[rest.index("--wheel-dir") + 1])
        if not (Path(rest[-1]) / "pyproject.toml").exists():
            _fail(f"pip wheel {rest[-1]}: not a checkout")
        folder.mkdir(exist_ok=True)
        (folder / f"{own.replace('-', '_')}-{version}-py3-none-any.whl").touch()
        return
    if command != "install":
        _fail(f"pip {command}: not expected")
    wanted = [word for word in rest if not word.startswith("-")]
    for one in wanted:
        requirement = Requirement(one)
        if requirement.name == own:
            unknown = requirement.extras - extras
            if unknown:
                _fail(f"pip install {one}: no extra {unknown}")
        elif requirement.name not in _known_distributions():
            _fail(f"pip install {one}: nothing of ours installs that, is it the right name?")
        if requirement.url:
            place = Path(requirement.url.removeprefix("file://"))
            wheel = re.fullmatch(r".*/ragmeter_otel-(.*)-py3-none-any\.whl", str(place))
            if wheel and wheel[1] != version:
                _fail(f"pip install {one}: this is version {version}")
            if not wheel and not (place / "pyproject.toml").exists():
                _fail(f"pip install {one}: not a checkout")
    if not wanted:
        _fail("pip install: nothing to install")


def _ragmeter(arguments: list[str]) -> None:
    """Run as ``ragmeter``, on the page's ports if it serves."""
    if "--judge-model" in arguments or "RAGMETER_JUDGE_MODEL" in os.environ:
        os.environ |= {"OPENAI_BASE_URL": os.environ["DOCUMENTED_JUDGE"], "OPENAI_API_KEY": "sk-none"}
    if arguments[0] == "serve":
        before = len(list(Path(os.environ["DOCUMENTED_STATE"]).glob("serve-*.pid")))
        http, grpc = (0, 0) if before else json.loads(os.environ["DOCUMENTED_PORTS"])
        arguments += ["--http-port", str(http), "--grpc-port", str(grpc)]
        if "--store" not in arguments:
            arguments += ["--store", f"served-{before}.db"]
        _leave_running("serve", "ragmeter", arguments, "/healthz")
    elif arguments[0] == "worker":
        _leave_running("worker", "ragmeter", arguments, "")
    elif "--page" in arguments:
        _leave_running("page", "ragmeter", arguments, "/healthz")
    else:
        _become("ragmeter", arguments)


def _gunicorn(arguments: list[str]) -> None:
    """Run as gunicorn, with fewer workers, on a separate port."""
    fewer = ["1" if before == "-w" else word for before, word in zip(["", *arguments], arguments)]  # noqa: B905
    _leave_running("gunicorn", "gunicorn", ["--bind", "127.0.0.1:0", *fewer], "/")


def _leave_running(name: str, program: str, arguments: list[str], path: str) -> None:
    """Start a server, wait until it answers (without a path: reports that it works), and leave it running."""
    state = Path(os.environ["DOCUMENTED_STATE"])
    base = state / f"{name}-{len(list(state.glob('*.pid')))}"
    real = str(Path(sys.executable).with_name(program))
    script = 'sh -c \'echo $$ >"$0.pid"; exec "$@"\' "$0" "$@" >"$0.log" 2>&1; echo $? >"$0.ended"'
    subprocess.Popen(
        ["sh", "-c", script, str(base), real, *arguments],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path.cwd())},
    )
    log, until = base.with_suffix(".log"), time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        told = log.read_text("utf-8", "replace") if log.exists() else ""
        if base.with_suffix(".ended").exists():
            break
        if _answers(told, path) if path else WORKS in told:
            return
        time.sleep(0.1)
    _fail(f"{program} {shlex.join(arguments)}: no answer\n{log.read_text() if log.exists() else ''}")


def _answers(told: str, path: str) -> bool:
    found = SERVED.search(told)
    if found is None:
        return False
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}", timeout=10) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as refused:
        return refused.code in (401, 403)  # it prompts for its token
    except OSError:
        return False


def _make(arguments: list[str]) -> None:
    """Check that there is such a target."""
    os.execvp("/usr/bin/make", ["make", "--directory", str(ROOT), "--dry-run", *arguments])


if __name__ == "__main__":
    name, given = sys.argv[1], sys.argv[2:]
    match name:
        case "python" | "python3":
            _python(given)
        case "pip":
            _pip(given)
        case "ragmeter":
            _ragmeter(given)
        case "gunicorn":
            _gunicorn(given)
        case "make":
            _make(given)
        case _:
            _become(name, given)
