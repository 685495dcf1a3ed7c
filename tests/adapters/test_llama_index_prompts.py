"""What the model saw is read from what it was sent; where that is not visible, from the run's notes."""

import asyncio
import json
from sys import getsizeof
from typing import Any

import pytest

pytest.importorskip("llama_index.core.agent.workflow", reason="agents came with core 0.12.11")
from llama_index.core import PromptTemplate, SQLDatabase
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import ChatMessage, CompletionResponse
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import NLSQLTableQueryEngine, SQLJoinQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from llama_index_agents import agent_llm
from llama_index_fakes import (
    DOCUMENTS,
    QUESTION,
    ListRetriever,
    ScriptedLLM,
    WordEmbedding,
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
from sqlalchemy import create_engine, text
from sqlalchemy.pool import StaticPool

ANSWER = "The capital is Paris, on the Seine."
ALL = nodes()


class Foreign:
    """A model that LlamaIndex knows nothing of."""

    async def ask(self, prompt: str) -> str:
        await asyncio.sleep(0)
        return ANSWER


def contents(found: Any) -> str:
    return "\n\n".join(item.get_content() for item in found)


class PublishedLLM(ScriptedLLM):
    """Its methods are decorated as LlamaIndex asks of its integrations: they take ``*args``."""

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._answer(prompt))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._answer(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        return self._words(prompt)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        async def words() -> Any:
            for item in self._words(prompt):
                yield item

        return words()


async def ask(prompt: str, how: str, *, published: bool = False) -> str:
    """Ask a model in one of the ways that a workflow's author may choose."""
    model = llm(ANSWER)
    if published:
        model = PublishedLLM(reply=model.reply, prompts=[])
    message = [ChatMessage(role="user", content=prompt)]
    if how == "foreign":
        return await Foreign().ask(prompt)
    if how == "complete":
        return str(await model.acomplete(prompt))
    if how == "sync complete":
        return str(model.complete(prompt))
    if how == "named complete":
        return str(model.complete(prompt=prompt))
    if how == "chat":
        return str((await model.achat(message)).message.content)
    if how == "predict":
        return await model.apredict(PromptTemplate("{context}"), context=prompt)
    if how == "stream":
        pieces = [piece async for piece in await model.astream_complete(prompt)]
        return pieces[-1].text
    pieces = [piece async for piece in await model.astream_chat(message)]
    return str(pieces[-1].message.content)


WAYS = ["complete", "sync complete", "named complete", "chat", "predict", "stream", "stream chat", "foreign"]


class Found(Event):
    nodes: list[Any]


class Kept(Event):
    kept: list[Any]


class Filters(Workflow):
    """Retrieves, reranks and filters in a step of its own, and calls the model itself."""

    how = "complete"
    published = False

    @step
    async def retrieve(self, ev: StartEvent) -> Found:
        return Found(nodes=await ListRetriever(ALL).aretrieve(ev.query))

    @step
    async def rerank(self, ev: Found) -> Kept:
        return Kept(kept=[ev.nodes[3], ev.nodes[0]])

    @step
    async def answer(self, ev: Kept) -> StopEvent:
        said = await ask(contents(ev.kept), self.how, published=self.published)
        return StopEvent(result=said)


@pytest.mark.parametrize("published", [False, True], ids=["own", "published"])
@pytest.mark.parametrize("how", WAYS)
def test_nodes_filtered_and_reranked_in_a_step(how: str, published: bool) -> None:
    flow = Filters(timeout=60)
    flow.how = how
    flow.published = published
    with captured() as capture:
        run(flow, query=QUESTION)
        scored = capture.only

    assert ids(scored) == ["moon", "paris"]
    assert scored.sample.answer == ANSWER
    assert scored.sample.contexts_by == ("runs" if how == "foreign" else "prompt")
    assert len(scored.run.retrievals[0].contexts) == 4


async def in_one_step(query: str) -> Any:
    """Do all of it in one step: only the prompt tells."""
    found = await ListRetriever(ALL).aretrieve(query)
    grades = [await ask(f"Does it matter? {contents([item])}", "foreign") for item in found]
    assert grades
    return {"body": await ask(contents(found[2:]), "complete")}


@expect(ids=["tea", "moon"])
def test_nodes_filtered_in_the_step_that_calls_the_model() -> None:
    run(one_step(in_one_step), query=QUESTION)


async def graded(query: str) -> Any:
    """Have each node graded by the model first; the graders' prompts are not the answer's."""
    found = await ListRetriever(ALL).aretrieve(query)
    grader = llm(reply=lambda prompt: "yes" if "Moon" in prompt or "Rome" in prompt else "no")
    kept = [item for item in found if str(await grader.acomplete(f"Relevant? {item.get_content()}")) == "yes"]
    words = await ask(contents(kept), "complete")
    verdict = str(await llm("SAFE").acomplete(f"Safe? {words}"))
    return {"body": words, "check": verdict}


@expect(ids=["rome", "moon"], answer=ANSWER)
def test_prompts_of_graders_and_verdicts_are_not_the_answers() -> None:
    run(one_step(graded), query=QUESTION)


LONG = [
    TextNode(id_=name, text=f"{name} opens at nine in the morning. It closes at {hour} in the evening.")
    for name, hour in (("The museum of Lyon", "six"), ("The market hall of Metz", "eight"))
]


@expect(texts=[one.text for one in LONG])
def test_a_sentences_window_in_metadata_is_the_context() -> None:
    class Widens(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            found = await ListRetriever(
                [
                    TextNode(text=f"{one.node_id}.", metadata={"window": one.text, "file": "europe.md"})
                    for one in LONG
                ]
            ).aretrieve(ev.query)
            windows = "\n".join(item.metadata["window"] for item in found)
            return StopEvent(result=str(await llm(ANSWER).acomplete(windows)))

    run(Widens(timeout=60), query=QUESTION)


def sql_engine(city: str, model: Any) -> NLSQLTableQueryEngine:
    tables = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    with tables.begin() as connection:
        connection.execute(text(f"CREATE TABLE capitals AS SELECT 'France' AS country, '{city}' AS city"))
    words = WordEmbedding(model_name="words")
    return NLSQLTableQueryEngine(SQLDatabase(tables), tables=["capitals"], llm=model, embed_model=words)


STATEMENT = "SELECT city FROM capitals WHERE country = 'France'"


@expect(texts=["[('Paris',)]"], answer=ANSWER)
def test_the_statement_that_a_model_wrote_is_not_what_the_database_returned() -> None:
    """The node has it in its metadata, and the prompt shows it beside the rows."""
    left = [STATEMENT, ANSWER]
    sql_engine("Paris", llm(reply=lambda _: left.pop(0))).query(QUESTION)


@expect(texts=["[('Paris, on the banks of the Seine',)]", *(one.text for one in LONG)], answer=ANSWER)
def test_rows_behind_an_answer_that_is_joined_with_another_engines_are_contexts() -> None:
    """The joined response names the other engine's nodes only."""
    left = [STATEMENT, "The capital of France is Paris, on the Seine.", "When do its sights open?", ANSWER]
    model = llm(reply=lambda _: left.pop(0))
    rows = QueryEngineTool.from_defaults(
        sql_engine("Paris, on the banks of the Seine", model), name="rows", description="capitals"
    )
    pages = QueryEngineTool.from_defaults(
        engine_of(ListRetriever(LONG), "Museum and market open at nine in the morning."),
        name="pages",
        description="sights",
    )
    choice = LLMSingleSelector.from_defaults(llm=llm('[{"choice": 1, "reason": "rows"}]'))
    SQLJoinQueryEngine(rows, pages, selector=choice, llm=model, verbose=False).query(QUESTION)


async def cut(query: str) -> str:
    """Show the model the beginning of each node, and ask twice: its second prompt holds the first reply."""
    found = await ListRetriever(LONG).aretrieve(query)
    context = "\n".join(item.get_content()[: item.get_content().index(" It closes")] for item in found)
    draft = str(await llm("Both open at nine, it is written.").acomplete(context))
    return str(await llm(ANSWER).acomplete(f"Say it better: {draft}"))


@expect(
    texts=[node.text[: node.text.index(" It closes")] for node in LONG], contexts_by="prompt", answer=ANSWER
)
def test_what_was_cut_before_the_prompt_is_no_context() -> None:
    run(one_step(cut), query=QUESTION)


class One(Event):
    node: Any


class Grade(Event):
    node: Any = None


class FansOut(Workflow):
    """Grades the nodes side by side, each in its own invocation of a step, and collects what is left."""

    how = "foreign"

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> One | None:
        for item in await ListRetriever(ALL).aretrieve(ev.query):
            ctx.send_event(One(node=item))
        return None

    @step(num_workers=3)
    async def grade(self, ev: One) -> Grade:
        await asyncio.sleep(0)
        return Grade(node=ev.node if ev.node.node_id in ("rome", "tea") else None)

    @step
    async def answer(self, ctx: Context, ev: Grade) -> StopEvent | None:
        grades = ctx.collect_events(ev, [Grade] * 4)
        if grades is None:
            return None
        kept = sorted((item.node for item in grades if item.node), key=lambda item: item.node_id)
        return StopEvent(result=await ask(contents(kept), self.how))


@expect(any_order=["rome", "tea"])
@pytest.mark.parametrize("how", ["foreign", "complete"])
def test_nodes_graded_by_many_workers(how: str) -> None:
    flow = FansOut(timeout=60)
    flow.how = how
    run(flow, query=QUESTION)


class AsTexts(Workflow):
    """Hands on texts instead of nodes."""

    @step
    async def retrieve(self, ev: StartEvent) -> Found:
        found = await ListRetriever(ALL).aretrieve(ev.query)
        return Found(nodes=[item.get_content() for item in found[1:3]])

    @step
    async def answer(self, ev: Found) -> StopEvent:
        return StopEvent(result=await ask("\n".join(ev.nodes), "foreign"))


@expect(ids=["rome", "tea"])
def test_nodes_handed_on_as_texts() -> None:
    run(AsTexts(timeout=60), query=QUESTION)


class Compresses(Workflow):
    """A step rewrites the nodes it takes."""

    @step
    async def retrieve(self, ev: StartEvent) -> Found:
        return Found(nodes=await ListRetriever(ALL).aretrieve(ev.query))

    @step
    async def compress(self, ev: Found) -> Kept:
        short = TextNode(id_="short", text="France's capital city: Paris.")
        return Kept(kept=[NodeWithScore(node=short, score=1.0)])

    @step
    async def answer(self, ev: Kept) -> StopEvent:
        return StopEvent(result=await ask(contents(ev.kept), "foreign"))


@expect(texts=["France's capital city: Paris."])
def test_nodes_rewritten_by_a_step() -> None:
    run(Compresses(timeout=60), query=QUESTION)


def retrying(attempts: int) -> Any:
    from llama_index.core.workflow.retry_policy import ConstantDelayRetryPolicy

    return ConstantDelayRetryPolicy(delay=0, maximum_attempts=attempts)


def flaky(fails: int, how: str) -> Workflow:
    """A flow whose retrieving step fails so often after it has retrieved; each attempt finds another node."""

    class Flaky(Workflow):
        attempts = 0

        @step(retry_policy=retrying(4))
        async def retrieve(self, ev: StartEvent) -> StopEvent:
            place = self.attempts
            self.attempts += 1
            found = await ListRetriever(ALL[place : place + 1]).aretrieve(ev.query)
            if place < fails:
                raise RuntimeError("again")
            return StopEvent(result=await ask(contents(found), how))

    return Flaky(timeout=60)


@expect(ids=["tea"], retrievals=1)
@pytest.mark.parametrize("how", ["foreign", "complete"])
def test_failed_attempt_of_a_step_keeps_no_nodes(how: str) -> None:
    run(flaky(2, how), query=QUESTION)


@expect(ids=["paris", "rome", "tea", "moon"], status="error")
def test_run_whose_attempts_all_failed_keeps_what_they_found() -> None:
    with pytest.raises(Exception, match="again"):
        run(flaky(9, "foreign"), query=QUESTION)


@expect(ids=["tea", "moon"], answer=ANSWER)
def test_engine_that_failed_within_a_step_leaves_nothing() -> None:
    """A fallback answers: the contexts are its own."""

    async def fallback(query: str) -> Any:
        broken = engine_of(ALL[:2], llm(fail_with=RuntimeError("down")))
        try:
            return await broken.aquery(query)
        except RuntimeError:
            other = engine_of(ALL[2:], ANSWER)
            return await other.aquery(query)

    run(one_step(fallback), query=QUESTION)


MODES = ["compact", "refine", "tree_summarize", "accumulate", "compact_accumulate", "simple_summarize"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("window", [4096, 1200])
def test_every_response_mode(mode: str, window: int, is_async: bool) -> None:
    """Whatever the number of calls, and however their prompts are packed."""
    long = {name: f"{text} " * 40 for name, text in zip("abcd", [n.text for n in ALL], strict=True)}
    model = llm("Paris.", window=window)
    engine = engine_of(nodes(long), model, response_mode=mode)
    with captured() as capture:
        answer = asyncio.run(engine.aquery(QUESTION)) if is_async else engine.query(QUESTION)
        scored = capture.only

    assert (scored.sample.status, scored.sample.answer) == ("ok", str(answer))
    shown = "".join(model.prompts)
    assert ids(scored) == [name for name, text in long.items() if text[:40] in shown]
    assert scored.sample.contexts_by == "prompt"
    if mode != "simple_summarize":  # which cuts what does not fit
        assert len(ids(scored)) == 4
    if (mode, window) in {("refine", 4096), ("accumulate", 4096), ("compact", 1200)}:
        assert len(model.prompts) > 1


@expect(ids=["rome"], answer=ANSWER, contexts_by="prompt")
@pytest.mark.parametrize("is_async", [False, True])
def test_streamed_answer(is_async: bool) -> None:
    """The model is called only when the caller reads: still for this request."""
    template = PromptTemplate("Only this: Rome is the capital of Italy. {query_str}")
    engine = engine_of(ALL[:2], ANSWER, streaming=True, text_qa_template=template)

    async def read() -> str:
        response = await engine.aquery(QUESTION)
        return "".join([word async for word in response.async_response_gen()])

    words = asyncio.run(read()) if is_async else "".join(engine.query(QUESTION).response_gen)
    assert words == ANSWER


def test_two_streams_read_in_turns_do_not_mix() -> None:
    def engine(found: Any) -> Any:
        return engine_of(found, ANSWER, streaming=True)

    with captured() as capture:
        one, two = engine(ALL[:2]).query("one?"), engine(ALL[2:]).query("two?")
        readers = [iter(one.response_gen), iter(two.response_gen)]
        while readers:
            for reader in tuple(readers):
                if next(reader, None) is None:
                    readers.remove(reader)
        runs = {scored.sample.question: ids(scored) for scored in capture.runs}

    assert runs == {"one?": ["paris", "rome"], "two?": ["tea", "moon"]}
    assert {scored.sample.contexts_by for scored in capture.memory.results} == {"prompt"}


@expect(ids=["paris", "rome"], contexts_by="runs")
def test_template_that_shows_no_node_leaves_the_runs_rule() -> None:
    engine = engine_of(ALL[:2], ANSWER, text_qa_template=PromptTemplate("{query_str}"))
    engine.query(QUESTION)


@pytest.mark.parametrize(("judged", "shown"), [("1", ["paris", "rome"]), ("2", ["tea", "moon"])])
def test_of_several_engines_the_one_whose_answer_was_chosen(judged: str, shown: list[str]) -> None:
    def choose(question: str) -> str:
        replies = [
            str(engine_of(found, words).query(question))
            for found, words in ((ALL[:2], ANSWER), (ALL[2:], "Nothing but tea and moons in here."))
        ]
        return replies[int(str(llm(judged).complete(f"Which one? {replies}"))) - 1]

    with captured() as capture:
        custom(choose).query(QUESTION)

        assert ids(capture.only) == shown


@expect(ids=["rome", "tea"], contexts_by="prompt")
def test_custom_engine_that_filters_by_itself() -> None:
    def two_of_them(question: str) -> str:
        found = ListRetriever(ALL).retrieve(question)
        return str(llm(ANSWER).complete(f"{contents(found[1:3])}\n\n{question}"))

    custom(two_of_them).query(QUESTION)


class ModelReranks(BaseNodePostprocessor):
    """Asks a model about all nodes, and keeps one."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        assert str(llm("3").complete(contents(nodes))) == "3"
        return nodes[3:]


@expect(ids=["moon"])
def test_reranker_that_asks_a_model_about_all_nodes() -> None:
    """Its prompt shows them all, and answers nothing."""

    def reranked(question: str) -> str:
        kept = ModelReranks().postprocess_nodes(ListRetriever(ALL).retrieve(question))
        return str(llm(ANSWER).complete(contents(kept)))

    custom(reranked).query(QUESTION)


def test_chat_with_memory_reports_this_turns_nodes() -> None:
    """Also when the history holds what an earlier turn retrieved."""
    chat = ContextChatEngine.from_defaults(
        ListRetriever(ALL[:2]),
        llm=llm(DOCUMENT_OF_LAST_TURN, chats=True),
        memory=ChatMemoryBuffer.from_defaults(),
    )
    with captured() as capture:
        chat.chat("first?")
        chat._retriever = ListRetriever(ALL[1:3])
        chat.chat("second?")
        second = capture.runs[1]

    assert (ids(second), second.sample.contexts_by) == (["rome", "tea"], "prompt")


DOCUMENT_OF_LAST_TURN = "Paris is the capital of France. Rome is the capital of Italy."


def retriever_tool(found: Any, name: str) -> RetrieverTool:
    return RetrieverTool.from_defaults(ListRetriever(found), name=name, description="facts")


@expect(ids=["paris", "rome", "tea", "moon"], answer=ANSWER, contexts_by="prompt")
@pytest.mark.parametrize("streaming", [False, True])
def test_function_agent_with_retriever_tools(streaming: bool) -> None:
    """What the tools returned stands in the agent's own prompts."""
    model = agent_llm([("one", {"input": "a"})], [("two", {"input": "b"})], ANSWER)
    agent = FunctionAgent(
        tools=[retriever_tool(ALL[:2], "one"), retriever_tool(ALL[2:], "two")], llm=model, streaming=streaming
    )
    run(agent, user_msg=QUESTION)


@expect(question=QUESTION, ids=["paris", "rome", "tea", "moon"], answer=ANSWER)
@pytest.mark.parametrize("streaming", [False, True])
def test_react_agent_shows_observations_of_every_turn(streaming: bool) -> None:
    """Each observation is the last user message of one call, and history in the next."""
    call = 'Thought: I look.\nAction: {}\nAction Input: {{"input": "x"}}'
    model = agent_llm(call.format("one"), call.format("two"), f"Thought: I know it now.\nAnswer: {ANSWER}")
    agent = ReActAgent(
        tools=[retriever_tool(ALL[:2], "one"), retriever_tool(ALL[2:], "two")], llm=model, streaming=streaming
    )
    run(agent, user_msg=QUESTION)


@since(0, 14, 22)
def test_tool_that_hands_on_a_part_of_what_it_retrieved() -> None:
    def search(query: str) -> str:
        """Searches."""
        return contents(ListRetriever(ALL).retrieve(query)[:1])

    model = agent_llm([("search", {"query": "a"})], ANSWER)
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(search)], llm=model)
    with captured() as capture:
        run(agent, user_msg=QUESTION)

        assert ids(capture.runs[-1]) == ["paris"]


@expect(ids=["paris", "rome", "tea", "moon"])
def test_agent_with_a_query_engine_tool_and_one_with_raw_nodes() -> None:
    engine = engine_of(ALL[:2], "Paris it is.")
    model = agent_llm([("asks", {"input": "a"})], [("raw", {"input": "b"})], ANSWER)
    agent = FunctionAgent(
        tools=[
            QueryEngineTool.from_defaults(engine, name="asks", description="d"),
            retriever_tool(ALL[2:], "raw"),
        ],
        llm=model,
    )
    run(agent, user_msg=QUESTION)


async def mapped_and_joined(query: str) -> str:
    """Answer per node, then join the answers by another call: no node stands in that one."""
    found = await ListRetriever(ALL).aretrieve(query)
    model = llm(reply=lambda prompt: f"Of {prompt.split()[1]}, as told, in few words.")
    parts = [str(await model.acomplete(f"Say: {item.get_content()}")) for item in found[:3]]
    return str(await llm(ANSWER).acomplete("Join:\n" + "\n".join(parts)))


@expect(ids=["paris", "rome", "tea"], contexts_by="prompt")
def test_sub_answers_joined_by_the_answering_call() -> None:
    run(one_step(mapped_and_joined), query=QUESTION)


def test_workflows_side_by_side_do_not_mix() -> None:
    async def main() -> None:
        flows = [Filters(timeout=60) for _ in range(5)]
        await asyncio.gather(*(flow.run(query=f"q{place}") for place, flow in enumerate(flows)))

    with captured() as capture:
        asyncio.run(main())
        runs = capture.runs

    assert {scored.sample.question for scored in runs} == {f"q{place}" for place in range(5)}
    assert all(ids(scored) == ["moon", "paris"] for scored in runs)
    assert capture.handler.open_entries == 0


def test_prompts_count_in_the_memory_of_open_requests() -> None:
    """And are let go with the request."""
    sizes: list[int] = []
    page = "word " * 10_000

    def big(question: str) -> str:
        ListRetriever(ALL[:1]).retrieve(question)
        before = requests._bytes
        llm(ANSWER).complete(page)
        sizes.append(requests._bytes - before)
        return ANSWER

    with captured() as capture:
        requests = capture.handler._spans._requests
        custom(big).query(QUESTION)
        assert capture.only

        assert sizes == [getsizeof(page)]
        assert requests._bytes == 0


@since(0, 14, 22)
def test_reading_leaves_no_context_behind() -> None:
    from ragmeter.adapters.llama_index._streams import being_read

    engine = engine_of(ALL, ANSWER, streaming=True)
    with captured():
        response = engine.query(QUESTION)
        next(response.response_gen)
        assert being_read.get() is None
        assert "".join(response.response_gen)


@pytest.mark.parametrize("streams", [False, True])
def test_answer_that_is_a_part_of_what_the_model_said(streams: bool) -> None:
    """Its call is found; also where its stream went by unheard, and another call asks for more questions last."""

    async def shaped(query: str) -> Any:
        found = await ListRetriever(ALL).aretrieve(query)
        model, prompt = llm('{"v": "Paris", "sure": "yes"}'), contents(found[:2])
        if streams:
            words = [piece async for piece in await model.astream_complete(prompt)][-1].text
        else:
            words = str(await model.acomplete(prompt))
        more = str(await llm("What else do you want to know?").acomplete("After: " + words))
        return {"text": json.loads(words)["v"], "more": more}

    with captured() as capture:
        run(one_step(shaped), query=QUESTION)
        scored = capture.only

    assert (ids(scored), scored.sample.contexts_by) == (["paris", "rome"], "prompt")
    if not streams:
        assert scored.sample.answer == "Paris"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_refining_stream_shows_all_nodes_its_last_call_is_made_by_the_reader(is_async: bool) -> None:
    """The calls before belong to the synthesis; the last one begins when the answer is read."""
    found = nodes(dict(list(DOCUMENTS.items())[:3]))
    engine = engine_of(found, response_mode="refine", streaming=True)

    async def ask() -> None:
        response = await engine.aquery(QUESTION)
        async for _ in response.async_response_gen():
            pass

    with captured() as capture:
        if is_async:
            asyncio.run(ask())
        else:
            list(engine.query(QUESTION).response_gen)
    assert ids(capture.only) == [node.node_id for node in found]
    assert capture.only.sample.contexts_by == "prompt"
