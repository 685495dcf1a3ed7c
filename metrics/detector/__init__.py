"""Detectors: the user's models that mark unsupported parts of an answer; `SpanSupport` uses one.

Public names are imported on first use: a program without a detector loads none of them.
"""

from typing import TYPE_CHECKING

from ragmeter.metrics._process.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .detector import DetectionRequest, SpanDetector, UnsupportedSpan
    from .http import HttpSpanDetector
    from .in_process import InProcessSpanDetector, as_detector
    from .onnx import OnnxSpanDetector
    from .span_support import SpanSupport

__all__ = [
    "DetectionRequest",
    "HttpSpanDetector",
    "InProcessSpanDetector",
    "OnnxSpanDetector",
    "SpanDetector",
    "SpanSupport",
    "UnsupportedSpan",
    "as_detector",
]

_HOMES = {
    "HttpSpanDetector": "http",
    "InProcessSpanDetector": "in_process",
    "OnnxSpanDetector": "onnx",
    "SpanSupport": "span_support",
    "as_detector": "in_process",
}

__getattr__, __dir__ = lazy_exports(__name__, __all__, _HOMES, "detector")
