"""Puts together everything that ``ragmeter dashboards`` writes. Called by the command line."""

from __future__ import annotations

import json
from importlib.resources import files

from .grafana import dashboard
from .rules import rules
from .yaml_text import to_yaml

__all__ = ["dashboard_files"]

GENERATED = (
    "# Written by `ragmeter dashboards`. Names come from ragmeter itself; thresholds are yours.\n"
)
STACK = (
    "collector.yaml",
    "compose.yaml",
    "grafana/provisioning/dashboards/ragmeter.yaml",
    "grafana/provisioning/datasources/ragmeter.yaml",
    "prometheus/prometheus.yml",
    "tempo.yaml",
)
"""Files without a name of ours in them, kept as they are in ``stack/``."""


def dashboard_files() -> dict[str, str]:
    """Return the texts of all files, by path with slashes, relative to the chosen directory."""
    stack = files("ragmeter.cli.dashboards") / "stack"
    found = {path: stack.joinpath(*path.split("/")).read_text(encoding="utf-8") for path in STACK}
    # Under its final name, packaging would take it for a page about this folder.
    found["README.md"] = stack.joinpath("start.md").read_text(encoding="utf-8")
    found["grafana/dashboards/ragmeter.json"] = json.dumps(dashboard(), indent=2) + "\n"
    found["prometheus/ragmeter.rules.yml"] = GENERATED + to_yaml(rules())
    return dict(sorted(found.items()))
