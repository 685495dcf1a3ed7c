"""Deterministic stand-ins for models: real LlamaIndex engines, no network.

`ScriptedLLM` answers by rules and records every prompt, which proves what reached the model
and in which order; `WordEmbedding` counts words, so that retrieval order can be read off the texts.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from typing import Any

import pytest
from expected import check
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector, MultiSelection, SingleSelection
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from ragmeter import RagMeter
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun

CORE = tuple(int(part) for part in version("llama-index-core").split(".")[:3])
"""The installed llama-index-core; some facts are visible only from a version on."""


def since(*core: int) -> pytest.MarkDecorator:
    """Skip a test below a version of llama-index-core."""
    text = ".".join(map(str, core))
    return pytest.mark.skipif(core > CORE, reason=f"cannot be seen before llama-index-core {text}")


DOCUMENTS = {
    "paris": "Paris is the capital of France.",
    "rome": "Rome is the capital of Italy.",
    "tea": "Green tea is brewed with water below boiling.",
    "moon": "The Moon orbits the Earth in about 27 days.",
}
QUESTION = "What is the capital of France?"


class ScriptedLLM(CustomLLM):
    """Answers with `reply(prompt)`, word by word when streamed; really awaits; records prompts."""

    reply: Callable[[str], str] = lambda prompt: "Paris is the answer."
    prompts: Any = None
    fail_with: Any = None
    """Raised instead of answering."""
    fail_after: int | None = None
    """Number of words after which a stream raises."""
    window: int = 4096
    chats: bool = False
    """Whether it accepts messages instead of one text."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            context_window=self.window, num_output=64, model_name="scripted", is_chat_model=self.chats
        )

    def _answer(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if self.fail_with is not None and self.fail_after is None:
            raise self.fail_with
        return self.reply(prompt)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._answer(prompt))

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        await asyncio.sleep(0)
        return CompletionResponse(text=self._answer(prompt))

    def _words(self, prompt: str) -> Iterator[CompletionResponse]:
        text = ""
        for place, word in enumerate(self._answer(prompt).split(" ")):
            if self.fail_after is not None and place >= self.fail_after:
                raise self.fail_with
            delta = word if not text else " " + word
            text += delta
            yield CompletionResponse(text=text, delta=delta)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return self._words(prompt)

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        async def words() -> Any:
            for item in self._words(prompt):
                await asyncio.sleep(0)
                yield item

        return words()


def llm(answer: str = "Paris is the answer.", **fields: Any) -> ScriptedLLM:
    """Return an LLM with its own prompt list."""
    fields.setdefault("reply", lambda prompt: answer)
    model = ScriptedLLM(**fields)
    model.prompts = []
    return model


class WordEmbedding(BaseEmbedding):
    """Counts words into 256 buckets: texts that share words with the query come first."""

    def _vector(self, text: str) -> list[float]:
        vector = [0.001] * 256
        for word in text.lower().replace(".", " ").replace("?", " ").split():
            vector[hashlib.md5(word.encode()).digest()[0]] += 1.0
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        await asyncio.sleep(0)
        return self._vector(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)


def nodes(texts: dict[str, str] | None = None, **fields: Any) -> list[TextNode]:
    """Return text nodes with readable ids."""
    return [TextNode(id_=id_, text=text, **fields) for id_, text in (texts or DOCUMENTS).items()]


def index(texts: dict[str, str] | None = None, **fields: Any) -> VectorStoreIndex:
    """Return a vector index of a few documents."""
    return VectorStoreIndex(nodes(texts, **fields), embed_model=WordEmbedding(model_name="words"))


class ListRetriever(BaseRetriever):
    """Returns its given nodes, as new copies with falling scores; awaits when async."""

    def __init__(self, found: Sequence[TextNode], error: BaseException | None = None) -> None:
        self._found = found
        self._error = error
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._error is not None:
            raise self._error
        return [
            NodeWithScore(node=item.model_copy(deep=True), score=1.0 - place / 10)
            for place, item in enumerate(self._found)
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0)
        return self._retrieve(query_bundle)


