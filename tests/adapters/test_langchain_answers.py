"""The answer is what the user got, whatever else models were asked in the same request."""

import json
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_fakes import (
    FixedRetriever,
    ScriptedModel,
    Watch,
    call,
    call_tool,
    classic,
    docs,
    expect,
    frameworks_deprecate,
    graph_of,
    scripted_agent,
    texts,
    watching,
)
from langgraph.graph import MessagesState
from pydantic import BaseModel

ANSWER = "Refunds take five working days, says our handbook."
FACT = "A refund takes five working days and goes back to the original card."
OTHER = "The warranty covers two years unless the housing was opened by someone."


def finds(*found: str) -> FixedRetriever:
    retriever = FixedRetriever(found=docs(*"ab"[: len(found)]))
    for document, text in zip(retriever.found, found, strict=True):
        document.page_content = text
    return retriever


def says(*script: Any) -> Runnable[Any, Any]:
    return ScriptedModel(script=list(script)) | StrOutputParser()


PROMPT = ChatPromptTemplate.from_template("{context}\n\n{question}")


def answered() -> Runnable[Any, Any]:
    """Retrieves and answers; the documents stay beside."""
    return RunnablePassthrough.assign(
        context=RunnableLambda(lambda given: given["question"]) | finds(FACT)
    ) | RunnablePassthrough.assign(reply_text=PROMPT | says(ANSWER))


AFTERWARDS = {
    "moderation": ("safe_text", "This reply is safe: it contains no harmful content at all."),
    "follow-up questions": ("next", "What is covered by the warranty?\nHow do I return it?"),
    "grader": ("judgement", "yes"),
    "several": ("more", "The answer is grounded in the documents it was given."),
}


@expect(answer=ANSWER, status="ok", contexts_by="prompt", texts=[FACT])
@pytest.mark.parametrize("what", AFTERWARDS)
@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
def test_a_model_that_is_asked_something_else_later_does_not_answer(watch: Watch, what: str, how: str) -> None:
    """A shape of the application's own, in which the last call said something else."""
    key, said = AFTERWARDS[what]
    check = ChatPromptTemplate.from_template("Check: {reply_text}") | says(said)
    chain = (
        answered()
        | RunnablePassthrough.assign(**{key: check})
        | RunnableLambda(lambda given: {"body": {"html": given["reply_text"]}, key: given[key]})
    )
    call(chain, {"question": "How long do refunds take?"}, watch.config, how)


def test_a_form_that_the_application_parses_later_holds_the_answer(watch: Watch) -> None:
    form = json.dumps({"answer": ANSWER, "sources": ["id-a"]})
    chain = {"context": finds(FACT), "question": RunnablePassthrough()} | PROMPT | says(form)

    assert chain.invoke("How long does a refund take?", watch.config) == form
    assert watch.sample.answer == ANSWER


def test_an_output_that_no_model_said_and_that_is_no_sentence_is_no_answer(watch: Watch) -> None:
    chain = answered() | RunnableLambda(lambda _: {"done": True, "code": "ok-200"})
    chain.invoke({"question": "How long?"}, watch.config)
    assert (watch.sample.answer, watch.sample.status) == (None, "no_answer")


def test_the_only_long_string_of_an_output_is_the_answer(watch: Watch) -> None:
    """Rendered by the application: no call said just this."""
    page = "Our team checked your case and will write to you on Monday."
    chain = answered() | RunnableLambda(lambda _: {"page": page, "id": "4711"})
    chain.invoke({"question": "How long?"}, watch.config)
    assert watch.sample.answer == page


class Reply(BaseModel):
    """What an agent answers with."""

    answer: str
    confidence: float
    sources: list[str] = []


class Forecast(BaseModel):
    """Nothing of it is an answer by itself."""

    celsius: int
    sky: str


@dataclass
class Verdict:
    text: str
    score: float


STRUCTURED = [
    (Reply(answer=ANSWER, confidence=0.9, sources=["handbook.md"]), ANSWER),
    (Verdict(ANSWER, 0.5), ANSWER),
    (Forecast(celsius=21, sky="clear"), '{"celsius": 21, "sky": "clear"}'),
]


