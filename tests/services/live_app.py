"""A RAG application that runs continuously and can be made worse, for Prometheus to scrape."""

import threading
from contextlib import ExitStack

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from openai_server import OpenAIServer, error
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server
from rag_apps import QUESTION, TEXTS, langchain_chain

from ragmeter import RagMeter, Scoring
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.protocol import UnbufferedExporter
from ragmeter.metrics.judge import JudgeBudget, OpenAIJudge

OFF_TOPIC = "A sourdough starter is fed with flour and water."


class SwitchableRetriever(BaseRetriever):
    """Finds its configured documents."""

    found: tuple = ()

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=text) for text in self.found]


class Unreachable(UnbufferedExporter):
    """An exporter whose backend is down."""

    def export(self, batch):
        raise ConnectionError("nobody there")


class LiveApp:
    """Calls a real chain five times a second, and serves its metrics. Use as a context manager."""

    def __init__(self):
        self.state = "good"
        self.port = 0
        self.asked = 0
        self._stack = ExitStack()
        self._stop = threading.Event()

    def __enter__(self):
        enter, later = self._stack.enter_context, self._stack.callback
        self._server = enter(OpenAIServer())
        provider = MeterProvider([PrometheusMetricReader()], shutdown_on_exit=False)
        later(provider.shutdown)
        server, thread = start_http_server(0, addr="127.0.0.1")
        later(thread.join, 10)
        later(server.server_close)
        later(server.shutdown)
        self.port = server.server_port
        self._meter = RagMeter(metrics=["precision_recall_f1", "lexical_context_recall", "retrieval_health",
                     "context_relevancy", "id_precision_recall", "lexical_groundedness", "refusal"], judge=OpenAIJudge("scripted", base_url=self._server.url, api_key="none", max_retries=0,
                              budget=JudgeBudget(input_price=0.15, output_price=0.6)), exporters=[OpenTelemetryExporter(meter_provider=provider), Unreachable()], sample_rate=0.9, judge_sample_rate=0.9, scoring=Scoring(objectives="tides:lexical_context_recall>=0.5 for 90%"))  # fmt: skip
        later(self._meter.shutdown, 5)
        self._retriever = SwitchableRetriever(found=TEXTS)
        self._ask = langchain_chain(self._retriever, self._meter)
        thread = threading.Thread(target=self._run, name="live-app")
        later(thread.join, 10)
        later(self._stop.set)
        thread.start()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _run(self):
        while not self._stop.wait(0.2):
            self.asked += 1
            if self.state == "unscorable":
                self._meter.port.offer(lambda: 1 / 0, run_id=f"broken-{self.asked}")
                continue
            bad = self.state == "bad"
            self._retriever.found = (OFF_TOPIC,) if bad else TEXTS
            if self.asked % (2 if bad else 50) == 0:
                self._retriever.found = ()
            if self.asked % (2 if bad else 12) == 0:
                self._server.script.append(error(400, "refused"))
            # Some questions repeat: their verdicts are in the judge's cache.
            self._ask(f"{QUESTION} ({self.asked if self.asked % 3 else 'again'})")
            if self.asked % 10 == 0:
                self._meter.port.count_lost("evicted")
