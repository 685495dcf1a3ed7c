"""What ``ragmeter run`` begins in the program's process, before its first line.

A meter of the settings, attached to every installed framework, with providers of its own: what the program
registers itself, before or after, stays as it is.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence

from ragmeter import RagMeter, ScoredRun
from ragmeter.adapters import FRAMEWORKS, installed, instrument
from ragmeter.cli._otlp import SIGNALS
from ragmeter.cli._telemetry import sending_providers
from ragmeter.config import meter_arguments
from ragmeter.exporters import semconv
from ragmeter.exporters.console import ConsoleExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import RagmeterError

from .plan import PLAN, Plan

__all__ = ["begin"]


class _VerdictCounts:
    """An exporter that counts the words of verdicts, for the last line."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()

    def export(self, batch: Sequence[ScoredRun]) -> None:
        for scored in batch:
            if not scored.late:
                self.words[scored.verdict.word if scored.verdict else "unknown"] += 1

    def flush(self, timeout_s: float) -> bool:
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        del timeout_s


def begin() -> None:
    """Attach a meter to the frameworks of this process. Never raises: the program begins, come what may."""
    counts = _VerdictCounts()
    plan = Plan(*json.loads(os.environ[PLAN]))
    is_the_program = plan.process == os.getpid()
    if is_the_program:
        # Registered before the meter, which flushes at exit: called after it.
        atexit.register(_say_how_it_went, counts, plan.url)
    if not any(installed(probe) for probe, _ in FRAMEWORKS.values()):
        if is_the_program:
            _say("neither LangChain nor LlamaIndex is installed here: nothing can be scored")
        return
    try:
        instrument(_meter(plan, counts))
    except RagmeterError as error:
        _say(str(error))


def _meter(plan: Plan, counts: _VerdictCounts) -> RagMeter:
    arguments = meter_arguments()
    if plan.to == "phoenix":
        arguments["exporters"] = [*arguments["exporters"], counts]
        return RagMeter(**arguments)
    is_page = plan.to == "page"
    # The page is on this machine; elsewhere texts go when they are let.
    texts = True if is_page and semconv.CAPTURE_CONTENT_VARIABLE not in os.environ else None
    otel = OpenTelemetryExporter(
        **sending_providers(
            plan.url,
            plan.protocol,
            SIGNALS[:2] if is_page else SIGNALS,
            plan.name,
            token=os.environ.get("RAGMETER_SERVE_TOKEN") if is_page else None,
        ),
        # The program's own spans go elsewhere, if it has any: here each request stands for itself.
        span_mode="own",
        capture_content=texts,
    )
    console = ConsoleExporter(
        capture_content=texts,
        spans=otel,
        trace_url=f"{plan.url}/trace/{{trace_id}}" if is_page else None,
    )
    arguments["exporters"] = [otel, console, counts]
    return RagMeter(**arguments)


def _say_how_it_went(counts: _VerdictCounts, look_at: str) -> None:
    if not counts.words:
        _say("no RAG request was seen; ragmeter doctor says why")
        return
    _say(
        ", ".join(f"{count} {word}" for word, count in counts.words.items())
        + f"; look at {look_at}"
    )


def _say(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"ragmeter run: {line}\n")
