"""Attaches one handler to every LlamaIndex request of the process, on behalf of `instrument`."""

from __future__ import annotations

from ._handler import RagMeterHandler

__all__ = ["HANDLER", "attach_globally", "detach_globally"]

HANDLER = RagMeterHandler
"""What `attach_globally` takes."""

_attached: list[RagMeterHandler] = []


def attach_globally(handler: RagMeterHandler) -> None:
    """Capture every request of the process by `handler`, for its meter."""
    detach_globally()
    _attached.append(handler.attach())


def detach_globally() -> None:
    """Hand over nothing any more. Streams that are open are still captured to their end."""
    while _attached:
        _attached.pop().detach()
