"""Two small real RAG applications, LangChain and LlamaIndex; only their models are scripted."""

from contextlib import contextmanager, nullcontext

QUESTION = "How often is the tide high?"
ANSWER = "The tide is high twice a day."
TEXTS = (
    "The tide is high twice a day, because the Earth turns under the Moon's pull.",
    "Tides are highest at new moon and full moon.",
    "A sourdough starter is fed with flour and water.",
)
REFERENCE = {"answer": "Twice a day.", "contexts": list(TEXTS[:2])}
FRAMEWORKS = ("langchain", "llama_index")


@contextmanager
def asking(framework, meter, reference=REFERENCE):
    """Yield a function that calls the application, with ragmeter attached to it; None: without a reference."""
    with (_langchain if framework == "langchain" else _llama_index)(meter, reference) as ask:
        yield ask


@contextmanager
def _langchain(meter, reference):
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    store.add_documents([Document(id=f"tides-{place}", page_content=text) for place, text in enumerate(TEXTS)])
    ask = langchain_chain(store.as_retriever(search_kwargs={"k": 3}), meter, reference)
    yield lambda: ask(QUESTION)


def langchain_chain(retriever, meter, reference=REFERENCE):
    """Return a function that calls a chain around `retriever`, with ragmeter attached to it."""
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    chain = (
        {
            "context": retriever | (lambda found: "\n\n".join(document.page_content for document in found)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\n\n{question}")
        | FakeListChatModel(responses=[ANSWER])
        | StrOutputParser()
    ).with_config(run_name="tides")
    handler = RagMeterCallbackHandler(meter)
    metadata = {} if reference is None else {"ragmeter": {"reference": reference}}
    return lambda question: chain.invoke(question, config={"callbacks": [handler], "metadata": metadata})


@contextmanager
def _llama_index(meter, given):
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index_fakes import ListRetriever, llm, nodes

    from ragmeter import reference
    from ragmeter.adapters.llama_index import RagMeterHandler

    found = nodes({f"tides-{place}": text for place, text in enumerate(TEXTS)})
    engine = RetrieverQueryEngine.from_args(ListRetriever(found), llm=llm(ANSWER))

    def ask():
        with nullcontext() if given is None else reference(**given):
            return str(engine.query(QUESTION))

    with RagMeterHandler(meter):
        yield ask
