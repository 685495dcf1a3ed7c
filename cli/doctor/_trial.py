"""The test request: through each installed framework, the meter, the metrics and out to the backend.

Uses the demo's small library and applications, a local answerer instead of a model, and a separate SDK, so
that the application's global providers stay untouched. The sent telemetry is exactly that of a user's
request, under the service name ``ragmeter-doctor``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from opentelemetry.trace import SpanKind

from ragmeter import RagMeter, reference
from ragmeter.adapters import FRAMEWORKS
from ragmeter.cli._telemetry import CollectedTelemetry, LocalTelemetry, send
from ragmeter.cli.demo.corpus import CorpusQuestion, load_chunks, load_questions
from ragmeter.cli.demo.run import Framework, application
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.fleet.transport import address_shown
from ragmeter.metrics import MissingDependencyError
from ragmeter.metrics.errors import install_command
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.registry import resolve_metrics
from ragmeter.settings.config import Settings

from ._backends import Destination
from ._findings import TEST_REQUEST, Finding
from ._packages import installed_version

_MANUAL: Final = "manual"
"""Name of the test request when no framework is installed."""
FLUSH_S = 90.0
"""Seconds to wait for all scores; a judge may take its time."""


def try_requests(settings: Settings, judge: Judge | None) -> Generator[Finding, None, CollectedTelemetry]:
    """Score one request per installed framework, or one recorded manually; return the emitted telemetry.

    Args:
        settings: The environment's settings; sampling is left out, so that the requests are scored.
        judge: The judge, if one answers.
    """
    telemetry = LocalTelemetry("ragmeter-doctor")
    try:
        names = [one.name for one in FRAMEWORKS.values() if installed_version(one.distribution)]
        for name in names or [_MANUAL]:
            yield from _one_request(name, settings, judge, telemetry)
        return telemetry.collect()
    finally:
        telemetry.shutdown()


def _one_request(
    framework: str, settings: Settings, judge: Judge | None, telemetry: LocalTelemetry
) -> list[Finding]:
    memory = InMemoryExporter()
    spans = telemetry.exporter(settings.span_mode, settings.events)
    # Without a judge, metrics that ask one are left out, as its absence is a separate finding; so is whether
    # an embedder answers.
    named = settings.metrics if judge is not None or settings.judge_model is None else None
    chosen = None
    if named is not None:
        resolved = resolve_metrics(named, judged=judge is not None)
        chosen = [one for one in resolved if not one.lacks_embedder]
    with (
        RagMeter(metrics=chosen, judge=judge, exporters=[memory, spans]) as meter,
        telemetry.tracer_provider.get_tracer("ragmeter.doctor").start_as_current_span(
            "POST /doctor", kind=SpanKind.SERVER
        ),
    ):
        question = load_questions()[0]
        with reference(answer=question.answer, contexts=list(question.contexts)):
            try:
                _ask(framework, question, meter)
            except ImportError as error:  # the framework itself lacks a package
                return [TEST_REQUEST.failed(framework, str(error), "install that package")]
        finished = meter.flush(FLUSH_S)
        contained = dict(meter.stats().internal_errors)
    return list(_verdict(framework, memory.results, finished=finished, contained=contained))


def _ask(framework: str, question: CorpusQuestion, meter: RagMeter) -> None:
    if framework == _MANUAL:
        with meter.request(question.question, name="doctor") as request:
            request.retrieved([chunk.text for chunk in load_chunks()[:3]])
            request.answered(question.answer)
        return
    name: Framework = "langchain" if framework == "LangChain" else "llama-index"
    with application(name, meter, offline=True) as asked_of:
        asked_of.ask(question.question)


def _verdict(
    framework: str, results: Sequence[ScoredRun], *, finished: bool, contained: dict[str, int]
) -> Iterator[Finding]:
    report = "please report this, with the versions above"
    if contained:
        components = ", ".join(sorted(contained))
        yield TEST_REQUEST.failed(framework, f"ragmeter contained errors in {components}", report)
    if not finished:
        yield TEST_REQUEST.failed(
            framework, f"not all scores came within {FLUSH_S:g} s", "is the judge overloaded?"
        )
    scores = {name: score for result in results for name, score in result.scores.items()}
    if not scores:
        yield TEST_REQUEST.failed(framework, "the request was not captured", report)
        return
    broken = [s for s in scores.values() if s.status in ("judge_error", "metric_error", "timeout")]
    for score in broken:
        fix = "see the judge above" if score.status != "metric_error" else report
        yield TEST_REQUEST.failed(framework, f"{score.name}: {score.status}: {score.explanation}", fix)
    measured = [score for score in scores.values() if score.value is not None]
    some = ", ".join(f"{score.name} {score.value:.2f}" for score in measured[:3])
    if measured and not broken:
        yield TEST_REQUEST.ok(framework, f"{len(measured)} scores: {some}, ...")


def try_delivery(collected: CollectedTelemetry, destinations: Sequence[Destination]) -> Iterator[Finding]:
    """Send the emitted telemetry to every destination and yield findings about their answers.

    A backend that takes traces and refuses another signal is usual; that is a warning.
    """
    took_traces = False
    for one in destinations:
        what = f"{one.signal} to {address_shown(one.endpoint)}"
        try:
            deliveries = send(collected, one.endpoint, one.protocol, [one.signal], full_address=True)
        except MissingDependencyError as error:
            yield TEST_REQUEST.failed(what, str(error), install_command("otlp"))
            continue
        for delivery in deliveries:
            said = delivery.detail
            for secret in one.secrets:
                said = said.replace(secret, "...")
            if delivery.accepted:
                took_traces = took_traces or one.signal == "traces"
                yield TEST_REQUEST.ok(what, f"{delivery.items} accepted over {one.protocol}")
            elif took_traces:
                yield TEST_REQUEST.warning(what, f"refused: {said}", _REFUSED[one.signal])
            else:
                yield TEST_REQUEST.failed(
                    what,
                    f"refused: {said}",
                    "check protocol (gRPC is usually on 4317, HTTP on 4318), "
                    + ("whether it speaks TLS (if not: http://), " if one.endpoint.startswith("https:") else "")
                    + "path, and key in OTEL_EXPORTER_OTLP_HEADERS",
                )
        if not deliveries:
            yield TEST_REQUEST.skipped(what, "there was nothing to send")


_REFUSED = {
    "logs": "this backend takes no log events: set OTEL_LOGS_EXPORTER=none, and RAGMETER_EVENTS=span_event to "
    "see them on the spans",
    "metrics": "this backend takes no metrics: set OTEL_METRICS_EXPORTER=none, or send them elsewhere",
}
