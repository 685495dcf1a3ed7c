"""Shows the requests of the program's process: the heavy part of ``ragmeter run``.

Attaches a meter made from the settings to every framework, with its own providers, so that those of the
program stay as they are.  If the program makes a meter, that one scores instead, and these exporters join its
exporters.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from ragmeter import RagMeter, ScoredRun
from ragmeter.adapters import forget_default, instrument, uninstrument
from ragmeter.cli._telemetry import sending_providers
from ragmeter.exporters import semconv
from ragmeter.exporters._otlp import SIGNALS
from ragmeter.exporters.console import ConsoleExporter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.exporters.protocol import Exporter, UnbufferedExporter
from ragmeter.settings.config import read_settings
from ragmeter.settings.destinations import exporters_of
from ragmeter.settings.from_settings import meter_arguments, spans_exporter

from .plan import Plan


class _VerdictCounts(UnbufferedExporter):
    """An exporter that counts verdicts by word, for the last line."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()

    def export(self, batch: Sequence[ScoredRun]) -> None:
        for scored in batch:
            if not scored.late:
                self.words[scored.verdict.word if scored.verdict else "unknown"] += 1


class Display:
    """Shows the requests of the program's meters, or those of a meter made here while there is none."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._counts: list[_VerdictCounts] = []
        self.is_attached = False
        """Whether a meter made here scores."""

    def attach(self) -> None:
        """Attach a meter to the frameworks, until the program makes one.

        Raises:
            RagmeterError: The meter cannot be made.
        """
        arguments = meter_arguments()
        kept = [one for one in arguments.get("exporters", ()) if isinstance(one, JsonlExporter)]
        arguments["exporters"] = [*kept, *self._exporters(())]
        instrument(RagMeter(**arguments))
        forget_default()
        self.is_attached = True

    def join(self, theirs: Sequence[Exporter]) -> Iterable[Exporter]:
        """Return the exporters to add to a meter of the program, and detach the meter made here."""
        made = self._exporters(theirs)
        if self.is_attached:
            self.is_attached = False
            uninstrument()
        return made

    @property
    def words(self) -> Counter[str]:
        """Number of requests by word of the verdict."""
        return sum((counts.words for counts in self._counts), Counter())

    def _exporters(self, theirs: Sequence[Exporter]) -> list[Exporter]:
        """Return the exporters that show a meter's requests, in addition to the meter's own."""
        found = self._to_phoenix(theirs) if self._plan.to == "phoenix" else self._to_otlp()
        if any(isinstance(one, ConsoleExporter) for one in theirs):
            found = [one for one in found if not isinstance(one, ConsoleExporter)]
        self._counts.append(_VerdictCounts())
        return [*found, self._counts[-1]]

    def _to_phoenix(self, theirs: Sequence[Exporter]) -> list[Exporter]:
        spans = [one for one in theirs if hasattr(one, "judged_spans")][:1]
        annotated = any(isinstance(one, PhoenixAnnotations) for one in theirs)
        names = ["console"] if annotated else ["phoenix", "console"]
        found = exporters_of([*spans, *names], partial(spans_exporter, read_settings()))
        return [one for one in found if one not in spans]

    def _to_otlp(self) -> list[Exporter]:
        plan, is_page = self._plan, self._plan.to == "page"
        # The page is on this machine; texts are sent elsewhere only if allowed.
        texts = True if is_page and semconv.CAPTURE_CONTENT_VARIABLE not in os.environ else None
        otel = OpenTelemetryExporter(
            **sending_providers(
                plan.url,
                plan.protocol,
                SIGNALS[:2] if is_page else SIGNALS,
                plan.name,
                token=os.environ.get("RAGMETER_SERVE_TOKEN") if is_page else None,
            ),
            # The program's own spans, if any, go elsewhere: here each request is a separate trace.
            span_mode="own",
            capture_content=texts,
        )
        console = ConsoleExporter(
            capture_content=texts, spans=otel, trace_url=f"{plan.url}/trace/{{trace_id}}" if is_page else None
        )
        return [otel, console]
