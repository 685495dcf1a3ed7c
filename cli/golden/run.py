"""``ragmeter golden check``: checks the labels of a golden set after the index was split differently.

Nothing is guessed: a label whose text is not found with certainty keeps its old id in ``orphaned_ids``, and
scores by id of its question are then `undefined` instead of too low.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ragmeter.cli._console import Console
from ragmeter.cli._interrupt import whole
from ragmeter.cli._output_paths import check_output_paths
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.json_lines import as_line

from ._anchors import COVERED, FILLED, GoldenLabel, Index, Kind, LabelOutcome
from ._files import GoldenRow, read_chunks, read_golden, repair_row

_MEANINGS: dict[Kind, str] = {
    "valid": "its chunk still holds its text",
    "re-anchorable": "its text stands under another id",
    "merged": "its text stands in a chunk with more",
    "split": "its text stands in several chunks",
    "orphaned": "its text stands nowhere, or is not known",
}
_WRITTEN = (".jsonl", ".json")
_SHOWN = 20
"""Most labels to list that need a person; the JSON output has all."""


@dataclass(frozen=True, slots=True)
class GoldenCheck:
    """The outcome of every label."""

    outcomes: tuple[tuple[GoldenRow, tuple[LabelOutcome, ...]], ...]
    chunks: int
    written: bool

    @property
    def found(self) -> list[tuple[GoldenRow, GoldenLabel, LabelOutcome]]:
        """Every label with its outcome, in order."""
        return [
            (row, label, one)
            for row, outcomes in self.outcomes
            for label, one in zip(row.labels, outcomes, strict=True)
        ]

    @property
    def to_repair(self) -> int:
        """Labels that are not valid, but found with certainty."""
        return sum(one.sure and one.kind != "valid" for _, _, one in self.found)

    @property
    def unsure(self) -> int:
        """Labels that need a person."""
        return sum(not one.sure for _, _, one in self.found)

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON-ready fields, without any text of the set."""
        counts = Counter(one.kind for _, _, one in self.found)
        return {
            "labels": len(self.found),
            "chunks": self.chunks,
            "kinds": {kind: counts[kind] for kind in _MEANINGS},
            "to_repair": self.to_repair,
            "unsure": self.unsure,
            "repaired": self.written,
            "thresholds": {"covered": COVERED, "filled": FILLED},
            "changed": [
                {"line": row.line, "id": label.id, **asdict(one)}
                for row, label, one in self.found
                if one.kind != "valid"
            ],
        }


def check_labels(
    references: Path, against: Path, before: Path | None = None, out: Path | None = None
) -> GoldenCheck:
    """Classify the labels, and write the repaired set if requested.

    Args:
        references: The golden set.
        against: The chunks of the current index.
        before: The chunks of the index at the time of labelling.
        out: The file to write.

    Raises:
        ConfigurationError: A file cannot be read or written, or there is nothing to check.
    """
    check_output_paths(references, out=out)
    check_output_paths(against, out=out)
    if out is not None and out.suffix not in _WRITTEN:
        raise ConfigurationError(f"--out {str(out)!r}: name a .jsonl or a .json file")
    texts: dict[str, str] = {}
    for chunk in () if before is None else read_chunks(before):
        known = texts.get(chunk.id)
        texts[chunk.id] = chunk.text if known is None else f"{known}\n{chunk.text}"
    rows = read_golden(references, texts)
    labels = [label for row in rows for label in row.labels]
    if not labels:
        raise ConfigurationError(f"{str(references)!r} has no labels: no row has 'context_ids'")
    index = Index(labels, read_chunks(against))
    if not index.count:
        raise ConfigurationError(f"{str(against)!r} has no chunks")
    outcomes = tuple((row, tuple(map(index.find, row.labels))) for row in rows)
    if out is not None:
        _write(out, outcomes, _texts_of_parts(against, outcomes))
    return GoldenCheck(outcomes, index.count, out is not None)


def print_checked(checked: GoldenCheck, out: Console) -> None:
    """Print the number of labels of each kind, and those that need a person."""
    counts = Counter(one.kind for _, _, one in checked.found)
    table = Table(box=None, pad_edge=False)
    for name in ("kind", "labels", "sure", "meaning"):
        table.add_column(name, justify="right" if name in ("labels", "sure") else "left")
    for kind, meaning in _MEANINGS.items():
        sure = sum(one.sure for _, _, one in checked.found if one.kind == kind)
        table.add_row(kind, str(counts[kind]), str(sure), meaning)
    out.print(table)
    needy = [found for found in checked.found if not found[2].sure]
    for row, label, one in needy[:_SHOWN]:
        maybe = f" (perhaps {', '.join(one.ids)})" if one.ids else ""
        out.print_line(f"line {row.line}, {label.id}: {one.kind}: {one.reason}{maybe}")
    if len(needy) > _SHOWN:
        out.print(f"... and {len(needy) - _SHOWN} more; --json lists all")
    if checked.to_repair and not checked.written:
        out.print(f"{checked.to_repair} can be repaired for sure: --out REPAIRED.jsonl")


def _texts_of_parts(
    against: Path, outcomes: Sequence[tuple[GoldenRow, Sequence[LabelOutcome]]]
) -> dict[str, str]:
    """Return the texts of the chunks with parts of split labels: their new anchors."""
    wanted = {
        name for _, found in outcomes for one in found if one.sure and len(one.ids) > 1 for name in one.ids
    }
    if not wanted:
        return {}
    return {chunk.id: chunk.text for chunk in read_chunks(against) if chunk.id in wanted}


def _write(
    path: Path, outcomes: Sequence[tuple[GoldenRow, Sequence[LabelOutcome]]], texts: dict[str, str]
) -> None:
    try:
        lines = [as_line(repair_row(row, found, texts)) for row, found in outcomes]
        as_array = b"[\n" + b",\n".join(line.rstrip(b"\n") for line in lines) + b"\n]\n"
        with whole():
            path.write_bytes(as_array if path.suffix == ".json" else b"".join(lines))
    except OSError as error:
        raise ConfigurationError(f"--out {str(path)!r} cannot be written: {error.strerror}") from error
