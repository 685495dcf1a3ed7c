"""Real LangChain parts with exactly known behaviour: a model that names the documents it saw, and stores.

Only the model and the embedding are fakes; chains, graphs, retrievers and callbacks are
LangChain's own.  Classic chains come from `langchain_classic`, or on langchain 0.3
from `langchain`.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from expected import check
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import RagSample, metric

frameworks_deprecate = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::PendingDeprecationWarning"
)
"""For tests of deprecated parts of LangChain that are still in use."""


@metric(name="context_tally", needs=("contexts",), range=(0.0, None))
def context_tally(sample: RagSample) -> float:
    """Count the contexts; cheap, so that these tests measure capture only."""
    return float(len(sample.contexts or ()))


class Watch:
    """A meter that scores almost nothing, the handler under test, and the results."""

    def __init__(self, **options: Any) -> None:
        self.memory = InMemoryExporter()
        self.meter = RagMeter(metrics=[context_tally], exporters=[self.memory])
        self.handler = RagMeterCallbackHandler(self.meter, **options)

    @property
    def config(self) -> dict[str, Any]:
        """A config with the handler."""
        return {"callbacks": [self.handler]}

    @property
    def results(self) -> list[ScoredRun]:
        """All results captured so far."""
        assert self.meter.flush(30)
        return self.memory.results

    @property
    def samples(self) -> list[RagSample]:
        """The samples of `results`."""
        return [result.sample for result in self.results]

    @property
    def only(self) -> ScoredRun:
        """The only result."""
        results = self.results
        assert len(results) == 1, [result.sample for result in results]
        return results[0]

    @property
    def sample(self) -> RagSample:
        """The only sample."""
        return self.only.sample

    @property
    def state(self) -> int:
        """Runs and requests that the adapter still stores."""
        attached = self.handler._attachment
        assert attached is not None
        return len(attached.runs) + len(attached.requests) + len(attached.annotations)

    def close(self) -> None:
        """Stop the meter."""
        self.meter.shutdown(timeout_s=60)


WAYS = ("invoke", "ainvoke", "stream", "astream", "astream_events", "batch", "abatch")
"""The ways to call a chain."""


def call(chain: Any, given: Any, config: Any, way: str) -> None:
    """Call a chain once in one of `WAYS`, and read its whole output."""

    async def later() -> None:
        if way == "ainvoke":
            await chain.ainvoke(given, config)
        elif way == "abatch":
            await chain.abatch([given], config)
        else:
            options = {"version": "v2"} if way == "astream_events" else {}
            async for _ in getattr(chain, way)(given, config, **options):
                pass

    if way.startswith("a"):
        asyncio.run(later())
    elif way == "stream":
        for _ in chain.stream(given, config):
            pass
    elif way == "batch":
        chain.batch([given], config)
    else:
        chain.invoke(given, config)


@contextmanager
def watching(**options: Any) -> Iterator[Watch]:
    """Yield a watch whose handler has options."""
    made = Watch(**options)
    try:
        yield made
    finally:
        made.close()


def expect(**facts: Any) -> Any:
    """Create a test of an application that runs under a watch: it has one sample, with these `facts`.

    Args:
        **facts: The sample's values, by the names in `expected.FACTS`.
    """

    def test_of(application: Callable[..., object]) -> Callable[..., None]:
        @wraps(application)
        def test(**fixtures: Any) -> None:
            application(**fixtures)
            check(next(one for one in fixtures.values() if isinstance(one, Watch)).only, facts)

        return test

    return test_of


def saw(*names: str) -> dict[str, Any]:
    """Return the facts of a request to a `TellingModel` that was sent the documents of these names."""
    found = [f"doc-{name}" for name in names]
    return {"question": "who?", "texts": found, "answer": f"saw {','.join(found)}", "status": "ok"}


def texts(sample: RagSample) -> list[str] | None:
    """Return the texts of a sample's contexts."""
    return None if sample.contexts is None else [context.text for context in sample.contexts]


def docs(*names: str) -> list[Document]:
    """Return documents ``doc-a``, ..., with id and metadata."""
    return [Document(f"doc-{name}", id=f"id-{name}", metadata={"source": name}) for name in names]


