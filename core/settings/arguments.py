"""Check arguments of `RagMeter`.

Each check returns the value or raises `ConfigurationError` with the allowed values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ragmeter.metrics import ConfigurationError, Metric, VerdictRules

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import Judge

__all__ = [
    "PREFIXES",
    "at_least",
    "check_askable",
    "check_methods",
    "more_than_0",
    "one_of",
    "probability",
    "rules_in_environment",
    "seconds_of",
    "sequence_of",
    "verdict_rules",
    "whole",
    "window_of",
]

T = TypeVar("T")

PREFIXES = ("RAGMETER_", "OTEL_INSTRUMENTATION_RAGMETER_")
"""Prefixes of environment variables; the first wins."""
FOREVER_S = 1e6
"""Seconds that stand for infinity, which clocks and locks do not accept."""


def one_of(name: str, value: str, *allowed: str) -> str:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        words = " or ".join(repr(word) for word in allowed)
        raise ConfigurationError(f"{name} is {value!r}; it is {words}")
    return value


def at_least(least: float, name: str, value: float) -> float:
    """Return `value` if it is `least` or more."""
    if not _is_number(value) or not value >= least:
        raise ConfigurationError(f"{name} is {value!r}; it must be a number of at least {least:g}")
    return value


def more_than_0(name: str, value: float) -> float:
    """Return `value` if it is positive."""
    if not _is_number(value) or not value > 0:
        raise ConfigurationError(f"{name} is {value!r}; it must be a number greater than 0")
    return value


def probability(name: str, value: float) -> float:
    """Return `value` if it is between 0 and 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name} is {value!r}; it is a probability from 0.0 to 1.0")
    return float(value)


def whole(name: str, value: float) -> int:
    """Return a checked number as an integer."""
    try:
        return int(value)
    except OverflowError:
        raise ConfigurationError(f"{name} is {value!r}; it must be finite") from None


def seconds_of(timeout_s: float) -> float:
    """Return a time limit in seconds, at most `FOREVER_S`.

    Raises:
        ConfigurationError: It is not a number.
    """
    if not _is_number(timeout_s) or math.isnan(timeout_s):
        raise ConfigurationError(
            f"timeout_s is a {type(timeout_s).__name__}; pass seconds, e.g. timeout_s=10"
        )
    return float(min(max(timeout_s, 0), FOREVER_S))


def window_of(window_s: float) -> float:
    """Return the length of a time window in seconds.

    Raises:
        ConfigurationError: It is not a positive number.
    """
    if not _is_number(window_s) or not window_s > 0:
        raise ConfigurationError(
            f"window_s is {window_s!r}; pass seconds greater than 0, e.g. window_s=3600"
        )
    return float(min(window_s, FOREVER_S))


def rules_in_environment(name: str) -> list[str]:
    """Return the rules of a variable, separated by ``;``, as they may contain commas."""
    found = (os.environ.get(prefix + name) for prefix in PREFIXES)
    return [rule.strip() for rule in (next(filter(None, found), "")).split(";") if rule.strip()]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def sequence_of(name: str, value: Iterable[T]) -> tuple[T, ...]:
    """Return the items of a list argument."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ConfigurationError(f"{name} is {value!r}; pass a list")
    return tuple(value)


def check_methods(argument: str, given: Sequence[object], *methods: str) -> None:
    """Refuse values of `argument` that lack one of `methods`."""
    for item in given:
        lacks = [name for name in methods if not callable(getattr(item, name, None))]
        if lacks or isinstance(item, type):
            wrong = f"has no method {', '.join(lacks)}" if lacks else "is a class; pass an object"
            raise ConfigurationError(f"{argument}: {item!r} {wrong}")


def check_askable(metrics: Iterable[Metric], judge: Judge | None) -> None:
    """Refuse metrics that need a missing judge or embedder."""
    awaited = tuple(metrics)
    needing = [metric.name for metric in awaited if metric.judged]
    if needing and judge is None:
        raise ConfigurationError(
            f"metrics {', '.join(needing)} ask a judge; pass "
            "judge=OpenAIJudge(model=...) from ragmeter.metrics.judge"
        )
    lacking = [metric.name for metric in awaited if metric.lacks_embedder]
    if lacking:
        raise ConfigurationError(
            f"metrics {', '.join(lacking)} ask an embedder; pass embedder=, e.g. the one of your "
            "vector store, or OpenAIEmbedder(model=...) from ragmeter.metrics.embedder"
        )


def verdict_rules(
    verdict: VerdictRules | None, labels: str | os.PathLike[str] | None = None
) -> VerdictRules:
    """Return the rules of the verdict, with the rates of people's labels, if given."""
    rules = VerdictRules() if verdict is None else verdict
    if not isinstance(rules, VerdictRules):
        raise ConfigurationError(f"verdict is {verdict!r}; pass ragmeter.VerdictRules(...)")
    if labels is None:
        return rules
    from ragmeter.quality.verdict_rates import rated_rules  # noqa: PLC0415 -- only when wanted

    return rated_rules(rules, Path(labels))
