"""Where a document was lost, in real engines: dense + lexical + filter + rerank, each stage broken in turn."""

import asyncio
from functools import partial
from typing import Any

import pytest
from document_fates import fates_of, flow
from llama_index.core import get_response_synthesizer
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import MetadataReplacementPostProcessor, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RouterQueryEngine, SubQuestionQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import QueryFusionRetriever, RouterRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index_fakes import Captured, Choose, ListRetriever, Questions, captured, custom, engine_of, llm

TEXTS = {
    "apple": "Apples are picked in late summer and kept in cold cellars.",
    "birch": "Bark of the birch was used for writing letters in the north.",
    "cedar": "The harbours of the coast sold cedar wood to ship builders.",
    "daisy": "Meadows are mown twice a year so that daisies can bloom.",
    "elder": "Unripe berries of the elder must be cooked before eating.",
}
NAMES = tuple(TEXTS)
fates = partial(fates_of, texts=TEXTS)


def nodes(*names: str) -> list[TextNode]:
    return [TextNode(id_=name, text=TEXTS[name]) for name in names]


class Dense(ListRetriever):
    """One of two kinds."""


class Lexical(ListRetriever):
    """The other one."""


class RecentOnly(BaseNodePostprocessor):
    """Leaves these out."""

    out: tuple[str, ...] = ()

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        return [one for one in nodes if one.node.node_id not in self.out]


class Rerank(BaseNodePostprocessor):
    """Ranks by this order."""

    order: tuple[str, ...] = NAMES
    top: int = 2

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        return sorted(nodes, key=lambda one: self.order.index(one.node.node_id))[: self.top]


def fusion(dense: tuple[str, ...], lexical: tuple[str, ...], **options: Any) -> Any:
    options = {"num_queries": 1, "similarity_top_k": 4, "use_async": False, **options}
    return QueryFusionRetriever(
        [Dense(nodes(*dense)), Lexical(nodes(*lexical))], llm=llm(), mode="reciprocal_rerank", **options
    )


def engine(retriever: Any, *postprocessors: Any, **options: Any) -> Any:
    return engine_of(retriever, node_postprocessors=list(postprocessors), **options)


HEALTHY: dict[str, Any] = {
    "dense": ("apple", "birch", "daisy"),
    "lexical": ("apple", "cedar"),
    "filter": RecentOnly(out=("daisy",)),
    "rerank": Rerank(),
}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "in_prompt"),
    "dense": ({"dense": ("birch", "daisy")}, "in_prompt"),  # the other one finds it
    "both": ({"dense": ("birch", "daisy"), "lexical": ("cedar",)}, "never_found"),
    "fusion": ({"top": 0}, "dropped_by QueryFusionRetriever"),
    "filter": ({"filter": RecentOnly(out=("apple",))}, "dropped_by RecentOnly"),
    "rerank": ({"rerank": Rerank(order=NAMES[::-1])}, "dropped_by Rerank"),
}


def hybrid(**parts: Any) -> Any:
    parts = {**HEALTHY, **parts}
    options = {"similarity_top_k": parts["top"]} if "top" in parts else {}
    retriever = fusion(parts["dense"], parts["lexical"], **options)
    return engine(retriever, parts["filter"], parts["rerank"], streaming=parts.get("streaming", False))


def query(made: Any) -> None:
    made.query("who?")


def aquery(made: Any) -> None:
    asyncio.run(made.aquery("who?"))


def stream(made: Any) -> None:
    made._response_synthesizer._streaming = True
    assert "".join(made.query("who?").response_gen)


WAYS = pytest.mark.parametrize("call", [query, aquery, stream])


@pytest.fixture
def capture() -> Any:
    with captured() as made:
        yield made


@WAYS
@pytest.mark.parametrize("broken", BROKEN)
def test_the_broken_stage_is_named(capture: Captured, broken: str, call: Any) -> None:
    parts, expected = BROKEN[broken]
    call(hybrid(**parts))
    assert fates(capture.only, "apple") == [expected]


