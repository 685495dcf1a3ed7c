"""Checks the application's OpenTelemetry set-up: providers, processors, and where exporters send.

Vendors' providers wrap others, so parts are recognised by their methods, not their names. Only stored
attributes are read; no method is called but a sampler's description.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions, version
from typing import Any

from opentelemetry import _logs, metrics, trace

from ragmeter.exporters.otel._providers import is_of_the_api
from ragmeter.fleet.transport import address_shown

from ._backends import Destination
from ._findings import APPLICATION, Finding

_MAX_VISITED = 2_000
_PARTS = ("process", "export", "provider", "reader", "wrapped", "config", "batch", "delegate", "inner")
"""Parts of the names of attributes that lead to processors and exporters."""
_SIGNALS = ("traces", "metrics", "logs")


class Pipelines:
    """Processors and exporters of the providers that this process writes to.

    Args:
        given: Providers passed to exporters, by signal; other signals use the global provider.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        found = (trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider())
        self.providers: dict[str, Any] = {**dict(zip(_SIGNALS, found, strict=True)), **given}
        self.destinations: list[Destination] = []
        # A vendor's providers refer to each other, so each part must show which signal it is for.
        self.parts: dict[str, list[Any]] = {
            signal: [one for one in _parts_of(provider) if _signal_of(one) in (None, signal)]
            for signal, provider in self.providers.items()
        }

    def exporters(self, signal: str) -> list[Any]:
        """Return the exporters of a signal."""
        return [part for part in self.parts[signal] if _can(part, "export") and not _can(part, "on_end")]

    def processors(self, signal: str) -> list[Any]:
        """Return a signal's processors, without those that only delegate to others."""
        given = [one for one in self.parts[signal] if _can(one, "on_end") or _can(one, "on_emit")]
        return [one for one in given if "Multi" not in type(one).__name__]


def _can(part: Any, method: str) -> bool:
    return callable(getattr(type(part), method, None))


def _signal_of(part: Any) -> str | None:
    """Return the signal that a processor or exporter is for, by the interface that it implements."""
    names = " ".join(
        base.__name__ for base in type(part).__mro__ if base.__module__.startswith("opentelemetry.sdk")
    )
    for word, signal in (("Metric", "metrics"), ("Log", "logs"), ("Span", "traces")):
        if word in names:
            return signal
    return None


def _parts_of(provider: Any) -> Iterator[Any]:
    waiting: list[Any] = [provider]
    visited: set[int] = set()
    while waiting and len(visited) < _MAX_VISITED:
        item = waiting.pop(0)
        if id(item) in visited:
            continue
        visited.add(id(item))
        if isinstance(item, (list, tuple, set, frozenset, dict)):
            inner = item.values() if isinstance(item, dict) else item
            waiting.extend(inner)
            continue
        if any(_can(item, method) for method in ("on_end", "on_emit", "export")):
            yield item
        waiting.extend(
            value
            for name, value in _attributes_of(item).items()
            if any(part in name.lower() for part in _PARTS) and not callable(value)
        )


