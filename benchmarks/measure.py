"""The shared code of all benchmarks: the collection of numbers, and the form of a row.

Each benchmark is a script beside this file. It starts one worker process per variant (ragmeter, each peer,
nothing attached), requests numbers from them in turn, round after round, so that other load affects all
alike, and prints rows: what, ours, peer, ratio, target, met or not. This module knows no particular
benchmark, and is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from environments import ROOT, child_environment, env_python, peer_states, use_peers_in


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. All numbers of a row come from the same run."""

    benchmark: str
    what: str
    """The measured quantity, with size."""
    unit: str
    ours: float | None
    peer: float | None = None
    """The same of the peer, or of the run without ragmeter; None if there is no comparison."""
    peer_name: str | None = None
    ratio: float | None = None
    """The number that the target refers to, see `target`."""
    target: str | None = None
    met: bool | None = None
    """None: there is no target, or the peer was absent."""
    spread: str | None = None
    """The variation between repeats."""
    note: str | None = None


def held_to(
    benchmark: str,
    what: str,
    ours: float,
    target: float | None,
    *,
    least: bool = False,
    unit: str = "",
    note: str | None = None,
) -> Row:
    """Return a row with a target: at most `target`, or at least; None: no target."""
    if target is None:
        return Row(benchmark, what, unit, ours, note=note)
    word = "at least" if least else "at most"
    met = bool(ours >= target if least else ours <= target)  # numpy's bool has no JSON
    return Row(benchmark, what, unit, ours, target=f"{word} {target:g}", met=met, note=note)


class WorkerError(RuntimeError):
    """A worker process ended or answered with an error."""


class Worker:
    """A process that measures one variant, with commands of one line of JSON each.

    Args:
        script: The benchmark, which calls `serve` when its first argument is ``--worker``.
        variant: The variant that this process measures.
        python: The interpreter; default: this one.
        options: Passed to the worker's ``prepare``.
    """

    def __init__(
        self,
        script: str,
        variant: str,
        python: Path | str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.variant = variant
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 -- closed with the worker
        self._process = subprocess.Popen(
            [str(python or sys.executable), script, "--worker", variant, json.dumps(dict(options or {}))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=child_environment(),
            cwd=tempfile.gettempdir(),
        )
        self._read()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, command: str, **arguments: Any) -> Any:
        """Have the worker run `command` and return its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([command, arguments]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._read()

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(20)
            self._errors.seek(0)
            raise WorkerError(f"{self.variant}: {self._errors.read()[-1500:].strip() or 'ended'}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.variant}: {answer['error']}")
        return answer["ok"]


def serve(prepare: Callable[[str, dict[str, Any]], Mapping[str, Callable[..., Any]]]) -> None:
    """Run as a worker: prepare the variant, then answer commands until the pipe closes.

    Output of libraries goes to standard error; replies use the real standard output.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        commands = prepare(sys.argv[2], json.loads(sys.argv[3]))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        raise
    say({"ok": None})
    for line in sys.stdin:
        command, arguments = json.loads(line)
        try:
            say({"ok": commands[command](**arguments)})
        except Exception as error:
            import traceback

            traceback.print_exc()
            say({"error": f"{type(error).__name__}: {error}"})
    if "close" in commands:
        commands["close"]()
    os._exit(0)  # exporters that reach no endpoint may hang at exit


def start(
    script: str,
    variants: Mapping[str, Path | str | None],
    needed: Collection[str],
    options: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Worker], dict[str, str]]:
    """Start one worker per variant; a peer that does not start is left out, and named.

    Args:
        script: The benchmark's file.
        variants: Each variant and its interpreter.
        needed: Variants that are required.
        options: Passed to every worker.

    Returns:
        The workers, and the reasons for missing ones.

    Raises:
        WorkerError: One of `needed` does not start.
    """
    workers: dict[str, Worker] = {}
    absent: dict[str, str] = {}

    def start_one(variant: str) -> None:
        try:
            workers[variant] = Worker(script, variant, variants[variant], options)
        except WorkerError as error:
            absent[variant] = reason(error)
            if variant in needed:
                for worker in workers.values():
                    worker.close()
                raise

    for variant in variants:
        start_one(variant)
    return workers, absent


def reason(error: WorkerError) -> str:
    """Return the reason in one line why a worker failed."""
    return str(error).splitlines()[-1]


