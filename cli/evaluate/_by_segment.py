"""``--segments``: means and decisions for each segment of a data set.

A row's segments come from its other fields, as for live requests.  Called by `_sums`; keeps some thousand
numbers for each segment, and bounds the number of segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragmeter.exporters.protocol import RagRun, Retrieval
from ragmeter.metrics import Score
from ragmeter.metrics._display.summary import ScoreSummary, Summarizer
from ragmeter.metrics._files.samples import Row
from ragmeter.quality.decision import Criteria, Decision, decide
from ragmeter.quality.row_scores import RowScores
from ragmeter.quality.segments import OTHER, Segments, segment_text

MOST_VALUES = 50
"""Most values of one name that are counted separately; rows with later values count together."""
_EXACT = 4096
"""Most values of a score that are stored individually for a segment: there may be some thousand such lists."""


class BySegment:
    """Aggregates the scores of rows by segment.

    Args:
        names: As of ``RagMeter(segments=...)``: ``language``, ``retriever``, ``metadata.X``, or a column.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._segments = Segments(names)
        self._found: dict[str, dict[str, Summarizer]] = {name: {} for name in names}

    def expect(self, values: Iterable[Sequence[str]]) -> None:
        """Reserve separate counts for the first of these values of each name, whatever the order of rows."""
        for known, expected in zip(self._found.values(), values, strict=True):
            known.update((value, Summarizer(exact=_EXACT)) for value in expected[:MOST_VALUES])

    def add(self, values: Sequence[str], scores: Mapping[str, Score]) -> None:
        """Add the scores of a row with these values."""
        for known, value in zip(self._found.values(), values, strict=True):
            kept = value if value in known or len(known) < MOST_VALUES else OTHER
            known.setdefault(kept, Summarizer(exact=_EXACT)).add(scores)

    def of(self, row: Row) -> tuple[str, ...]:
        """Return the values of a row, in the order of the names."""
        return tuple(value for _, value in self._segments.of(_run_of(row))) if self._found else ()

    def summaries(self, order: Sequence[str] = ()) -> dict[str, list[ScoreSummary]]:
        """Return the summaries of each segment, such as ``language:zh``; scores in `order` first."""
        return {
            segment_text(name, value): known[value].summaries(order=order)
            for name, known in self._found.items()
            for value in sorted(known)
        }

    def decide(self, decision: Decision | None, asked: Criteria) -> Decision | None:
        """Return the decision, with the limits also applied to every segment."""
        if decision is None or not asked.limits:
            return decision
        checks = list(decision.checks)
        for segment, summaries in self.summaries().items():
            of_it = decide(Criteria(limits=asked.limits), summaries, RowScores(), 0)
            checks += [
                replace(check, what=f"{segment}: {check.what}")
                for check in (() if of_it is None else of_it.checks)
            ]
        return Decision(checks, decision.fallen)


def _run_of(row: Row) -> RagRun:
    facts = dict(row.facts)
    given = facts.pop("metadata", None)
    metadata: dict[str, Any] = {**facts, **(given if isinstance(given, Mapping) else {})}
    recorded = facts.pop("retrievals", None)
    retrievals = [one for one in recorded or () if isinstance(one, Mapping)]
    if not retrievals and isinstance(facts.get("retriever"), str):
        retrievals = [{"name": facts["retriever"]}]
    return RagRun(
        sample=row.sample,
        run_id=row.key,
        framework=str(facts.get("framework") or "file"),
        started_ns=0,
        ended_ns=0,
        retrievals=tuple(
            Retrieval(
                started_ns=0,
                ended_ns=0,
                name=_text(one.get("name")),
                data_source_id=_text(one.get("data_source_id")),
                embedding_model=_text(one.get("embedding_model")),
                provider=_text(one.get("provider")),
            )
            for one in retrievals
        ),
        metadata=metadata,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
