"""The metric module: a `RagSample` goes in, `Score`s come out.

Usable without the rest of ragmeter: it knows no framework and no telemetry.  The vocabulary is
loaded at once; metrics and text tools on first use, so that importing costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    ConfigurationError,
    MissingDependencyError,
    RagmeterError,
    ReferenceFileError,
    UnknownMetricError,
)
from .metric import ComputedMetric, FunctionMetric, Metric, metric
from .sample import RagSample, Reference, RetrievedContext, SampleStatus
from .score import Score, ScoreDirection, ScoreItem, ScoreMethod, ScoreStatus, ScoreTarget

if TYPE_CHECKING:
    from .answer_overlap import AnswerOverlap
    from .answer_relevancy import AnswerRelevancy
    from .context_entity_recall import ContextEntityRecall
    from .context_precision import ContextPrecision, ContextUtilization
    from .context_recall import ContextRecall
    from .context_relevancy import ContextRelevancy
    from .entities import EntityFinder, EntityMatch, entity_recall
    from .evaluation import aevaluate, evaluate
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
    from .matching import (
        ROUGE_CHUNK_MATCH_THRESHOLD,
        ROUGE_SENTENCE_MATCH_THRESHOLD,
        MatchingStrategy,
    )
    from .precision_recall_f1 import PrecisionRecallF1
    from .quest_eval import QuestEvalScores, quest_eval_scores
    from .rag_quest_eval import RagQuestEval
    from .ranked_retrieval import RankedRetrieval
    from .ranking import average_precision, average_precision_bounds, ndcg, reciprocal_rank
    from .registry import BUILTIN, default_metrics, known_metrics, resolve_metrics
    from .text.overlap import RougeScore, rouge_l_recall, rouge_scores, token_f1
    from .text.sentences import sentences
    from .text.tokens import content_tokens, tokens

# Name → module; the type checkers read the imports above.
_HOMES = {
    "AnswerRelevancy": "answer_relevancy",
    "ContextEntityRecall": "context_entity_recall",
    "ContextPrecision": "context_precision",
    "ContextUtilization": "context_precision",
    "ContextRecall": "context_recall",
    "ContextRelevancy": "context_relevancy",
    "Faithfulness": "faithfulness",
    "FusedContextMetrics": "fused",
    "QuestEvalScores": "quest_eval",
    "RagQuestEval": "rag_quest_eval",
    "quest_eval_scores": "quest_eval",
    "AnswerOverlap": "answer_overlap",
    "BUILTIN": "registry",
    "EntityFinder": "entities",
    "EntityMatch": "entities",
    "IdPrecisionRecall": "id_precision_recall",
    "LexicalContextPrecision": "lexical",
    "LexicalContextRecall": "lexical",
    "LexicalEntityRecall": "lexical",
    "LexicalGroundedness": "lexical",
    "LexicalQueryCoverage": "lexical",
    "MatchingStrategy": "matching",
    "PrecisionRecallF1": "precision_recall_f1",
    "ROUGE_CHUNK_MATCH_THRESHOLD": "matching",
    "ROUGE_SENTENCE_MATCH_THRESHOLD": "matching",
    "RankedRetrieval": "ranked_retrieval",
    "RetrievalHealth": "health",
    "RougeScore": "text.overlap",
    "aevaluate": "evaluation",
    "average_precision": "ranking",
    "average_precision_bounds": "ranking",
    "content_tokens": "text.tokens",
    "default_metrics": "registry",
    "entity_recall": "entities",
    "evaluate": "evaluation",
    "known_metrics": "registry",
    "ndcg": "ranking",
    "reciprocal_rank": "ranking",
    "resolve_metrics": "registry",
    "rouge_l_recall": "text.overlap",
    "rouge_scores": "text.overlap",
    "sentences": "text.sentences",
    "token_f1": "text.overlap",
    "tokens": "text.tokens",
}

__all__ = [
    "BUILTIN",
    "ROUGE_CHUNK_MATCH_THRESHOLD",
    "ROUGE_SENTENCE_MATCH_THRESHOLD",
    "AnswerOverlap",
    "AnswerRelevancy",
    "ComputedMetric",
    "ConfigurationError",
    "ContextEntityRecall",
    "ContextPrecision",
    "ContextRecall",
    "ContextRelevancy",
    "ContextUtilization",
    "EntityFinder",
    "EntityMatch",
    "Faithfulness",
    "FunctionMetric",
    "FusedContextMetrics",
    "IdPrecisionRecall",
    "LexicalContextPrecision",
    "LexicalContextRecall",
    "LexicalEntityRecall",
    "LexicalGroundedness",
    "LexicalQueryCoverage",
    "MatchingStrategy",
    "Metric",
    "MissingDependencyError",
    "PrecisionRecallF1",
    "QuestEvalScores",
    "RagQuestEval",
    "RagSample",
    "RagmeterError",
    "RankedRetrieval",
    "Reference",
    "ReferenceFileError",
    "RetrievalHealth",
    "RetrievedContext",
    "RougeScore",
    "SampleStatus",
    "Score",
    "ScoreDirection",
    "ScoreItem",
    "ScoreMethod",
    "ScoreStatus",
    "ScoreTarget",
    "UnknownMetricError",
    "aevaluate",
    "average_precision",
    "average_precision_bounds",
    "content_tokens",
    "default_metrics",
    "entity_recall",
    "evaluate",
    "known_metrics",
    "metric",
    "ndcg",
    "quest_eval_scores",
    "reciprocal_rank",
    "resolve_metrics",
    "rouge_l_recall",
    "rouge_scores",
    "sentences",
    "token_f1",
    "tokens",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)
