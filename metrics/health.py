"""Did the retriever bring anything, and how much of it twice?

The one metric that needs nothing but the contexts; it is worth having on every request.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .metric import ComputedMetric
from .sample import RagSample
from .score import Score, ScoreItem, evidence_item

__all__ = ["RetrievalHealth"]


@dataclass(frozen=True)
class RetrievalHealth(ComputedMetric):
    """Did the retriever bring anything, and how much of it twice?

        context_count   = K, the number of retrieved chunks
        empty_retrieval = 1.0 if K = 0 or every chunk is blank, else 0.0
        duplicate_ratio = 1 - distinct chunks / K, texts compared after collapsing white space

    Range: `context_count` is a count, 0 or more; the other two 0.0 to 1.0.  Lower is better for
    both: these are plain measurements, not quality scores.
    Needs: ``contexts``.
    Cost: none.
    Source: ours.

    Without a value:
        ``missing_input``: retrieval was not captured.
        ``undefined``: `duplicate_ratio` of an empty retrieval.
    """

    name = "retrieval_health"
    score_names = ("context_count", "empty_retrieval", "duplicate_ratio")
    needs = ("contexts",)
    method = "exact"
    target = "retrieval"
    definition = "1"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Return the count, the emptiness and the share of repeats."""
        texts = [context.text for context in sample.contexts or ()]
        seen: dict[str, int] = {}
        repeats: list[ScoreItem] = []
        for position, text in enumerate(_comparable(texts), start=1):
            first = seen.setdefault(text, position)
            if first != position:
                repeats.append(
                    evidence_item(
                        id=f"chunk-{position}", verdict=False, reason=f"repeats chunk-{first}"
                    )
                )
        count = len(texts)
        empty = all(not text or text.isspace() for text in texts)
        ratio = (count - len(seen)) / count if count else None
        return (
            self.make_score("context_count", float(count), range=(0.0, None)),
            self.make_score("empty_retrieval", float(empty)),
            self.make_score(
                "duplicate_ratio",
                ratio,
                items=repeats,
                explanation="nothing was retrieved" if ratio is None else None,
            ),
        )


def _comparable(texts: Sequence[str]) -> list[str]:
    """Collapse white space, but only in texts that have the same first and last words as another.

    The others are distinct anyway, and collapsing is what costs.
    """
    ends = [(*text.split(None, 1)[:1], *text.rsplit(None, 1)[-1:]) for text in texts]
    shared = {pair for pair, count in Counter(ends).items() if count > 1}
    return [
        " ".join(text.split()) if pair in shared else text
        for text, pair in zip(texts, ends, strict=True)
    ]
