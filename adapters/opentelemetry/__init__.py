"""OpenTelemetry: requests that others trace already, found in their spans.

Needs nothing but OpenTelemetry; reading OTLP needs ``opentelemetry-proto``, too.
"""

from ._passages import RetrievalTool

__all__ = ["RetrievalTool"]
