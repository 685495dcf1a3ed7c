"""Does the answer state a number, a date or a name that no chunk has, or deny what one says?

What an operator can check in a second: each conflict comes with its place and the sentence it contradicts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics._display.wording import number_of, quote_text
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem

from ._claims import Claims, claims_of
from .precision_recall_f1 import MOST_ITEMS


@dataclass(frozen=True)
class FactConflict(ComputedMetric):
    """Does the answer state a checkable fact that no chunk has?

        value = 1.0 where it does, else 0.0; each conflict is an item

    A number (its value, or its unit where the chunks have another), a date, a time, a percentage that neither a
    chunk nor the question has; another month, the other sign of a temperature or the other era of a year; a
    designation such as E1002 where a chunk has E1001; a name in the place of another one in a sentence that is
    otherwise the chunk's; a clause that denies what a chunk's clause states, or the reverse, by a negation or
    an opposite (allowed, prohibited; English, Russian, Chinese).

    None: numbers of lists, steps, passages, code and a life's decades ("in your 20s"), spelled ones unless the
    chunks have another amount in the same unit ("three years" for two), conversions to other units ("350 °F
    (175 °C)"; a wrong one is a conflict), sums and differences that the sentence makes, percentages and years
    that follow from two numbers of a chunk's sentence, and rounded ones that are called so ("about 3 million")
    or keep two digits ("3.2 million").

    Range: 0.0 or 1.0, lower is better.
    Needs: ``contexts``, ``answer``; reads ``question``.
    Cost: no judge.
    Source: ours; false alarms on people's right answers: docs/verdict.md.
    Differs from the source: nothing.

    Without a value:
        ``missing_input``: no answer, or retrieval was not captured; ``skipped``: it failed.
        ``undefined``: nothing was retrieved, or the answer is in a script that no context is written in.
    """

    name = "fact_conflict"
    score_names = ("fact_conflict",)
    needs = ("contexts", "answer")
    reads_carried = True
    method = "lexical"
    target = "answer"
    definition = "9"
    direction = "lower"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Return every conflict with its sentence."""
        claims = claims_of(sample)
        if not any(context.units for context in claims.contexts):
            return self.undefined_scores("nothing was retrieved")
        if not claims.comparable:
            return self.undefined_scores("answer and chunks are in different scripts")
        items = _items(claims)[:MOST_ITEMS]
        if not items:
            nothing = "no number, name or denial that the chunks lack"
            return (self.make_score(self.name, 0.0, explanation=nothing, summary=nothing),)
        first = items[0]
        explanation = f"answer: {quote_text(first.text)}, {first.reason}"
        if first.evidence:
            explanation += f": {quote_text(first.evidence)}"
        said = number_of(len(items), "fact")
        return (
            self.make_score(
                self.name,
                1.0,
                items=items,
                explanation=explanation,
                summary=f"{said} that no chunk has; first: {first.id}",
            ),
        )


def _items(claims: Claims) -> list[ScoreItem]:
    found: list[ScoreItem] = []
    for fact, instead in claims.facts:
        reason, evidence = "in no chunk", None
        if instead is not None:
            chunk, evidence, other = instead
            reason = f"chunk {chunk + 1}: {quote_text(other)}"
        found.append(
            ScoreItem(f"sentence-{fact.sentence + 1}-fact-{len(found) + 1}", False, fact.text, evidence, reason)
        )
    for one in claims.denied:
        found.append(
            ScoreItem(
                f"sentence-{one.sentence + 1}-fact-{len(found) + 1}",
                False,
                one.text,
                one.said,
                f"chunk {one.chunk + 1} says the opposite",
            )
        )
    return found
