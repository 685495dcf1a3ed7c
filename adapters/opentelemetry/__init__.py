"""OpenTelemetry: requests that others trace already, found in their spans.

Needs nothing but OpenTelemetry; reading OTLP needs ``opentelemetry-proto``, too.
"""

from ragmeter.adapters.reading.results import RetrievalTool

from ._handler import RagMeterSpanProcessor
from ._stripping import TextStrippingExporter

__all__ = ["RagMeterSpanProcessor", "RetrievalTool", "TextStrippingExporter"]
