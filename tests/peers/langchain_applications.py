"""LangChain and LangGraph applications that are called once, with a config; independent of the watching."""

import asyncio
import html
import json
import operator
from typing import Annotated, Any, TypedDict

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever, MultiQueryRetriever
from langchain_classic.retrievers.document_compressors import LLMChainExtractor
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableConfig, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool, tool
from langchain_fakes import FixedRetriever, ScriptedModel, joined
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

TEXTS = {
    "refund": "Refunds are paid back within 14 days of receiving the returned item, to the original card.",
    "shipping": "Standard shipping takes 3 to 5 working days; express shipping takes one and costs 9 euros.",
    "warranty": "All coffee machines carry a two year warranty on pump and boiler, unless they were opened.",
    "hours": "The shop in Oslo opens at nine and closes at five in the evening, on Sundays at three.",
}
QUESTION = "How long do refunds take?"
ANSWER = "Refunds are paid back within 14 days to the original card."
OTHER = "What does express shipping cost?"


def found(*names: str, **fields: Any) -> FixedRetriever:
    """Return a retriever that finds these texts."""
    fields["found"] = [Document(TEXTS[name], id=name, metadata={"source": name}) for name in names]
    return FixedRetriever(**fields)


def says(*script: Any) -> ScriptedModel:
    """Return a model that replies with these, one after the other."""
    return ScriptedModel(script=list(script or (ANSWER,)))


PROMPT = ChatPromptTemplate.from_template("Use only this:\n{context}\n\nQuestion: {question}")
TALK = ChatPromptTemplate.from_messages(
    [
        ("system", "Use only this:\n{context}"),
        MessagesPlaceholder("chat_history", optional=True),
        ("user", "{input}"),
    ]
)
REPHRASE = ChatPromptTemplate.from_messages(
    [MessagesPlaceholder("chat_history"), ("user", "{input}"), ("user", "Say it as one question.")]
)


def chain(retriever: Any, *script: Any, between: Any = joined) -> Any:
    """Return the usual tutorial chain."""
    given = {"context": retriever | between, "question": RunnablePassthrough()}
    return given | PROMPT | says(*script) | StrOutputParser()


PLAIN = ("refund", "shipping")


def streamed_asynchronously(config: Any) -> None:
    async def read() -> None:
        async for _ in chain(found(*PLAIN)).astream(QUESTION, config):
            pass

    asyncio.run(read())


def stream_left(config: Any) -> None:
    stream = chain(found(*PLAIN)).stream(QUESTION, config)
    next(stream)
    stream.close()


def with_sources(config: Any) -> None:
    answered = PROMPT | says() | StrOutputParser()
    given = RunnablePassthrough.assign(context=lambda given: joined(given["docs"]))
    asked = {"docs": found(*PLAIN), "question": RunnablePassthrough()}
    (asked | RunnablePassthrough.assign(answer=given | answered)).invoke(QUESTION, config)


def stuffed(config: Any) -> None:
    stuff = create_stuff_documents_chain(says(), TALK)
    create_retrieval_chain(found(*PLAIN), stuff).invoke({"input": QUESTION}, config)


def history(config: Any) -> None:
    aware = create_history_aware_retriever(says(QUESTION), found(*PLAIN), REPHRASE)
    talk = create_retrieval_chain(aware, create_stuff_documents_chain(says(), TALK))
    told = [HumanMessage("I returned my grinder."), AIMessage("Thank you for telling us.")]
    talk.invoke({"input": "And how long does it take?", "chat_history": told}, config)


def refined(config: Any) -> None:
    """A draft by the first document, improved by the second."""
    draft = "Refunds are paid back within 14 days, as it seems so far."

    def answer(question: str, config: Any) -> str:
        model = says(draft, ANSWER)
        first, second = found(*PLAIN).invoke(question, config)
        said = model.invoke(f"Context: {first.page_content}\nQuestion: {question}", config).content
        return str(
            model.invoke(
                f"Question: {question}\nExisting answer: {said}\nMore context: {second.page_content}\nRefine it.",
                config,
            ).content
        )

    RunnableLambda(answer).invoke(QUESTION, config)


