"""``ragmeter metrics NAME``: one metric on a page, with its formula, an example, thresholds and source.

The description is the metric's docstring; the example is that of ``docs/metrics.md``, scored now; the
thresholds are those of the verdict.  Called by `app`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.text import Text

from ragmeter.metrics import (
    ComputedMetric,
    RagSample,
    Reference,
    RetrievalStage,
    RetrievedContext,
    Score,
    VerdictRules,
)
from ragmeter.metrics._display.meanings import Meaning, metric_with, said_of
from ragmeter.metrics.protocol import compute_metric

from ._console import Console

_KEPT = (
    RetrievedContext(
        text="The Kolka lighthouse is 21 metres tall. It stands on an island of stone.",
        id="kolka-1",
        score=0.83,
    ),
    RetrievedContext(text="The harbour of Roja is home to a fishing fleet.", id="roja-4", score=0.58),
    RetrievedContext(text="The lamp of the Kolka lighthouse was first lit in 1884.", id="kolka-2", score=0.52),
)
_FOUND = (*_KEPT, RetrievedContext(text="The lighthouse of Ovisi is the oldest of the coast.", id="ovisi-1"))
EXAMPLE = RagSample(
    question="How tall is the Kolka lighthouse, and when was it lit?",
    contexts=_KEPT,
    stages=(
        RetrievalStage(name="BM25Retriever", kind="retriever", contexts=_FOUND),
        RetrievalStage(name="rerank", kind="function", contexts=_KEPT, inputs=(0,)),
    ),
    answer="The lighthouse is 21 metres tall. It was lit in 1884, long after the one at Ovisi.",
    reference=Reference(
        answer="The Kolka lighthouse is 21 metres tall. It was first lit in 1884. Its keeper lived in Roja.",
        contexts=(_KEPT[0].text, _KEPT[2].text),
        context_ids=("kolka-1", "kolka-2", "kolka-9"),
    ),
)
"""The request of ``docs/metrics.md``."""


class MetricPage(NamedTuple):
    """The content of a metric's page."""

    meaning: Meaning
    example: tuple[Score, ...]
    """The scores of `EXAMPLE`; empty if the metric asks a judge or an embedder."""
    thresholds: tuple[str, ...]
    """The verdict's use of the values, in words; empty: none."""

    def as_json(self) -> dict[str, Any]:
        """Return the page as JSON-ready fields."""
        return {
            "name": self.meaning.metric,
            "scores": self.meaning.scores,
            "says": self.meaning.says,
            "example": {
                one.name: {"value": one.value, "status": one.status, "explanation": one.explanation}
                for one in self.example
            },
            "thresholds": self.thresholds,
            "definition": self.meaning.definition,
        }


def metric_page(name: str) -> MetricPage:
    """Return the page of a metric, by its name or that of one of its scores.

    Raises:
        UnknownMetricError: No metric or score has that name; suggests similar ones.
    """
    metric = metric_with(name)
    meaning = said_of(metric)
    example = compute_metric(metric, EXAMPLE) if isinstance(metric, ComputedMetric) else ()
    return MetricPage(meaning, example, thresholds_of(meaning.scores))


def thresholds_of(scores: Sequence[str]) -> tuple[str, ...]:
    """Describe how the verdict uses the values of these scores; empty: not at all."""
    rules = VerdictRules()
    support = (
        f"below {rules.unsupported_below:g}: bad (unsupported_answer); below "
        f"{rules.partly_unsupported_below:g}: suspect (partly_unsupported); of support and "
        "faithfulness the mean, where both are known"
    )
    missing = f"from {rules.right_documents_missing_from:g} on, together: suspect"
    known = {
        "support": support,
        "lexical_groundedness": f"{support}; read where support was not measured",
        "fact_conflict": "1: suspect (number_not_in_context)",
        "faithfulness": support,
        "lexical_context_relevance": f"below {rules.off_topic_below:g}: suspect (off_topic_context); with a "
        f"refusal from {rules.on_topic_from:g} on: suspect (refused_with_context)",
        "context_sufficiency": "0 with an answer: bad (insufficient_context); 1 with a refusal: bad "
        "(refused_with_context); else below 1: suspect",
        "judged_hit_rate": "0: suspect (no_relevant_chunk)",
        "refusal": "1: suspect, with the reason; in between: suspect (partial_refusal)",
        "judged_refusal": "1: suspect, with the reason; in between: suspect (partial_refusal)",
        "empty_retrieval": "1 with an answer: bad (answered_without_context); with a refusal: suspect",
        "right_documents_dropped": missing,
        "right_documents_never_found": missing,
    }
    return tuple(f"{name} {known[name]}" for name in scores if name in known)


def print_metric_page(page: MetricPage, console: Console) -> None:
    """Print the page."""
    meaning = page.meaning
    console.print(Text(meaning.metric, style="bold"))
    if meaning.scores != (meaning.metric,):
        console.print(Text(f"scores: {', '.join(meaning.scores)}", style="dim"))
    console.print()
    console.print(Text(meaning.says))
    _print_part(console, "Example", _example_lines(page))
    _print_part(
        console,
        "Thresholds of the verdict",
        page.thresholds or ("none: compare with what is usual for your application",),
    )
    console.print(Text(f"\ndefinition {meaning.definition}; more: docs/metrics.md", style="dim"))


def _example_lines(page: MetricPage) -> list[str]:
    reference = EXAMPLE.reference
    lines = [f"question: {EXAMPLE.question}"]
    lines += [f"chunk {rank}: {context.text}" for rank, context in enumerate(EXAMPLE.contexts or (), 1)]
    lines += [f"answer: {EXAMPLE.answer}", f"reference: {reference.answer if reference else ''}"]
    if not page.example:
        return [*lines, "value: needs a judge or an embedder; docs/metrics.md has one"]
    for score in page.example:
        value = score.status if score.value is None else f"{score.value:.4g}"
        why = f": {score.explanation}" if score.explanation else ""
        lines.append(f"{score.name} = {value}{why}")
    return lines


def _print_part(console: Console, title: str, lines: list[str] | tuple[str, ...]) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    for line in lines:
        console.print_indented(line)
