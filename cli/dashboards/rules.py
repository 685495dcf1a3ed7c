"""The Prometheus rules: `rules.yml` beside this file holds the formulas, `RuleSettings` the numbers in them.

`estimates.yml` holds those for the means of quality, written once and recorded over several windows.

The longer runbook is ``docs/dashboards.md``; its headings are the alerts' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from string import Template

__all__ = ["RuleSettings", "rules_text"]


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
    bad_share: float = 0.3
    """Share of requests whose verdict may be bad."""
    empty_share: float = 0.1
    """Share of retrievals that may find nothing."""
    judge_failures: float = 0.2
    """Share of judge calls that may fail."""
    estimates: Sequence[tuple[str, str]] = (("1h", "1m"), ("6h", "2m"), ("1d", "4m"))
    """Windows over which means of quality are recorded, each with how often: at least every five
    minutes, beyond which Prometheus shows nothing."""


class _Rules(Template):
    """Rules with ``@name`` for each setting: ``$`` belongs to Prometheus' own templates."""

    delimiter = "@"


def rules_text(settings: RuleSettings | None = None) -> str:
    """Return the text of a Prometheus rule file (YAML)."""
    chosen = settings or RuleSettings()
    rules = _Rules(_data("rules.yml")).substitute(asdict(chosen))
    estimates = _Rules(_data("estimates.yml"))
    return rules + "".join(
        estimates.substitute(over=over, every=every) for over, every in chosen.estimates
    )


def _data(name: str) -> str:
    return files("ragmeter.cli.dashboards").joinpath(name).read_text(encoding="utf-8")
