"""The data collected by an in-memory reader of OpenTelemetry's."""

from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader


def points_of(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    """Return the points of each of ragmeter's metrics, by its name."""
    data = reader.get_metrics_data()
    return {
        metric.name: list(metric.data.data_points)
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        if scope.scope.name == "ragmeter"
        for metric in scope.metrics
    }
