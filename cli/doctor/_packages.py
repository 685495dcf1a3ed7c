"""Checks which optional packages are installed, and whether they work together.

Looks at installed distributions and imports the adapters; opens no connection.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from ragmeter.adapters import FRAMEWORKS
from ragmeter.metrics.errors import DISTRIBUTION, install_command

from ._findings import INSTALLED, Finding

_OPTIONAL = (
    ("openai", "judge", "judged metrics"),
    ("opentelemetry-exporter-otlp-proto-http", "otlp", "OTLP over HTTP"),
    ("opentelemetry-exporter-otlp-proto-grpc", "otlp", "OTLP over gRPC"),
    ("opentelemetry-exporter-prometheus", "prometheus", "being scraped by Prometheus"),
    ("httpx", "sinks", "scores in Phoenix and Langfuse through their APIs"),
)


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def check_packages() -> Iterator[Finding]:
    """Yield a finding per package."""
    yield INSTALLED.ok("ragmeter", f"{version(DISTRIBUTION)} on Python {platform.python_version()}")
    yield from _frameworks()
    sdk = installed_version("opentelemetry-sdk")
    if sdk is None:
        yield INSTALLED.failed(
            "OpenTelemetry SDK",
            "not installed: without an SDK nothing is sent anywhere",
            install_command("otlp"),
        )
    else:
        yield INSTALLED.ok("OpenTelemetry SDK", sdk)
    for distribution, extra, purpose in _OPTIONAL:
        found = installed_version(distribution)
        if found is None:
            fix = f"for {purpose}: {install_command(extra)}"
            yield INSTALLED.skipped(distribution, "not installed", fix)
        else:
            yield INSTALLED.ok(distribution, found)


def _frameworks() -> Iterator[Finding]:
    found = False
    for key, one in FRAMEWORKS.items():
        install = install_command(key.replace("_", "-"))
        release = installed_version(one.distribution)
        if release is None:
            yield INSTALLED.skipped(one.name, "not installed", f"to use it: {install}")
            continue
        found = True
        installed = f"{one.distribution} {release}"
        try:
            import_module(one.adapter)
        except ImportError as error:
            yield INSTALLED.failed(one.name, f"{installed} does not fit: {error}", f"{install} --upgrade")
        else:
            yield INSTALLED.ok(one.name, installed)
    if not found:
        yield INSTALLED.warning(
            "a framework",
            "neither LangChain nor LlamaIndex is installed here",
            "run this in the application's environment, or record requests manually: meter.request(...)",
        )
