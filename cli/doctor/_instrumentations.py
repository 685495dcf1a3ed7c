"""Checks whether the switches of installed instrumentations allow texts in their spans.

Settings in the application's code are not visible here; its log also names the missing inputs of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distributions
from typing import NamedTuple

from ragmeter.adapters.opentelemetry.conventions import READERS

from ._findings import CONFIGURED, Finding

_ON = frozenset({"1", "true", "yes", "on"})
_DEFAULT = 128
"""The SDK's default limit of attributes per span; beyond it, the oldest are dropped."""
_ENOUGH = 1_000
"""Attributes of one span that suffice for hundreds of documents."""
_SWITCHES: Mapping[str, str] = {reader.name: reader.switch for reader in READERS}


class _Family(NamedTuple):
    """Instrumentations that follow one convention."""

    name: str
    begins: tuple[str, ...]
    convention: str
    obstacle: Callable[[Mapping[str, str]], str | None]
    """Returns what keeps texts off the spans, as a phrase, or None."""


def _hiding_variables(environment: Mapping[str, str]) -> str | None:
    hiding = sorted(
        name
        for name, value in environment.items()
        if name.startswith("OPENINFERENCE_HIDE_") and value.strip().lower() in _ON
    )
    return f"{', '.join(hiding)} hides texts" if hiding else None


def _unless(variable: str, wanted: frozenset[str], *, default: bool) -> Callable[..., str | None]:
    def obstacle(environment: Mapping[str, str]) -> str | None:
        value = environment.get(variable)
        if value is None:
            return None if default else f"{variable} is not set: texts are off"
        return None if value.strip().lower() in wanted else f"{variable} switches texts off"

    return obstacle


_FAMILIES = (
    _Family("OpenInference", ("openinference-instrumentation-",), "openinference", _hiding_variables),
    _Family(
        "OpenLLMetry",
        (
            "traceloop-sdk",
            "opentelemetry-instrumentation-langchain",
            "opentelemetry-instrumentation-llamaindex",
        ),
        "openllmetry",
        _unless("TRACELOOP_TRACE_CONTENT", _ON, default=True),
    ),
    _Family(
        "Haystack's tracer",
        ("opentelemetry-haystack",),
        "haystack",
        _unless("HAYSTACK_CONTENT_TRACING_ENABLED", _ON, default=False),
    ),
    _Family(
        "GenAI instrumentations",
        ("opentelemetry-instrumentation-genai-",),
        "gen_ai",
        _unless(
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
            frozenset({"span_only", "event_only", "span_and_event"}),
            default=False,
        ),
    ),
)


def check_instrumentations(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding per installed family of instrumentations, and one about limits."""
    names = {(found.metadata["Name"] or "").lower() for found in distributions()}
    present = [family for family in _FAMILIES if any(name.startswith(family.begins) for name in names)]
    for family in present:
        what = f"spans of {family.name}"
        problem = family.obstacle(environment)
        if problem is not None:
            yield CONFIGURED.warning(what, problem, _SWITCHES[family.convention])
        else:
            yield CONFIGURED.ok(what, "they carry texts")
    if present:
        yield from _limits(environment)


def _limits(environment: Mapping[str, str]) -> Iterator[Finding]:
    what = "limits of spans"
    for name in ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        if environment.get(name, "").strip():
            yield CONFIGURED.warning(what, f"{name} cuts texts off, and JSON with them", f"take {name} out")
            return
    limit = environment.get(
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", environment.get("OTEL_ATTRIBUTE_COUNT_LIMIT", "")
    ).strip()
    count = int(limit) if limit.isdecimal() else _DEFAULT
    more = f"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT={_ENOUGH}"
    if count < _DEFAULT:
        yield CONFIGURED.warning(what, f"a span takes {count} attributes: documents are lost", f"set {more}")
    elif count < _ENOUGH:
        yield CONFIGURED.ok(
            what, f"a span takes {count} attributes; to retrieve more than 25 documents: {more}"
        )
    else:
        yield CONFIGURED.ok(what, f"a span takes {count} attributes")
