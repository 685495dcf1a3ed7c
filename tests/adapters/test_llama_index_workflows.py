"""User-written workflows: one sample per run, whatever its steps do, however it ends."""

import asyncio
from typing import Any

import pytest
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from llama_index_fakes import (
    QUESTION,
    ListRetriever,
    captured,
    engine_of,
    expect,
    llm,
    nodes,
    one_step,
    run,
    since,
)

from ragmeter.adapters.llama_index import LlamaIndexRequest

ANSWER = "Paris is the answer."
A, B = nodes()[:2], nodes()[2:]


class Found(Event):
    nodes: Any
    query: str


class Rag(Workflow):
    """The documentation's shape: retrieve in one step, synthesize in the next."""

    streaming = False

    @step
    async def retrieve(self, ev: StartEvent) -> Found:
        found = await ListRetriever(A).aretrieve(ev.query)
        return Found(nodes=found, query=ev.query)

    @step
    async def answer(self, ev: Found) -> StopEvent:
        synthesizer = get_response_synthesizer(llm=llm(ANSWER), streaming=self.streaming)
        return StopEvent(result=await synthesizer.asynthesize(ev.query, ev.nodes))


@expect(question=QUESTION, ids=["paris", "rome"], retrievals=1, answer=ANSWER, status="ok", name="Rag")
def test_retrieve_and_synthesize_in_separate_steps() -> None:
    """One sample for the run; its answer is what the stop event carries."""
    response = run(Rag(timeout=60), query=QUESTION)
    assert str(response) == ANSWER


@expect(answer=ANSWER)
def test_workflow_that_returns_a_stream() -> None:
    """A streaming response as result: captured when its reader is done."""

    async def main() -> str:
        flow = Rag(timeout=60)
        flow.streaming = True
        response = await flow.run(query=QUESTION)
        return "".join([word async for word in response.async_response_gen()])

    assert asyncio.run(main()) == ANSWER


class Fields(Workflow):
    """Its start event's fields have the names it is run with."""

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        await ListRetriever(A).aretrieve("rewritten")
        return StopEvent(result="done")


@expect(question=QUESTION)
@pytest.mark.parametrize("name", ["query", "question", "query_str", "message", "input", "user_msg"])
def test_question_is_found_under_usual_names(name: str) -> None:
    """The start event's field that is likeliest the question."""
    run(Fields(timeout=60), **{name: QUESTION})


def test_question_under_an_unknown_name_is_not_guessed_but_can_be_configured() -> None:
    """Unknown is None, never the rewritten query; ``question=`` names it."""
    with captured() as capture:
        run(Fields(timeout=60), topic=QUESTION)
        assert capture.only.sample.question is None

    def topic(request: LlamaIndexRequest) -> str | None:
        start = request.arguments.get("start_event") or request.arguments.get("kwargs")
        return start.get("topic") if start is not None else None

    with captured(question=topic) as capture:
        run(Fields(timeout=60), topic=QUESTION)
        assert capture.only.sample.question == QUESTION


class OfTickets(Workflow):
    """Searches for a field of its start event, as it is."""

    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        await ListRetriever(A).aretrieve(ev.ticket)
        return StopEvent(result="done")


@expect(question=QUESTION, search_query=None)
def test_what_was_given_and_searched_for_is_the_question_under_any_name() -> None:
    run(OfTickets(timeout=60), customer="Ms. Ade", ticket=QUESTION)


async def loop(query: str) -> Any:
    """Retrieve several times, also in parallel engines, and answer with a dictionary."""
    engines = [engine_of(f) for f in (A, B)]
    await asyncio.gather(*(engine.aquery("part") for engine in engines))
    await ListRetriever(A).aretrieve("again")
    return {"text": "done"}


@expect(ids=["paris", "rome", "tea", "moon"], retrievals=3, answer=None, status="no_answer")
def test_several_retrievals_of_one_run_belong_to_one_sample() -> None:
    """Documents of all retrievals, once each."""
    run(one_step(loop), query=QUESTION)


class Done(StopEvent):
    answer: str


class CustomStop(Workflow):
    @step
    async def only(self, ev: StartEvent) -> Done:
        await ListRetriever(A).aretrieve(ev.query)
        return Done(answer="from the event")


@expect(answer="from the event")
@since(0, 12, 52)
def test_custom_stop_event() -> None:
    """A stop event with fields of its own gives the field that is likeliest the answer."""
    run(CustomStop(timeout=60), query=QUESTION)


@expect(ids=["paris", "rome"], answer=None, status="retrieval_only")
def test_workflow_that_returns_nodes_is_retrieval_only() -> None:
    """No answer was asked for."""
    run(one_step(ListRetriever(A).aretrieve), query=QUESTION)


class Failing(Workflow):
    error: Any = None
    hangs: asyncio.Event | None = None
    """Set when it begins to hang, which it does when there is one."""

    @step
    async def only(self, ctx: Context, ev: StartEvent) -> StopEvent:
        await ListRetriever(A).aretrieve(ev.query)
        if self.hangs is not None:
            self.hangs.set()
            await asyncio.sleep(3600)
        raise self.error


@expect(ids=["paris", "rome"], status="error")
def test_failing_step() -> None:
    """A run never counts as ok when its caller got an exception (llama_index#16283, #18757)."""
    flow = Failing(timeout=60)
    flow.error = LookupError("step failed")
    with pytest.raises(Exception, match="step failed"):
        run(flow, query=QUESTION)


@expect(status="error")
def test_timed_out_run() -> None:
    """A workflow's own timeout is an error."""
    flow = Failing(timeout=2.0)
    flow.hangs = asyncio.Event()
    with pytest.raises(Exception, match="timed out"):
        run(flow, query=QUESTION)


@expect(status="cancelled")
def test_run_cancelled_from_outside() -> None:
    """``asyncio.wait_for`` around a run gives ``cancelled``."""
    flow = Failing(timeout=60)
    flow.hangs = asyncio.Event()

    async def main() -> None:
        handler = flow.run(query=QUESTION)
        await flow.hangs.wait()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(handler, 0.01)
        await asyncio.sleep(0.1)

    asyncio.run(main())


def test_run_cancelled_by_its_handler_is_not_ok() -> None:
    """``cancel_run`` ends the span without a result: not a clean answer (mlflow#13352)."""
    flow = Failing(timeout=60)
    flow.hangs = asyncio.Event()

    async def main() -> None:
        handler = flow.run(query=QUESTION)
        await flow.hangs.wait()
        await handler.cancel_run()
        with pytest.raises(Exception):  # noqa: B017 -- its class depends on the version
            await handler
        await asyncio.sleep(0.1)

    with captured() as capture:
        asyncio.run(main())

        assert capture.only.sample.status in ("cancelled", "error")
        assert capture.only.sample.answer is None
