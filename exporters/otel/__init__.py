"""Export scores as OpenTelemetry spans, events and metrics: `OpenTelemetryExporter`."""

from ._exporter import EventMode, OpenTelemetryExporter
from ._spans import SpanMode

__all__ = ["EventMode", "OpenTelemetryExporter", "SpanMode"]
