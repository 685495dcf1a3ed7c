"""Run docs/first-ten-minutes.md from top to bottom, like a newcomer, and record the time of each step.

``python benchmarks/first_ten_minutes.py --write``. The page is the only source: its Python block is saved as
``app.py``, its shell blocks run one after the other in an empty folder, and must print the output that it
shows. A comment ``server: URL`` before a block marks a process that continues to run, and ends with its
section. This script has no other commands.

``--phoenix PYTHON`` names an environment in which Phoenix is installed already; it is then started on
loopback only, both its ports, and its installation is not measured. ``--venv DIR`` leaves out section 1 and
uses that environment instead.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from environments import QUIET, ROOT
from results import conditions, machine

PAGE = ROOT / "docs" / "first-ten-minutes.md"
WAIT_S = 120.0
"""Seconds within which a server must answer, and a block of ``curl`` print the page's output."""
_FENCE = re.compile(
    r"(?:<!-- server: (?P<url>\S+) -->\s*)?^```(?P<kind>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
_TABLE = re.compile(r"(<!-- measured -->\n).*?(<!-- /measured -->)", re.DOTALL)


class PageError(Exception):
    """A statement of the page is wrong."""


@dataclass(slots=True)
class Block:
    """A fenced block of the page."""

    kind: str
    text: str
    server: str | None = None
    """The address that answers once the block's last command runs; None if it ends."""
    shows: list[str] = field(default_factory=list)
    """Lines of output, of the ``text`` block below it."""


@dataclass(slots=True)
class Section:
    """A numbered section."""

    number: int
    title: str
    blocks: list[Block]


def read(page: str) -> list[Section]:
    """Return the numbered sections of the page, with their blocks."""
    sections = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        numbered = re.match(r"(\d+)\. (.+)", heading)
        if numbered is None:
            continue
        blocks: list[Block] = []
        for found in _FENCE.finditer(body):
            if found["kind"] == "text":
                blocks[-1].shows = [line for line in found["text"].splitlines() if line.strip()]
            else:
                blocks.append(Block(found["kind"], found["text"], found["url"]))
        sections.append(Section(int(numbered[1]), numbered[2], blocks))
    return sections


@dataclass(slots=True)
class Walk:
    """One walk through the page, in a separate folder."""

    folder: Path
    environment: dict[str, str]
    phoenix: Path | None = None
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def take(self, section: Section) -> float:
        """Execute a section; return the seconds it took.

        Raises:
            PageError: A command failed, or did not show what the page shows.
        """
        began = time.monotonic()
        self.save(section)
        try:
            for block in section.blocks:
                if block.kind == "bash" and block.server is not None:
                    self._serve(block, block.server)
                elif block.kind == "bash":
                    self._run(block)
            return time.monotonic() - began
        finally:
            self._end_servers()

    def save(self, section: Section) -> None:
        """Save the application that a section shows, if it does."""
        for block in section.blocks:
            if block.kind == "python":
                (self.folder / "app.py").write_text(block.text, "utf-8")

    def _run(self, block: Block) -> None:
        until = time.monotonic() + (WAIT_S if block.text.startswith("curl ") else 0.0)
        while True:
            done = subprocess.run(
                ["bash", "-e", "-c", block.text],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            missing = [line for line in block.shows if line not in done.stdout]
            if done.returncode == 0 and not missing:
                return
            if time.monotonic() >= until:
                wrong = f"does not show {missing}" if missing else f"ended with {done.returncode}"
                raise PageError(f"{block.text}{wrong}:\n{done.stdout[-3000:]}")
            time.sleep(0.5)

    def _serve(self, block: Block, url: str) -> None:
        *before, last = block.text.strip().splitlines()
        if self.phoenix is not None and "phoenix" in last:
            script = ROOT / "tests" / "services" / "phoenix_server.py"
            port = url.rpartition(":")[2]
            before, last = [], shlex.join([str(self.phoenix), str(script), port, "4317"])
        if _answers(url):
            raise PageError(f"something else answers at {url}")
        if before:
            self._run(Block("bash", "\n".join(before) + "\n"))
        log = (self.folder / "server.log").open("ab")
        with log:
            # A process group, so that the shell's children end with it.
            server = subprocess.Popen(
                ["bash", "-c", last],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.servers.append(server)
        until = time.monotonic() + WAIT_S
        while not _answers(url):
            if server.poll() is not None or time.monotonic() >= until:
                said = (self.folder / "server.log").read_text("utf-8", "replace")
                raise PageError(f"{last}: no answer at {url}:\n{said[-3000:]}")
            time.sleep(0.2)

    def _end_servers(self) -> None:
        while self.servers:
            server = self.servers.pop()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except (urllib.error.URLError, OSError):
        return False


def source(into: Path) -> Path:
    """Return a copy of this checkout without build results, like a clone."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)
    return into


def walk(
    sections: list[Section],
    *,
    only: Collection[int] = (),
    python: Path | None = None,
    phoenix: Path | None = None,
) -> Iterator[tuple[Section, float]]:
    """Execute the sections in an empty folder; yield each with its seconds.

    Args:
        sections: Those of the page, in order.
        only: The numbers of those to execute; of the others only files are saved. Empty: all.
        python: The folder of an environment that replaces the one of section 1.
        phoenix: An interpreter that has Phoenix.
    """
    with tempfile.TemporaryDirectory(prefix="ragmeter-newcomer-") as folder:
        place = Path(folder) / "app"
        place.mkdir()
        clone = source(Path(folder) / "ragmeter") if python is None else ROOT
        environment = {key: one for key, one in QUIET.items() if not key.startswith(("RAGMETER_", "OTEL_"))}
        environment |= {"RAGMETER": str(clone), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        if python is not None:
            (place / ".venv").symlink_to(python)
        steps = Walk(place, environment, phoenix)
        for section in sections:
            if only and section.number not in only:
                steps.save(section)
            else:
                yield section, steps.take(section)


def table(took: list[tuple[Section, float]], *, phoenix_there: bool) -> str:
    """Return the table of the page."""
    when = conditions()
    lines = [
        f"{when['date']}, commit {when['commit']}, load {when['load_before']}; {machine()}.",
        "Waiting for servers and packages is in it, typing and reading is not."
        + (" Phoenix was installed before." if phoenix_there else ""),
        "",
        "| step | seconds | since the start |",
        "|---|---|---|",
    ]
    since = 0.0
    for section, seconds in took:
        since += seconds
        lines.append(f"| {section.title} | {seconds:.0f} | {since:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", type=int, help="their numbers; default: all")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--phoenix", type=Path, help="an interpreter that has Phoenix")
    parser.add_argument("--venv", type=Path, help="an environment that has ragmeter")
    chosen = parser.parse_args()
    page = PAGE.read_text("utf-8")
    sections = read(page)
    only = set(chosen.sections or [one.number for one in sections])
    only -= {1} if chosen.venv else set()
    took = []
    try:
        for section, seconds in walk(
            sections, only=only, python=chosen.venv and chosen.venv.resolve(), phoenix=chosen.phoenix
        ):
            print(f"{section.number}. {section.title}: {seconds:.1f} s", flush=True)
            took.append((section, seconds))
    except PageError as error:
        sys.exit(str(error))
    if chosen.write:
        made = table(took, phoenix_there=chosen.phoenix is not None)
        PAGE.write_text(_TABLE.sub(lambda found: f"{found[1]}\n{made}\n{found[2]}", page), "utf-8")


if __name__ == "__main__":
    main()
