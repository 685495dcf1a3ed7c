"""What the model saw is read from what it was sent; where no prompt shows it, from the runs.

Every application here runs by each way of calling it, with a prompt that shows the documents, with
one that paraphrases them, and with a function of its own in place of a LangChain model.
"""

import gc
import json
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import tool
from langchain_fakes import (
    FixedRetriever,
    ScriptedModel,
    Watch,
    call,
    call_tool,
    expect,
    graph_of,
    scripted_agent,
    texts,
    watching,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample

FACTS = {
    "a": "Refunds take five working days and go back to the original card.",
    "b": "Parcels to the islands travel by ferry twice a week in winter.",
    "c": "The warranty covers two years unless the housing was opened.",
    "x": "Our shop in Oslo opens at nine and closes at five in the evening.",
    "y": "Gift cards are valid for three years and cannot be refunded.",
}
QUESTION = "How long do refunds take?"
ANSWER = "They take five working days, as our terms say."


def doc(name: str, **metadata: Any) -> Document:
    return Document(FACTS[name], id=name, metadata=metadata)


def finds(names: str) -> FixedRetriever:
    return FixedRetriever(found=[doc(name) for name in names])


def names(sample: RagSample) -> str:
    """The letters of the sample's contexts."""
    letters = {text: name for name, text in FACTS.items()}
    return "".join(letters[text] for text in texts(sample) or ["?"])


def joined(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def model() -> ScriptedModel:
    return ScriptedModel(script=[ANSWER])


PROMPT = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {question}")

Answering = Callable[[], Runnable[Any, Any]]
"""Takes ``{"context": str, "question": str}`` and answers."""


def shown() -> Runnable[Any, Any]:
    """A prompt that shows the documents."""
    return PROMPT | model() | StrOutputParser()


def escaped() -> Runnable[Any, Any]:
    """A prompt that shows them as JSON."""
    template = PromptTemplate.from_template("Answer {question} by {context}")
    return (
        RunnableLambda(lambda given: {**given, "context": json.dumps(given["context"])})
        | template
        | model()
        | StrOutputParser()
    )


def paraphrased() -> Runnable[Any, Any]:
    """A prompt of which nothing can be recognised."""
    return (
        RunnableLambda(lambda given: f"Topics: {given['context'].split()[0]}. {given['question']}")
        | model()
        | StrOutputParser()
    )


def own_function() -> Runnable[Any, Any]:
    """A model that LangChain knows nothing of."""
    return RunnableLambda(lambda given: ANSWER if given["context"] else "Nothing is known.")


ANSWERING = {"shown": shown, "escaped": escaped, "paraphrased": paraphrased, "own function": own_function}
WAYS = ["invoke", "ainvoke", "stream", "astream", "batch"]
question = RunnableLambda(lambda text: text)


def last_first(documents: Sequence[Document]) -> list[Document]:
    """A reranker that also drops one."""
    return list(reversed(documents))[:2]


def first(documents: Sequence[Document]) -> list[Document]:
    return list(documents)[:1]


def a_function_reranks(answering: Answering) -> Runnable[Any, Any]:
    return (
        {"context": finds("abc") | RunnableLambda(last_first) | joined, "question": question}
        | RunnablePassthrough()
        | answering()
    )


def assign_reranks(answering: Answering) -> Runnable[Any, Any]:
    return (
        {"docs": finds("abc"), "question": question}
        | RunnablePassthrough.assign(docs=lambda given: last_first(given["docs"]))
        | RunnablePassthrough.assign(context=lambda given: joined(given["docs"]))
        | answering()
    )


def assign_reranks_under_a_new_key(answering: Answering) -> Runnable[Any, Any]:
    return (
        {"docs": finds("abc"), "question": question}
        | RunnablePassthrough.assign(best=lambda given: last_first(given["docs"]))
        | {"context": lambda given: joined(given["best"]), "question": lambda given: QUESTION}
        | answering()
    )


def a_mapping_function_filters(answering: Answering) -> Runnable[Any, Any]:
    return (
        {"docs": finds("abc"), "question": question}
        | RunnableLambda(lambda given: {**given, "docs": last_first(given["docs"])})
        | RunnablePassthrough.assign(context=lambda given: joined(given["docs"]))
        | answering()
    )


def one_of_two_lists_is_filtered(answering: Answering) -> Runnable[Any, Any]:
    return (
        {"docs": finds("abc"), "faq": finds("xy"), "question": question}
        | RunnablePassthrough.assign(docs=lambda given: first(given["docs"]))
        | RunnablePassthrough.assign(context=lambda given: joined([*given["docs"], *given["faq"]]))
        | answering()
    )


def one_of_two_lists_is_reranked_by_a_function(answering: Answering) -> Runnable[Any, Any]:
    return (
        RunnableParallel(docs=finds("abc"), faq=finds("xy"), question=question)
        | RunnableLambda(lambda given: {**given, "faq": last_first(given["faq"])})
        | RunnablePassthrough.assign(context=lambda given: joined([*given["docs"], *given["faq"]]))
        | answering()
    )


def two_lists_are_fused(answering: Answering) -> Runnable[Any, Any]:
    return (
        {"docs": finds("abc"), "faq": finds("xy"), "question": question}
        | RunnablePassthrough.assign(fused=lambda given: [given["faq"][0], given["docs"][1]])
        | {"context": lambda given: joined(given["fused"]), "question": lambda given: QUESTION}
        | answering()
    )


def conversation_among_the_lists(answering: Answering) -> Runnable[Any, Any]:
    def enter(text: str) -> dict[str, Any]:
        return {"question": text, "memory": [doc("y")], "history": [HumanMessage("hi")]}

    return (
        RunnableLambda(enter)
        | RunnablePassthrough.assign(docs=RunnableLambda(lambda given: QUESTION) | finds("abc"))
        | RunnablePassthrough.assign(docs=lambda given: last_first(given["docs"]))
        | RunnablePassthrough.assign(context=lambda given: joined(given["docs"]))
        | answering()
    )


def text_is_cut(answering: Answering) -> Runnable[Any, Any]:
    return (
        {"docs": finds("abc"), "question": question}
        | RunnablePassthrough.assign(context=lambda given: joined(given["docs"][:1]))
        | answering()
    )


def texts_are_filtered(answering: Answering) -> Runnable[Any, Any]:
    def as_texts(documents: Sequence[Document]) -> list[str]:
        return [document.page_content for document in documents]

    def keep(passages: list[str]) -> list[str]:
        return [text for text in passages if "refund" not in text.lower()]

    return {
        "context": finds("abc") | RunnableLambda(as_texts) | RunnableLambda(keep) | "\n".join,
        "question": question,
    } | answering()


def a_function_retrieves_and_cuts(answering: Answering) -> Runnable[Any, Any]:
    retriever = finds("abc")

    def look_up(text: str) -> str:
        return joined(retriever.invoke(text)[1:2])

    return {"context": RunnableLambda(look_up), "question": question} | answering()


APPLICATIONS: dict[Callable[[Answering], Runnable[Any, Any]], str] = {
    a_function_reranks: "cb",
    assign_reranks: "cb",
    assign_reranks_under_a_new_key: "cb",
    a_mapping_function_filters: "cb",
    one_of_two_lists_is_filtered: "axy",
    one_of_two_lists_is_reranked_by_a_function: "abcyx",
    two_lists_are_fused: "xb",
    conversation_among_the_lists: "cb",
    text_is_cut: "a",
    texts_are_filtered: "bc",
    a_function_retrieves_and_cuts: "b",
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("answering", ANSWERING)
@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda made: made.__name__)
def test_contexts_are_what_the_model_saw(
    watch: Watch, application: Callable[[Answering], Runnable[Any, Any]], answering: str, how: str
) -> None:
    """Streams begin everything at once, in an order that is not always the same: hence several runs."""
    expected = APPLICATIONS[application]
    for _ in range(5 if "stream" in how else 1):
        call(application(ANSWERING[answering]), QUESTION, watch.config, how)
    by = "prompt" if answering in ("shown", "escaped") else "runs"
    seen = {names(sample) for sample in watch.samples}
    if by == "runs" and application.__name__.startswith("one_of_two_lists"):
        # Two retrievers run side by side: which comes first is chance where no prompt tells.
        assert {"".join(letter for letter in each if letter in "abc") for each in seen} == {
            expected.rstrip("xy")
        }
        assert {each.strip("abc") for each in seen} == {expected.lstrip("abc")}
    else:
        assert seen == {expected}
    assert {sample.contexts_by for sample in watch.samples} == {by}
    assert {sample.question for sample in watch.samples} == {QUESTION}


def unique(left: list[Document], right: list[Document]) -> list[Document]:
    """A reducer that drops what is there already."""
    return [*left, *(item for item in right if item.page_content not in {d.page_content for d in left})]


@dataclass
class Hit:
    document: Document
    grade: float


class Evidence(BaseModel):
    documents: list[Document] = []
    note: str = ""


class State(TypedDict, total=False):
    question: str
    documents: Annotated[list[Document], unique]
    answer: str


def answer_node(answering: Answering, read: Callable[[Any], Sequence[Document]]) -> Any:
    chain = answering()

    def generate(state: Any) -> dict[str, Any]:
        given = {"context": joined(read(state)), "question": state["question"]}
        return {"answer": chain.invoke(given)}

    return generate


def a_reducer_drops_duplicates(answering: Answering) -> Runnable[Any, Any]:
    one, other = finds("ab"), finds("bac")
    return graph_of(
        State,
        ("one", lambda state: {"documents": one.invoke(state["question"])}),
        ("other", lambda state: {"documents": other.invoke(state["question"])}),
        answer_node(answering, lambda state: state["documents"]),
    )


class HitState(TypedDict, total=False):
    question: str
    hits: list[Hit]
    answer: str


def documents_stand_in_objects(answering: Answering) -> Runnable[Any, Any]:
    retriever = finds("abc")

    def retrieve(state: HitState) -> HitState:
        found = retriever.invoke(state["question"])
        return {"hits": [Hit(document, 1 / place) for place, document in enumerate(found, 1)]}

    def grade(state: HitState) -> HitState:
        return {"hits": [hit for hit in reversed(state["hits"]) if hit.grade < 0.9]}

    return graph_of(
        HitState, retrieve, grade, answer_node(answering, lambda s: [hit.document for hit in s["hits"]])
    )


class EvidenceState(TypedDict, total=False):
    question: str
    evidence: Evidence
    answer: str


def documents_stand_in_a_model_of_the_state(answering: Answering) -> Runnable[Any, Any]:
    retriever = finds("abc")

    def retrieve(state: EvidenceState) -> EvidenceState:
        return {"evidence": Evidence(documents=retriever.invoke(state["question"]))}

    def filter_out(state: EvidenceState) -> EvidenceState:
        kept = [item for item in state["evidence"].documents if "refund" not in item.page_content.lower()]
        return {"evidence": Evidence(documents=kept, note="filtered")}

    return graph_of(
        EvidenceState, retrieve, filter_out, answer_node(answering, lambda s: s["evidence"].documents)
    )


class TwoLists(TypedDict, total=False):
    question: str
    documents: list[Document]
    faq: list[Document]
    context: str
    answer: str


def a_node_filters_one_of_two_lists(answering: Answering) -> Runnable[Any, Any]:
    one, other = finds("abc"), finds("xy")
    return graph_of(
        TwoLists,
        ("documents_", lambda state: {"documents": one.invoke(state["question"])}),
        ("faq_", lambda state: {"faq": other.invoke(state["question"])}),
        ("grade", lambda state: {"documents": state["documents"][1:]}),
        answer_node(answering, lambda state: [*state["documents"], *state["faq"]]),
    )


def a_node_formats_some(answering: Answering) -> Runnable[Any, Any]:
    retriever, chain = finds("abc"), answering()
    return graph_of(
        TwoLists,
        ("retrieve", lambda state: {"documents": retriever.invoke(state["question"])}),
        ("format", lambda state: {"context": joined(state["documents"][:1])}),
        (
            "generate",
            lambda state: {"answer": chain.invoke({key: state[key] for key in ("context", "question")})},
        ),
    )


GRAPHS: dict[Callable[[Answering], Runnable[Any, Any]], str] = {
    a_reducer_drops_duplicates: "abc",
    documents_stand_in_objects: "cb",
    documents_stand_in_a_model_of_the_state: "bc",
    a_node_filters_one_of_two_lists: "bcxy",
    a_node_formats_some: "a",
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("answering", ANSWERING)
@pytest.mark.parametrize("application", GRAPHS, ids=lambda made: made.__name__)
def test_contexts_are_what_a_graph_gave_the_model(
    watch: Watch, application: Callable[[Answering], Runnable[Any, Any]], answering: str, how: str
) -> None:
    call(application(ANSWERING[answering]), {"question": QUESTION}, watch.config, how)
    sample = watch.sample
    by = "prompt" if answering in ("shown", "escaped") else "runs"
    assert (names(sample), sample.contexts_by) == (GRAPHS[application], by)
    assert (sample.question, sample.answer) == (QUESTION, ANSWER)


def test_a_document_of_an_earlier_turn_is_not_seen_again(watch: Watch) -> None:
    """It stands in the conversation that the model is sent; this time it was retrieved and dropped."""
    retriever = finds("ab")

    @tool
    def look_up(query: str) -> str:
        """Look something up."""
        found = retriever.invoke(query)
        return joined(found if query == "first" else found[1:])

    agent = scripted_agent(
        call_tool("first", name="look_up"), "One.", call_tool("second", name="look_up"), "Two.", tools=[look_up]
    )
    state = agent.invoke({"messages": [HumanMessage("first?")]}, watch.config)
    agent.invoke({"messages": [*state["messages"], HumanMessage("second?")]}, watch.config)
    earlier, later = watch.samples
    assert (names(earlier), names(later)) == ("ab", "b")
    assert {earlier.contexts_by, later.contexts_by} == {"prompt"}


def test_documents_of_several_tool_calls_add_up(watch: Watch) -> None:
    retrievers = {"first": finds("ab"), "second": finds("bc")}

    @tool
    def look_up(query: str) -> str:
        """Look something up."""
        return joined(retrievers[query].invoke(query))

    agent = scripted_agent(
        call_tool("first", name="look_up"), call_tool("second", name="look_up"), ANSWER, tools=[look_up]
    )
    agent.invoke({"messages": [HumanMessage(QUESTION)]}, watch.config)
    assert (names(watch.sample), watch.sample.contexts_by) == ("abbc", "prompt")


@pytest.mark.parametrize("kept", [4, 3])
def test_the_parts_of_a_document_that_was_split_are_what_was_seen(watch: Watch, kept: int) -> None:
    """Side by side in a prompt they read as the document that was retrieved."""

    def halves(found: list[Document]) -> list[Document]:
        texts = [half for one in found for half in (one.page_content[:32], one.page_content[32:])]
        return [Document(text) for text in texts[:kept]]

    chain = {"context": finds("ab") | RunnableLambda(halves) | joined, "question": question} | shown()
    chain.invoke(QUESTION, watch.config)
    sample = watch.sample
    split = [part for name in "ab" for part in (FACTS[name][:32], FACTS[name][32:])]
    assert (texts(sample), sample.contexts_by) == (split[:kept], "prompt")


def test_a_stream_that_is_broken_off_knows_what_the_model_was_sent(watch: Watch) -> None:
    """The call has not ended, and the runs tell nothing of what the function left out."""
    answering = PROMPT | GenericFakeChatModel(messages=iter(["some words of an answer"]))
    chain = {"context": finds("abc") | RunnableLambda(first) | joined, "question": question} | answering
    stream = chain.stream(QUESTION, watch.config)
    next(stream)
    next(stream)
    stream.close()
    assert (watch.sample.status, names(watch.sample), watch.sample.contexts_by) == (
        "partial", "a", "prompt",
    )  # fmt: skip


def test_content_blocks_are_prompts_too(watch: Watch) -> None:
    def ask(given: dict[str, Any]) -> list[Any]:
        blocks: list[Any] = [{"type": "text", "text": given["context"]}, "Question: " + QUESTION]
        return [HumanMessage(content=[*blocks, {"type": "image_url", "image_url": {"url": "x"}}])]

    chain = (
        {"context": finds("abc") | (lambda found: joined(found[2:])), "question": question}
        | RunnableLambda(ask)
        | model()
    )
    chain.invoke(QUESTION, watch.config)
    assert (names(watch.sample), watch.sample.contexts_by) == ("c", "prompt")


def test_messages_that_change_later_are_compared_as_they_were_sent(watch: Watch) -> None:
    message = HumanMessage("to be written")
    answering = model()
    retriever = finds("ab")

    def ask(text: str) -> str:
        message.content = FACTS["a"] + text
        retriever.invoke(text)
        answered = answering.invoke([message]).content
        message.content = FACTS["b"]
        return str(answered)

    RunnableLambda(ask).invoke(QUESTION, watch.config)
    assert (names(watch.sample), watch.sample.contexts_by) == ("a", "prompt")


def test_what_the_application_chose_is_given_and_strict_is_by_runs(watch: Watch) -> None:
    del watch
    chain = RunnablePassthrough.assign(
        docs=RunnableLambda(lambda given: given["question"]) | finds("abc")
    ) | RunnablePassthrough.assign(
        answer=RunnableLambda(lambda given: {"context": joined(given["docs"][:1]), **given}) | shown(),
        used=lambda given: given["docs"][:2],
    )
    for options, expected in (
        ({"contexts": "used"}, ("ab", "given")),
        ({"strict": True}, ("abc", "runs")),
        ({}, ("a", "prompt")),
    ):
        with watching(**options) as own:  # type: ignore[arg-type]
            chain.invoke({"question": QUESTION}, own.config)
            assert (names(own.sample), own.sample.contexts_by) == expected


MARK = "MARKER-that-stands-in-the-prompt-only"


def test_prompts_are_compared_and_forgotten(watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    """Never scored, stored, exported or logged; once the sample is there, nothing holds them."""
    caplog.set_level(0)
    prompts: list[weakref.ref[Any]] = []

    class Text(str):
        """A string that can be watched."""

        __slots__ = ("__weakref__",)

    def ask(given: dict[str, Any]) -> list[Any]:
        text = Text(f"{MARK} {given['context']}")
        prompts.append(weakref.ref(text))
        return [HumanMessage.model_construct(content=text, type="human")]

    chain = {"context": finds("ab") | joined, "question": question} | RunnableLambda(ask) | model()
    with RagMeter(exporters=[exporter := InMemoryExporter()]) as meter:
        chain.invoke(QUESTION, {"callbacks": [RagMeterCallbackHandler(meter), *watch.config["callbacks"]]})
        assert meter.flush(30)
        (result,) = exporter.results
        assert result.sample.contexts_by == watch.sample.contexts_by == "prompt"
        assert MARK not in repr(result)
        assert MARK not in str([score.model_dump() for score in result.scores.values()])
        assert MARK not in caplog.text
        gc.collect()
        assert [ref() for ref in prompts] == [None]


def test_prompts_count_against_the_memory_of_a_request(watch: Watch) -> None:
    """By their bytes, and once, however often the same text is sent."""
    attached = watch.handler._attachment
    assert attached is not None
    held: list[int] = []
    long = "и" * 50_000
    answering = model()

    def ask(text: str) -> str:
        (root,) = attached.requests.values()
        for _ in range(5):
            answering.invoke([HumanMessage(long), HumanMessage(text)])
            held.append(attached.requests.size_bytes(root.root.run_id.int))
        return "done, thank you very much"

    RunnableLambda(ask).invoke(QUESTION, watch.config)
    assert 2 * 50_000 <= held[0] == held[-1] <= 2 * 50_000 + 1_000


@pytest.mark.parametrize("how", WAYS)
def test_a_check_before_an_unknown_model_answers_hides_nothing(watch: Watch, how: str) -> None:
    """LangChain sees the moderation only; what was cut after it was cut all the same."""
    chain = (
        RunnablePassthrough.assign(ok=PromptTemplate.from_template("Safe? {question}") | model())
        | RunnablePassthrough.assign(docs=RunnableLambda(lambda given: QUESTION) | finds("abc"))
        | RunnablePassthrough.assign(context=lambda given: joined(given["docs"][:1]))
        | RunnableLambda(lambda given: "Five days, I think: " + given["context"][:20])
    )
    call(chain, {"question": QUESTION}, watch.config, how)
    assert (names(watch.sample), watch.sample.contexts_by) == ("a", "runs")


@pytest.mark.parametrize("verdict", ["yes", '{"binary_score": "no"}'])
def test_what_a_grader_was_sent_is_not_what_an_unknown_model_saw(watch: Watch, verdict: str) -> None:
    grader = ScriptedModel(script=[verdict])
    chain = (
        {"docs": finds("abc"), "question": question}
        | RunnableLambda(
            lambda given: {"docs": [d for d in given["docs"] if grader.invoke("Good? " + d.page_content)][1:]}
        )
        | RunnableLambda(lambda given: ANSWER if given["docs"] else "Nothing is known.")
    )
    chain.invoke(QUESTION, watch.config)
    assert (names(watch.sample), watch.sample.contexts_by) == ("bc", "runs")


def test_an_extractive_answer_of_an_unknown_model_is_no_cut(watch: Watch) -> None:
    chain = (
        {"docs": finds("abc"), "question": question}
        | RunnablePassthrough.assign(context=lambda given: joined(given["docs"]))
        | RunnableLambda(lambda given: FACTS["b"])
        | RunnableLambda(lambda text: text + " That is all.")
    )
    chain.invoke(QUESTION, watch.config)
    assert (names(watch.sample), watch.sample.status) == ("abc", "ok")


@expect(texts=[FACTS["b"], FACTS["a"]], contexts_by="prompt")
@pytest.mark.parametrize("key", ["window", "answer"])
def test_a_text_in_metadata_that_stands_in_the_prompt_in_its_documents_place_is_the_context(watch, key):
    """A window around a sentence, or what answers a question that was found; a shared path is neither."""
    found = [
        Document(f"Part {name}.", id=name, metadata={key: FACTS[name], "path": "a long path / of all / parts"})
        for name in "ab"
    ]
    template = PromptTemplate.from_template("All of a long path / of all / parts:\n{context}\n{question}")
    chain = (
        {
            "context": FixedRetriever(found=found)
            | (lambda documents: "\n".join(one.metadata[key] for one in documents[::-1])),
            "question": RunnablePassthrough(),
        }
        | template
        | model()
        | StrOutputParser()
    )
    chain.invoke(QUESTION, watch.config)


def given_to_a_chain(watch: Watch) -> None:
    chain = RunnablePassthrough.assign(context=lambda given: joined(given["documents"])) | shown()
    given = {"documents": [doc("a"), doc("b")], "question": QUESTION}
    chain.invoke(given, watch.config)


def picked_by_a_person(watch: Watch) -> None:
    class State(TypedDict, total=False):
        question: str
        found: list[Document]
        answer: str

    def answer(state: State) -> State:
        return {"answer": shown().invoke({"context": joined(state["found"]), "question": state["question"]})}

    compiled = graph_of(
        State,
        ("find", lambda state: {"found": finds("abx").invoke(state["question"])}),
        ("pick", lambda state: {"found": state["found"][: interrupt("How many?")]}),
        ("reply", answer),
        checkpointer=InMemorySaver(),
    )
    config = {**watch.config, "configurable": {"thread_id": "1"}}
    compiled.invoke({"question": QUESTION}, config)
    assert watch.sample.status == "interrupted"
    compiled.invoke(Command(resume=2), config)


@pytest.mark.parametrize("ask", [given_to_a_chain, picked_by_a_person])
def test_documents_that_an_earlier_request_found_are_contexts_where_the_prompt_shows_them(watch, ask):
    ask(watch)

    sample = watch.samples[-1]
    assert (sample.question, sample.answer, sample.status) == (QUESTION, ANSWER, "ok")
    assert (names(sample), sample.contexts_by) == ("ab", "prompt")


@pytest.mark.parametrize("given", [{"language": "German"}, {"question": QUESTION}])
def test_documents_without_a_question_or_out_of_the_prompt_make_no_request(watch, given):
    shows = "question" not in given
    chain = (
        RunnableLambda(lambda given: "Summarise: " + (joined(given["documents"]) if shows else "nothing"))
        | model()
        | StrOutputParser()
    )
    chain.invoke({"documents": [doc("a"), doc("b")], **given}, watch.config)

    assert watch.samples == []
