"""OpenTelemetry: finds requests in the spans that other instrumentations record.

Needs only OpenTelemetry, and ``opentelemetry-proto`` to read OTLP.
"""

from typing import TYPE_CHECKING

from ragmeter.metrics._process.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ragmeter.adapters.reading.results import RetrievalTool

    from ._handler import RagMeterSpanProcessor
    from ._stripping import TextStrippingExporter

__all__ = ["RagMeterSpanProcessor", "RetrievalTool", "TextStrippingExporter"]

_HOMES = {"RetrievalTool": "_handler", "TextStrippingExporter": "_stripping"}
__getattr__, __dir__ = lazy_exports(__name__, __all__, _HOMES, "_handler")
