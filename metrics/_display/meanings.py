"""Reads the meaning of a score from its metric's docstring, the only source.

For ``ragmeter metrics NAME`` and the report of ``ragmeter evaluate --html``.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import NamedTuple

from ragmeter.metrics.errors import RagmeterError, UnknownMetricError
from ragmeter.metrics.protocol import Metric
from ragmeter.metrics.registry import known_metrics, resolve_metrics

_SECTIONS = re.compile(r"^(?=[A-Z][A-Za-z ]+:(?: |$))", re.MULTILINE)
_LEFT_OUT = frozenset({"Args", "Raises", "Attributes", "Prompts"})


class Meaning(NamedTuple):
    """The description of a metric."""

    metric: str
    """Its name in ``--metrics`` and ``RagMeter(metrics=[...])``."""
    scores: tuple[str, ...]
    """Names of its scores."""
    question: str
    """The question that the score answers."""
    says: str
    """Its docstring without the arguments: question, formula, range, needs, cost, source, statuses."""
    definition: str
    """Version of formula and prompt in this version of ragmeter."""


def metric_with(name: str) -> Metric:
    """Return a metric by its name, or by the name of one of its scores; raises an `UnknownMetricError`."""
    try:
        return resolve_metrics([name])[0]
    except UnknownMetricError:
        for known in known_metrics():
            metric = resolve_metrics([known])[0]
            if name in metric.score_names:
                return metric
        raise


@cache
def meaning_of(name: str) -> Meaning | None:
    """Return the meaning of a score or metric; None: no known metric has that name."""
    try:
        return said_of(metric_with(name))
    except RagmeterError:
        return None


def said_of(metric: Metric) -> Meaning:
    """Return the description of a metric."""
    text, *sections = _SECTIONS.split(inspect.getdoc(type(metric)) or "")
    kept = [section for section in sections if section.partition(":")[0] not in _LEFT_OUT]
    says = "".join([text, *kept]).replace("``", "`").strip()
    return Meaning(
        metric=metric.name,
        scores=metric.score_names,
        question=" ".join(says.partition("\n\n")[0].split()),
        says=says,
        definition=metric.definition,
    )
