"""The input of every metric: one RAG request with its retrieval and answer.

Adapters and users build a `RagSample`; metrics read it and never change it.
This module must stay free of telemetry, frameworks and judging.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

__all__ = [
    "ContextsBy",
    "RagSample",
    "Reference",
    "RetrievalStage",
    "RetrievedContext",
    "SampleStatus",
    "StageKind",
    "search_query_of",
]

SampleStatus = Literal[
    "ok", "refused", "no_answer", "retrieval_only", "partial", "cancelled", "interrupted", "error"
]
"""How a request ended.

``ok``: answered. ``refused``: the model's provider says that it refused, or filtered what it said.
``no_answer``: ended cleanly without an answer. ``retrieval_only``: no answer
was asked for. ``partial``: the answer was streamed and not read to its end; or, of a request in spans
that others sent, a part never came. ``cancelled``: the caller gave up. ``interrupted``: paused for
a person and not resumed. ``error``: it raised.
"""

ContextsBy = Literal["prompt", "runs", "given", "ids"]
"""How it is known what the model saw.

``prompt``: each context stands in a prompt that the model was sent. ``runs``: no prompt could be
read, or none showed a context; what retrievers returned, as the framework's runs passed it on.
``given``: the application said it. ``ids``: only the ids of what was retrieved are known; texts are empty,
and metrics that read them answer ``missing_input``.
"""

StageKind = Literal[
    "retriever", "fusion", "postprocessor", "function", "tool", "synthesizer", "unknown"
]
"""What a stage between store and prompt is.

``retriever``: asks a store. ``fusion``: joins what several retrievers found. ``postprocessor``:
reranks, filters or compresses. ``function``: the application's own code. ``tool``: a tool that gave out
documents itself. ``synthesizer``: builds the prompts. ``unknown``: it was not seen, only what it did.
"""


_TEXT = frozenset({str})


def _text_keys(value: Any) -> Any:
    # Stores keep numbers as keys; a context is not refused for it.
    if (type(value) is dict or isinstance(value, Mapping)) and not _TEXT.issuperset(
        map(type, value)
    ):
        return {str(key): item for key, item in value.items()}
    return value


class RetrievedContext(BaseModel):
    """One retrieved chunk, as the model saw it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """The chunk's text."""
    id: str | None = None
    """The id of the document or chunk in the store, if the framework reports it."""
    score: float | None = None
    """The retriever's own score, on the retriever's own scale; not used for ranking."""
    metadata: Annotated[Mapping[str, Any], BeforeValidator(_text_keys)] = Field(
        default_factory=dict
    )
    """What the store keeps beside the text; keys that are no strings are written as strings."""


def _as_context(value: Any) -> Any:
    return RetrievedContext(text=value) if isinstance(value, str) else value


