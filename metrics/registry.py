"""The metrics that exist, and how a name becomes one.

`RagMeter`, `evaluate` and the command line call this.  Built-ins are one tuple; third parties
register a class, an object or a function returning one under the entry-point group
``ragmeter.metrics``, and are imported only when asked for by name.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from .answer_overlap import AnswerOverlap
from .answer_relevancy import AnswerRelevancy
from .context_entity_recall import ContextEntityRecall
from .context_precision import ContextPrecision, ContextUtilization
from .context_recall import ContextRecall
from .context_relevancy import ContextRelevancy
from .errors import ConfigurationError, UnknownMetricError
from .faithfulness import Faithfulness
from .fused import FusedContextMetrics
from .health import RetrievalHealth
from .id_precision_recall import IdPrecisionRecall
from .lexical import (
    LexicalContextPrecision,
    LexicalContextRecall,
    LexicalEntityRecall,
    LexicalGroundedness,
    LexicalQueryCoverage,
)
from .metric import Metric
from .precision_recall_f1 import PrecisionRecallF1
from .rag_quest_eval import RagQuestEval
from .ranked_retrieval import RankedRetrieval

__all__ = ["BUILTIN", "ENTRY_POINT_GROUP", "default_metrics", "known_metrics", "resolve_metrics"]

BUILTIN: tuple[type[Metric], ...] = (
    ContextPrecision,
    ContextUtilization,
    ContextRecall,
    ContextEntityRecall,
    ContextRelevancy,
    Faithfulness,
    AnswerRelevancy,
    RagQuestEval,
    PrecisionRecallF1,
    RankedRetrieval,
    IdPrecisionRecall,
    AnswerOverlap,
    LexicalContextPrecision,
    LexicalContextRecall,
    LexicalEntityRecall,
    LexicalGroundedness,
    LexicalQueryCoverage,
    RetrievalHealth,
)
"""Every metric that ships with ragmeter, in the order in which they are shown."""

FUSED: tuple[type[Metric], ...] = (FusedContextMetrics,)
"""Metrics that judge several others' questions in one call; each has `covers`, their names."""

ENTRY_POINT_GROUP = "ragmeter.metrics"
"""Where other packages register theirs: ``my_metric = "my_package:MyMetric"``."""


def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def known_metrics() -> tuple[str, ...]:
    """Return every name that `resolve_metrics` accepts: built-ins, then others', sorted."""
    builtin = [kind.name for kind in (*BUILTIN, *FUSED)]
    return (*builtin, *sorted(set(_registered()) - set(builtin)))


def default_metrics(*, judged: bool = False, fused: bool = False) -> list[Metric]:
    """Return one of every free metric, in the order of `BUILTIN`.

    Args:
        judged: Add those that ask a judge.
        fused: Of those, let the fused ones stand in for the metrics they cover.
    """
    stand_ins = [kind() for kind in FUSED] if judged and fused else []
    covered = {name for metric in stand_ins for name in getattr(metric, "covers", ())}
    chosen = [
        kind() for kind in BUILTIN if not kind.judged or (judged and kind.name not in covered)
    ]
    return [*chosen, *stand_ins]


def resolve_metrics(metrics: Iterable[str | Metric]) -> list[Metric]:
    """Turn names into metrics, with their default settings; metric objects pass as they are.

    Args:
        metrics: Names or objects, in the order wanted.

    Raises:
        UnknownMetricError: Nobody registered that name; the message lists all that exist.
        ConfigurationError: Two metrics give scores of the same name, or an entry is no metric.
    """
    if isinstance(metrics, (str, Metric)):
        raise ConfigurationError(f"metrics is a list of names or Metric objects: [{metrics!r}]")
    resolved = [_resolve(entry) for entry in metrics]
    owners: dict[str, Metric] = {}
    for metric in resolved:
        for score_name in metric.score_names:
            owner = owners.setdefault(score_name, metric)
            if owner is not metric or metric.score_names.count(score_name) > 1:
                raise ConfigurationError(
                    f"{owner.name!r} and {metric.name!r} both give a score named {score_name!r}; "
                    f"rename one's scores: metric.prefixed('other_')"
                )
    return resolved


def _resolve(entry: object) -> Metric:
    if isinstance(entry, Metric):
        return entry
    if isinstance(entry, str):
        return _by_name(entry)
    if isinstance(entry, type) and issubclass(entry, Metric):
        raise ConfigurationError(f"{entry.__name__} is a class; pass an object: {entry.__name__}()")
    raise ConfigurationError(
        f"{entry!r} is no metric; pass a name, a Metric object, or decorate a function with @metric"
    )


def _by_name(name: str) -> Metric:
    for kind in (*BUILTIN, *FUSED):
        if kind.name == name:
            return kind()
    point = _registered().get(name)
    if point is None:
        score_of = next((kind.name for kind in BUILTIN if name in kind.score_names), None)
        raise UnknownMetricError(name, known_metrics(), score_of)
    try:
        registered = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"metric {name!r} is registered as {point.value!r}, which cannot be imported: {error}"
        ) from error
    metric = registered if isinstance(registered, Metric) else registered()
    if not isinstance(metric, Metric):
        raise ConfigurationError(
            f"metric {name!r} is registered as {point.value!r}, which is no ragmeter Metric"
        )
    return metric