@WAYS
def test_the_counts_of_every_stage(capture: Captured, call: Any) -> None:
    call(hybrid())
    assert flow(capture.only) == (
        "Dense 3 and Lexical 2 → QueryFusionRetriever 4 → RecentOnly 3 → Rerank 2 → prompt 2"
    )
    stages = capture.only.sample.stages or ()
    assert [stage.kind for stage in stages] == [
        "retriever",
        "retriever",
        "fusion",
        "postprocessor",
        "postprocessor",
    ]
    assert all(stage.recorded for stage in stages)


def test_one_node_is_one_object_in_all_lists(capture: Captured) -> None:
    hybrid().query("who?")
    sample = capture.only.sample
    contexts = [c for stage in sample.stages or () for c in stage.contexts or ()]
    contexts += sample.contexts or ()
    assert len({id(context) for context in contexts}) == 4


@WAYS
def test_nothing_in_between(capture: Captured, call: Any) -> None:
    call(engine(Dense(nodes("apple", "birch"))))
    assert flow(capture.only) == "Dense 2 → prompt 2"
    assert fates(capture.only, "apple", "cedar") == ["in_prompt", "never_found"]


def test_several_queries_of_one_retriever(capture: Captured) -> None:
    model = llm("apple\nbirch")
    retriever = QueryFusionRetriever(
        [Dense(nodes("apple", "birch"))], llm=model, num_queries=3, use_async=False, mode="simple"
    )
    engine(retriever).query("who?")
    assert flow(capture.only) == ("Dense 2 and Dense-2 2 and Dense-3 2 → QueryFusionRetriever 2 → prompt 2")


def test_a_cutoff(capture: Captured) -> None:
    engine(Dense(nodes(*NAMES[:3])), SimilarityPostprocessor(similarity_cutoff=0.95)).query("who?")
    assert flow(capture.only) == "Dense 3 → SimilarityPostprocessor 1 → prompt 1"
    assert fates(capture.only, "birch") == ["dropped_by SimilarityPostprocessor"]


def test_a_filter_that_leaves_nothing(capture: Captured) -> None:
    engine(Dense(nodes("apple")), RecentOnly(out=("apple",))).query("who?")
    assert fates(capture.only, "apple") == ["dropped_by RecentOnly"]


def test_what_nobody_saw_is_unknown(capture: Captured) -> None:
    def careless(question: str) -> Any:
        """Retrieve, filter in plain Python, have the answer written."""
        kept = [one for one in Dense(nodes(*NAMES[:3])).retrieve(question) if one.node.node_id != "apple"]
        return get_response_synthesizer(llm=llm()).synthesize(question, kept)

    custom(careless).query("who?")
    assert flow(capture.only) == "Dense 3 → unknown 2 (inferred) → prompt 2"
    assert fates(capture.only, "apple", "birch") == ["dropped_by unknown", "in_prompt"]


def test_a_cut_that_nobody_saw(capture: Captured) -> None:
    def paste(question: str) -> str:
        """Retrieve and ask the model with the first two only."""
        context = "\n".join(one.node.get_content() for one in Dense(nodes(*NAMES)).retrieve(question)[:2])
        return str(llm().complete(f"{context}\n\n{question}"))

    custom(paste).query("who?")
    assert flow(capture.only) == "Dense 5 → unknown → prompt 2"
    assert fates(capture.only, "birch", "daisy") == ["in_prompt", "ranked_below_k unknown"]


class FirstTwo(CompactAndRefine):
    """Takes what it is given and asks with the first two."""

    def get_response(self, query_str: str, text_chunks: Any, **kwargs: Any) -> Any:
        return super().get_response(query_str, text_chunks[:2], **kwargs)


def test_a_synthesizer_that_cuts(capture: Captured) -> None:
    """What it left out is read off the prompt."""
    writer = FirstTwo(llm=llm())
    engine(Dense(nodes(*NAMES[:4])), response_synthesizer=writer).query("who?")
    assert flow(capture.only) == "Dense 4 → FirstTwo 2 (inferred) → prompt 2"
    assert fates(capture.only, "birch", "daisy") == ["in_prompt", "ranked_below_k FirstTwo"]


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "accumulate"])
def test_synthesizers_that_repack_lose_nothing(capture: Captured, mode: Any) -> None:
    writer = get_response_synthesizer(llm=llm(window=800), response_mode=mode)
    engine(Dense(nodes(*NAMES)), Rerank(top=4), response_synthesizer=writer).query("who?")
    assert flow(capture.only) == "Dense 5 → Rerank 4 → prompt 4"
    assert fates(capture.only, "daisy", "elder") == ["in_prompt", "dropped_by Rerank"]


