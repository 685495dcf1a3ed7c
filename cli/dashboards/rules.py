"""The Prometheus rules: the files of `formulas/` have the formulas, `RuleSettings` the numbers in them.

A formula for several ranges or shares is written there once and filled in here. The longer runbook is
``docs/dashboards.md``; its headings are the alerts' names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from string import Template

from ragmeter.quality.objectives import Objective

SERVICE = "job, deployment_environment_name"
"""The labels that identify a service."""
WORKFLOW = f"{SERVICE}, gen_ai_workflow_name"
SCORE = f"{WORKFLOW}, gen_ai_evaluation_name"
SERIES = f"{SCORE}, ragmeter_evaluation_direction, ragmeter_segment, ragmeter_judge"
SURE = 2.5758293035489
"""Quantile of the normal distribution: 99 of 100 intervals contain the share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """Thresholds of the alerts. The defaults suit services from a few requests an hour on."""

    window: str = "1h"
    """Range over which shares are computed (a PromQL duration)."""
    fall_over: str = "6h"
    """Range over which means are compared, and shares of services with few requests are computed."""
    against: str = "1w"
    """Age of the mean to compare with,"""
    also_against: str = "2w"
    """and of a second one: a mean that stays bad would be compared with itself in the second week."""
    silence: str = "1d"
    """Range without requests after which a service with few requests counts as silent."""
    recent: str = "15m"
    """Range over which failures and drops are counted."""
    hold: str = "15m"
    """Duration of a condition before an alert."""
    hold_events: str = "5m"
    """The duration for single events, such as a drop, which count for the time of `recent`."""
    hold_burning: str = "2m"
    """The duration for objectives, whose ranges are long already."""
    interval: str = "1m"
    """Interval of evaluation of the rules that are not recorded over a long range."""
    fall: float = 0.03
    """Allowed fall of a mean, beyond three standard errors."""
    least_scores: int = 20
    """Fewest scores for an alert about the share without a value."""
    least_requests: int = 20
    """Fewest earlier requests for an alert about a service without requests."""
    few_requests: int = 5
    """Fewest requests without a score for an alert within `fall_over`."""
    least_bad: int = 4
    """Fewest bad requests that burn an objective, whatever their share."""
    bad_share: float = 0.3
    """Allowed share of requests with a bad verdict."""
    empty_share: float = 0.1
    """Allowed share of retrievals that find nothing."""
    judge_failures: float = 0.2
    """Allowed share of failed judge calls."""
    unscored: float = 0.3
    """Allowed share of scores without a value."""
    late: float = 300.0
    """Allowed seconds that 95 % of requests wait for a worker's scores: a bound of the histogram."""
    stuck: float = 900.0
    """Allowed seconds that data acknowledged by `ragmeter serve` waits to be scored and sent."""
    burning: Sequence[tuple[str, str, int, str]] = (
        ("1h", "5m", 3, "critical"),
        ("6h", "30m", 2, "critical"),
        ("3d", "6h", 1, "warning"),
    )
    """For objectives: a range whose share surely exceeds a number of budgets, the shorter range that shows
    that it still does, the number of budgets, and the severity."""
    estimates: Sequence[tuple[str, str]] = (("1h", "1m"), ("6h", "2m"), ("1d", "4m"))
    """Windows over which means of quality are recorded, each with its interval: at least every five minutes,
    beyond which Prometheus shows nothing."""
    versions: Sequence[tuple[str, str]] = (("1d", "4m"),)
    """Windows and intervals for means by version of the service."""


class _Rules(Template):
    """Rules with ``@name`` for each setting, since ``$`` belongs to Prometheus' templates."""

    delimiter = "@"


def rules_text(settings: RuleSettings | None = None, objectives: Sequence[Objective] = ()) -> str:
    """Return the text of a Prometheus rule file (YAML).

    Args:
        settings: The numbers in it.
        objectives: Objectives whose budgets are in the rules; applications report the budgets of others.
    """
    chosen = settings or RuleSettings()
    means = {"of": "quality", "group": "estimates", "by": SERIES, "where": "", "note": ""}
    by_version = {
        "of": "version_quality",
        "group": "versions",
        "by": f"{SERIES}, service_version",
        "where": '{service_version!="",ragmeter_segment=""}',
        "note": ", by version of the service,",
    }
    parts = [
        "groups:\n",
        *(_fill("estimates", means, over=over, every=every) for over, every in chosen.estimates),
        *(_fill("estimates", by_version, over=over, every=every) for over, every in chosen.versions),
        _group("requests", chosen.interval),
        *(_fill("arrived", over=over, service=SERVICE) for over in _distinct(chosen.window, chosen.silence)),
        *(_fill("scored", over=over, service=SERVICE) for over in _distinct(chosen.recent, chosen.fall_over)),
        _group("shares", chosen.interval),
        *_shares(chosen),
        _group("objectives", chosen.interval),
        *_objectives(chosen, objectives),
        _fill("alerts", _numbers(chosen), service=SERVICE),
    ]
    return "".join(parts)


