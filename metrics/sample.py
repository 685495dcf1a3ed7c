"""The input of every metric: one RAG request with its retrieval and answer.

Adapters and users build a `RagSample`; metrics read it and never change it.
This module must stay free of telemetry, frameworks and judging.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

SampleStatus = Literal[
    "ok", "refused", "no_answer", "retrieval_only", "partial", "cancelled", "interrupted", "error"
]
"""How a request ended. ``ok``: answered. ``refused``: the model's provider reports a refusal or a filtered
reply. ``no_answer``: ended cleanly without an answer. ``retrieval_only``: no answer was requested.
``partial``: the answer was streamed and not read to its end; or, for a request from others' spans, a part
never arrived. ``cancelled``: the caller gave up. ``interrupted``: paused for a person and not resumed.
``error``: it raised."""

ContextsBy = Literal["prompt", "runs", "given", "ids"]
"""How the contexts that reached the model were identified. ``prompt``: each context is in a prompt that was
sent to the model. ``runs``: no prompt could be read, or none showed a context; the retrievers' results, as
the framework's runs passed them on. ``given``: by the application. ``ids``: only the ids of the retrieved
documents are known; texts are empty, and metrics that read them return ``missing_input``."""

StageKind = Literal["retriever", "fusion", "postprocessor", "function", "tool", "synthesizer", "unknown"]
"""Kind of a stage between store and prompt. ``retriever``: queries a store. ``fusion``: joins the results of
several retrievers. ``postprocessor``: reranks, filters or compresses. ``function``: the application's own
code. ``tool``: a tool that returned documents itself. ``synthesizer``: builds the prompts. ``unknown``: not
observed, only its effect."""


_TEXT = frozenset({str})


def _text_keys(value: Any) -> Any:
    # Stores may have numbers as keys; a context is not refused for that.
    if (type(value) is dict or isinstance(value, Mapping)) and not _TEXT.issuperset(map(type, value)):
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
    """The retriever's score, on its specific scale; not used for ranking."""
    metadata: Annotated[Mapping[str, Any], BeforeValidator(_text_keys)] = Field(default_factory=dict)
    """The store's metadata of the chunk; keys that are no strings are converted to strings."""


def _as_context(value: Any) -> Any:
    return RetrievedContext(text=value) if isinstance(value, str) else value


def _as_contexts(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("contexts is a sequence of texts or RetrievedContext, not one string")  # noqa: TRY004 -- pydantic reports ValueError
    return value


_Contexts = Annotated[
    tuple[Annotated[RetrievedContext, BeforeValidator(_as_context)], ...], BeforeValidator(_as_contexts)
]


def _as_texts(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _as_ids(value: Any) -> Any:
    if isinstance(value, (str, int)):
        value = (value,)
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(str(item) for item in value)
    return value


class Reference(BaseModel):
    """The expected answer and contexts of a question.

    A missing field differs from an empty one: `supplies` distinguishes them, and metrics return
    ``missing_input`` for the first and ``undefined`` for the second.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str | None = None
    """The expected answer."""
    contexts: Annotated[tuple[str, ...], BeforeValidator(_as_texts)] = ()
    """The texts to retrieve."""
    context_ids: Annotated[tuple[str, ...], BeforeValidator(_as_ids)] = ()
    """The ids to retrieve, compared as strings."""
    alternative_answers: Annotated[tuple[str, ...], BeforeValidator(_as_texts)] = ()
    """Other correct answers; used by ``answer_overlap`` only."""
    orphaned_ids: Annotated[tuple[str, ...], BeforeValidator(_as_ids)] = ()
    """Ids to retrieve that no longer name a chunk of the index, as ``ragmeter golden check`` found: scores
    that compare ids are then ``undefined``."""

    if TYPE_CHECKING:  # accepts more than it stores: lists, and a single text or id

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
    """One stage on the documents' way from the store to the model, with its output."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The stage's name in the framework or the application; low cardinality."""
    kind: StageKind
    """Its kind."""
    contexts: tuple[RetrievedContext, ...] | None
    """Its output documents, in its order; those that were passed on are the same objects in later stages and
    in `RagSample.contexts`. None: unknown."""
    inputs: tuple[int, ...] = ()
    """Indexes, among the request's stages, of those whose documents it received; empty: it is the first."""
    recorded: bool = True
    """True: the framework reported its output. False: the output was inferred, from texts or from later
    steps."""


def _in_order(stages: tuple[RetrievalStage, ...] | None) -> tuple[RetrievalStage, ...] | None:
    for place, stage in enumerate(stages or ()):
        if not all(0 <= source < place for source in stage.inputs):
            raise ValueError(
                f"stages[{place}].inputs is {stage.inputs}; a stage is given documents by earlier stages"
            )
    return stages


THOUGHT_TAGS = "think|thinking|thought|reasoning"
"""Names of the tags around a model's thoughts, as a regular expression."""
_THOUGHTS = re.compile(
    rf"\s*(?:<({THOUGHT_TAGS})>.*?(?:</\1>|\Z)|[^<]*</think>[ \t]*\n|"
    r"Thought:[^\n]*\n(?:Final )?Answer:)\s*",
    re.IGNORECASE | re.DOTALL,
)
"""Thoughts in the beginning; some models' templates add the opening tag, so that the reply lacks it."""


def _without_thoughts(answer: str | None) -> str | None:
    thoughts = None if answer is None else _THOUGHTS.match(answer)
    return answer if answer is None or thoughts is None else answer[thoughts.end() :]


class RagSample(BaseModel):
    """One RAG request: the question, the retrieved contexts, the answer.

    ``contexts`` is None if retrieval was not captured and ``()`` if it found nothing; metrics treat the two
    differently.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str | None
    """The user's question, not a rewritten query. None: unknown."""
    contexts: _Contexts | None = None
    """The contexts that reached the model, in order."""
    carried: _Contexts = ()
    """Other parts of the prompt that support an answer: chunks of earlier turns, and the whole context if its
    documents cannot be identified."""
    contexts_by: ContextsBy = "given"
    """How these contexts were identified."""
    stages: Annotated[tuple[RetrievalStage, ...] | None, AfterValidator(_in_order)] = None
    """The stages before that, in the order in which they ended, without the prompt, which has `contexts`.
    None: not recorded."""
    answer: Annotated[str | None, AfterValidator(_without_thoughts)] = None
    """The answer to the user; a model's thoughts before it are dropped: ``<think>…</think>``."""
    reference: Reference | None = None
    """The expected answer and contexts, if known."""
    status: SampleStatus = "ok"
    """How the request ended."""
    name: str | None = None
    """Name of the chain, engine or workflow; low cardinality."""
    search_query: str | None = None
    """The search query, if it differs from the question: in a chat, the condensed one."""

    if TYPE_CHECKING:  # accepts more than it stores: lists, and plain texts

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
        """The texts that an answer may rely on: `contexts` and `carried`."""
        return (*(self.contexts or ()), *self.carried)

    @property
    def searched_for(self) -> str | None:
        """The text that chunks must be relevant to: `search_query` if set, else `question`."""
        return self.question if self.search_query is None else self.search_query


def search_query_of(question: str | None, queries: Iterable[str | None]) -> str | None:
    """Return the `RagSample.search_query` of a request with these retrieval queries.

    It is the one query common to all of them, if it is not the question itself; None if they differ.
    """
    distinct = set(queries)
    query = distinct.pop() if len(distinct) == 1 else None
    if query is None or not query.strip() or query.strip() == (question or "").strip():
        return None
    return query
