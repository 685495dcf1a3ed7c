"""Command-line options that are described in the ``Args`` of the command's docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo

F = TypeVar("F", bound=Callable[..., Any])

_ENTRY = re.compile(r"(?m)^    (?=\w+(?: \(.+?\))?: )")
_PARTS = re.compile(r"(\w+)(?: \((.+?)\))?: (.*)", re.DOTALL)


def options_from_docstring(command: F) -> F:
    """Make the arguments of a command its options, with the help from its docstring.

    An entry is ``name: help``, ``name (METAVAR): help``, or, for an option of another name,
    ``name (--option METAVAR): help`` or ``name (-o): help``.  An argument without a default, and without
    `typer.Option`, is positional.  A bool that is False by default is a switch, which has no opposite.
    """
    summary, _, entries = (inspect.getdoc(command) or "").partition("\n\nArgs:\n")
    command.__doc__ = summary
    hints = inspect.get_annotations(command, eval_str=True)
    parameters = inspect.signature(command).parameters
    for entry in filter(None, _ENTRY.split(entries)):
        parts = _PARTS.fullmatch(entry)
        if parts is None or parts[1] not in hints:
            raise ValueError(f"{command.__name__} has no argument for {entry!r}")
        name, words, text = parts[1], (parts[2] or "").split(), " ".join(parts[3].split())
        kind, *made = get_args(hints[name]) if _is_described(hints[name]) else (hints[name],)
        default = parameters[name].default
        info: Any = made[0] if made else typer.Option()
        if not made and default is inspect.Parameter.empty:
            info = typer.Argument()
        names = [word for word in words if word.startswith("-")]
        if not names and kind is bool and default is False:
            names = [f"--{name.replace('_', '-')}"]
        info.help = text
        info.metavar = " ".join(word for word in words if word not in names) or None
        info.param_decls = tuple(names) or info.param_decls
        hints[name] = Annotated[kind, info]
    command.__annotations__ = hints
    return command


def _is_described(hint: Any) -> bool:
    return any(isinstance(one, (ArgumentInfo, OptionInfo)) for one in get_args(hint)[1:])
