"""Small metrics, judges and exporters that behave badly on request."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from ragmeter import MeterStats, RagMeter
from ragmeter.exporters.memory import InMemoryExporter, Results
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import Metric, RagSample, Score, metric
from ragmeter.metrics.judge import Ask, CountingJudge, Reply


def scored(*samples: RagSample, **arguments) -> tuple[Results, MeterStats]:
    """Return the results of a meter that samples were submitted to, and its counters."""
    memory = InMemoryExporter()
    with RagMeter(**{"metrics": [context_tally], "exporters": [memory], **arguments}) as meter:
        for sample in samples:
            meter.submit(sample)
        assert meter.flush(60)
        return memory.results, meter.stats()


@metric(needs=("contexts",), range=(0.0, None))
def context_tally(sample: RagSample) -> float:
    """Count the contexts."""
    return float(len(sample.contexts or ()))


@metric(name="lexical_groundedness", needs=("answer",), target="answer", method="lexical")
def first_number(sample: RagSample) -> float:
    """Return the answer's first number, as a free score."""
    assert sample.answer is not None
    return float(sample.answer.split()[0])


@dataclass(frozen=True, eq=False)
class SecondNumber(Metric):
    """The answer's second number, as a judged metric that calls no judge; its questions are in `asked`."""

    asked: list[str] = field(default_factory=list)
    name: str = "faithfulness"
    score_names: tuple[str, ...] = ("faithfulness",)
    needs: tuple[str, ...] = ("contexts", "answer")
    target = "answer"
    definition = "1"
    method = "llm"
    judged: bool = True
    range = (0.0, 1.0)

    async def measure(self, sample, judge):
        assert sample.answer is not None
        self.asked.append(sample.answer)
        word = sample.answer.split()[1]
        if word == "raises":
            raise ValueError("no verdict")
        return [self.make_score(self.name, None if word == "undefined" else float(word))]


@metric(needs=("answer",), target="answer", range=(0.0, None))
def answer_length(sample: RagSample) -> float:
    """Count the answer's characters."""
    return float(len(sample.answer or ""))


@metric(needs=("reference.answer", "answer"), target="answer")
def exact_answer(sample: RagSample) -> float:
    """Return 1.0 if the answer equals the reference answer."""
    assert sample.reference is not None
    return float(sample.answer == sample.reference.answer)


class FakeJudge(CountingJudge):
    """A judge that only has to exist."""

    model = "fake-model"

    def __init__(self) -> None:
        self.closed = 0

    async def ask(self, ask: Ask) -> Reply:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.closed += 1


def awaited_metric(name: str, measure, **attributes) -> Metric:
    """Return a metric that is awaited as judged ones are; ``measure(metric, sample)`` returns its scores."""

    async def measured(self, sample, judge):
        return measure(self, sample)

    given = {"needs": (), "method": "llm", "target": "retrieval", "definition": "1", **attributes}
    return type(name, (Metric,), {"name": name, "score_names": (name,), "measure": measured, **given})()


@dataclass(frozen=True, eq=False)
class GatedMetric(Metric):
    """A judged metric that answers when its gate opens."""

    gate: threading.Event
    name: str = "gated"
    needs: tuple[str, ...] = ()
    score_names: tuple[str, ...] = ("gated",)
    method = "llm"
    target = "retrieval"
    definition = "1"

    async def measure(self, sample: RagSample, judge: object) -> Sequence[Score]:
        while not self.gate.is_set():
            await asyncio.sleep(0.005)
        return [Score(name="gated", value=0.5, status="ok", method="llm", definition="1")]


class GatedExporter:
    """An exporter that hangs until its gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.exported: list[ScoredRun] = []

    def export(self, batch: Sequence[ScoredRun]) -> None:
        self.entered.set()
        self.gate.wait(60)
        self.exported.extend(batch)

    def flush(self, timeout_s: float) -> bool:
        return self.gate.wait(60)

    def shutdown(self, timeout_s: float) -> None:
        self.gate.wait(60)


class RaisingExporter:
    """An exporter that fails at everything."""

    def export(self, batch: Sequence[ScoredRun]) -> None:
        raise OSError("no space left on device")

    def flush(self, timeout_s: float) -> bool:
        raise OSError("no")

    def shutdown(self, timeout_s: float) -> None:
        raise OSError("no")
