"""The known metrics, and their lookup by name.

`RagMeter`, `evaluate` and the command line call this. Built-ins are one tuple; third parties register a
class, an object or a function returning one under the entry-point group ``ragmeter.metrics``, which is
imported only when requested by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from .errors import ConfigurationError, UnknownMetricError
from .protocol import Metric, reads_reference

# The table: name → module and class, in the order of display. Judged metrics are separate: a meter without a
# judge never loads them.
_JUDGED = {
    "context_precision": "judged.context_precision:ContextPrecision",
    "context_utilization": "judged.context_precision:ContextUtilization",
    "context_recall": "judged.context_recall:ContextRecall",
    "context_entity_recall": "judged.context_entity_recall:ContextEntityRecall",
    "context_relevancy": "judged.context_relevancy:ContextRelevancy",
    "faithfulness": "judged.faithfulness:Faithfulness",
    "answer_relevancy": "judged.answer_relevancy:AnswerRelevancy",
    "rag_quest_eval": "judged.rag_quest_eval:RagQuestEval",
}
_FREE = {
    "precision_recall_f1": "computed.precision_recall_f1:PrecisionRecallF1",
    "ranked_retrieval": "computed.ranked_retrieval:RankedRetrieval",
    "id_precision_recall": "computed.id_precision_recall:IdPrecisionRecall",
    "answer_overlap": "computed.answer_overlap:AnswerOverlap",
    "lexical_context_precision": "computed.lexical:LexicalContextPrecision",
    "lexical_context_recall": "computed.lexical:LexicalContextRecall",
    "lexical_entity_recall": "computed.lexical:LexicalEntityRecall",
    "lexical_groundedness": "computed.lexical_groundedness:LexicalGroundedness",
    "support": "computed.support:Support",
    "fact_conflict": "computed.fact_conflict:FactConflict",
    "lexical_context_relevance": "computed.lexical_context_relevance:LexicalContextRelevance",
    "lexical_context_utilization": "computed.lexical_context_utilization:LexicalContextUtilization",
    "refusal": "computed.refusal:Refusal",
    "retrieval_health": "computed.retrieval_health:RetrievalHealth",
    "retrieval_funnel": "computed.retrieval_stages:RetrievalFunnel",
    "right_document_loss": "computed.retrieval_stages:RightDocumentLoss",
}
# Free ones that are computed only when requested by name.
_ON_REQUEST = {
    "lexical_query_coverage": "computed.lexical:LexicalQueryCoverage",
    "citations": "computed.citations:Citations",
}
# Metrics with an embedder: in every preset if there is one.
_SEMANTIC = {"semantic_context_relevance": "semantic.semantic_context_relevance:SemanticContextRelevance"}
# Metrics that judge the questions of several others in one call, whose names are in `covers`.
_FUSED = {
    "fused_context_metrics": "judged.fused_context:FusedContextMetrics",
    "live_judged": "judged.live_judged:LiveJudged",
}
# Scores of `live_judged` that can be requested by name; several become one metric with one ask.
_LIVE = (
    "context_sufficiency",
    "judged_precision",
    "judged_average_precision",
    "judged_ndcg",
    "judged_hit_rate",
    "judged_refusal",
)
# By default these are measured for requests with a reference: for others one call is enough, `live_judged`.
_WITH_REFERENCE = frozenset({"context_utilization", "context_relevancy", "answer_relevancy"})
_HOMES = {**_JUDGED, **_FREE, **_SEMANTIC, **_ON_REQUEST, **_FUSED}

if TYPE_CHECKING:
    from .embedder import Embedder

    BUILTIN: tuple[type[Metric], ...]
    """Every metric that ships with ragmeter, in the order of display."""

PRESETS = ("live", "golden", "all")
"""Names of sets of metrics, allowed instead of a metric's name or of the whole list."""

ENTRY_POINT_GROUP = "ragmeter.metrics"
"""Entry-point group of other packages: ``my_metric = "my_package:MyMetric"``."""


@cache
def _builtin(name: str) -> type[Metric]:
    module, _, kind = _HOMES[name].partition(":")
    found: type[Metric] = getattr(import_module(f".{module}", __package__), kind)
    return found


def __getattr__(name: str) -> Any:
    """Load a built-in metric by the name of its class, or all as `BUILTIN`, on first use (PEP 562)."""
    if name == "BUILTIN":
        return tuple(_builtin(one) for one in (*_JUDGED, *_FREE, *_ON_REQUEST))
    for metric, home in _HOMES.items():
        if home.endswith(f":{name}"):
            return _builtin(metric)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def known_metrics() -> tuple[str, ...]:
    """Return every name that `resolve_metrics` accepts: built-ins, then third parties', sorted."""
    ours = (*_HOMES, *_LIVE)
    return (*ours, *sorted(set(_entry_points()) - set(ours)))


def default_metrics(
    *, judged: bool = False, fused: bool = False, embedder: Embedder | None = None
) -> list[Metric]:
    """Return the metrics of the preset ``golden``, a meter's default.

    Args:
        judged: Add judged metrics.
        fused: For requests with a reference answer, ask about chunks and references in one call.
        embedder: Add metrics that use it.
    """
    return preset_metrics("golden", judged=judged, fused=fused, embedder=embedder)


