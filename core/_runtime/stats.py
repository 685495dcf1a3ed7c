"""Count requests, and log about the meter itself and about single requests.

`Counters` always reconcile: ``captured = exported + every drop + in flight`` at any moment, because each
method moves a request between columns atomically. They may be called from anywhere, see `Tally`.
`NoDataWarning` warns if nothing arrives; `explain` describes the scores of one request.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from ragmeter.exporters.protocol import MeterStats, ScoredRun, Suspects
from ragmeter.metrics._process import fork
from ragmeter.metrics.errors import install_command

from .threads import taking

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import JudgeCall

logger = logging.getLogger("ragmeter")

REPEAT_AFTER_S = 60.0
"""Seconds during which a second error of the same kind in the same component is counted but not logged."""

_MAX_KINDS = 256

_Changes: TypeAlias = list[tuple[Hashable, int]]
Capture: TypeAlias = Iterator[_Changes]
"""A one-time record that a request was captured, ``iter([[CAPTURED]])``: the first reader counts it."""
CAPTURED: tuple[Hashable, int] = (("captured", ""), 1)
_EXPORTED = (("exported", ""), 1)
_TOTALS = ("captured", "exported", "judge_calls", "judge_cache_hits", "input_tokens", "output_tokens")
_BY_REASON = ("dropped", "judge_skipped", "export_errors", "unseen_retrievals", "amendments")
_EXPECTED = frozenset({"sampled_out", "paced", "decided", "fork", "no_provider"})


class OncePerMinute:
    """Limits logging to once a minute per kind. Thread-safe, bounded, without a lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[Hashable, tuple[float, object]] = {}

    def allows(self, kind: Hashable) -> bool:
        """Return whether to log this kind now; if so, remember it."""
        now = self._clock()
        last = self._logged.get(kind)
        if last is not None:
            if now - last[0] < REPEAT_AFTER_S:
                return False
            self._logged.pop(kind, None)
        elif len(self._logged) >= _MAX_KINDS:
            self._logged.clear()
        mine = (now, object())
        return self._logged.setdefault(kind, mine) is mine  # only one of two threads wins


class Counters:
    """The counters of `MeterStats`. Thread-safe; never waits for a lock."""

    def __init__(self) -> None:
        self._tally = Tally()
        self.count_capture: Callable[[Capture], None] = self._tally.note
        """Count a waiting request once, by the thread that puts it or the one that takes it out."""
        self._may_log = OncePerMinute()
        fork.forget(self._leave_to_parent)

    def withdraw(self) -> None:
        """Undo a capture that turned out not to be a request."""
        self._tally.add((("captured", ""), -1))

    def count_export(self) -> None:
        """Count a captured request that was exported."""
        self._tally.add(_EXPORTED)

    def count_drop(
        self,
        reason: str,
        capture: Capture | None = None,
        once: Iterator[bool] = repeat(True),  # noqa: B008 -- it is never at its end
    ) -> None:
        """Count a dropped request.

        Args:
            reason: Why.
            capture: The record of the request's capture, counted in the same step.
            once: Yields True as often as this may count, also if called again after an interrupt.
        """
        note: _Changes = [(("dropped", reason), 1)]
        self._tally.take(chain(capture or (), compress([note], once)))
        self._warn(reason, "requests are not scored")

    def count_lost(self, reason: str, count: int = 1) -> None:
        """Count requests that never reached the meter: captured and dropped at once."""
        self._tally.add((("captured", ""), count), (("dropped", reason), count))
        self._warn(reason, "requests are not scored")

    def judge_skipped(self, reason: str) -> None:
        """Count a request that is exported without some or all of its judged scores."""
        self._tally.add((("judge_skipped", reason), 1))
        self._warn(reason, "requests are not judged")

    def retrieval_unseen(self, reason: str) -> None:
        """Count a request whose retrieval was not seen."""
        self._tally.add((("unseen_retrievals", reason), 1))

    def count_amendment(self, outcome: str) -> None:
        """Count a late reference or feedback: ``applied`` or ``unknown``."""
        self._tally.add((("amendments", outcome), 1))

    def export_failed(self, exporter: str, count: int = 1) -> None:
        """Count runs that an exporter lost."""
        self._tally.add((("export_errors", exporter), count))

    def judge_called(self, call: JudgeCall) -> None:
        """Count one call to the judge, or one cache hit."""
        if call.cached:
            self._tally.add((("judge_cache_hits", ""), 1))
            return
        self._tally.add(
            (("judge_calls", ""), call.calls),
            (("input_tokens", ""), call.input_tokens),
            (("output_tokens", ""), call.output_tokens),
        )

    @property
    def n_captured(self) -> int:
        """Requests captured so far."""
        return self._tally.counts()["captured", ""]

    @property
    def in_flight(self) -> int:
        """Captured requests that are neither exported nor dropped yet."""
        return _in_flight(self._tally.counts())

    def snapshot(self, others: MeterStats) -> MeterStats:
        """Return all counters; `others` has the fields not counted here."""
        counts = self._tally.counts()
        found: dict[str, Any] = {name: counts[name, ""] for name in _TOTALS}
        found |= {name: _column(counts, name) for name in _BY_REASON}
        return replace(others, in_flight=_in_flight(counts), **found)

    def _warn(self, reason: str, consequence: str) -> None:
        # Sampling is intended, and a missing provider has its own message.
        if reason not in _EXPECTED and self._may_log.allows((reason, consequence)):
            logger.warning(
                "ragmeter: %s (%s); counted in RagMeter.stats() and ragmeter.dropped. "
                "(further ones are counted, not logged, for %d s)",
                consequence,
                reason,
                int(REPEAT_AFTER_S),
            )

    def _leave_to_parent(self) -> None:
        # In a forked child: the parent exports the requests in flight.
        inherited = self.in_flight
        self._tally.clear()
        if inherited > 0:
            self.count_lost("fork", inherited)


