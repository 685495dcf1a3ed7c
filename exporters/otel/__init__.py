"""Scores as OpenTelemetry spans, events and metrics. `OpenTelemetryExporter` is the front door."""

from ._exporter import EventMode, OpenTelemetryExporter
from ._spans import SpanMode

__all__ = ["EventMode", "OpenTelemetryExporter", "SpanMode"]
