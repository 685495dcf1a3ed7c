"""What an SDK of ragmeter's own is called."""

import pytest
from opentelemetry.sdk.resources import Resource

from ragmeter.exporters._otlp import named_resource


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("OTEL_SERVICE_NAME", "", "own"),
        ("OTEL_SERVICE_NAME", "shop", "shop"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b", "own"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop", "shop"),
    ],
)
def test_a_resource_has_its_own_name_unless_a_variable_sets_another(monkeypatch, variable, value, name):
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.setenv(variable, value)

    assert Resource.create(named_resource("own", more="1")).attributes["service.name"] == name
