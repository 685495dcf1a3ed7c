"""Detectors: the user's own models that mark what an answer's chunks do not support; `SpanSupport` asks one.

Public names are imported when they are used: a program without a detector loads none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .detector import DetectionRequest, SpanDetector, UnsupportedSpan
    from .http import HTTPSpanDetector
    from .in_process import InProcessSpanDetector, as_detector
    from .onnx import OnnxSpanDetector
    from .span_support import SpanSupport

__all__ = [
    "DetectionRequest",
    "HTTPSpanDetector",
    "InProcessSpanDetector",
    "OnnxSpanDetector",
    "SpanDetector",
    "SpanSupport",
    "UnsupportedSpan",
    "as_detector",
]

_HOMES = {
    "HTTPSpanDetector": "http",
    "InProcessSpanDetector": "in_process",
    "OnnxSpanDetector": "onnx",
    "SpanSupport": "span_support",
    "as_detector": "in_process",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'detector')}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
