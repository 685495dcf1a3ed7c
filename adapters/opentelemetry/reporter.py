"""Traces → requests → the meter, with counts of unscored requests by convention and scope."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ragmeter.adapters._open_requests import ReportedOnce
from ragmeter.adapters._other_spans import captured
from ragmeter.adapters.reading.prompt_documents import PromptTemplates
from ragmeter.adapters.reading.results import RetrievalTool
from ragmeter.exporters.protocol import RagRun, Suspects
from ragmeter.quality.segments import OTHER
from ragmeter.requests.scope import RequestScope

from ._accounts import PROCESSOR_LINE, Accounts, Unheard, account_of, line_of, notes_of_unread
from ._earlier import EarlierRetrievals
from ._repeats import RecentRequests
from ._wholeness import Wholeness
from .assembly import AssembledTrace
from .build import build_run, is_scorable
from .heard import NO_REQUESTS, Account, HeardService
from .requests import OWN_SCOPE, FoundRequest, Reason, read_trace

if TYPE_CHECKING:
    from ragmeter import RagMeter

_log = logging.getLogger("ragmeter")
_MAX_MISSING = 100
"""Maximum number of separate scopes, by missing data: each is logged once."""
_MAX_SCOPE = 200


class Missing(NamedTuple):
    """A reason why requests are not scored in full, with their origin."""

    convention: str
    """The convention of their spans."""
    scope: str
    """The instrumentation."""
    reason: Reason
    """The reason why they are not scored, or not in full."""


class Reporter:
    """Offers the requests of complete traces to a meter, each once.

    Args:
        meter: Receives the requests.
        tools: The tools that retrieve.
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
        self._traces: Counter[str] = Counter()
        self._accounts = Accounts(in_process=not remote)
        self._wholeness = Wholeness()
        self._templates = PromptTemplates()
        self._recent = RecentRequests()
        self._earlier = EarlierRetrievals()
        self.partial = 0
        """Requests of which only a part arrived from other processes: offered, and not measured."""
        self.captured = 0
        """Requests that a callback had captured already, in this process or in the application's."""

    @property
    def missing(self) -> Mapping[Missing, int]:
        """Requests that could not be scored in full, by convention, scope and reason."""
        return dict(self._missing)

    def accounts(self) -> tuple[Account, ...]:
        """Return the received spans by service and instrumentation: number scored, and reasons for the rest."""
        return self._accounts.table()

    def heard(self) -> Sequence[HeardService]:
        """Return the outcome of each service's spans, the least scored first."""
        accounts: dict[str, list[Account]] = {name: [] for name in list(self._traces)}
        for one in self.accounts():
            accounts.setdefault(one.service, []).append(one)
        found = [_heard_of(name, self._traces[name], held) for name, held in accounts.items()]
        return sorted(found, key=lambda one: (one.scored > 0, -one.traces, one.service))

    def report(self, trace: AssembledTrace, scopes: Mapping[str, RequestScope] | None = None) -> None:
        """Offer the requests of a trace.

        Args:
            trace: The trace; a late one is read again for requests not seen before.
            scopes: The scopes set by the code around spans, by the span's id.
        """
        if self._remote:
            self._wholeness.see(trace.spans)
        requests, unheard = read_trace(
            trace.spans,
            trace.logs,
            self._tools,
            self._templates,
            repeats=trace.repeats,
            recent=self._recent,
            earlier=self._earlier,
        )
        # Handlers record their own; the server reports those of other processes.
        alone = not self._remote and self._meter.port.adapters == ("opentelemetry",)
        if alone or self._remote:
            self._note_heard(trace, unheard, any_request=bool(requests))
        for found in requests:
            before = self.captured
            if self._is_known(found, trace):
                if self.captured > before:
                    self._accounts.add(account_of(found, scored=False)._replace(reason="captured"))
                continue
            is_new = self._accounts.add(account_of(found, scored=is_scorable(found)))
            if self._remote and found.cut_off and not found.failed:
                half = self._wholeness.is_partial(
                    found.cut_off, answered=found.refused or found.answer is not None
                )
                found = replace(found, partial=half)  # noqa: PLW2901
            if found.reason is not None:
                self._note(found, found.reason, is_new=is_new and not is_scorable(found))
            if not is_scorable(found):
                self._meter.port.count_lost(found.reason or "error")
                continue
            self.partial += found.partial
            if self._pace is not None:
                self._pace()
            scope = _scope_of(found, scopes or {})
            texts = [found.question, found.answer, *(item.text for item in found.contexts)]
            self._meter.port.offer(
                partial(_build, found, scope, remote=self._remote),
                run_id=found.key,
                trace_id=int(found.trace_id, 16),
                size_bytes=sum(200 + 2 * len(text or "") for text in texts),
                scope=scope,
                alone=None if found.partial else self._earlier.note(found),
            )

    def _note_heard(self, trace: AssembledTrace, unheard: Sequence[Unheard], *, any_request: bool) -> None:
        """Count a trace for each of its services, with the reasons for spans without a request."""
        if trace.late:
            return
        others = [one for one in trace.spans if one.scope != OWN_SCOPE]
        for name in {one.service for one in others}:
            known = name in self._traces or len(self._traces) < _MAX_MISSING
            self._traces[name if known else OTHER] += 1
        silent = not any_request and not unheard and trace.scored is None
        if self._remote and others and silent:
            unheard = notes_of_unread(others)
        for one in unheard:
            is_new = self._accounts.add(one)
            if one.reason in NO_REQUESTS:
                continue
            if not self._remote:
                if not any_request and one.reason != "no_model_call":
                    look = partial(Suspects, PROCESSOR_LINE, one.suspects)
                    self._meter.port.retrieval_unseen("spans", "no_retrieval", look)
            elif is_new:
                _log.warning(
                    "calls traced by %s of %s are no requests: %s; %s (said once)",
                    one.scope or "spans", one.service or "a service", one.reason, line_of(one),
                )  # fmt: skip

    def _is_known(self, found: FoundRequest, trace: AssembledTrace) -> bool:
        """Return whether the request was reported before, here or by a callback."""
        # By its retrievals: its own span may arrive later than they.
        reads = () if found.earlier else (read for one in found.seen for read in one.retrievals)
        keys = [f"{found.trace_id}-{read.span.span_id}" for read in reads]
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

    def _note(self, found: FoundRequest, reason: Reason, *, is_new: bool) -> None:
        scope = found.scope[:_MAX_SCOPE]
        missing = Missing(found.convention, scope, reason)
        if missing not in self._missing and len(self._missing) >= _MAX_MISSING:
            missing = Missing(found.convention, OTHER, reason)
        self._missing[missing] += 1
        if (self._missing[missing] > 1 and not is_new) or reason == "retrieval_error":
            return
        one = account_of(found, scored=False)
        fix = line_of(one, in_process=not self._remote)
        _log.warning(
            "requests traced by %s of %s are %s: %s; %s (said once)",
            missing.scope or found.convention,
            one.service or "a service",
            "scored by ids only" if found.usable == "ids_only" else "not scored",
            reason,
            fix,
        )


