"""Chains written with the pipe: each way to call them yields exactly the one right sample."""

import asyncio
from operator import itemgetter
from typing import Any

import pytest
from expected import check
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_fakes import (
    PROMPT,
    WAYS,
    EchoRetriever,
    FixedRetriever,
    TellingModel,
    Watch,
    call,
    docs,
    expect,
    frameworks_deprecate,
    joined,
    lcel,
    saw,
    store_of,
    texts,
)


def test_invoke(watch: Watch, chain: Any) -> None:
    """Question, contexts in order, answer, ids, metadata and both time spans are right."""
    chain.invoke("who?", config=watch.config)

    check(watch.only, saw("a", "b"))
    run = watch.only.run
    assert [context.id for context in run.sample.contexts or ()] == ["id-a", "id-b"]
    assert (run.sample.contexts or ())[0].metadata == {"source": "a"}
    (retrieval,) = run.retrievals
    assert run.started_ns <= retrieval.started_ns <= retrieval.ended_ns <= run.ended_ns
    assert (retrieval.query, retrieval.name) == ("who?", "FixedRetriever")
    assert run.framework == "langchain"


@expect(source="InMemoryVectorStore", provider=None, retrievals=1)
def test_a_vector_store_tells_what_it_is(watch: Watch) -> None:
    """The retrieval names its store; a class of one's own is no name of a provider."""
    lcel(store_of("a", "b").as_retriever()).invoke("who?", config=watch.config)


@expect(source="handbook", retrievals=1)
@pytest.mark.parametrize("field", ["collection_name", "_collection_name", "_index_name"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_retrieval_names_the_collection(watch: Watch, field: str, way: str) -> None:
    """What the store's object keeps comes before its class."""
    store = store_of("a", "b")
    setattr(store, field, "handbook")
    asked = lcel(store.as_retriever())
    call(asked, "who?", watch.config, way)


@expect(source="KB1", retrievals=1)
def test_what_the_application_says_of_the_source_counts_first(watch: Watch) -> None:
    """A retriever's metadata."""
    store = store_of("a")
    store.collection_name = "handbook"  # type: ignore[attr-defined]
    lcel(store.as_retriever(metadata={"data_source_id": "KB1"})).invoke("who?", config=watch.config)


@expect(provider="openai")
def test_a_provider_is_named_as_the_conventions_name_it(watch: Watch) -> None:
    """LangChain tells the class that embeds."""
    retriever = store_of("a").as_retriever(tags=[], metadata={"ls_embedding_provider": "OpenAIEmbeddings"})
    retriever._get_ls_params = lambda **_: {"ls_embedding_provider": "OpenAIEmbeddings"}
    lcel(retriever).invoke("who?", config=watch.config)


@expect(**saw("a", "b"))
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_call_it_is_the_same(watch: Watch, chain: Any, way: str) -> None:
    """langchain#18567: the root of a streamed chain starts with an empty input; its question is there all the same."""
    call(chain, "who?", watch.config, way)


@expect(**saw("a", "b"))
def test_streamed_dictionaries_keep_their_question(watch: Watch) -> None:
    """A streamed chain of dictionaries ends with merged chunks; the question is the input's."""
    chain = RunnablePassthrough.assign(
        context=itemgetter("question") | FixedRetriever(found=docs("a", "b"))
    ).assign(answer=PROMPT | TellingModel() | StrOutputParser())

    list(chain.stream({"question": "who?"}, config=watch.config))


def test_batch_is_one_sample_per_item_with_its_own_reference(watch: Watch) -> None:
    """All roots are open at once, and each keeps its own documents and metadata."""
    chain = lcel(EchoRetriever())
    names = [f"q{i}" for i in range(5)]
    configs = [
        {"callbacks": [watch.handler], "metadata": {"ragmeter": {"reference": {"answer": name}}}}
        for name in names
    ]
    chain.batch(names, config=configs)
    asyncio.run(chain.abatch(names, config=configs))

    assert len(watch.samples) == 10
    for sample in watch.samples:
        name = sample.question
        assert texts(sample) == [f"doc-{name}-1", f"doc-{name}-2"]
        assert sample.reference is not None
        assert sample.reference.answer == name


@expect(**saw("a", "b"), retrievals=1)
def test_with_retry_counts_the_attempt_that_worked(watch: Watch) -> None:
    """The failed attempt's retrieval does not count, the request is one."""
    model = TellingModel(fail=1)
    chain = lcel(FixedRetriever(found=docs("a", "b")), model).with_retry(stop_after_attempt=2)
    chain.invoke("who?", config=watch.config)


@expect(status="error", texts=["doc-a", "doc-b"])
def test_retried_to_the_end_is_one_failed_request(watch: Watch) -> None:
    """When every attempt fails, the last one's contexts stand."""
    model = TellingModel(fail=9)
    chain = lcel(FixedRetriever(found=docs("a", "b")), model).with_retry(
        stop_after_attempt=2, wait_exponential_jitter=False
    )
    with pytest.raises(ValueError, match="model failed"):
        chain.invoke("who?", config=watch.config)


@expect(**saw("a", "b"))
@pytest.mark.parametrize("way", [way for way in WAYS if way != "astream_events"])
def test_with_fallbacks_is_one_request(watch: Watch, way: str) -> None:
    """langchain#36072: the attempts are roots of their own upstream; here they are one request."""
    broken = lcel(FixedRetriever(found=docs("x")), TellingModel(fail=9))
    chain = broken.with_fallbacks([lcel(FixedRetriever(found=docs("a", "b")))])
    call(chain, "who?", watch.config, way)


@expect(**saw("a", "b"))
@frameworks_deprecate
def test_message_history(watch: Watch) -> None:
    """The question is the user's message, not the history around it."""
    history = InMemoryChatMessageHistory(messages=[HumanMessage("an old question"), AIMessage("an old answer")])
    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("history"), ("human", "{context} {question}")]
    )
    inner = (
        RunnablePassthrough.assign(
            context=itemgetter("question") | FixedRetriever(found=docs("a", "b")) | joined
        )
        | prompt
        | TellingModel()
    )
    chain = RunnableWithMessageHistory(
        inner, lambda session_id: history, input_messages_key="question", history_messages_key="history"
    )
    config = {**watch.config, "configurable": {"session_id": "s1"}}
    chain.invoke({"question": "who?"}, config=config)


