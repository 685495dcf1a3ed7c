"""What a provider calls a refusal is one, with status ``refused``, for engines too."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index_fakes import QUESTION, ListRetriever, ScriptedLLM, captured, engine_of, expect, ids, llm, nodes

from ragmeter.adapters.llama_index._streams import StreamedText, watch

NO = "I cannot help with that."
RAW = {"choices": [{"finish_reason": "stop", "message": {"content": None, "refusal": NO}}]}
REPLIES: list[tuple[str, dict[str, Any], dict[str, Any], str | None]] = [
    ("", {"refusal": NO}, {}, NO),
    ("", {}, {"raw": RAW}, NO),
    ("", {}, {"raw": {"stop_reason": "refusal"}}, None),
    ("It is", {}, {"raw": {"choices": [{"finish_reason": "content_filter"}]}}, "It is"),
    ("", {"stop_reason": "refusal"}, {}, None),
]


class Refusing(ScriptedLLM):
    """Gives one reply to every chat, whole or as a stream."""

    response: Any = None

    def chat(self, messages: Any, **kwargs: Any) -> Any:
        return self.response

    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        def pieces() -> Any:
            yield self.response

        return pieces()


def _model(content: str, kwargs: dict[str, Any], more: dict[str, Any]) -> Any:
    message = ChatMessage(role="assistant", content=content, additional_kwargs=kwargs)
    return Refusing(chats=True, response=ChatResponse(message=message, delta=content, **more))


@pytest.mark.parametrize(("content", "kwargs", "more", "answer"), REPLIES)
def test_a_query_engine(content: str, kwargs: Any, more: Any, answer: str | None) -> None:
    with captured() as capture:
        retriever = ListRetriever(nodes()[:2])
        engine_of(retriever, _model(content, kwargs, more)).query(QUESTION)
        scored = capture.only

    assert (scored.sample.status, scored.sample.answer) == ("refused", answer)
    assert ids(scored) == ["paris", "rome"]


@pytest.mark.parametrize(("content", "kwargs", "more", "answer"), REPLIES)
def test_a_chat_engine(content: str, kwargs: Any, more: Any, answer: str | None) -> None:
    with captured() as capture:
        model = _model(content, kwargs, more)
        ContextChatEngine.from_defaults(ListRetriever(nodes()[:2]), llm=model).chat(QUESTION)
        scored = capture.only

    assert (scored.sample.status, scored.sample.answer) == ("refused", answer)


@pytest.mark.parametrize(("content", "kwargs", "more", "answer"), REPLIES)
def test_a_stream_of_responses(content: str, kwargs: Any, more: Any, answer: str | None) -> None:
    """As chat engines hand them on whose streams are the model's own."""
    text = StreamedText(lambda _: None)
    list(watch(_model(content, kwargs, more).stream_chat([]), text))

    assert text.refusal is not None
    assert (text.take() or text.refusal or None) == answer


class RefusingStream(Refusing):
    """Streams replies as integrations do: with LlamaIndex's own events, hidden behind bare words."""

    pieces: Any = None

    @llm_chat_callback()
    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        def pieces() -> Any:
            yield from self.pieces

        return pieces()

    @llm_chat_callback()
    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        async def pieces() -> Any:
            for piece in self.pieces:
                yield piece

        return pieces()


def _piece(delta: str, kwargs: Any = None, **more: Any) -> ChatResponse:
    message = ChatMessage(role="assistant", content=delta, additional_kwargs=kwargs or {})
    return ChatResponse(message=message, delta=delta, **more)


def _chunk(refusal: str) -> ChatResponse:
    return _piece("", raw={"choices": [{"delta": {"content": None, "refusal": refusal}}]})


def _streamed(*pieces: ChatResponse) -> tuple[str, Any]:
    """Return what the caller reads of a query engine's stream of words, and what was scored."""
    model = RefusingStream(chats=True, pieces=pieces)
    with captured() as capture, captured() as other:
        engine = engine_of(model=model, streaming=True)
        read = "".join(engine.query(QUESTION).response_gen)
        scored = capture.only
        assert (other.only.sample.status, other.only.sample.answer) == (
            scored.sample.status, scored.sample.answer
        )  # fmt: skip
    return read, scored


WORD_STREAMS = {
    "one reply": ([_piece("", {"refusal": NO})], "", NO),
    "pieces of the provider's own": ([_chunk("I cannot "), _chunk("help with that.")], "", NO),
    "after words": ([_piece("It "), _piece("is", raw={"stop_reason": "refusal"})], "It is", "It is"),
}


@pytest.mark.parametrize("name", WORD_STREAMS)
def test_a_stream_of_words(name: str) -> None:
    """The reader gets words alone; every meter that is attached knows that they are a refusal."""
    pieces, words, answer = WORD_STREAMS[name]
    read, scored = _streamed(*pieces)
    assert read == words
    assert (scored.sample.status, scored.sample.answer) == ("refused", answer)
    assert ids(scored) == ["paris", "rome"]


def test_a_stream_of_words_that_is_no_refusal() -> None:
    read, scored = _streamed(_piece("Par"), _piece("is.", raw={"stop_reason": "end_turn"}))
    assert read == "Paris."
    assert (scored.sample.status, scored.sample.answer) == ("ok", "Paris.")


@pytest.mark.parametrize("name", WORD_STREAMS)
def test_a_stream_of_words_that_is_awaited(name: str) -> None:
    pieces, words, answer = WORD_STREAMS[name]
    engine = engine_of(model=RefusingStream(chats=True, pieces=pieces), streaming=True)

    async def read() -> str:
        response: Any = await engine.aquery(QUESTION)
        return "".join([word async for word in response.async_response_gen()])

    loop = asyncio.new_event_loop()
    with captured() as capture, closing(loop):
        assert loop.run_until_complete(read()) == words
        scored = capture.only
    assert (scored.sample.status, scored.sample.answer) == ("refused", answer)


@pytest.mark.parametrize("streaming", [False, True])
def test_errors(streaming: bool) -> None:
    error = type("ModelRefusalError", (Exception,), {})(NO)
    model = llm(fail_with=error, fail_after=0 if streaming else None)
    engine = engine_of(model=model, streaming=streaming)
    with captured() as capture:
        with pytest.raises(type(error)):
            str(engine.query(QUESTION))
        scored = capture.only

    assert scored.sample.status == "refused"
    assert scored.run.error_type == "ModelRefusalError"
    assert streaming or scored.sample.answer == NO


@expect(answer="Paris.", status="ok")
def test_an_answer_is_no_refusal() -> None:
    raw = {"choices": [{"finish_reason": "stop", "message": {"content": "Paris.", "refusal": None}}]}
    engine_of(model=_model("Paris.", {"refusal": None}, {"raw": raw})).query(QUESTION)
