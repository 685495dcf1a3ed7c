"""Requests whose retrieval is not seen are counted and said once, with the line that mends it; that line mends it."""

import asyncio
import gc
import subprocess
import sys
from typing import ClassVar

import pytest
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_fakes import ScriptedModel, Watch, agent, call_tool, frameworks_deprecate, graph_of, texts
from metric_points import points_of
from otlp_spans import exchange

import ragmeter
from ragmeter import RagMeter
from ragmeter.adapters import instrument, uninstrument
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.opentelemetry import RetrievalTool
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError

pytestmark = [
    frameworks_deprecate,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FOUND = ["Kettle 4711 boils in three minutes flat.", "Kettle 12 needs five minutes, or six in winter."]
QUESTION = "How long do kettles take?"
PROMPT = ChatPromptTemplate.from_template("Use {context} to answer {question}")


@pytest.fixture(autouse=True)
def collected():
    yield
    gc.collect()


def made(result, name="search_docs"):
    def search(query: str):
        """Search."""
        return result

    search.__name__ = name
    return search


def ask_agent(result, watch, name="search_docs"):
    model = ScriptedModel(script=[call_tool("kettles", name=name), "Three minutes, or five."])
    agent(model, [tool(made(result, name))]).invoke({"messages": [("user", QUESTION)]}, config=watch.config)


def ask_chain(result, watch, name="find_texts"):
    chain = (
        {"context": made(result, name), "question": RunnablePassthrough()}
        | PROMPT
        | ScriptedModel(script=["Three minutes, or five."])
        | StrOutputParser()
    )
    chain.invoke(QUESTION, config=watch.config)


def ask_graph(result, watch, name="find_node"):
    model = PROMPT | ScriptedModel(script=["Three minutes, or five."]) | StrOutputParser()
    graph = graph_of(
        dict,
        (name, lambda state: {**state, "context": result}),
        ("answer", lambda state: {**state, "answer": model.invoke(state)}),
    )
    graph.invoke({"question": QUESTION}, config=watch.config)


WAYS = {
    "agent": (ask_agent, {"retrieval_tools": ["search_docs"]}),
    "chain": (ask_chain, {"retrieval_functions": ["find_*"]}),
    "graph": (ask_graph, {"retrieval_functions": ["find_node"]}),
}
LINES = {
    "agent": 'RagMeterCallbackHandler(meter, retrieval_tools=["search_docs"])',
    "chain": 'RagMeterCallbackHandler(meter, retrieval_functions=["find_texts"])',
    "graph": 'RagMeterCallbackHandler(meter, retrieval_functions=["find_node"])',
}


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "ragmeter"]


@pytest.mark.parametrize("way", WAYS)
def test_after_some_requests_it_is_said_once_what_to_add(way, caplog):
    watch = Watch()
    ask, _ = WAYS[way]
    for _ in range(5):
        ask(FOUND[0], watch)
    assert watch.samples == []
    [said] = warnings(caplog)
    assert LINES[way] in said
    assert "3 requests" in said
    assert not any(text in said for text in (*FOUND, QUESTION, "Kettle"))
    stats = watch.meter.stats()
    assert (stats.captured, stats.unseen_retrievals) == (0, {"no_retrieval": 5})
    watch.close()
    assert watch.state == 0


