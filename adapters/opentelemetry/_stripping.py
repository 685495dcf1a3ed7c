"""A wrapper of a span exporter that removes the texts which conventions write on spans.

For processes that may export scores but no texts: `RagMeterSpanProcessor` reads the spans, this wrapper
passes the exporter a view of them. The spans themselves are not changed, other processors see them whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._sdk import record_of
from .conventions import reading

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
else:
    SpanExporter = object  # for type checkers; at run time the SDK is the application's

_SAFE = re.compile(
    r"(?:.*[._])?(?:kind|type|types|name|names|id|ids|model|provider|system|role|mime_type|version|path|"
    r"operation|operationId|method|route|reason|reasons|format|language|environment|status|status_code)"
)
"""Names of attributes whose texts are a system's, not a user's."""


class TextStrippingExporter(SpanExporter):
    """Passes spans on to an exporter without the texts that conventions write on them.

    Of spans that belong to a known convention, attributes with texts are left out, except names, ids, kinds
    and models; so are messages of errors and attributes of events. Numbers stay, and all other spans.

    Args:
        exporter: A span exporter of an OpenTelemetry SDK.
    """

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[Any]) -> Any:
        """Pass `spans` on, without texts."""
        return self._exporter.export(
            [span if reading(record_of(span)) is None else _View(span) for span in spans]
        )

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the exporter."""
        return bool(self._exporter.force_flush(timeout_millis))


class _View:
    """A span without texts; everything else is the span's own."""

    def __init__(self, span: Any) -> None:
        self._span = span
        self.attributes = _without_texts(span.attributes)
        self.events = tuple(
            type(event)(name=event.name, attributes=_without_texts(event.attributes), timestamp=event.timestamp)
            for event in span.events or ()
        )
        self.status = type(span.status)(span.status.status_code)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._span, name)


def _without_texts(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        key: value
        for key, value in (attributes or {}).items()
        if isinstance(value, (bool, int, float)) or _SAFE.fullmatch(key) is not None
    }
