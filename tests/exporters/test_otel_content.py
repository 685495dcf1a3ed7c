"""What text leaves, when, and in which form; and what a wrong argument says."""

import pytest

from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import ConfigurationError


def export(sdk, *runs, **options):
    OpenTelemetryExporter(**sdk.providers, **options).export(runs)


def test_long_texts_are_cut(sdk, make):
    """A 10 MB chunk must not make a 10 MB span."""
    export(sdk, make.scored_run(sample={"question": "x" * 10_000_000}), capture_content="SPAN_ONLY")

    assert len(sdk.spans()["invoke_workflow support_bot"].attributes["input.value"]) == 16_384


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"span_mode": "on"}, "auto, own, evaluation, off"),
        ({"events": "logs"}, "log, span_event, both, off"),
        ({"capture_content": "YES"}, "NO_CONTENT, SPAN_ONLY"),
    ],
)
def test_a_wrong_argument_says_what_is_allowed(options, message):
    """Misconfiguration raises at construction."""
    with pytest.raises(ConfigurationError, match=message):
        OpenTelemetryExporter(**options)


@pytest.mark.parametrize(
    ("value", "captured"),
    [
        ("", False),
        ("no_content", False),
        ("false", False),
        ("EVENT_ONLY", False),
        ("span_only", True),
        ("SPAN_AND_EVENT", True),
        ("true", True),
    ],
)
def test_the_standard_variable_opts_in(sdk, make, monkeypatch, value, captured):
    """The four standard values, and the booleans of older instrumentations."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    export(sdk, make.scored_run())

    attributes = sdk.spans()["invoke_workflow support_bot"].attributes
    assert ("input.value" in attributes) is captured


def test_an_unknown_value_of_the_variable_warns_and_captures_nothing(sdk, make, monkeypatch, caplog):
    """A typing error must not send text."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPANS")
    export(sdk, make.scored_run())

    assert "'SPANS'" in caplog.text
    assert "input.value" not in sdk.spans()["invoke_workflow support_bot"].attributes
