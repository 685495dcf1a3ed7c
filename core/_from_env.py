"""The arguments of a `RagMeter` as the environment says; behind `RagMeter.from_env`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ragmeter.exporters.protocol import Exporter
from ragmeter.metrics import ConfigurationError, Metric, ReferenceFileError
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.registry import resolve_metrics

from .config import Settings, read_settings, variable_of
from .references import ReferenceSource, load_references

__all__ = ["meter_arguments"]


def meter_arguments() -> dict[str, Any]:
    """Return keyword arguments for `ragmeter.RagMeter`.

    Raises:
        ConfigurationError: A value is not allowed; names the variable, the value and what is
            allowed.
        MissingDependencyError: A judge is configured but ``openai`` is not installed.
    """
    settings = read_settings()
    return {
        "metrics": _metrics(settings),
        "judge": _judge(settings),
        "references": _references(settings),
        "exporters": _exporters(settings),
        "sample_rate": settings.sample_rate,
        "judge_sample_rate": settings.judge_sample_rate,
        "scoring": settings.scoring,
        "keep": settings.keep,
        "fused": settings.fused,
        "hold_s": settings.hold_s,
        "queue_size": settings.queue_size,
        "queue_bytes": settings.queue_bytes,
        "max_text_chars": settings.max_text_chars,
        "judge_concurrency": settings.judge_concurrency,
        "judge_deadline_s": settings.judge_deadline_s,
        "shutdown_timeout_s": settings.shutdown_timeout_s,
    }


@contextmanager
def _naming(field: str) -> Iterator[None]:
    """Let what goes wrong inside name the variable and its value."""
    try:
        yield
    except (ConfigurationError, ReferenceFileError) as error:
        variable = variable_of(field)
        raise ConfigurationError(f"{variable}={os.environ.get(variable)!r}: {error}") from error


def _metrics(settings: Settings) -> Sequence[Metric] | None:
    if settings.metrics is None:
        return None
    with _naming("metrics"):
        metrics = resolve_metrics(settings.metrics)
        judged = ", ".join(metric.name for metric in metrics if metric.judged)
        if judged and settings.judge_model is None:
            raise ConfigurationError(f"{judged} ask a judge; set {variable_of('judge_model')}")
        return metrics


def _references(settings: Settings) -> ReferenceSource | None:
    with _naming("references"):
        return load_references(settings.references)


def _judge(settings: Settings) -> Judge | None:
    if settings.judge_model is None:
        return None
    from ragmeter.metrics.judge import JudgeBudget, OpenAIJudge  # noqa: PLC0415 -- loads when wanted

    key = settings.judge_api_key
    return OpenAIJudge(
        settings.judge_model,
        base_url=settings.judge_base_url,
        api_key=None if key is None else key.get_secret_value(),
        budget=JudgeBudget(
            calls_per_minute=settings.judge_calls_per_minute,
            tokens_per_minute=settings.judge_tokens_per_minute,
            cost_per_minute=settings.judge_cost_per_minute,
            input_price=settings.judge_input_price,
            output_price=settings.judge_output_price,
        ),
        cache=True if settings.judge_cache is None else settings.judge_cache,
    )


def _exporters(settings: Settings) -> tuple[Exporter, ...]:
    from ragmeter.exporters.otel import OpenTelemetryExporter  # noqa: PLC0415 -- loads when wanted

    exporters: list[Exporter] = [
        OpenTelemetryExporter(span_mode=settings.span_mode, events=settings.events)
    ]
    if settings.jsonl is not None:
        from ragmeter.exporters.jsonl import JsonlExporter  # noqa: PLC0415 -- loads when wanted

        exporters.append(JsonlExporter(settings.jsonl))
    return tuple(exporters)