@pytest.mark.parametrize(("structured", "expected"), STRUCTURED)
def test_an_agents_structured_response_is_its_answer(watch: Watch, structured: Any, expected: str) -> None:
    structured_output = pytest.importorskip("langchain.agents.structured_output")
    retriever = finds(FACT)

    @tool
    def look_up(query: str) -> str:
        """Look up the handbook."""
        return "\n".join(document.page_content for document in retriever.invoke(query))

    fields = structured.model_dump() if isinstance(structured, BaseModel) else vars(structured)
    reply = {"name": type(structured).__name__, "args": fields, "id": "2", "type": "tool_call"}
    script = call_tool("refund days", name="look_up"), AIMessage("", tool_calls=[reply])
    strategy = structured_output.ToolStrategy(type(structured))
    agent = scripted_agent(*script, tools=[look_up], response_format=strategy)
    result = agent.invoke({"messages": [HumanMessage("How long?")]}, watch.config)

    assert result["structured_response"] == structured
    sample = watch.sample
    assert (sample.answer, sample.status) == (expected, "ok")
    assert (texts(sample), sample.contexts_by) == ([FACT], "prompt")


class Grading(TypedDict, total=False):
    question: str
    documents: list[Any]
    generation: str
    grade: str


@pytest.mark.parametrize("answer_key", ["generation", "page"])
def test_graders_rewriters_and_checks_do_not_say_what_was_seen(watch: Watch, answer_key: str) -> None:
    """Corrective RAG: each document is graded by a call of its own, and so is the answer."""
    retriever = finds(FACT, OTHER)
    grader = ScriptedModel(script=["yes", "no", "A long enough verdict: it is grounded in the facts."])
    rewriter = ScriptedModel(script=["refund duration in working days"])
    model = ScriptedModel(script=[ANSWER])

    def rewrite(state: Any) -> Any:
        told = rewriter.invoke(f"Rewrite {state['question']}; not useful: {OTHER}").content
        return {"documents": retriever.invoke(told)}

    def grade(state: Any) -> Any:
        kept = [
            document
            for document in state["documents"]
            if grader.invoke(f"Is it relevant? {document.page_content}").content == "yes"
        ]
        return {"documents": kept}

    def generate(state: Any) -> Any:
        context = "\n".join(document.page_content for document in state["documents"])
        prompt = [SystemMessage(f"Facts:\n{context}"), HumanMessage(state["question"])]
        return {"generation": model.invoke(prompt).content}

    def check(state: Any) -> Any:
        grader.invoke(f"Grounded? {OTHER} {state['generation']}")
        return {"grade": "grounded"}

    app: Runnable[Any, Any] = graph_of(Grading, rewrite, ("grade_documents", grade), generate, check)
    if answer_key == "page":
        app = app | RunnableLambda(lambda state: {"page": f"<p>{state['generation']}</p>"})
    app.invoke({"question": "How long do refunds take?"}, watch.config)
    sample = watch.sample
    assert (texts(sample), sample.contexts_by) == ([FACT], "prompt")
    assert ANSWER in (sample.answer or "")


class CountingModel(ScriptedModel):
    """Reducing chains ask how long a prompt is."""

    def get_num_tokens(self, text: str) -> int:
        return len(text.split())


@expect(texts=[FACT, OTHER], contexts_by="prompt", answer=ANSWER)
@frameworks_deprecate
@pytest.mark.parametrize("chain_type", ["stuff", "map_reduce", "refine"])
def test_documents_shown_one_call_at_a_time_add_up(watch: Watch, chain_type: str) -> None:
    """The reducing call shows only what the others said, the refining one only the last document."""
    load_qa_chain = classic("chains.question_answering", "load_qa_chain")
    drafts = ["The first draft says five working days.", "The second draft says two years."]
    before = {"stuff": [], "map_reduce": drafts, "refine": drafts[:1]}
    model = CountingModel(script=[*before[chain_type], ANSWER])
    chain = load_qa_chain(model, chain_type=chain_type)
    retriever = finds(FACT, OTHER)

    def ask(question: str) -> str:
        found = retriever.invoke(question)
        return chain.invoke({"input_documents": found, "question": question})["output_text"]

    RunnableLambda(ask).invoke("How long do refunds take?", watch.config)


