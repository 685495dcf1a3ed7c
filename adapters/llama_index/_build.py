"""From a captured LlamaIndex request to a `RagRun`; done on the meter's worker.

Which nodes are the sample's contexts is decided in `_reached`, which string of an output of unknown
shape is the answer by the rule that all frameworks share.
"""

from __future__ import annotations

import json

from ragmeter.adapters._answers import choose_answer
from ragmeter.adapters._heard import heard
from ragmeter.adapters._prompts import prompt_of
from ragmeter.context import RequestScope
from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import RagSample

from ._captured import Captured, CapturedRetrieval
from ._contexts import Reached, nodes_that_reached
from ._nodes import text_in_prompts, to_node_contexts

__all__ = ["build_run"]

_NOTHING_SAID = RequestScope()


def build_run(captured: Captured) -> RagRun:
    """Build the run of a request that has ended."""
    scope = captured.scope or _NOTHING_SAID
    status, answer = captured.status, captured.answer
    if answer is None and captured.output.strings:
        answer = _chosen_answer(captured)
        status = "no_answer" if answer is None else status
    told = captured.output.contexts
    reached = nodes_that_reached(captured, answer)
    if told is not None:
        reached = Reached(told, frozenset(), by_prompt=False)
    nodes, rejected, by_prompt = reached
    return RagRun(
        sample=RagSample(
            question=captured.question if scope.question is None else scope.question,
            contexts=None if nodes is None else to_node_contexts(nodes),
            contexts_by="given" if told is not None else "prompt" if by_prompt else "runs",
            answer=answer,
            reference=scope.reference,
            status=status,
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


def _chosen_answer(captured: Captured) -> str | None:
    """Return the string of the output that is the answer, by what the model said."""
    found = {
        text_in_prompts(item)
        for scope in captured.scopes
        for batch in (*scope.given, *scope.found)
        for item in batch
    }
    contexts = [text for text in found if text]
    spoken = [
        (
            call.said[0] if len(call.said) == 1 else json.dumps(call.said, ensure_ascii=False),
            prompt_of(call.messages),
        )
        for call in captured.calls
        if call.said
    ]
    return choose_answer(
        captured.output.strings,
        heard(spoken, contexts),
        copied=[*captured.output.copied, *filter(None, [captured.question])],
        contexts=contexts,
        unheard=any(call.is_stream for call in captured.calls),
    )