def mapped_and_reduced(config: Any) -> None:
    notes = ["Money comes back within 14 days of the return.", "Express costs 9 euros, which nobody asked."]

    def answer(question: str, config: Any) -> str:
        model = says(*notes, ANSWER)
        drafts = [
            str(model.invoke(f"What says this of {question}\n{one.page_content}", config).content)
            for one in found(*PLAIN).invoke(question, config)
        ]
        return str(model.invoke(f"{question}\nNotes:\n" + "\n".join(drafts), config).content)

    RunnableLambda(answer).invoke(QUESTION, config)


def reranked(config: Any) -> None:
    def better(documents: list[Document]) -> list[Document]:
        return documents[::-1][:2]

    chain(found("hours", *PLAIN) | better).invoke(QUESTION, config)


def compressed(config: Any) -> None:
    cuts = says("Refunds are paid back within 14 days", "NO_OUTPUT")
    inner = ContextualCompressionRetriever(
        base_compressor=LLMChainExtractor.from_llm(cuts), base_retriever=found(*PLAIN)
    )
    chain(inner).invoke(QUESTION, config)


def multi_query(config: Any) -> None:
    asks = says("When is money paid back?\nHow long takes a return?")
    chain(MultiQueryRetriever.from_llm(found(*PLAIN), asks)).invoke(QUESTION, config)


def ensemble(config: Any) -> None:
    both = EnsembleRetriever(retrievers=[found(*PLAIN), found("shipping", "hours")], weights=[0.5, 0.5])
    chain(both).invoke(QUESTION, config)


def cut_prompt(config: Any) -> None:
    def shortened(documents: list[Document]) -> str:
        return "\n\n".join(one.page_content[:60] for one in documents)

    chain(found(*PLAIN), between=shortened).invoke(QUESTION, config)


def model_fails(config: Any) -> None:
    def fails(_: Any) -> str:
        raise ValueError("model failed")

    ({"context": found(*PLAIN) | joined, "question": RunnablePassthrough()} | PROMPT | fails).invoke(
        QUESTION, config
    )


