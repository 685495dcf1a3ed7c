"""The command for golden sets and its options: ``ragmeter golden check``. `app` adds it to the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragmeter.cli._console import Console
from ragmeter.cli._ending import EXIT_FAILED, exit_with_line, print_json

__all__ = ["EXIT_UNSURE", "golden"]

EXIT_UNSURE = 5
"""As `ragmeter evaluate` says that evidence is missing."""

golden = typer.Typer(
    help="Keep a golden set true when the index is cut again.", no_args_is_help=True
)


@golden.callback()
def _group() -> None:
    """Keep a golden set true when the index is cut again."""


@golden.command()
def check(
    references: Annotated[
        Path,
        typer.Argument(
            metavar="REFERENCES",
            help="The golden set: .jsonl, .csv, .json or .parquet with context_ids, and contexts or --from.",
        ),
    ],
    against: Annotated[
        Path,
        typer.Option(
            metavar="NEW_CHUNKS",
            help="The index as it is now, in any of these formats: id and text.",
        ),
    ],
    before: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OLD_CHUNKS",
            help="The index as it was when the labels were given, for labels without a text.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="REPAIRED", help="Write the set with every sure repair, as .jsonl or .json."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print what became of each label as JSON and nothing else."),
    ] = False,
) -> None:
    """Sort golden labels after an index change, by where their text stands now, and repair what is sure.

    valid: the label's chunk still holds its text; re-anchorable: another chunk does; merged: one with
    more in it; split: several do; orphaned: none. Exit code 0: every label is valid, or repaired with
    --out; 1: all others can be repaired for sure; 5: some need a person.
    """
    with exit_with_line():
        from .run import CheckOptions, check_labels, print_checked

        checked = check_labels(CheckOptions(references, against, before, out))
        if as_json:
            print_json(checked.as_json())
        else:
            print_checked(checked, Console())
    if checked.unsure:
        raise typer.Exit(EXIT_UNSURE)
    if checked.to_repair and not checked.written:
        raise typer.Exit(EXIT_FAILED)
