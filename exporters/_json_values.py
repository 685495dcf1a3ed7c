"""`plain`: any value as JSON's own types, for exporters that write what frameworks keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["plain"]

MAX_DEPTH = 8
"""Nesting beyond this becomes text, so that a structure that contains itself ends."""


def plain(value: Any, depth: int = 0) -> Any:
    """Return `value` in JSON's types; NaN becomes None, a foreign object its text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth < MAX_DEPTH:
        if isinstance(value, Mapping):
            return {str(key): plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item, depth + 1) for item in value]
    return str(value)
