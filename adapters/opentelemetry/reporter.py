"""Traces → requests → the meter; and what of them could not be scored, counted by convention and scope."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ragmeter.adapters._open_requests import ReportedOnce
from ragmeter.adapters._other_spans import captured
from ragmeter.adapters._unseen import Lookout
from ragmeter.quality.segments import OTHER
from ragmeter.requests.scope import RequestScope

from ._passages import RetrievalTool
from ._wholeness import Wholeness
from .assembly import AssembledTrace
from .build import build_run, is_scorable
from .conventions import READERS
from .requests import FoundRequest, Reason, find_requests
from .unseen import unseen_in

if TYPE_CHECKING:
    from ragmeter import RagMeter

__all__ = ["Missing", "Reporter"]

_log = logging.getLogger("ragmeter")
_SWITCHES: Mapping[str, str] = {reader.name: reader.switch for reader in READERS}
_FIXES: Mapping[Reason, str] = {
    "convention_has_no_text": "the convention tells ids only; use an instrumentation that tells texts",
    "content_in_logs": "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    "truncated": "set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=1000 and no limit on the length of values",
    "no_retrieval_span": "the instrumentation does not trace retrievals",
    "unreadable_result": "a retriever or a tool named in retrieval_tools returns neither texts nor documents",
}


_MAX_MISSING = 100
"""Scopes that are kept separate, by what they lack: each is said once."""
_MAX_SCOPE = 200


class Missing(NamedTuple):
    """What requests lack, and who wrote them."""

    convention: str
    """The convention of their spans."""
    scope: str
    """The instrumentation."""
    reason: Reason
    """Why they are not scored, or not in full."""


class Reporter:
    """Offers the requests of complete traces to a meter, each once.

    Args:
        meter: Takes the requests.
        tools: Which tools retrieve.
        remote: Whether the spans come from other processes; else a request that a callback of this
            process captured is left out.
        pace: Called before each request is offered; returns when there is room for it.
    """

    def __init__(
        self,
        meter: RagMeter,
        tools: Sequence[RetrievalTool] = (),
        *,
        remote: bool = False,
        pace: Callable[[], object] | None = None,
    ) -> None:
        self._meter = meter
        self._tools = tools
        self._remote = remote
        self._pace = pace
        self._once = ReportedOnce()
        self._missing: Counter[Missing] = Counter()
        self._wholeness = Wholeness()
        self._lookout = Lookout(meter, "spans", "RagMeterSpanProcessor(meter, {})")
        self.partial = 0
        """Requests of which only a part came from other processes: offered, and not measured."""
        self.captured = 0
        """Requests that a callback had captured already, in this process or in the application's."""

    @property
    def missing(self) -> Mapping[Missing, int]:
        """Requests that could not be scored in full, by convention, scope and reason."""
        return dict(self._missing)

    def report(
        self, trace: AssembledTrace, scopes: Mapping[str, RequestScope] | None = None
    ) -> None:
        """Offer the requests of a trace.

        Args:
            trace: The trace; late, it is looked at again for what was not seen before.
            scopes: What the code around a span said, by the span's id.
        """
        if self._remote:
            self._wholeness.see(trace.spans)
        requests = find_requests(trace.spans, trace.logs, self._tools)
        # Handlers note their own; of other processes' requests the server tells.
        alone = not self._remote and self._meter.port.adapters == ("opentelemetry",)
        if alone and not requests and not trace.late:
            self._note_unseen(trace)
        for found in requests:
            if self._is_known(found, trace):
                continue
            if self._remote and found.cut_off and not found.failed:
                half = self._wholeness.is_partial(
                    found.cut_off, answered=found.refused or found.answer is not None
                )
                found = replace(found, partial=half)  # noqa: PLW2901
            if found.reason is not None:
                self._note(found, found.reason)
            if not is_scorable(found):
                self._meter.port.count_lost(found.reason or "error")
                continue
            self.partial += found.partial
            if self._pace is not None:
                self._pace()
            scope = _scope_of(found, scopes or {})
            texts = [found.question, found.answer, *(item.text for item in found.contexts)]
            self._meter.port.offer(
                partial(build_run, found, scope, remote=self._remote),
                run_id=found.key,
                trace_id=int(found.trace_id, 16),
                size_bytes=sum(200 + 2 * len(text or "") for text in texts),
                scope=scope,
            )

    def _note_unseen(self, trace: AssembledTrace) -> None:
        """Note a trace of this process in which a model was called and nothing is known to retrieve."""
        unseen = unseen_in(trace.spans)
        if unseen.calls:
            self._lookout.note(unseen.calls, unseen.given, None, unseen.said)

    def _is_known(self, found: FoundRequest, trace: AssembledTrace) -> bool:
        """Return whether the request was reported before, here or by a callback."""
        # By its retrievals: its own span may come later than they.
        keys = [
            f"{found.trace_id}-{read.span.span_id}" for one in found.seen for read in one.retrievals
        ]
        firsts = [self._once.is_first(key) for key in keys or [found.key]]
        if not all(firsts):
            return True
        spans = {span.span_id for span in found.members}
        first = found.span or found.members[0]
        period = first.started_ns, first.ended_ns
        if (trace.scored is not None and trace.scored.covers(spans, *period)) or (
            not self._remote and captured.covers(found.trace_id, spans, *period)
        ):
            self.captured += 1
            return True
        return False

    def _note(self, found: FoundRequest, reason: Reason) -> None:
        scope = found.scope[:_MAX_SCOPE]
        missing = Missing(found.convention, scope, reason)
        if missing not in self._missing and len(self._missing) >= _MAX_MISSING:
            missing = Missing(found.convention, OTHER, reason)
        self._missing[missing] += 1
        if self._missing[missing] > 1 or reason == "retrieval_error":
            return
        fix = _FIXES.get(reason) or _SWITCHES.get(found.convention, "")
        _log.warning(
            "requests traced by %s are %s: %s; %s (said once)",
            missing.scope or found.convention,
            "scored by ids only" if found.usable == "ids_only" else "not scored",
            reason,
            fix,
        )


def _scope_of(found: FoundRequest, scopes: Mapping[str, RequestScope]) -> RequestScope | None:
    """Return what was said around the request: innermost first, as it is the more special."""
    merged: RequestScope | None = None
    for span in (*found.members, *filter(None, [found.span])):
        said = scopes.get(span.span_id)
        if said is not None and said is not merged:
            merged = said if merged is None else merged.merged_over(said)
    return merged
