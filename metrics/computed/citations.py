"""Does the answer cite, and do the cited chunks say so?

Off by default: few answers cite, and nothing here is validated against people.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics._display.wording import number_of, quote_text
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import analyse
from ragmeter.metrics.text.citations import cited_numbers, marks_inside, without_marks
from ragmeter.metrics.text.framing import claim_terms
from ragmeter.metrics.text.refusals import sentence_kinds
from ragmeter.metrics.text.scripts import share_a_script
from ragmeter.metrics.text.sentences import sentences
from ragmeter.metrics.text.terms import credit, find_terms, search_terms

from .lexical import WINDOW_THRESHOLD
from .precision_recall_f1 import MOST_ITEMS


@dataclass(frozen=True)
class Citations(ComputedMetric):
    """Does the answer cite its chunks, and do the cited ones say so?

        citation_precision = (sentence, cited chunk) pairs in which the chunk covers at least 0.62
                             of the sentence's terms / pairs
        citation_coverage  = claiming sentences with a mark / claiming sentences

    Marks: ``[1]``, ``[1, 3]``, ``[1-3]``, ``[^1]``, ``【1】``, ``[source 1]``, ``[来源1]``, or in words,
    "Passage 3 says"; a mark after
    the full stop belongs to the sentence before.  Numbers begin at 1, or at 0 if a 0 occurs.  One
    that no chunk has is a wrong pair.  The number must mean the rank in ``contexts``; chunks carried over from
    earlier turns had numbers of their own, which are not known, so any of them may say so instead.

    Range: 0.0 to 1.0 each, dimensionless.
    Needs: ``contexts``, ``answer``.
    Cost: no judge.
    Source: ours; the threshold is that of `lexical_context_recall`.  Not validated: no data with
        citations and human labels was at hand.
    Differs from the source: nothing.

    Without a value:
        ``missing_input``: no answer, or retrieval was not captured; ``skipped``: it failed.
        ``undefined``: no mark in the answer; no claiming sentence; for precision also where the
            cited chunks are in another script.
    """

    name = "citations"
    score_names = ("citation_precision", "citation_coverage")
    needs = ("contexts", "answer")
    method = "lexical"
    target = "answer"
    definition = "4"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Look every cited chunk up; the evidence is per pair, and per claiming sentence."""
        contexts = [analyse(context.text) for context in sample.contexts or ()]
        carried = [analyse(context.text) for context in sample.carried]
        cut = sentences(marks_inside(sample.answer or ""))
        cited = list(map(cited_numbers, cut))
        if not any(cited):
            return self.undefined_scores("no citation in the answer")
        first = 0 if any(0 in numbers for numbers in cited) else 1
        claiming: list[ScoreItem] = []
        pairs: list[ScoreItem] = []
        wrong: list[str] = []
        for number, (sentence, numbers) in enumerate(zip(cut, cited, strict=True), start=1):
            bare = without_marks(sentence)
            terms = [term for one in bare.memoize(claim_terms) for term in one]
            if not terms or not all(kind.claims for kind in bare.memoize(sentence_kinds)):
                continue
            claiming.append(ScoreItem(f"sentence-{number}", bool(numbers), sentence))
            for mark in numbers:
                rank = mark - first
                meant = [*(contexts[rank : rank + 1] if rank >= 0 else ()), *carried]
                comparable = [one for one in meant if share_a_script(bare, [one])]
                if meant and not comparable:
                    continue
                shares = (credit(terms, find_terms(one, search_terms(terms))) for one in comparable)
                share = max(shares, default=0.0) / len(terms)
                found = share >= WINDOW_THRESHOLD
                pairs.append(ScoreItem(f"sentence-{number}-cites-{mark}", found, sentence, None, None, share))
                if not found:
                    wrong.append(f"sentence-{number} cites {mark}: {share:.2f}")
        if not claiming:
            return self.undefined_scores("no sentence of the answer claims anything")
        return self._precision(pairs, wrong), self._coverage(claiming)

    def _precision(self, pairs: Sequence[ScoreItem], wrong: Sequence[str]) -> Score:
        name, _ = self.score_names
        if not pairs:
            why = "no cited chunk that could be compared"
            return self.make_score(name, None, explanation=why, summary=why)
        right = len(pairs) - len(wrong)
        explanation = summary = f"{right} of {number_of(len(pairs), 'citation')} supported"
        if wrong:
            summary += f"; {wrong[0]}"
            text = next(pair.text or "" for pair in pairs if not pair.verdict)
            explanation += f"; {wrong[0]}: {quote_text(text)}"
        return self.make_score(
            name, right / len(pairs), items=pairs[:MOST_ITEMS], explanation=explanation, summary=summary
        )

    def _coverage(self, claiming: Sequence[ScoreItem]) -> Score:
        _, name = self.score_names
        bare = [item for item in claiming if not item.verdict]
        cited = len(claiming) - len(bare)
        explanation = summary = f"{cited} of {number_of(len(claiming), 'claim')} cited"
        if bare:
            summary += f"; {bare[0].id} is not"
            explanation += f"; not {quote_text(bare[0].text)}"
        return self.make_score(
            name, cited / len(claiming), items=claiming[:MOST_ITEMS], explanation=explanation, summary=summary
        )