def call(name: str, query: str) -> AIMessage:
    """Return a model's call of a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": {"query": query}, "id": f"call-{query}"}])


def asked(question: str = QUESTION) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def agent_with_retriever(config: Any) -> None:
    search = create_retriever_tool(found(*PLAIN), "search", "Search the terms.")
    create_agent(says(call("search", "refunds"), ANSWER), [search]).invoke(asked(), config)


@tool
def look_up(query: str) -> list[dict[str, str]]:
    """Look the terms up."""
    return [{"id": name, "text": TEXTS[name]} for name in PLAIN]


def agent_in_the_next_turn(config: Any) -> None:
    search = create_retriever_tool(found("warranty"), "search", "Search the terms.")
    agent = create_agent(says(call("search", "warranty"), "Two years, unless they were opened."), [search])
    told = [
        HumanMessage(QUESTION),
        call("search", "refunds"),
        {"role": "tool", "content": TEXTS["refund"], "tool_call_id": "call-refunds"},
        AIMessage(ANSWER),
        HumanMessage("And the warranty of coffee machines?"),
    ]
    agent.invoke({"messages": told}, config)


class State(TypedDict, total=False):
    """The state that nodes pass on."""

    question: str
    documents: list[Document]
    answer: str
    steps: Annotated[list[str], operator.add]


def graph(keep: Any, *script: Any) -> Any:
    """Retrieve, grade each document, answer."""
    model = says(*script)

    def retrieve(state: State, config: RunnableConfig) -> State:
        return {"documents": found("hours", *PLAIN).invoke(state["question"], config)}

    def grade(state: State, config: RunnableConfig) -> State:
        documents = state["documents"]
        if keep is not None:
            said = [
                model.invoke(
                    f"Is this about {state['question']}\n{one.page_content}\nyes or no?", config
                ).content
                for one in documents
            ]
            documents = [one for one, word in zip(documents, said, strict=True) if word == "yes"]
        return {"documents": documents}

    def answer(state: State, config: RunnableConfig) -> State:
        given = {"context": joined(state["documents"]) or "-", "question": state["question"]}
        return {"answer": str((PROMPT | model).invoke(given, config).content)}

    built = StateGraph(State)
    for node in (retrieve, grade, answer):
        built.add_node(node.__name__ + "_node", node)
    built.add_edge(START, "retrieve_node")
    built.add_edge("retrieve_node", "grade_node")
    built.add_edge("grade_node", "answer_node")
    built.add_edge("answer_node", END)
    return built.compile()


def criticised(config: Any) -> None:
    """A judge of the answer is called last."""

    def ask(question: str, config: Any) -> str:
        said = chain(found(*PLAIN)).invoke(question, config)
        says("fine").invoke(f"Is this a good answer?\n{said}", config)
        return said

    RunnableLambda(ask).invoke(QUESTION, config)


def rewritten(config: Any) -> None:
    def ask(question: str, config: Any) -> str:
        better = says("time until money is paid back").invoke(f"Rewrite for a search: {question}", config)
        return (
            chain(found(*PLAIN)).with_config(run_name="answer").invoke(question, config)
            + str(better.content)[:0]
        )

    RunnableLambda(ask).invoke(QUESTION, config)


def brief_drafts(config: Any) -> None:
    """Sub-questions with one-word replies, joined."""
    both = "Within 14 days, and express costs 9 euros, as two passages say."

    def ask(question: str, config: Any) -> str:
        drafts = [
            f"Sub question: {name}?\nResponse: "
            + str(
                says(said)
                .invoke(f"{found(name).invoke(name, config)[0].page_content}\n{name}?", config)
                .content
            )
            for name, said in (("refund", "14 days"), ("shipping", "9 euros"))
        ]
        return str(says(both).invoke(f"Question: {question}\n" + "\n".join(drafts), config).content)

    RunnableLambda(ask).invoke("How long do refunds take, and what does express shipping cost?", config)


def subagent(config: Any) -> None:
    """A tool that calls its own chain."""

    @tool
    def ask_terms(query: str, config: RunnableConfig) -> str:
        """Ask about the terms."""
        return str(chain(found(*PLAIN), "Money comes back within 14 days of the return.").invoke(query, config))

    create_agent(says(call("ask_terms", "refunds"), ANSWER), [ask_terms]).invoke(asked(), config)


def sentence_window(config: Any) -> None:
    window = f"{TEXTS['refund']} Shipping is not paid back, however."
    retriever = FixedRetriever(found=[Document(TEXTS["refund"], id="refund", metadata={"window": window})])

    def windows(documents: list[Document]) -> str:
        return "\n\n".join(one.metadata["window"] for one in documents)

    chain(retriever, between=windows).invoke(QUESTION, config)


def search_by_a_function(config: Any) -> None:
    def search(_: str) -> list[Document]:
        return [Document(TEXTS[name], id=name) for name in PLAIN]

    chain(RunnableLambda(search)).invoke(QUESTION, config)


def documents_handed_in(config: Any) -> None:
    """Retrieved first, and passed to a chain afterwards."""
    documents = found(*PLAIN).invoke(QUESTION, config)
    stuff = create_stuff_documents_chain(says(), TALK)
    stuff.invoke({"input": QUESTION, "context": documents}, config)


def two_retrievers(config: Any) -> None:
    both = RunnableParallel(terms=found("refund"), prices=found("shipping"))
    chain(both, between=lambda given: joined(given["prices"] + given["terms"])).invoke(QUESTION, config)


def retrieved_twice(config: Any) -> None:
    """A second attempt replaces the first."""

    def ask(question: str, config: Any) -> str:
        found("hours", "warranty").invoke(question, config)
        return chain(found(*PLAIN)).invoke(question, config)

    RunnableLambda(ask).invoke(QUESTION, config)


def fallback_retriever(config: Any) -> None:
    chain(found("hours", error=True).with_fallbacks([found(*PLAIN)])).invoke(QUESTION, config)


def escaped_as_json(config: Any) -> None:
    def dumped(documents: list[Document]) -> str:
        return json.dumps([{"id": one.id, "text": one.page_content} for one in documents])

    chain(found(*PLAIN), between=dumped).invoke(QUESTION, config)


def wrapped_in_elements(config: Any) -> None:
    def wrapped(documents: list[Document]) -> str:
        return "".join(f"<doc id='{one.id}'>{html.escape(one.page_content)}</doc>" for one in documents)

    chain(found(*PLAIN), between=wrapped).invoke(QUESTION, config)


def strips(config: Any) -> None:
    """Only sentences that matter are sent."""
    longer = FixedRetriever(found=[Document(" ".join(TEXTS.values()), id="all")])
    chain(longer, between=lambda given: given[0].page_content.split("; ")[0]).invoke(QUESTION, config)


def structured(config: Any) -> None:
    def dressed(text: str) -> dict[str, Any]:
        return {"answer": text, "confidence": 0.9, "sources": ["refund"]}

    (chain(found(*PLAIN)) | dressed).invoke({"question": QUESTION}["question"], config)


def caught(config: Any) -> None:
    """The first retriever fails, and the application reports it to the model."""

    def search(question: str, config: RunnableConfig) -> str:
        try:
            return joined(found("hours", error=True).invoke(question, config))
        except LookupError:
            return "(nothing could be searched)"

    chain(RunnableLambda(search), "I cannot say.", between=str).invoke(QUESTION, config)


def searched_elsewhere(config: Any) -> None:
    """A grader rejects what was found, and a function that is no retriever searches again."""

    def retrieve(state: Any) -> Any:
        return {"documents": found("hours").invoke(state["question"])}

    def grade(state: Any) -> Any:
        grader = says("no")
        kept = [
            one
            for one in state["documents"]
            if grader.invoke(f"yes or no? {one.page_content}").content == "yes"
        ]
        return {"documents": kept}

    def search(state: Any) -> Any:
        return {"documents": [*state["documents"], Document(f"{TEXTS['refund']}\n{TEXTS['shipping']}")]}

    def answer(state: Any) -> Any:
        given = {"context": joined(state["documents"]), "question": state["question"]}
        return {"answer": says().invoke(PROMPT.invoke(given)).content}

    graph = (
        StateGraph(State).add_sequence([retrieve, grade, search, answer]).add_edge(START, "retrieve").compile()
    )
    graph.invoke({"question": QUESTION}, config)


def approved(config: Any) -> None:
    """A person approves the agent's search, which is resumed."""
    searches = create_retriever_tool(found(*PLAIN), "search", "Find in the terms.")
    asked = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "refund days"}, "id": "1"}])
    stops = HumanInTheLoopMiddleware(interrupt_on={"search": True})
    agent = create_agent(says(asked, ANSWER), [searches], middleware=[stops], checkpointer=InMemorySaver())
    thread = {**config, "configurable": {"thread_id": "approved"}}
    agent.invoke({"messages": [("user", QUESTION)]}, thread)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)