def _build(found: FoundRequest, scope: RequestScope | None, *, remote: bool) -> RagRun:
    """Build the run of a request, on the worker: with it, the retrievals that waited for it are none."""
    for alone in found.earlier:
        alone.take()
    return build_run(found, scope, remote=remote)


def _heard_of(service: str, traces: int, accounts: Sequence[Account]) -> HeardService:
    """Return the outcome of a service's spans, merged from the outcomes per instrumentation."""
    heard = HeardService(service=service, traces=traces, accounts=tuple(accounts))
    reasons: Counter[str] = Counter()
    lines: dict[str, str] = {}
    for one in accounts:
        heard.heard += one.heard
        heard.requests += one.requests
        heard.scored += one.scored
        if one.heard > one.scored:
            heard.scopes[one.scope] = one.heard - one.scored
        for cause in one.causes:
            reasons[cause.reason] += cause.count
            lines.setdefault(cause.reason, cause.line)
            heard.tools += [name for name in cause.tools if name not in heard.tools]
    heard.reasons = dict(reasons.most_common())
    heard.fix = next((lines[name] for name in heard.reasons if name not in NO_REQUESTS), "")
    return heard


def _scope_of(found: FoundRequest, scopes: Mapping[str, RequestScope]) -> RequestScope | None:
    """Return the scope around the request; the innermost one wins."""
    merged: RequestScope | None = None
    for span in (*found.members, *filter(None, [found.span])):
        said = scopes.get(span.span_id)
        if said is not None and said is not merged:
            merged = said if merged is None else merged.merged_over(said)
    return merged
