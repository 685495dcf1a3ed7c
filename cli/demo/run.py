"""``ragmeter demo``: a real RAG application, scored live, with no key and no server.

Indexes the articles of `corpus` behind a real retriever, asks its questions through a
real chain (LangChain) or engine (LlamaIndex) with ragmeter attached, and collects scores, spans,
events and metrics.  `run_demo` does the work and returns a `DemoOutcome`; `_report`
prints it.  Called by `app`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from opentelemetry.trace import SpanKind

from ragmeter import Limits, RagMeter
from ragmeter.cli._otlp import choose_protocol
from ragmeter.cli._progress import progress, waiting
from ragmeter.cli._telemetry import CollectedTelemetry, LocalTelemetry, SignalDelivery, send
from ragmeter.exporters._otlp import SIGNALS
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import MeterStats, ScoredRun
from ragmeter.metrics import MissingDependencyError, Score, Verdict, VerdictWord
from ragmeter.metrics._display.failures import Failures
from ragmeter.metrics._display.summary import ScoreSummary, summarize
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.testing._results import merge_results

from ._embedding import HashedNgramEmbedding
from ._responders import choose_responder
from .corpus import CorpusQuestion, load_chunks, load_questions

Framework = Literal["langchain", "llama-index"]

_MODULES: Mapping[str, tuple[str, str, str]] = {
    "langchain": ("_with_langchain", "langchain_core", "langchain"),
    "llama-index": ("_with_llama_index", "llama_index.core", "llama-index"),
}
FLUSH_S = 120.0
"""Seconds to wait for the last scores; only judged ones take more than a moment."""
TOP_K = 3
WORKERS = 4
"""Most requests in flight at once."""


@dataclass(frozen=True, slots=True)
class Application:
    """The demo's application, indexed, built and attached to a meter."""

    ask: Callable[[str], str]
    """Asks the application one question and returns the answer."""
    model: str
    snippet: str
    chunk_count: int


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """One question of the demo and its outcome."""

    question: CorpusQuestion
    answer: str | None
    """The application's answer; None if it raised."""
    error: str | None
    run: ScoredRun | None
    """The captured request, with all its scores."""

    @property
    def scores(self) -> Mapping[str, Score]:
        """All scores by name; empty if ragmeter captured nothing."""
        return {} if self.run is None else self.run.scores

    @property
    def verdict(self) -> Verdict | None:
        """The verdict from all scores; None: no score to base it on."""
        return None if self.run is None else self.run.verdict


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """All results, for the report."""

    framework: Framework
    application: Application
    asked: Sequence[DemoQuestion]
    summaries: Sequence[ScoreSummary]
    collected: CollectedTelemetry
    deliveries: Sequence[SignalDelivery]
    stats: MeterStats
    duration_s: float
    """Wall time of all requests and their scoring, in seconds."""

    @property
    def failures(self) -> list[str]:
        """Descriptions of what went wrong; empty if nothing did.

        A backend that refuses some signals is no failure: few accept all three.
        """
        lines = [
            f"the application failed on {asked.question.question!r}: {asked.error}"
            for asked in self.asked
            if asked.error is not None
        ]
        lines += [
            f"no scores for {asked.question.question!r}"
            for asked in self.asked
            if not asked.scores and asked.error is None
        ]
        failed = Failures()
        for asked in self.asked:
            for score in asked.scores.values():
                failed.add(score, repr(asked.question.question))
        lines += failed.lines()
        if not any(delivery.accepted for delivery in self.deliveries):
            lines += [
                f"{delivery.signal} were not accepted by {delivery.endpoint}: {delivery.detail}"
                for delivery in self.deliveries
            ]
        lines += [
            f"{count} request(s) were dropped: {reason}"
            for reason, count in self.stats.dropped.items()
            if count
        ]
        lines += [
            f"ragmeter contained {count} error(s) in {component}"
            for component, count in self.stats.internal_errors.items()
            if count
        ]
        return lines


def worst_request(asked: Sequence[DemoQuestion]) -> DemoQuestion | None:
    """Return the request that people should look at first, or None if none was scored.

    The worst verdict first, then the lowest recall if there is a reference, then the least relevant chunks
    and the least grounded answer.
    """

    def badness(one: DemoQuestion) -> tuple[float, ...]:
        verdict = one.verdict
        rank = _WORST_FIRST.index(verdict.word) if verdict is not None else len(_WORST_FIRST)
        names = ("recall", "lexical_context_relevance", "lexical_groundedness")
        found = (one.scores[name].value if name in one.scores else None for name in names)
        return (rank, *(1.0 if value is None else value for value in found))

    return min((one for one in asked if one.scores), key=badness, default=None)


_WORST_FIRST: tuple[VerdictWord, ...] = ("bad", "suspect", "good")