def middleware_that_retrieves(config: Any) -> None:
    """It writes what it found into the user's message, and into the state."""

    class Holding(AgentState):
        context: list[Document]

    class Retrieve(AgentMiddleware):
        state_schema = Holding

        def before_model(self, state: Any, runtime: Any) -> Any:
            documents = [Document(TEXTS[name], id=name) for name in PLAIN]
            last = state["messages"][-1]
            text = f"{last.content}\n\nUse this context:\n" + "\n\n".join(one.page_content for one in documents)
            return {"messages": [last.model_copy(update={"content": text})], "context": documents}

    agent = create_agent(says(), [], middleware=[Retrieve()])
    agent.invoke({"messages": [HumanMessage(QUESTION)]}, config)


def shared_document(config: Any) -> None:
    """Two sub-questions find one document; the second one's function drops it."""

    def ask(question: str, config: Any) -> str:
        drafts = (
            chain(found(*PLAIN), "Money comes back within 14 days of the return."),
            chain(
                found("warranty", "refund") | RunnableLambda(lambda docs: docs[:1]),
                "Two years on pump and boiler.",
            ),
        )
        notes = "\n".join(one.invoke(question, config) for one in drafts)
        return str(says().invoke(f"Notes:\n{notes}\nQuestion: {question}", config).content)

    RunnableLambda(ask).invoke(QUESTION, config)