def test_an_extract_that_became_a_document_was_seen_and_not_its_source(watch: Watch) -> None:
    """The extractor was sent the documents, the answering call what was made of them."""
    extract = "Only this: five working days, to the card that paid."
    model = ScriptedModel(script=[extract, "NOTHING", ANSWER])
    retriever = finds(FACT, OTHER)

    def compressed(found: list[Document]) -> list[Document]:
        texts = [str(model.invoke(f"Extract: {one.page_content}").content) for one in found]
        return [Document(text) for text in texts if text != "NOTHING"]

    prompt = ChatPromptTemplate.from_template("{context}\nHow long do refunds take?")
    chain = {"context": retriever | RunnableLambda(compressed)} | prompt | model
    chain.invoke("How long do refunds take?", watch.config)
    sample = watch.sample
    assert (texts(sample), sample.contexts_by) == ([extract], "prompt")


def test_an_agent_may_report_as_a_named_user(watch: Watch) -> None:
    """The router that said ``FINISH`` last did not answer."""
    worker, router = ScriptedModel(script=[ANSWER]), ScriptedModel(script=["FINISH"])
    retriever = finds(FACT)

    def work(state: dict[str, Any]) -> dict[str, Any]:
        found = retriever.invoke(state["messages"][-1].content)
        report = HumanMessage(worker.invoke(found[0].page_content).content, name="researcher")
        messages = [*state["messages"], report]
        return {"messages": messages, "next": router.invoke(messages).content}

    question = HumanMessage("How long do refunds take?", name="ann")
    RunnableLambda(work).invoke({"messages": [question]}, watch.config)
    assert watch.sample.answer == ANSWER


@expect(answer=ANSWER, texts=[FACT])
@pytest.mark.parametrize("last", ["PASS", "Would you like to hear about the guarantee, too?"])
def test_a_moderation_that_speaks_last_in_the_conversation_did_not_answer(watch: Watch, last: str) -> None:
    """A graph whose moderation, or whose suggestions, become a message of their own."""
    model = ScriptedModel(script=[ANSWER, last])
    retriever = finds(FACT)

    def reply(state: dict[str, Any]) -> dict[str, Any]:
        found = retriever.invoke(state["messages"][-1].content)
        said = model.invoke([SystemMessage(found[0].page_content), *state["messages"]])
        return {"messages": [*state["messages"], said, model.invoke(str(said.content))]}

    RunnableLambda(reply).invoke({"messages": [HumanMessage("How long?")]}, watch.config)


@expect(answer=ANSWER, texts=[FACT, OTHER], contexts_by="prompt")
def test_what_puts_drafts_together_answers_though_it_was_sent_no_document(watch: Watch) -> None:
    """A graph that asks one call per document gives out what each of them said beside the answer."""
    drafts = ["The first source says that it takes five working days.", "The second one is about two years."]
    model = ScriptedModel(script=[*drafts, ANSWER])
    retriever = finds(FACT, OTHER)

    def ask(question: str) -> dict[str, Any]:
        found = retriever.invoke(question)
        parts = [model.invoke(f"Find in: {one.page_content}").content for one in found]
        whole = model.invoke("Put together:\n" + "\n".join(map(str, parts)))
        return {"parts": parts, "whole": whole.content}

    RunnableLambda(ask).invoke("How long do refunds take?", watch.config)


@expect(texts=[OTHER], contexts_by="prompt")
@pytest.mark.parametrize(
    ("replies", "cut"),
    [
        pytest.param([ANSWER, ANSWER], ANSWER, id="the same words again, from other documents"),
        pytest.param(
            [
                "It takes about 5 working days by post.\nScore: 1",
                "It takes about 9 working days by post.\nScore: 2",
            ],
            "It takes about 9 working days by post.",
            id="one of several replies that read alike",
        ),
    ],
)
def test_only_what_the_call_that_said_the_answer_was_sent_counts(
    watch: Watch, replies: list[str], cut: str
) -> None:
    """An attempt that was thrown away, or that scored lower, says nothing about what was seen."""
    model = ScriptedModel(script=list(replies))
    retriever = finds(FACT, OTHER)

    def ask(question: str) -> str:
        for one in retriever.invoke(question):
            said = model.invoke(f"{one.page_content}\n{question}")
        return str(said.content).split("\nScore")[0]

    assert RunnableLambda(ask).invoke("How long do refunds take?", watch.config) == cut


