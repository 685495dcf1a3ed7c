"""A LangChain application with the callback handler and default OTLP settings: `asking_app.py COUNT good|bad`.

Only its model is scripted.  Bad: the retriever finds texts of something else.
"""

import sys

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

FOUND = {
    "good": ("The tide is high twice a day.", "Tides are highest at new moon."),
    "bad": ("A sourdough starter is fed with flour.", "Cats sleep sixteen hours."),
}


class Retriever(BaseRetriever):
    """Finds its configured documents."""

    found: tuple

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=text) for text in self.found]


def main(count, quality):
    """Send `count` requests."""
    tracers, loggers = TracerProvider(), LoggerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    trace.set_tracer_provider(tracers)
    _logs.set_logger_provider(loggers)
    meter = RagMeter(["lexical_context_relevance", "lexical_groundedness"])
    chain = (
        {
            "context": Retriever(found=FOUND[quality])
            | (lambda found: "\n\n".join(document.page_content for document in found)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\n\n{question}")
        | FakeListChatModel(responses=["The tide is high twice a day."])
        | StrOutputParser()
    ).with_config(run_name="tides")
    handler = RagMeterCallbackHandler(meter)
    for _ in range(count):
        chain.invoke("How often is the tide high?", config={"callbacks": [handler]})
    assert meter.flush(60)
    tracers.shutdown()
    loggers.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