def engine_of(found: Any = None, model: Any = None, **options: Any) -> Any:
    """Return a query engine.

    Args:
        found: What it retrieves, nodes or a retriever; the first two nodes by default.
        model: Its model, or what that answers.
        **options: See `RetrieverQueryEngine.from_args`.
    """
    retriever = (
        found if isinstance(found, BaseRetriever) else ListRetriever(nodes()[:2] if found is None else found)
    )
    model = llm() if model is None else llm(model) if isinstance(model, str) else model
    return RetrieverQueryEngine.from_args(retriever, llm=model, **options)


def custom(work: Callable[[str], Any]) -> CustomQueryEngine:
    """Return a query engine of the application's own, which gives out what `work` makes of the question."""

    class Custom(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Any:
            return work(query_str)

    return Custom()


def one_step(work: Callable[[str], Awaitable[Any]]) -> Workflow:
    """Return a workflow whose only step gives out what `work` makes of the query that it is run with."""

    class OneStep(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result=await work(ev.query))

    return OneStep(timeout=60)


def run(flow: Any, **given: Any) -> Any:
    """Run a workflow or an agent to its end, in a loop of its own."""

    async def main() -> Any:
        return await flow.run(**given)

    return asyncio.run(main())


class Captured:
    """A meter with a handler attached, and its captured runs."""

    def __init__(self, **options: Any) -> None:
        self.memory = InMemoryExporter()
        self.meter = RagMeter(metrics=["retrieval_health"], exporters=[self.memory])
        self.handler = RagMeterHandler(self.meter, **options)

    @property
    def runs(self) -> list[ScoredRun]:
        """All runs so far, in the order in which they ended."""
        assert self.meter.flush(60)
        return self.memory.results

    @property
    def only(self) -> ScoredRun:
        """The only run; nothing may be left over in the handler."""
        runs = self.runs
        assert len(runs) == 1, [(run.sample.question, run.sample.status) for run in runs]
        assert self.handler.open_entries == 0
        return runs[0]


@contextmanager
def captured(**options: Any) -> Iterator[Captured]:
    """Attach a handler for the block."""
    capture = Captured(**options)
    try:
        with capture.handler:
            yield capture
    finally:
        capture.meter.shutdown(60)


def expect(options: Mapping[str, Any] | None = None, **facts: Any) -> Any:
    """Create a test of an application: it has one sample, with these `facts`.

    Args:
        options: The handler's options.
        **facts: The sample's values, by the names in `expected.FACTS`.
    """

    def test_of(application: Callable[..., object]) -> Callable[..., None]:
        @wraps(application)
        def test(*args: Any, **kwargs: Any) -> None:
            with captured(**options or {}) as capture:
                application(*args, **kwargs)
                check(capture.only, facts)

        return test

    return test_of


def ids(run: ScoredRun) -> list[str | None]:
    """Return the ids of the sample's contexts in order."""
    assert run.sample.contexts is not None
    return [item.id for item in run.sample.contexts]


def texts(run: ScoredRun) -> list[str]:
    """Return the texts of the sample's contexts in order."""
    assert run.sample.contexts is not None
    return [item.text for item in run.sample.contexts]


def retrieved_ids(run: ScoredRun, place: int = 0) -> list[str | None]:
    """Return the ids of one retrieval's result."""
    return [item.id for item in run.run.retrievals[place].contexts]


class Choose(BaseSelector):
    """A router's selector that chooses the given engines or retrievers."""

    def __init__(self, *places: int) -> None:
        self.places = places

    def _get_prompts(self) -> Any:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...

    def _select(self, choices: Any, query: Any) -> MultiSelection:
        return MultiSelection(selections=[SingleSelection(index=place, reason="told") for place in self.places])

    async def _aselect(self, choices: Any, query: Any) -> MultiSelection:
        await asyncio.sleep(0)
        return self._select(choices, query)


class Questions(BaseQuestionGenerator):
    """Asks each tool one thing."""

    def _get_prompts(self) -> Any:
        return {}

    def _update_prompts(self, prompts: Any) -> None: ...

    def generate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return [SubQuestion(sub_question=f"ask {t.name}", tool_name=t.name) for t in tools]

    async def agenerate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.generate(tools, query)
