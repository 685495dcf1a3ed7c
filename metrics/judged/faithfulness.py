"""Is everything the answer claims supported by the retrieved chunks?"""

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
    UnitMetric,
    is_blank,
    number_units,
    passages_of,
    ratio_score,
    units_of,
    word_evidence,
)

CLAIM_NOTHING = ("no_claim", "refusal")
"""Words for units outside the denominator."""
_CHOICES = ("supported", "absent", "contradicted", "no_claim")
_CLAIMS_NOTHING = "the answer claims nothing"


@dataclass(frozen=True)
class Faithfulness(UnitMetric):
    """Is everything the answer claims supported by the retrieved chunks?

        value = supported units / units of the answer that claim something

    A unit is supported when everything it states follows from the chunks.  What is
    contradicted and what is absent both count as unsupported (the item's reason says which); greetings,
    questions and refusals claim nothing and leave the denominator.

    Range: 0.0 to 1.0.
    Needs: ``contexts``, ``answer``; the question, if known, resolves pronouns.
    Cost: 1 judge call; with ``unit="claim"`` 2.
    Prompts: ``prompts/faithfulness.md``; ``prompts/claims_only.md`` after an empty retrieval; with
        ``unit="claim"`` also ``prompts/claims.md``.
    Source: ours, after ragas 0.4.3 and deepeval 4.3.1.
    Differs from the source: a unit without a verdict makes the score ``partial`` instead of leaving
        the ratio; an answer without claims is ``undefined`` instead of 1.0 or NaN.

    Args:
        unit: ``"sentence"``: our sentences. ``"claim"``: the judge's claims.
        unknown_as: 0 counts unknown verdicts as unsupported; None leaves the score without a value.

    Without a value:
        ``missing_input``: no contexts or answer.
        ``skipped``: the request did not end ``ok``, or the judge's budget is used up.
        ``undefined``: the answer is blank or claims nothing.
        ``partial``: verdicts stayed unknown; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``: the judge failed.
    """

    name = "faithfulness"
    score_names = ("faithfulness",)
    needs = ("contexts", "answer")
    target = "answer"
    prompts = ("faithfulness", "claims_only")

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge every unit of the answer against the chunks."""
        answer = sample.answer or ""
        if is_blank(answer):
            return (self.without_value("undefined", "the answer is blank"),)
        chunks = Chunks.of(sample.support)
        units = await units_of(self.name, answer, self.unit, inquiry)
        if not chunks.texts:
            return (await self._without_chunks(answer, units, inquiry),)
        question = sample.question or ""
        depends_on = (question, answer, *chunks.texts.values())
        lines = number_units("a", units)
        passages = (
            *chunks.passages(),
            *passages_of(question=question),
            Passage("answer", lines=tuple(lines.items())),
        )
        items = tuple(Item(item_id, (*depends_on, unit)) for item_id, unit in lines.items())
        group = Group("answers", items, "choice", choices=_CHOICES)
        reply = await inquiry.ask(Ask(self.name, "faithfulness", passages, (group,)))
        return (support_score(self, support_evidence(self.unit, lines, reply.answers)),)

    async def _without_chunks(self, answer: str, units: list[str], inquiry: Inquiry) -> Score:
        """After an empty retrieval every claim is unsupported: only ask whether there is one."""
        lines = number_units("a", units)
        claims: list[bool | None] = [True] * len(units)
        if self.unit == "sentence":
            items = tuple(Item(item_id, (answer, unit)) for item_id, unit in lines.items())
            group = Group("lines", items, compact=True, reasons=False)
            passage = Passage("answer", lines=tuple(lines.items()))
            reply = await inquiry.ask(Ask(self.name, "claims_only", (passage,), (group,)))
            claims = [reply.answers[item_id].verdict for item_id in lines]
        words = {True: "absent", False: "no_claim", None: None}
        return unsupported_score(
            self,
            [
                ScoreItem(f"{self.unit}-{number}", False if claim else None, unit, words[claim])
                for number, (claim, unit) in enumerate(zip(claims, units, strict=True), start=1)
            ],
        )


def support_evidence(unit: str, lines: Mapping[str, str], answers: Mapping[str, Answer]) -> list[ScoreItem]:
    """Return one item per unit of the answer; its `evidence` is the judge's word."""
    return word_evidence(unit, lines, answers, "supported", CLAIM_NOTHING)


def support_score(metric: JudgedMetric, evidence: Sequence[ScoreItem]) -> Score:
    """Return the share of supported units among those that claim something."""
    return ratio_score(
        metric,
        "faithfulness",
        [item.verdict for item in evidence if item.evidence not in CLAIM_NOTHING],
        evidence,
        said="claims of the answer are in the chunks",
        nothing=_CLAIMS_NOTHING,
    )


def unsupported_score(metric: JudgedMetric, evidence: Sequence[ScoreItem]) -> Score:
    """Return the score after an empty retrieval, where every claim is unsupported."""
    claims = [item.verdict for item in evidence if item.evidence not in CLAIM_NOTHING]
    if False in claims:
        said = "nothing was retrieved that could support the answer"
        return metric.score("faithfulness", 0.0, items=evidence, said=said)
    if claims:
        # 0.0 if the unknown unit is a claim, undefined if not: so there is no value.
        said = "nothing was retrieved; whether the answer claims something is unknown"
        return metric.score("faithfulness", None, "partial", items=evidence, bounds=(0.0, 0.0), said=said)
    return metric.score("faithfulness", None, "undefined", items=evidence, said=_CLAIMS_NOTHING)
