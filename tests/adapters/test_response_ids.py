"""The completion that answered keeps the name that its provider gave it, on the request's events, too."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_fakes import FixedRetriever, ScriptedModel, Watch, docs, lcel
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_fakes import QUESTION, ListRetriever, ScriptedLLM, captured, nodes
from openai.types.chat import ChatCompletion
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from otlp_spans import documents, only, openinference

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.opentelemetry.build import build_run
from ragmeter.exporters.otel import OpenTelemetryExporter

SAID = "It is 21 m."
ID = "chatcmpl-7"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AIMessage(SAID, response_metadata={"id": ID}), ID),
        (AIMessage(SAID, id=ID), ID),
        (AIMessage(SAID), None),
        (AIMessage(SAID, id="run-5", response_metadata={"id": 5}), None),
        (AIMessage(SAID, id="lc_run--5"), None),
    ],
)
def test_langchain(watch: Watch, message: AIMessage, expected: str | None) -> None:
    chain = lcel(FixedRetriever(found=docs("a")), ScriptedModel(script=[message]))
    chain.invoke("How high?", watch.config)
    assert watch.only.run.response_id == expected


RAW = {"id": ID, "choices": [], "created": 1, "model": "m", "object": "chat.completion"}


@pytest.mark.parametrize(
    ("raw", "expected"), [(RAW, ID), (ChatCompletion.model_validate(RAW), ID), (None, None), ({"id": 5}, None)]
)
def test_llama_index(raw: Any, expected: str | None) -> None:
    class Answering(ScriptedLLM):
        def chat(self, messages: Any, **kwargs: Any) -> Any:
            return ChatResponse(message=ChatMessage(role="assistant", content=SAID), raw=raw)

    with captured() as capture:
        engine = RetrieverQueryEngine.from_args(ListRetriever(nodes()[:2]), llm=Answering(chats=True))
        engine.query(QUESTION)
        assert capture.only.run.response_id == expected


@pytest.mark.parametrize("key", ["gen_ai.response.id", "ai.response.id"])
@pytest.mark.parametrize(("said", "expected"), [(SAID, ID), ("Graded.", None)])
def test_spans(key: str, said: str, expected: str | None) -> None:
    whole = openinference(1, None, "CHAIN", "qa", input="How high?", output=SAID)
    retriever = openinference(2, 1, "RETRIEVER", **documents("a"), input="How high?")
    told = {"llm.output_messages.0.message.content": said, key: ID}
    model = openinference(3, 1, "LLM", **told, input="a How high?")
    assert build_run(only(whole, retriever, model)).response_id == expected


def test_events_bear_it() -> None:
    kept = InMemoryLogRecordExporter()
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    meter = RagMeter(exporters=[OpenTelemetryExporter(logger_provider=provider)])
    message = AIMessage(SAID, response_metadata={"id": ID})
    chain = lcel(FixedRetriever(found=docs("a")), ScriptedModel(script=[message]))
    chain.invoke("How high?", {"callbacks": [RagMeterCallbackHandler(meter)]})
    meter.shutdown()
    told = {
        dict(each.log_record.attributes or {}).get("gen_ai.response.id")
        for each in kept.get_finished_logs()
        if each.log_record.event_name == "gen_ai.evaluation.result"
    }
    assert told == {ID}
