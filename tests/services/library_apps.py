"""Two real applications with questions in English, Russian and Chinese, which export with texts over OTLP.

For the last questions in Chinese, the one on LangChain finds chunks of an article about something else.
"""

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ragmeter import RagMeter
from ragmeter.cli.demo.corpus import load_chunks, load_questions
from ragmeter.exporters.otel import OpenTelemetryExporter

LANGUAGES = ("en", "ru", "zh")
FAULTY = "zh"
ASKED = 36
FAULTY_FROM = 27


class Finding(BaseRetriever):
    """Finds its configured chunks."""

    found: tuple = ()

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(id=one.id, page_content=one.text) for one in self.found]


def asked(server):
    """Call both applications; return the questions whose retrieval was bad."""
    resource = Resource({"service.name": "library"})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{server}/v1/traces")))
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{server}/v1/logs")))
    exporter = OpenTelemetryExporter(tracers, logger_provider=loggers, metrics=False, capture_content=True)
    meter = RagMeter(exporters=[exporter])
    try:
        return _langchain(meter) + _llama_index(meter)
    finally:
        assert meter.flush(120)
        meter.shutdown(30)
        tracers.shutdown()
        loggers.shutdown()


def _questions():
    by_language = {
        code: [one for one in load_questions() if one.language == code and one.kind == "direct"]
        for code in LANGUAGES
    }
    for number in range(ASKED):
        of = by_language[LANGUAGES[number % 3]]
        yield number, of[number // 3 % len(of)]


def _langchain(meter):
    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    chunks = {one.id: one for one in load_chunks()}
    retriever, handler, bad = Finding(), RagMeterCallbackHandler(meter), []
    for number, one in _questions():
        faulty = one.language == FAULTY and number >= FAULTY_FROM
        articles = {i.partition("#")[0] for i in one.context_ids}
        others = [
            other
            for i, other in chunks.items()
            if other.language == FAULTY and i.partition("#")[0] not in articles
        ]
        retriever.found = tuple(others[:2] if faulty else [chunks[i] for i in one.context_ids])
        if faulty:
            bad.append(one.question)
        chain = (
            {"context": retriever, "question": RunnablePassthrough()}
            | ChatPromptTemplate.from_template("{context}\n\n{question}")
            | FakeListChatModel(responses=[one.answer])
            | StrOutputParser()
        ).with_config(run_name="library-qa")
        chain.invoke(one.question, config={"callbacks": [handler]})
    return bad


def _llama_index(meter):
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index_fakes import ListRetriever, llm, nodes

    from ragmeter.adapters.llama_index import RagMeterHandler

    chunks = {one.id: one for one in load_chunks()}
    with RagMeterHandler(meter):
        for _, one in _questions():
            found = nodes({i: chunks[i].text for i in one.context_ids})
            engine = RetrieverQueryEngine.from_args(ListRetriever(found), llm=llm(one.answer))
            engine.query(one.question)
    return []
