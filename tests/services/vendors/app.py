"""An application with a vendor's tracing: its lines, ragmeter in one of the ways, then requests.

Usage: app.py VENDOR WAY; any other way: without ragmeter. It prints one line of JSON and ends by itself.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opentelemetry import trace
from rag_chain import ANSWER, DOCUMENTS, QUESTION, rag_chain
from table import VENDORS, WAYS

ASKED = 2
NAME, WAY = sys.argv[1:]
VENDOR = VENDORS[NAME]
SPACE: dict[str, Any] = {"trace": trace}
# In a file, like an application's: Logfire reads the caller's source.
source = Path("vendor.py").resolve()
source.write_text(f"{VENDOR.lines}\ndef around():\n    return {VENDOR.around}\n", "utf-8")
meter = options = processor = None
shown: dict[str, Any] = {}
if VENDOR.shown and WAY in WAYS:
    page = Path(__file__).parents[3].joinpath("docs", "backends.md").read_text("utf-8")
    part = page.partition(f"\n## {VENDOR.shown}\n")[2]
    exec(part.partition("```python\n")[2].partition("```")[0], shown)
    meter = shown["meter"]
if WAY == "before":
    from ragmeter import RagMeter
    from ragmeter.adapters import instrument

    meter = instrument(meter or RagMeter())
exec(compile(source.read_text("utf-8"), source, "exec"), SPACE)
provider = SPACE[VENDOR.provider] if VENDOR.provider else None
if WAY in WAYS and meter is None:
    from ragmeter import RagMeter
    from ragmeter.exporters.otel import OpenTelemetryExporter

    meter = RagMeter(exporters=[OpenTelemetryExporter(provider)]) if provider else RagMeter()
if WAY == "handler":
    from ragmeter.adapters.langchain import RagMeterCallbackHandler

    options = {"callbacks": [RagMeterCallbackHandler(meter)]}
elif WAY == "instrument":
    from ragmeter.adapters import instrument

    instrument(meter)
elif WAY == "processor":
    from ragmeter.adapters.opentelemetry import RagMeterSpanProcessor

    processor = RagMeterSpanProcessor(meter).attach(provider)


def traced() -> str:
    """Answer by code that writes spans manually, with OpenInference's names."""
    tracer = (provider or trace.get_tracer_provider()).get_tracer("app")
    with tracer.start_as_current_span("answer") as request:
        request.set_attributes({"openinference.span.kind": "CHAIN", "input.value": QUESTION})
        with tracer.start_as_current_span("search") as search:
            search.set_attribute("openinference.span.kind", "RETRIEVER")
            for place, one in enumerate(DOCUMENTS):
                search.set_attribute(f"retrieval.documents.{place}.document.content", one.page_content)
        request.set_attribute("output.value", ANSWER)
        return f"{request.get_span_context().trace_id:032x}"


def by_hand() -> None:
    """Report question, retrieved documents and answer to the meter."""
    with meter.request(QUESTION, name="guide") as request:
        request.retrieved([one.page_content for one in DOCUMENTS])
        request.answered(ANSWER)


chain = rag_chain()
traces = []
for _ in range(ASKED):
    with SPACE["around"]():
        traces.append(traced())
        chain.invoke(QUESTION, options)
        if WAY == "by hand":
            by_hand()
result = {"traces": traces}
if meter is not None:
    if processor is not None:
        processor.force_flush()
    result["flushed"] = meter.flush(60)
    result["stats"] = asdict(meter.stats())
sys.stdout.write("\n" + json.dumps(result) + "\n")
