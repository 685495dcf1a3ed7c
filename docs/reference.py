"""Writes the reference from the product's own words: a card per metric, a table per command, the errors.

`pages.py` puts these pages on the site. They are not kept in the repository: in a terminal
``ragmeter metrics NAME`` and ``ragmeter COMMAND --help`` say the same.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from ragmeter.cli._metric_page import metric_page
from ragmeter.cli.app import app
from ragmeter.cli.metrics import list_metrics
from ragmeter.metrics import errors

METRICS, COMMANDS, ERRORS = "reference/metrics.md", "reference/commands.md", "reference/errors.md"


_SECTION = re.compile(r"(Range|Needs|Cost|Source|Differs from the source|Evidence|Label|Without a value):( |$)")


def pages() -> dict[str, str]:
    """Return every page of the reference, by its place beside the guide's."""
    return {METRICS: metrics(), COMMANDS: commands(), ERRORS: error_page()}


def metrics() -> str:
    """Return a card for each metric: what it says of itself, the example, the verdict's thresholds."""
    parts = ["# Metrics: a card each"]
    for facts in list_metrics():
        card = metric_page(facts.name)
        scores = ", ".join(f"`{name}`" for name in card.meaning.scores)
        parts.append(f"## `{card.meaning.metric}`")
        parts.append(f"Scores: {scores}. Definition: `{card.meaning.definition}`.")
        parts.append(_as_markdown(card.meaning.says))
        values = [
            f"`{one.name}` **{one.status if one.value is None else round(one.value, 4)}**"
            for one in card.example
        ]
        if values:
            parts.append(f"The example of [the metrics](../metrics.md#the-example): {', '.join(values)}.")
        said = "; ".join(card.thresholds)
        parts.append(f"The verdict: {said or 'no rule reads it; compare with what is usual'}.")
    return "\n\n".join(parts) + "\n"


def _as_markdown(docstring: str) -> str:
    """Return a docstring whose sections (``Range:``) are items, and whose formulas stand as they are."""
    lines = []
    for line in docstring.splitlines():
        section = _SECTION.match(line)
        inside = (lines and lines[-1].startswith("- **")) or (lines and lines[-1].startswith("  "))
        if section:
            lines += ["", f"- **{section[1]}**{line[section.end(1) + 1 :]}"]
        elif inside and line.startswith("    ") and lines[-1] != "":
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line)
    return "\n".join(lines)


def commands() -> str:
    """Return a table of arguments and options for each command, as its ``--help`` has them."""
    parts = ["# Commands: all options"]
    for path, command in _commands("ragmeter", typer.main.get_command(app)):
        said = textwrap.dedent((command.help or "").partition("\f")[0]).strip()
        parts.append(f"## `{path}`\n\n{said}")
        rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
        if rows:
            parts.append("| option | default | meaning |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, one in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(f"{path} {name}", one)


def _row(parameter: Any) -> str:
    names = ", ".join(parameter.opts) if parameter.param_type_name == "option" else ""
    written = f"{names} {_value(parameter)}".strip().replace("|", "\\|")
    default = parameter.default
    shown = "" if callable(default) or default in (None, False, (), []) else f"`{default}`"
    meaning = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    return f"| `{written}` | {shown} | {meaning} |"


def _value(parameter: Any) -> str:
    """Return what stands for the value: its metavar, its choices, or what it is."""
    if parameter.metavar or getattr(parameter, "is_flag", False):
        return parameter.metavar or ""
    kind = parameter.type_descriptor.annotation
    while get_origin(kind) not in (None, Literal):  # of many, or none
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if issubclass(kind, Enum):
        return " or ".join(one.value for one in kind)
    return {str: "TEXT", int: "N", float: "X", Path: "FILE"}[kind]


def error_page() -> str:
    """Return every public error: when it is raised, and what it inherits."""
    parts = ["# Errors", (errors.__doc__ or "").partition("\n\n")[2].partition("::")[0].strip() + "."]
    for name in sorted(errors.__all__):
        one = getattr(errors, name)
        if inspect.isclass(one) and issubclass(one, Exception):
            above = ", ".join(f"`{base.__name__}`" for base in one.__bases__)
            parts.append(f"## `{name}`\n\nA kind of {above}. {inspect.getdoc(one) or ''}")
    return "\n\n".join(parts) + "\n"