SHAPES = {
    "a text": ("\n\n".join(FOUND), [None, None]),
    "texts": (FOUND, [None, None]),
    "mappings": ([{"id": str(i), "text": text} for i, text in enumerate(FOUND)], ["0", "1"]),
    "pairs": ([(text, 0.5) for text in FOUND], [None, None]),
    "documents": ([Document(text, id=str(i)) for i, text in enumerate(FOUND)], ["0", "1"]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_named_is_a_retrieval(way, shape, caplog):
    ask, options = WAYS[way]
    result, wanted = SHAPES[shape]
    watch = Watch(**options)
    ask(result, watch)
    sample = watch.sample
    assert (sample.question, sample.answer) == (QUESTION, "Three minutes, or five.")
    assert (texts(sample), [item.id for item in sample.contexts]) == (FOUND, wanted)
    [retrieval] = watch.only.run.retrievals
    assert retrieval.name == {"agent": "search_docs", "chain": "find_texts"}.get(way, "find_node")
    assert (watch.meter.stats().unseen_retrievals, warnings(caplog)) == ({}, [])
    watch.close()
    assert watch.state == 0


@pytest.mark.parametrize(
    ("result", "contexts"),
    [
        ("No results found.", []),
        ([], []),
        ({"rows": 3, "took": {"ms": 12}}, None),
        (object(), None),
        ({"results": []}, []),
        ([{"alpha": 1}, {"beta": 2}], None),
    ],
)
@pytest.mark.parametrize("way", ["agent", "chain"])
def test_what_is_not_understood_is_unknown_and_not_nothing(way, result, contexts, caplog):
    ask, options = WAYS[way]
    watch = Watch(**options)
    ask(result, watch)
    assert texts(watch.sample) == contexts
    unknown = {"unreadable_result": 1} if contexts is None else {}
    assert watch.meter.stats().unseen_retrievals == unknown
    said = warnings(caplog)
    assert bool(said) == (contexts is None)
    assert not said or ("search_docs" in said[0]) == (way == "agent")
    watch.close()


def test_a_rule_cuts_a_tools_text_and_a_retriever_within_a_tool_is_the_retrieval():
    from langchain_fakes import FixedRetriever, docs

    watch = Watch(retrieval_tools=[RetrievalTool("search_docs", separator=r"\|")])
    ask_agent("|".join(FOUND), watch)
    assert texts(watch.sample) == FOUND
    watch.close()

    watch = Watch(retrieval_tools=["search_docs"])
    retriever = FixedRetriever(found=docs("a", "b"))

    def search_docs(query: str) -> str:
        """Search."""
        return "\n\n".join(one.page_content for one in retriever.invoke(query))

    model = ScriptedModel(script=[call_tool("kettles", name="search_docs"), "So."])
    agent(model, [tool(search_docs)]).invoke({"messages": [("user", QUESTION)]}, watch.config)
    assert texts(watch.sample) == ["doc-a", "doc-b"]
    watch.close()


def test_tools_in_several_turns_add_up_and_one_that_failed_is_no_empty_result():
    watch = Watch(retrieval_tools=["search_docs"])
    answers = iter(FOUND)

    def search_docs(query: str) -> str:
        """Search."""
        return next(answers)

    model = ScriptedModel(
        script=[call_tool("a", name="search_docs"), call_tool("b", name="search_docs"), "So."]
    )
    agent(model, [tool(search_docs)]).invoke({"messages": [("user", QUESTION)]}, watch.config)
    assert texts(watch.sample) == FOUND
    watch.close()

    watch = Watch(retrieval_functions=["find_texts"])

    def find_texts(query: str) -> str:
        raise TimeoutError

    chain = RunnableLambda(find_texts) | ScriptedModel(script=["x"])
    with pytest.raises(TimeoutError):
        chain.invoke(QUESTION, config=watch.config)
    assert watch.meter.flush(10)
    assert [(s.contexts, s.status) for s in watch.samples] in ([], [(None, "error")])
    watch.close()


def test_nothing_is_said_of_applications_that_retrieve_and_sometimes_do_not(caplog):
    from langchain_fakes import FixedRetriever, docs

    watch = Watch()
    found = {"context": FixedRetriever(found=docs("a")), "question": RunnablePassthrough()}
    chain = found | PROMPT | ScriptedModel(script=["x"])
    chat = PROMPT | ScriptedModel(script=["hello"] * 8)
    chain.invoke(QUESTION, watch.config)
    assert watch.meter.flush(10)
    for _ in range(6):
        chat.invoke({"question": QUESTION, "context": "-"}, watch.config)
    assert len(watch.samples) == 1
    assert watch.meter.stats().unseen_retrievals == {"no_retrieval": 6}
    assert warnings(caplog) == []
    watch.close()


def test_a_lone_model_and_a_function_without_a_name_are_said_too(caplog):
    watch = Watch()
    for _ in range(3):
        ScriptedModel(script=["x"]).invoke(f"{FOUND} {QUESTION}", watch.config)
    assert watch.meter.flush(10)
    assert "meter.request(question)" in warnings(caplog)[0]
    watch.close()

    caplog.clear()
    watch = Watch()
    for _ in range(3):
        search = RunnableLambda(lambda question: {"context": FOUND[0], "question": question})
        (search | PROMPT | ScriptedModel(script=["x"])).invoke("Kettles?", watch.config)
    assert watch.meter.flush(10)
    assert "without a name" in warnings(caplog)[0]
    watch.close()


def test_what_instrument_attached_is_mended_in_its_line(caplog):
    memory = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[memory])

    class Plain:
        config = None

    try:
        instrument(meter, frameworks=["langchain"])
        for _ in range(3):
            ask_agent("\n\n".join(FOUND), Plain)
        assert meter.flush(10)
        assert 'instrument(meter, retrieval_tools=["search_docs"])' in warnings(caplog)[0]
        instrument(meter, retrieval_tools=["search_docs"])
        ask_agent("\n\n".join(FOUND), Plain)
        assert meter.flush(10)
    finally:
        uninstrument()
        meter.shutdown(10)
    assert [texts(result.sample) for result in memory.results] == [FOUND]


@pytest.mark.parametrize("option", ["retrieval_tools", "retrieval_functions"])
def test_one_string_is_refused(option):
    with pytest.raises(ConfigurationError, match=rf"{option}='search': pass a list of names"):
        RagMeterCallbackHandler(None, **{option: "search"})


def test_it_is_counted_among_requests_with_its_reason():
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    from ragmeter.exporters.otel import OpenTelemetryExporter

    reader = InMemoryMetricReader()
    exporter = OpenTelemetryExporter(tracer_provider=TracerProvider(), meter_provider=MeterProvider([reader]))
    meter = RagMeter(metrics=["retrieval_health"], exporters=[exporter])

    class Watched:
        config: ClassVar = {"callbacks": [RagMeterCallbackHandler(meter)]}

    for _ in range(2):
        ask_chain(FOUND[0], Watched)
    assert meter.flush(10)
    points = [(dict(point.attributes), point.value) for point in points_of(reader)["ragmeter.requests"]]
    assert points == [({"ragmeter.reason": "no_retrieval", "ragmeter.framework": "langchain"}, 2)]
    meter.shutdown(10)


SCRIPT = """
import sys; sys.path[:0] = {path!r}
from test_unseen_retrievals import *
meter = RagMeter(metrics=["retrieval_health"], exporters=[InMemoryExporter()])
class Watched: config = {{"callbacks": [RagMeterCallbackHandler(meter)]}}
ask_chain(FOUND[0], Watched)
"""


def test_a_script_of_one_request_hears_it_at_its_end():
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(path=sys.path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert 'retrieval_functions=["find_texts"]' in ended.stderr


def test_what_is_noted_is_bounded_and_ends():
    from ragmeter.adapters import _unseen

    watch = Watch()
    lookout = watch.handler._attachment.lookout
    for _ in range(_unseen.LOOKS):
        ask_chain(FOUND[0], watch)
    assert watch.meter.flush(30)
    assert not lookout.looks
    watch.close()
    assert watch.state == 0


class TestLlamaIndex:
    """The same for agents, workflows and lone models of LlamaIndex."""

    @staticmethod
    def ask(result, capture, kind):
        from llama_index.core.base.llms.types import ChatMessage
        from llama_index.core.tools import FunctionTool
        from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
        from llama_index_fakes import llm
        from test_llama_index_agents import agent as llama_agent
        from test_llama_index_agents import run

        if kind == "agent":
            found = FunctionTool.from_defaults(made(result))
            runner = llama_agent([found], [("search_docs", {"query": "kettles"})], "Three.")
            return run(runner, QUESTION)

        class Found(Event):
            result: object

        class Flow(Workflow):
            @step
            async def find_texts(self, ctx: Context, ev: StartEvent) -> Found:
                return Found(result=result)

            @step
            async def answer(self, ctx: Context, ev: Found) -> StopEvent:
                said = await llm("Three.").achat([ChatMessage(f"{ev.result}\n{QUESTION}")])
                return StopEvent(result=said.message.content)

        async def main():
            return await Flow().run(query=QUESTION)

        return asyncio.run(main())

    WAYS: ClassVar = {
        "agent": ({"retrieval_tools": ["search_*"]}, 'retrieval_tools=["search_docs"]'),
        "workflow": ({"retrieval_functions": ["find_*"]}, 'retrieval_functions=["find_texts"]'),
    }

    @pytest.mark.parametrize("kind", WAYS)
    def test_it_is_said_and_the_line_mends_it(self, kind, caplog):
        from llama_index_fakes import captured

        options, line = self.WAYS[kind]
        with captured() as capture:
            for _ in range(4):
                self.ask("\n\n".join(FOUND), capture, kind)
            assert capture.runs == []
            assert capture.meter.stats().unseen_retrievals == {"no_retrieval": 4}
        [said] = warnings(caplog)
        assert f"RagMeterHandler(meter, {line})" in said
        with captured(**options) as capture:
            self.ask("\n\n".join(FOUND), capture, kind)
            sample = capture.only.sample
        assert texts(sample) == FOUND
        assert (sample.question, sample.answer) == (QUESTION, "Three.")

    @pytest.mark.parametrize("kind", WAYS)
    @pytest.mark.parametrize(
        ("result", "contexts"),
        [([{"id": "a", "text": FOUND[0]}], [FOUND[0]]), (FOUND, FOUND), ([], []), ({"rows": 3}, None)],
    )
    def test_shapes(self, kind, result, contexts):
        from llama_index_fakes import captured

        with captured(**self.WAYS[kind][0]) as capture:
            self.ask(result, capture, kind)
            assert texts(capture.only.sample) == contexts
            unknown = {"unreadable_result": 1} if contexts is None else {}
            assert capture.meter.stats().unseen_retrievals == unknown

    def test_lone_calls_of_a_model_are_counted_once_each(self):
        from llama_index_fakes import captured, llm

        with captured() as capture:
            llm("x").complete("one")
            with ragmeter.suppress():
                llm("x").complete("two")
            assert capture.runs == []
            assert capture.meter.stats().unseen_retrievals == {"no_retrieval": 1}


PAGES = [
    "The kettle with the number 4711 boils a litre of water within three minutes.",
    "The kettle with the number 12 needs five minutes, in winter six or even seven.",
]


@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ("\n\n".join(PAGES), PAGES),
        ([{"title": "a", "body": page, "score": 0.5} for page in PAGES], PAGES),
        ({"city": "Metz", "temperature": 21, "summary": f"Sunny. {PAGES[0]}"}, None),
        ("Error: " + PAGES[0], None),
        (f"I asked: {QUESTION}", None),
        ("3", None),
    ],
)
def test_a_tool_that_no_one_named_retrieves_if_a_model_was_sent_the_passages_that_it_gave(
    result, wanted, framework
):
    if framework == "langchain":
        watch = Watch()
        ask_agent(result, watch)
        samples, unseen = watch.samples, watch.meter.stats().unseen_retrievals
        watch.close()
        assert watch.state == 0
    else:
        from llama_index_fakes import captured

        with captured() as capture:
            TestLlamaIndex.ask(result, capture, "agent")
            samples = [run.sample for run in capture.runs]
            unseen = capture.meter.stats().unseen_retrievals
    assert [texts(sample) for sample in samples] == ([wanted] if wanted else [])
    assert [sample.question for sample in samples] == ([QUESTION] if wanted else [])
    assert unseen == ({} if wanted else {"no_retrieval": 1})


