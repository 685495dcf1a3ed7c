"""From a captured LlamaIndex request to a `RagRun`; done on the meter's worker.

Here it is decided which nodes are the sample's contexts.  Per scope: what was given
to a synthesis, else what postprocessors left, else what retrievers returned.  Over the
request: all scopes in start order, without repetitions; where several took part, the nodes
that the response names as its sources, in its order (so that a rejected attempt and an
evaluator's own engine leave nothing behind).
"""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.exporters.run import RagRun, Retrieval
from ragmeter.metrics import RagSample
from ragmeter.scope import RequestScope

from ._nodes import NodeSnapshot, to_node_contexts
from ._requests import Captured, CapturedRetrieval, CapturedScope

__all__ = ["build_run", "model_nodes"]

_NOTHING_SAID = RequestScope()


def build_run(captured: Captured) -> RagRun:
    """Build the run of a request that has ended."""
    scope = captured.scope or _NOTHING_SAID
    nodes, rejected = model_nodes(captured.scopes, captured.source_ids)
    return RagRun(
        sample=RagSample(
            question=captured.question if scope.question is None else scope.question,
            contexts=None if nodes is None else to_node_contexts(nodes),
            contexts_by="runs",
            answer=captured.answer,
            reference=scope.reference,
            status=captured.status,
            name=scope.name or captured.name,
        ),
        run_id=captured.run_id,
        framework="llama_index",
        started_ns=captured.started_ns,
        ended_ns=captured.ended_ns,
        retrievals=tuple(
            _retrieval(item) for item in captured.retrievals if item.scope not in rejected
        ),
        parent=captured.spans.parent,
        target=captured.spans.target,
        conversation_id=scope.conversation_id,
        user_id=scope.user_id,
        tags=scope.tags,
        metadata=scope.metadata,
        error_type=captured.error_type,
    )


def _retrieval(item: CapturedRetrieval) -> Retrieval:
    return Retrieval(
        started_ns=item.started_ns,
        ended_ns=item.ended_ns,
        contexts=to_node_contexts(item.nodes or ()),
        query=item.query,
        name=item.name,
        data_source_id=item.facts.data_source_id,
        top_k=item.facts.top_k,
        embedding_model=item.facts.embedding_model,
        error_type=item.error_type,
        target=item.spans.target,
    )


def model_nodes(
    scopes: Sequence[CapturedScope], source_ids: Sequence[str]
) -> tuple[tuple[NodeSnapshot, ...] | None, frozenset[int]]:
    """Decide what reached the model, and which scopes the response left out.

    Args:
        scopes: The request's scopes in start order.
        source_ids: Ids of the nodes that the response names as its sources, in its order.

    Returns:
        The nodes in order (None: nothing is known, ``()``: there were none), and the indices of the
        scopes none of whose nodes the response names.
    """
    parts = {index: _of_scope(scope) for index, scope in enumerate(scopes)}
    known = {index: nodes for index, nodes in parts.items() if nodes is not None}
    if not known:
        combined = tuple(item for scope in scopes for batch in scope.combined for item in batch)
        return (combined or None), frozenset()
    nodes = _without_repetitions([item for part in known.values() for item in part])
    exact = len(known) == 1 and any(scopes[index].given for index in known)
    wanted = set(source_ids)
    if exact or not wanted.intersection(item.id for item in nodes):
        return nodes, frozenset()
    rank = {id_: place for place, id_ in enumerate(source_ids)}
    named = sorted(
        (item for item in nodes if item.id in wanted), key=lambda item: rank[str(item.id)]
    )
    rejected = frozenset(
        index
        for index, part in known.items()
        if part and wanted.isdisjoint(item.id for item in part)
    )
    return tuple(named), rejected


def _of_scope(scope: CapturedScope) -> tuple[NodeSnapshot, ...] | None:
    for batches in (scope.given, scope.found):
        if batches:
            return tuple(item for batch in batches for item in batch)
    return None


def _without_repetitions(nodes: Sequence[NodeSnapshot]) -> tuple[NodeSnapshot, ...]:
    first: dict[tuple[str | None, str], NodeSnapshot] = {}
    for item in nodes:
        first.setdefault((item.id, item.text), item)
    return tuple(first.values())
