"""The variables of the Grafana dashboard: data sources, and what to look at. Used by `grafana`."""

from __future__ import annotations

from typing import Any

from ragmeter.exporters import semconv

from .names import label
from .panels import PROMETHEUS
from .promql import HIGHER, NAME, WORKFLOW, selected

__all__ = ["variables"]

SCORE = semconv.EVALUATION_SCORE_HISTOGRAM
THRESHOLDS = tuple(f"{bound:g}" for bound in semconv.SCORE_BUCKETS if 0.0 < bound < 1.0)
"""Thresholds to choose from: only at a bucket's bound can a histogram count exactly."""


def _custom(name: str, title: str, values: tuple[str, ...], chosen: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": title,
        "type": "custom",
        "query": ",".join(values),
        "current": {"text": chosen, "value": chosen},
        "options": [
            {"text": value, "value": value, "selected": value == chosen} for value in values
        ],
    }


def _values_of(name: str, title: str, attribute: semconv.Term, *, several: bool) -> dict[str, Any]:
    query = f"label_values({selected(SCORE, [HIGHER])}, {label(SCORE, attribute)})"
    variable: dict[str, Any] = {
        "name": name,
        "label": title,
        "type": "query",
        "datasource": PROMETHEUS,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": several,
        "includeAll": several,
    }
    if several:
        # Also matches series without the label, as requests need not have a workflow name.
        variable["allValue"] = ".*"
        variable["current"] = {"text": "All", "value": "$__all"}
    return variable


def variables() -> list[dict[str, Any]]:
    """Return all variables, in the order in which Grafana shows them."""
    return [
        {"name": "prometheus", "label": "Metrics", "type": "datasource", "query": "prometheus"},
        {"name": "tempo", "label": "Traces", "type": "datasource", "query": "tempo"},
        _values_of("workflow", "Workflow", WORKFLOW, several=True),
        _values_of("score", "Scores", NAME, several=True),
        _values_of("focus", "In focus", NAME, several=False),
        _custom("threshold", "Threshold", THRESHOLDS, "0.5"),
    ]