def _attributes_of(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in type(item).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if hasattr(item, mangled):
                found[mangled] = getattr(item, mangled)
    stored = getattr(item, "__dict__", None)
    return {**found, **stored} if isinstance(stored, dict) else found


def check_providers(pipelines: Pipelines) -> Iterator[Finding]:
    """Yield findings about each signal's provider and its destinations."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield APPLICATION.failed("OTEL_SDK_DISABLED", "true: the SDK's providers drop everything", "unset it")
    destinations: list[Destination] = []
    for signal in _SIGNALS:
        provider = pipelines.providers[signal]
        if is_of_the_api(provider):
            if signal == "traces":
                yield APPLICATION.failed(
                    "traces",
                    "no provider was set: spans, and scores on them, go nowhere",
                    "set one at the application's start, or run it by "
                    '`opentelemetry-instrument`; without a backend: RagMeter(exporters="console")',
                )
            else:
                yield APPLICATION.skipped(signal, "no provider was set: not sent")
            continue
        exporters = pipelines.exporters(signal)
        places = [_place_of(exporter) for exporter in exporters]
        destinations += [
            Destination(signal, "grpc", place, f"the address of {type(exporter).__name__}")
            for exporter, place in zip(exporters, places, strict=True)
            if place is not None
        ]
        shown = ", ".join(
            _class_name(exporter) if place is None else f"{_class_name(exporter)} to {address_shown(place)}"
            for exporter, place in zip(exporters, places, strict=True)
        )
        steps = ", ".join(_class_name(one) for one in pipelines.processors(signal))
        what = f"{signal}: {_whose(provider)}"
        if signal == "traces" and not exporters:
            add = "provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))"
            if steps or not type(provider).__module__.startswith("opentelemetry.sdk"):
                # Other exporters may send in ways that are not visible here.
                detail = f"no exporter is known of it; processors: {steps or 'none'}"
                yield APPLICATION.warning(what, detail, f"if nothing of it arrives: {add}")
            else:
                yield APPLICATION.failed(what, "no processor: spans go nowhere", add)
        else:
            yield APPLICATION.ok(what, (f"{steps} -> " if steps else "") + (shown or "no exporter"))
    yield from _sampler(pipelines.providers["traces"])
    yield from _resource(pipelines.providers["traces"])
    pipelines.destinations = destinations


def _class_name(part: Any) -> str:
    top = type(part).__module__.partition(".")[0]
    return type(part).__name__ if top == "opentelemetry" else f"{top}'s {type(part).__name__}"


def _whose(provider: Any) -> str:
    cls = type(provider)
    top = cls.__module__.partition(".")[0]
    names = set(packages_distributions().get(top, ()))
    prefix = cls.__module__.replace(".", "-").replace("_", "-")
    name = next(iter(names)) if len(names) == 1 else None
    for one in sorted(names, key=len, reverse=True):
        if name is None and prefix.startswith(one.lower().replace("_", "-")):
            name = one
    return f"{cls.__module__}.{cls.__name__}" + ("" if name is None else f" of {name} {version(name)}")


def _place_of(exporter: Any) -> str | None:
    stored = _attributes_of(exporter)
    for key in ("_endpoint", "endpoint", "_url", "url"):
        place = stored.get(key)
        if isinstance(place, str) and place:
            return place if "://" in place else f"http://{place}"
    return None


def _sampler(provider: Any) -> Iterator[Finding]:
    sampler = _inner(provider, "sampler")
    describe = getattr(sampler, "get_description", None)
    if describe is None:
        return
    said = str(describe())
    root = said.partition("root:")[2] or said
    if root.startswith(("AlwaysOff", "TraceIdRatioBased{0.0}", "TraceIdRatioBased{0}")):
        yield APPLICATION.failed(
            "sampler",
            f"{root.partition(',')[0]}: no span is recorded, not even ragmeter's",
            "set OTEL_TRACES_SAMPLER=parentbased_always_on, or the provider's sampler",
        )
    elif re.match(r"TraceIdRatioBased\{(?!1(\.0)?\})", root):
        yield APPLICATION.warning(
            "sampler",
            f"{root.partition(',')[0]}: no other trace has scores on spans, or is heard by a span processor",
            "to score all of them: OTEL_TRACES_SAMPLER=parentbased_always_on, and sample in a Collector",
        )
    else:
        yield APPLICATION.ok("sampler", root.partition(",")[0])


def _resource(provider: Any) -> Iterator[Finding]:
    resource = _inner(provider, "resource") or _inner(provider, "_resource")
    name = str(getattr(resource, "attributes", {}).get("service.name", ""))
    if name.startswith("unknown_service"):
        yield APPLICATION.warning("service.name", name, "set OTEL_SERVICE_NAME: dashboards are by service")
    elif name:
        yield APPLICATION.ok("service.name", name)


def _inner(provider: Any, name: str) -> Any:
    """Return an attribute of a provider, or of a provider it wraps."""
    for _ in range(4):
        stored = _attributes_of(provider)
        if name in stored:
            return stored[name]
        wrapped = [item for key, item in stored.items() if "provider" in key.lower()]
        if not wrapped:
            return None
        provider = wrapped[0]
    return None
