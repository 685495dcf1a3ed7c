"""The panels of the Grafana dashboard, section by section. Used by `grafana`."""

from __future__ import annotations

from typing import Any

from ragmeter.exporters import semconv

from .names import label, metric_name
from .panels import Query, heatmap, lines, stat
from .promql import (
    HIGHER,
    LOWER,
    NAME,
    WORKFLOW,
    bucket_growth,
    growth,
    is_set,
    matches,
    mean,
    per_second,
    quantile,
    share,
    share_at_most,
)

__all__ = ["itself", "judge", "overview", "quality", "retrieval"]

RATE = "$__rate_interval"
RANGE = "$__range"
IN_WORKFLOW = matches(WORKFLOW, "$workflow")
SHOWN = matches(NAME, "$score")
FOCUS = matches(NAME, "$focus")
SCORE = semconv.EVALUATION_SCORE_HISTOGRAM
CONTEXTS = semconv.CONTEXT_COUNT
CALLS = semconv.JUDGE_CALLS
TOKENS = semconv.JUDGE_TOKENS
REQUESTS = semconv.REQUESTS
MISSING = semconv.MISSING_INPUTS
MODEL = semconv.GEN_AI_REQUEST_MODEL
UNWANTED_DROPS = (semconv.REASON, "!=", "sampled_out")


def _legend(instrument: semconv.Instrument, *attributes: semconv.Term) -> str:
    return " · ".join(f"{{{{{label(instrument, attribute)}}}}}" for attribute in attributes)


def overview() -> list[dict[str, Any]]:
    """Return the big numbers at the top."""
    return [
        stat(
            "Requests scored",
            "RAG requests per minute that were scored.",
            f"60 * {per_second(REQUESTS, RANGE, where=[IN_WORKFLOW])}",
            unit="short",
        ),
        stat(
            "Mean of $focus",
            "Over the whole time range, all chosen workflows.",
            mean(SCORE, RANGE, where=[IN_WORKFLOW, FOCUS]),
            unit="percentunit",
            steps=(("red", None), ("orange", 0.5), ("green", 0.8)),
        ),
        stat(
            "$focus at most $threshold",
            "Share of the requests whose score is at or below the threshold.",
            share_at_most("$threshold", SCORE, RANGE, where=[IN_WORKFLOW, FOCUS]),
            unit="percentunit",
            steps=(("green", None), ("orange", 0.1), ("red", 0.3)),
        ),
        stat(
            "Empty retrievals",
            "Share of the requests whose retrieval found nothing.",
            share_at_most("0", CONTEXTS, RANGE, where=[IN_WORKFLOW]),
            unit="percentunit",
            steps=(("green", None), ("orange", 0.02), ("red", 0.1)),
        ),
        stat(
            "Judge failing",
            "Share of the calls to the judge that failed.",
            share(CALLS, RANGE, [is_set(semconv.ERROR_TYPE)]),
            unit="percentunit",
            steps=(("green", None), ("orange", 0.02), ("red", 0.2)),
        ),
        stat(
            "Dropped",
            "Requests that left without scores; sampling not counted.",
            f"{growth(semconv.DROPPED, RANGE, where=[UNWANTED_DROPS])} or vector(0)",
            unit="short",
            steps=(("green", None), ("red", 1.0)),
        ),
    ]


def quality() -> list[dict[str, Any]]:
    """Return scores over time, their spread, and the share of low ones."""
    both = (WORKFLOW, NAME)
    return [
        lines(
            "Scores",
            "Mean per score and workflow. Higher is better for all of them.",
            [
                Query(
                    mean(SCORE, RATE, by=both, where=[IN_WORKFLOW, SHOWN, HIGHER]),
                    _legend(SCORE, NAME, WORKFLOW),
                )
            ],
            unit="percentunit",
            most=1.0,
        ),
        lines(
            "Scores of which lower is better",
            "Mean per score and workflow. Lower is better for all of them.",
            [
                Query(
                    mean(SCORE, RATE, by=both, where=[IN_WORKFLOW, LOWER]),
                    _legend(SCORE, NAME, WORKFLOW),
                )
            ],
            unit="percentunit",
            most=1.0,
        ),
        lines(
            "At or below $threshold",
            "Share of the requests at or below the threshold, per score and workflow.",
            [
                Query(
                    share_at_most(
                        "$threshold", SCORE, RATE, by=both, where=[IN_WORKFLOW, SHOWN, HIGHER]
                    ),
                    _legend(SCORE, NAME, WORKFLOW),
                )
            ],
            unit="percentunit",
            most=1.0,
        ),
        lines(
            "$focus: typical and poor",
            "Median and tenth percentile. Each dot is a request: click it to open its trace.",
            [
                Query(
                    quantile(level, SCORE, RATE, where=[IN_WORKFLOW, FOCUS]), name, exemplars=True
                )
                for level, name in ((0.5, "median"), (0.1, "10 % score lower"))
            ],
            unit="percentunit",
            most=1.0,
            width=12,
        ),
        heatmap(
            "$focus: how scores spread",
            "Requests per bucket. The lowest bucket holds exact zeros.",
            bucket_growth(SCORE, RATE, where=[IN_WORKFLOW, FOCUS]),
            width=12,
        ),
    ]


