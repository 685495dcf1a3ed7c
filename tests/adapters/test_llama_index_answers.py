"""The answer is what the user got: a string of the result that a model said, never a repr."""

import asyncio
import dataclasses
import json
from typing import Any

import pytest

pytest.importorskip("llama_index.core.agent.workflow", reason="agents came with core 0.12.11")
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index_agents import agent_llm
from llama_index_fakes import (
    QUESTION,
    ListRetriever,
    captured,
    custom,
    engine_of,
    expect,
    ids,
    llm,
    nodes,
    one_step,
    run,
    since,
)
from pydantic import BaseModel

from ragmeter.adapters.llama_index import LlamaIndexRequest, RagMeterHandler
from ragmeter.metrics import ConfigurationError

ANSWER = "The capital is Paris, on the Seine."


@dataclasses.dataclass
class Outcome:
    words: str
    check: str
    found: list[Any]


class OutcomeModel(BaseModel):
    words: str
    check: str
    found: list[Any]


class OwnStop(StopEvent):
    words: str = ""
    check: str = ""
    found: list[Any] = []  # noqa: RUF012 -- a pydantic field


class Object:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def plain(result: Any) -> StopEvent:
    return StopEvent(result=result)


SHAPES: dict[str, Any] = {
    "dictionary": lambda **fields: plain(dict(fields)),
    "nested": lambda **fields: plain({"data": [fields]}),
    "dataclass": lambda **fields: plain(Outcome(**fields)),
    "pydantic": lambda **fields: plain(OutcomeModel(**fields)),
    "object": lambda **fields: plain(Object(**fields)),
    "tuple": lambda **fields: plain(tuple(fields.values())),
    "own stop event": OwnStop,
    "stop event with other fields": lambda **fields: StopEvent(result=None, **fields),
}


OWN_STOP = pytest.param("own stop event", marks=since(0, 14))
"""Workflows 1 wait for ever where a step returns a stop event of another class than it is annotated with."""


class Flow(Workflow):
    """Retrieves, answers, asks for a verdict last, and gives out all of it in some shape."""

    shape: Any = None
    streams = False

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        found = await ListRetriever(nodes()[:2]).aretrieve(ev.query)
        prompt = "\n".join(item.get_content() for item in found)
        if self.streams:
            words = ""
            async for piece in await llm(ANSWER).astream_complete(prompt):
                words = piece.text
        else:
            words = str(await llm(ANSWER).acomplete(prompt))
        check = str(await llm("SAFE").acomplete("Is this safe? " + words))
        return SHAPES[self.shape](words=words, check=check, found=found)


@expect(ids=["paris", "rome"], answer=ANSWER, status="ok")
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "shape", [OWN_STOP if name == "own stop event" else name for name in SHAPES if "other" not in name]
)
def test_answer_in_a_result_of_any_shape(shape: str, streams: bool) -> None:
    """Neither the verdict that was said last, nor a repr with the nodes in it."""
    flow = Flow(timeout=60)
    flow.shape, flow.streams = shape, streams
    run(flow, query=QUESTION)


@expect(answer=ANSWER)
def test_a_form_that_the_application_parses_later_holds_the_answer() -> None:
    form = json.dumps({"answer": ANSWER, "sources": ["paris"]})
    found = ListRetriever(nodes()[:2])
    engine_of(found, form).query(QUESTION)


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"note": "It was not me who said this, honestly."}, "It was not me who said this, honestly."),
        ({"ok": True, "n": 3}, None),
        ({"done": "yes"}, None),
        (ChatMessage(role="assistant", content="Hello."), "Hello."),
        ({"echo": QUESTION}, None),
        (42, None),
        ("plain", "plain"),
    ],
)
def test_results_without_a_model_that_was_seen(result: Any, answer: str | None) -> None:
    """The only long string, else none; what LlamaIndex's own classes hold is known."""

    async def silent(query: str) -> Any:
        await ListRetriever(nodes()[:2]).aretrieve(query)
        return result

    with captured() as capture:
        run(one_step(silent), query=QUESTION)

        assert capture.only.sample.answer == answer


class Steps(BaseModel):
    title: str
    steps: list[str]


def test_a_list_that_a_model_filled_in_is_one_answer() -> None:
    steps = ["Take the train to the north station.", "Walk along the river for ten minutes."]
    model = llm(json.dumps({"title": "Walk", "steps": steps}))

    async def filled(query: str) -> Any:
        found = await ListRetriever(nodes()).aretrieve(query)
        prompt = PromptTemplate("{context}\n{question}")
        text = "\n".join(item.get_content() for item in found)
        return await model.astructured_predict(Steps, prompt, context=text, question=query)

    with captured() as capture:
        run(one_step(filled), query=QUESTION)
    assert capture.only.sample.answer == "\n".join(steps)


@expect(answer=ANSWER)
def test_stream_inside_a_result_is_captured_to_its_end() -> None:
    async def streams(query: str) -> Any:
        return {"stream": await engine_of(model=ANSWER, streaming=True).aquery(query), "n": 1}

    async def main() -> str:
        result = await one_step(streams).run(query=QUESTION)
        return "".join([word async for word in result["stream"].async_response_gen()])

    assert asyncio.run(main()) == ANSWER


