"""The documents of a request on their way from the retrieval through each stage to the prompt, by rank.

Only ids and ranks are stored, no texts: a document without an id exists within its request only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from ragmeter.exporters._format import clean
from ragmeter.metrics import RagSample, RetrievedContext

from ._evidence import Evidence

MOST_DOCUMENTS = 100
MOST_STAGES = 12
_PROMPT = "prompt"
_FINDS = ("retriever", "tool", "fusion")
_CHOOSES = ("postprocessor", "function", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """A stage of the documents' way, in the order they passed it; the last is the prompt."""

    kind: str
    """As `RetrievalStage.kind`; ``prompt``: the documents given to the model."""
    name: str
    """Name of the stage in the framework or the application; empty: the prompt."""
    documents: int | None
    """Number of documents after the stage; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """A document with its ranks, from 1; None: absent, or unknown."""

    id: str | None
    """Id of the document; None: it has none."""
    ranks: tuple[int | None, ...]
    """Ranks by stage."""
    retrieved: int | None
    """Rank after the retrieval: in the fused list, else the best of any retriever's."""
    reranked: int | None
    """Rank after the last reranker or filter."""
    prompt: int | None
    """Rank in the prompt."""
    in_answer: bool | None
    """Whether a sentence of the answer rests on it; None: no texts are stored, or the answer refuses."""


def stages_text(sample: RagSample) -> str | None:
    """Serialise the stages of a request as JSON, or return None if none is known."""
    if not sample.stages:
        return None
    documents: list[RetrievedContext] = []
    exact: dict[tuple[str | None, str], int] = {}
    by_id: dict[str, list[int]] = {}

    def place(one: RetrievedContext) -> int | None:
        found = exact.get((one.id, one.text))
        # A document rewritten on its way is recognised by its id, unless several share that.
        alike = by_id.get(one.id, []) if found is None and one.id else []
        if found is None and len(alike) == 1:
            found = alike[0]
        if found is None and len(documents) < MOST_DOCUMENTS:
            found = len(documents)
            documents.append(one)
            if one.id:
                by_id.setdefault(one.id, []).append(found)
        if found is not None:
            exact.setdefault((one.id, one.text), found)
        return found

    def places(contexts: Iterable[RetrievedContext]) -> list[int]:
        found = (place(one) for one in contexts)
        return list(dict.fromkeys(each for each in found if each is not None))

    stages = [
        [one.kind, clean(one.name, 128), None if one.contexts is None else places(one.contexts)]
        for one in sample.stages[:MOST_STAGES]
        if one.kind != "synthesizer"
    ]
    if sample.contexts is not None:
        stages.append([_PROMPT, "", places(sample.contexts)])
    ids = [None if one.id is None else clean(one.id) for one in documents]
    return json.dumps([ids, stages])


def stages_of(text: str | None) -> tuple[tuple[StageView, ...], tuple[DocumentView, ...]]:
    """Parse the stages and documents written by `stages_text`."""
    if not text:
        return (), ()
    ids, stages = json.loads(text)
    ranks: list[dict[int, int]] = [
        {place: rank for rank, place in enumerate(places or (), start=1)} for _, _, places in stages
    ]
    kinds = [kind for kind, _, _ in stages]

    def last(wanted: Iterable[str], place: int) -> int | None:
        at = max((at for at, kind in enumerate(kinds) if kind in wanted), default=None)
        return None if at is None else ranks[at].get(place)

    def retrieved(place: int) -> int | None:
        if "fusion" in kinds:
            return last(("fusion",), place)
        found = [ranks[at][place] for at, kind in enumerate(kinds) if kind in _FINDS and place in ranks[at]]
        return min(found, default=None)

    documents = [
        DocumentView(
            id=name,
            ranks=tuple(each.get(place) for each in ranks),
            retrieved=retrieved(place),
            reranked=last(_CHOOSES, place),
            prompt=last((_PROMPT,), place),
            in_answer=None,
        )
        for place, name in enumerate(ids)
    ]
    views = tuple(
        StageView(kind=kind, name=name, documents=None if places is None else len(places))
        for kind, name, places in stages
    )
    in_order = sorted(
        documents,
        key=lambda one: [inf if at is None else at for at in (one.prompt, one.reranked, one.retrieved)],
    )
    return views, tuple(in_order)


def documents_of(documents: Iterable[DocumentView], marked: Evidence | None) -> tuple[DocumentView, ...]:
    """Return the documents with `in_answer` filled in."""
    if marked is None or not marked.answer or any(one.support == "declines" for one in marked.answer):
        return tuple(documents)
    carrying = {chunk for one in marked.answer if one.support != "missing" for chunk, _ in one.supporters}
    return tuple(replace(one, in_answer=one.prompt is not None and one.prompt in carrying) for one in documents)
