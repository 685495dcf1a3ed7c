"""The command for golden sets and its options: ``ragmeter golden check``. `app` adds it to the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragmeter.cli._console import Console
from ragmeter.cli._docstring_options import options_from_docstring
from ragmeter.cli._ending import EXIT_FAILED, exit_with_line, print_json

EXIT_UNSURE = 5
"""As `ragmeter evaluate` ends if evidence is missing."""

golden = typer.Typer(help="Keep a golden set valid when the index is rebuilt.", no_args_is_help=True)


@golden.callback()
def _group() -> None:
    """Keep a golden set valid when the index is rebuilt."""


@golden.command()
@options_from_docstring
def check(
    references: Path,
    against: Annotated[Path, typer.Option()],
    before: Path | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Check golden labels after an index change, find their texts in the new chunks, and repair what is sure.

    valid: the label's chunk still holds its text; re-anchorable: another chunk does; merged: one with
    more in it; split: several do; orphaned: none. Exit code 0: every label is valid, or repaired with
    --out; 1: all others can be repaired safely; 5: some need a person.

    Args:
        references (REFERENCES): The golden set: .jsonl, .csv, .json or .parquet with context_ids, and
            contexts or --from.
        against (NEW_CHUNKS): The present index, in any of these formats: id and text.
        before (--from OLD_CHUNKS): The index at the time of labelling, for labels without a text.
        out (REPAIRED): Write the set with all safe repairs, as .jsonl or .json.
        as_json (--json): Print each label's result as JSON and nothing else.
    """
    with exit_with_line():
        from .run import check_labels, print_checked

        checked = check_labels(references, against, before, out)
        if as_json:
            print_json(checked.as_json())
        else:
            print_checked(checked, Console())
    if checked.unsure:
        raise typer.Exit(EXIT_UNSURE)
    if checked.to_repair and not checked.written:
        raise typer.Exit(EXIT_FAILED)
