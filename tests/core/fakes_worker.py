"""Metrics, judges and helpers that a worker process can import."""

import logging
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ragmeter.metrics import ComputedMetric, Metric, RagSample, Score, metric
from ragmeter.metrics.judge import Answer, Ask, CountingJudge, JudgeCall, Reply


@metric(range=(0.0, None))
def scorer_pid(sample: RagSample) -> float:
    """Return the id of the process that scores."""
    return float(os.getpid())


@metric(range=(0.0, None))
def question_length(sample: RagSample) -> float:
    """Count the question's characters."""
    return float(len(sample.question or ""))


@metric(range=(0.0, None))
def misbehave(sample: RagSample) -> float:
    """Execute the question: ``<deed> <path>``; with a path, only if there is no such file yet."""
    deed, _, path = (sample.question or "").partition(" ")
    if path:
        if Path(path).exists():
            return 1.0
        Path(path).touch()
    if deed == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "exit":
        raise SystemExit(3)
    if deed == "hang":
        time.sleep(600)
    if deed == "print":
        print("\x00\x00\x00\x05words", flush=True)  # noqa: T201 -- that is the deed
    if deed == "log":
        logging.getLogger("fakes").warning("words of a metric")
    return 1.0


@metric
def of_metadata(sample: RagSample) -> float:
    """Return the number in a context's metadata."""
    return float(sample.contexts[0].metadata["number"])


@metric
def odd_number(sample: RagSample) -> float:
    """Return a number that is no plain float."""
    return Half(0.5)


class Half(float):
    """A number that is no plain float."""


@dataclass(frozen=True)
class Bare(ComputedMetric):
    """A metric that returns its constructor's value, unchecked."""

    value: object
    name: str = "bare"
    score_names: tuple[str, ...] = ("bare",)
    needs: tuple[str, ...] = ()
    method = "exact"
    target = "retrieval"
    definition = "1"

    def compute(self, sample):
        score = self.make_score("bare", 0.5)
        return [score.model_copy(update={"explanation": self.value or threading.Lock()})]


class Outer:
    @staticmethod
    def length(sample: RagSample) -> float:
        return float(len(sample.question or ""))


class EchoJudge(CountingJudge):
    """Answers True to everything; `deed` defines its preceding misbehaviour."""

    model = "echo"

    def __init__(self, deed: str = "", path: str = "") -> None:
        self.deed = deed
        self.path = path

    async def ask(self, ask: Ask) -> Reply:
        if self.deed == "crash" and not Path(self.path).exists():
            Path(self.path).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.deed == "crash always":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.deed == "crash on poison" and "poison" in repr(ask):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.deed == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(60)  # another thread may be the one that is stopped first
        self.report(JudgeCall(ask.metric, self.model, 0.01, 10, 1))
        return Reply({item.id: Answer(True, True) for group in ask.groups for item in group.items})


@dataclass(frozen=True)
class AskedPid(Metric):
    """A judged metric that returns the id of the process that judges."""

    name: str = "asked_pid"
    score_names: tuple[str, ...] = ("asked_pid",)
    needs: tuple[str, ...] = ()
    method = "llm"
    target = "retrieval"
    definition = "1"
    range = (0.0, None)

    async def measure(self, sample, judge):
        return [
            Score(
                name="asked_pid", value=float(os.getpid()), status="ok", method="llm",
                definition="1", range=(0.0, None),
            )
        ]  # fmt: skip


def workers_of(pid: int) -> list[int]:
    """Return the worker processes of a process, according to the system."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == pid and b"ragmeter-worker" in command:
            found.append(int(folder.name))
    return found


def is_running(pid: int) -> bool:
    """Return whether there is such a process, zombies excluded."""
    try:
        state = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def ends(pid: int, within_s: float) -> bool:
    """Wait for the end of a process that is not a child."""
    deadline = time.monotonic() + within_s
    while is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@metric
def of_sitecustomize(sample: RagSample) -> float:
    """Return whether this interpreter was instrumented at its start."""
    import sys

    return float("sitecustomize" in sys.modules and "auto_instrumentation" in str(sys.modules["sitecustomize"]))