def retrieval() -> list[dict[str, Any]]:
    """Return what retrievals found, and how requests ended."""
    legend = _legend(CONTEXTS, WORKFLOW)
    return [
        lines(
            "Empty retrievals",
            "Share of the requests whose retrieval found nothing.",
            [
                Query(
                    share_at_most("0", CONTEXTS, RATE, by=(WORKFLOW,), where=[IN_WORKFLOW]), legend
                )
            ],
            unit="percentunit",
        ),
        lines(
            "Contexts per request",
            "Mean number of retrieved contexts that reached the model.",
            [Query(mean(CONTEXTS, RATE, by=(WORKFLOW,), where=[IN_WORKFLOW]), legend)],
            unit="short",
        ),
        lines(
            "Requests by how they ended",
            "Scored RAG requests per second.",
            [
                Query(
                    per_second(REQUESTS, RATE, by=(semconv.REQUEST_STATUS,), where=[IN_WORKFLOW]),
                    _legend(REQUESTS, semconv.REQUEST_STATUS),
                )
            ],
            unit="reqps",
        ),
        lines(
            "Missing inputs",
            "Requests per second of which some scores lacked an input, by input.",
            [
                Query(
                    per_second(MISSING, RATE, by=(semconv.MISSING,), where=[IN_WORKFLOW]),
                    _legend(MISSING, semconv.MISSING),
                )
            ],
            unit="reqps",
        ),
    ]


def judge() -> list[dict[str, Any]]:
    """Return the judge's calls, latency, cost and tokens."""
    duration = semconv.JUDGE_DURATION
    model = _legend(TOKENS, MODEL)
    cost = per_second(semconv.JUDGE_COST, RATE, by=(MODEL,))
    hits = per_second(semconv.JUDGE_CACHE_HITS, RATE)
    return [
        lines(
            "Judge: calls",
            "Calls per second, by error; calls without one succeeded.",
            [
                Query(
                    per_second(CALLS, RATE, by=(MODEL, semconv.ERROR_TYPE)),
                    _legend(CALLS, MODEL, semconv.ERROR_TYPE),
                )
            ],
            unit="reqps",
        ),
        lines(
            "Judge: latency",
            "Wall time of one call, retries included.",
            [
                Query(quantile(level, duration, RATE, by=(MODEL,)), f"{model} p{level * 100:g}")
                for level in (0.5, 0.95)
            ],
            unit="s",
        ),
        lines(
            "Judge: cost per hour",
            "By the prices in the judge's JudgeBudget; empty without them.",
            [Query(f"3600 * {cost}", model)],
            unit="currencyUSD",
        ),
        lines(
            "Judge: tokens",
            "Tokens per second.",
            [
                Query(
                    per_second(TOKENS, RATE, by=(MODEL, semconv.GEN_AI_TOKEN_TYPE)),
                    _legend(TOKENS, MODEL, semconv.GEN_AI_TOKEN_TYPE),
                )
            ],
            unit="short",
        ),
        lines(
            "Judge: answered from the cache",
            "Share of the questions to the judge that cost nothing.",
            [Query(f"{hits}\n/\n(({hits} + {per_second(CALLS, RATE)}) > 0)", "from the cache")],
            unit="percentunit",
        ),
        lines(
            "Results by status",
            "Scores per second; all but `ok` and `partial` have no value.",
            [
                Query(
                    per_second(
                        semconv.RESULTS, RATE, by=(semconv.SCORE_STATUS,), where=[IN_WORKFLOW]
                    ),
                    _legend(semconv.RESULTS, semconv.SCORE_STATUS),
                )
            ],
            unit="short",
        ),
    ]


def itself() -> list[dict[str, Any]]:
    """Return what ragmeter drops, holds and fails at."""

    def counted(instrument: semconv.Instrument, attribute: semconv.Term) -> Query:
        return Query(per_second(instrument, RATE, by=(attribute,)), _legend(instrument, attribute))

    exporter = label(semconv.EXPORT_BACKLOG, semconv.EXPORTER)
    return [
        lines(
            "Requests without scores",
            "Dropped or sampled out, per second, by reason.",
            [counted(semconv.DROPPED, semconv.REASON)],
            unit="reqps",
        ),
        lines(
            "Requests without judged scores",
            "Per second, by reason.",
            [counted(semconv.JUDGE_SKIPPED, semconv.REASON)],
            unit="reqps",
        ),
        lines(
            "Waiting to be scored",
            "Requests in the queue, all processes.",
            [Query(f"sum({metric_name(semconv.QUEUE_SIZE)})", "requests")],
            unit="short",
        ),
        lines(
            "Text waiting to be scored",
            "Estimated size of the texts in the queue, all processes.",
            [Query(f"sum({metric_name(semconv.QUEUE_BYTES)})", "bytes")],
            unit="bytes",
        ),
        lines(
            "Waiting to be exported",
            "Scored runs that wait for an exporter or that it has not delivered yet, by exporter.",
            [
                Query(
                    f"sum by ({exporter}) ({metric_name(semconv.EXPORT_BACKLOG)})",
                    _legend(semconv.EXPORT_BACKLOG, semconv.EXPORTER),
                )
            ],
            unit="short",
        ),
        lines(
            "Contained errors",
            "Exceptions inside ragmeter that the application never saw, per second.",
            [counted(semconv.INTERNAL_ERRORS, semconv.SEAM)],
            unit="short",
        ),
        lines(
            "Failed exports",
            "Failures and drops per second, by exporter.",
            [counted(semconv.EXPORT_ERRORS, semconv.EXPORTER)],
            unit="short",
        ),
        lines(
            "Counted as other",
            "Measurements per second that lost their names to keep an instrument below the SDK's "
            "limit, by instrument.",
            [counted(semconv.OVERFLOW, semconv.INSTRUMENT)],
            unit="short",
        ),
    ]
