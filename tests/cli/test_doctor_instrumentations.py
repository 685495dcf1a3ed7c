"""What the doctor says of instrumentations whose spans are to be scored."""

import pytest

from ragmeter.cli.doctor import _instrumentations
from ragmeter.cli.doctor._instrumentations import check_instrumentations


class _Installed:
    def __init__(self, name):
        self.metadata = {"Name": name}


@pytest.fixture
def installed(monkeypatch):
    """Let only these distributions be installed."""

    def install(*names):
        monkeypatch.setattr(_instrumentations, "distributions", lambda: map(_Installed, names))

    return install


def _findings(environment):
    return {one.what: one for one in check_instrumentations(environment)}


def test_without_any_nothing_is_said(installed):
    installed("requests")

    assert _findings({}) == {}


@pytest.mark.parametrize(
    ("name", "environment", "state", "said"),
    [
        ("openinference-instrumentation-langchain", {}, "ok", "they carry texts"),
        ("openinference-instrumentation-langchain", {"OPENINFERENCE_HIDE_INPUTS": "true"}, "warning", "HIDE_INPUTS"),
        ("traceloop-sdk", {}, "ok", "they carry texts"),
        ("traceloop-sdk", {"TRACELOOP_TRACE_CONTENT": "false"}, "warning", "switches texts off"),
        ("opentelemetry-haystack", {}, "warning", "is not set"),
        ("opentelemetry-haystack", {"HAYSTACK_CONTENT_TRACING_ENABLED": "true"}, "ok", "they carry texts"),
        ("opentelemetry-instrumentation-genai-langchain", {}, "warning", "is not set"),
        (
            "opentelemetry-instrumentation-genai-langchain",
            {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"},
            "ok",
            "they carry texts",
        ),
        (
            "opentelemetry-instrumentation-genai-openai",
            {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
            "warning",
            "switches texts off",
        ),
    ],
)  # fmt: skip
def test_a_switch_that_is_off_is_named(installed, name, environment, state, said):
    installed(name)

    found = next(one for what, one in _findings(environment).items() if what.startswith("spans of"))

    assert found.state == state
    assert said in found.detail
    assert bool(found.fix) == (state == "warning")


@pytest.mark.parametrize(
    ("environment", "state"),
    [
        ({}, "ok"),
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1000"}, "ok"),
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "64"}, "warning"),
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"}, "ok"),
        ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "4096"}, "warning"),
    ],
)
def test_limits_that_cut_documents_off_are_named(installed, environment, state):
    installed("traceloop-sdk")

    assert _findings(environment)["limits of spans"].state == state