def tool() -> QueryEngineTool:
    return QueryEngineTool.from_defaults(engine_of(model=ANSWER), name="search", description="capitals")


@expect(question=QUESTION, ids=["paris", "rome"], answer=ANSWER)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("given", ["text", "message", "history"])
def test_predict_and_call_asks_the_users_question(given: str, is_async: bool) -> None:
    """Not the one that the model put to the tool."""
    message = ChatMessage(role="user", content=QUESTION)
    asked = {
        "text": {"user_msg": QUESTION},
        "message": {"user_msg": message},
        "history": {"chat_history": [ChatMessage(role="system", content="Be kind."), message]},
    }[given]
    model = agent_llm([("search", {"input": "capital France"})])
    if is_async:
        asyncio.run(model.apredict_and_call([tool()], **asked))
    else:
        model.predict_and_call([tool()], **asked)


@expect(question=QUESTION, answer=None, status="retrieval_only")
def test_predict_and_call_of_a_retriever_gives_no_answer() -> None:
    """Its response is the nodes' texts, pasted."""
    retriever = RetrieverTool.from_defaults(ListRetriever(nodes()[:2]), name="search", description="capitals")
    model = agent_llm([("search", {"input": "capital France"})])
    model.predict_and_call([retriever], user_msg=QUESTION)


def test_predict_and_call_without_retrieval_is_no_request() -> None:
    add = FunctionTool.from_defaults(lambda a: f"{a}", name="add", description="adds")
    with captured() as capture:
        agent_llm([("add", {"a": 1})]).predict_and_call([add], user_msg="1?")

        assert capture.runs == []


@pytest.mark.parametrize("as_workflow", [False, pytest.param(True, marks=since(0, 14))])
def test_structured_response_of_an_agent_is_the_answer(as_workflow: bool) -> None:
    """As JSON: all of it is what the user got."""

    def fill(messages: Any) -> dict[str, Any]:
        return {"name": "Париж", "river": "Seine"}

    model = agent_llm([("search", {"input": "capital"})], ANSWER)
    agent = FunctionAgent(name="a", description="a", tools=[tool()], llm=model, structured_output_fn=fill)
    with captured() as capture:
        run(AgentWorkflow(agents=[agent]) if as_workflow else agent, user_msg=QUESTION)
        scored = capture.only

    assert json.loads(scored.sample.answer or "") == {"name": "Париж", "river": "Seine"}
    assert "Париж" in str(scored.sample.answer)
    assert ids(scored) == ["paris", "rome"]


def chosen(flow: str = "dictionary", **readers: Any) -> Any:
    work = Flow(timeout=60)
    work.shape = flow
    with captured(**readers) as capture:
        run(work, query=QUESTION, topic="rivers")
        return capture.only.sample


@pytest.mark.parametrize("shape", ["dictionary", "dataclass", "pydantic", OWN_STOP])
def test_readers_may_be_keys(shape: str) -> None:
    sample = chosen(shape, question="topic", contexts="found", answer="check")

    assert (sample.question, sample.answer, sample.contexts_by) == ("rivers", "SAFE", "given")
    assert [item.id for item in sample.contexts] == ["paris", "rome"]


def test_readers_may_be_functions() -> None:
    def topic(request: LlamaIndexRequest) -> str:
        start = request.arguments.get("start_event")
        given = request.arguments["kwargs"]["topic"] if start is None else start.topic
        return str(given).upper()

    sample = chosen(
        question=topic,
        contexts=lambda result: ["one", result["found"][1]][:1],
        answer=lambda result: {"text": result["words"].upper()}["text"],
    )

    assert (sample.question, sample.answer) == ("RIVERS", ANSWER.upper())
    assert [item.text for item in sample.contexts] == ["one"]


def test_readers_that_find_nothing_leave_the_usual_rules() -> None:
    """But an answer that is read as none is none."""
    sample = chosen(question="nowhere", contexts="nowhere", answer="nowhere")

    assert (sample.question, sample.contexts_by) == (QUESTION, "prompt")
    assert (sample.answer, sample.status) == (None, "no_answer")


@pytest.mark.contains_errors
def test_readers_that_raise_are_contained_and_leave_the_usual_rules() -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("mine")

    sample = chosen(question=broken, contexts=broken, answer=broken)

    assert (sample.question, sample.answer, sample.contexts_by) == (QUESTION, ANSWER, "prompt")


@expect(
    {"contexts": lambda response: response.metadata["rows"]},
    texts=["first row", "second row"],
    answer="Two.",
    status="ok",
    contexts_by="given",
)
def test_readers_of_engines_and_of_requests_that_retrieved_nothing_visible() -> None:
    """``contexts=`` makes a request of what retrieved by means of its own."""
    from llama_index.core.base.response.schema import Response

    rows = Response("Two.", metadata={"rows": ["first row", "second row"]})
    custom(lambda _: rows).query(QUESTION)


@pytest.mark.parametrize("name", ["question", "contexts", "answer"])
def test_readers_of_a_wrong_type_are_refused(name: str) -> None:
    with captured() as capture, pytest.raises(ConfigurationError, match=name):
        RagMeterHandler(capture.meter, **{name: 3})
