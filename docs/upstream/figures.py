"""Print the figures of the two proposals beside this file: `python docs/upstream/figures.py`.

Each is measured with public names alone: requests as the GenAI conventions write them, read by
`RagMeterSpanProcessor`, and scores recorded in a histogram of the OpenTelemetry SDK.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from ragmeter import RagMeter
from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun

__all__ = ["free_scores", "histogram_means"]

_QUESTION = "When was the lighthouse of Alexandria completed?"
_CHUNKS = (
    ("pharos.md", "The lighthouse of Alexandria was completed around 280 BC under Ptolemy II."),
    ("library.md", "The library of Alexandria held some 400,000 scrolls."),
)
_ANSWER = "It was completed around 280 BC, after twelve years of building by the Romans."
_SAMPLED = 0.1
"""Probability with which any request is scored."""
_WORST = 0.5
"""Free score below which each request is scored."""


def free_scores(keys: Iterable[str]) -> dict[str, bool]:
    """Return the free scores of one request, and whether each has a value.

    Args:
        keys: What `gen_ai.retrieval.documents` tells of each document: `id`, `score`, `content`.
    """
    documents = [
        {key: {"id": name, "score": 1 / (place + 1), "content": text}[key] for key in keys}
        for place, (name, text) in enumerate(_CHUNKS)
    ]
    memory, provider = InMemoryExporter(), TracerProvider()
    meter = RagMeter(exporters=[memory])
    provider.add_span_processor(RagMeterSpanProcessor(meter))
    tracer = provider.get_tracer("conventions")
    asked = {"gen_ai.input.messages": _messages("user", _QUESTION)}
    answered = {"gen_ai.output.messages": _messages("assistant", _ANSWER)}
    workflow = {"gen_ai.operation.name": "invoke_workflow", **asked, **answered}
    with tracer.start_as_current_span("invoke_workflow qa", attributes=workflow):
        retrieval = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": _QUESTION,
            "gen_ai.retrieval.documents": json.dumps(documents),
        }
        with tracer.start_as_current_span("retrieval", attributes=retrieval):
            pass
        chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **asked, **answered}
        with tracer.start_as_current_span("chat m", attributes=chat):
            pass
    provider.shutdown()
    meter.shutdown()
    (scored,) = memory.results
    return _known(scored)


def _known(scored: ScoredRun) -> dict[str, bool]:
    # A position needs earlier requests, and this is the first.
    return {
        name: score.value is not None for name, score in scored.scores.items() if not name.endswith("_position")
    }


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def histogram_means() -> Mapping[str, float]:
    """Return means of 20,000 requests' scores: of all, and of those that a sampling evaluator recorded."""
    chance = random.Random(20_261_124)
    everyone: list[float] = []
    kept: list[tuple[float, float]] = []
    for _ in range(20_000):
        good = chance.random() < 0.75
        score = min(1.0, max(0.0, chance.gauss(0.85 if good else 0.3, 0.12)))
        free = min(1.0, max(0.0, score + chance.gauss(0.0, 0.1)))
        everyone.append(score)
        probability = 1.0 if free < _WORST else _SAMPLED
        if chance.random() < probability:
            kept.append((score, probability))
    weights = sum(1 / probability for _, probability in kept)
    return {
        "every request": _recorded(everyone),
        "what was scored, in one histogram": _recorded([score for score, _ in kept]),
        "chosen by chance alone, by the attribute": _recorded(
            [score for score, probability in kept if probability < 1.0]
        ),
        "weighed by 1 / probability": sum(score / probability for score, probability in kept) / weights,
    }


def _recorded(scores: Sequence[float]) -> float:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    histogram = provider.get_meter("figures").create_histogram("gen_ai.evaluation.score")
    for score in scores:
        histogram.record(score)
    data = json.loads(reader.get_metrics_data().to_json())
    provider.shutdown()
    (point,) = data["resource_metrics"][0]["scope_metrics"][0]["metrics"][0]["data"]["data_points"]
    return float(point["sum"] / point["count"])


def main() -> None:
    """Print both tables, as the proposals have them."""
    today = free_scores(["id", "score"])
    proposed = free_scores(["id", "score", "content"])
    print("| free score | `id`, `score` | with `content` |\n|---|---|---|")
    for name in sorted(today | proposed):
        cells = ("yes" if known.get(name) else "–" for known in (today, proposed))
        print(f"| `{name}` | {' | '.join(cells)} |")
    print("\n| mean of | score |\n|---|---|")
    for name, mean in histogram_means().items():
        print(f"| {name} | {mean:.3f} |")


if __name__ == "__main__":
    main()
