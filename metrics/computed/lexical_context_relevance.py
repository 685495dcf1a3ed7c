"""Is at least one retrieved chunk about what the question asks, as far as words can tell?

The free score to look at for retrieval without a reference: it asks for one chunk on topic, where
`lexical_query_coverage` takes all chunks' words together and counts "how long" as a topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics._wording import counted, listed
from ragmeter.metrics.errors import TooLongError
from ragmeter.metrics.metric import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import Analysis, analyse
from ragmeter.metrics.text.question_words import asks, topic_terms
from ragmeter.metrics.text.scripts import share_a_script
from ragmeter.metrics.text.terms import (
    as_written,
    credit,
    present,
    sentence_runs,
    terms_of_runs,
    vocabulary,
)
from ragmeter.metrics.text.tokens import has_han, is_han

from .precision_recall_f1 import MOST_ITEMS

__all__ = ["LexicalContextRelevance"]

_MOST_WORK = 2_000_000
"""Topic words of a Chinese question times sentences of a chunk: half a second."""


@dataclass(frozen=True)
class LexicalContextRelevance(ComputedMetric):
    """Does at least one chunk have what the question names?

        cov(T)     = share of the question's distinct topic words that T has
        rel(chunk) = (cov(chunk) + cov(its best two consecutive sentences)) / 2
        value      = the largest rel(chunk)

    The question is the one that was searched with (`RagSample.search_query`) where a chat's last turn
    was condensed with what was said before it.

    Topic words are content tokens less question words, courtesies and auxiliaries (all of them,
    when none is left); Han runs give bigrams, and one of which only the two characters are there
    counts half.

    Range: 0.0 to 1.0, dimensionless; below 0.3 the retrieval is off topic more often than not.
    Needs: ``question``, ``contexts``.
    Cost: no judge.
    Source: ours; AUROC .92 (English), .90 (Russian), .92 (Chinese) for "the right chunk is among
        three", against the nearest wrong chunks by BM25, on XQuAD; .70 on the last turns of MTRAG.
    Differs from the source: nothing.

    Without a value:
        ``missing_input``: no question, or retrieval was not captured.
        ``undefined``: a turn of a chat asks nothing (no question mark, asking word or key words: ask with
            the condensed question, `RagSample.search_query`); the question has no token, or is in a
            script that no chunk is written in.
    """

    name = "lexical_context_relevance"
    score_names = ("lexical_context_relevance",)
    needs = ("question", "contexts")
    method = "lexical"
    target = "retrieval"
    definition = "3"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Measure every chunk; the evidence is each one's value and best passage."""
        question = analyse(sample.searched_for or "")
        contexts = [analyse(context.text) for context in sample.contexts or ()]
        wanted = question.kept(topic_terms)
        if sample.search_query is None and not asks(question):
            return (self._without_value("no question in the turn: ask with the condensed one"),)
        if not wanted:
            return (self._without_value("no topic word in the question"),)
        if all(not context.units for context in contexts):
            nothing = "nothing was retrieved"
            return (self.make_score(self.name, 0.0, explanation=nothing, summary=nothing),)
        if not share_a_script(question, contexts):
            return (self._without_value("question and chunks are in different scripts"),)
        found = [_relevance(wanted, context) for context in contexts]
        best = max(range(len(found)), key=lambda index: found[index][0])
        items = [
            ScoreItem(f"chunk-{rank}", None, context.text, passage or None, None, value)
            for rank, (context, (value, passage)) in enumerate(
                zip(contexts[:MOST_ITEMS], found, strict=False), start=1
            )
        ]
        explanation, summary = _said(question, wanted, contexts, best)
        return (
            self.make_score(
                self.name, found[best][0], items=items, explanation=explanation, summary=summary
            ),
        )

    def _without_value(self, why: str) -> Score:
        return self.make_score(self.name, None, explanation=why, summary=why)


def _relevance(wanted: Sequence[str], context: Analysis) -> tuple[float, str]:
    """Return the relevance of one chunk, and its best passage."""
    # By sentences first: a text's tokens follow from its sentences' tokens.
    _ = context.marked_tokens
    whole = credit(wanted, context.kept(vocabulary))
    if not whole:
        return 0.0, ""
    find = _best_han_passage if has_han(context.text) else _best_passage
    covered, start, end = find(wanted, context)
    passage = " ".join(context.sentences[start:end])
    return (whole + covered) / 2 / len(wanted), passage


def _best_passage(wanted: Sequence[str], context: Analysis) -> tuple[float, int, int]:
    """Return how many of `wanted` two neighbours have at best, and where they begin and end."""
    terms = frozenset(wanted)
    by_sentence: dict[int, set[str]] = {}
    ends = context.sentence_ends
    at = 0
    for place, term in enumerate(context.stems):
        if term in terms and term is not None:
            while ends[at] < place:
                at += 1
            by_sentence.setdefault(at, set()).add(term)
    best, start, end = 0, 0, 0
    for at, own in by_sentence.items():
        following = by_sentence.get(at + 1)
        covered = len(own if following is None else own | following)
        if covered > best:
            best, start = covered, at
            end = at + 1 if covered == len(own) else at + 2
    return best, start, end


def _best_han_passage(wanted: Sequence[str], context: Analysis) -> tuple[float, int, int]:
    """Do the same as `_best_passage` where a bigram may be half there."""
    if len(wanted) * len(context.sentences) > _MOST_WORK:
        raise TooLongError(f"more than {_MOST_WORK} pairs of a word and a sentence to compare")
    here = present(wanted, context.kept(vocabulary))
    han = list(filter(is_han, here))
    other = frozenset(here).difference(han)
    runs = context.kept(sentence_runs)
    lines = list(map("\n".join, runs))
    others = [other.intersection(terms_of_runs(one)) if other else other for one in runs]

    def covered(at: int, until: int) -> float:
        text = "\n".join(lines[at:until])
        found = float(len(frozenset().union(*others[at:until])))
        for term in han:
            if term in text:
                found += 1
            elif term[0] in text and term[-1] in text:
                found += 0.5
        return found

    best, start, end = 0.0, 0, 0
    for at in range(len(lines)):
        both = covered(at, at + 2)
        if both > best:
            best, start = both, at
            end = at + 1 if covered(at, at + 1) == both else at + 2
    return best, start, end


def _said(
    question: Analysis, wanted: Sequence[str], contexts: Sequence[Analysis], best: int
) -> tuple[str, str]:
    """Say what the best chunk has and what no chunk has, with the words and without."""
    held = [context.kept(vocabulary) for context in contexts]
    has = len(present(wanted, held[best]))
    anywhere = {term for one in held for term in present(wanted, one)}
    nowhere = [term for term in wanted if term not in anywhere]
    if has:
        explanation = (
            f"chunk-{best + 1} has {has} of the question's {counted(len(wanted), 'topic word')}"
        )
        summary = f"chunk-{best + 1}: {has} of {len(wanted)}"
        if nowhere:
            summary += f"; {counted(len(nowhere), 'word')} in no chunk"
    else:
        explanation = f"no chunk has any of the question's {counted(len(wanted), 'topic word')}"
        summary = f"no chunk has any of {counted(len(wanted), 'topic word')}"
    if nowhere:
        explanation += f"; in no chunk: {listed(as_written(nowhere, question))}"
    return explanation, summary
