"""The reference names every command and every option; the guide names no other, every exit code and column."""

import importlib.util
import re
from pathlib import Path

import typer
from typer.testing import CliRunner

from ragmeter.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
PAGE, EVALUATE = ((DOCS / name).read_text(encoding="utf-8") for name in ("command-line.md", "evaluate.md"))


def _reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


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


def test_the_reference_has_every_option_metric_and_error():
    from ragmeter.metrics import errors
    from ragmeter.metrics.registry import known_metrics

    pages = _reference()
    commands, metrics, raised = (pages[f"reference/{one}.md"] for one in ("commands", "metrics", "errors"))
    sections = {part.partition("`")[0].rpartition(" ")[2]: part for part in commands.split("\n## `")[1:]}
    missing = [(name, option) for name, option in _options() if option not in sections[name]]

    assert missing == []
    assert [name for name in known_metrics() if f"\n## `{name}`\n" not in metrics] == []
    assert [n for n in errors.__all__ if n.endswith("Error") and f"## `{n}`" not in raised] == []


def test_help_shows_patterns_with_their_asterisks(monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 200)  # read once, by the first help of a process
    shown = CliRunner().invoke(app, ["spans", "--help"]).output

    assert "search_*:text=body,id=sku" in shown


def test_every_command_stands_on_its_page():
    group = typer.main.get_command(app)
    assert [name for name in group.commands if f"`ragmeter {name}" not in PAGE] == []


def test_no_option_is_documented_that_does_not_exist():
    known = {option for _, option in _options()} | {"--help"}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE + EVALUATE)) <= known


def test_every_exit_code_stands_in_the_one_table():
    from ragmeter.cli import _ending
    from ragmeter.cli.app import EXIT_OF
    from ragmeter.cli.golden.commands import EXIT_UNSURE

    table = PAGE.split("| exit code | meaning |", 1)[1].split("\n\n", 1)[0]
    said = {int(n) for cell in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for n in cell.split(", ")}
    known = {value for name, value in vars(_ending).items() if name.startswith("EXIT_")}
    assert said == known | set(EXIT_OF.values()) | {EXIT_UNSURE}


def test_every_column_name_is_documented():
    from ragmeter.metrics._files.columns import COLUMN_NAMES

    preferred = {names[0] for names in COLUMN_NAMES.values()}
    assert all(f"`{name}`" in EVALUATE for name in preferred)
