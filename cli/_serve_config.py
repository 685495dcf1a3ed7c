"""The file of ``ragmeter serve --config``: options, and settings in ``[settings]``, under their own names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.errors import install_command

from ._ending import exit_with_line

_SETTINGS = "settings"
_OWN = frozenset({"config", "print_config", "help"})
_ENDPOINT = "OTEL_EXPORTER_OTLP_{}ENDPOINT"
_VARIABLES: Mapping[str, Collection[str]] = {
    "token_file": ("RAGMETER_SERVE_TOKEN",),
    "view_token_file": ("RAGMETER_SERVE_VIEW_TOKEN",),
    "store": ("RAGMETER_SERVE_STORE",),
    "references": ("RAGMETER_REFERENCES",),
    "objective": ("RAGMETER_OBJECTIVES",),
    "webhook": ("RAGMETER_CHANGE_WEBHOOK",),
    "page_url": ("RAGMETER_PAGE_URL",),
    "language": ("RAGMETER_LANGUAGE",),
    "otlp": [_ENDPOINT.format(signal) for signal in ("", "TRACES_", "LOGS_", "METRICS_")],
    "protocol": ("OTEL_EXPORTER_OTLP_PROTOCOL",),
}
"""Options with a variable, which takes precedence over the file."""
_SECRETS = frozenset({"webhook"})


def load_configuration(context: typer.Context, path: Path | None) -> Path | None:
    """Read the options and settings that neither an option nor a variable sets: callback of ``--config``."""
    if path is not None:
        with exit_with_line():
            table = _read(path)
            settings = table.pop(_SETTINGS, {})
            if not isinstance(settings, dict):
                raise ConfigurationError(f"{path}: [{_SETTINGS}] is a table of settings")
            context.default_map = _options(context, path, table)
            _set_variables(path, settings)
    return path


def drop_contradicted(context: typer.Context) -> None:
    """Drop entries of the file that contradict an option on the command line."""
    for typed, filed in (("spool", "no_spool"), ("no_spool", "spool"), ("store", "no_store")):
        sources = [getattr(context.get_parameter_source(one), "name", "") for one in (typed, filed)]
        if sources == ["COMMANDLINE", "DEFAULT_MAP"]:
            context.params[filed] = False if filed.startswith("no_") else None


def configuration_lines(context: typer.Context) -> Iterator[str]:
    """Yield the effective settings as lines of such a file; secrets are masked."""
    from ragmeter.settings.config import Settings, read_settings  # noqa: PLC0415 -- only where it is asked for

    for name, value in context.params.items():
        if name not in _OWN:
            yield from _line(name.replace("_", "-"), value, is_secret=name in _SECRETS)
            for variable in _VARIABLES.get(name, ()) if value in (None, (), []) else ():
                if os.environ.get(variable):
                    yield f"# {name.replace('_', '-')}: as {variable} says"
    yield f"\n[{_SETTINGS}]"
    settings = read_settings()
    for name, info in Settings.model_fields.items():
        value = getattr(settings, name)
        if value != info.default:
            yield from _line(name, value, is_secret="Secret" in type(value).__name__)


def _read(path: Path) -> dict[str, Any]:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        toml: Any = import_module(name)
    except ImportError as error:
        raise ConfigurationError(f"--config needs {name}: {install_command('serve')}") from error
    try:
        with path.open("rb") as file:
            return dict(toml.load(file))
    except OSError as error:
        raise ConfigurationError(
            f"--config {path} cannot be read ({(error.strerror or str(error)).lower()})"
        ) from None
    except ValueError as error:
        raise ConfigurationError(f"--config {path} is no TOML: {error}") from None


def _options(context: typer.Context, path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    known = {str(one.name): one for one in context.command.params if one.name not in _OWN}
    taken: dict[str, Any] = {}
    for said, value in table.items():
        name = said.replace("-", "_")
        if name not in known:
            raise _unknown(path, said, [one.replace("_", "-") for one in known])
        if isinstance(value, dict) or (isinstance(value, list) and not getattr(known[name], "multiple", False)):
            raise ConfigurationError(f"{path}: {said} is one value")
        if isinstance(value, bool) != bool(getattr(known[name], "is_flag", False)):
            wanted = "a value" if isinstance(value, bool) else "true or false"
            raise ConfigurationError(f"{path}: {said} is {wanted}")
        if not any(os.environ.get(variable) for variable in _VARIABLES.get(name, ())):
            many = getattr(known[name], "multiple", False) and not isinstance(value, list)
            taken[name] = [value] if many else value
    return taken


def _set_variables(path: Path, settings: Mapping[str, Any]) -> None:
    """Set the variables of these settings in this process, unless they are set."""
    from ragmeter.settings.config import PREFIX, Settings, variable_of  # noqa: PLC0415 -- as above

    for name, value in settings.items():
        if name not in Settings.model_fields:
            raise _unknown(path, f"{_SETTINGS}.{name}", [f"{_SETTINGS}.{n}" for n in Settings.model_fields])
        if isinstance(value, dict):
            raise ConfigurationError(f"{path}: {_SETTINGS}.{name} is one value, or a list")
        if not os.environ.get(variable_of(name)):
            given = value if isinstance(value, list) else [value]
            words = [str(one).lower() if isinstance(one, bool) else str(one) for one in given]
            os.environ[PREFIX + name.upper()] = (";" if name == "objectives" else ",").join(words)


def _unknown(path: Path, name: str, known: Collection[str]) -> ConfigurationError:
    close = get_close_matches(name, list(known), 2)
    meant = f"; did you mean {' or '.join(close)}?" if close else "; ragmeter serve --help lists all"
    return ConfigurationError(f"{path}: there is no {name!r}{meant}")


def _line(name: str, value: Any, *, is_secret: bool) -> Iterator[str]:
    plain = [
        one.value if isinstance(one, Enum) else str(one) if isinstance(one, Path) else one
        for one in (value if isinstance(value, (list, tuple)) else [value])
        if one is not None
    ]
    if not plain or plain == [False]:
        return
    # An address with more than a host and a path may hold a secret.
    addresses = [one for one in plain if isinstance(one, str) and "://" in one]
    if is_secret or any(mark in one for one in addresses for mark in "@?"):
        yield f"# {name}: set, and not shown"
        return
    written = [
        json.dumps(one if isinstance(one, (str, bool, int, float)) else str(one), ensure_ascii=False)
        for one in plain
    ]
    yield f"{name} = " + (f"[{', '.join(written)}]" if isinstance(value, (list, tuple)) else written[0])
