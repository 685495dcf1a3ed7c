"""Converts the record of one LangChain request to a `RagRun`; runs on the meter's worker.

Everything read here was copied when it was seen; no LangChain object is accessed. `_contexts` selects the
documents that reached the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragmeter.adapters._parts import read_parts, runs_of
from ragmeter.adapters._request_name import request_name
from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters._stores import source_of
from ragmeter.adapters._unseen import Lookout, read_results, retrieved_by_shape
from ragmeter.adapters.reading.answer import heard, is_label, is_pasted
from ragmeter.adapters.reading.calls import last_call, refusal_before, response_id_of, speakers_of
from ragmeter.adapters.reading.contexts import shown_documents
from ragmeter.adapters.reading.fields import CONVERSATION_KEYS, USER_KEYS
from ragmeter.adapters.reading.prompt_documents import asked_in, carried_in, stands_in
from ragmeter.adapters.reading.prompt_layout import question_in_prompt
from ragmeter.adapters.reading.request_texts import answer_in_form
from ragmeter.adapters.reading.route import candidates
from ragmeter.adapters.reading.stages import SharedContexts, to_stages
from ragmeter.adapters.reading.step import Step
from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import RagSample, SampleStatus
from ragmeter.metrics.sample import ContextsBy, search_query_of
from ragmeter.requests.by_hand import error_type, status_of_error
from ragmeter.requests.lone_retrieval import UNKNOWN_SURROUNDINGS, take_shown, with_retrievals
from ragmeter.requests.refusals import words_of_error
from ragmeter.requests.scope import RequestScope

from ._answers import OutputNote, answer_in
from ._calls import steps_of
from ._contexts import counted_retrievals, follow
from ._results import note_unseen
from ._state import Ending, OpenRequest, RetrievalNote

NOTHING_SAID = RequestScope()


def build_run(request: OpenRequest, ending: Ending, lookout: Lookout) -> RagRun | None:
    """Build the run of a finished request, or None if it never retrieved. Can be done once.

    `lookout` records unreadable results, and requests that never retrieved.
    """
    try:
        read_parts(request.retrievals)
        run = _run_of(request, ending, lookout)
        if run is None and not request.is_part:
            note_unseen(lookout, request)
        return run
    finally:
        request.dissolve()


def read_part(request: OpenRequest, build: Callable[[], RagRun | None]) -> tuple[RagRun | None, Sequence[Step]]:
    """Return the run of a request that is a part of another framework's, and its calls."""
    request.is_part = True
    calls, unfinished = steps_of(request)
    return build(), [*calls, *unfinished]


