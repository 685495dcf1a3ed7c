"""Which share of the answer's words is in the retrieved contexts?

The number for people; `support` is the one behind the verdict, and both refer to the same sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics._display.wording import number_of, percent
from ragmeter.metrics._ungrounded import KINDS, NOTHING_RETRIEVED, lacking_said
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score
from ragmeter.metrics.text.framing import compared_terms
from ragmeter.metrics.text.terms import credit_each

from ._claims import Claims, claims_of

_CARRIED = 0.5
"""Share of missing claiming words above which a sentence counts as unsupported by the chunks."""


@dataclass(frozen=True)
class LexicalGroundedness(ComputedMetric):
    """Which share of the answer's words is in the retrieved contexts?

        value = terms of the answer, repeats counted, that any context has
                / terms of the answer

    Terms are content tokens without Russian function words; Han runs give bigrams, and one of which
    the contexts have only the two characters counts half.  Marks of citations, ``[1]``, and of lists are no
    words.

    Range: 0.0 to 1.0, dimensionless.  A refusal shares few words with anything: read it beside
    `refusal`, and after an empty retrieval, which scores 0.0, beside `empty_retrieval`.
    Needs: ``contexts``, ``answer``.
    Cost: no judge.
    Source: "content K-precision"; Spearman .638 with human faithfulness on MTRAG (n = 477), where it
        separates answers rated 2.5 or less from the others with AUROC .94.
    Differs from the source: bigrams for Chinese, no function words of Russian.

    Without a value:
        ``missing_input``: no answer, or retrieval was not captured; ``skipped``: it failed.
        ``undefined``: the answer has no term, or is in a script that no context is written in.
    """

    name = "lexical_groundedness"
    score_names = ("lexical_groundedness",)
    needs = ("contexts", "answer")
    reads_carried = True
    method = "lexical"
    target = "answer"
    definition = "5"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Find the answer's words in all contexts; the evidence is per sentence."""
        claims = claims_of(sample)
        answer, contexts = claims.answer, claims.contexts
        sentences = answer.memoize(compared_terms)
        terms = [term for sentence in sentences for term in sentence]
        if not terms:
            return self.undefined_scores("no content word in the answer")
        if not claims.comparable:
            return self.undefined_scores("answer and chunks are in different scripts")
        covered = credit_each(sentences, claims.held)
        shares = [
            found / len(sentence) if sentence else None
            for found, sentence in zip(covered, sentences, strict=True)
        ]
        items = claims.sentence_items(shares)
        value = sum(covered) / len(terms)
        if any(context.units for context in contexts):
            found = f"{value * len(terms):g} of {number_of(len(terms), 'word')}"
            said, named = claims.weakest_said
            explanation = f"{percent(value)} of the answer's words are in the chunks{said}"
            lacking = _by_kind(claims, [*map(len, sentences)], covered)
            summary = f"{found}{lacking_said(lacking)}{named}"
        else:
            explanation = summary = NOTHING_RETRIEVED
        return (self.make_score(self.name, value, items=items, explanation=explanation, summary=summary),)


def _by_kind(claims: Claims, words: Sequence[int], covered: Sequence[float]) -> dict[str, float]:
    """Return the numbers of words that are in no chunk, by kind, each word once."""
    counts: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    facts = [fact.sentence for fact, _ in claims.facts]
    for at, (all_of_it, there) in enumerate(zip(words, covered, strict=True)):
        lacking = all_of_it - there
        claiming = min(lacking, claims.unsupported[at])
        counts["framing"] += lacking - claiming
        stated = min(claiming, float(facts.count(at)))
        counts["facts"] += stated
        invented = claiming > _CARRIED * len(claims.terms[at])
        counts["sentences" if invented else "other"] += claiming - stated
    return counts