class TellingModel(BaseChatModel):
    """Answers ``saw doc-a,doc-b`` with the documents in its prompt, in the prompt's order."""

    fail: int = 0
    """Number of calls that raise first."""
    pause_s: float = 0.0
    """Seconds before each answer."""
    calls: list[str] = Field(default_factory=list)
    """All prompts so far."""

    @property
    def _llm_type(self) -> str:
        return "telling"

    def get_num_tokens(self, text: str) -> int:
        return len(text.split())

    def _reply(self, messages: Sequence[BaseMessage]) -> str:
        prompt = "\n".join(str(message.content) for message in messages)
        self.calls.append(prompt)
        if self.fail > 0:
            self.fail -= 1
            raise ValueError("model failed")
        if self.pause_s:
            time.sleep(self.pause_s)
        if "rewrite" in prompt:
            return "rewritten query"
        return "saw " + ",".join(re.findall(r"doc-[\w-]+", prompt))

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        message = AIMessage(self._reply(messages))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for part in re.findall(r"\S+\s*|\s+", self._reply(messages)):
            chunk = ChatGenerationChunk(message=AIMessageChunk(part))
            if run_manager is not None:
                run_manager.on_llm_new_token(part, chunk=chunk)
            yield chunk


class ScriptedModel(BaseChatModel):
    """Returns the scripted messages one after the other; may bind tools."""

    script: list[Any]
    """Messages or texts."""
    at: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, Any]:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        step = self.script[min(self.at, len(self.script) - 1)]
        self.at += 1
        message = AIMessage(step) if isinstance(step, str) else step
        return ChatResult(generations=[ChatGeneration(message=message)])


class FixedRetriever(BaseRetriever):
    """Finds the same documents for every query; records the queries."""

    found: list[Document]
    queries: list[str] = Field(default_factory=list)
    error: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.queries.append(query)
        if self.error:
            raise LookupError("store is down")
        return list(self.found)


class EchoRetriever(BaseRetriever):
    """Finds ``doc-<query>-1`` .. ``doc-<query>-k``: different documents for every query."""

    k: int = 2

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"doc-{query}-{i}", id=f"{query}-{i}") for i in range(1, self.k + 1)]


class ByQuery(BaseRetriever):
    """Finds what is listed under the query."""

    found: dict[str, list[Document]]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found[query]


class HangingRetriever(BaseRetriever):
    """Never comes back by itself; tells when it was called."""

    entered: Any = Field(default_factory=asyncio.Event)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.entered.set()
        await asyncio.Event().wait()
        return []


class Wrapper(BaseRetriever):
    """A user's wrapper that does not forward its callbacks, and hands on what it `keeps`."""

    base: Any
    keeps: slice = slice(None)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.base.invoke(query)[self.keeps]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return (await self.base.ainvoke(query))[self.keeps]


class LetterEmbeddings(Embeddings):
    """Counts letters: sufficient for a store of a few lines."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(text.lower().count(letter)) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"]


def store_of(*names: str) -> InMemoryVectorStore:
    """Return a vector store of ``docs(*names)``."""
    store = InMemoryVectorStore(LetterEmbeddings())
    store.add_documents(docs(*names))
    return store


def joined(documents: Sequence[Document]) -> str:
    """Return the documents' texts, joined as usual."""
    return "\n".join(document.page_content for document in documents)


PROMPT = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {question}")


def lcel(retriever: Any, model: Any | None = None) -> Runnable[Any, Any]:
    """Return the usual tutorial chain."""
    return (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | PROMPT
        | (model or TellingModel())
        | StrOutputParser()
    )


def classic(module: str, name: str) -> Any:
    """Return an object of langchain's classic part by name, from either package."""
    for package in ("langchain_classic", "langchain"):
        if find_spec(package) is not None:
            return getattr(import_module(f"{package}.{module}"), name)
    pytest.skip(f"no {module}.{name} in the installed langchain")


def agent(model: Any, tools: Sequence[Any] = (), **options: Any) -> Any:
    """Return a `create_agent`, or what it was called before langchain 1.0."""
    try:
        from langchain.agents import create_agent
    except ImportError:
        from langgraph.prebuilt import create_react_agent as create_agent
    return create_agent(model, list(tools), **options)


def scripted_agent(*script: Any, **options: Any) -> Any:
    """Return a `create_agent` of langchain 1.0 with a `ScriptedModel`."""
    if not hasattr(pytest.importorskip("langchain.agents"), "create_agent"):
        pytest.skip("langchain before 1.0")
    return agent(ScriptedModel(script=list(script)), **options)


def call_tool(*queries: str, name: str = "search") -> AIMessage:
    """Return a model's message that calls the tool once per query."""
    return AIMessage(
        "", tool_calls=[{"name": name, "args": {"query": query}, "id": f"call-{query}"} for query in queries]
    )


def graph_of(state: type[Any], *steps: Any, **options: Any) -> Any:
    """Return a graph whose steps, functions or pairs of name and function, run one after the other."""
    from langgraph.graph import START, StateGraph

    builder = StateGraph(state)
    builder.add_sequence(steps)
    builder.add_edge(START, steps[0][0] if isinstance(steps[0], tuple) else steps[0].__name__)
    return builder.compile(**options)