@expect(answer=ANSWER, texts=[FACT], contexts_by="prompt")
def test_an_answer_given_as_arguments_of_a_tool_is_recognised(watch: Watch) -> None:
    """What ``with_structured_output`` makes of a model that calls functions."""
    call = {"name": "Reply", "args": {"verdict_text": ANSWER}, "id": "1", "type": "tool_call"}
    model = ScriptedModel(script=[AIMessage("", tool_calls=[call])])
    chain = (
        {"context": finds(FACT, OTHER), "question": RunnablePassthrough()}
        | RunnableLambda(lambda given: {**given, "context": given["context"][0].page_content})
        | PROMPT
        | model
        | RunnableLambda(lambda message: {"shown": message.tool_calls[0]["args"]["verdict_text"],
                                          "hint": "Ask another question whenever you like."})
    )  # fmt: skip
    chain.invoke("How long?", watch.config)


def test_a_reader_of_the_application_decides(watch: Watch) -> None:
    del watch
    with watching(answer="hint") as own:
        chain = answered() | RunnableLambda(lambda given: {"x": given["reply_text"], "hint": "Mine."})
        chain.invoke({"question": "How long?"}, own.config)
        assert own.sample.answer == "Mine."


def test_rows_that_a_tool_returns_are_documents(watch: Watch) -> None:
    rows: list[Any] = [
        [{"page_content": FACT, "metadata": {"page": 3}}, {"page_content": OTHER}],
        {"hits": [{"text": FACT, "score": 0.9}, {"text": OTHER, "score": 0.4}]},
        [(document, 0.5) for document in finds(FACT, OTHER).found],
        finds(FACT, OTHER).found,
        json.dumps([{"content": FACT, "metadata": {}}, {"content": OTHER, "metadata": {}}]),
    ]
    for result in rows:

        @tool
        def search(query: str, found: Any = result) -> Any:
            """Search the handbook."""
            del query
            return found

        scripted_agent(call_tool("refunds"), ANSWER, tools=[search]).invoke(
            {"messages": [HumanMessage("How long?")]}, watch.config
        )
    assert [texts(sample) for sample in watch.samples] == [[FACT, OTHER]] * len(rows)
    assert {sample.contexts_by for sample in watch.samples} == {"prompt"}
    assert {sample.answer for sample in watch.samples} == {ANSWER}


@pytest.mark.parametrize(
    "result", ["It is sunny.", '{"score": 3, "metadata": {}}', [{"name": "Ann", "content": "x"}], {"rows": []}]
)
def test_what_else_a_tool_returns_is_no_retrieval(watch: Watch, result: Any) -> None:
    @tool
    def ask(query: str) -> Any:
        """Ask a person."""
        return result

    asking = scripted_agent(call_tool("Hm?", name="ask"), ANSWER, tools=[ask])
    asking.invoke({"messages": [HumanMessage("Hm?")]}, watch.config)
    assert watch.samples == []


@expect(texts=[OTHER], contexts_by="prompt", answer=ANSWER)
def test_documents_that_a_middleware_retrieved_are_found_in_the_prompt(watch: Watch) -> None:
    """With a retriever in place of ``similarity_search``: LangChain does not announce the latter."""
    middleware = pytest.importorskip("langchain.agents.middleware")
    retriever = finds(FACT, OTHER)

    @middleware.dynamic_prompt
    def with_context(request: Any) -> str:
        found = retriever.invoke(request.state["messages"][-1].text)
        return "Answer by: " + found[1].page_content

    agent = scripted_agent(ANSWER, middleware=[with_context])
    agent.invoke({"messages": [HumanMessage("How long?")]}, watch.config)


@pytest.mark.parametrize(
    ("last", "answer"), [("Paris", "Paris"), ("SAFE", "The tower was finished in 1889, it says.")]
)
def test_a_last_word_is_the_answer_if_it_stands_in_what_was_retrieved(last, answer):
    """``Paris`` after a longer remark is what the user got; a moderation's ``SAFE`` is not."""
    document = Document(page_content="The tower stands in Paris and was finished in 1889.")

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query, **kwargs):
            return [document]

    remark = "The tower was finished in 1889, it says."
    models = [GenericFakeChatModel(messages=iter([AIMessage(text)])) for text in (remark, last)]

    def node(model):
        def run(state):
            found = Shelf().invoke("tower")
            return {"messages": [model.invoke([("system", found[0].page_content), ("user", "?")])]}

        return run

    graph = graph_of(MessagesState, *((name, node(model)) for name, model in zip("ab", models, strict=True)))
    watch = Watch()
    graph.invoke({"messages": [("user", "Which city?")]}, config=watch.config)

    assert watch.sample.answer == answer
