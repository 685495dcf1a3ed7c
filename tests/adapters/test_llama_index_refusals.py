"""What a provider calls a refusal is one, with status ``refused``, for engines too."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_fakes import QUESTION, ListRetriever, ScriptedLLM, captured, ids, llm, nodes

from ragmeter.adapters.llama_index._streams import StreamedText, watch

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


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
        RetrieverQueryEngine.from_args(retriever, llm=_model(content, kwargs, more)).query(QUESTION)
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


@pytest.mark.parametrize("streaming", [False, True])
def test_errors(streaming: bool) -> None:
    error = type("ModelRefusalError", (Exception,), {})(NO)
    model = llm(fail_with=error, fail_after=0 if streaming else None)
    engine = RetrieverQueryEngine.from_args(
        ListRetriever(nodes()[:2]), llm=model, streaming=streaming
    )
    with captured() as capture:
        with pytest.raises(type(error)):
            str(engine.query(QUESTION))
        scored = capture.only

    assert scored.sample.status == "refused"
    assert scored.run.error_type == "ModelRefusalError"
    assert streaming or scored.sample.answer == NO


def test_an_answer_is_no_refusal() -> None:
    raw = {
        "choices": [{"finish_reason": "stop", "message": {"content": "Paris.", "refusal": None}}]
    }
    with captured() as capture:
        RetrieverQueryEngine.from_args(
            ListRetriever(nodes()[:2]), llm=_model("Paris.", {"refusal": None}, {"raw": raw})
        ).query(QUESTION)
        scored = capture.only

    assert (scored.sample.status, scored.sample.answer) == ("ok", "Paris.")