def _run_of(request: OpenRequest, ending: Ending, lookout: Lookout) -> RagRun | None:
    are_read = read_results(request.retrievals, lookout)
    calls, unfinished = steps_of(request)
    seen = [*calls, *unfinished]
    asked = calls or unfinished
    request.retrievals += retrieved_by_shape(
        request.shaped, calls, lists_only=bool(request.retrievals or request.passages)
    )
    answer = _answer(request, ending.output, calls)
    ends = [note.ended_order or 0 for note in request.retrievals if note.contexts]
    speakers = speakers_of(calls, answer)
    answering = last_call(calls, speakers, max(ends, default=0))
    notes, made_of_passages = counted_retrievals(request, answering)
    queries = [note.query for note in notes if note.query is not None]
    question = _question(request, notes, queries, asked)
    rule: ContextsBy = "runs"
    began_with = runs_of(notes)
    are_known = any(note.contexts is not None for note in notes)
    route = follow(request, notes if are_known else (), answering, answer, joins=not made_of_passages)
    within = [item for note in notes if note.part is not None for item in note.contexts or ()]
    contexts = (*route.documents, *within) if are_known else None if notes else ending.contexts
    if ending.given is not None:
        contexts, rule = ending.given, "given"
    elif not are_read:  # with only a part of the retrieved documents readable, contexts are unknown
        contexts = None
    elif notes and contexts is not None:
        found = _in_prompts(request, seen, notes, contexts, question, answer)
        if found is not None:
            contexts, rule = found, "prompt"
    elif (
        request.handed
        and contexts is None
        and not is_label(question or "")
        and stands_in(question or "", asked)
    ):
        # A model was sent the question: documents that are summarised have none.
        contexts = _in_prompts(request, seen, (), request.handed, question, answer) or None
        rule = "prompt"
        if contexts is not None:
            began_with += take_shown(
                request.before,
                UNKNOWN_SURROUNDINGS if request.alone is None else request.alone.around,
                shown=lambda one: [
                    item.text for item in _in_prompts(request, seen, (), one.documents, question, answer) or ()
                ],
                was_asked=lambda query: stands_in(query, asked),
                is_label=is_label(answer or ""),
            )
    if contexts is None and not notes and not request.is_part:
        name = _name(request) or ""
        contexts = lookout.documents_shown(calls, name, question, answer, request.filled) or None
        rule = "prompt"
    if contexts is None and not notes:
        return None
    refusal = refusal_before(calls, speakers)
    if refusal is None:
        refusal = ending.refusal
    status = _status(request, ending, answer, contexts, refused=refusal is not None)
    if status == "refused":
        answer = answer or refusal or words_of_error(ending.error)
        speakers = speakers_of(calls, answer)
    elif status not in ("ok", "partial"):
        answer = None
    scope = request.scope or NOTHING_SAID
    shared = SharedContexts()
    sample = RagSample(
        question=question,
        contexts=None if contexts is None else shared.of(contexts),
        carried=carried_in(calls, answer, [item.text for item in contexts or ()]),
        contexts_by=rule,
        stages=to_stages(route.stages, shared) if route.stages else None,
        answer=answer_in_form(answer),
        reference=scope.reference,
        status=status,
        name=_name(request),
        search_query=search_query_of(question, queries if len(queries) == len(notes) else ()),
    )
    run = RagRun(
        sample=sample,
        run_id=str(request.root.run_id),
        framework="langchain",
        started_ns=request.root.started_ns,
        ended_ns=max(ending.ended_ns, request.root.started_ns),
        retrievals=tuple([_retrieval(note, ending, shared) for note in notes if note.part is None]),
        parent=request.parent_span,
        target=request.target,
        conversation_id=scope.conversation_id or _id_of(request, CONVERSATION_KEYS),
        response_id=response_id_of(speakers, answer),
        user_id=scope.user_id or _id_of(request, USER_KEYS),
        tags=tuple(dict.fromkeys((*_own_tags(request.tags, request.metadata), *scope.tags))),
        metadata=dict(scope.metadata),
        framework_metadata=request.metadata,
        error_type=error_type(ending.error),
    )
    return with_retrievals(run, began_with) if began_with else run


def _name(request: OpenRequest) -> str | None:
    root = request.root
    named = (request.scope or NOTHING_SAID).name or request.options.name
    return named or request_name(root.name, is_model=root.kind == "llm")