def test_two_answers_in_one_engine_have_their_own_stages(capture: Captured) -> None:
    """The second one takes what was found for it: the first one's nodes are not lost there."""

    def both(question: str) -> str:
        """Retrieve, rerank and write twice."""
        said = []
        for names in (("apple", "birch"), ("cedar", "daisy")):
            found = Rerank(top=1).postprocess_nodes(Dense(nodes(*names)).retrieve(question), query_str=question)
            said.append(str(get_response_synthesizer(llm=llm()).synthesize(question, found)))
        return " ".join(said)

    custom(both).query("who?")
    stages = capture.only.sample.stages or ()
    assert [(stage.name, stage.inputs) for stage in stages] == [
        ("Dense", ()),
        ("Rerank", (0,)),
        ("Dense", ()),
        ("Rerank", (2,)),
    ]
    assert fates(capture.only, "apple", "birch", "cedar") == ["in_prompt", "dropped_by Rerank", "in_prompt"]


@pytest.mark.parametrize("own", [(), ("cedar",)], ids=["a tool's alone", "beside its own"])
def test_an_engine_that_reranks_what_a_tool_found(capture: Captured, own: tuple[str, ...]) -> None:
    def both(question: str) -> Any:
        """Retrieve by a tool, and perhaps by a retriever; rerank all of it."""
        tool = RetrieverTool.from_defaults(Dense(nodes("apple", "birch")), description="a")
        found = list(tool.call(question).raw_output)
        found += Lexical(nodes(*own)).retrieve(question) if own else []
        kept = Rerank(top=1).postprocess_nodes(found, query_str=question)
        return get_response_synthesizer(llm=llm()).synthesize(question, kept)

    custom(both).query("who?")
    before = "Dense 2 and Lexical 1" if own else "Dense 2"
    assert flow(capture.only) == f"{before} → Rerank 1 → prompt 1"
    assert fates(capture.only, "apple", "birch") == ["in_prompt", "dropped_by Rerank"]


def test_an_engine_that_reranks_what_another_answered_from(capture: Captured) -> None:
    def again(question: str) -> Any:
        """Ask an engine, rerank its sources, and have a second answer written from these."""
        sources = engine(Dense(nodes("apple", "birch"))).query(question).source_nodes
        kept = Rerank(top=1).postprocess_nodes(sources, query_str=question)
        return get_response_synthesizer(llm=llm("The second one.")).synthesize(question, kept)

    custom(again).query("who?")
    stages = capture.only.sample.stages or ()
    assert [(stage.name, stage.inputs) for stage in stages] == [("Dense", ()), ("Rerank", (0,))]
    assert fates(capture.only, "apple", "birch") == ["in_prompt", "dropped_by Rerank"]


def test_a_window_in_the_place_of_a_sentence(capture: Captured) -> None:
    found = nodes("apple", "birch")
    for one in found:
        one.metadata["window"] = f"Before. {one.text} After."
    replace = MetadataReplacementPostProcessor(target_metadata_key="window")
    engine(Dense(found), replace, Rerank(top=1)).query("who?")
    scored = capture.only
    assert flow(scored) == "Dense 2 → MetadataReplacementPostProcessor 2 → Rerank 1 → prompt 1"
    assert fates(scored, "apple", "birch") == ["in_prompt", "dropped_by Rerank"]


def test_a_router(capture: Captured) -> None:
    tools = [
        QueryEngineTool.from_defaults(
            engine(Dense(nodes("apple", "birch")), Rerank(top=1)), name="a", description="a"
        ),
        QueryEngineTool.from_defaults(engine(Lexical(nodes("cedar"))), name="b", description="b"),
    ]
    RouterQueryEngine(selector=Choose(0), query_engine_tools=tools, llm=llm()).query("who?")
    assert flow(capture.only) == "Dense 2 → Rerank 1 → prompt 1"
    assert fates(capture.only, "birch", "cedar") == ["dropped_by Rerank", "never_found"]


