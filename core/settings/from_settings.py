"""Make a meter's arguments from the settings, with its judge, embedder and exporters.

Called by `RagMeter.from_env`, the zero-code entry points, the server, the workers, and a meter that publishes
its requests (``scoring="queue"``). `config` documents the settings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import SecretStr

from ragmeter.exporters.protocol import Exporter
from ragmeter.metrics import ConfigurationError, Metric, VerdictRules
from ragmeter.metrics.embedder import Embedder
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.registry import resolve_metrics
from ragmeter.quality.objectives import parse_objectives
from ragmeter.quality.segments import parse_segments
from ragmeter.requests.references import load_references

from .config import Settings, argument_of, fields_of, naming, read_settings, variable_of, without_effect
from .destinations import exporters_of
from .options import Alarms, Limits, Sampling, Scoring

if TYPE_CHECKING:
    from ragmeter.metrics.judge import JudgeBudget, JudgeCache

T = TypeVar("T")
logger = logging.getLogger("ragmeter")


_CAPTURING = ("queue_size", "queue_bytes", "shutdown_timeout_s", "late_window", "late_window_s")
"""The limits of a meter that scores nothing itself."""


def _group(settings: Settings, kind: type[T], *fields: str) -> T:
    """Return a group of arguments from its settings; `fields`: only these. Errors name the variables."""
    with naming(*fields or fields_of(kind.__name__)):
        return kind(**_arguments(settings, kind.__name__, *fields))


def _arguments(settings: Settings, kind: str, *fields: str) -> dict[str, Any]:
    """Return the arguments of a class from its settings; `fields`: only these."""
    found = {one: getattr(settings, one) for one in fields or fields_of(kind)}
    return {
        argument_of(one).partition("(")[2][:-1]: value.get_secret_value()
        if isinstance(value, SecretStr)
        else value
        for one, value in found.items()
    }


def meter_arguments() -> dict[str, Any]:
    """Return keyword arguments for `ragmeter.RagMeter`.

    Raises:
        ConfigurationError: A value is not allowed; names the variable, the value and the allowed values.
        MissingDependencyError: A judge or an embedder is configured but ``openai`` is not installed.
    """
    settings = read_settings()
    _say_what_has_no_effect(settings)
    if settings.scoring == "queue":
        # Scoring is up to the worker, which may share these variables.
        return {
            "scoring": "queue",
            "sample_rate": settings.sample_rate,
            "judge_sample_rate": settings.judge_sample_rate,
            "references": _parsed(settings, "references", load_references),
            "sampling": _group(settings, Sampling, "keep"),
            "limits": _group(settings, Limits, *_CAPTURING),
        }
    return _scoring_arguments(settings)


def _say_what_has_no_effect(settings: Settings) -> None:
    for name, why, fix in without_effect(settings):
        _warn(f"{name}: {why}; {fix}")


@cache
def _warn(text: str) -> None:
    """Log a warning, once."""
    logger.warning("ragmeter: %s", text)


def _scoring_arguments(settings: Settings) -> dict[str, Any]:
    embedder = embedder_of(settings)
    return {
        "metrics": metrics_of(settings, embedder),
        "judge": _judge(settings),
        "references": _parsed(settings, "references", load_references),
        "exporters": _exporters(settings),
        "sample_rate": settings.sample_rate,
        "judge_sample_rate": settings.judge_sample_rate,
        "embedder": embedder,
        "segments": _parsed(settings, "segments", parse_segments),
        "sampling": _group(settings, Sampling),
        "limits": _group(settings, Limits),
        "alarms": _alarms(settings),
        "scoring": Scoring(
            settings.scoring,
            fused=settings.fused,
            verdict=_group(settings, VerdictRules),
            labels=settings.labels,
            objectives=_parsed(settings, "objectives", parse_objectives),
        ),
    }


def _alarms(settings: Settings) -> Alarms | None:
    alarms = _group(settings, Alarms)
    if settings.alarms:
        return alarms
    if alarms.webhook or alarms.check or alarms.state:
        variables = ", ".join(map(variable_of, ("change_webhook", "judge_check", "alarms_state")))
        raise ConfigurationError(f"{variables} are for changes; set RAGMETER_ALARMS=true, too")
    return None


def metrics_of(settings: Settings, embedder: Embedder | None) -> Sequence[Metric] | None:
    """Return the chosen metrics; None: the preset.

    Raises:
        ConfigurationError: A name is unknown, or judge or embedder is missing; after ``; ``, what to set.
    """
    if settings.metrics is None:
        return None
    with naming("metrics"):
        metrics = resolve_metrics(
            settings.metrics, judged=settings.judge_model is not None, fused=settings.fused, embedder=embedder
        )
        judged = ", ".join(metric.name for metric in metrics if metric.judged)
        if judged and settings.judge_model is None:
            raise ConfigurationError(f"{judged} ask a judge; set {variable_of('judge_model')}")
        lacking = ", ".join(metric.name for metric in metrics if metric.lacks_embedder)
        if lacking and settings.embedding_model is None:
            raise ConfigurationError(f"{lacking} ask an embedder; set {variable_of('embedding_model')}")
        return metrics


def _parsed(settings: Settings, field: str, parse: Callable[[Any], T]) -> T | None:
    """Return the parsed value of a setting, if it is set; errors name its variable."""
    value = getattr(settings, field)
    with naming(field):
        return None if value is None else parse(value)


def _judge(settings: Settings) -> Judge | None:
    if settings.judge_model is None:
        return None
    from ragmeter.metrics.judge import OpenAIJudge  # noqa: PLC0415 -- loads when wanted

    budget, cache = budget_and_cache(settings)
    given = _arguments(settings, "OpenAIJudge") | {"budget": budget, "cache": cache}
    with naming(*fields_of("OpenAIJudge"), hidden=True):
        return OpenAIJudge(concurrency=settings.judge_concurrency, **given)


def budget_and_cache(settings: Settings, *, waits: bool = False) -> tuple[JudgeBudget, JudgeCache | str | bool]:
    """Return the judge's budget and cache, of this process or shared by many.

    Args:
        settings: The settings.
        waits: Whether to wait for budget, as offline runs do.

    Raises:
        ConfigurationError: A limit lacks its price, or the URL is invalid; its password is not shown.
        MissingDependencyError: The limits are shared but ``redis`` is not installed.
    """
    from ragmeter.metrics.judge import JudgeBudget  # noqa: PLC0415 -- loads when wanted

    limits = _arguments(settings, "JudgeBudget")
    limits["when_exhausted"] = "wait" if waits else "skip"
    cache = settings.judge_cache
    if settings.judge_shared_url is None:
        with naming(*fields_of("JudgeBudget")):
            return JudgeBudget(**limits), True if cache is None else cache
    from ragmeter.metrics.judge import SharedBudget, SharedCache  # noqa: PLC0415 -- likewise

    shared = _arguments(settings, "SharedBudget")
    with naming(*fields_of("SharedBudget"), hidden=True):
        budget = SharedBudget(**shared, **limits)
        return budget, SharedCache(shared["url"]) if cache is None else cache


def embedder_of(settings: Settings) -> Embedder | None:
    """Return the embedder of the settings, if any.

    Raises:
        ConfigurationError: Key and address are missing, or the client refuses them.
        MissingDependencyError: ``openai`` is not installed.
    """
    if settings.embedding_model is None:
        return None
    from ragmeter.metrics.embedder import OpenAIEmbedder  # noqa: PLC0415 -- loads when wanted
    from ragmeter.metrics.judge import JudgeBudget  # noqa: PLC0415 -- likewise

    calls, tokens = settings.embedding_calls_per_minute, settings.embedding_tokens_per_minute
    given = _arguments(settings, "OpenAIEmbedder")
    given["budget"] = None if calls is None and tokens is None else JudgeBudget(calls, tokens)
    with naming(*fields_of("OpenAIEmbedder"), hidden=True):
        return OpenAIEmbedder(**given)


def spans_exporter(settings: Settings, *, below: bool = False) -> Exporter:
    """Return the OpenTelemetry exporter; `below`: for requests captured by other processes."""
    from ragmeter.exporters.otel import OpenTelemetryExporter  # noqa: PLC0415 -- loads when wanted

    mode = settings.span_mode
    return OpenTelemetryExporter(
        span_mode="evaluation" if below and mode != "off" else mode,
        events=settings.events,
        captured_elsewhere=below,
    )


def _exporters(settings: Settings, *, below: bool = False) -> tuple[Exporter, ...]:
    """Return the exporters of the settings; `below`: for requests captured by other processes."""
    names = list(settings.exporters or ("otel",))
    if settings.console:
        names.append("console")
    with naming("exporters", "trace_url"):
        exporters = exporters_of(names, partial(spans_exporter, settings, below=below))
    if settings.jsonl is not None:
        from ragmeter.exporters.jsonl import JsonlExporter  # noqa: PLC0415 -- loads when wanted

        exporters += (JsonlExporter(settings.jsonl),)
    return exporters


def scoring_arguments(*, watches: bool = False) -> dict[str, Any]:
    """Return keyword arguments for a meter that scores in this process, whatever ``RAGMETER_SCORING`` says.

    Args:
        watches: Turn alarms on, whatever ``RAGMETER_ALARMS`` says.

    Raises:
        ConfigurationError: See `meter_arguments`.
        MissingDependencyError: As above.
    """
    settings = read_settings()
    scoring = "thread" if settings.scoring == "queue" else settings.scoring
    alarms = watches or settings.alarms
    if watches:
        _say_what_has_no_effect(settings)
    return _scoring_arguments(settings.model_copy(update={"scoring": scoring, "alarms": alarms}))


def worker_arguments() -> dict[str, Any]:
    """Return keyword arguments for the meter of ``ragmeter worker``.

    Its requests are already sampled, and wait for their judged scores without a limit.

    Raises:
        ConfigurationError: See `meter_arguments`.
        MissingDependencyError: As above.
    """
    settings = read_settings()
    _say_what_has_no_effect(settings)
    hold_s = settings.judge_deadline_s + 60.0
    settings = settings.model_copy(update={"scoring": "thread", "sample_rate": 1.0, "hold_s": hold_s})
    return _scoring_arguments(settings) | {"exporters": _exporters(settings, below=True)}


def queued_exporters(
    given: str | Sequence[str | Exporter] | None, theirs: Mapping[str, object], *, judge_sample_rate: float
) -> tuple[Exporter, ...]:
    """Return the exporters of a publishing meter: its own, and a `FleetPublisher` from the settings.

    Args:
        given: The meter's own exporters; None: OpenTelemetry.
        theirs: Arguments of the meter that only workers take; any that is set is refused.
        judge_sample_rate: Probability that a request is judged.

    Raises:
        ConfigurationError: The queue has no URL, or an argument is for workers.
        MissingDependencyError: The package for this kind of queue is not installed.
    """
    wrong = [name for name, value in theirs.items() if value is not None]
    if wrong:
        raise ConfigurationError(
            f"scoring='queue' takes no {', '.join(wrong)}: `ragmeter worker` scores, by its own settings "
            "(RAGMETER_METRICS, RAGMETER_JUDGE_MODEL, ...); leave them out here"
        )
    settings = read_settings()
    if settings.queue_url is None:
        raise ConfigurationError(
            f"scoring='queue' needs a queue; set {variable_of('queue_url')}, e.g. "
            "spool:///var/lib/ragmeter/queue"
        )
    own = (spans_exporter(settings),) if given is None else exporters_of(given)
    spans = next((one for one in own if hasattr(one, "judged_spans")), None)
    # By its entry point: `fleet` is a layer above, which this one must not import.
    publisher_class = next(iter(entry_points(group="ragmeter.exporters", name="queue"))).load()
    arguments = _arguments(settings, "FleetPublisher")
    with naming("queue_url", hidden=True):
        return (*own, publisher_class(spans=spans, judge_sample_rate=judge_sample_rate, **arguments))
