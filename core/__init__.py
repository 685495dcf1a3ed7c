"""ragmeter: live retrieval-quality scores for RAG chains, as OpenTelemetry.

The front door. Names are handed out lazily, so that ``import ragmeter.metrics``
loads neither the meter nor the exporters, and ``import ragmeter`` loads no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmeter.exporters.protocol import MeterStats, RagRun, Retrieval, ScoredRun

    from ._request import Request, request
    from .context import reference, suppress
    from .meter import RagMeter

__all__ = [
    "MeterStats",
    "RagMeter",
    "RagRun",
    "Request",
    "Retrieval",
    "ScoredRun",
    "reference",
    "request",
    "suppress",
]

_HOMES = {
    "MeterStats": "ragmeter.exporters.protocol",
    "RagMeter": "ragmeter.meter",
    "RagRun": "ragmeter.exporters.protocol",
    "Request": "ragmeter._request",
    "Retrieval": "ragmeter.exporters.protocol",
    "ScoredRun": "ragmeter.exporters.protocol",
    "reference": "ragmeter.context",
    "request": "ragmeter._request",
    "suppress": "ragmeter.context",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs a file search

        from ragmeter.metrics.errors import DISTRIBUTION  # noqa: PLC0415 -- imports stay lazy

        return version(DISTRIBUTION)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ragmeter' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted([*__all__, "__version__"])
