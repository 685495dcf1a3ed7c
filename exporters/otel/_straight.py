"""Send spans directly to a backend from a process without an OpenTelemetry SDK, by a private provider.

Nothing is registered: other libraries of the process see none of it, and write nothing to it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragmeter.exporters._http import DeliveryError
from ragmeter.exporters._session import own_session
from ragmeter.exporters._span_targets import SpansAddress


class StraightWay(NamedTuple):
    """Our own provider, and the exporters of the SDK that what it makes is handed to."""

    provider: Any
    spans: list[Any]
    """What has ended and is not sent."""
    exporters: Sequence[Any]

    def send(self) -> None:
        """Send what has ended, on the thread of the exporter that wrote it.

        Raises:
            DeliveryError: It was not taken; the SDK has logged why.
        """
        spans = self.spans[:]
        del self.spans[: len(spans)]
        refused = [one for one in self.exporters if spans and one.export(spans).name != "SUCCESS"]
        if refused:
            raise DeliveryError(f"{len(spans)} spans were not taken")


def way_to(addresses: Sequence[SpansAddress]) -> StraightWay | None:
    """Return the way to `addresses`; None where the extra ``otlp`` is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider  # noqa: PLC0415
    except ImportError:
        return None
    resource = Resource.create()
    script = Path(sys.argv[0] if sys.argv else "").stem.strip("-")
    if script and str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": script}))
    for address in addresses:
        resource = resource.merge(Resource(dict(address.resource)))
    way = StraightWay(
        TracerProvider(resource=resource, shutdown_on_exit=False),
        [],
        [
            OTLPSpanExporter(one.url, headers=dict(one.headers), session=own_session())
            for one in addresses
        ],
    )

    class Collecting(SpanProcessor):
        def on_end(self, span: Any) -> None:
            way.spans.append(span)

        def shutdown(self) -> None:
            for exporter in way.exporters:
                exporter.shutdown()

    way.provider.add_span_processor(Collecting())
    return way
