"""docs/command-line.md names every command and every option, and no other."""

import re
from pathlib import Path

import typer

from ragmeter.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def _commands(group):
    for name, command in group.commands.items():
        yield name, command
        if hasattr(command, "commands"):
            yield from _commands(command)


def _options():
    group = typer.main.get_command(app)
    for name, command in [("ragmeter", group), *_commands(group)]:
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    yield name, option


def test_every_option_is_documented():
    missing = [(name, option) for name, option in _options() if f"{option}" not in PAGE]
    assert missing == []


def test_no_option_is_documented_that_does_not_exist():
    known = {option for _, option in _options()} | {"--help"}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known


def test_every_column_name_is_documented():
    from ragmeter.metrics._samples import COLUMN_NAMES

    preferred = {names[0] for names in COLUMN_NAMES.values()}
    assert all(f"`{name}`" in PAGE for name in preferred)
