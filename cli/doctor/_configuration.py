"""Checks whether the environment's settings are valid and plausible.

Reads ``RAGMETER_*`` and the standard ``OTEL_*`` variables and the reference file; opens no connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import starmap
from pathlib import Path

from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.metrics.errors import install_command
from ragmeter.requests.references import load_references
from ragmeter.settings.config import PREFIX, Settings, read_settings, without_effect
from ragmeter.settings.from_settings import metrics_of

from ._findings import CONFIGURED, Finding
from ._packages import installed_version


def settings_or_none() -> Settings | None:
    """Return the settings, or None if they cannot be read."""
    try:
        return read_settings()
    except ConfigurationError:
        return None


def check_configuration() -> Iterator[Finding]:
    """Yield findings about variables, metrics and the reference file."""
    try:
        settings = read_settings()
    except ConfigurationError as error:
        yield CONFIGURED.failed(f"{PREFIX}* variables", str(error), "correct the value")
        return
    given = sorted(name for name in os.environ if name.startswith(PREFIX))
    yield CONFIGURED.ok(f"{PREFIX}* variables", ", ".join(given) or "none set: the defaults hold")
    yield from starmap(CONFIGURED.warning, without_effect(settings))
    if not settings.enabled:
        yield CONFIGURED.warning(
            "RAGMETER_ENABLED", "false: instrumentation without code does nothing", "unset it"
        )
    if settings.sample_rate == 0:
        yield CONFIGURED.warning("RAGMETER_SAMPLE_RATE", "0: no request is scored", "raise it, e.g. to 0.1")
    yield from _metrics(settings)
    yield from _references(settings)
    yield from _files(settings)
    yield from _instrumentation()
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        said = ("OTEL_SDK_DISABLED", "true: the OpenTelemetry SDK drops everything", "unset it")
        elsewhere = settings.writes_elsewhere or settings.scoring == "queue"
        yield CONFIGURED.warning(*said) if elsewhere else CONFIGURED.failed(*said)


def _metrics(settings: Settings) -> Iterator[Finding]:
    if settings.metrics is None:
        return
    try:
        chosen = metrics_of(settings, None)
    except RagmeterError as error:
        why, _, fix = str(error).partition("; ")
        yield CONFIGURED.failed("RAGMETER_METRICS", why, fix or "`ragmeter metrics` lists all names")
    else:
        yield CONFIGURED.ok("metrics", ", ".join(metric.name for metric in chosen or ()))


def _references(settings: Settings) -> Iterator[Finding]:
    if settings.references is None:
        yield CONFIGURED.skipped(
            "reference file", "none: metrics that need a reference have one only when the request brings it"
        )
        return
    try:
        load_references(settings.references)
    except RagmeterError as error:
        yield CONFIGURED.failed(
            "reference file", str(error), "correct RAGMETER_REFERENCES or the file; one JSON object per line"
        )
    else:
        yield CONFIGURED.ok("reference file", f"{settings.references} is readable")


def _files(settings: Settings) -> Iterator[Finding]:
    for variable, path in (("RAGMETER_JSONL", settings.jsonl), ("RAGMETER_JUDGE_CACHE", settings.judge_cache)):
        if path is None:
            continue
        file = Path(path)
        target = file if file.exists() else file.absolute().parent
        if os.access(target, os.W_OK):
            yield CONFIGURED.ok(variable, f"{path} can be written")
        else:
            problem = "is not writable" if target.exists() else "does not exist"
            yield CONFIGURED.failed(variable, f"{target} {problem}", "create it, or name another place")


def _instrumentation() -> Iterator[Finding]:
    """Yield whether ``opentelemetry-instrument`` would find ragmeter's instrumentations."""
    known = {point.name for point in entry_points(group="opentelemetry_instrumentor")}
    ours = sorted(name for name in known if name.startswith("ragmeter_"))
    off = os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").replace(" ", "").split(",")
    disabled = [name for name in ours if name in off or "*" in off]
    if disabled:
        yield CONFIGURED.warning(
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
            f"turns {', '.join(disabled)} off",
            "take these names out, unless ragmeter is attached in code",
        )
    elif not ours:
        yield CONFIGURED.failed(
            "instrumentation without code",
            "ragmeter's entry points are missing",
            f"install ragmeter again: {install_command('cli')} --force-reinstall",
        )
    elif installed_version("opentelemetry-distro") is None:
        yield CONFIGURED.skipped(
            "instrumentation without code",
            "opentelemetry-distro is not installed",
            "to use it: pip install opentelemetry-distro",
        )
    else:
        yield CONFIGURED.ok("instrumentation without code", ", ".join(ours))
