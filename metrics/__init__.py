"""The metric module: converts a `RagSample` to `Score`s.

Usable without the rest of ragmeter: it knows no framework and no telemetry. Everything except the errors is
loaded on first use, so that importing costs little.
"""

from typing import TYPE_CHECKING

from ._display import printing as printing  # before anything is logged
from ._process.lazy_exports import lazy_exports
from .errors import (
    ConfigurationError,
    MissingDependencyError,
    RagmeterError,
    ReferenceFileError,
    UnknownMetricError,
)

if TYPE_CHECKING:
    from .computed._matching import (
        ROUGE_CHUNK_MATCH_THRESHOLD,
        ROUGE_SENTENCE_MATCH_THRESHOLD,
        MatchingStrategy,
    )
    from .computed._ranking import average_precision, average_precision_bounds, ndcg, reciprocal_rank
    from .computed.answer_overlap import AnswerOverlap
    from .computed.citations import Citations
    from .computed.fact_conflict import FactConflict
    from .computed.id_precision_recall import IdPrecisionRecall
    from .computed.lexical import (
        LexicalContextPrecision,
        LexicalContextRecall,
        LexicalEntityRecall,
        LexicalQueryCoverage,
    )
    from .computed.lexical_context_relevance import LexicalContextRelevance
    from .computed.lexical_context_utilization import LexicalContextUtilization
    from .computed.lexical_groundedness import LexicalGroundedness
    from .computed.precision_recall_f1 import PrecisionRecallF1
    from .computed.ranked_retrieval import RankedRetrieval
    from .computed.refusal import Refusal
    from .computed.retrieval_health import RetrievalHealth
    from .computed.retrieval_stages import RetrievalFunnel, RightDocumentLoss
    from .computed.support import Support
    from .evaluation import aevaluate, evaluate
    from .function_metric import FunctionMetric, metric
    from .judged._quest_eval_scores import QuestEvalScores, quest_eval_scores
    from .judged.answer_relevancy import AnswerRelevancy
    from .judged.context_entity_recall import ContextEntityRecall
    from .judged.context_precision import ContextPrecision, ContextUtilization
    from .judged.context_recall import ContextRecall
    from .judged.context_relevancy import ContextRelevancy
    from .judged.faithfulness import Faithfulness
    from .judged.fused_context import FusedContextMetrics
    from .judged.live_judged import LiveJudged
    from .judged.rag_quest_eval import RagQuestEval
    from .protocol import ComputedMetric, Metric
    from .registry import BUILTIN, default_metrics, known_metrics, resolve_metrics
    from .sample import RagSample, Reference, RetrievalStage, RetrievedContext, SampleStatus
    from .score import Score, ScoreDirection, ScoreItem, ScoreMethod, ScoreStatus, ScoreTarget
    from .semantic.semantic_context_relevance import SemanticContextRelevance
    from .text.entities import EntityFinder, EntityMatch
    from .text.overlap import token_f1
    from .text.sentences import sentences
    from .text.tokens import content_tokens, tokens
    from .verdict import VERDICT_CODES, Verdict, VerdictRules, VerdictWord

# Homes of the other names; metrics are found by the table in `registry`, and the imports above are for type
# checkers.
_HOMES = {
    name: module
    for module, names in {
        "function_metric": "FunctionMetric metric",
        "protocol": "ComputedMetric Metric",
        "sample": "RagSample Reference RetrievalStage RetrievedContext SampleStatus",
        "score": "Score ScoreDirection ScoreItem ScoreMethod ScoreStatus ScoreTarget",
        "verdict": "VERDICT_CODES Verdict VerdictRules VerdictWord",
        "judged._quest_eval_scores": "QuestEvalScores quest_eval_scores",
        "registry": "BUILTIN default_metrics known_metrics resolve_metrics",
        "text.entities": "EntityFinder EntityMatch",
        "computed._matching": "MatchingStrategy ROUGE_CHUNK_MATCH_THRESHOLD ROUGE_SENTENCE_MATCH_THRESHOLD",
        "evaluation": "aevaluate evaluate",
        "computed._ranking": "average_precision average_precision_bounds ndcg reciprocal_rank",
        "text.tokens": "content_tokens tokens",
        "text.sentences": "sentences",
        "text.overlap": "token_f1",
    }.items()
    for name in names.split()
}

__all__ = [
    "BUILTIN",
    "ROUGE_CHUNK_MATCH_THRESHOLD",
    "ROUGE_SENTENCE_MATCH_THRESHOLD",
    "VERDICT_CODES",
    "AnswerOverlap",
    "AnswerRelevancy",
    "Citations",
    "ComputedMetric",
    "ConfigurationError",
    "ContextEntityRecall",
    "ContextPrecision",
    "ContextRecall",
    "ContextRelevancy",
    "ContextUtilization",
    "EntityFinder",
    "EntityMatch",
    "FactConflict",
    "Faithfulness",
    "FunctionMetric",
    "FusedContextMetrics",
    "IdPrecisionRecall",
    "LexicalContextPrecision",
    "LexicalContextRecall",
    "LexicalContextRelevance",
    "LexicalContextUtilization",
    "LexicalEntityRecall",
    "LexicalGroundedness",
    "LexicalQueryCoverage",
    "LiveJudged",
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
    "Refusal",
    "RetrievalFunnel",
    "RetrievalHealth",
    "RetrievalStage",
    "RetrievedContext",
    "RightDocumentLoss",
    "SampleStatus",
    "Score",
    "ScoreDirection",
    "ScoreItem",
    "ScoreMethod",
    "ScoreStatus",
    "ScoreTarget",
    "SemanticContextRelevance",
    "Support",
    "UnknownMetricError",
    "Verdict",
    "VerdictRules",
    "VerdictWord",
    "aevaluate",
    "average_precision",
    "average_precision_bounds",
    "content_tokens",
    "default_metrics",
    "evaluate",
    "known_metrics",
    "metric",
    "ndcg",
    "quest_eval_scores",
    "reciprocal_rank",
    "resolve_metrics",
    "sentences",
    "token_f1",
    "tokens",
]

__getattr__, __dir__ = lazy_exports(__name__, __all__, _HOMES, "registry")
