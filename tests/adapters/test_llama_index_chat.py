"""Chat engines: the user's message, this turn's contexts, the whole answer, streamed or not."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.memory import ChatMemoryBuffer
from llama_index_fakes import (
    CORE,
    DOCUMENTS,
    QUESTION,
    ListRetriever,
    captured,
    engine_of,
    expect,
    index,
    llm,
    nodes,
)

ANSWER = "Paris is the answer."
KINDS = ["context", "condense_plus_context", "condense_question"]
WAYS = ["chat", "achat", "stream_chat", "astream_chat"]


def chat_engine(kind: str, model: Any = None, retriever: Any = None, **options: Any) -> Any:
    model = model or llm(ANSWER)
    # The default memory leaks a database connection, which would fail whatever test comes next.
    options["memory"] = ChatMemoryBuffer.from_defaults(token_limit=3000)
    retriever = retriever or ListRetriever(nodes()[:2])
    if kind == "context":
        return ContextChatEngine.from_defaults(retriever, llm=model, **options)
    if kind == "condense_plus_context":
        return CondensePlusContextChatEngine.from_defaults(retriever, llm=model, **options)
    if kind == "condense_question":
        return CondenseQuestionChatEngine.from_defaults(engine_of(retriever, model), llm=model, **options)
    return SimpleChatEngine.from_defaults(llm=model, **options)


def say(engine: Any, way: str, message: str, read: bool = True) -> str:
    """Talk to an engine in one of the four ways, and read the answer as its user would."""

    async def later() -> str:
        if way == "achat":
            return str(await engine.achat(message))
        response = await engine.astream_chat(message)
        if not read:
            deadline = time.monotonic() + 60
            while response.is_writing_to_memory and not response.is_done:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.001)
            return ""
        return "".join([word async for word in response.async_response_gen()])

    if way == "chat":
        return str(engine.chat(message))
    if way == "stream_chat":
        response = engine.stream_chat(message)
        if read:
            return "".join(response.response_gen)
        drained(response)
        return ""
    return asyncio.run(later())


def drained(response: Any) -> None:
    """Wait until LlamaIndex has written a stream to its history, where it does."""
    deadline = time.monotonic() + 60
    while response.is_writing_to_memory and not response.is_done:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@expect(question=QUESTION, ids=["paris", "rome"], retrievals=1, answer=ANSWER, status="ok")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_turn(kind: str, way: str) -> None:
    """Question, contexts and answer for every engine and way (langfuse#5245, trulens#1044)."""
    got = say(chat_engine(kind), way, QUESTION)
    assert got == ANSWER


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_second_turn_has_its_own_message_and_contexts(kind: str, way: str) -> None:
    """With memory: the question is what the user typed, the condensed text is only the query."""

    def reply(prompt: str) -> str:
        return "green tea water" if "standalone" in prompt.lower() else ANSWER

    engine = chat_engine(kind, llm(reply=reply), index().as_retriever(similarity_top_k=1))
    with captured() as capture:
        say(engine, way, QUESTION)
        say(engine, way, "How is it brewed?")
        first, second = (run.sample for run in capture.runs)
        query = capture.runs[1].run.retrievals[0].query

    assert (first.question, second.question) == (QUESTION, "How is it brewed?")
    assert first.search_query is None
    assert [item.id for item in first.contexts or ()] == ["paris"]
    assert len(second.contexts or ()) == 1
    assert second.answer == ANSWER
    if kind != "context":
        assert query is not None
        assert query.strip() == "green tea water"
        assert second.search_query == query
        assert [item.id for item in second.contexts or ()] == ["tea"]
    assert capture.handler.open_entries == 0


@pytest.mark.parametrize("way", WAYS)
def test_simple_chat_engine_never_retrieves_and_gives_no_sample(way: str) -> None:
    """No retrieval, no sample, nothing left over."""
    with captured() as capture:
        assert say(chat_engine("simple"), way, QUESTION) == ANSWER
        gc.collect()

        assert capture.runs == []
        assert capture.handler.open_entries == 0


@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
@pytest.mark.parametrize("kind", KINDS)
def test_unread_chat_stream_is_known_because_llamaindex_drains_it(kind: str, way: str) -> None:
    """LlamaIndex writes the answer to its history whether or not anybody reads."""
    with captured() as capture:
        say(chat_engine(kind), way, QUESTION, read=False)
        gc.collect()
        scored = capture.only

    if CORE < (0, 14, 17) and kind != "condense_question":
        assert (scored.sample.status, scored.sample.answer) == ("partial", None)
    else:
        assert (scored.sample.status, scored.sample.answer) == ("ok", ANSWER)


def test_chat_stream_broken_off_after_one_word() -> None:
    """A client that disconnects: LlamaIndex drains the rest, the answer is whole."""
    with captured() as capture:
        response = chat_engine("context").stream_chat(QUESTION)
        next(iter(response.response_gen))
        drained(response)
        del response
        gc.collect()
        scored = capture.only

    if CORE < (0, 14, 17):
        assert scored.sample.status == "partial"
    else:
        assert (scored.sample.status, scored.sample.answer) == ("ok", ANSWER)


@expect(status="error", error_type="RuntimeError", retrieval_error="RuntimeError", contexts=None)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_failing_retriever_reaches_the_caller_and_gives_an_error_sample(kind: str, way: str) -> None:
    """Same exception object; status error; the retrieval says what it raised."""
    error = RuntimeError("store down")
    with pytest.raises(RuntimeError) as caught:
        say(chat_engine(kind, retriever=ListRetriever([], error=error)), way, QUESTION)

    assert caught.value is error


@expect(ids=["paris", "rome"], status="error", error_type="ConnectionError")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
@pytest.mark.parametrize("kind", KINDS)
def test_model_that_fails_while_chat_streams(kind: str, way: str) -> None:
    """The error reaches the reader, and the sample."""
    model = llm(ANSWER, fail_with=ConnectionError("gone"), fail_after=2)
    with pytest.raises(ConnectionError):
        say(chat_engine(kind, model), way, QUESTION)
    gc.collect()


@expect(question=QUESTION, ids=["paris", "rome"])
def test_history_given_with_the_message_is_not_the_question() -> None:
    """An explicit chat history changes the prompt, not what is captured."""
    history = [ChatMessage(role="user", content="earlier"), ChatMessage(role="assistant", content="before")]
    chat_engine("context").chat(QUESTION, chat_history=history)


def test_many_chat_streams_whose_writer_races_with_the_return() -> None:
    """The history writer may begin and end before or after the call returns: always one sample."""
    with captured() as capture:
        for turn in range(60):
            engine = chat_engine("context", llm(f"answer {turn}"))
            assert "".join(engine.stream_chat(f"question {turn}").response_gen) == f"answer {turn}"
        samples = {run.sample.question: run.sample.answer for run in capture.runs}

    assert samples == {f"question {turn}": f"answer {turn}" for turn in range(60)}
    assert capture.handler.open_entries == 0


def test_concurrent_chats_on_one_engine_do_not_mix() -> None:
    """Several users of one chat engine: each message with its own answer (langfuse#2265)."""

    def reply(prompt: str) -> str:
        return "echo " + prompt.rpartition("user: ")[2].split("\n")[0]

    async def main() -> None:
        engine = chat_engine("context", llm(reply=reply))
        responses = await asyncio.gather(
            *(engine.astream_chat(f"message {n}", chat_history=[]) for n in range(8))
        )
        for response in responses:
            async for _ in response.async_response_gen():
                pass

    with captured() as capture:
        asyncio.run(main())
        samples = [run.sample for run in capture.runs]

    assert sorted(str(item.question) for item in samples) == [f"message {n}" for n in range(8)]
    assert {str(item.status) for item in samples} == {"ok"}
    assert all([c.id for c in item.contexts or ()] == list(DOCUMENTS)[:2] for item in samples)
    assert capture.handler.open_entries == 0
