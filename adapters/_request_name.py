"""The name of a request without a given one: the service or the script, not a framework's plumbing.

A name that a person gave is kept, and so is the name of an application's class. Read by the adapters when a
request is built, never on its path.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from opentelemetry import trace

from ragmeter.exporters._foreign import attribute_of

_NAMES = json.loads(Path(__file__).with_name("request_names.json").read_text(encoding="utf-8"))
_PLUMBING = frozenset(_NAMES["plumbing"])
_LAUNCHERS = frozenset(_NAMES["launchers"])
"""Names of programs' launchers, which do not identify the program."""


def request_name(shown: str | None, *, is_model: bool = False) -> str | None:
    """Return `shown`, unless it names a framework's plumbing and the service or the script has a name.

    Args:
        shown: The name of the outermost step.
        is_model: Whether that is a model's call: its class does not identify the application.
    """
    if shown is None or not (is_model or shown.startswith("Runnable") or shown in _PLUMBING):
        return shown
    return _service() or _script() or shown


def _service() -> str | None:
    """Return the service's name from its OpenTelemetry SDK or its environment variables."""
    resource = attribute_of(trace.get_tracer_provider(), "resource")
    attributes = attribute_of(resource, "attributes")
    found = attributes.get("service.name") if isinstance(attributes, Mapping) else None
    if not isinstance(found, str) or found.startswith("unknown_service"):
        found = os.environ.get("OTEL_SERVICE_NAME", "").strip()
    return found or None


@cache
def _script() -> str | None:
    path = Path(sys.argv[0] if getattr(sys, "argv", None) else "")
    name = path.parent.name if path.name == "__main__.py" else path.stem
    return None if name.lower() in _LAUNCHERS else name
