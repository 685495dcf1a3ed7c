"""What spans call a refusal is one, in every convention and whichever place says so."""

import json

import pytest
from otlp_spans import documents, only, openinference, span

from ragmeter.adapters.opentelemetry.build import sample_of
from ragmeter.adapters.opentelemetry.record import SpanNote

NO = "I cannot help with that."
PLAIN = {"role": "assistant", "parts": [{"type": "text", "content": "It is 21 m."}]}
ASKED = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}])


def _gen_ai(messages=None, **more):
    """A request whose model's span and own span bear these output messages."""
    given = {"gen_ai.input.messages": ASKED} | more
    if messages is not None:
        given["gen_ai.output.messages"] = json.dumps(messages)
    found = json.dumps([{"content": "a text", "id": "7"}])
    retrieval = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": found}
    return (
        span(1, None, "qa", end=9, attributes={**given, "gen_ai.operation.name": "invoke_agent"}),
        span(2, 1, "retrieval", attributes=retrieval),
        span(3, 1, "chat", attributes={**given, "gen_ai.operation.name": "chat"}),
    )


def _openinference(output="", **model):
    return (
        openinference(1, None, "CHAIN", "qa", input="Why?", output=output, end=9),
        openinference(2, 1, "RETRIEVER", **documents("a text")),
        openinference(3, 1, "LLM", **model),
    )


def _openai(**message):
    return {"choices": [{"message": {"role": "assistant", "content": None, **message}}]}


def _langchain(content, **kwargs):
    """What LangChain's instrumentation writes of a model's result."""
    message = {"id": ["x", "AIMessage"], "type": "constructor", "kwargs": {"content": content, **kwargs}}
    return {"generations": [[{"text": "", "message": message}]]}


PART = "llm.output_messages.0.message."


@pytest.mark.parametrize(
    ("spans", "answer"),
    [
        (_gen_ai([{"role": "assistant", "parts": [{"type": "refusal", "content": NO}]}]), NO),
        (_gen_ai([{"role": "assistant", "parts": [{"type": "refusal", "refusal": NO}]}]), NO),
        (_gen_ai([{"role": "assistant", "parts": [], "finish_reason": "content_filter"}]), None),
        (_gen_ai([PLAIN | {"finish_reason": "content_filter"}]), "It is 21 m."),
        (_gen_ai([PLAIN], **{"gen_ai.response.finish_reasons": ("content_filter",)}), "It is 21 m."),
        (_gen_ai(**{"gen_ai.response.finish_reasons": '["refusal"]'}), None),
        (_gen_ai(**{"gen_ai.completion.0.finish_reason": "content_filter"}), None),
        (_gen_ai(**{"ai.response.finishReason": "content-filter"}), None),
        (_openinference(output=_openai(refusal=NO)), NO),
        (_openinference(output="", **{"output.value": json.dumps(_openai(refusal=NO))}), NO),
        (_openinference(output=_langchain("", additional_kwargs={"refusal": NO})), NO),
        (_openinference(output=_langchain([{"type": "refusal", "refusal": NO}])), NO),
        (_openinference(output=_langchain("", response_metadata={"stop_reason": "refusal"})), None),
        (
            _openinference(
                **{
                    f"{PART}role": "assistant",
                    f"{PART}contents.0.message_content.type": "refusal",
                    f"{PART}contents.0.message_content.text": NO,
                }
            ),
            NO,
        ),
    ],
)
def test_refused(spans, answer):
    sample = sample_of(only(*spans))

    assert (sample.status, sample.answer) == ("refused", answer)


@pytest.mark.parametrize(
    "spans",
    [
        _gen_ai([PLAIN | {"finish_reason": "stop"}]),
        _gen_ai([PLAIN], **{"gen_ai.response.finish_reasons": ("stop",), "note": "content_filter"}),
        _gen_ai([{"role": "assistant", "parts": [], "finish_reason": "refusal"}, PLAIN]),
        _openinference(output=_openai(content="It is 21 m.", refusal=None)),
        (
            openinference(1, None, "CHAIN", "qa", input="Why?", output="It is 21 m.", end=9),
            openinference(2, 1, "RETRIEVER", **documents("a text")),
            openinference(3, 1, "LLM", output="It is 21 m."),
            openinference(4, 1, "LLM", "grade", output=_openai(refusal=NO)),
        ),
    ],
)
def test_answered(spans):
    """The last message of the call that answered counts, and nothing else."""
    sample = sample_of(only(*spans))

    assert (sample.status, sample.answer) == ("ok", "It is 21 m.")


@pytest.mark.parametrize(
    ("raised", "status", "answer"),
    [
        ("langchain_openai.chat_models.base.OpenAIRefusalError", "refused", NO),
        ("openai.ContentFilterFinishReasonError", "refused", None),
        ("ConnectionRefusedError", "error", None),
    ],
)
def test_what_was_raised(raised, status, answer):
    event = SpanNote("exception", {"exception.type": raised, "exception.message": NO})
    request, *inner = _openinference()
    request.failed, request.events = True, (event,)

    sample = sample_of(only(request, *inner))

    assert (sample.status, sample.answer) == (status, answer)