def _as_contexts(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("contexts is a sequence of texts or RetrievedContext, not one string")  # noqa: TRY004 -- pydantic reports ValueError
    return value


def _as_texts(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return value


def _as_ids(value: Any) -> Any:
    if isinstance(value, (str, int)):
        value = (value,)
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(str(item) for item in value)
    return value


class Reference(BaseModel):
    """What should have been said and found for a question.

    A field that was never given differs from a field given empty: `supplies`
    distinguishes them, and metrics answer ``missing_input`` to the first and
    ``undefined`` to the second.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str | None = None
    """The answer that should have been given."""
    contexts: Annotated[tuple[str, ...], BeforeValidator(_as_texts)] = ()
    """The texts that should have been retrieved."""
    context_ids: Annotated[tuple[str, ...], BeforeValidator(_as_ids)] = ()
    """The ids that should have been retrieved, compared as strings."""
    alternative_answers: Annotated[tuple[str, ...], BeforeValidator(_as_texts)] = ()
    """Other answers that would have been as good; used by ``answer_overlap`` only."""
    orphaned_ids: Annotated[tuple[str, ...], BeforeValidator(_as_ids)] = ()
    """Ids that should have been retrieved, but name no chunk of the index any more, as ``ragmeter golden
    check`` found: what is compared by id is then ``undefined``."""

    if (
        TYPE_CHECKING
    ):  # what may be given is more than what is read: lists, and one text or id alone

        def __init__(
            self,
            *,
            answer: str | None = None,
            contexts: Sequence[str] = (),
            context_ids: Sequence[str | int] | int = (),
            alternative_answers: Sequence[str] = (),
            orphaned_ids: Sequence[str | int] | int = (),
        ) -> None: ...

    def supplies(self, field: str) -> bool:
        """Return whether `field` was set, even to an empty value."""
        return field in self.model_fields_set and getattr(self, field) is not None


class RetrievalStage(BaseModel):
    """One stage on the documents' way from the store to the model, and which of them left it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The stage's name in the framework or the application; low cardinality."""
    kind: StageKind
    """What it is."""
    contexts: tuple[RetrievedContext, ...] | None
    """The documents that left it, in its order; those that went on are the objects that later stages and
    `RagSample.contexts` hold. None: not known."""
    inputs: tuple[int, ...] = ()
    """Places, among the request's stages, of those whose documents it was given; none: it is the first."""
    recorded: bool = True
    """True: the framework said what left it. False: it was inferred, from texts or from what came next."""


def _in_order(
    stages: tuple[RetrievalStage, ...] | None,
) -> tuple[RetrievalStage, ...] | None:
    for place, stage in enumerate(stages or ()):
        if not all(0 <= source < place for source in stage.inputs):
            raise ValueError(
                f"stages[{place}].inputs is {stage.inputs}; a stage is given documents by earlier stages"
            )
    return stages


class RagSample(BaseModel):
    """One RAG request: the question, the retrieved contexts, the answer.

    ``contexts`` is None when retrieval was not captured and ``()`` when it
    found nothing; metrics treat the two differently.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str | None
    """What the user asked, not a rewritten query. None: not known."""
    contexts: (
        Annotated[
            tuple[Annotated[RetrievedContext, BeforeValidator(_as_context)], ...],
            BeforeValidator(_as_contexts),
        ]
        | None
    ) = None
    """What reached the model, in order."""
    carried: Annotated[
        tuple[Annotated[RetrievedContext, BeforeValidator(_as_context)], ...],
        BeforeValidator(_as_contexts),
    ] = ()
    """What else stands in the prompt and supports an answer: chunks of earlier turns, and the whole context
    where it is not known which document is which."""
    contexts_by: ContextsBy = "given"
    """How it is known that these are the contexts that reached the model."""
    stages: Annotated[tuple[RetrievalStage, ...] | None, AfterValidator(_in_order)] = None
    """Where the documents came by before that: the prompt is not among them, it has `contexts`. In the
    order in which they ended. None: they were not recorded."""
    answer: str | None = None
    """What the user got."""
    reference: Reference | None = None
    """What should have been said and found, if known."""
    status: SampleStatus = "ok"
    """How the request ended."""
    name: str | None = None
    """Name of the chain, engine or workflow; low cardinality."""
    search_query: str | None = None
    """The question as it was searched with, where that differs: of a chat, the condensed one."""

    if TYPE_CHECKING:  # what may be given is more than what is read: lists, and plain texts

        def __init__(
            self,
            *,
            question: str | None,
            contexts: Sequence[RetrievedContext | str] | None = None,
            carried: Sequence[RetrievedContext | str] = (),
            contexts_by: ContextsBy = "given",
            stages: Sequence[RetrievalStage] | None = None,
            answer: str | None = None,
            reference: Reference | None = None,
            status: SampleStatus = "ok",
            name: str | None = None,
            search_query: str | None = None,
        ) -> None: ...

    @property
    def support(self) -> tuple[RetrievedContext, ...]:
        """What an answer may rest on: `contexts`, and what was `carried`."""
        return (*(self.contexts or ()), *self.carried)

    @property
    def searched_for(self) -> str | None:
        """What chunks must be relevant to: `search_query` where there is one, else `question`."""
        return self.question if self.search_query is None else self.search_query


def search_query_of(question: str | None, queries: Iterable[str | None]) -> str | None:
    """Return the `RagSample.search_query` of a request whose retrievals had these queries.

    The one query that all of them had, if it is not the question itself; None where they differ:
    then none of them is the question.
    """
    distinct = set(queries)
    query = distinct.pop() if len(distinct) == 1 else None
    if query is None or not query.strip() or query.strip() == (question or "").strip():
        return None
    return query
