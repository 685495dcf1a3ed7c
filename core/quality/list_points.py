"""The sizes of the lists of knowledge gaps, chunks and conversations, as points of gauges.

The lists of a meter and of a server's store have the same points; unknown values have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragmeter.exporters import semconv
from ragmeter.exporters.protocol import ListPoint

from .corpus.view import ChunkReport
from .gaps.gap import Gap


def gap_points(gaps: Iterable[Gap]) -> Iterator[ListPoint]:
    """Yield the size of each open gap; a list has ten at most."""
    for one in gaps:
        if getattr(one, "state", "open") == "open":
            named = {
                semconv.GAP: one.id,
                semconv.DIAGNOSIS: one.diagnosis,
                semconv.LANGUAGE: one.language or "",
                semconv.SERVICE: getattr(one, "service", ""),
            }
            yield semconv.GAP_REQUESTS, one.n_bad, named


def corpus_points(report: ChunkReport) -> Iterator[ListPoint]:
    """Yield the length of each list of chunks."""
    known = {
        "bad": report.n_requests > 0,
        "unused": report.n_chunks > 0,
        "conflicts": report.n_compared > 0,
        # Without dates or hashes it is unknown whether anything is stale.
        "stale": bool(report.stale) or min(report.undated or 0, report.unverified or 0) < 1,
    }
    for name, is_known in known.items():
        if is_known and report.n_chunks:
            yield semconv.CORPUS_CHUNKS, len(getattr(report, name)), {semconv.CORPUS_LIST: name}


def conversation_points(*share: float | None) -> Iterator[ListPoint]:
    """Yield the share of conversations with a bad turn and the ends of its interval."""
    for instrument, value in zip(semconv.CONVERSATION_INSTRUMENTS, share, strict=True):
        if value is not None:
            yield instrument, value, {}
