"""Reports on the application of this process at its end: its set-up, and the outcomes of its requests."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ragmeter.adapters import FRAMEWORKS
from ragmeter.exporters.protocol import MeterStats
from ragmeter.metrics._display.printing import visible_text

from ._configuration import check_configuration
from ._findings import APPLICATION, REQUESTS, Finding
from ._instrumentations import check_instrumentations
from ._packages import installed_version
from ._report import APPLICATION as SUMMARY
from ._report import NOT_SCORED, print_findings, write_findings

if TYPE_CHECKING:
    from ragmeter import RagMeter

_OTHERS: Mapping[str, str] = {
    "haystack": "Haystack",
    "dspy": "DSPy",
    "pydantic_ai": "Pydantic AI",
    "crewai": "CrewAI",
    "agents": "OpenAI Agents",
    "smolagents": "smolagents",
    "openai": "openai",
    "anthropic": "anthropic",
}
_VENDORS = (
    "phoenix.otel",
    "logfire",
    "langfuse",
    "traceloop",
    "openlit",
    "langwatch",
    "mlflow.tracing",
    "ddtrace",
    "agentops",
)
_ATTACH = "from ragmeter.adapters import instrument; instrument()   # before the first request"
_SPANS = "RagMeterSpanProcessor(meter).attach(provider), from ragmeter.adapters.opentelemetry"
_PROCESSORS = "ragmeter.adapters.opentelemetry._handler"
_QUERY = re.compile(r"\?[^\s'\")]+")
"""The query of an address, which may contain a key."""
_WHY: Mapping[str, tuple[str, str]] = {
    "no_provider": ("no exporter had anywhere to write to", "set a tracer provider before the first request"),
    "sampled_out": ("sample_rate left them out", "raise RagMeter(sample_rate=...) or RAGMETER_SAMPLE_RATE"),
    "export": ("no exporter took them", "read what was logged, below and above"),
    "queue_full": ("they came faster than they were scored", "lower sample_rate, or give the process CPU"),
    "shutdown": (
        "the meter was shut down before they were through",
        "shut it down last; raise shutdown_timeout_s",
    ),
    "evicted": ("they began and never ended", "close streams"),
}
"""Reasons for dropped requests, and their remedies."""


def report(*, is_asked_about: bool, is_fork: bool, said: Mapping[tuple[str, str], tuple[int, str]]) -> None:
    """Print the findings about this process to standard error.

    Args:
        is_asked_about: Whether it is the process to examine; others report only if they saw requests.
        is_fork: Whether it was forked by a process that is examined itself.
        said: Log messages of OpenTelemetry and ragmeter, by logger and template: their count, and an example.
    """
    meters: list[RagMeter] = list(_examined_meters())
    stats = [meter.stats() for meter in meters]
    saw = any(one.captured or one.unseen_retrievals for one in stats)
    if not saw and (is_fork or not is_asked_about):
        return
    if sys.stderr is None:
        return
    sys.stderr.write(
        f"\nragmeter doctor: process {os.getpid()}, {visible_text(' '.join(sys.argv)) or 'python'}\n"
    )
    summary = SUMMARY if any(one.exported for one in stats) else NOT_SCORED
    findings = examine_application(meters, stats, said)
    if find_spec("rich") is None:
        write_findings(findings, sys.stderr, summary)
        return
    from ragmeter.cli._console import Console  # noqa: PLC0415 -- brings rich, at the very end

    print_findings(findings, Console(stderr=True, markup=False, highlight=False), summary)


def examine_application(
    meters: list[RagMeter], stats: list[MeterStats], said: Mapping[tuple[str, str], tuple[int, str]]
) -> Iterator[Finding]:
    """Yield findings about this process: its set-up, then its requests."""
    if not (_imported_frameworks() or {*_OTHERS, "ragmeter.meter"} & sys.modules.keys()):
        yield REQUESTS.warning(
            "requests",
            "nothing that answers was imported here; processes that it starts report themselves",
            f"if it does answer: {_ATTACH}",
        )
        return
    yield from _without_fine(check_configuration())
    from ragmeter.exporters.otel._providers import is_of_the_api  # noqa: PLC0415 -- at the end

    from ._backends import check_backends  # noqa: PLC0415 -- likewise
    from ._providers import Pipelines, check_providers  # noqa: PLC0415 -- likewise

    given: dict[str, Any] = {}  # providers passed to exporters of this process; the last one of a signal counts
    for one in [one for exporters in _examined_meters().values() for one in exporters]:
        given.update(getattr(one, "given_providers", dict)())
    pipelines = Pipelines(given)
    # Other vendors have their own SDK, such as Datadog.
    if is_of_the_api(pipelines.providers["traces"]) and not installed_version("opentelemetry-sdk"):
        yield APPLICATION.failed(
            "OpenTelemetry SDK", "not installed: nothing is sent", "pip install opentelemetry-sdk"
        )
    else:
        yield from check_providers(pipelines)
    yield from _frameworks()
    yield from _instrumentations()
    yield from _without_fine(check_instrumentations(os.environ))
    yield from check_backends(pipelines.destinations)
    if not meters:
        yield REQUESTS.failed(
            "requests",
            "ragmeter is not attached: no meter was made in this process, and no request is scored",
            _ATTACH if _imported_frameworks() else f"{_ATTACH}; or, where spans describe retrievals: {_SPANS}",
        )
    processors = getattr(sys.modules.get(_PROCESSORS), "processors", ())
    for account in [one for processor in processors for one in processor.accounts()]:
        spans = f"spans of {account.scope or 'no instrumentation'}"
        yield REQUESTS.ok(spans, f"{account.heard} heard, {account.scored} scored")
        for cause in account.causes:
            detail = f"{cause.count} of {account.heard} not scored: {cause.reason}"
            yield REQUESTS.warning(spans, detail, cause.line)
    for number, (meter, counted) in enumerate(zip(meters, stats, strict=True), 1):
        what = "requests" if len(meters) == 1 else f"requests of meter {number}"
        yield from _requests(what, meter, counted, said)
    yield from _log_findings(said)


def _examined_meters() -> Mapping[Any, Sequence[Any]]:
    """Return the meters of this process with their exporters."""
    return getattr(sys.modules.get("ragmeter._port"), "examined", None) or {}


def _without_fine(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Drop findings that are ok or skipped: this report is about the application, not the environment."""
    return (one for one in findings if one.state in ("warning", "failed"))


