"""``--gaps``: the topics of a data set whose questions go worse than others.

Computed as in a meter, from a bounded sample of the rows.  Called by `run`, shown by the reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ragmeter.metrics import Score, Verdict
from ragmeter.metrics._display.wording import percent
from ragmeter.metrics._files.samples import Row
from ragmeter.quality.gaps.gap import MOST_EXAMINED, Gap, GapList
from ragmeter.quality.gaps.memory import GapMemory, asked_of, read_values
from ragmeter.quality.gaps.sample import Sample, rank_of

GAP_HEADS = ("about", "not good", "share", "95 % interval", "elsewhere", "what it lacks")
_WHY_EMPTY: Mapping[str, str] = {
    "no_requests": "no row has a verdict",
    "no_questions": "no bad row has a question with a topic word",
    "too_many_bad": "so many rows are bad that no topic stands out",
    "nothing_stands_out": "no topic goes worse than the others",
}
_ROWS = 5
"""Most places of rows to show for each gap."""
_OF_REQUESTS = ("since", "workflow")
"""Fields of a gap that rows do not have."""


@dataclass(frozen=True, slots=True)
class FoundGaps:
    """The gaps with the places of their rows."""

    found: GapList
    rows: Mapping[str, tuple[str, ...]]
    """The places of the first rows of each gap, by its id."""

    @property
    def note(self) -> str:
        """A line about the basis of the list."""
        found = self.found
        why = _WHY_EMPTY.get(found.why_empty)
        known = f"{found.n_bad} of {found.n_requests} rows are bad"
        if found.without_topic:
            known += f", {found.without_topic} of them without a topic word"
        return f"Knowledge gaps: {f'none, {why}; ' if why else ''}{known}"

    def cells(self, gap: Gap) -> tuple[str, ...]:
        """Return a gap's table cells under `GAP_HEADS`, without its topic."""
        return (
            f"{gap.n_bad} of {gap.n_requests}",
            percent(gap.share),
            f"{percent(gap.lower)} to {percent(gap.upper)}",
            percent(gap.elsewhere),
            gap.diagnosis,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the list as JSON-ready fields."""
        gaps = [
            {name: value for name, value in asdict(gap).items() if name not in _OF_REQUESTS}
            | {"rows": list(self.rows[gap.id])}
            for gap in self.found.gaps
        ]
        whole = self.found._asdict() | {"gaps": gaps}
        del whole["members"]
        return whole


class _BadRowPlace(NamedTuple):
    rank: int
    place: tuple[str, int]


class GapSearch:
    """Collects rows, and finds the gaps among them."""

    def __init__(self) -> None:
        self._memory = GapMemory(MOST_EXAMINED)
        # With the same ranks as the memory, so that both keep the same rows.
        self._places: Sample[_BadRowPlace] = Sample(MOST_EXAMINED)

    def add(self, row: Row, scores: Mapping[str, Score], verdict: Verdict | None) -> None:
        """Add a scored row."""
        sample = row.sample
        word = None if verdict is None else verdict.word
        name = f"{row.file}:{row.line}"
        asked, bad = asked_of(name, sample.searched_for, read_values(scores), word)
        if bad is None:
            return
        self._memory.add(asked, bad=bad)
        self._memory.add_chunks(context.text for context in sample.contexts or ())
        if bad:
            self._places.add(_BadRowPlace(rank_of(name), (row.file, row.line)))

    def found(self) -> FoundGaps:
        """Return the gaps among the rows."""
        listed = self._memory.gaps()
        places = {one.rank: one.place for one in self._places.items()}
        rows = {
            gap.id: tuple(
                f"{file}:{line}"
                for file, line in sorted(places[rank] for rank in listed.members[gap.id])[:_ROWS]
            )
            for gap in listed.gaps
        }
        return FoundGaps(listed, rows)
