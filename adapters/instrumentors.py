"""Entry points of OpenTelemetry's auto-instrumentation: ``opentelemetry-instrument python app.py``.

``opentelemetry-instrument`` loads these classes by the entry-point group ``opentelemetry_instrumentor`` and
calls `instrument`. They do not use the package opentelemetry-instrumentation, which is therefore no
dependency, but have the same three methods. The meter is configured by the environment (`RagMeter.from_env`);
``RAGMETER_ENABLED=false`` disables them, and so does ``OTEL_SDK_DISABLED=true`` unless scores go elsewhere. A
wrong setting is logged and attaches nothing, as an exception here would take OpenTelemetry's other
instrumentations down with it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from functools import cache
from typing import Any

from ragmeter.metrics import RagmeterError
from ragmeter.settings.config import read_settings

from . import FRAMEWORKS, instrument, is_installed, uninstrument

logger = logging.getLogger("ragmeter")


def _asks_for_scores() -> bool:
    """Return whether the environment requests scores, and configures a destination."""
    settings = read_settings()
    sdk_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    # Scores without a destination would still cost judge calls.
    elsewhere = settings.writes_elsewhere or settings.scoring == "queue"
    return settings.enabled and (elsewhere or not sdk_off)


@cache
def _say(error: str) -> None:
    """Log a wrong setting, once for all frameworks, without the traceback, which would not explain it."""
    logger.error("ragmeter: not attached, nothing is scored: %s", error)


class _Instrumentor:
    """Attaches one framework for the process, for OpenTelemetry's auto-instrumentation."""

    _framework: str
    _distributions: tuple[str, ...]

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the distributions, with versions, of which one must be installed."""
        return self._distributions

    def instrument(self, **kwargs: Any) -> None:
        """Attach; keyword arguments for others (providers, ``skip_dep_check``) are ignored.

        Raises:
            ModuleNotFoundError: The framework is not installed: auto-instrumentation skips it.
        """
        probe = FRAMEWORKS[self._framework].probe
        if not is_installed(probe):
            raise ModuleNotFoundError(f"no module named {probe!r}", name=probe)
        try:
            if kwargs.get("meter") is not None or _asks_for_scores():
                instrument(kwargs.get("meter"), frameworks=(self._framework,))
        except RagmeterError as error:
            _say(str(error))

    def uninstrument(self, **kwargs: Any) -> None:
        """Detach."""
        del kwargs
        uninstrument(frameworks=(self._framework,))


class RagMeterLangChainInstrumentor(_Instrumentor):
    """Scores every LangChain and LangGraph request of the process."""

    _framework = "langchain"
    _distributions = ("langchain-core >= 0.3, < 2",)


class RagMeterLlamaIndexInstrumentor(_Instrumentor):
    """Scores every LlamaIndex request of the process."""

    _framework = "llama_index"
    _distributions = ("llama-index-core >= 0.12, < 0.15",)
