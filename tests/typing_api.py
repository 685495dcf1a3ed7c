"""Type-checked by mypy and pyright, never run: users' code that must type-check."""

import sys
from collections.abc import Sequence

from ragmeter import Estimate, MeterStats, RagMeter, reference, request, suppress
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import (
    MatchingStrategy,
    PrecisionRecallF1,
    RagSample,
    Reference,
    RetrievedContext,
    Score,
    metric,
)
from ragmeter.metrics.judge import (
    Answer,
    Ask,
    CountingJudge,
    Judge,
    JudgeBudget,
    JudgeStats,
    OpenAIJudge,
    Reply,
)
from ragmeter.quality.estimates import QualityKey


@metric
def bare(sample: RagSample) -> float | None:
    """A metric without arguments."""
    return 1.0 if sample.answer else None


@metric(needs=("answer",), target="answer")
def with_arguments(sample: RagSample) -> float:
    """A metric with arguments."""
    return float(len(sample.answer or "") > 0)


class Mine:
    """A custom exporter."""

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Print."""
        for result in batch:
            score: Score = result.scores["f1"]
            value: float | None = score.value
            sys.stdout.write(f"{result.sample.question} {value}")

    def flush(self, timeout_s: float) -> bool:
        """Do nothing."""
        return timeout_s > 0

    def shutdown(self, timeout_s: float) -> None:
        """Do nothing."""


class Lenient(CountingJudge):
    """A custom judge."""

    model = "lenient"

    async def ask(self, ask: Ask) -> Reply:
        """Answer true to everything."""
        items = (item for group in ask.groups for item in group.items)
        return Reply({item.id: Answer(known=True, value=True) for item in items})


lenient: Judge = Lenient()
limits: JudgeBudget | None = lenient.budget
counted: JudgeStats = OpenAIJudge(model="a-model").stats

meter = RagMeter(
    metrics=["context_recall", PrecisionRecallF1(MatchingStrategy.ROUGE_CHUNK_MATCH), bare],
    judge=OpenAIJudge(model="a-model"),
    references={"question": Reference(answer="answer")},
    exporters=[InMemoryExporter(), Mine()],
)
handler = RagMeterCallbackHandler(meter)
with RagMeterHandler(meter):
    meter.submit(RagSample(question="q", contexts=(RetrievedContext(text="t"),)))
    meter.submit(
        RagSample(
            question="q",
            contexts=["a text", RetrievedContext(text="t")],
            reference=Reference(contexts=["t"], context_ids=[1, "two"], alternative_answers=["a"]),
        )
    )
with meter.request("q") as told, reference(answer="a"), suppress(), request(name="n"):
    told.retrieved(["text"])
    told.answered("answer")
stats: MeterStats = meter.stats()
estimate: Estimate = meter.quality("faithfulness", workflow="qa", window_s=600)
in_chinese: Estimate = meter.quality("faithfulness", segment="language:zh", service="shop")
estimates: dict[QualityKey, Estimate] = meter.quality()
parts: dict[QualityKey, Estimate] = meter.quality(segment="language:zh")
with RagMeter(segments=("language", "metadata.tenant")):
    pass
flushed: bool = meter.flush(timeout_s=1)
meter.shutdown(timeout_s=1)
