"""How many documents passed each stage between store and model, and where was a right one lost?

Both use the stages recorded by the adapters (`RagSample.stages`); the fate of a document is determined in
`_document_outcomes`. Unrecorded steps are ``unknown``, never 0.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from ragmeter.metrics._display.wording import quote_text
from ragmeter.metrics.protocol import ComputedMetric, scores_without_value
from ragmeter.metrics.sample import RagSample, Reference
from ragmeter.metrics.score import Score, ScoreItem

from ._document_outcomes import (
    PROMPT,
    UNKNOWN,
    Fate,
    Journey,
    cut_documents,
    fates_by_id,
    fates_by_text,
    not_among,
    rewritten_documents,
)
from ._matching import Matcher, MatchingStrategy
from .precision_recall_f1 import MOST_ITEMS

NOTHING_LOST: Final = "none"

MOST_STAGES: Final = 12
"""Most stages in a sentence."""


@dataclass(frozen=True)
class RetrievalFunnel(ComputedMetric):
    """How many documents passed each stage, and which share of those found reached the model?

        retrieval_funnel = distinct documents that retrievers found and the model saw
                           / distinct documents that retrievers found

    A document is there while its text is: rewritten around it, merged into its parent, or cut to an
    extract without an id.

    Range: 0.0 to 1.0, dimensionless; neither way is better: leaving documents out is what a reranker is for.
    Needs: ``contexts``, ``stages``, which adapters and `RagMeter.request` note.
    Cost: none.
    Source: ours.

    Evidence: one item per stage, in the order in which they ended, the prompt last: `value` is how
    many documents left it, None where that is not known; `reason` its kind, and whether the framework said so
    (``recorded``) or it was ``inferred``.

    Without a value:
        ``missing_input``: the stages were not recorded, or retrieval was not captured.
        ``undefined``: nothing was retrieved; a retriever's list, or what reached the model, is not known; or
        documents were rewritten without an id, so that it is not known which of them reached it.
    """

    name = "retrieval_funnel"
    score_names = ("retrieval_funnel",)
    needs = ("contexts", "stages")
    method = "exact"
    target = "retrieval"
    direction = "none"
    definition = "1"
    reads_texts = False  # the fate of a text of any length is known

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Count each list, and compare the first ones with the last."""
        journey = Journey(sample)
        found = {
            (context.id, context.text): context for stage in journey.sources for context in stage.contexts or ()
        }
        end = journey.end
        is_known = all(stage.contexts is not None for stage in journey.sources)
        left = [] if end is None else not_among(list(found.values()), end)
        unseen = bool(left) and journey.unseen_way
        summary = explanation = _flow(journey, unseen=unseen)
        value: float | None = None
        if not found:
            explanation += "; nothing was retrieved"
        elif end is None or not is_known:
            explanation += "; not all of it was seen"
        elif left and rewritten_documents(end, list(found.values())):
            explanation += "; documents were rewritten on the way"
        else:
            value = (len(found) - len(left)) / len(found)
            cut = cut_documents(found.values(), end)
            if cut:
                explanation += f"; {len(cut)} cut: {quote_text(cut[0].text)}"
            if left:
                explanation += f"; not in the {journey.end_name}: {quote_text(left[0].text)}"
        items = _stage_items(journey, unseen=unseen)
        return (self.make_score(self.name, value, explanation=explanation, summary=summary, items=items),)


