"""The store's tables, and migrations between versions.

Each step of ``schema.sql`` migrates a store from one version to the next, in one transaction; a new version
adds a step and changes none. The types are SQLite's: INTEGER, REAL, TEXT and BLOB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

from ragmeter.metrics import ConfigurationError

_STEPS = re.split(r"-- version \d+\n", files("ragmeter.serve.store").joinpath("schema.sql").read_text("utf-8"))[
    1:
]
VERSION = len(_STEPS)
"""The store version that this program writes."""


def statements_since(version: int) -> Iterator[str]:
    """Yield the statements that migrate a store from a version to the current one; 0: an empty store."""
    for step in _STEPS[version:]:
        statements = re.sub(r"^--.*\n", "", step, flags=re.MULTILINE).split(";\n")
        yield from (statement for each in statements if (statement := each.strip()))


def later_version(shown: str, version: int) -> ConfigurationError:
    """Return the error for a store written by a later version of ragmeter."""
    return ConfigurationError(
        f"{shown} was written by a later version of ragmeter (format {version}, this one knows up to "
        f"{VERSION}); install that one, or give another store"
    )