@contextmanager
def application(framework: Framework, meter: RagMeter, *, offline: bool) -> Iterator[Application]:
    """Build the demo's application in a framework and attach `meter` to it.

    Raises:
        MissingDependencyError: The framework, or the client of the user's endpoint, is not installed.
    """
    name, package, extra = _MODULES[framework]
    try:
        import_module(package)
    except ImportError:
        raise MissingDependencyError(package, extra, f"--framework {framework}") from None
    module: Any = import_module(f"ragmeter.cli.demo.{name}")
    chunks = load_chunks()
    embedding = HashedNgramEmbedding(chunk.text for chunk in chunks)
    responder = choose_responder(embedding, offline=offline)
    with module.attached_chain(chunks, embedding, responder, meter, top_k=TOP_K) as ask:
        yield Application(ask, responder.name, module.SNIPPET, len(chunks))


def run_demo(
    framework: Framework = "langchain",
    *,
    otlp: str | None = None,
    protocol: str | None = None,
    signals: Sequence[str] = SIGNALS,
    offline: bool = False,
    judge_model: str | None = None,
) -> DemoOutcome:
    """Run the whole demo and return its results. Shows progress on the error stream.

    Args:
        framework: The framework of the application.
        otlp: Base URL of an OTLP endpoint to send everything to, or None.
        protocol: ``http/protobuf`` or ``grpc``; None: by port.
        signals: The signals to send.
        offline: Whether to answer locally even if an endpoint is configured.
        judge_model: Model of the configured endpoint for judged metrics; None: no judged metrics.

    Raises:
        ConfigurationError: An option is invalid.
        MissingDependencyError: The framework, or what an option needs, is not installed.
    """
    chosen = choose_protocol(otlp, protocol) if otlp else None
    judge: Judge | None = None
    if judge_model is not None:
        from ragmeter.metrics.judge import OpenAIJudge  # noqa: PLC0415 -- needs an extra

        judge = OpenAIJudge(model=judge_model)
    questions = load_questions()
    telemetry = LocalTelemetry("ragmeter-demo")
    memory = InMemoryExporter()
    with ExitStack() as stack:
        meter = RagMeter(
            references={one.question: one.reference for one in questions if one.referenced},
            judge=judge,
            exporters=[memory, telemetry.exporter()],
            limits=Limits(hold_s=FLUSH_S),
        )
        stack.callback(meter.shutdown, 10)
        began = time.perf_counter()
        asked_of = stack.enter_context(application(framework, meter, offline=offline))
        answers = _ask_all(questions, asked_of.ask, telemetry)
        _await_scores(meter)
        duration_s = time.perf_counter() - began
        stats = meter.stats()
    by_question = {one.sample.question: one for one in merge_results(memory.results)}
    asked = [
        DemoQuestion(question, answer, error, by_question.get(question.question))
        for question, (answer, error) in zip(questions, answers, strict=True)
    ]
    collected = telemetry.collect()
    deliveries = send(collected, otlp, chosen, signals) if otlp and chosen else []
    telemetry.shutdown()
    return DemoOutcome(
        framework=framework,
        application=asked_of,
        asked=asked,
        summaries=summarize(one.scores for one in asked),
        collected=collected,
        deliveries=deliveries,
        stats=stats,
        duration_s=duration_s,
    )


def _ask_all(
    questions: Sequence[CorpusQuestion], ask: Callable[[str], str], telemetry: LocalTelemetry
) -> list[tuple[str | None, str | None]]:
    """Ask each question inside a span of the application, several at a time, as in a web server."""
    tracer = telemetry.tracer_provider.get_tracer("ragmeter.demo")

    def handle(question: str) -> str:
        with tracer.start_as_current_span("POST /ask", kind=SpanKind.SERVER):
            return ask(question)

    with (
        progress("asking", len(questions)) as advance,
        ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="demo") as pool,
    ):
        pending = {pool.submit(handle, one.question): one.question for one in questions}
        try:
            for done in as_completed(pending):
                advance(pending[done])
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    # The answer, or the exception: one failed request must not end the demo.
    return [
        (done.result(), None)
        if (error := done.exception()) is None
        else (None, f"{type(error).__name__}: {error}")
        for done in pending
    ]


def _await_scores(meter: RagMeter) -> None:
    """Wait for the last scores and show the progress of scoring and judging."""
    with waiting("scoring") as say:
        # One long flush, watched from here: a short one would export requests not judged yet. A daemon,
        # so that Ctrl-C need not wait for it.
        flushing = threading.Thread(target=meter.flush, args=(FLUSH_S,), daemon=True)
        flushing.start()
        while True:
            flushing.join(1.0)
            if not flushing.is_alive():
                return
            stats = meter.stats()
            tokens = stats.input_tokens + stats.output_tokens
            judged = f", {stats.judge_calls} calls, {tokens:,} tokens" if stats.judge_calls else ""
            say(f"{stats.in_flight} requests to go{judged}")
