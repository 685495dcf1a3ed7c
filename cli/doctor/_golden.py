"""Checks whether the labels of the reference file match the index: known orphans, and with chunks all labels.

A stale label makes a score by id undefined or, until it is noticed, too low.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ragmeter.cli.golden._files import read_golden
from ragmeter.cli.golden.run import check_labels
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._display.wording import number_of
from ragmeter.settings.config import Settings

from ._findings import CONFIGURED, Finding

_WHAT = "golden labels"


def check_golden(settings: Settings | None, chunks: Path | None) -> Iterator[Finding]:
    """Yield findings about the labels of the configured reference file.

    Args:
        settings: The settings, or None if they cannot be read, which another check reports.
        chunks: The current index, one chunk per row; None: report only labels marked in the file.
    """
    if settings is None or settings.references is None:
        if chunks is not None:
            yield CONFIGURED.warning(_WHAT, "there is no reference file to check", "set RAGMETER_REFERENCES")
        return
    references = Path(settings.references)
    try:
        rows = read_golden(references, {})
        checked = None if chunks is None else check_labels(references, chunks)
    except ConfigurationError as error:
        if chunks is not None:
            yield CONFIGURED.failed(_WHAT, str(error), "correct the file, or name another one")
        return
    stale = [len(row.orphaned) for row in rows if row.orphaned]
    if stale:
        yield CONFIGURED.warning(
            _WHAT,
            f"{number_of(sum(stale), 'label')} of {number_of(len(stale), 'question')} orphaned: their scores "
            "by id are undefined",
            "label these questions again; `ragmeter golden check` lists them",
        )
    if checked is None:
        return
    kinds = Counter(found.kind for _, _, found in checked.found)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    if checked.unsure or checked.to_repair:
        yield CONFIGURED.warning(
            _WHAT,
            f"of {number_of(len(checked.found), 'label')}: {counts}",
            f"ragmeter golden check {references} --against {chunks} --out repaired.jsonl",
        )
    else:
        yield CONFIGURED.ok(_WHAT, f"{counts}, in {number_of(checked.chunks, 'chunk')}")
