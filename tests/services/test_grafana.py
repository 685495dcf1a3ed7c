"""The dashboard in the terms of Grafana's own SDK for Python, which knows the schema."""

import json

import pytest

from ragmeter.cli.dashboards import dashboard_files

REASON = "no grafana-foundation-sdk; .ci/services installs it"
OF_PROMETHEUS = ("step", "titleFormat", "textFormat", "tagKeys")
"""What Grafana's Prometheus data source reads of an annotation; the schema of dashboards leaves it to the source."""


def differences(given, kept, path="$"):
    """Yield every place where `kept` lost or changed something of `given`."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key in kept:
                yield from differences(value, kept[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for place, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif given != kept:
        yield path


def test_grafanas_sdk_reads_the_dashboard_and_writes_it_back_without_loss():
    pytest.importorskip("grafana_foundation_sdk", reason=REASON)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    given = json.loads(dashboard_files()["grafana/dashboards/ragmeter.json"])
    for annotation in given["annotations"]["list"]:
        for key in OF_PROMETHEUS:
            del annotation[key]
    kept = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(given)))
    assert list(differences(given, kept)) == []
