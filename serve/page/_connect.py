"""Instructions to connect an application: the lines to copy for each set-up, and the progress so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ragmeter.adapters.opentelemetry.heard import HeardService
from ragmeter.metrics.errors import install_command

_BESIDE = """from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor
"""
_STARTED = """OTEL_EXPORTER_OTLP_ENDPOINT={http} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf \\
  OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true \\
  opentelemetry-instrument python app.py"""


class Setup(NamedTuple):
    """Instructions for an application with an existing set-up."""

    name: str
    lines: str
    """``{http}`` stands for the address of OTLP over HTTP."""


SETUPS: Mapping[str, Setup] = {
    "langchain": Setup("LangChain", f"{install_command('langchain', 'otlp')} opentelemetry-distro\n{_STARTED}"),
    "llama_index": Setup(
        "LlamaIndex", f"{install_command('llama-index', 'otlp')} opentelemetry-distro\n{_STARTED}"
    ),
    "phoenix": Setup(
        "Phoenix",
        _BESIDE
        + """from phoenix.otel import register

provider = register(auto_instrument=True)
provider.add_span_processor(
    BatchSpanProcessor(OTLPSpanExporter("{http}/v1/traces")),
    replace_default_processor=False,
)""",
    ),
    "langfuse": Setup(
        "Langfuse",
        "from langfuse import get_client\nfrom opentelemetry import trace\n"
        + _BESIDE
        + """
get_client()
trace.get_tracer_provider().add_span_processor(
    BatchSpanProcessor(OTLPSpanExporter("{http}/v1/traces"))
)""",
    ),
    "opentelemetry": Setup(
        "OpenTelemetry",
        "export OTEL_EXPORTER_OTLP_ENDPOINT={http}\nexport OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ),
}
"""Set-ups by their name in addresses."""


def connection_steps(
    heard: Sequence[HeardService], scored: Mapping[str, int], listens: Collection[str]
) -> list[dict[str, Any]]:
    """Return the steps from listening to the first score, each with its state and its lines.

    Args:
        heard: The received requests of each service, by outcome.
        scored: Number of scored requests in the store, by service.
        listens: The addresses on which the server listens.
    """
    names = [(one.service, one.traces) for one in heard]
    known = {name for name, _ in names}
    names += [(name, n) for name, n in scored.items() if name not in known]
    found = [name for name, n in scored.items() if n] + [
        one.service for one in heard if one.requests and one.service not in scored
    ]
    done = [True, bool(names), bool(found), any(scored.values())]
    lines: list[list[tuple[str, int | None]]] = [
        [(each, None) for each in listens],
        list(names),
        [(each, None) for each in found],
        [(name, n) for name, n in scored.items() if n],
    ]
    keys = ("step_listening", "step_heard", "step_retrieval", "step_score")
    return [
        {"key": key, "is_done": is_done, "is_next": not is_done and all(done[:at]), "lines": said[:8]}
        for at, (key, is_done, said) in enumerate(zip(keys, done, lines, strict=True))
    ]
