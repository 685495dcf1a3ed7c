"""Does the answer address the question?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics.judge.protocol import Ask, Group, Item, Passage
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score

from ._judged_metric import (
    Inquiry,
    UnitMetric,
    is_blank,
    number_units,
    passages_of,
    ratio_score,
    units_of,
    word_evidence,
)

_CHOICES = ("relevant", "irrelevant", "noncommittal", "no_claim")


@dataclass(frozen=True)
class AnswerRelevancy(UnitMetric):
    """Does the answer address the question?

        value = relevant units of the answer / its units that say something

    A unit is relevant when it answers the question or directly helps to answer it; whether it is
    true does not matter.  A refusal is an irrelevant unit; its item's evidence is ``noncommittal``.
    Greetings, thanks and offers of more help (``no_claim``) leave the denominator: they neither help
    nor harm.

    Range: 0.0 to 1.0.
    Needs: ``question``, ``answer``.
    Cost: 1 judge call; with ``unit="claim"`` 2.
    Prompts: ``prompts/answer_relevancy.md``; with ``unit="claim"`` also ``prompts/claims.md``.
    Source: the ratio of deepeval 4.3.1.
    Differs from the source: one call; a verdict in any language counts; a missing one makes the
        score ``partial``.  ragas' metric of the same name averages cosines of embeddings and is not
        comparable.

    Args:
        unit: ``"sentence"``: our sentences. ``"claim"``: the judge's claims (a text that claims
            nothing, e.g. a refusal, then has no unit).
        unknown_as: 0 counts unknown verdicts as irrelevant; None leaves the score without a value.

    Without a value:
        ``missing_input``: no question or answer.
        ``skipped``: the request did not end ``ok``, or the judge's budget is used up.
        ``undefined``: the question or the answer is blank, or the answer says nothing but courtesies.
        ``partial``: verdicts stayed unknown; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``: the judge failed.
    """

    name = "answer_relevancy"
    score_names = ("answer_relevancy",)
    needs = ("question", "answer")
    target = "answer"
    prompts = ("answer_relevancy",)

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge every unit of the answer against the question."""
        question, answer = sample.question or "", sample.answer or ""
        if is_blank(question) or is_blank(answer):
            blank = "question" if is_blank(question) else "answer"
            return (self.without_value("undefined", f"the {blank} is blank"),)
        lines = number_units("a", await units_of(self.name, answer, self.unit, inquiry))
        items = tuple(Item(item_id, (question, answer, unit)) for item_id, unit in lines.items())
        group = Group("answers", items, "choice", choices=_CHOICES)
        passages = (*passages_of(question=question), Passage("answer", lines=tuple(lines.items())))
        reply = await inquiry.ask(Ask(self.name, self.name, passages, (group,)))
        evidence = word_evidence(self.unit, lines, reply.answers, "relevant", ("no_claim",))
        verdicts = [item.verdict for item in evidence if item.evidence != "no_claim"]
        nothing = "the answer says nothing" if evidence else f"the answer has no {self.unit}"
        said = f"{self.unit}s of the answer are about the question"
        return (ratio_score(self, self.name, verdicts, evidence, said=said, nothing=nothing),)
