"""Did the retriever bring anything, and how much of it twice?

The one metric that needs nothing but the contexts; it is worth having on every request.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ragmeter.metrics.metric import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import analyse

__all__ = ["RetrievalHealth"]

_NO_LETTER = re.compile(r"[\W_]+")
_END = 200
_LETTERS = 8
"""Characters at either end of a text that are looked at, and letters and digits taken of them."""


@dataclass(frozen=True)
class RetrievalHealth(ComputedMetric):
    """Did the retriever bring anything, and how much of it twice?

        context_count   = K, the number of retrieved chunks
        empty_retrieval = 1.0 if K = 0 or every chunk is blank, else 0.0
        duplicate_ratio = 1 - distinct chunks / K, texts compared without their layout

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
    direction = "lower"
    directions = MappingProxyType({"context_count": "none"})
    definition = "2"
    reads_texts = False  # of a text of any length it is known that it was retrieved

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Return the count, the emptiness and the share of repeats."""
        texts = [context.text for context in sample.contexts or ()]
        if sample.contexts_by == "ids":  # two chunks of one id are one chunk
            texts = [
                f"#{position}" if context.id is None else f"id {context.id}"
                for position, context in enumerate(sample.contexts or ())
            ]
        seen: dict[str, int] = {}
        repeats: list[ScoreItem] = []
        for position, text in enumerate(_comparable(texts), start=1):
            first = seen.setdefault(text, position)
            if first != position:
                repeats.append(
                    ScoreItem(
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
    """Undo the layout, but only of texts that begin and end with the same letters as another.

    The others are distinct anyway, and undoing is what costs.
    """
    ends = [
        (_NO_LETTER.sub("", text[:_END])[:_LETTERS], _NO_LETTER.sub("", text[-_END:])[-_LETTERS:])
        for text in texts
    ]
    counts = Counter(ends)
    return [
        analyse(text).exact_key if counts[pair] > 1 else text
        for text, pair in zip(texts, ends, strict=True)
    ]
