"""Vendors whose tracing is used beside ragmeter, one row each: pinned packages, and their quick start's lines.

A new vendor is a new row. `install.py` makes its environment, `app.py` runs its lines, `../test_vendors.py` judges.
The statements are those of the vendor's own page, without its comments: of the README in the published package for Phoenix,
Langfuse, OpenLIT, LangWatch and Azure Monitor, of its docstring for ddtrace; of the documentation for Logfire (alternative
backends), Langfuse 3 (setup) and with a provider of its own (advanced usage), MLflow (combining OpenTelemetry's SDK),
AgentOps (quick start) and the distribution. Traceloop's README names its application, its documentation turns batches
off for trials. OpenInference has no page for its provider alone: its LangChain README with the package's own provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["COMMON", "VENDORS", "WAYS", "Vendor"]

WAYS = ("by hand", "handler", "instrument", "processor", "before")
"""The way to attach ragmeter: after the vendor's lines, or by `instrument()` before them."""

COMMON = ("langchain-core==1.7.2",)
"""The application's requirements, with any tracing."""

_OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "{url}", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
_LANGCHAIN = "openinference-instrumentation-langchain==0.1.72"


@dataclass(frozen=True)
class Vendor:
    """One vendor's tracing, set up as its own page says."""

    packages: tuple[str, ...]
    lines: str
    """As on that page, without ragmeter."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its variables; ``{url}`` and ``{grpc_port}`` are those of the test's backend."""
    around: str = 'trace.get_tracer("app").start_as_current_span("ask")'
    """The code with which the application opens a span, by the vendor's API."""
    provider: str | None = None
    """The name of the provider in `lines`, where it is not the global one."""
    command: tuple[str, ...] = ()
    """The command that starts the application."""
    signals: tuple[str, ...] = ("traces",)
    """The signals with providers that it sets up."""
    short: bool = False
    """Whether CI has it."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """A way that does not work there, and why; then ragmeter reports that, and the vendor loses nothing."""
    shown: str = ""
    """The part of docs/backends.md whose snippet creates the meter, if `RagMeter()` is not sufficient."""
    named: tuple[str, ...] = ()
    """The output of ``RAGMETER_DOCTOR=1``: provider, processors, exporters, instrumentations."""
    unsent: str = ""
    """The signal without a backend here, which the doctor reports."""


_PHOENIX_PACKAGES = ("arize-phoenix-otel==0.17.2", _LANGCHAIN)
_PHOENIX_VARIABLES = {"PHOENIX_COLLECTOR_ENDPOINT": "{url}", "PHOENIX_GRPC_PORT": "{grpc_port}"}
_LANGFUSE_VARIABLES = {
    "LANGFUSE_PUBLIC_KEY": "pk-lf-none",
    "LANGFUSE_SECRET_KEY": "sk-lf-none",
    "LANGFUSE_BASE_URL": "{url}",
    "LANGFUSE_HOST": "{url}",
}
_LANGFUSE = """
from langfuse import get_client

langfuse = get_client()
"""

_MLFLOW_PACKAGES = ("mlflow-tracing==3.17.2", "opentelemetry-exporter-otlp-proto-http==1.45.2")
# One provider for MLflow's spans and others: it adds its own processors to it.
_MLFLOW = """
import mlflow
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
"""
_MLFLOW_VARIABLES = {
    "MLFLOW_TRACKING_URI": "{url}",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{url}/v1/traces",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    "MLFLOW_USE_DEFAULT_TRACER_PROVIDER": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}

VENDORS: Mapping[str, Vendor] = {
    "phoenix": Vendor(
        _PHOENIX_PACKAGES,
        """
from phoenix.otel import register

tracer_provider = register(auto_instrument=True)
""",
        environment=_PHOENIX_VARIABLES,
        short=True,
        named=("phoenix.otel.otel.TracerProvider of arize-phoenix-otel", "GRPCSpanExporter to"),
    ),
    "phoenix-batch": Vendor(
        _PHOENIX_PACKAGES,
        """
from phoenix.otel import register

tracer_provider = register(
    auto_instrument=True,
    batch=True,
    project_name="my-app",
)
""",
        environment=_PHOENIX_VARIABLES,
        short=True,
    ),
    "openinference": Vendor(
        ("openinference-instrumentation==0.1.72", _LANGCHAIN, "opentelemetry-exporter-otlp-proto-http==1.45.2"),
        """
from openinference.instrumentation import TracerProvider
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace as trace_api
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

tracer_provider = TracerProvider()
trace_api.set_tracer_provider(tracer_provider)
tracer_provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))

LangChainInstrumentor().instrument()
""",
        environment=_OTLP,
    ),
    "logfire": Vendor(
        ("logfire==5.2.0",),
        """
import logfire

