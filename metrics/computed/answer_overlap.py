"""How close is the wording of the answer to the reference answer?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragmeter.metrics.metric import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, evidence_item
from ragmeter.metrics.text.analysis import analyse
from ragmeter.metrics.text.overlap import RougeScore, rouge_l, token_overlap

__all__ = ["AnswerOverlap"]


@dataclass(frozen=True)
class AnswerOverlap(ComputedMetric):
    """How close is the wording of the answer to the reference answer?

        rouge_l  = F1 of LCS / answer tokens and LCS / reference tokens
        token_f1 = F1 of the shared tokens, repeats counted, without the articles a, an, the

    LCS is the longest common subsequence of the token lists.  With several references
    (``reference.alternative_answers``) each score takes the one with the best F1, and the
    evidence shows that one's precision, recall and F1 together.

    Range: 0.0 to 1.0 each, dimensionless.
    Needs: ``answer``, ``reference.answer``.
    Cost: no judge.
    Source: Lin 2004 (ROUGE-L); Rajpurkar et al. 2016 (SQuAD's F1).
    Differs from the source: Unicode tokens, so Russian and Chinese count; no stemming.

    Without a value:
        ``missing_input``: no answer or no reference answer; ``skipped``: the request failed.
        ``undefined``: no reference answer has a token.
    """

    name = "answer_overlap"
    score_names = ("rouge_l", "token_f1")
    needs = ("answer", "reference.answer")
    method = "rouge"
    target = "answer"
    definition = "2"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Compare the answer with every reference answer and keep the best."""
        answer = sample.answer or ""
        references: tuple[str, ...] = ()
        if sample.reference is not None:
            references = (sample.reference.answer or "", *sample.reference.alternative_answers)
        return (
            self._best("rouge_l", answer, references, _rouge_l),
            self._best("token_f1", answer, references, token_overlap),
        )

    def _best(
        self,
        name: str,
        answer: str,
        references: Sequence[str],
        compare: Callable[[str, str], RougeScore | None],
    ) -> Score:
        best: tuple[float, int, RougeScore] | None = None
        for position, reference in enumerate(references, start=1):
            overlap = compare(answer, reference)
            if overlap is not None and (best is None or overlap.f1 > best[0]):
                best = (overlap.f1, position, overlap)
        if best is None:
            return self.make_score(name, None, explanation="no reference answer has a token")
        value, position, overlap = best
        items = [
            evidence_item(id=f"reference-{position}/{part}", verdict=None, value=number)
            for part, number in zip(overlap._fields, overlap, strict=True)
        ]
        return self.make_score(name, value, items=items)


def _rouge_l(answer: str, reference: str) -> RougeScore | None:
    wanted = analyse(reference).tokens
    return rouge_l(wanted, analyse(answer).tokens) if wanted else None
