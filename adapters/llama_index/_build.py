"""Converts the record of one LlamaIndex request to a `RagRun`; runs on the meter's worker.

`_contexts` selects the nodes that are the sample's contexts; the rule shared by all frameworks selects the
answer among the strings of an output of unknown shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.adapters._parts import read_parts, runs_of
from ragmeter.adapters._request_name import request_name
from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters._unseen import Lookout, read_results
from ragmeter.adapters.reading.answer import choose_answer, heard, is_label
from ragmeter.adapters.reading.calls import UNHEARD, refusal_before, response_id_of, speakers_of
from ragmeter.adapters.reading.prompt_documents import asked_in, carried_in, stands_in
from ragmeter.adapters.reading.request_texts import answer_in_form
from ragmeter.adapters.reading.stages import SharedContexts, to_stages
from ragmeter.adapters.reading.step import Step
from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import RagSample
from ragmeter.metrics.sample import search_query_of
from ragmeter.requests.lone_retrieval import LoneRetrieval, take_shown, with_retrievals
from ragmeter.requests.scope import RequestScope

from ._calls import steps_of
from ._contexts import Reached, nodes_that_reached
from ._results import note_shaped, note_unseen
from ._stages import followed, without_repetitions
from ._state import Notes, RetrievalNote, StepNote

_NOTHING_SAID = RequestScope()
_EMPTY = "Empty Response"
"""LlamaIndex's placeholder for the reply of a model that returned none."""


def build_run(ended: Notes, lookout: Lookout) -> RagRun | None:
    """Build the run of an ended request, or None if it never retrieved, which `lookout` records."""
    ended.leave_out_failures()
    calls = steps_of(ended.calls, ended.parts)
    read_parts(ended.retrievals)
    scope = ended.scope or _NOTHING_SAID
    question = ended.question if scope.question is None else scope.question
    retrieved = note_shaped(ended, calls)
    found = without_repetitions([alone.documents for alone in ended.before])
    if found and not retrieved:
        question = question or _asked_of_earlier(ended.before, found, calls)
    handed = () if question is None or retrieved else found
    if question is None and not retrieved:
        question = asked_in(calls)
    are_read = read_results(ended.retrievals, lookout)
    status, answer = ended.status, ended.answer
    if answer is None and ended.output.strings:
        answer = _chosen_answer(ended, calls)
        status = "no_answer" if answer is None else status
    refusal = refusal_before(calls, speakers_of(calls, answer)) if status in ("ok", "no_answer") else None
    if refusal is not None:
        status = "refused"
        answer = refusal or None if answer in (None, _EMPTY) else answer
    given = ended.output.contexts
    reached = nodes_that_reached(ended, calls, answer, handed)
    retrieved = retrieved or bool(handed and reached.by_prompt and reached.nodes)
    if given is not None:
        reached = Reached(given)
    elif not retrieved:
        if ended.is_part:
            return None
        shown = lookout.documents_shown(calls, ended.name or "", question, answer)
        if not shown:
            note_unseen(lookout, ended)
            return None
        reached = Reached(shown, by_prompt=True)
    elif not are_read:  # with only a part of the retrieved nodes readable, contexts are unknown
        reached = Reached(None)
    nodes, left_out, by_prompt = reached
    shared = SharedContexts()
    contexts = None if nodes is None else shared.of(nodes)
    retrievals = tuple(
        _retrieval(item, shared)
        for item in ended.retrievals
        if item.part is None and item.run.scope not in left_out
    )
    stages = followed(ended.trail, nodes if by_prompt else None, left_out).stages
    run = RagRun(
        sample=RagSample(
            question=question,
            contexts=contexts,
            carried=carried_in(calls, answer, [item.text for item in contexts or ()]),
            contexts_by="given" if given is not None else "prompt" if by_prompt else "runs",
            stages=to_stages(stages, shared) if stages else None,
            answer=answer_in_form(answer),
            reference=scope.reference,
            status=status,
            name=scope.name or request_name(ended.name, is_model=not ended.name),
            search_query=search_query_of(question, [item.query for item in retrievals]),
        ),
        run_id=ended.run_id,
        framework="llama_index",
        started_ns=ended.started_ns,
        ended_ns=ended.ended_ns,
        retrievals=retrievals,
        parent=ended.spans.parent,
        target=ended.spans.target,
        conversation_id=scope.conversation_id,
        response_id=response_id_of(speakers_of(calls, answer), answer),
        user_id=scope.user_id,
        tags=scope.tags,
        metadata=scope.metadata,
        framework_metadata=ended.tags,
        error_type=ended.error_type,
    )
    parts = runs_of(ended.retrievals)
    return with_retrievals(run, parts or _take_before(ended, calls, run.sample, nodes or ()))


def read_part(ended: Notes, lookout: Lookout) -> tuple[RagRun | None, Sequence[Step]]:
    """Return the run of a request that is a part of another framework's, and its calls."""
    ended.is_part = True
    run = build_run(ended, lookout)
    return run, steps_of(ended.calls, ended.parts)


def _take_before(
    ended: Notes, calls: Sequence[Step], sample: RagSample, nodes: Sequence[ContextSnapshot]
) -> list[RagRun]:
    """Return the runs of the retrievals before the request whose nodes were its input."""
    ids = {item.id for item in nodes}
    return take_shown(
        () if ended.retrievals else ended.before,
        ended.around,
        shown=lambda alone: ids.intersection(item.id for item in alone.documents),
        was_asked=lambda query: query == sample.question or stands_in(query, calls),
        is_label=is_label(sample.answer or ""),
    )


def _asked_of_earlier(
    before: Sequence[LoneRetrieval], nodes: Sequence[ContextSnapshot], calls: Sequence[Step]
) -> str | None:
    """Return the question of a model call that may have received an earlier retrieval's documents."""
    queries = (alone.query for alone in reversed(before) if alone.query)
    return asked_in(calls, [item.text for item in nodes]) or next(
        (query for query in queries if stands_in(query, calls)), None
    )


def _retrieval(item: RetrievalNote, shared: SharedContexts) -> Retrieval:
    return Retrieval(
        started_ns=item.started_ns,
        ended_ns=item.ended_ns,
        contexts=shared.of(item.contexts or ()),
        query=item.query,
        name=item.name,
        data_source_id=item.facts.data_source_id,
        top_k=item.facts.top_k,
        embedding_model=item.facts.embedding_model,
        error_type=item.error_type,
        target=item.spans.target,
    )


def _chosen_answer(ended: Notes, calls: Sequence[Step]) -> str | None:
    """Return the string of the output that is the answer, by the model's replies."""
    found = {
        item.text
        for passed in ended.trail
        if not isinstance(passed, StepNote)
        for item in passed.contexts or ()
    }
    contexts = [text for text in found if text]
    return choose_answer(
        ended.output.strings,
        heard(calls, contexts),
        copied=[*ended.output.copied, *filter(None, [ended.question])],
        contexts=contexts,
        unheard=any(call.said == UNHEARD for call in calls),
    )