def _column(counts: Mapping[Hashable, int], name: str) -> dict[str, int]:
    return {str(key[1]): count for key, count in counts.items() if isinstance(key, tuple) and key[0] == name}


def _in_flight(counts: Mapping[Hashable, int]) -> int:
    gone = counts["exported", ""] + sum(_column(counts, "dropped").values())
    return counts["captured", ""] - gone


PATIENCE_S = 0.05
"""Seconds that a reader waits for a thread that applies changes, which it may have interrupted."""


class Tally:
    """Integer counters by key; all changes of one call become visible together.

    `add` may be called from anywhere: any thread, a finalizer, a signal handler. The garbage collector ends
    abandoned streams on any thread, under the locks that thread holds, and each end is counted. So adding
    never waits for a lock: it records the change, and the next caller that gets the lock without waiting
    applies it.

    An interrupt (Ctrl-C) may hit the main thread while it applies the records of others. So the counts and
    the last applied record change in one step.
    """

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._noted: deque[_Changes] = deque()
        self.note: Callable[[Iterable[_Changes]], None] = self._noted.extend
        """Record changes for the next `add` or `counts` to apply; cheap enough for a request's path. Each
        record is a separate list, recognised by identity. Reading them from a builtin iterator and recording
        them is one step."""
        self._applied: tuple[dict[Hashable, int], _Changes | None] = ({}, None)

    def add(self, *changes: tuple[Hashable, int]) -> None:
        """Add to some keys at once. Never waits."""
        self.take([[*changes]] if changes else ())

    def take(self, notes: Iterable[_Changes]) -> None:
        """Add changes and apply those that wait."""
        self._noted.extend(notes)
        # Again after releasing the lock: another thread may have recorded a change meanwhile.
        while self._noted and self._take_turn():
            pass

    def counts(self) -> Counter[Hashable]:
        """Return the counts of everything added before."""
        known = self._applied[0] if self._take_turn(PATIENCE_S) else self._sum_up()[0]
        self.add()
        return Counter(known)

    def clear(self) -> None:
        """Reset all counts, in a child process without other threads."""
        self._noted.clear()
        self._applied = ({}, None)

    def _take_turn(self, left_s: float = 0.0) -> bool:
        """Apply the recorded changes, unless another thread does; return whether this one did."""
        held = deque[bool]()
        try:
            held.extend(taking(self._lock, left_s))
            if held:
                self._apply()
            return bool(held)
        finally:
            if held:
                self._lock.release()

    def _apply(self) -> None:
        counts, last = self._applied = self._sum_up()
        if last is not None:
            _drop_up_to(last, self._noted)
            self._applied = counts, None

    def _sum_up(self) -> tuple[dict[Hashable, int], _Changes | None]:
        """Return the counts with all records so far, and the last record."""
        while True:
            known = self._applied
            noted = self._noted.copy()
            if known is self._applied:  # else another thread has applied the records meanwhile
                break
        counts, last = known
        if last is not None:
            _drop_up_to(last, noted)  # applied but still recorded: that thread was interrupted
        counts = counts.copy()
        for changes in noted:
            for key, change in changes:
                counts[key] = counts.get(key, 0) + change
        return counts, noted[-1] if noted else last