def preset_metrics(
    preset: str, *, judged: bool = False, fused: bool = False, embedder: Embedder | None = None
) -> list[Metric]:
    """Return a set of metrics.

    Args:
        preset: ``live``: few metrics, without a reference. ``golden``: those, and all that read a reference.
            ``all``: every built-in metric, including those that are otherwise measured by name only.
        judged: Add judged metrics: `live_judged`, one call for a request without a reference; to ``golden``
            and ``all`` the others, which ``golden`` measures for requests with a reference answer.
        fused: For requests with a reference answer, ask about chunks and references in one call.
        embedder: Add metrics that use it.

    Raises:
        ConfigurationError: Unknown preset.
    """
    if preset not in PRESETS:
        raise ConfigurationError(
            f"metrics is {preset!r}; pass a set, {', '.join(map(repr, PRESETS))}, or a list of names or "
            f"Metric objects: [{preset!r}]"
        )
    free = [_builtin(name)() for name in (_FREE if preset != "all" else {**_FREE, **_ON_REQUEST})]
    if embedder is not None:
        free += [_builtin(name)().asking(embedder) for name in _SEMANTIC]
    found = [*_judged_metrics(preset, fused=fused), *free] if judged else free
    if preset == "live":
        found = [metric for metric in found if not reads_reference(metric)]
    return _beside(found)


def _judged_metrics(preset: str, *, fused: bool) -> list[Metric]:
    # Fused ones first: their call also answers for later metrics.
    names = [*(["fused_context_metrics"] if fused and preset != "live" else []), "live_judged"]
    stand_ins: list[Metric] = [_builtin(name)() for name in names]
    covered = {name for metric in stand_ins for name in getattr(metric, "covers", ())}
    others = [_builtin(name)() for name in _JUDGED if name not in covered]
    if preset != "all":
        others = [one.needing("reference.answer") if one.name in _WITH_REFERENCE else one for one in others]
    return [*stand_ins, *others]


def resolve_metrics(
    metrics: str | Iterable[str | Metric],
    *,
    judged: bool = False,
    fused: bool = False,
    embedder: Embedder | None = None,
) -> list[Metric]:
    """Return metrics for names, with their default settings; metric objects pass unchanged.

    Args:
        metrics: A preset, or names of metrics and presets, and objects, in order. Metrics of a preset need
            not be named again.
        judged: Whether presets include judged metrics.
        fused: As in `preset_metrics`.
        embedder: The embedder of metrics without one; with it, presets include semantic metrics.

    Raises:
        UnknownMetricError: Unknown name; the message has similar ones.
        ConfigurationError: Two metrics have scores of the same name, or an entry is not a metric.
    """
    if isinstance(metrics, str):
        return preset_metrics(metrics, judged=judged, fused=fused, embedder=embedder)
    if isinstance(metrics, Metric) or not isinstance(metrics, Iterable):
        raise ConfigurationError(f"metrics is a list of names or Metric objects: [{metrics!r}]")
    entries = _with_presets(list(metrics), judged=judged, fused=fused, embedder=embedder)
    resolved = [_resolve(entry).asking(embedder) for entry in _join_live(entries)]
    owners: dict[str, Metric] = {}
    for metric in resolved:
        for score_name in metric.score_names:
            owner = owners.setdefault(score_name, metric)
            if owner is not metric or metric.score_names.count(score_name) > 1:
                raise ConfigurationError(
                    f"{owner.name!r} and {metric.name!r} both give a score named {score_name!r}; "
                    f"rename one's scores: metric.prefixed('other_')"
                )
    return _beside(resolved)


def _with_presets(
    entries: list[str | Metric], *, judged: bool, fused: bool, embedder: Embedder | None
) -> list[str | Metric]:
    """Replace a preset by its metrics, and drop names that it already includes."""
    named = [entry for entry in entries if isinstance(entry, str) and entry in PRESETS]
    if not named:
        return entries
    if len(named) > 1:
        raise ConfigurationError(
            f"metrics names {' and '.join(map(repr, named))}; each preset holds the one before: name one"
        )
    brought = preset_metrics(named[0], judged=judged, fused=fused, embedder=embedder)
    names = {name for metric in brought for name in (metric.name, *metric.score_names)}
    found: list[str | Metric] = []
    for entry in entries:
        if entry == named[0]:
            found += brought
        elif not isinstance(entry, str) or entry not in names:
            found.append(entry)
    return found


def _join_live(entries: list[str | Metric]) -> list[str | Metric]:
    """Replace all names of scores of one live call by one metric."""
    names = [entry for entry in entries if isinstance(entry, str)]
    asked = [name for name in names if name in _LIVE]
    if not asked and "live_judged" not in names:
        return entries
    kind: Any = _builtin("live_judged")
    replaced = {*_LIVE, *kind.covers, kind.name}
    only = tuple(name for name in names if name in replaced)
    live: Metric = kind(only=None if kind.name in names else only)
    first = entries.index(next(name for name in names if name in replaced))
    rest = [e for e in entries[first:] if not isinstance(e, str) or e not in replaced]
    return [*entries[:first], live, *rest]


def _beside(metrics: list[Metric]) -> list[Metric]:
    """Adapt metrics that share their call to the metrics after them."""
    names = [metric.name for metric in metrics]
    return [
        metric if (adapt := getattr(metric, "beside", None)) is None else adapt(names[place:])
        for place, metric in enumerate(metrics, start=1)
    ]


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
    if name in _HOMES:
        return _builtin(name)()
    point = _entry_points().get(name)
    if point is None:
        kinds = map(_builtin, (*_JUDGED, *_FREE, *_ON_REQUEST))
        score_of = next((kind.name for kind in kinds if name in kind.score_names), None)
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
