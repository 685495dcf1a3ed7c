"""Remember recently exported requests for late references and feedback.

The window is bounded by number, bytes and age, and indexed by run id and trace id;
`RagMeter.attach_reference` and `RagMeter.feedback` use it.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args
from uuid import UUID

from ragmeter.exporters.protocol import RagRun, ScoredRun, Selection
from ragmeter.metrics import ConfigurationError, Reference, Score, ScoreDirection, Verdict
from ragmeter.metrics._process import fork
from ragmeter.requests.size import weight_of_run


@dataclass(frozen=True, slots=True)
class Amendment:
    """A reference or feedback that arrives after the export of a request."""

    key: str
    """Run id, or trace id as 32 hexadecimal digits."""
    reference: Reference | None = None
    """The expected answer and contexts."""
    score: Score | None = None
    """A user's feedback."""
    again: ScoredRun | None = None
    """The request with its reference, sent by the process that captured it; it need not be in the window."""


def request_key(run_or_trace_id: object) -> str:
    """Return the key of a request: run ids as they are, trace ids as 32 hexadecimal digits.

    Raises:
        ConfigurationError: The id has another type.
    """
    if isinstance(run_or_trace_id, str):
        return run_or_trace_id
    if isinstance(run_or_trace_id, UUID):
        return str(run_or_trace_id)
    if isinstance(run_or_trace_id, int) and run_or_trace_id > 0:
        return f"{run_or_trace_id:032x}"
    raise ConfigurationError(
        f"a request is named by its run id, or by its trace id as a number or 32 hexadecimal digits, not "
        f"by a {type(run_or_trace_id).__name__}"
    )


def feedback_score(
    name: object, value: object, label: object, explanation: object, direction: ScoreDirection
) -> Score:
    """Return a user's feedback on a request as a score.

    Raises:
        ConfigurationError: An argument is invalid.
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise ConfigurationError("feedback(name=) is not snake case; pass a name such as 'thumbs_up'")
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigurationError("feedback(value=) is not a finite number; pass e.g. 1.0 or 0.0")
    if not isinstance(label, str | None) or not isinstance(explanation, str | None):
        raise ConfigurationError("feedback(label=) and feedback(explanation=) must be strings")
    if direction not in get_args(ScoreDirection):
        words = ", ".join(get_args(ScoreDirection))
        raise ConfigurationError(f"feedback(direction=) must be one of {words}")
    bounded = 0.0 <= value <= 1.0
    return Score(
        name=name,
        value=float(value),
        status="ok",
        method="human",
        definition="feedback-1",
        target="answer",
        label=label,
        explanation=explanation,
        range=(0.0, 1.0) if bounded else (min(0.0, value), None),
        direction=direction,
    )


@dataclass(slots=True)
class ExportedRequest:
    """A request that was exported."""

    run: RagRun
    """The request with all amendments."""
    sample_rate: float
    """Its probability of being scored."""
    selection: Selection
    """Whether it was sampled, or selected only for being bad."""
    since: float
    """Time of its last update (monotonic)."""
    size: int
    """Estimated size in bytes."""
    revisions: int = 0
    """Number of amendments."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Its scores that the verdict reads."""
    verdict: Verdict | None = None
    """Its last verdict."""


class LateWindow:
    """A bounded window of exported runs. Thread-safe.

    Args:
        max_runs: Most remembered runs; 0: none.
        max_bytes: Most bytes, estimated by `weight_of_run`.
        max_age_s: Largest age in seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self, *, max_runs: int, max_bytes: int, max_age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = fork.reentrant_lock()  # a signal handler may flush during a flush
        self._fresh()
        fork.forget(self._fresh)  # a forked child has none

    def _fresh(self) -> None:
        self._runs: OrderedDict[str, ExportedRequest] = OrderedDict()
        self._by_trace: dict[str, str] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def remember(self, run: RagRun, sample_rate: float, selection: Selection, size_bytes: int) -> None:
        """Add or replace a run with its sampling and size; drop the oldest beyond the bounds."""
        if self._max_runs:
            self._put(ExportedRequest(run, sample_rate, selection, self._clock(), size_bytes))

    def find(self, key: str) -> ExportedRequest | None:
        """Return the run with this run id or trace id (the newest of the trace), or None."""
        with self._lock:
            entry = self._runs.get(self._by_trace.get(key, key))
            if entry is None or self._clock() - entry.since > self._max_age_s:
                return None
            return entry

    def learn(self, run_id: str, values: Mapping[str, float], verdict: Verdict | None) -> None:
        """Add an exported result, for the verdict on later ones.

        Args:
            run_id: The request.
            values: Its scores that the verdict reads.
            verdict: The exported verdict; None: unchanged.
        """
        with self._lock:
            entry = self._runs.get(run_id)
            if entry is not None:
                entry.values = {**entry.values, **values}  # a new mapping: others read it without the lock
                entry.verdict = verdict or entry.verdict

    def revise(self, found: ExportedRequest, run: RagRun, *, is_new: bool) -> str:
        """Replace a remembered request by `run`; return the name of the revision.

        Args:
            found: The remembered request.
            run: The amended request.
            is_new: Whether the amendment is new. A repeated one keeps its revision, so that exporting it
                again changes nothing at the backend.
        """
        revisions = found.revisions + 1 if is_new else max(1, found.revisions)
        now, size = self._clock(), weight_of_run(run)
        self._put(replace(found, run=run, since=now, size=size, revisions=revisions))
        return str(revisions)

    def _put(self, entry: ExportedRequest) -> None:
        run = entry.run
        with self._lock:
            self._forget(run.run_id)
            self._runs[run.run_id] = entry
            self._bytes += entry.size
            if run.trace_id is not None:
                self._by_trace[request_key(run.trace_id)] = run.run_id
            while self._runs:
                name, oldest = next(iter(self._runs.items()))
                if (
                    len(self._runs) <= self._max_runs
                    and self._bytes <= self._max_bytes
                    and entry.since - oldest.since <= self._max_age_s
                ):
                    break
                self._forget(name)

    def _forget(self, run_id: str) -> None:
        entry = self._runs.pop(run_id, None)
        if entry is None:
            return
        self._bytes -= entry.size
        trace_id = entry.run.trace_id
        if trace_id is not None:
            trace_key = request_key(trace_id)
            if self._by_trace.get(trace_key) == run_id:
                del self._by_trace[trace_key]
