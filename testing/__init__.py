"""Test the quality of an application: fixtures that score its requests, and assertions about the scores.

`assert_quality` decides about a mean by its interval, as ``ragmeter evaluate --fail-under`` does, and
`assert_each` about single rows. They work without pytest; for it, `plugin` adds fixtures, a mark and a
summary. Names are loaded on first use, as pytest loads the plugin in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._assertions import QualityError, assert_each, assert_quality, write_baseline
    from ._results import MeterResults

__all__ = ["MeterResults", "QualityError", "assert_each", "assert_quality", "write_baseline"]

# Name → module; the type checkers read the imports above.
_HOMES = {
    "MeterResults": "_results",
    "QualityError": "_assertions",
    "assert_each": "_assertions",
    "assert_quality": "_assertions",
    "write_baseline": "_assertions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value