def _drop_up_to(last: _Changes, noted: deque[_Changes]) -> None:
    for one in noted.copy():
        if one is last:
            while noted.popleft() is not last:
                pass
            break


SOME = 3
"""Requests without a retrieval until a warning; with fewer, at the end of the process."""
_MAX_SUSPECTS = 10

QUIET_S = 300.0
"""Seconds without a request after which the first warning is due."""

THREE_LINES = "\n".join(
    "    " + line if line else ""
    for line in (
        "from opentelemetry import trace",
        "from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter",
        "from opentelemetry.sdk.trace import TracerProvider, export",
        "",
        "provider = TracerProvider()",
        "provider.add_span_processor(export.BatchSpanProcessor(OTLPSpanExporter()))",
        "trace.set_tracer_provider(provider)",
    )
)
"""Lines that set up an SDK provider for spans."""

# These lines are in the template, as arguments are logged on one line.
_NOWHERE = (
    "ragmeter: %s has nowhere to write to: the process has no OpenTelemetry SDK provider with a processor, "
    "it was shut down before meter.flush(), or OTEL_SDK_DISABLED is true. Requests that no other exporter "
    "takes are neither scored nor judged, and counted as `no_provider`. A provider that is not the global one "
    "has to be passed: RagMeter(exporters=[OpenTelemetryExporter(provider)]). Where there is none, set up the "
    "SDK at the start of the application (%s):\n" + THREE_LINES + "\nor install opentelemetry-distro and "
    "start it as `opentelemetry-instrument python app.py`. "
    'Without a backend: RagMeter(exporters="console") writes one line per request. '
    "A provider that is set later is found."
)