logfire.configure(
    service_name='my_logfire_service',
    send_to_logfire=False,
)
""",
        environment=_OTLP,
        around='logfire.span("ask")',
        signals=("traces", "metrics", "logs"),
        short=True,
        named=(
            "traces: logfire._internal.tracer.ProxyTracerProvider of logfire",
            "OTLPSpanExporter to",
            "metrics: logfire._internal.metrics.ProxyMeterProvider of logfire",
            "OTLPMetricExporter to",
            "logs: logfire._internal.logs.ProxyLoggerProvider of logfire",
            "OTLPLogExporter to",
        ),
    ),
    "langfuse": Vendor(
        ("langfuse==5.0.4",),
        _LANGFUSE,
        environment=_LANGFUSE_VARIABLES,
        around='langfuse.start_as_current_observation(as_type="span", name="ask")',
        named=("langfuse's LangfuseSpanProcessor ->", "/api/public/otel/v1/traces"),
    ),
    "langfuse-3": Vendor(
        ("langfuse==3.15.0",),
        _LANGFUSE,
        environment=_LANGFUSE_VARIABLES,
        around='langfuse.start_as_current_span(name="ask")',
    ),
    "langfuse-own-provider": Vendor(
        ("langfuse==5.0.4",),
        """
from opentelemetry.sdk.trace import TracerProvider
from langfuse import Langfuse

langfuse_tracer_provider = TracerProvider()

langfuse = Langfuse(tracer_provider=langfuse_tracer_provider)
""",
        environment=_LANGFUSE_VARIABLES,
        around='langfuse.start_as_current_observation(as_type="span", name="ask")',
        provider="langfuse_tracer_provider",
        cannot={"before": "a provider that nobody sets as the global one has to be given"},
    ),
    "traceloop": Vendor(
        ("traceloop-sdk==0.62.4",),
        """
from traceloop.sdk import Traceloop

Traceloop.init(disable_batch=True)
""",
        environment={"TRACELOOP_BASE_URL": "{url}", "TRACELOOP_TELEMETRY": "FALSE"},
        signals=("traces", "metrics"),
        named=("SimpleSpanProcessor -> OTLPSpanExporter to", "traceloop (imported)"),
    ),
    "openlit": Vendor(
        ("openlit==1.45.0",),
        """
import openlit

openlit.init()
""",
        environment=_OTLP,
        signals=("traces", "metrics", "logs"),
    ),
    "langwatch": Vendor(
        ("langwatch==1.4.0",),
        """
import langwatch

langwatch.setup()
""",
        environment={"LANGWATCH_API_KEY": "sk-lw-none", "LANGWATCH_ENDPOINT": "{url}"},
        around='langwatch.trace(name="ask")',
    ),
    "azure-monitor": Vendor(
        ("azure-monitor-opentelemetry==1.8.11",),
        """
from azure.monitor.opentelemetry import configure_azure_monitor

configure_azure_monitor()
""",
        environment={
            "APPLICATIONINSIGHTS_CONNECTION_STRING": (
                "InstrumentationKey=00000000-0000-0000-0000-000000000001;"
                "IngestionEndpoint={url}/;LiveEndpoint={url}/"
            ),
            "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
            # By default 5 spans a second are kept, the application's own included.
            "OTEL_TRACES_SAMPLER": "microsoft.fixed_percentage",
            "OTEL_TRACES_SAMPLER_ARG": "1.0",
        },
        signals=("traces", "metrics", "logs"),
        named=(
            "azure's _QuickpulseSpanProcessor",
            "azure's AzureMonitorTraceExporter to",
            "opentelemetry.instrumentation.urllib3.URLLib3Instrumentor",
        ),
    ),
    "mlflow": Vendor(
        _MLFLOW_PACKAGES,
        _MLFLOW,
        environment=_MLFLOW_VARIABLES,
        around='mlflow.start_span("ask")',
        cannot=dict.fromkeys(
            WAYS, "MLflow's processor raises for each span that begins after its trace's first one has ended"
        ),
    ),
    "mlflow-as-shown": Vendor(
        _MLFLOW_PACKAGES,
        _MLFLOW,
        environment=_MLFLOW_VARIABLES,
        around='mlflow.start_span("ask")',
        shown="MLflow",
    ),
    "ddtrace": Vendor(
        ("ddtrace==4.16.0",),
        """
import os
os.environ["DD_TRACE_OTEL_ENABLED"] = "true"

import ddtrace.auto

from opentelemetry import trace
""",
        environment={
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{url}/v1/traces",
            "DD_TRACE_AGENT_URL": "{url}",
            "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
            "DD_REMOTE_CONFIGURATION_ENABLED": "false",
        },
        cannot={"processor": "ddtrace's provider takes no span processors"},
    ),
    "agentops": Vendor(
        # With newer exporters this release sends nothing, with ragmeter or without.
        ("agentops==0.4.21", "opentelemetry-exporter-otlp-proto-http==1.39.1"),
        """
import agentops
import os

AGENTOPS_API_KEY = os.getenv("AGENTOPS_API_KEY")
agentops.init(AGENTOPS_API_KEY)
""",
        environment={
            "AGENTOPS_API_KEY": "00000000-0000-4000-8000-000000000001",
            "AGENTOPS_API_ENDPOINT": "{url}",
            "AGENTOPS_EXPORTER_ENDPOINT": "{url}/v1/traces",
        },
        unsent="metrics",
    ),
    "distro": Vendor(
        ("opentelemetry-distro==0.66b2", "opentelemetry-exporter-otlp-proto-http==1.45.2"),
        "",
        environment={
            **_OTLP,
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "ragmeter_langchain,ragmeter_llama_index",
        },
        command=("opentelemetry-instrument",),
        signals=("traces", "metrics", "logs"),
        short=True,
    ),
}
