"""Decides which spans a scored request gets and which scores stand on which. Pure.

==============  ===================================================================
span mode       what is written
==============  ===================================================================
``auto``        The request's own spans where no other instrumentation recorded it,
                with the scores on them; otherwise one ``evaluation`` span per judged
                span.  Where others recorded the retrieval but not the request
                around it, one of each.
``own``         The request's own spans, whatever others recorded.
``evaluation``  ``evaluation`` spans only, about what others recorded or, failing
                that, about the application's span around the request.
``off``         No spans; events and metrics still point at the spans known.
==============  ===================================================================

Late scores always go on an ``evaluation`` span: an ended span cannot change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragmeter.exporters.protocol import Retrieval, ScoredRun
from ragmeter.metrics import Score

__all__ = ["SPAN_MODES", "SpanMode", "SpanPlan", "plan_spans"]

SpanMode = Literal["auto", "own", "evaluation", "off"]
SPAN_MODES: tuple[SpanMode, ...] = ("auto", "own", "evaluation", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanPlan:
    """What to write for one `ScoredRun`."""

    request: bool = False
    """Whether to write the request's own ``invoke_workflow`` span."""
    retrievals: tuple[Retrieval, ...] = ()
    """The retrievals to write own ``retrieval`` spans for."""
    on_request: tuple[Score, ...] = ()
    """Scores that stand on the own request span."""
    on_retrieval: tuple[Score, ...] = ()
    """Scores that stand on the one own retrieval span."""
    beside: tuple[Score, ...] = ()
    """Scores that go on ``evaluation`` spans."""
    bare: bool = False
    """Whether the request is nothing but one retrieval: its span is the request's span."""


def plan_spans(scored: ScoredRun, mode: SpanMode) -> SpanPlan:
    """Return the plan for `scored`."""
    run = scored.run
    scores = tuple(scored.scores.values())
    bare = run.sample.status == "retrieval_only" and len(run.retrievals) == 1
    if mode == "off":
        return SpanPlan(bare=bare)
    if scored.late or mode == "evaluation":
        return SpanPlan(beside=scores, bare=bare)
    everything = mode == "own"
    # With a recorded request, a retrieval without a known span was most likely recorded too.
    retrievals = tuple(
        [
            retrieval
            for retrieval in run.retrievals
            if everything or (run.target is None and retrieval.target is None)
        ]
    )
    request = not bare and (everything or run.target is None)
    if len(run.retrievals) == 1:
        elsewhere = run.retrievals[0].target is not None and not everything
        retrieval_home = "retrieval" if retrievals else "beside" if elsewhere else "request"
    else:
        retrieval_home = "request"
    answer_home = "retrieval" if bare and retrievals else "request"
    homes = {"retrieval": retrieval_home, "answer": answer_home}
    if not request:
        homes = {key: "beside" if home == "request" else home for key, home in homes.items()}
    at: dict[str, list[Score]] = {"request": [], "retrieval": [], "beside": []}
    for score in scores:
        at[homes[score.target]].append(score)
    return SpanPlan(
        request=request,
        retrievals=retrievals,
        on_request=tuple(at["request"]),
        on_retrieval=tuple(at["retrieval"]),
        beside=tuple(at["beside"]),
        bare=bare,
    )