def test_an_agent_as_a_tool_retrieves_nothing_by_itself():
    inner = ScriptedModel(script=[PAGES[0]])

    def ask_colleague(query: str) -> str:
        """Ask."""
        return str(inner.invoke(query).content)

    watch = Watch()
    model = ScriptedModel(script=[call_tool("kettles", name="ask_colleague"), "Three minutes."])
    agent(model, [tool(ask_colleague)]).invoke({"messages": [("user", QUESTION)]}, watch.config)
    assert watch.samples == []
    watch.close()


@pytest.mark.parametrize("tools", [[], ["search_docs"]])
def test_spans_in_this_process_are_told_of_alike(tools, caplog):
    from opentelemetry.sdk.trace import TracerProvider

    from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor

    memory = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[memory])
    provider = TracerProvider()
    processor = RagMeterSpanProcessor(meter, retrieval_tools=tools, grace_s=0)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("openinference.instrumentation.test")

    def span(kind, name, **attributes):
        given = {key.replace("__", "."): value for key, value in attributes.items()}
        return tracer.start_as_current_span(name, attributes={"openinference.span.kind": kind, **given})

    for _ in range(3):
        with span("AGENT", "agent", input__value=QUESTION, output__value="So."):
            with span("TOOL", "search_docs", tool__name="search_docs", output__value=FOUND[0]):
                pass
            prompt = f"Use {FOUND[0]} to answer {QUESTION}"
            with span("LLM", "model", **exchange(prompt, "So.")):
                pass
        processor.force_flush()
        assert meter.flush(10)
    said = warnings(caplog)
    if tools:
        assert [texts(result.sample) for result in memory.results] == [FOUND[:1]] * 3
        assert (meter.stats().unseen_retrievals, said) == ({}, [])
    else:
        assert meter.stats().unseen_retrievals == {"no_retrieval": 3}
        assert 'RagMeterSpanProcessor(meter, retrieval_tools=["search_docs"])' in said[0]
    processor.shutdown()
    meter.shutdown(10)
