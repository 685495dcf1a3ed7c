"""A program: the same requests by our callback alone, by another's spans alone, and by both at once.

``python same_scores.py langchain|llama_index`` prints, as JSON, the scores of each.
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from ragmeter import RagMeter
from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor
from ragmeter.exporters.memory import InMemoryExporter

TEXTS = {
    "refund": "Refunds are paid back within 14 days of receiving the returned item.",
    "shipping": "Standard shipping takes 3 to 5 working days; express shipping takes one.",
    "warranty": "All coffee machines carry a two year warranty on pump and boiler.",
}
QUESTIONS = ["How long do refunds take?", "What does shipping take?", "Is there a warranty?"]
REFERENCES = {
    question: {"answer": text, "contexts": [text], "context_ids": [name]}
    for question, (name, text) in zip(QUESTIONS, TEXTS.items(), strict=True)
}

provider = TracerProvider()
trace.set_tracer_provider(provider)


def meter():
    memory = InMemoryExporter()
    return RagMeter(exporters=[memory], references=REFERENCES), memory


def of_langchain():
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough
    from langchain_core.vectorstores import InMemoryVectorStore
    from openinference.instrumentation.langchain import LangChainInstrumentor

    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(text, id=name) for name, text in TEXTS.items()])
    retriever = store.as_retriever(search_kwargs={"k": 2})
    prompt = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {question}")
    chain = (
        {
            "context": retriever | (lambda found: "\n\n".join(one.page_content for one in found)),
            "question": RunnablePassthrough(),
        }
        | prompt
        | FakeListChatModel(responses=list(TEXTS.values()))
        | StrOutputParser()
    )
    peer = LangChainInstrumentor()

    def ask(question, ours):
        callbacks = [] if ours is None else [RagMeterCallbackHandler(ours)]
        return chain.invoke(question, config={"callbacks": callbacks})

    return peer, ask


def of_llama_index():
    from llama_index.core import Settings
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.schema import TextNode
    from llama_index_fakes import ListRetriever, llm
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

    from ragmeter.adapters.llama_index import RagMeterHandler

    Settings.llm = llm(TEXTS["refund"])
    nodes = [TextNode(id_=name, text=text) for name, text in TEXTS.items()]
    engine = RetrieverQueryEngine.from_args(ListRetriever(nodes[:2]))

    def ask(question, ours):
        if ours is None:
            return engine.query(question)
        with RagMeterHandler(ours):
            return engine.query(question)

    return LlamaIndexInstrumentor(), ask


def rows(memory):
    return [
        {
            "question": one.sample.question,
            "answer": one.sample.answer,
            "contexts": [(item.text, item.id) for item in one.sample.contexts],
            "scores": {name: score.value for name, score in one.scores.items()},
        }
        for one in memory.results
    ]


def main(framework):
    peer, ask = of_langchain() if framework == "langchain" else of_llama_index()
    ours, by_callback = meter()
    for question in QUESTIONS:
        ask(question, ours)
    assert ours.flush(60)
    theirs, by_spans = meter()
    processor = RagMeterSpanProcessor(theirs).attach(provider)
    peer.instrument(tracer_provider=provider, skip_dep_check=True)
    tracer = trace.get_tracer("app")
    for question in QUESTIONS:
        with tracer.start_as_current_span("POST /ask", kind=trace.SpanKind.SERVER):
            ask(question, None)
    processor.force_flush()
    assert theirs.flush(60)
    alone = len(by_spans.results)
    for question in QUESTIONS:
        with tracer.start_as_current_span("POST /ask", kind=trace.SpanKind.SERVER):
            ask(question, ours)
    for question in QUESTIONS:  # without a span around
        ask(question, ours)
    processor.force_flush()
    assert theirs.flush(60)
    assert ours.flush(60)
    told = {
        "callback": rows(by_callback)[: len(QUESTIONS)],
        "spans": rows(by_spans)[:alone],
        "both": [len(by_callback.results) - len(QUESTIONS), len(by_spans.results) - alone],
        "missing": [list(map(str, key)) for key in processor.missing],
    }
    sys.stdout.write(json.dumps(told) + "\n")


main(sys.argv[1])