APPLICATIONS = {
    "lcel": lambda config: chain(found(*PLAIN)).invoke(QUESTION, config),
    "asynchronous": lambda config: asyncio.run(chain(found(*PLAIN)).ainvoke(QUESTION, config)),
    "streamed": lambda config: list(chain(found(*PLAIN)).stream(QUESTION, config)),
    "streamed asynchronously": streamed_asynchronously,
    "stream left": stream_left,
    "batch": lambda config: chain(found(*PLAIN)).batch([QUESTION, OTHER], {**config, "max_concurrency": 1}),
    "with sources": with_sources,
    "stuffed": stuffed,
    "history": history,
    "refined": refined,
    "mapped and reduced": mapped_and_reduced,
    "reranked": reranked,
    "compressed": compressed,
    "multi query": multi_query,
    "ensemble": ensemble,
    "cut prompt": cut_prompt,
    "nothing found": lambda config: chain(found(), "I do not know.").invoke(QUESTION, config),
    "retriever fails": lambda config: chain(found(*PLAIN, error=True)).invoke(QUESTION, config),
    "model fails": model_fails,
    "retriever alone": lambda config: found(*PLAIN).invoke(QUESTION, config),
    "agent with retriever": agent_with_retriever,
    "agent with a search of its own": lambda config: create_agent(
        says(call("look_up", "refunds"), ANSWER), [look_up]
    ).invoke(asked(), config),
    "agent that needs no tool": lambda config: create_agent(says("Good morning!"), [look_up]).invoke(
        asked("Hello!"), config
    ),
    "agent in the next turn": agent_in_the_next_turn,
    "langgraph": lambda config: graph(None, ANSWER).invoke({"question": QUESTION}, config),
    "langgraph streamed": lambda config: list(
        graph(None, ANSWER).stream({"question": QUESTION}, config, stream_mode="values")
    ),
    "corrective": lambda config: graph("graded", "no", "yes", "yes", ANSWER).invoke(
        {"question": QUESTION}, config
    ),
    "corrective that keeps nothing": lambda config: graph("graded", "no", "no", "no", "I do not know.").invoke(
        {"question": QUESTION}, config
    ),
    "criticised": criticised,
    "rewritten": rewritten,
    "brief drafts": brief_drafts,
    "subagent": subagent,
    "sentence window": sentence_window,
    "search by a function": search_by_a_function,
    "documents handed in": documents_handed_in,
    "two retrievers": two_retrievers,
    "retrieved twice": retrieved_twice,
    "fallback retriever": fallback_retriever,
    "escaped as JSON": escaped_as_json,
    "wrapped in elements": wrapped_in_elements,
    "strips": strips,
    "structured": structured,
    "caught": caught,
    "searched elsewhere": searched_elsewhere,
    "approved by a person": approved,
    "middleware that retrieves": middleware_that_retrieves,
    "shared document": shared_document,
}
