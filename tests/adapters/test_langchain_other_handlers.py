"""Other handlers of LangChain get the same events with ragmeter attached as without."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import repeat
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models.fake import FakeListLLM, FakeStreamingListLLM
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_fakes import Watch

from ragmeter.adapters.langchain import RagMeterCallbackHandler

EVENTS = (
    "on_llm_start",
    "on_chat_model_start",
    "on_llm_new_token",
    "on_llm_end",
    "on_chain_start",
    "on_chain_end",
    "on_retriever_start",
    "on_retriever_end",
)


def _recording(kind: type[Any], *, inline: bool = False) -> tuple[Any, list[str]]:
    """Return a handler that notes the name of each event it is told, and its notes."""
    heard: list[str] = []

    def note(name: str) -> Callable[..., Any]:
        def sync(self: object, *args: object, **kwargs: object) -> None:
            heard.append(name)

        async def asynchronous(self: object, *args: object, **kwargs: object) -> None:
            heard.append(name)

        return asynchronous if kind is AsyncCallbackHandler else sync

    methods: dict[str, Any] = {name: note(name) for name in EVENTS}
    return type("Recording", (kind,), {**methods, "run_inline": inline})(), heard


def _text_model() -> Runnable[Any, Any]:
    return FakeListLLM(responses=["It is in Paris."] * 9)


def _streaming_text_model() -> Runnable[Any, Any]:
    return FakeStreamingListLLM(responses=["It is in Paris."] * 9)


def _chat_model() -> Runnable[Any, Any]:
    return GenericFakeChatModel(messages=repeat(AIMessage("It is in Paris.")))


class Shelf(BaseRetriever):
    """Always finds the same document."""

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
        return [Document(page_content="The tower stands in Paris.")]


def _chain(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    prompt = PromptTemplate.from_template("{context}\nQ: {question}")
    return (
        {
            "context": Shelf() | RunnableLambda(lambda found: found[0].page_content),
            "question": RunnableLambda(lambda question: question),
        }
        | prompt
        | model
    )


async def _ainvoke(chain: Runnable[Any, Any], config: Any) -> list[str]:
    await chain.ainvoke("Where is it?", config=config)
    return []


async def _abatch(chain: Runnable[Any, Any], config: Any) -> list[str]:
    await chain.abatch(["Where is it?", "Where is that?"], config=config)
    return []


async def _astream(chain: Runnable[Any, Any], config: Any) -> list[str]:
    chunks = [chunk async for chunk in chain.astream("Where is it?", config=config)]
    return [str(getattr(chunk, "content", chunk)) for chunk in chunks]


async def _astream_events(chain: Runnable[Any, Any], config: Any) -> list[str]:
    events: AsyncIterator[Any] = chain.astream_events("Where is it?", version="v2", config=config)
    return sorted([event["event"] async for event in events])


async def _agenerate(chain: Runnable[Any, Any], config: Any) -> list[str]:
    model = chain.last  # type: ignore[attr-defined]
    if not hasattr(model, "agenerate_prompt"):
        return []
    prompt = PromptTemplate.from_template("{q}")
    values = [prompt.invoke({"q": text}) for text in ("one", "two")]
    await model.agenerate_prompt(values, callbacks=config["callbacks"])
    return []


RUNS = (_ainvoke, _abatch, _astream, _astream_events, _agenerate)
MODELS = (_text_model, _streaming_text_model, _chat_model)
KINDS = ((BaseCallbackHandler, False), (AsyncCallbackHandler, False), (BaseCallbackHandler, True))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("kind", "inline"), KINDS, ids=("sync", "async", "inline"))
@pytest.mark.parametrize("ours", ["first", "last", "twice"])
def test_another_handler_hears_the_same_with_us_as_without(
    run: Any, model: Any, kind: Any, inline: bool, ours: str
) -> None:
    """Same events for the others, and the same output, wherever our handler stands in the list."""
    watch = Watch()
    heard: list[tuple[list[str], list[str]]] = []
    for attached in (False, True):
        other, events = _recording(kind, inline=inline)
        handlers: list[Any] = [other]
        if attached:
            second = RagMeterCallbackHandler(watch.meter)
            handlers = {
                "first": [watch.handler, other],
                "last": [other, watch.handler],
                "twice": [watch.handler, other, second],
            }[ours]
        output = asyncio.run(run(_chain(model()), {"callbacks": handlers}))
        heard.append((sorted(events), output))
    assert heard[0] == heard[1]
    assert any(name in heard[1][0] for name in ("on_llm_start", "on_chat_model_start"))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("inline", [False, True])
def test_beside_other_handlers_our_request_is_complete(model: Any, inline: bool) -> None:
    """Not silencing the others does not cost us what the model said."""
    watch = Watch()
    other, _ = _recording(BaseCallbackHandler, inline=inline)
    config = {"callbacks": [other, watch.handler]}
    asyncio.run(_ainvoke(_chain(model()), config))
    assert watch.sample.answer == "It is in Paris."
    assert [context.text for context in watch.sample.contexts or ()] == ["The tower stands in Paris."]
