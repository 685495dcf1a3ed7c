"""Position of a request's retriever scores among the recent ones of its stream.

A store's scores have a specific scale: .8 is good in one and bad in another. Their position among the last
values of the same workflow, retriever and k has none: its mean is .5 as long as nothing changes, on every
store, and moves when the index, the embedder or the questions do. The pipeline asks for it once per score;
the values belong to this process and start empty. That is why it is a separate score and no metric, which is
a pure function of a sample, and why `evaluate` has none.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragmeter.exporters.protocol import RagRun
from ragmeter.metrics import Score
from ragmeter.metrics._process import fork
from ragmeter.metrics._process.bounded_table import BoundedTable

from .recent_values import RecentValues

POSITIONED = ("retriever_top_score", "retriever_score_spread", "semantic_context_relevance")
"""The scores whose values have a meaning only relative to others of their stream."""
WINDOW = 500
"""Values of each score stored per stream."""
WARM_UP = 30
"""Least number of values for a position; before, it is ``undefined``."""
MAX_STREAMS = 200
"""Most streams; beyond that, the one that is idle longest is dropped."""
_NAMED = 4
"""Retrievals of a request that form the key of its stream."""


def position_name(score_name: str) -> str:
    """Return the name of the score for the position of another one."""
    return f"{score_name}_position"


class StreamPositions:
    """Stores recent values by stream. Thread-safe; empty in a forked child."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._fresh()
        fork.forget(self._fresh)

    def _fresh(self) -> None:
        self._streams: BoundedTable[tuple[object, ...], dict[str, RecentValues]] = BoundedTable(
            max_entries=MAX_STREAMS
        )

    def of(self, run: RagRun, scores: Iterable[Score]) -> list[Score]:
        """Return the positions of the values among `scores`, and store the values.

        Args:
            run: The request, which determines the stream.
            scores: Scores of it, measured for the first time.
        """
        wanted = [
            (score, score.value)
            for score in scores
            if score.name in POSITIONED and score.status == "ok" and score.value is not None
        ]
        if not wanted:
            return []
        stream = _stream(run)
        with self._lock:
            by_name = self._streams.get(stream)
            if by_name is None:
                by_name = {}
                self._streams.put(stream, by_name)
            return [self._position(by_name, score, value) for score, value in wanted]

    def _position(self, by_name: dict[str, RecentValues], score: Score, value: float) -> Score:
        recent = by_name.get(score.name)
        if recent is None:
            recent = by_name[score.name] = RecentValues(WINDOW)
        count = len(recent)
        position = recent.mid_rank(value) if count >= WARM_UP else None
        recent.add(value)
        if position is None:
            note = f"not known before {WARM_UP} requests of this stream; {count} so far"
        else:
            note = f"{score.name} is above {100 * position:.0f} % of the last {count} of this stream"
        return Score(
            name=position_name(score.name),
            value=position,
            status="undefined" if position is None else "ok",
            method=score.method,
            definition="position-1",
            target=score.target,
            label=score.label,
            explanation=note,
            summary=note,
            direction="none",
        )


def _stream(run: RagRun) -> tuple[object, ...]:
    """Return the key of a stream: the workflow, its retrievers, and the numbers of chunks requested."""
    retrievals = run.retrievals[:_NAMED]
    top_k = next((one.top_k for one in retrievals if one.top_k is not None), None)
    named = tuple((one.name, one.data_source_id) for one in retrievals)
    return run.name, named, len(run.sample.contexts or ()) if top_k is None else top_k
