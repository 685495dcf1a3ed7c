"""Are the useful chunks ranked above the useless ones?

`ContextPrecision` judges usefulness by the reference answer, `ContextUtilization` by the actual answer; the
two must never share a name. The fused metric uses the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragmeter.metrics.judge.protocol import Ask, Group, Item
from ragmeter.metrics.protocol import scores_without_value
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score

from ._judged_metric import (
    Chunks,
    Inquiry,
    JudgedMetric,
    definition_of,
    is_blank,
    passages_of,
    ranked_score,
    reference_answer,
)


@dataclass(frozen=True)
class ContextPrecision(JudgedMetric):
    """Are the chunks that help to arrive at the reference answer ranked above those that do not?

        value = sum over k of v_k * (hits_k / k), divided by the sum of v_k

    v_k is 1 when the chunk at rank k is useful, hits_k the number of useful ones up to k: average
    precision over the K chunks retrieved.  The explanation gives precision@K, the order-free share.

    Range: 0.0 to 1.0.  1.0: no useless chunk before a useful one; 0.0: no useful chunk.
    Needs: ``question``, ``contexts``, ``reference.answer``.
    Cost: 1 judge call for all chunks; none for chunks known for this question and reference.
    Prompts: ``prompts/context_precision.md``.
    Source: context precision@K as in ragas 0.4.3.
    Differs from the source: one call instead of K; no epsilon in the denominator; verdicts are
        booleans aligned by id; blank chunks count as useless, unasked; identical chunks are judged
        once; unknown verdicts give exact bounds (average precision is not monotone in them).

    Args:
        unknown_as: 0 counts unknown verdicts as useless; None leaves the score without a value.

    Without a value:
        ``missing_input``: no question, contexts or reference answer given.
        ``undefined``: nothing was retrieved, or the reference answer is blank.
        ``partial``: verdicts stayed unknown; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``, ``skipped``: the judge failed, or its budget is used up.
    """

    unknown_as: Literal[0] | None = None

    name = "context_precision"
    score_names = ("context_precision",)
    needs = ("question", "contexts", "reference.answer")
    target = "retrieval"
    definition = definition_of("2", "context_precision")

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge every chunk against the reference answer."""
        reference = reference_answer(sample)
        if is_blank(reference):
            return (self.without_value("undefined", "the reference answer is blank"),)
        return (await _measure_ranking(self, "reference_answer", reference, sample, inquiry),)


@dataclass(frozen=True)
class ContextUtilization(JudgedMetric):
    """Did the chunks that the answer really used stand at the top?

        value = sum over k of v_k * (hits_k / k), divided by the sum of v_k

    As `ContextPrecision`, with v_k = 1 when the chunk at rank k was useful for arriving at the
    answer given.  Needs no reference, so it runs on live traffic; it rewards chunks that
    support a wrong answer, too.

    Range: 0.0 to 1.0.
    Needs: ``question``, ``contexts``, ``answer``.
    Cost: 1 judge call for all chunks.
    Prompts: ``prompts/context_utilization.md``.
    Source: ragas 0.4.3, ContextUtilization.
    Differs from the source: as `ContextPrecision`.

    Args:
        unknown_as: 0 counts unknown verdicts as useless; None leaves the score without a value.

    Without a value:
        ``missing_input``: no question, contexts or answer.
        ``skipped``: the request did not end ``ok``, or the judge's budget is used up.
        ``undefined``: nothing was retrieved, or the answer is blank.
        ``partial``: verdicts stayed unknown; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``: the judge failed.
    """

    unknown_as: Literal[0] | None = None

    name = "context_utilization"
    score_names = ("context_utilization",)
    needs = ("question", "contexts", "answer")
    target = "retrieval"
    definition = definition_of("2", "context_utilization")

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge every chunk against the answer."""
        if sample.status != "ok":
            return scores_without_value(self, "skipped", f"the request ended {sample.status!r}")
        if is_blank(sample.answer):
            return (self.without_value("undefined", "the answer is blank"),)
        return (await _measure_ranking(self, "answer", sample.answer or "", sample, inquiry),)


async def _measure_ranking(
    metric: JudgedMetric, title: str, target: str, sample: RagSample, inquiry: Inquiry
) -> Score:
    chunks = Chunks.of(sample.contexts or ())
    question = sample.question or ""
    items = tuple(Item(chunk_id, (question, target, text)) for chunk_id, text in chunks.texts.items())
    passages = chunks.passages(only_own=True) + passages_of(question=question, **{title: target})
    reply = await inquiry.ask(Ask(metric.name, metric.name, passages, (Group("answers", items),)))
    return ranked_score(metric, metric.score_names[0], chunks.evidence(reply.answers))
