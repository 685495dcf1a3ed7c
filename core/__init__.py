"""ragmeter: live retrieval-quality scores for RAG chains, as OpenTelemetry.

The public names: the meter, functions about a request, the vocabulary and every error. They are loaded on
first use, so that ``import ragmeter.metrics`` loads neither the meter nor the exporters, and ``import
ragmeter`` loads no framework. `instrument` belongs to the adapters, a layer above, and is imported by name on
first use.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if os.environ.get("RAGMETER_DOCTOR"):  # by name: it is in the topmost layer
    import_module("ragmeter.cli._examination").begin()

if TYPE_CHECKING:
    from ragmeter.adapters import instrument, uninstrument
    from ragmeter.exporters.protocol import (
        MeterStats,
        RagRun,
        Retrieval,
        RunsLostError,
        ScoredRun,
        TryLaterError,
    )
    from ragmeter.metrics import (
        ConfigurationError,
        MatchingStrategy,
        Metric,
        MissingDependencyError,
        RagmeterError,
        RagSample,
        Reference,
        ReferenceFileError,
        RetrievedContext,
        Score,
        ScoreItem,
        UnknownMetricError,
        Verdict,
        VerdictRules,
        evaluate,
        metric,
    )
    from ragmeter.metrics.errors import TooLongError
    from ragmeter.metrics.judge.protocol import JudgeError

    from .meter import RagMeter
    from .quality.estimates import Estimate
    from .quality.objectives import Objective
    from .requests.by_hand import Request, request
    from .requests.scope import reference, suppress
    from .scorer import Scorer
    from .settings.options import Alarms, Cascade, Limits, Sampling, Scoring
    from .watch.change import Change

__all__ = [
    "Alarms",
    "Cascade",
    "Change",
    "ConfigurationError",
    "Estimate",
    "JudgeError",
    "Limits",
    "MatchingStrategy",
    "MeterStats",
    "Metric",
    "MissingDependencyError",
    "Objective",
    "RagMeter",
    "RagRun",
    "RagSample",
    "RagmeterError",
    "Reference",
    "ReferenceFileError",
    "Request",
    "Retrieval",
    "RetrievedContext",
    "RunsLostError",
    "Sampling",
    "Score",
    "ScoreItem",
    "ScoredRun",
    "Scorer",
    "Scoring",
    "TooLongError",
    "TryLaterError",
    "UnknownMetricError",
    "Verdict",
    "VerdictRules",
    "evaluate",
    "instrument",
    "metric",
    "reference",
    "request",
    "suppress",
    "uninstrument",
]

# Homes of the names that are not `ragmeter.metrics`'; the imports above are for type checkers.
_HOMES = {
    name: module
    for module, names in {
        "meter": "RagMeter",
        "scorer": "Scorer",
        "settings.options": "Alarms Cascade Limits Sampling Scoring",
        "watch.change": "Change",
        "quality.estimates": "Estimate",
        "quality.objectives": "Objective",
        "requests.by_hand": "Request request",
        "requests.scope": "reference suppress",
        "adapters": "instrument uninstrument",
        "exporters.protocol": "MeterStats RagRun Retrieval RunsLostError ScoredRun TryLaterError",
        "metrics.errors": "TooLongError",
        "metrics.judge.protocol": "JudgeError",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs a file search

        from ragmeter.metrics.errors import DISTRIBUTION  # noqa: PLC0415 -- only when wanted

        return version(DISTRIBUTION)
    if name not in __all__:
        raise AttributeError(f"module 'ragmeter' has no attribute {name!r}")
    value = getattr(import_module(f"ragmeter.{_HOMES.get(name, 'metrics')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted([*__all__, "__version__"])
