"""Were the right documents retrieved, by id?"""

from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics._display.wording import number_of
from ragmeter.metrics.protocol import ComputedMetric, scores_without_value
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem

from ._matching import chunk_ids
from .precision_recall_f1 import MOST_ITEMS

_NO_CHUNK = "nothing was retrieved"
_NO_ID = "no golden id"


@dataclass(frozen=True)
class IdPrecisionRecall(ComputedMetric):
    """Were the right documents retrieved, by id?

        id_precision = distinct retrieved ids that are golden / distinct retrieved ids
        id_recall    = the same hits / distinct golden ids

    Ids are compared as strings, unchanged: ``1`` equals ``"1"``, ``"A"`` and ``"a"`` differ.  A
    chunk without an id counts as one more retrieved id, never as a hit.  Rank plays no part.

    Range: 0.0 to 1.0 each, dimensionless.
    Needs: ``contexts`` with ids, ``reference.context_ids``.
    Cost: no judge.
    Source: ragas 0.4.3, ``IDBasedContextPrecision`` and ``IDBasedContextRecall``.
    Differs from the source: an empty list gives a status, not NaN.

    Without a value:
        ``missing_input``: no golden ids were given, or no retrieved chunk has an id.
        ``undefined``: `id_precision` when nothing was retrieved; `id_recall` when the golden ids
        were given empty; both when a golden id names no chunk any more (`Reference.orphaned_ids`).
    """

    name = "id_precision_recall"
    score_names = ("id_precision", "id_recall")
    needs = ("contexts", "reference.context_ids")
    method = "exact"
    target = "retrieval"
    reads_texts = False
    definition = "1"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Intersect the two sets of ids."""
        contexts = sample.contexts or ()
        golden = dict.fromkeys(sample.reference.context_ids if sample.reference else ())
        ids = [context.id for context in contexts if context.id is not None]
        if contexts and not ids:
            return scores_without_value(
                self, "missing_input", "no retrieved context has an id", missing="contexts.id"
            )
        retrieved = dict.fromkeys(ids)
        count = len(retrieved) + len(contexts) - len(ids)
        hits = sum(identifier in golden for identifier in retrieved)
        precision_items = [
            ScoreItem(rank, context.id in golden, context.id)
            for rank, context in zip(chunk_ids(min(len(contexts), MOST_ITEMS)), contexts, strict=False)
        ]
        recall_items = [
            ScoreItem(id=f"id-{number}", verdict=identifier in retrieved, text=identifier)
            for number, identifier in enumerate(list(golden)[:MOST_ITEMS], start=1)
        ]
        right = f"{hits} of {number_of(count, 'retrieved chunk')} golden" if count else _NO_CHUNK
        found = f"{hits} of {number_of(len(golden), 'golden id')} retrieved" if golden else _NO_ID
        return (
            self.make_score(
                "id_precision",
                hits / count if count else None,
                items=precision_items,
                explanation=right,
                summary=right,
            ),
            self.make_score(
                "id_recall",
                hits / len(golden) if golden else None,
                items=recall_items,
                explanation=found,
                summary=found,
            ),
        )
