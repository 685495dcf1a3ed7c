"""How much of the reference answer can be found in the retrieved chunks?

`ContextRecall`, its bands, and the parts that the fused metric uses, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragmeter.metrics.judge.protocol import Answer, Ask, Group, Item, Passage
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem

from ._judged_metric import (
    Chunks,
    Inquiry,
    JudgedMetric,
    Unit,
    UnitMetric,
    is_blank,
    number_units,
    passages_of,
    ratio_score,
    reference_answer,
    units_of,
)


def recall_label(value: float) -> str:
    """Return the band of a recall."""
    bands = {0.9: "complete", 0.7: "mostly_complete", 0.5: "incomplete"}
    return next((word for least, word in bands.items() if value >= least), "insufficient")


@dataclass(frozen=True)
class ContextRecall(UnitMetric):
    """How much of what the reference answer says can be found in the retrieved chunks?

        value = units of the reference answer attributed to the chunks / all its units

    A unit counts only if everything it states is in the chunks: "built in 1889 in Paris, France" is
    not found in chunks that never name France.  The prompt says that the units are claims, and no
    evidence for themselves.

    Range: 0.0 to 1.0; the label is ``complete`` from 0.9, ``mostly_complete`` from 0.7,
        ``incomplete`` from 0.5, ``insufficient`` below.
    Needs: ``contexts``, ``reference.answer``; the question, if known, resolves pronouns.
    Cost: 1 judge call; with ``unit="claim"`` one more per reference, ever.
    Prompts: ``prompts/context_recall.md``; with ``unit="claim"`` also ``prompts/claims.md``.
    Source: context recall as in ragas 0.4.3.
    Differs from the source: we split the sentences, so the denominator is reproducible; the unit is
        published with the score; no chunk means 0.0 without asking.

    Args:
        unit: ``"sentence"``: our sentences. ``"claim"``: the judge's claims, remembered per
            reference. The two differ a lot: a sentence with four claims is one unit or four.
        unknown_as: 0 counts unknown verdicts as not attributed; None leaves the score without a
            value.

    Without a value:
        ``missing_input``: no contexts or reference answer given.
        ``undefined``: the reference answer has no sentence or claim.
        ``partial``: verdicts stayed unknown; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``, ``skipped``: the judge failed, or its budget is used up.
    """

    name = "context_recall"
    score_names = ("context_recall",)
    needs = ("contexts", "reference.answer")
    target = "retrieval"
    prompts = ("context_recall",)

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge every unit of the reference answer against the chunks."""
        reference = reference_answer(sample)
        chunks = Chunks.of(sample.contexts or ())
        units = [] if is_blank(reference) else await units_of(self.name, reference, self.unit, inquiry)
        if units and not chunks.texts:
            return (recall_without_chunks(self, units, self.unit),)
        answers: Mapping[str, Answer] = {}
        if units:
            question = sample.question or ""
            passages = (
                *chunks.passages(),
                *passages_of(question=question),
                Passage("claims", lines=tuple(number_units("r", units).items())),
            )
            group = Group("answers", recall_items(units, question, reference, chunks))
            answers = (await inquiry.ask(Ask(self.name, self.name, passages, (group,)))).answers
        return (recall_score(self, units, answers, self.unit),)


def recall_items(units: Sequence[str], question: str, reference: str, chunks: Chunks) -> tuple[Item, ...]:
    """Return the units to judge; a verdict depends on all chunks."""
    return tuple(
        Item(item_id, (question, reference, unit, *chunks.texts.values()))
        for item_id, unit in number_units("r", units).items()
    )


def recall_without_chunks(metric: JudgedMetric, units: Sequence[str], unit: Unit) -> Score:
    """Return 0.0: without chunks no unit can be attributed."""
    items = [
        ScoreItem(f"{unit}-{number}", False, text, reason="no chunk has text")
        for number, text in enumerate(units, start=1)
    ]
    return metric.score(
        "context_recall",
        0.0,
        items=items,
        said=f"0 of {len(units)} {unit}s of the reference answer: no chunk has text",
        label=recall_label(0.0),
    )


def recall_score(
    metric: JudgedMetric, units: Sequence[str], answers: Mapping[str, Answer], unit: Unit
) -> Score:
    """Return the share of units attributed to the chunks."""
    judged = [answers[item_id] for item_id in number_units("r", units)]
    items = [
        ScoreItem(f"{unit}-{number}", answer.verdict, text, reason=answer.reason)
        for number, (text, answer) in enumerate(zip(units, judged, strict=True), start=1)
    ]
    return ratio_score(
        metric,
        "context_recall",
        [item.verdict for item in items],
        items,
        said=f"{unit}s of the reference answer are in the chunks",
        nothing=f"the reference answer has no {unit}",
        label=recall_label,
    )
