"""Which of the retrieved chunks did the answer use, judged by words?

Shows chunks that the prompt paid for in vain; and, sentence by sentence, the source of the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics._display.wording import listed_ids, number_of, quote_text
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.framing import compared_terms
from ragmeter.metrics.text.refusals import sentence_kinds
from ragmeter.metrics.text.terms import credit_each

from ._claims import claims_of
from .lexical import WINDOW_THRESHOLD
from .precision_recall_f1 import MOST_ITEMS


@dataclass(frozen=True)
class LexicalContextUtilization(ComputedMetric):
    """Which share of the retrieved chunks did the answer use?

        value = chunks that at least one sentence of the answer comes from / chunks

    A sentence that claims something (no refusal, apology or offer) comes from the chunk that covers
    most of its terms, if it covers at least 0.62 of them; where several cover as many, from all.

    Range: 0.0 to 1.0, dimensionless; a low value is a context paid for in vain, not a wrong answer.
    Needs: ``contexts``, ``answer``.
    Cost: no judge.
    Source: ours; of wrong chunks mixed into MTRAG's contexts 9 % are called used, of its own 66 %.
    Differs from the source: nothing.

    Without a value:
        ``missing_input``: no answer, or retrieval was not captured.
        ``undefined``: nothing was retrieved, no sentence claims anything, or the answer is in a
            script that no chunk is written in.
    """

    name = "lexical_context_utilization"
    score_names = ("lexical_context_utilization",)
    needs = ("contexts", "answer")
    method = "lexical"
    target = "retrieval"
    definition = "3"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Assign each sentence to its chunk; the evidence is each chunk's share and each sentence's chunk."""
        given = claims_of(sample, carried=False)
        answer, contexts = given.answer, given.contexts
        if all(not context.units for context in contexts):
            return self.undefined_scores("nothing was retrieved")
        kinds = answer.memoize(sentence_kinds)
        claiming = [
            (at, terms)
            for at, (terms, kind) in enumerate(zip(answer.memoize(compared_terms), kinds, strict=True))
            if terms and kind.claims
        ]
        if not claiming:
            return self.undefined_scores("no sentence of the answer claims anything")
        if not given.comparable:
            return self.undefined_scores("answer and chunks are in different scripts")
        won = [0.0] * len(contexts)
        sources: list[ScoreItem] = []
        total = 0
        by_chunk = [credit_each([terms for _, terms in claiming], one) for one in given.each]
        for (at, terms), covered in zip(claiming, zip(*by_chunk, strict=True), strict=True):
            total += len(terms)
            best = max(covered)
            from_these = []
            if best >= WINDOW_THRESHOLD * len(terms):
                from_these = [number for number, one in enumerate(covered) if one == best]
                for number in from_these:
                    won[number] += len(terms) / len(from_these)
            if len(sources) < MOST_ITEMS:
                sources.append(
                    ScoreItem(
                        f"sentence-{at + 1}",
                        None,
                        answer.sentences[at],
                        ", ".join([f"chunk-{number + 1}" for number in from_these]) or None,
                        None,
                        best / len(terms),
                    )
                )
        used = [number for number, words in enumerate(won, start=1) if words]
        chunks = [
            ScoreItem(f"chunk-{number}", bool(words), context.text, None, None, words / total)
            for number, (context, words) in enumerate(zip(contexts[:MOST_ITEMS], won, strict=False), start=1)
        ]
        summary = (
            f"{listed_ids(used, 'chunk')} of {len(contexts)} used"
            if used
            else f"none of {number_of(len(contexts), 'chunk')} used"
        )
        explanation = summary
        first = next((item for item in sources if item.evidence), None)
        if first is not None:
            explanation += f"; {first.evidence}: {quote_text(first.text)}"
        return (
            self.make_score(
                self.name,
                len(used) / len(contexts),
                items=[*chunks, *sources],
                explanation=explanation,
                summary=summary,
            ),
        )