def _shares(chosen: RuleSettings) -> Iterator[str]:
    empty = "ragmeter_retrieval_context_count"
    verdicts = "ragmeter_verdicts_total"
    calls = "ragmeter_judge_calls_total"
    by_model = f"{SERVICE}, gen_ai_request_model"
    # Exporters write the bound 0 as 0 or as 0.0.
    zero = '{le=~"0(\\\\.0)?"}'
    yield _share("empty", WORKFLOW, f"{empty}_bucket{zero}", f"{empty}_count", chosen.window)
    for over in _distinct(chosen.window, chosen.fall_over):
        yield _share("bad", WORKFLOW, f'{verdicts}{{ragmeter_verdict="bad"}}', verdicts, over)
    failed = f'{calls}{{error_type!=""}}'
    yield _share("judge_failed", by_model, failed, calls, chosen.recent)


def _objectives(chosen: RuleSettings, objectives: Sequence[Objective]) -> Iterator[str]:
    ranges = [over for long, short, *_ in chosen.burning for over in (long, short)]
    for over in _distinct(*ranges):
        yield _fill("values", over=over, score=SCORE)
        yield _bounds(
            "low",
            over,
            bad=_increase(SCORE, 'ragmeter_quality_low_total{ragmeter_segment=""}', over),
            all=f"ragmeter:low_of:{over}",
            count=f"ragmeter:low_effective:{over}",
        )
    # The objective of a workflow takes precedence over the one of all workflows.
    ordered = sorted(objectives, key=lambda one: one.workflow is None)
    # An expression that has a value wherever its requests are counted.
    given = "".join(
        f"{one.budget:.12g} + 0 * max by ({SCORE}) "
        f"(last_over_time(ragmeter_quality_low_total{_selector(one)}[6h]))\n          or\n          "
        for one in ordered
    )
    yield _fill("budgets", score=SCORE, given=given)
    for factor in sorted({factor for _, _, factor, _ in chosen.burning}):
        yield _fill("limit", factor=factor)
    numbers = _numbers(chosen)
    for long, short, factor, severity in chosen.burning:
        yield _fill("burning", numbers, long=long, short=short, factor=factor, severity=severity)
    for objective in objectives:
        # Prometheus expands templates within a label's value.
        text = _quote(str(objective).replace("{{", '{{ "{{" }}'))
        yield _fill("uncounted", numbers, score=SCORE, which=_selector(objective), text=text)


def _selector(objective: Objective) -> str:
    matchers = {"gen_ai_evaluation_name": objective.score, "ragmeter_segment": ""}
    if objective.workflow is not None:
        matchers["gen_ai_workflow_name"] = objective.workflow
    quoted = [f"{label}={_quote(value)}" for label, value in sorted(matchers.items())]
    return "{" + ",".join(quoted) + "}"


def _quote(text: str) -> str:
    """Quote a text for both PromQL and YAML."""
    return json.dumps(text, ensure_ascii=False)


def _increase(by: str, series: str, over: str) -> str:
    return f"sum by ({by}) (increase({series}[{over}]))"


def _share(name: str, by: str, bad: str, of: str, over: str) -> str:
    """Return the rules for a share of counted events."""
    every = _increase(by, of, over)
    # An event that never happened has no series.
    return _bounds(name, over, bad=f"{_increase(by, bad, over)} or 0 * {every}", all=every, count=every)


def _bounds(name: str, over: str, **expressions: str) -> str:
    numbers = {"z": SURE, "z2": SURE**2, "half_z2": SURE**2 / 2, "quarter_z2": SURE**2 / 4}
    return _fill(
        "share", {key: f"{value:.10g}" for key, value in numbers.items()}, share=name, over=over, **expressions
    )


def _group(name: str, every: str) -> str:
    return f"  - name: ragmeter-{name}\n    interval: {every}\n    rules:\n"


def _numbers(chosen: RuleSettings) -> dict[str, object]:
    return {key: value for key, value in asdict(chosen).items() if isinstance(value, (str, int, float))}


def _distinct(*durations: str) -> list[str]:
    return list(dict.fromkeys(durations))


def _fill(name: str, numbers: Mapping[str, object] | None = None, **more: object) -> str:
    """Return a file of `formulas/` with its settings filled in."""
    text = files("ragmeter.cli.dashboards").joinpath("formulas").joinpath(f"{name}.yml")
    return _Rules(text.read_text(encoding="utf-8")).substitute(numbers or {}, **more)