@pytest.mark.parametrize("use_async", [False, True])
def test_sub_questions(capture: Captured, use_async: bool) -> None:
    """Each has its own stages; a document of the other one is not its to drop."""
    first = engine(Dense(nodes("apple", "birch")), RecentOnly(out=("apple",)))
    ranked = ("cedar", "birch", "daisy")
    second = engine(Lexical(nodes(*ranked)), Rerank(order=ranked, top=1))
    made = SubQuestionQueryEngine.from_defaults(
        [
            QueryEngineTool.from_defaults(one, name=f"t{place}", description="t")
            for place, one in enumerate((first, second))
        ],
        llm=llm("Joined."),
        question_gen=Questions(),
        response_synthesizer=get_response_synthesizer(llm=llm("Joined."), use_async=False),
        use_async=use_async,
        verbose=False,
    )
    made.query("who?")
    assert fates(capture.only, "apple", "birch", "cedar", "daisy", "elder") == [
        "dropped_by RecentOnly",
        "in_prompt",
        "in_prompt",
        "dropped_by Rerank",
        "never_found",
    ]


def test_a_router_of_retrievers(capture: Captured) -> None:
    tools = [
        RetrieverTool.from_defaults(Dense(nodes("apple", "birch")), description="a"),
        RetrieverTool.from_defaults(Lexical(nodes("cedar")), description="b"),
    ]
    engine(RouterRetriever(selector=Choose(0), retriever_tools=tools, llm=llm()), Rerank(top=1)).query("who?")
    assert flow(capture.only) == "Dense 2 → RouterRetriever 2 → Rerank 1 → prompt 1"


def test_a_bare_retriever_asks_no_model(capture: Captured) -> None:
    fusion(("apple", "birch"), ("cedar",)).retrieve("who?")
    assert flow(capture.only) == "Dense 2 and Lexical 1 → QueryFusionRetriever 3 → output 3"
    assert fates(capture.only, "apple", "daisy") == ["returned", "never_found"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_chat(capture: Captured, streamed: bool) -> None:
    chat = ContextChatEngine.from_defaults(
        retriever=Dense(nodes(*NAMES[:3])),
        llm=llm(),
        node_postprocessors=[RecentOnly(out=("apple",))],
        # The default one leaks a connection.
        memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
    )
    if streamed:
        assert "".join(chat.stream_chat("who?").response_gen)
    else:
        chat.chat("who?")
    assert flow(capture.only) == "Dense 3 → RecentOnly 2 → prompt 2"
    assert fates(capture.only, "apple") == ["dropped_by RecentOnly"]


def test_a_workflow_that_reranks_in_a_step(capture: Captured) -> None:
    workflow = pytest.importorskip("llama_index.core.workflow")

    class Found(workflow.Event):  # type: ignore[name-defined,misc]
        nodes: list[NodeWithScore]

    class Ranked(workflow.Event):  # type: ignore[name-defined,misc]
        nodes: list[NodeWithScore]

    class Flow(workflow.Workflow):  # type: ignore[name-defined,misc]
        @workflow.step
        async def retrieve(self, ev: workflow.StartEvent) -> Found:
            return Found(nodes=await Dense(nodes(*NAMES[:3])).aretrieve(ev.query))

        @workflow.step
        async def rank(self, ev: Found) -> Ranked:
            return Ranked(nodes=[ev.nodes[2], ev.nodes[1]])

        @workflow.step
        async def answer(self, ev: Ranked) -> workflow.StopEvent:
            context = "\n".join(one.node.get_content() for one in ev.nodes)
            reply = await llm().acomplete(f"{context}\n\nwho?")
            return workflow.StopEvent(result=str(reply))

    Flow.retrieve.__annotations__["return"] = Found

    async def run() -> None:
        await Flow().run(query="who?")

    asyncio.run(run())
    assert flow(capture.only) == "Dense 3 → rank 2 → prompt 2"
    assert fates(capture.only, "apple", "birch") == ["dropped_by rank", "in_prompt"]
