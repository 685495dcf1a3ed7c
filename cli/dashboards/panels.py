"""Single Grafana panels as JSON, with the few options this dashboard needs. Used by `grafana`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["PROMETHEUS", "TEMPO", "Query", "heatmap", "lines", "row", "stat", "traces"]

PROMETHEUS = {"type": "prometheus", "uid": "${prometheus}"}
TEMPO = {"type": "tempo", "uid": "${tempo}"}
Steps = Sequence[tuple[str, float | None]]
"""Colours and the values from which they hold; None: from the lowest."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query of a panel."""

    expr: str
    """The expression; may use the dashboard's variables."""
    legend: str
    """Name of each series; labels in double braces."""
    exemplars: bool = False
    """Also show exemplars; the expression must read a histogram's buckets."""


def _target(query: Query, number: int, **more: Any) -> dict[str, Any]:
    target: dict[str, Any] = {
        "refId": chr(ord("A") + number),
        "datasource": PROMETHEUS,
        "expr": query.expr,
        "legendFormat": query.legend,
        **more,
    }
    if query.exemplars:
        target["exemplar"] = True
    return target


def _panel(
    kind: str, title: str, description: str, targets: list[dict[str, Any]], width: int, height: int
) -> dict[str, Any]:
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": PROMETHEUS,
        "targets": targets,
        "gridPos": {"h": height, "w": width},
    }


def row(title: str) -> dict[str, Any]:
    """Return a heading over the panels that follow."""
    return {"type": "row", "title": title, "collapsed": False, "panels": []}


def stat(
    title: str, description: str, expr: str, *, unit: str, steps: Steps = (("text", None),)
) -> dict[str, Any]:
    """Return one big number over the whole time range."""
    target = _target(Query(expr, ""), 0, instant=True, range=False)
    panel = _panel("stat", title, description, [target], 4, 4)
    panel["fieldConfig"] = {
        "defaults": {
            "unit": unit,
            "color": {"mode": "thresholds"},
            "noValue": "no data",
            "thresholds": {
                "mode": "absolute",
                "steps": [{"color": color, "value": value} for color, value in steps],
            },
        },
        "overrides": [],
    }
    panel["options"] = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
    }
    return panel


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    *,
    unit: str,
    most: float | None = None,
    width: int = 8,
) -> dict[str, Any]:
    """Return curves over time.

    Args:
        title: The panel's title.
        description: What it shows, for people who hover over it.
        queries: One or more queries.
        unit: Grafana's id of the unit.
        most: Upper end of the axis; None: as the data say.
        width: Columns of 24.
    """
    targets = [_target(query, number) for number, query in enumerate(queries)]
    panel = _panel("timeseries", title, description, targets, width, 8)
    defaults: dict[str, Any] = {
        "unit": unit,
        "min": 0,
        "color": {"mode": "palette-classic"},
        "custom": {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 0, "spanNulls": False},
    }
    if most is not None:
        defaults["max"] = most
    panel["fieldConfig"] = {"defaults": defaults, "overrides": []}
    panel["options"] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "none"},
    }
    return panel


def heatmap(title: str, description: str, expr: str, *, width: int = 8) -> dict[str, Any]:
    """Return a histogram over time; `expr` yields one series per bucket bound."""
    targets = [_target(Query(expr, "{{le}}", exemplars=True), 0, format="heatmap")]
    panel = _panel("heatmap", title, description, targets, width, 8)
    panel["fieldConfig"] = {"defaults": {}, "overrides": []}
    panel["options"] = {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "fill": "dark-orange",
            "exponent": 0.5,
            "steps": 64,
            "reverse": False,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-09},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"show": True, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "unit": "short", "reverse": False},
    }
    return panel


def traces(
    title: str, description: str, query: str, *, datasource: dict[str, str]
) -> dict[str, Any]:
    """Return a table of the traces that a TraceQL `query` finds."""
    target = {
        "refId": "A",
        "datasource": datasource,
        "queryType": "traceql",
        "query": query,
        "limit": 20,
    }
    panel = _panel("table", title, description, [target], 24, 8)
    panel["datasource"] = datasource
    panel["fieldConfig"] = {"defaults": {}, "overrides": []}
    return panel
