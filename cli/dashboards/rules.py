"""Recording and alerting rules for Prometheus, each alert with a line on what to do.

The longer runbook is ``docs/dashboards.md``; its headings are the alerts' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragmeter.exporters import semconv
from ragmeter.exporters.semconv import Instrument, Term

from .names import label, metric_name
from .promql import (
    DIRECTION,
    HIGHER,
    LOWER,
    NAME,
    QUALITY,
    WORKFLOW,
    Matcher,
    appeared,
    growth,
    is_set,
    mean,
    per_second,
    share,
    share_at_most,
)

__all__ = ["RuleSettings", "rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """When the alerts fire. The defaults suit some requests per minute; tests use short times."""

    window: str = "1h"
    """Range over which scores are averaged (a PromQL duration)."""
    against: str = "1w"
    """How long ago the scores were that they are compared with."""
    recent: str = "15m"
    """Range over which failures and drops are counted."""
    hold: str = "15m"
    """How long a condition must last."""
    hold_events: str = "5m"
    """The same for single events, such as a drop, that count for the time of `recent`."""
    interval: str = "1m"
    """How often the rules are evaluated."""
    fall: float = 0.1
    """By how much a mean score must have become worse."""
    least_scores: int = 20
    """Fewer scores than that per window prove nothing."""
    empty_share: float = 0.1
    """Share of retrievals that may find nothing."""
    judge_failures: float = 0.2
    """Share of judge calls that may fail."""


def rules(settings: RuleSettings | None = None) -> dict[str, Any]:
    """Return the content of a Prometheus rule file."""
    chosen = settings or RuleSettings()
    return {
        "groups": [
            {"name": "ragmeter-scores", "interval": chosen.interval, "rules": _recorded(chosen)},
            {
                "name": "ragmeter-quality",
                "interval": chosen.interval,
                "rules": [_quality_fell(chosen), _retrievals_empty(chosen)],
            },
            {
                "name": "ragmeter-itself",
                "interval": chosen.interval,
                "rules": [
                    _judge_failing(chosen),
                    _scores_dropped(chosen),
                    _scoring_stopped(chosen),
                    _export_failing(chosen),
                ],
            },
        ]
    }


def _mean_record(settings: RuleSettings) -> str:
    return f"ragmeter:{metric_name(semconv.EVALUATION_SCORE_HISTOGRAM)}:mean{settings.window}"


def _count_record(settings: RuleSettings) -> str:
    return f"ragmeter:{metric_name(semconv.EVALUATION_SCORE_HISTOGRAM)}:count{settings.window}"


def _recorded(settings: RuleSettings) -> list[dict[str, Any]]:
    score = semconv.EVALUATION_SCORE_HISTOGRAM
    by = (WORKFLOW, NAME, DIRECTION)
    return [
        {
            "record": _mean_record(settings),
            "expr": mean(score, settings.window, by=by, where=[QUALITY]),
        },
        {
            "record": _count_record(settings),
            "expr": growth(score, settings.window, by=by, where=[QUALITY]),
        },
    ]


def _alert(
    name: str, expr: str, hold: str, *, severity: str, summary: str, runbook: str
) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expr,
        "for": hold,
        "labels": {"severity": severity},
        "annotations": {
            "summary": summary,
            "runbook": f"{runbook} More: docs/dashboards.md#{name.lower()}",
        },
    }


def _quality_fell(settings: RuleSettings) -> dict[str, Any]:
    histogram = semconv.EVALUATION_SCORE_HISTOGRAM
    score, workflow = (label(histogram, attribute) for attribute in (NAME, WORKFLOW))
    before, enough = f"offset {settings.against}", f">= {settings.least_scores}"
    means, counts = _mean_record(settings), _count_record(settings)
    # Worse is less or, where lower is better, more.
    high, low = (
        f'{means}{{{label(histogram, attribute)}{operator}"{value}"}}'
        for attribute, operator, value in (HIGHER, LOWER)
    )
    return _alert(
        "RagmeterQualityFell",
        f"(({high} {before} - {high}) > {settings.fall:g}\n"
        f"or\n({low} - {low} {before}) > {settings.fall:g})\n"
        f"and {counts} {enough}\nand {counts} {before} {enough}",
        settings.hold,
        severity="warning",
        summary=f"{{{{ $labels.{score} }}}} of {{{{ $labels.{workflow} }}}} is "
        f'{{{{ $value | printf "%.2f" }}}} worse than {settings.against} ago.',
        runbook="Compare low-scored traces with last week's: index, chunking, embedding model, "
        "prompt or questions changed?",
    )


def _retrievals_empty(settings: RuleSettings) -> dict[str, Any]:
    contexts = semconv.CONTEXT_COUNT
    return _alert(
        "RagmeterRetrievalsEmpty",
        f"{share_at_most('0', contexts, settings.recent, by=(WORKFLOW,))}\n"
        f"> {settings.empty_share:g}",
        settings.hold,
        severity="critical",
        summary="{{ $value | humanizePercentage }} of the retrievals of "
        f"{{{{ $labels.{label(contexts, WORKFLOW)} }}}} found nothing.",
        runbook="Check that the index is loaded and reachable, and filters and score thresholds "
        "of the retriever.",
    )


def _judge_failing(settings: RuleSettings) -> dict[str, Any]:
    calls = semconv.JUDGE_CALLS
    failed = share(
        calls, settings.recent, [is_set(semconv.ERROR_TYPE)], by=(semconv.GEN_AI_REQUEST_MODEL,)
    )
    return _alert(
        "RagmeterJudgeFailing",
        f"{failed}\n> {settings.judge_failures:g}",
        settings.hold,
        severity="warning",
        summary="{{ $value | humanizePercentage }} of the calls to the judge "
        f"{{{{ $labels.{label(calls, semconv.GEN_AI_REQUEST_MODEL)} }}}} fail.",
        runbook="Run `ragmeter doctor` where the application runs: key, quota, endpoint, model.",
    )


def _scores_dropped(settings: RuleSettings) -> dict[str, Any]:
    dropped = semconv.DROPPED
    return _alert(
        "RagmeterScoresDropped",
        _happened(dropped, semconv.REASON, settings, [(semconv.REASON, "!=", "sampled_out")]),
        settings.hold_events,
        severity="warning",
        summary="Requests leave without scores: "
        f"{{{{ $labels.{label(dropped, semconv.REASON)} }}}}.",
        runbook="queue_full: lower sample_rate (with keep=worst every request is scored: drop costly "
        "metrics instead); others: see the log of the application.",
    )


def _scoring_stopped(settings: RuleSettings) -> dict[str, Any]:
    captured = per_second(semconv.CAPTURED, settings.recent)
    results = per_second(semconv.RESULTS, settings.recent)
    missing = per_second(semconv.MISSING_INPUTS, settings.recent)
    wanted = per_second(
        semconv.DROPPED,
        settings.recent,
        where=[(semconv.REASON, "=", "sampled_out")],
    )
    return _alert(
        "RagmeterScoringStopped",
        f"(({captured} - ({wanted} or vector(0))) > 0)\nunless\n(({results} > 0) or ({missing} > 0))",
        settings.hold,
        severity="critical",
        summary="Requests come in and none is scored.",
        runbook="Look for contained errors in the application's log, logger `ragmeter`.",
    )


def _export_failing(settings: RuleSettings) -> dict[str, Any]:
    errors = semconv.EXPORT_ERRORS
    return _alert(
        "RagmeterExportFailing",
        _happened(errors, semconv.EXPORTER, settings),
        settings.hold_events,
        severity="warning",
        summary=f"{{{{ $labels.{label(errors, semconv.EXPORTER)} }}}} cannot deliver scores.",
        runbook="Check address, key and availability of the backend behind that exporter.",
    )


def _happened(
    counter: Instrument, by: Term, settings: RuleSettings, where: Sequence[Matcher] = ()
) -> str:
    """Return what is positive when `counter` grew, or appeared, of late.

    The first event creates its series, and a counter's first value is no growth to Prometheus.
    """
    grown = growth(counter, settings.recent, by=(by,), where=where)
    created = appeared(counter, settings.recent, by=(by,), where=where)
    return f"({grown} > 0)\nor\n({created} > 0)"
