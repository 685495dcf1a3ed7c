"""The requests of the last minutes, kept for late references and feedback.

A reference or a user's feedback often comes after the answer.  The pipeline
remembers what it exported within a bounded window (number, bytes, age) by run id and by trace
id; `RagMeter.attach_reference` and `RagMeter.feedback` look it up here.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import get_args
from uuid import UUID

from ragmeter.exporters.protocol import RagRun, ScoredRun, Selection
from ragmeter.metrics import ConfigurationError, Reference, Score, ScoreDirection, Verdict
from ragmeter.metrics._process import fork
from ragmeter.requests.size import weight_of_run

__all__ = ["Amendment", "ExportedRequest", "LateWindow", "feedback_score", "request_key"]


@dataclass(frozen=True, slots=True)
class Amendment:
    """Something learned about a request after it was exported."""

    key: str
    """Run id, or trace id as 32 hexadecimal digits."""
    reference: Reference | None = None
    """What should have been said and found."""
    score: Score | None = None
    """What a user thought of it."""
    again: ScoredRun | None = None
    """The request with its reference, as the process that captured it sent it: it need not be remembered."""


def request_key(run_or_trace_id: object) -> str:
    """Return the key of a request: run ids as they are, trace ids as 32 hexadecimal digits.

    Raises:
        ConfigurationError: It is neither.
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
        ConfigurationError: An argument is not what it should be; says what it should be.
    """
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise ConfigurationError(
            "feedback(name=) is not snake case; pass a name such as 'thumbs_up'"
        )
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigurationError("feedback(value=) is no finite number; pass e.g. 1.0 or 0.0")
    if not isinstance(label, str | None) or not isinstance(explanation, str | None):
        raise ConfigurationError("feedback(label=) and feedback(explanation=) are texts")
    if direction not in get_args(ScoreDirection):
        words = ", ".join(get_args(ScoreDirection))
        raise ConfigurationError(f"feedback(direction=) is one of {words}")
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
    """The request, as it is now known."""
    sample_rate: float
    """The probability with which it was chosen to be scored."""
    selection: Selection
    """Whether it was sampled, or only kept for being bad."""
    since: float
    """When it was taken in (monotonic)."""
    size: int
    """What it weighs, in bytes."""
    revisions: int = 0
    """How often something was learned about it."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Those of its scores that the verdict reads."""
    verdict: Verdict | None = None
    """What was said of it last."""


class LateWindow:
    """A bounded window of exported runs. Thread-safe.

    Args:
        max_runs: How many are remembered; 0: none.
        max_bytes: How many bytes they may take, as `weight_of_run` estimates them.
        max_age_s: None older than this.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        max_runs: int,
        max_bytes: int,
        max_age_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = fork.reentrant_lock()  # a signal handler may flush on top of a flush
        self._fresh()
        fork.forget(self._fresh)  # in a child: they are the parent's

    def _fresh(self) -> None:
        self._runs: OrderedDict[str, ExportedRequest] = OrderedDict()
        self._by_trace: dict[str, str] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def remember(
        self,
        run: RagRun,
        sample_rate: float = 1.0,
        selection: Selection = "sampled",
        size_bytes: int | None = None,
    ) -> None:
        """Add a run, or replace what is known of it, and forget the oldest beyond the bounds.

        Args:
            run: The run.
            sample_rate: The probability with which it was chosen to be scored.
            selection: How it came to be scored.
            size_bytes: What it holds on to; None: it is weighed.
        """
        if not self._max_runs:
            return
        size = weight_of_run(run) if size_bytes is None else size_bytes
        entry = ExportedRequest(run, sample_rate, selection, self._clock(), size)
        with self._lock:
            self._put(entry)

    def find(self, key: str) -> ExportedRequest | None:
        """Return the run with this run id or trace id (the newest of the trace), or None."""
        with self._lock:
            entry = self._runs.get(self._by_trace.get(key, key))
            if entry is None or self._clock() - entry.since > self._max_age_s:
                return None
            return entry

    def learn(self, run_id: str, values: Mapping[str, float], verdict: Verdict | None) -> None:
        """Add what a result says, for the verdict on what comes later.

        Args:
            run_id: Of which request.
            values: Those of its scores that the verdict reads.
            verdict: The verdict that goes out with it; None: it is the one before.
        """
        with self._lock:
            entry = self._runs.get(run_id)
            if entry is not None:
                entry.values = {
                    **entry.values,
                    **values,
                }  # a new one: others read it without the lock
                entry.verdict = verdict or entry.verdict

    def revise(self, found: ExportedRequest, run: RagRun, *, is_new: bool) -> str:
        """Put `run` in the place of what was found; return the name of that revision.

        Args:
            found: What is remembered.
            run: The request as it is now known.
            is_new: Whether something about it is new. What was already known and is said again is
                the revision it was: exporting that again changes nothing at the backend.
        """
        revisions = found.revisions + 1 if is_new else max(1, found.revisions)
        entry = ExportedRequest(
            run,
            found.sample_rate,
            found.selection,
            self._clock(),
            weight_of_run(run),
            revisions,
            found.values,
            found.verdict,
        )
        with self._lock:
            self._put(entry)
        return str(revisions)

    def _put(self, entry: ExportedRequest) -> None:
        run = entry.run
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