class NoDataWarning:
    """Warns once if adapters wait and nothing is captured, or nothing can be delivered.

    Checked when the meter's counters are read, as a metrics exporter does every minute: no thread, no timer.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._warned = False
        self._warned_undelivered = False
        self._unseen = 0
        self._lines: dict[str, tuple[set[str], set[str]]] = {}
        self._warned_names: set[tuple[str, str]] = set()
        self._warned_unnamed = False

    def expect_requests(self, adapter: str) -> None:
        """Record that an adapter waits for requests."""
        self._since.setdefault(adapter, self._clock())

    @property
    def adapters(self) -> tuple[str, ...]:
        """The waiting adapters."""
        return tuple(sorted(self._since))

    def check(self, captured: int) -> None:
        """Warn, once, if adapters have waited for long and nothing was captured."""
        if captured or self._warned or not self._since:
            return
        waited = self._clock() - min(self._since.values())
        if waited >= QUIET_S:
            self._warned = True
            logger.warning(
                "ragmeter is attached (%s) but has captured no request in %d s. Does the "
                "application retrieve through the framework, and is the handler passed to the call? "
                "`ragmeter doctor` checks the set-up.",
                ", ".join(sorted(self._since)),
                int(waited),
            )

    def retrieval_unseen(self, reason: str, suspects: Suspects, captured: int) -> None:
        """Record a request without a seen retrieval; after some of them, warn with the fix.

        Args:
            reason: ``no_retrieval`` or ``unreadable_result``.
            suspects: Possible retrievers of the request.
            captured: Requests captured so far.
        """
        if reason == "unreadable_result":
            if self._is_new(reason, (*suspects.tools, *suspects.functions)):
                logger.warning(
                    "ragmeter: what %s returned is neither a text nor documents, though it is named as "
                    "retrieving: contexts of such requests are unknown. Have it return texts, or "
                    "mappings with `text` and `id`, or name their place: contexts=... (logged once)",
                    _quote_all((*suspects.tools, *suspects.functions)),
                )
            return
        self._unseen += 1
        self._lines.setdefault(suspects.line, (set(), set()))
        for known, names in zip(self._lines[suspects.line], suspects[1:], strict=True):
            if len(known) < _MAX_SUSPECTS:
                known.update(names)
        if self._unseen >= SOME:
            self.warn_unseen(captured)

    def warn_unseen(self, captured: int) -> None:
        """Warn of requests without a seen retrieval, unless logged; 0 captured: also without suspects."""
        for line, (tools, functions) in self._lines.items():
            options = [
                f"{option}={sorted(names - {''}) or ['search']}".replace("'", '"')
                for option, names in (("retrieval_tools", tools), ("retrieval_functions", functions))
                if names
            ]
            if not options and (captured or self._warned_unnamed):
                continue
            if options and not self._is_new("no_retrieval", (*tools, *functions)):
                continue
            self._warned_unnamed = True
            who = " and ".join(
                f"the {kind} {_quote_all(names) if names - {''} else 'without a name (give it one)'}"
                for kind, names in (("tool", tools), ("function", functions))
                if names
            )
            logger.warning(
                "ragmeter: %d requests called a model, and no retrieval was seen in them: they are not "
                "scored. %s; counted in RagMeter.stats().unseen_retrievals and ragmeter.requests. (logged "
                "once)",
                self._unseen,
                f"What {who} gave out stood in the model's prompt: if that was retrieved, say "
                + line.format(", ".join(options))
                if options
                else "If they retrieve, have a retriever, tool or function of the framework's do it and name "
                "it, " + line.format('retrieval_tools=["search"]') + ", or record them by hand: "
                "`with meter.request(question) as request: request.retrieved(texts)`",
            )

    def _is_new(self, reason: str, names: Sequence[str]) -> bool:
        new = {(reason, name) for name in names} - self._warned_names
        if len(self._warned_names) < _MAX_KINDS:
            self._warned_names |= new
        return bool(new) and len(self._warned_names) < _MAX_KINDS

    def warn_undelivered(self, exporters: Sequence[str], *, is_all: bool) -> None:
        """Log once that these exporters have nowhere to write to: an error if they are all of them."""
        if self._warned_undelivered:
            return
        self._warned_undelivered = True
        names = " and ".join(exporters)
        if is_all:
            logger.error(_NOWHERE, names, install_command("otlp"))
        else:
            logger.warning(
                "ragmeter: no OpenTelemetry SDK for %s to write to; the other exporters get every score", names
            )


def _quote_all(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names) if name)


explanations = logging.getLogger("ragmeter.explain")
"""The pipeline logs the `explain` text of every request here at DEBUG."""


def explain(result: ScoredRun) -> str:
    """Return a few lines about a result: what was captured, each score or why it is missing, the verdict.

    They quote no question, context or answer.
    """
    run, sample = result.run, result.sample
    contexts = "not captured" if sample.contexts is None else f"{len(sample.contexts)} contexts"
    given = "no reference"
    if sample.reference is not None:
        given = "reference with " + (", ".join(sorted(sample.reference.model_fields_set)) or "nothing")
    lines = [
        f"request {run.run_id} ({run.framework}, status {sample.status}): {contexts}, "
        f"{'an' if sample.answer is not None else 'no'} answer, {given}"
        + (", late scores" if result.late else "")
    ]
    for score in result.scores.values():
        value = "no value" if score.value is None else f"{score.value:.4g}"
        # The explanation of a score with a value may quote content; one without a value is ragmeter's text.
        why = f": {score.explanation}" if score.value is None and score.explanation else ""
        if score.status == "partial":
            why = f": some verdicts are unknown, {score.lower:.4g} to {score.upper:.4g}"
        lines.append(f"  {score.name}: {value}, {score.status}{why}")
    if result.verdict is not None:
        lines.append(f"  verdict: {result.verdict.word}")
        lines += [f"    {reason}" for reason in result.verdict.reasons]
    return "\n".join(lines)
