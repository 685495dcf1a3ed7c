"""How high are the known relevant items ranked?

One metric, four scores, over texts (matched as in `matching`) or over ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragmeter.metrics._display.wording import listed_ids, number_of, quote_text
from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.protocol import ComputedMetric, scores_without_value
from ragmeter.metrics.sample import RagSample, Reference, RetrievedContext
from ragmeter.metrics.score import Score, ScoreItem, ScoreMethod
from ragmeter.metrics.text.analysis import analyse

from ._crediting import credit, credit_first_free
from ._matching import Matcher, MatchingBackend, MatchingStrategy, chunk_ids
from ._ranking import average_precision, ndcg, reciprocal_rank
from .precision_recall_f1 import MOST_ITEMS


@dataclass(frozen=True)
class RankedRetrieval(ComputedMetric):
    """How high do the known relevant items stand?

    R distinct golden items, K retrieved chunks; the chunk at rank k has v_k = 1 when it is credited
    with a golden item that it matches.  Each item is credited once and each chunk with one, in the
    way that credits most chunks at every rank (`crediting`), whatever the golden items' order::

        average_precision = sum of v_k * hits_k / k, divided by R
        reciprocal_rank   = 1 / rank of the first v_k = 1, else 0.0
        ndcg              = NDCG@K: sum of v_k / log2(k + 1) over the K retrieved, divided by the
                            same sum with 1 on the first min(K, R) ranks
        hit_rate          = 1.0 if any v_k = 1, else 0.0

    A repeated chunk has v_k = 0, so nothing exceeds 1.  One large chunk that holds several golden
    texts is credited with one of them: for coverage see `recall` of `precision_recall_f1`.

    Range: 0.0 to 1.0 each, dimensionless.
    Needs: ``contexts``, and ``reference.contexts`` or ``reference.context_ids``.
    Cost: no judge.
    Source: textbook definitions; binary gains; NDCG after Järvelin and Kekäläinen 2002.
    Differs from the source: nothing; with ``denominator="retrieved"`` the numbers of
        continuous-eval 0.3.14, ``RankedRetrievalMetrics``: average precision over the chunks that
        match anything, divided by their number, and NDCG's ideal over the whole golden list, not
        cut at K, and the first golden item that is free is credited, so that (there alone) the
        order of the golden list matters where chunks overlap.

    Args:
        strategy: How texts match; one of the two chunk strategies.
        threshold: Least ROUGE-L recall, over 0.0 to 1.0; None: 0.7.
        backend: ``unicode`` or ``rouge_compat``, as in `PrecisionRecallF1`.
        denominator: ``all``: R golden items; ``retrieved``: see above.
        by: Compare ``contexts`` (texts) or ``ids``; ``auto``: texts where golden texts are known.

    Without a value:
        ``missing_input``: neither golden texts nor ids, or ids are compared and no chunk has one.
        ``undefined``: the golden items were given empty.
    """

    strategy: MatchingStrategy = MatchingStrategy.ROUGE_CHUNK_MATCH
    threshold: float | None = None
    backend: MatchingBackend = "unicode"
    denominator: Literal["all", "retrieved"] = "all"
    by: Literal["auto", "contexts", "ids"] = "auto"
    method: ScoreMethod = field(init=False)
    definition: str = field(init=False)
    needs: tuple[str, ...] = field(init=False)
    reads_texts: bool = field(init=False)
    _matcher: Matcher = field(init=False, repr=False, compare=False)

    name = "ranked_retrieval"
    score_names = ("average_precision", "reciprocal_rank", "ndcg", "hit_rate")
    target = "retrieval"

    def __post_init__(self) -> None:
        matcher = Matcher(self.strategy, self.threshold, self.backend, None)
        if matcher.strategy.by_sentence:
            raise ConfigurationError(
                f"{matcher.strategy.name} compares sentences, which have no rank; "
                "use EXACT_CHUNK_MATCH or ROUGE_CHUNK_MATCH"
            )
        if self.denominator not in ("all", "retrieved"):
            raise ConfigurationError(f"denominator is {self.denominator!r}; it is 'all' or 'retrieved'")
        golden = {
            "auto": "reference.contexts|reference.context_ids",
            "contexts": "reference.contexts",
            "ids": "reference.context_ids",
        }
        if self.by not in golden:
            raise ConfigurationError(f"by is {self.by!r}; it is 'auto', 'contexts' or 'ids'")
        object.__setattr__(self, "strategy", matcher.strategy)
        object.__setattr__(self, "_matcher", matcher)
        object.__setattr__(self, "method", "rouge" if matcher.strategy.uses_rouge else "exact")
        credited = "optimal" if self.denominator == "all" else "first"
        object.__setattr__(self, "definition", f"{matcher.definition}/{self.denominator}/{credited}")
        object.__setattr__(self, "needs", ("contexts", golden[self.by]))
        object.__setattr__(self, "reads_texts", self.by != "ids")

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Match, credit each golden item once, and do the rank arithmetic."""
        contexts = sample.contexts or ()
        reference = sample.reference or Reference()
        by_id = self.by == "ids" or (
            self.by == "auto" and bool(reference.context_ids) and not reference.contexts
        )
        golden = reference.context_ids if by_id else reference.contexts
        if by_id and contexts and all(context.id is None for context in contexts):
            return scores_without_value(
                self, "missing_input", "no retrieved context has an id", missing="contexts.id"
            )
        truth, matching = (_by_id if by_id else self._by_text)(contexts, golden)
        credited = (credit if self.denominator == "all" else credit_first_free)(matching)
        scores = self._scores(matching, credited, len(truth), len(golden))
        items = [
            ScoreItem(
                rank,
                position is not None,
                context.id if by_id else context.text,
                None if position is None else truth[position],
            )
            for rank, context, position in zip(
                chunk_ids(min(len(contexts), MOST_ITEMS)), contexts, credited, strict=False
            )
        ]
        explanation, summary = _credit_words(credited, truth, by_id=by_id)
        return [
            self.make_score(
                name,
                value,
                explanation=explanation,
                summary=summary,
                items=items,
                method="exact" if by_id else None,
            )
            for name, value in zip(self.score_names, scores, strict=True)
        ]

    def _by_text(
        self, contexts: Sequence[RetrievedContext], golden: Sequence[str]
    ) -> tuple[Sequence[str], list[list[int]]]:
        """Return the distinct golden texts, and which of them each context matches."""
        matching: list[list[int]] = [[] for _ in contexts]
        texts = [context.text for context in contexts]
        retrieved, truth = self._matcher.components(texts, golden)
        truth = truth.distinct()
        for position, match in enumerate(self._matcher.match(retrieved, truth)):
            for index in match.matched:
                matching[index].append(position)
        if self.denominator == "all":
            first = {tuple(analyse(text).tokens) or text: at for at, text in reversed([*enumerate(texts)])}
            for index in set(range(len(texts))).difference(first.values()):
                matching[index] = []  # a repeat, also of a chunk that holds several golden texts
        return truth.texts, matching

    def _scores(
        self,
        matching: Sequence[Sequence[int]],
        credited: Sequence[int | None],
        golden: int,
        golden_with_repeats: int,
    ) -> tuple[float | None, float | None, float | None, float | None]:
        if golden == 0:
            return None, None, None, None
        relevances = [position is not None for position in credited]
        hit_rate = float(any(relevances))
        if self.denominator == "all":
            return (
                average_precision(relevances, golden),
                reciprocal_rank(relevances),
                ndcg(relevances, golden),
                hit_rate,
            )
        # The original's ideal ranking is as long as the golden list, however little was retrieved.
        padded = [*relevances, *[False] * golden_with_repeats]
        return (
            average_precision([bool(positions) for positions in matching]) or 0.0,
            reciprocal_rank(relevances),
            ndcg(padded, golden_with_repeats),
            hit_rate,
        )


def _credit_words(credited: Sequence[int | None], truth: Sequence[str], *, by_id: bool) -> tuple[str, str]:
    """Describe which ranks are credited, and the first golden item without a credit."""
    if not truth:
        return "no golden item", "no golden item"
    ranks = [rank for rank, position in enumerate(credited, start=1) if position is not None]
    found = set(credited)
    missed = next((item for at, item in enumerate(truth) if at not in found), None)
    summary = f"{len(ranks)} of {number_of(len(truth), 'golden item')} found"
    if ranks:
        summary += f", at {listed_ids(ranks, 'rank')}"
    if missed is None:
        return summary, summary
    return f"{summary}; not {missed if by_id else quote_text(missed)}", summary


def _by_id(
    contexts: Sequence[RetrievedContext], golden: Sequence[str]
) -> tuple[Sequence[str], list[list[int]]]:
    """Return the distinct golden ids, and which of them each context has."""
    truth = list(dict.fromkeys(golden))
    positions = {identifier: position for position, identifier in enumerate(truth)}
    return truth, [
        [positions[context.id]] if context.id is not None and context.id in positions else []
        for context in contexts
    ]
