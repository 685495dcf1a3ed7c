"""Retrieval quality over time, for Prometheus and Grafana: a service that goes bad every other minute.

python examples/watch_live.py --port 9464

Needs the extras `[langchain,prometheus]`; no key, no network. Scrape `http://localhost:9464/metrics`;
`ragmeter dashboards --out DIR` writes the Grafana dashboard and the alert rules that go with it.
"""

import argparse
import itertools
import time

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler

QUESTION = "When does the ferry leave?"
ANSWER = "The ferry leaves the island at seven in the morning."
TIMETABLE = ["The ferry leaves the island at seven in the morning.", "On Sundays there is no ferry."]
WRONG_INDEX = ["The lighthouse keeper trims the lamp at dusk.", "Gulls nest on the cliffs in May."]

options = argparse.ArgumentParser(description="A RAG service to watch in Prometheus.")
options.add_argument("--port", type=int, default=9464, help="where metrics are served")
options.add_argument("--rate", type=float, default=5.0, help="requests a second")
options.add_argument("--requests", type=int, help="stop after this many requests; default: never")
options.add_argument("--turn", type=int, default=300, help="requests until good turns to bad")
args = options.parse_args()


class Retriever(BaseRetriever):
    """Your store. Half of the time the wrong index is loaded."""

    good: bool = True

    def _get_relevant_documents(self, query: str, **kwargs: object) -> list[Document]:
        return [Document(page_content=text) for text in (TIMETABLE if self.good else WRONG_INDEX)]


# Your chain, as it is.
retriever = Retriever()
chain = (
    {"context": retriever, "question": RunnablePassthrough()}
    | ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")
    | FakeListChatModel(responses=[ANSWER])
    | StrOutputParser()
).with_config(run_name="ferry-desk")

# Your metrics, as they are: OpenTelemetry's Prometheus reader in one line.
set_meter_provider(MeterProvider([PrometheusMetricReader()]))
start_http_server(args.port, addr="127.0.0.1")

# ragmeter: a meter that knows what should be found, and one callback.
meter = RagMeter(references={QUESTION: {"answer": ANSWER, "contexts": TIMETABLE[:1]}})
callbacks = [RagMeterCallbackHandler(meter)]
print(f"metrics: http://127.0.0.1:{args.port}/metrics", flush=True)

for number in itertools.count():
    if number == args.requests:
        break
    retriever.good = number // args.turn % 2 == 0
    if number % args.turn == 0:
        print(f"retrieval is {'good' if retriever.good else 'bad'} now", flush=True)
    chain.invoke(QUESTION, config={"callbacks": callbacks})
    time.sleep(1 / args.rate)
