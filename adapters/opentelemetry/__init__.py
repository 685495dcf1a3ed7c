"""OpenTelemetry: finds requests in the spans that other instrumentations record.

Needs only OpenTelemetry, and ``opentelemetry-proto`` to read OTLP.
"""

from ragmeter.adapters.reading.results import RetrievalTool

from ._handler import RagMeterSpanProcessor
from ._stripping import TextStrippingExporter

__all__ = ["RagMeterSpanProcessor", "RetrievalTool", "TextStrippingExporter"]
