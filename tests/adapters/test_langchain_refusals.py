"""What a provider calls a refusal is one, with status ``refused``, in whichever place it says so."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableLambda
from langchain_fakes import FixedRetriever, ScriptedModel, Watch, call, docs, expect, lcel, texts

NO = "I cannot help with that."
REFUSALS = [
    (AIMessage([{"type": "refusal", "refusal": NO}]), NO),
    (AIMessage([{"type": "non_standard", "value": {"type": "refusal", "refusal": NO}}]), NO),
    (AIMessage("", additional_kwargs={"refusal": NO}), NO),
    (AIMessage("", response_metadata={"finish_reason": "content_filter"}), None),
    (AIMessage("It is 21", response_metadata={"finish_reason": "content_filter"}), "It is 21"),
    (AIMessage("", response_metadata={"stop_reason": "refusal"}), None),
    (AIMessage("", response_metadata={"stopReason": "guardrail_intervened"}), None),
    (AIMessage("", response_metadata={"finish_reason": "SAFETY"}), None),
    (AIMessage("", response_metadata={"incomplete_details": {"reason": "content_filter"}}), None),
]
ANSWERS = [
    AIMessage("It is 21 m.", additional_kwargs={"refusal": None}),
    AIMessage("It is 21 m.", response_metadata={"finish_reason": "stop", "stop_reason": None}),
    AIMessage([{"type": "text", "text": "It is 21 m."}], response_metadata={"model": "refusal"}),
]


class StreamingModel(ScriptedModel):
    """Streams the script's message, in two pieces."""

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        message = self._generate(messages).generations[0].message
        yield ChatGenerationChunk(message=AIMessageChunk("", id="1"))
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                message.content,  # type: ignore[arg-type]
                additional_kwargs=message.additional_kwargs,
                response_metadata=message.response_metadata,
                id="1",
            )
        )


def _chain(*script: Any, model: type[ScriptedModel] = ScriptedModel) -> Any:
    return lcel(FixedRetriever(found=docs("a")), model(script=list(script)))


@pytest.mark.parametrize("way", ["invoke", "stream"])
@pytest.mark.parametrize(("message", "answer"), REFUSALS)
def test_refusal_parts_and_reasons(watch: Watch, message: AIMessage, answer: str | None, way: str) -> None:
    chain = _chain(message, model=StreamingModel)
    call(chain, "who?", watch.config, way)

    assert (watch.sample.status, watch.sample.answer) == ("refused", answer)
    assert texts(watch.sample) == ["doc-a"]


@expect(status="ok", answer="It is 21 m.")
@pytest.mark.parametrize("message", ANSWERS)
def test_an_answer_is_no_refusal(watch: Watch, message: AIMessage) -> None:
    _chain(message).invoke("who?", config=watch.config)


@expect(status="ok", answer="It is 21 m.")
def test_the_call_that_answers_decides(watch: Watch) -> None:
    """A grade that was refused is none of the answer, nor is a first try that another model made good."""
    refused = AIMessage("", additional_kwargs={"refusal": NO})
    model = ScriptedModel(script=[refused, "It is 21 m."])
    chain = FixedRetriever(found=docs("a")) | RunnableLambda(
        lambda found: (model.invoke("grade"), model.invoke(found[0].page_content))[1].content
    )
    chain.invoke("who?", config=watch.config)


@expect(status="refused", answer="Please ask a person.")
def test_an_answer_that_stands_for_a_refusal(watch: Watch) -> None:
    """What the application says instead is what the user got."""
    chain = _chain(REFUSALS[3][0]) | (lambda said: said or "Please ask a person.")
    chain.invoke("who?", config=watch.config)


@expect(status="refused", answer=NO)
def test_a_message_of_a_model_that_is_not_seen(watch: Watch) -> None:
    chain = FixedRetriever(found=docs("a")) | (lambda _: REFUSALS[2][0])
    chain.invoke("who?", config=watch.config)


def _raises(error: Exception, cause: Exception | None = None) -> Any:
    def parse(_: Any) -> Any:
        raise error from cause

    return parse


def _error(name: str, *args: Any, **fields: Any) -> Exception:
    error: Exception = type(name, (Exception,), {})(*args)
    vars(error).update(fields)
    return error


@pytest.mark.parametrize(
    ("error", "cause", "status", "answer"),
    [
        (_error("OpenAIRefusalError", NO), None, "refused", NO),
        (_error("ModelRefusalError", "refused", refusal=NO), None, "refused", NO),
        (_error("ContentFilterFinishReasonError", "filtered"), None, "refused", None),
        (_error("BadRequestError", "400", code="content_filter"), None, "refused", None),
        (ValueError("no"), _error("ModelRefusalError", NO), "refused", NO),
        (ConnectionRefusedError("no"), None, "error", None),
        (ValueError("refusal"), None, "error", None),
    ],
)
def test_errors(
    watch: Watch, error: Exception, cause: Exception | None, status: str, answer: str | None
) -> None:
    """Errors are known by their names and codes, what they were raised from included."""
    chain = _chain("") | _raises(error, cause)
    with pytest.raises(type(error)):
        chain.invoke("who?", config=watch.config)

    assert (watch.sample.status, watch.sample.answer) == (status, answer)
    assert watch.only.run.error_type == type(error).__name__
