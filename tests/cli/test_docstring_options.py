"""A command's options are its function's arguments, described in its docstring."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer

from ragmeter.cli._docstring_options import options_from_docstring


def test_entries_give_help_metavar_and_name() -> None:
    def command(
        source: Path,
        to: Annotated[int, typer.Option(min=3)] = 4,
        after: str | None = None,
        as_json: bool = False,
        no_text: bool = False,
    ) -> None:
        """Copy things.

        Args:
            source (FILE): What is read, of any
                length.
            to: How many: at least three.
            after (--from NAME): Where it begins.
            as_json (--json): Print JSON.
            no_text: Leave texts out.
        """

    app = typer.Typer(add_completion=False)
    app.command()(options_from_docstring(command))
    made = typer.main.get_command(app)
    assert made.help == "Copy things."
    assert [
        (one.name, one.opts, one.secondary_opts, one.metavar, one.default, one.help) for one in made.params
    ] == [
        ("source", ["source"], [], "FILE", None, "What is read, of any length."),
        ("to", ["--to"], [], None, 4, "How many: at least three."),
        ("after", ["--from"], [], "NAME", None, "Where it begins."),
        ("as_json", ["--json"], [], None, False, "Print JSON."),
        ("no_text", ["--no-text"], [], None, False, "Leave texts out."),
    ]


def test_an_entry_without_an_argument_is_an_error() -> None:
    def other(given: str) -> None:
        """Say it.

        Args:
            given: This.
            gone: That.
        """

    with pytest.raises(ValueError, match=r"other has no argument for 'gone: That\.'"):
        options_from_docstring(other)
