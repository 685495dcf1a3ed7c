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


def test_every_exit_code_stands_in_the_one_table():
    from ragmeter.cli import _ending
    from ragmeter.cli.app import EXIT_OF
    from ragmeter.cli.golden.commands import EXIT_UNSURE

    table = PAGE.split("| exit code | meaning |", 1)[1].split("\n\n", 1)[0]
    said = {
        int(n)
        for cell in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE)
        for n in cell.split(", ")
    }
    known = {value for name, value in vars(_ending).items() if name.startswith("EXIT_")}
    assert said == known | set(EXIT_OF.values()) | {EXIT_UNSURE}


def test_every_column_name_is_documented():
    from ragmeter.metrics._files.columns import COLUMN_NAMES

    preferred = {names[0] for names in COLUMN_NAMES.values()}
    assert all(f"`{name}`" in PAGE for name in preferred)