@dataclass(frozen=True)
class RightDocumentLoss(ComputedMetric):
    """Which right documents did not reach the model, and where were they lost?

        right_documents_dropped     = right documents that a retriever found and that were lost on the way
                                      / right documents
        right_documents_never_found = right documents that no retriever found / right documents

    A right document is a distinct golden text or, where no golden text is known, a distinct golden id.  A text
    is found in a document that it stands in but for the layout or, where it stands in none, in those that match
    it as in `precision_recall_f1` (ROUGE-L recall at least 0.7).  The fate of each is one of

    - ``in_prompt``; ``returned`` where no model was asked;
    - ``dropped_by <stage>``: the stage was given it and did not give it on;
    - ``ranked_below_k <stage>``: a list was cut to its first k, and it stood below.  The stage is the one that
      moved it from among the first k to below or, if none did, the one that cut.  Said of cuts by functions,
      synthesizers and the unseen way into the prompt, not of what is made to choose (rerankers, filters);
    - ``cut_by <stage>``: of the document that it stands in, the rest went on, and no part of it;
    - ``never_found``: no retriever found it;
    - ``unknown``: none of these is known.

    ``unknown`` as the stage: it was lost between two lists that were seen, by something that was not.

    Range: 0.0 to 1.0 each, dimensionless; lower is better. Together they are what is missing to 1.
    Needs: ``contexts``, ``stages``, and ``reference.contexts`` or ``reference.context_ids``.
    Cost: no judge.
    Source: ours.

    Evidence, of both: one item per right document, its fate as `reason`; `value` is its rank in the last list
    that had it.
    Label of `right_documents_dropped`: the stage that lost most; ``none`` where none did.

    Without a value:
        ``missing_input``: the stages were not recorded, no golden texts or ids, or ids and no document has one.
        ``undefined``: the golden items were given empty.
        ``partial``: some fates are unknown; `lower` and `upper` leave them out and count them.
    """

    name = "right_document_loss"
    score_names = ("right_documents_dropped", "right_documents_never_found")
    needs = ("contexts", "stages", "reference.contexts|reference.context_ids")
    method = "rouge"
    target = "retrieval"
    direction = "lower"
    definition = "2"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Follow each right document."""
        journey = Journey(sample)
        reference = sample.reference or Reference()
        golden: Sequence[str]
        by_id = bool(reference.context_ids) and not reference.contexts
        if by_id:
            golden = list(dict.fromkeys(reference.context_ids))
            contexts = list(journey.contexts())
            if contexts and all(context.id is None for context in contexts):
                return scores_without_value(
                    self, "missing_input", "no retrieved document has an id", missing="contexts.id"
                )
            fates = fates_by_id(journey, golden)
        else:
            golden, fates = fates_by_text(journey, reference.contexts, _MATCHER)
        items = tuple(map(_right_item, count(1), golden[:MOST_ITEMS], fates))
        where = Counter(fate.stage for fate in fates if fate.stage is not None)
        label = where.most_common(1)[0][0] if where else None
        if fates and not where and all(fate.is_lost is not None for fate in fates):
            label = NOTHING_LOST
        scores: list[Score] = []
        for name in self.score_names:
            missed = [_is_missed(fate, name) for fate in fates]
            lost, unknown = missed.count(True), missed.count(None)
            share = lost / len(fates) if fates else None
            summary = explanation = _tally(fates) if fates else "no golden item"
            if lost:
                explanation += f"; e.g. {quote_text(golden[missed.index(True)])}"
            scores.append(
                self.make_score(
                    name,
                    None if unknown else share,
                    explanation=explanation,
                    summary=summary,
                    label=label if name == _DROPPED else None,
                    items=items,
                    status="partial" if unknown else None,
                    bounds=(lost / len(fates), (lost + unknown) / len(fates)) if unknown else None,
                    method="exact" if by_id else None,
                )
            )
        return scores


_DROPPED = RightDocumentLoss.score_names[0]


def _is_missed(fate: Fate, name: str) -> bool | None:
    """Return whether a score counts a document; None: its fate is unknown."""
    if fate.code == "unknown":
        return None
    return fate.stage is not None if name == _DROPPED else fate.code == "never_found"


_MATCHER = Matcher(MatchingStrategy.ROUGE_CHUNK_MATCH, None, "unicode", None)


def _stage_items(journey: Journey, *, unseen: bool) -> list[ScoreItem]:
    items = [
        ScoreItem(
            name,
            None,
            reason=f"{stage.kind}, {_how(recorded=stage.recorded)}",
            value=None if stage.contexts is None else float(len(stage.contexts)),
        )
        for name, stage in zip(journey.names, journey.stages, strict=True)
    ]
    if unseen:
        name = f"{UNKNOWN}-{sum(one.startswith(UNKNOWN) for one in journey.names) + 1}"
        name = name if UNKNOWN in journey.names else UNKNOWN
        items.append(ScoreItem(name, None, reason=f"{UNKNOWN}, {_how(recorded=False)}"))
    items.append(
        ScoreItem(
            journey.end_name,
            None,
            reason=f"{journey.end_name}, {_how(recorded=journey.end_is_recorded)}",
            value=None if journey.end is None else float(len(journey.end)),
        )
    )
    return items


def _flow(journey: Journey, *, unseen: bool) -> str:
    """Format the stages and their counts: ``BM25Retriever 3 and dense 3 → rerank 2 → prompt 2``."""
    parts: list[str] = []
    for place, (name, stage) in enumerate(zip(journey.names, journey.stages, strict=True)):
        if place >= MOST_STAGES:
            parts.append(f" → {len(journey.stages) - MOST_STAGES} more")
            break
        if place:
            parts.append(" → " if stage.inputs else " and ")
        parts.append(_count(name, stage.contexts, recorded=stage.recorded))
    if unseen:
        parts.append(f" → {UNKNOWN}")
    last = _count(journey.end_name, journey.end, recorded=journey.end_is_recorded)
    return "".join([*parts, " → " if parts else "", last])


def _count(name: str, contexts: Sequence[object] | None, *, recorded: bool) -> str:
    number = "unknown" if contexts is None else str(len(contexts))
    return f"{name} {number}" if recorded or contexts is None else f"{name} {number} (inferred)"


def _how(*, recorded: bool) -> str:
    return "recorded" if recorded else "inferred"


def _right_item(number: int, text: str, fate: Fate) -> ScoreItem:
    return ScoreItem(
        f"document-{number}",
        None if fate.is_lost is None else not fate.is_lost,
        text,
        _evidence(fate),
        fate.text,
        None if fate.rank is None else float(fate.rank),
    )


def _tally(fates: Sequence[Fate]) -> str:
    """Format the number of right documents by fate."""
    counts = Counter(map(_fate_words, fates))
    whole = f"{len(fates)} right document{'s' * (len(fates) > 1)}: "
    return whole + ", ".join(f"{many} {said}" for said, many in counts.most_common(MOST_STAGES))


def _fate_words(fate: Fate) -> str:
    inferred = "" if fate.recorded or fate.code in ("never_found", "unknown") else " (inferred)"
    return _WORDS[fate.code].format(stage=fate.stage, kept=fate.kept) + inferred


_WORDS = {
    "in_prompt": f"in the {PROMPT}",
    "returned": "returned",
    "dropped_by": "dropped by {stage}",
    "ranked_below_k": "ranked below the first {kept} by {stage}",
    "cut_by": "cut off by {stage}",
    "never_found": "never found",
    "unknown": "not known",
}


def _evidence(fate: Fate) -> str:
    if fate.rank is None:
        return _how(recorded=fate.recorded)
    return f"rank {fate.rank} of {fate.list_name}, {_how(recorded=fate.recorded)}"