def _imported_frameworks() -> dict[str, str]:
    """Return the names of the frameworks that this process has imported, by adapter."""
    return {adapter: one.name for adapter, one in FRAMEWORKS.items() if one.probe in sys.modules}


def _frameworks() -> Iterator[Finding]:
    ours = _imported_frameworks().values()
    others = [name for module, name in _OTHERS.items() if module in sys.modules]
    if ours or others:
        yield APPLICATION.ok("frameworks", ", ".join([*ours, *others]))
    else:
        yield APPLICATION.skipped("frameworks", "none that is known was imported")


def _instrumentations() -> Iterator[Finding]:
    base = sys.modules.get("opentelemetry.instrumentation.instrumentor")
    found: set[str] = {f"{vendor} (imported)" for vendor in _VENDORS if vendor in sys.modules}
    waiting = [getattr(base, "BaseInstrumentor", None)]
    while waiting:
        cls = waiting.pop()
        if cls is None:
            continue
        waiting += cls.__subclasses__()
        made: Any = cls.__dict__.get("_instance")
        if getattr(made, "_is_instrumented_by_opentelemetry", False):
            found.add(f"{cls.__module__}.{cls.__name__}")
    yield (
        APPLICATION.ok("other instrumentations", ", ".join(sorted(found)))
        if found
        else APPLICATION.skipped("other instrumentations", "none is at work")
    )


def _requests(
    what: str, meter: RagMeter, stats: MeterStats, said: Mapping[tuple[str, str], tuple[int, str]]
) -> Iterator[Finding]:
    adapters = ", ".join(meter.port.adapters)
    unseen = stats.unseen_retrievals.get("no_retrieval", 0)
    if unseen:
        advice = [text for _, text in said.values() if "no retrieval was seen" in text]
        line = advice[-1].partition("not scored. ")[2].partition("; counted")[0] if advice else ""
        state = REQUESTS.warning if stats.captured else REQUESTS.failed
        yield state(
            what,
            f"{unseen} called a model, and no retrieval was seen in them: they gave no sample",
            line
            or "name the tool or function that retrieves: retrieval_tools=[...], retrieval_functions=[...]",
        )
    if not stats.captured and not unseen:
        loaded = _imported_frameworks().keys() - set(meter.port.adapters)
        fix = "was a question asked? If so: pass the handler to the call that answers, or use instrument()"
        if loaded or not adapters:
            fix = f"{_ATTACH}, or pass the handler to each call"
        if adapters == "opentelemetry":
            fix = f"attach(provider) with the provider that the instrumentation writes to, or {_ATTACH}"
        yield REQUESTS.failed(what, f"none was captured; attached: {adapters or 'nothing'}", fix)
    elif stats.captured:
        fate = f"{stats.captured} captured (by {adapters or 'hand'}), {stats.exported} exported"
        lost = ", ".join(f"{count} dropped ({reason})" for reason, count in stats.dropped.items())
        if not stats.exported:
            yield REQUESTS.failed(what, f"{fate}, {lost or f'{stats.in_flight} in flight'}", _fix(stats))
        elif stats.dropped or stats.in_flight:
            yield REQUESTS.warning(what, f"{fate}, {lost or f'{stats.in_flight} in flight'}", _fix(stats))
        else:
            yield REQUESTS.ok(what, fate)
    if shapes := stats.unseen_retrievals.get("unreadable_result"):
        advice = [text for _, text in said.values() if "named as retrieving" in text]
        yield REQUESTS.warning(
            what,
            f"of {shapes} what a named tool or function returned holds no document that is known",
            advice[0].partition("unknown. ")[2].partition(" (said")[0]
            if advice
            else "return texts or documents",
        )
    for component, count in stats.internal_errors.items():
        yield REQUESTS.warning(
            what, f"{count} errors of ragmeter's own in {component}, contained", "please report the log"
        )
    for exporter, count in stats.export_errors.items():
        yield REQUESTS.warning(what, f"{exporter} lost {count}", "read what it logged")


def _fix(stats: MeterStats) -> str:
    most = max(stats.dropped, key=lambda reason: stats.dropped[reason], default="shutdown")
    why, fix = _WHY.get(most, ("", "read the log; docs/production.md says what the reason means"))
    return f"{why}: {fix}" if why else fix


def _log_findings(said: Mapping[tuple[str, str], tuple[int, str]]) -> Iterator[Finding]:
    """Yield what exporters logged about telemetry that the backend rejected."""
    failures = [
        (count, logger, text)
        for (logger, template), (count, text) in said.items()
        if logger.startswith("opentelemetry") and "export" in f"{logger} {template}".lower()
    ]
    for count, logger, text in sorted(failures, reverse=True)[:5]:
        visible_text = _QUERY.sub("?...", text.splitlines()[0])[:200]
        yield REQUESTS.failed(
            "sending",
            f"{logger} logged, {count} times: {visible_text}",
            "the backend did not take what was exported: see its address above, protocol, path and key",
        )