def _own_tags(tags: Sequence[str], metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the application's tags, without those that LangChain adds for itself."""
    classes = {metadata.get("ls_vector_store_provider"), metadata.get("ls_embedding_provider")}
    return tuple(
        tag
        for tag in tags
        if tag not in classes and not tag.startswith(("seq:step:", "map:key:", "graph:step:", "retry:attempt:"))
    )


def _question(
    request: OpenRequest, notes: Sequence[RetrievalNote], queries: Sequence[str], calls: Sequence[Step]
) -> str | None:
    scope = request.scope
    if scope is not None and scope.question is not None:
        return scope.question
    text, others = request.question
    if text is not None:
        return text
    for other in others:
        if other in queries:
            return other
    # Under an unknown name it is the question only if a model was sent it: else it may be an id.
    sent = [other for other in others if stands_in(other, calls)]
    if len(others) > 1:
        asked = {question_in_prompt(call.sent) for call in calls}
        sent = [other for other in sent if other in asked]
    if len(sent) == 1:
        return sent[0]
    if request.resumes:
        return None
    return asked_in(calls, [item.text for note in notes for item in note.contexts or ()]) or (
        queries[0] if queries else None
    )


def _answer(request: OpenRequest, output: OutputNote, calls: Sequence[Step]) -> str | None:
    if not output.strings:
        return answer_in(output, (), ())
    texts = [item.text for note in request.retrievals for item in note.contexts or ()]
    texts += [item.text for passage in request.passages for item in passage.documents]
    return answer_in(output, heard(calls, texts), texts)


def _in_prompts(
    request: OpenRequest,
    calls: Sequence[Step],
    notes: Sequence[RetrievalNote],
    used: Sequence[ContextSnapshot],
    question: str | None,
    answer: str | None,
) -> tuple[ContextSnapshot, ...] | None:
    """Return the parts of the documents that the answering calls' prompts show; None if unknown.

    Of `calls`, one that failed or has not ended may have been the answering one: then the last such call
    decides.
    """
    known = any(note.contexts for note in notes) if notes else bool(used)
    if request.options.strict or not known:
        return None

    def shown(documents: Sequence[ContextSnapshot]) -> tuple[ContextSnapshot, ...] | None:
        stood = shown_documents(
            calls,
            documents,
            answer=answer,
            question=question,
            queries=[note.query for note in notes],
            after_ns=max((note.ended_order or 0 for note in request.retrievals), default=0),
            are_whole=True,
            this_turn=not notes,
        )
        return None if stood is None else tuple([seen for _, seen in stood])

    retrieved = [item for note in notes for item in note.contexts or ()]
    pool = candidates(retrieved, request.passages, used)
    seen = shown(pool)
    if seen is not None and 0 < len(used) < len(pool):
        # A split document is shown as a whole where its parts are.
        parts = shown(used)
        if parts is not None and _letters(parts) >= _letters(seen):
            return parts
    return seen


def _letters(documents: Sequence[ContextSnapshot]) -> int:
    return sum(len(part) for item in documents for part in item.text.split())


def _status(
    request: OpenRequest,
    ending: Ending,
    answer: str | None,
    contexts: Sequence[ContextSnapshot] | None,
    *,
    refused: bool,
) -> SampleStatus:
    if ending.error is not None:
        return status_of_error(ending.error)
    if request.interrupted:
        return "interrupted"
    if request.root.kind in ("retriever", "tool"):
        return "retrieval_only"
    if ending.streamed and any(run.open for run in request.calls):
        return "partial"
    if refused:
        return "refused"
    texts = [item.text for item in contexts or ()]
    if not request.llms and ending.kind is str and is_pasted(answer or "", texts):
        return "retrieval_only"
    if answer is None:
        return "no_answer" if request.llms else "retrieval_only"
    return "ok"


def _retrieval(note: RetrievalNote, ending: Ending, shared: SharedContexts) -> Retrieval:
    metadata = note.metadata or {}
    started = note.run.started_ns
    ended = note.ended_ns if note.ended_ns is not None else ending.ended_ns
    failed = note.error_type
    if failed is None and note.ended_ns is None:
        failed = error_type(ending.error) or "cancelled"
    top_k = metadata.get("top_k", metadata.get("k"))
    return Retrieval(
        started_ns=started,
        ended_ns=max(ended, started),
        contexts=shared.of(note.contexts or ()),
        query=note.query,
        name=note.run.name,
        data_source_id=first_text(metadata, ("data_source_id",))
        or source_of(note.retriever)
        or first_text(metadata, ("ls_vector_store_provider",)),
        top_k=top_k if isinstance(top_k, int) and not isinstance(top_k, bool) else None,
        embedding_model=first_text(metadata, ("embedding_model", "ls_embedding_model")),
        provider=_PROVIDERS.get(first_text(metadata, ("ls_embedding_provider",)) or ""),
        error_type=failed,
        target=note.target,
    )


def _id_of(request: OpenRequest, keys: Sequence[str]) -> str | None:
    """Return an id in a request's metadata, or among what its chain can be configured with."""
    return first_text(request.metadata, keys) or first_text((request.config or {}).get("configurable"), keys)


def first_text(metadata: object, keys: Sequence[str]) -> str | None:
    get = getattr(metadata, "get", None)
    if get is None:
        return None
    for key in keys:
        value = get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value)
    return None


_PROVIDERS: Mapping[str, str] = {
    "AzureOpenAIEmbeddings": "azure.ai.openai",
    "BedrockEmbeddings": "aws.bedrock",
    "CohereEmbeddings": "cohere",
    "GoogleGenerativeAIEmbeddings": "gcp.gemini",
    "MistralAIEmbeddings": "mistral_ai",
    "OpenAIEmbeddings": "openai",
    "VertexAIEmbeddings": "gcp.vertex_ai",
}
"""The conventions' names of embeddings' providers; a class is no name of a provider."""