def absent_rows(benchmark: str, absent: Mapping[str, str]) -> list[Row]:
    """Return a row for each peer that did not start."""
    return [
        Row(benchmark, f"beside {peer}", "", None, note=f"could not run: {why}") for peer, why in absent.items()
    ]


def interleave(
    workers: Mapping[str, Worker], rounds: int, command: str, **arguments: Any
) -> dict[str, list[Any]]:
    """Send a command to every worker in turn, `rounds` times; return each worker's replies.

    Every second round is in reverse order, so that none always runs after the same other.
    """
    answers: dict[str, list[Any]] = {name: [] for name in workers}
    names = list(workers)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            answers[name].append(workers[name].ask(command, **arguments))
    return answers


class RequestClock:
    """CPU time of the request path: the whole process without its background threads.

    A framework may spread one request over several threads, so the thread's clock measures too little;
    scorers and span exporters work in the background, so the process's clock measures too much. Threads that
    were alive when `settle` was called, and are neither the caller's nor a pool's, are background.
    """

    _POOLS = ("MainThread", "asyncio_", "ThreadPoolExecutor")

    def __init__(self) -> None:
        self._clocks: dict[int, int] = {}
        """Last value of a background thread's clock, which remains when the thread has ended."""

    def settle(self) -> list[str]:
        """Take the threads alive now, after the first requests, as the background; return their names."""
        found = [
            thread
            for thread in threading.enumerate()
            if thread is not threading.current_thread()
            and not thread.name.startswith(self._POOLS)
            and thread.ident is not None
        ]
        self._clocks = {time.pthread_getcpuclockid(thread.ident): 0 for thread in found}
        return [thread.name for thread in found]

    def now(self) -> int:
        """Return nanoseconds of CPU spent on requests so far."""
        spent = time.process_time_ns()
        for clock in self._clocks:
            with contextlib.suppress(OSError):
                self._clocks[clock] = time.clock_gettime_ns(clock)
        return spent - sum(self._clocks.values())


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of `values` lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: Sequence[float]) -> str:
    """Return the range of the middle half of `values`, as text."""
    return f"{quantile(values, 0.25):.3g} to {quantile(values, 0.75):.3g}"


def growth(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the exponent k of cost = c * size^k, by least squares on the logarithms."""
    import math

    xs = [math.log(size) for size in sizes]
    ys = [math.log(max(cost, 1e-12)) for cost in costs]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum(
        (x - mean_x) ** 2 for x in xs
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of the command line."""

    quick: bool
    """A smoke run: few repeats, numbers not worth storing."""
    peers: bool
    """Whether to measure the peers with existing environments."""
    into: Path
    """The folder of the environments."""

    def python_of(self, env: str, peer: str | None = None) -> Path | None:
        """Return the interpreter of `env`, or None if it, or `peer` in it, is not usable."""
        if not self.peers or not env_python(env, self.into).exists():
            return None
        if peer is not None and peer_states(env, self.into).get(peer) != "ok":
            return None
        return env_python(env, self.into)


def run(
    benchmark: Callable[[Settings], list[Row]],
    prepare: Callable[[str, dict[str, Any]], Mapping[str, Callable[..., Any]]] | None = None,
) -> None:
    """Run as a script: as a worker if requested, else run `benchmark` and print its rows."""
    if len(sys.argv) > 1 and sys.argv[1] == "--worker" and prepare is not None:
        serve(prepare)
        return
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run, numbers not worth keeping")
    parser.add_argument("--no-peers", action="store_true", help="measure ragmeter alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object per row")
    parser.add_argument("--peers-dir", type=Path, default=ROOT, help="where .venv-bench-* are")
    chosen = parser.parse_args()
    use_peers_in(chosen.peers_dir)
    rows = benchmark(Settings(chosen.quick, not chosen.no_peers, chosen.peers_dir))
    for row in rows:
        print(json.dumps(asdict(row), ensure_ascii=False) if chosen.json else line(row))


def number(value: float | None) -> str:
    """Return a number with three digits, or a dash, as text."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def line(row: Row) -> str:
    """Return a row as text for the terminal."""
    met = {True: "met", False: "NOT MET", None: ""}[row.met]
    ours = f"{number(row.ours)} {row.unit}"
    peer = "" if row.peer is None else f"{number(row.peer)} ({row.peer_name})"
    ratio = "" if row.ratio is None else f"ratio {number(row.ratio)}"
    return f"{row.what:70} {ours:>16} {peer:>34} {ratio:>12}  {row.target or '':18} {met}  {row.note or ''}"