@expect(**saw("a", "b"))
def test_of_several_unknown_fields_the_one_that_a_prompt_asks_is_the_question(watch: Watch) -> None:
    """The first prompt shows none, and a model wrote what was searched for."""
    chain = (
        RunnablePassthrough.assign(
            context=ChatPromptTemplate.from_template("rewrite {about} after {past}")
            | TellingModel()
            | StrOutputParser()
            | FixedRetriever(found=docs("a", "b"))
            | joined
        )
        | ChatPromptTemplate.from_template("Context:\n{context}\n\nHistory: {past}\nQuestion: {about}")
        | TellingModel()
        | StrOutputParser()
    )
    chain.invoke({"past": "User: hi", "about": "who?"}, config=watch.config)


@expect(**saw("a", "b"))
def test_nested_chain_with_explicit_callbacks_belongs_to_its_request(watch: Watch) -> None:
    """User code that hands the handler to an inner chain does not make a second request."""
    inner = lcel(FixedRetriever(found=docs("a", "b")))
    outer = RunnableLambda(lambda question: inner.invoke("rewritten " + question, watch.config))
    outer.invoke("who?", config=watch.config)


@expect(**saw("a", "b"))
def test_nested_async_chain_with_explicit_callbacks(watch: Watch) -> None:
    """The same, asynchronously."""
    inner = lcel(FixedRetriever(found=docs("a", "b")))

    async def ask(question: str) -> Any:
        return await inner.ainvoke("rewritten " + question, watch.config)

    asyncio.run(RunnableLambda(ask).ainvoke("who?", config=watch.config))


@expect(**saw("a", "b"))
def test_retriever_behind_a_function(watch: Watch) -> None:
    """A retriever called in a function is found through LangChain's own context."""
    retriever = FixedRetriever(found=docs("a", "b"))
    chain = (
        RunnableLambda(lambda question: {"context": retriever.invoke(question), "question": question})
        | PROMPT
        | TellingModel()
    )
    chain.invoke("who?", config=watch.config)


def test_parallel_retrievers_are_concatenated_in_start_order(watch: Watch) -> None:
    """Two retrievers of one request are two retrievals of one sample."""
    chain = (
        RunnableParallel(
            one=FixedRetriever(found=docs("a")),
            two=FixedRetriever(found=docs("b")),
            question=RunnablePassthrough(),
        )
        | (lambda x: {"context": joined(x["one"] + x["two"]), "question": x["question"]})
        | PROMPT
        | TellingModel()
    )
    chain.invoke("who?", config=watch.config)

    run = watch.only.run
    assert sorted(texts(run.sample) or []) == ["doc-a", "doc-b"]
    assert len(run.retrievals) == 2
    starts = [retrieval.started_ns for retrieval in run.retrievals]
    assert starts == sorted(starts)


@expect(**saw("a", "b"))
def test_branch(watch: Watch) -> None:
    """The branch that was taken counts."""
    chain = RunnableBranch(
        (lambda q: q == "never", lcel(FixedRetriever(found=docs("x")))),
        lcel(FixedRetriever(found=docs("a", "b"))),
    )
    chain.invoke("who?", config=watch.config)


@expect(**saw("a", "b"))
def test_assign(watch: Watch) -> None:
    """Documents that travel in a dictionary beside the question are counted once."""
    chain = (
        RunnablePassthrough.assign(context=itemgetter("q") | FixedRetriever(found=docs("a", "b")))
        | RunnablePassthrough.assign(extra=lambda x: len(x["context"]))
        | (lambda x: {"context": joined(x["context"]), "question": x["q"]})
        | PROMPT
        | TellingModel()
    )
    chain.invoke({"q": "who?"}, config=watch.config)


def test_a_plain_model_chain_is_no_sample(watch: Watch) -> None:
    """A request that never tried to retrieve is none of ours."""
    (ChatPromptTemplate.from_template("{question}") | TellingModel()).invoke(
        {"question": "who?"}, config=watch.config
    )

    assert watch.results == []


class _Proxy:
    """Stands for a row of a database, or a web request that is over: each look at it is a call."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("out of context")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("out of context")


@pytest.mark.parametrize("within", [lambda it: it, lambda it: [it], lambda it: (it, 0.5)])
def test_a_proxy_in_a_state_is_not_looked_at(watch: Watch, chain: Any, within: Any) -> None:
    state = RunnablePassthrough.assign(answer=itemgetter("question") | chain)
    begins = RunnableLambda(lambda question: {"question": question, "row": within(_Proxy())})
    (begins | state | RunnableLambda(dict)).invoke("who?", config=watch.config)

    check(watch.only, saw("a", "b"))
    assert watch.meter.stats().internal_errors == {}
