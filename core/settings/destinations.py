"""Make exporters from their names: ``RagMeter(exporters="phoenix")``, ``RAGMETER_EXPORTERS``.

A backend that attaches scores to spans also needs ``"otel"``, which writes them; if the process has no
OpenTelemetry SDK, the spans are sent directly to that backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

from ragmeter.exporters.protocol import Exporter
from ragmeter.metrics import ConfigurationError, MissingDependencyError

from .options import check_methods, sequence_of, value_of

NAMES = ("otel", "console", "phoenix", "langfuse", "gaps", "conversations")
"""The names of exporters."""
_BACKENDS = ("phoenix", "langfuse")


def exporters_of(
    given: str | Iterable[str | Exporter], otel: Callable[..., Exporter] | None = None
) -> tuple[Exporter, ...]:
    """Return the exporters for names and objects.

    Args:
        given: Names and objects.
        otel: Makes the exporter of ``"otel"``; None: with defaults.

    Raises:
        ConfigurationError: A name is unknown, an address or key is missing, or an object is not an exporter.
        MissingDependencyError: The package that a name needs is not installed.
    """
    chosen = sequence_of("exporters", (given,) if isinstance(given, str) else given)
    names = [one for one in chosen if isinstance(one, str)]
    for name in names:
        if name not in NAMES:
            raise ConfigurationError(_unknown(name))
    backends = [name for name in _BACKENDS if name in names]
    spans: Any = next((one for one in chosen if hasattr(one, "judged_spans")), None)
    made: dict[str, Any] = {}
    addresses: list[Any] = []
    if "otel" in names or (backends and spans is None):
        if backends and find_spec("opentelemetry.sdk") is None:
            raise MissingDependencyError("opentelemetry-sdk", "otlp", f"exporters={backends[0]!r}")
        from ragmeter.exporters.otel import OpenTelemetryExporter  # noqa: PLC0415 -- when wanted

        spans = (otel or OpenTelemetryExporter)()
        if "otel" in names:
            made["otel"] = spans
        else:
            chosen = (spans, *chosen)
    for name in sorted(names, key=lambda name: name == "console"):
        if name not in made:
            made[name] = _exporter_called(name, spans, made.get("phoenix"))
            if name in backends:
                addresses.append(made[name].spans_address())
    exporters = [made.pop(one, None) if isinstance(one, str) else one for one in chosen]
    if addresses and hasattr(spans, "send_straight"):
        spans.send_straight(addresses)
    found = tuple(one for one in exporters if one is not None)  # a name twice is one exporter
    check_methods("exporters", found, "export", "flush", "shutdown")
    return found


def _exporter_called(name: str, spans: Any, phoenix: Any) -> Exporter:
    if name == "console":
        from ragmeter.exporters.console import ConsoleExporter  # noqa: PLC0415 -- when wanted

        shown = None if phoenix is None else phoenix.trace_url
        return ConsoleExporter(spans=spans, trace_url=value_of("TRACE_URL") or shown)
    if name == "gaps":
        from ragmeter.quality.gaps.exporter import GapExporter  # noqa: PLC0415 -- likewise

        return GapExporter()
    if name == "conversations":
        from ragmeter.quality.turns import ConversationExporter  # noqa: PLC0415 -- likewise

        return ConversationExporter()
    if name == "phoenix":
        from ragmeter.exporters.phoenix import PhoenixAnnotations  # noqa: PLC0415 -- likewise

        return PhoenixAnnotations.from_env(spans=spans)
    from ragmeter.exporters.langfuse import LangfuseScores  # noqa: PLC0415 -- likewise

    return LangfuseScores.from_env(spans=spans)


def _unknown(name: str) -> str:
    close = get_close_matches(name, NAMES, 2)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    names = ", ".join(map(repr, NAMES))
    return (
        f"exporters: {name!r} is unknown; {hint}The names are {names}. Those that need a file or an address "
        "of their own are objects: JsonlExporter(path), or RAGMETER_JSONL with the path; "
        "PhoenixAnnotations(url), LangfuseScores(url, public_key, secret_key)"
    )
