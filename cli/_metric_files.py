"""Users' own metrics on the command line: ``my_metrics.py:short_answer`` is an object of that file.

The file is imported as a program beside it would import it, so that scoring processes can do the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

from ragmeter.metrics import ConfigurationError, Metric, RagSample, metric


def metrics_named(text: str | None) -> list[str | Metric]:
    """Return the metrics that ``--metrics`` names: presets, metrics, and objects as ``FILE.py:NAME``."""
    names = [name.strip() for name in (text or "").split(",")]
    return [_of_file(name) if ".py:" in name else name for name in names if name]


def _of_file(text: str) -> Metric:
    where, _, name = text.rpartition(":")
    module = _module(Path(where), f"--metrics {text!r}")
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, Metric):
        found = found()
    if isinstance(found, Metric):
        return found
    if callable(found):
        return metric(cast("Callable[[RagSample], float | None]", found))
    there = [one for one in vars(module) if not one.startswith("_")]
    near = get_close_matches(name, there, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise ConfigurationError(
        f"--metrics {text!r}: {where} has no metric {name!r}{meant} A metric is a function of a RagSample, or "
        "a ragmeter.Metric"
    )


def _module(path: Path, given_as: str) -> ModuleType:
    if not path.is_file():
        raise ConfigurationError(f"{given_as}: there is no file {str(path)!r}")
    folder = str(path.parent.absolute())
    if not path.stem.isidentifier():
        raise ConfigurationError(f"{given_as}: {path.stem!r} is no name of a module; rename the file")
    known = sys.modules.get(path.stem)
    file = getattr(known, "__file__", None)
    if known is not None and (file is None or Path(file).resolve() != path.resolve()):
        raise ConfigurationError(f"{given_as}: Python has another module {path.stem!r}; rename the file")
    if folder not in sys.path:
        sys.path.insert(0, folder)
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *([inherited] if inherited else [])])
    try:
        return import_module(path.stem)
    except Exception as error:  # noqa: BLE001 -- the file may raise anything
        raise ConfigurationError(
            f"{given_as}: {path.name} cannot be imported: {type(error).__name__}: {error}"
        ) from None
