"""A package's public names, each imported on first access (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, names: Collection[str], homes: Mapping[str, str], home: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package: names by module in `homes`, the others in `home`."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{homes.get(name, home)}", package), name)
        setattr(sys.modules[package], name, value)  # later accesses find it without this function
        return value

    return get, lambda: sorted(names)
