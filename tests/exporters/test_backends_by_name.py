"""`exporters="phoenix"` and `"langfuse"`: set up by the variables that those tools read, and by nothing else."""

import os
from base64 import b64encode

import pytest
from otlp_receiver import attributes_of
from python_process import run_python

from ragmeter import RagMeter
from ragmeter.exporters.console import ConsoleExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.metrics import ConfigurationError
from ragmeter.settings.destinations import exporters_of

PROGRAM = """
from ragmeter import RagMeter

meter = RagMeter({arguments})
with meter.request("Who designed the harbour bridge?", name="guide") as request:
    request.retrieved(["Ferries leave the harbour every hour, on Sundays every two hours."])
    request.answered("It was designed by John Bradfield and Ralph Freeman.")
"""
SDK = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter("{url}/theirs/v1/traces")))
trace.set_tracer_provider(provider)
"""
TOKEN = b64encode(b"pk-1:sk-2").decode()


def phoenix_variables(url):
    return {"PHOENIX_COLLECTOR_ENDPOINT": url, "PHOENIX_API_KEY": "key", "PHOENIX_PROJECT": "shop"}


def langfuse_variables(url):
    return {
        "LANGFUSE_BASE_URL": url,
        "LANGFUSE_PUBLIC_KEY": "pk-1",
        "LANGFUSE_SECRET_KEY": "sk-2",
        "LANGFUSE_TRACING_ENVIRONMENT": "staging",
    }


BACKENDS = {
    "phoenix": (phoenix_variables, "/v1/traces", "Bearer key", ("openinference.project.name", "shop")),
    "langfuse": (
        langfuse_variables,
        "/api/public/otel/v1/traces",
        f"Basic {TOKEN}",
        ("langfuse.environment", "staging"),
    ),
}


def run(program, variables, tmp_path):
    script = tmp_path / "guide_bot.py"
    script.write_text(program)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = run_python(script, env=clean | {"RAGMETER_SHUTDOWN_TIMEOUT_S": "60"} | variables, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


@pytest.mark.parametrize(
    ("name", "how"),
    [("phoenix", "alone"), ("phoenix", "beside"), ("langfuse", "variable"), ("langfuse", "own_sdk")],
)
def test_a_backend_by_name_gets_spans_and_the_verdict_on_them(backend, tmp_path, name, how):
    """With no SDK in the process the spans go straight there; else through the application's."""
    variables, path, key, project = BACKENDS[name]
    given = {"beside": f'exporters=["otel", "{name}"]', "variable": ""}
    program = PROGRAM.format(arguments=given.get(how, f'exporters="{name}"'))
    if how == "own_sdk":
        program = SDK.format(url=backend.url) + program
    environment = variables(backend.url)
    if how == "variable":
        environment["RAGMETER_EXPORTERS"] = name
    assert run(program, environment, tmp_path) == ""

    spans = {
        f"{span.span_id.hex()}": span.name
        for _, _, sent in backend.traces
        for part in sent.resource_spans[0].scope_spans
        for span in part.spans
    }
    assert sorted(spans.values()) == ["invoke_workflow guide", "retrieval"]
    assert {path for path, *_ in backend.traces} == {"/theirs/v1/traces" if how == "own_sdk" else path}
    if how != "own_sdk":
        _, headers, sent = backend.traces[0]
        resource = attributes_of(sent.resource_spans[0].resource)
        assert headers["authorization"] == key
        assert resource[project[0]] == project[1]
        assert resource["service.name"] == "guide_bot"
    if name == "phoenix":  # bad is the last of its colours, not the first
        [config] = backend.configs
        words = [(one["label"], one["score"]) for one in config["values"]]
        assert words == [("good", 1.0), ("suspect", 0.5), ("bad", 0.0)]
        assert config["optimization_direction"] == "MAXIMIZE"
        assert backend.puts == ["/v1/projects/shop/annotation_configs/ragmeter.verdict"]
    verdicts = [one for one in backend.stored.values() if one["name"] == "ragmeter.verdict"]
    assert {one.get("value") or one["result"]["label"] for one in verdicts} == {"bad"}
    assert {headers["Authorization"] for _, headers, *_ in backend.requests} == {key}
    judged = {one.get("span_id") or one.get("observationId") for one in backend.stored.values()}
    assert judged - {None} <= set(spans)


def test_names_and_objects_stand_beside_each_other(monkeypatch):
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", "http://127.0.0.1:9")
    spans = OpenTelemetryExporter()
    for given, kinds in (
        ("phoenix", [OpenTelemetryExporter, PhoenixAnnotations]),
        (["console", "phoenix"], [OpenTelemetryExporter, ConsoleExporter, PhoenixAnnotations]),
        (["phoenix", "otel", "phoenix"], [PhoenixAnnotations, OpenTelemetryExporter]),
        ([spans, "phoenix"], [OpenTelemetryExporter, PhoenixAnnotations]),
    ):
        assert [type(one) for one in exporters_of(given)] == kinds


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, "http://localhost:6006"),
        ({"PHOENIX_COLLECTOR_ENDPOINT": "https://p.example/v1/traces"}, "https://p.example"),
        ({"PHOENIX_COLLECTOR_ENDPOINT": "http://p.example:4317"}, "http://p.example:6006"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://p.example:6006"}, "http://p.example:6006"),
        ({"PHOENIX_COLLECTOR_ENDPOINT": "https://p.example/s/me/"}, "https://p.example/s/me"),
        ({"PHOENIX_HOST": "0.0.0.0", "PHOENIX_PORT": "7007"}, "http://127.0.0.1:7007"),
        ({"PHOENIX_ENDPOINT": "http://a:1", "PHOENIX_COLLECTOR_ENDPOINT": "http://b"}, "http://a:1"),
    ],
)
def test_phoenix_is_where_its_own_packages_look_for_it(monkeypatch, variables, shown):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert repr(PhoenixAnnotations.from_env()) == f"PhoenixAnnotations({shown!r})"


@pytest.mark.parametrize(
    ("variables", "given", "message"),
    [
        ({}, "phonix", "did you mean 'phoenix'"),
        ({}, ["otel", "lang-fuse"], "did you mean 'langfuse'"),
        ({}, "langfuse", "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"),
        ({"LANGFUSE_PUBLIC_KEY": "pk"}, "langfuse", "set LANGFUSE_SECRET_KEY,"),
        (langfuse_variables("cloud"), "langfuse", "LANGFUSE_BASE_URL: .* such as"),
        ({"PHOENIX_COLLECTOR_ENDPOINT": "localhost:6006"}, "phoenix", "PHOENIX_COLLECTOR_ENDPOINT: "),
        ({"RAGMETER_EXPORTERS": "otel,phonix"}, None, "'phonix' is unknown; did you mean 'phoenix'"),
    ],
)
def test_what_is_missing_or_wrong_is_named_at_construction(monkeypatch, variables, given, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=message):
        RagMeter(exporters=given)
