"""Every name that ragmeter emits, in one place: attributes, events, instruments, units, buckets.

The exporters, the dashboards and their tests read this file; no other file defines a telemetry name. A `Term`
is a string that also has its source and stability, so that documentation can be generated. The meaning of
each instrument is in ``descriptions.json``. This module must not import anything but the standard library and
the type of names: there is no constants package for the GenAI conventions since they moved out of the core
ones (v1.42.0), hence the literals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ._terms import Instrument, InstrumentKind, Term

__all__ = [
    "CHANGE_INSTRUMENTS",
    "CONVERSATION_INSTRUMENTS",
    "FREE_SUMS",
    "INSTRUMENTS",
    "JUDGED_SUMS",
    "LIST_INSTRUMENTS",
    "PAIR_SUMS",
    "QUALITY_GAUGES",
    "QUALITY_INSTRUMENTS",
    "SCOPE",
    "SERVER_INSTRUMENTS",
    "Instrument",
    "Term",
    "terms",
]

_DESCRIPTIONS: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("descriptions.json").read_text("utf-8")
)
"""The meaning of each instrument, by name; of means, and of the sums behind them, by the last part of their
names."""
PAIR_SUMS: Final = ("r", "cn", "cx", "cxx")
"""Sums of the similarity within conversations; all 0 if no conversation has two requests."""
FREE_SUMS: Final = ("n", "kd", "x", "xx", "wb", "low", *PAIR_SUMS)
"""The sums of a score that every request gets; ``low`` is absent without an objective."""
JUDGED_SUMS: Final = tuple(_DESCRIPTIONS["sums"])
"""The sums of a score that only requests chosen to be judged have; ``low`` as above."""

GENAI: Final = "OpenTelemetry GenAI semantic conventions 1.42.0-dev"
OTEL: Final = "OpenTelemetry semantic conventions 1.42.0"
OPENINFERENCE: Final = "OpenInference semantic conventions 0.1.42"
LANGFUSE: Final = "Langfuse's attributes of OpenTelemetry spans"
OWN: Final = "ragmeter"

SCOPE: Final = "ragmeter"
"""Scope of every span, record and instrument; without a schema, as that of the GenAI names is not published."""


def _genai(name: str) -> Term:
    return Term(name, GENAI, "development")


def _openinference(name: str) -> Term:
    return Term(name, OPENINFERENCE, "stable")


def _own(name: str) -> Term:
    return Term(name, OWN, "own")


# Attributes of the request and its retrievals.
GEN_AI_OPERATION_NAME: Final = _genai("gen_ai.operation.name")
GEN_AI_WORKFLOW_NAME: Final = _genai("gen_ai.workflow.name")
GEN_AI_CONVERSATION_ID: Final = _genai("gen_ai.conversation.id")
GEN_AI_RESPONSE_ID: Final = _genai("gen_ai.response.id")
GEN_AI_DATA_SOURCE_ID: Final = _genai("gen_ai.data_source.id")
GEN_AI_PROVIDER_NAME: Final = _genai("gen_ai.provider.name")
GEN_AI_REQUEST_MODEL: Final = _genai("gen_ai.request.model")
GEN_AI_RETRIEVAL_TOP_K: Final = _genai("gen_ai.retrieval.top_k")
GEN_AI_RETRIEVAL_QUERY_TEXT: Final = _genai("gen_ai.retrieval.query.text")
GEN_AI_RETRIEVAL_DOCUMENTS: Final = _genai("gen_ai.retrieval.documents")
GEN_AI_TOKEN_TYPE: Final = _genai("gen_ai.token.type")
GEN_AI_INPUT_MESSAGES: Final = _genai("gen_ai.input.messages")
GEN_AI_OUTPUT_MESSAGES: Final = _genai("gen_ai.output.messages")
ERROR_TYPE: Final = Term("error.type", OTEL, "stable")
SESSION_ID: Final = Term("session.id", OTEL, "development")
USER_ID: Final = Term("user.id", OTEL, "development")

# Values of gen_ai.operation.name. The conventions have no operation for evaluation (their issue 33 is open),
# so the third is a guess; change it here when they decide.
OPERATION_RETRIEVAL: Final = _genai("retrieval")
OPERATION_INVOKE_WORKFLOW: Final = _genai("invoke_workflow")
OPERATION_EVALUATION: Final = _own("evaluation")

# The event and its attributes.
EVENT_EVALUATION_RESULT: Final = _genai("gen_ai.evaluation.result")
GEN_AI_EVALUATION_NAME: Final = _genai("gen_ai.evaluation.name")
GEN_AI_EVALUATION_SCORE_VALUE: Final = _genai("gen_ai.evaluation.score.value")
GEN_AI_EVALUATION_SCORE_LABEL: Final = _genai("gen_ai.evaluation.score.label")
GEN_AI_EVALUATION_EXPLANATION: Final = _genai("gen_ai.evaluation.explanation")
LABEL_NOT_APPLICABLE: Final = _own("not_applicable")
"""The label of an ``undefined`` score, which has no value; other labels are the metric's own."""
EVALUATOR_TYPE: Final = _own("ragmeter.evaluator.type")
"""``deterministic``, ``embedding``, ``llm_judge`` or ``human``."""
EVALUATOR_VERSION: Final = _own("ragmeter.evaluator.version")
"""Version of the formula and prompt (`Score.definition`)."""
SCORE_METHOD: Final = _own("ragmeter.evaluation.method")
"""``exact``, ``rouge``, ``lexical``, ``embedding``, ``llm`` or ``human``."""
SCORE_TARGET: Final = _own("ragmeter.evaluation.target")
"""``retrieval`` or ``answer``."""
SCORE_MIN: Final = _own("ragmeter.evaluation.score.min")
SCORE_MAX: Final = _own("ragmeter.evaluation.score.max")
SCORE_LOWER: Final = _own("ragmeter.evaluation.score.lower")
"""Lower bound of a ``partial`` score, over all possible values of its unknown verdicts."""
SCORE_UPPER: Final = _own("ragmeter.evaluation.score.upper")
SCORE_DIRECTION: Final = _own("ragmeter.evaluation.direction")
"""The better direction: ``higher``, ``lower`` or ``none``."""
SCORE_SUMMARY: Final = _own("ragmeter.evaluation.summary")
"""The inputs of the score, in one sentence of ids, counts and numbers (`Score.summary`)."""
SCORE_ITEMS: Final = _own("ragmeter.evaluation.items")
"""Its items without their texts, as JSON: ``{"items": [{"id": ..., "verdict": ..., "value": ...}]}``, at most
64 of them and 4,096 bytes; ``evidence`` names the deciding chunks of an item, ``left_out`` is the number of
further items."""
SCORE_STATUS: Final = _own("ragmeter.status")
"""Status of a score, as `Score.status`; on events only when it is not ``ok``."""

# Scores on spans; the score's name follows the prefix.
SPAN_SCORE_PREFIX: Final = _own("ragmeter.score.")
SPAN_LABEL_PREFIX: Final = _own("ragmeter.label.")
SPAN_STATUS_PREFIX: Final = _own("ragmeter.status.")
SPAN_METADATA_PREFIX: Final = _own("ragmeter.metadata.")
SPAN_SEGMENT_PREFIX: Final = _own("ragmeter.segment.")
"""A segment of the request; the segment's configured name (`segments`) follows."""
SPAN_LOWER_IS_BETTER: Final = _own("ragmeter.direction.lower")
"""Names of the span's scores where lower is better; for all others, higher is."""
SPAN_NEITHER_IS_BETTER: Final = _own("ragmeter.direction.none")
"""Names of the span's scores that are no measure of quality, such as counts."""

# The verdict of a request.
VERDICT: Final = _own("ragmeter.verdict")
"""``good``, ``suspect`` or ``bad``; absent without a basis for a verdict. Also the name of its event."""
VERDICT_CODES: Final = _own("ragmeter.verdict.codes")
"""The rules that apply, strongest first, e.g. ``unsupported_answer``; absent if none does."""
VERDICT_CODE: Final = _own("ragmeter.verdict.code")
"""The first of them, on metrics."""

# The cost of judging one score; a request's cost is the sum over its events.
SCORE_JUDGE_CALLS: Final = _own("ragmeter.evaluation.judge.calls")
SCORE_INPUT_TOKENS: Final = _own("ragmeter.evaluation.judge.input_tokens")
SCORE_OUTPUT_TOKENS: Final = _own("ragmeter.evaluation.judge.output_tokens")
SCORE_CACHE_HITS: Final = _own("ragmeter.evaluation.judge.cache_hits")
SCORE_ASKED_WITH: Final = _own("ragmeter.evaluation.asked_with")
SPARED_SCORES: Final = _own("ragmeter.evaluation.spared")
"""Names of the scores that a cascade skipped, as a cheaper step had decided; on all events."""
SCORE_COST: Final = _own("ragmeter.evaluation.judge.cost")
"""Money, in the currency of the judge's prices; absent without prices."""
SCORE_JUDGE_MODEL: Final = _own("ragmeter.evaluation.judge.model")
"""The judge model of a score."""
SCORE_JUDGE_ENDPOINT: Final = _own("ragmeter.evaluation.judge.endpoint")
"""Kind of its endpoint: ``openai``, ``azure``, ``local`` (this machine or a private network), ``compatible``
(any other with the same protocol), or ``custom``, a judge of the application."""

# ragmeter's attributes of the request.
RUN_ID: Final = _own("ragmeter.run_id")
"""Id of the request: on the span that represents it, on its evaluation spans, and on its events."""
FRAMEWORK: Final = _own("ragmeter.framework")
REQUEST_STATUS: Final = _own("ragmeter.request.status")
CONTEXTS_BY: Final = _own("ragmeter.contexts_by")
"""How the contexts that reached the model were identified: ``prompt``, ``runs``, ``given`` or ``ids``
(`RagSample.contexts_by`)."""
CARRIED_DOCUMENTS: Final = _own("ragmeter.carried.documents")
"""Other parts of the prompt that support an answer (`RagSample.carried`), on the request's span as
OpenInference's ``retrieval.documents``."""
STAGE: Final = _own("ragmeter.stage")
"""A stage between store and model, by its name in the framework or the application; the last is ``prompt``."""
STAGE_KIND: Final = _own("ragmeter.stage.kind")
"""Kind of that stage, as `RetrievalStage.kind`; ``prompt`` or ``output`` for the last."""
FATE: Final = _own("ragmeter.fate")
"""Fate of a right document: ``in_prompt``, ``returned``, ``dropped_by``, ``cut_by``, ``ranked_below_k``,
``never_found`` or ``unknown``."""
SAMPLE_RATE: Final = _own("ragmeter.sample_rate")
JUDGE_SAMPLE_RATE: Final = _own("ragmeter.judge_sample_rate")
SELECTION: Final = _own("ragmeter.selection")
"""``sampled``: selected at random; ``worst``: selected or judged for being bad. Scores without it were
measured for every request."""
SERVICE: Final = _own("ragmeter.service.name")
"""``service.name`` of the application, on telemetry that a worker or a server writes for its requests under
another name."""
SEGMENT: Final = _own("ragmeter.segment")
"""Segment of a workflow's requests; absent: all."""
JUDGE: Final = _own("ragmeter.judge")
"""Short hash of a judge's model, prompt and formula: another one measures another quantity."""
CHANGE_KIND: Final = _own("ragmeter.change.kind")
"""``fell``, ``mix`` (users ask other questions), ``judge`` (the judge has drifted) or ``recovered``."""
CHANGE_SINCE: Final = _own("ragmeter.change.since")
CHANGE_BEFORE: Final = _own("ragmeter.change.before")
CHANGE_BEFORE_LOWER: Final = _own("ragmeter.change.before.lower")
CHANGE_BEFORE_UPPER: Final = _own("ragmeter.change.before.upper")
CHANGE_NOW: Final = _own("ragmeter.change.now")
CHANGE_NOW_LOWER: Final = _own("ragmeter.change.now.lower")
CHANGE_NOW_UPPER: Final = _own("ragmeter.change.now.upper")
EVENT_CHANGE: Final = _own("ragmeter.change")
JUDGE_SELECTION: Final = _own("ragmeter.judge_selection")
"""``worst`` on the spans of a request that was sampled, but judged only for being bad."""
ALARMS: Final = _own("ragmeter.alarms")
"""True on the spans and events of a meter that itself notifies of changes of quality (``alarms=True``)."""
MISSING: Final = _own("ragmeter.missing")
"""The inputs that scores of the request lacked, separated by commas, e.g. ``reference``."""
MISSING_SCORES: Final = _own("ragmeter.missing.scores")
"""Names of the scores without a value because of a missing input."""
REVISION: Final = _own("ragmeter.revision")
"""On an ``evaluation`` span: number of the late revision of the request."""
LATE: Final = _own("ragmeter.late")
"""True on an ``evaluation`` span whose scores arrived after the export of the request's own spans."""
REASON: Final = _own("ragmeter.reason")
DIAGNOSIS: Final = _own("ragmeter.diagnosis")
LANGUAGE: Final = _own("ragmeter.language")
SHADOW: Final = _own("ragmeter.shadow")
"""Name of another retriever that is compared on the same questions."""
GAP: Final = _own("ragmeter.gap")
"""Id of a knowledge gap: eight hex digits, without any text."""
CORPUS_LIST: Final = _own("ragmeter.corpus.list")
"""Name of a list of chunks: ``bad``, ``unused``, ``conflicts`` or ``stale``."""
COMPONENT: Final = _own("ragmeter.component")
EXPORTER: Final = _own("ragmeter.exporter")
OUTCOME: Final = _own("ragmeter.outcome")
INSTRUMENT: Final = _own("ragmeter.instrument")
SIGNAL: Final = _own("ragmeter.signal")
PARTITION: Final = Term("messaging.destination.partition.id", OTEL, "development")

# OpenInference, for Phoenix, Arize and Langfuse.
OPENINFERENCE_PROJECT: Final = _openinference("openinference.project.name")
OPENINFERENCE_SPAN_KIND: Final = _openinference("openinference.span.kind")
KIND_CHAIN: Final = _openinference("CHAIN")
KIND_RETRIEVER: Final = _openinference("RETRIEVER")
KIND_EVALUATOR: Final = _openinference("EVALUATOR")
INPUT_VALUE: Final = _openinference("input.value")
INPUT_MIME_TYPE: Final = _openinference("input.mime_type")
OUTPUT_VALUE: Final = _openinference("output.value")
OUTPUT_MIME_TYPE: Final = _openinference("output.mime_type")
MIME_TEXT: Final = _openinference("text/plain")
TAGS: Final = _openinference("tag.tags")
RETRIEVAL_DOCUMENTS: Final = _openinference("retrieval.documents")
DOCUMENT_ID: Final = _openinference("document.id")
DOCUMENT_SCORE: Final = _openinference("document.score")
DOCUMENT_CONTENT: Final = _openinference("document.content")
DOCUMENT_METADATA: Final = _openinference("document.metadata")
EVALUATIONS: Final = _openinference("evaluations")
EVALUATION_NAME: Final = _openinference("evaluation.name")
EVALUATION_SCORE: Final = _openinference("evaluation.score")
EVALUATION_LABEL: Final = _openinference("evaluation.label")
EVALUATION_EXPLANATION: Final = _openinference("evaluation.explanation")
EVALUATION_ANNOTATOR_KIND: Final = _openinference("evaluation.annotator_kind")
EVALUATION_IDENTIFIER: Final = _openinference("evaluation.identifier")
EVALUATION_METADATA: Final = _openinference("evaluation.metadata")
ANNOTATOR_LLM: Final = _openinference("LLM")
ANNOTATOR_CODE: Final = _openinference("CODE")
ANNOTATOR_HUMAN: Final = _openinference("HUMAN")

# Attributes of the trace, for Langfuse's list; only if scores are sent there.
LANGFUSE_TRACE_NAME: Final = Term("langfuse.trace.name", LANGFUSE, "stable")
LANGFUSE_TRACE_INPUT: Final = Term("langfuse.trace.input", LANGFUSE, "stable")
LANGFUSE_TRACE_OUTPUT: Final = Term("langfuse.trace.output", LANGFUSE, "stable")

# Standard environment variables that ragmeter reads.
CAPTURE_CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

SCORE_BUCKETS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Upper bounds, inclusive: the first bucket holds exact zeros, the last the (nearly) perfect."""
COUNT_BUCKETS: Final = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)
"""Upper bounds for numbers of contexts; the first bucket holds the empty retrievals."""
DURATION_BUCKETS: Final = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
"""Seconds, the bounds that the GenAI conventions recommend for client operations."""

DELAY_BUCKETS: Final = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86400.0)
"""Seconds, from moments to a night, for waiting in a queue."""


def _instrument(
    kind: InstrumentKind,
    name: str | Term,
    unit: str,
    *attributes: Term,
    description: str | None = None,
    buckets: tuple[float, ...] = (),
) -> Instrument:
    return Instrument(
        name=name if isinstance(name, Term) else _own(name), kind=kind, unit=unit, attributes=attributes,
        description=description or _DESCRIPTIONS[name], buckets=buckets,
    )  # fmt: skip


_counter = partial(_instrument, "counter")
_histogram = partial(_instrument, "histogram")
_observed_counter = partial(_instrument, "observable_counter")
_observed_amount = partial(_instrument, "observable_updowncounter")
_gauge = partial(_instrument, "observable_gauge")


def _with_ends(stem: str, middle: Instrument) -> tuple[Instrument, Instrument, Instrument]:
    """Return a gauge, and those of its interval's ends."""
    lower, upper = (
        replace(middle, name=_own(f"{stem}.{end.lower()}"), description=f"{end} end of its 95 % interval.")
        for end in ("Lower", "Upper")
    )  # fmt: skip
    return middle, lower, upper


EVALUATION_SCORE_HISTOGRAM: Final = _histogram(
    # No convention defines an evaluation metric; other tools already emit this name.
    Term("gen_ai.evaluation.score", "de facto (Splunk's GenAI utilities)", "own"), "1",
    GEN_AI_EVALUATION_NAME, GEN_AI_OPERATION_NAME, GEN_AI_WORKFLOW_NAME, SCORE_DIRECTION, SELECTION, SERVICE,
    buckets=SCORE_BUCKETS,
)  # fmt: skip
EVALUATION_DELAY: Final = _histogram(
    "ragmeter.evaluation.delay", "s", GEN_AI_WORKFLOW_NAME, SERVICE, buckets=DELAY_BUCKETS
)
CONTEXT_COUNT: Final = _histogram(
    "ragmeter.retrieval.context_count", "{context}", GEN_AI_WORKFLOW_NAME, buckets=COUNT_BUCKETS
)
DOCUMENTS: Final = _counter("ragmeter.documents", "{document}", STAGE, STAGE_KIND, GEN_AI_WORKFLOW_NAME)
RIGHT_DOCUMENTS: Final = _counter(
    "ragmeter.right_documents", "{document}", FATE, STAGE, GEN_AI_WORKFLOW_NAME, SERVICE
)
RESULTS: Final = _counter(
    "ragmeter.results", "{evaluation}", GEN_AI_EVALUATION_NAME, SCORE_STATUS,
    GEN_AI_EVALUATION_SCORE_LABEL, ERROR_TYPE, GEN_AI_WORKFLOW_NAME, SERVICE,
)  # fmt: skip
MISSING_INPUTS: Final = _counter("ragmeter.missing_inputs", "{request}", MISSING, GEN_AI_WORKFLOW_NAME)
REQUESTS: Final = _counter(
    "ragmeter.requests", "{request}", REQUEST_STATUS, VERDICT, GEN_AI_WORKFLOW_NAME, FRAMEWORK, ERROR_TYPE,
    REASON,
)  # fmt: skip
VERDICTS: Final = _counter(
    "ragmeter.verdicts", "{request}", VERDICT, VERDICT_CODE, GEN_AI_WORKFLOW_NAME, SERVICE
)
GAPS: Final = _counter("ragmeter.gaps", "{gap}", DIAGNOSIS, LANGUAGE)
OVERFLOW: Final = _counter("ragmeter.overflow", "{measurement}", INSTRUMENT)
_CALL = (GEN_AI_EVALUATION_NAME, GEN_AI_REQUEST_MODEL)
JUDGE_DURATION: Final = _histogram("ragmeter.judge.duration", "s", *_CALL, ERROR_TYPE, buckets=DURATION_BUCKETS)
JUDGE_TOKENS: Final = _counter("ragmeter.judge.tokens", "{token}", *_CALL, GEN_AI_TOKEN_TYPE)
JUDGE_COST: Final = _counter("ragmeter.judge.cost", "{USD}", *_CALL)
JUDGE_CALLS: Final = _counter("ragmeter.judge.calls", "{call}", *_CALL, ERROR_TYPE)
JUDGE_CACHE_HITS: Final = _counter("ragmeter.judge.cache_hits", "{hit}", *_CALL)
CAPTURED: Final = _observed_counter("ragmeter.captured", "{request}")
DROPPED: Final = _observed_counter("ragmeter.dropped", "{request}", REASON)
JUDGE_SKIPPED: Final = _observed_counter("ragmeter.judge.skipped", "{request}", REASON)
JUDGE_BUDGET_LOCAL: Final = _observed_counter("ragmeter.judge.budget.local", "{call}")
INTERNAL_ERRORS: Final = _observed_counter("ragmeter.internal.errors", "{error}", COMPONENT)
EXPORT_ERRORS: Final = _observed_counter("ragmeter.export.errors", "{error}", EXPORTER)
AMENDMENTS: Final = _observed_counter("ragmeter.amendments", "{amendment}", OUTCOME)
IN_FLIGHT: Final = _observed_amount("ragmeter.in_flight", "{request}")
QUEUE_SIZE: Final = _observed_amount("ragmeter.queue.size", "{request}")
QUEUE_BYTES: Final = _observed_amount("ragmeter.queue.bytes", "By")
EXPORT_BACKLOG: Final = _observed_amount("ragmeter.export.backlog", "{run}", EXPORTER)

INSTRUMENTS: Final = tuple(value for value in globals().copy().values() if isinstance(value, Instrument))
"""Every instrument of a meter, in the order of the documentation: those defined so far."""

SERVE_EXPORTS: Final = _observed_counter("ragmeter.serve.exports", "{request}", OUTCOME)
SERVE_SPANS: Final = _observed_counter("ragmeter.serve.spans", "{span}", OUTCOME)
SERVE_PARTIAL: Final = _observed_counter("ragmeter.serve.partial", "{request}")
SERVE_WAITING: Final = _observed_amount("ragmeter.serve.waiting", "{span}")
SERVE_UNSENT: Final = _observed_counter("ragmeter.serve.unsent", "{item}", SIGNAL)
SERVE_MESSAGES: Final = _observed_counter("ragmeter.serve.messages", "{message}", OUTCOME)
SERVE_LAG: Final = _observed_amount("ragmeter.serve.lag", "{message}", PARTITION)
SERVE_CONNECTED: Final = _observed_amount("ragmeter.serve.connected", "1")
SERVE_CONNECTIONS: Final = _observed_counter("ragmeter.serve.connections", "{connection}", REASON)
SERVE_SPOOL_ENTRIES: Final = _observed_amount("ragmeter.serve.spool.entries", "{request}")
SERVE_SPOOL_AGE: Final = _observed_amount("ragmeter.serve.spool.age", "s")
SERVE_SPOOL_BYTES: Final = _observed_amount("ragmeter.serve.spool.size", "By")
SERVE_OPEN: Final = _observed_amount("ragmeter.serve.open_connections", "{connection}")

SERVER_INSTRUMENTS: Final[tuple[Instrument, ...]] = (
    SERVE_EXPORTS, SERVE_SPANS, SERVE_PARTIAL, SERVE_WAITING, SERVE_UNSENT, SERVE_MESSAGES, SERVE_LAG,
    SERVE_CONNECTED, SERVE_CONNECTIONS, SERVE_OPEN, SERVE_SPOOL_ENTRIES, SERVE_SPOOL_AGE, SERVE_SPOOL_BYTES,
)  # fmt: skip
"""Further instruments of ``ragmeter serve``."""

_QUALITY_ATTRIBUTES = (GEN_AI_EVALUATION_NAME, GEN_AI_WORKFLOW_NAME, SEGMENT, SCORE_DIRECTION, JUDGE)
QUALITY_SUMS: Final[Mapping[str, Instrument]] = {
    name: _observed_counter(f"ragmeter.quality.{name}", "1", *_QUALITY_ATTRIBUTES, description=description)
    for name, description in _DESCRIPTIONS["sums"].items()
}
"""The counter of each sum for the means of quality."""
DESIGN_EFFECT: Final = _gauge("ragmeter.quality.design_effect", "{factor}", *_QUALITY_ATTRIBUTES)
QUALITY_BUDGET: Final = _gauge("ragmeter.quality.budget", "{share}", *_QUALITY_ATTRIBUTES)
QUALITY_INSTRUMENTS: Final = (*QUALITY_SUMS.values(), DESIGN_EFFECT, QUALITY_BUDGET)
"""Every instrument of the means of quality, in addition to `INSTRUMENTS`."""

_SERVER_ATTRIBUTES = (
    SERVICE, GEN_AI_WORKFLOW_NAME, GEN_AI_EVALUATION_NAME, SEGMENT, SCORE_DIRECTION, JUDGE, SCORE_JUDGE_MODEL,
    EVALUATOR_VERSION,
)  # fmt: skip
QUALITY_GAUGES: Final[Mapping[str, Instrument]] = {
    name: _gauge(f"ragmeter.quality.{name}", "{score}", *_SERVER_ATTRIBUTES, description=description)
    for name, description in _DESCRIPTIONS["means"].items()
}
"""The means of quality over all requests in a server's store, by field of `ragmeter.Estimate`."""

GAP_REQUESTS: Final = _gauge("ragmeter.gap.requests", "{request}", GAP, DIAGNOSIS, LANGUAGE, SERVICE)
CORPUS_CHUNKS: Final = _gauge("ragmeter.corpus.chunks", "{chunk}", CORPUS_LIST)
CONVERSATION_INSTRUMENTS: Final = _with_ends(
    "ragmeter.conversation.bad", _gauge("ragmeter.conversation.bad", "{share}")
)
LIST_INSTRUMENTS: Final = (GAP_REQUESTS, CORPUS_CHUNKS, *CONVERSATION_INSTRUMENTS)
"""Every instrument of the counts of lists, by a server's store or a meter."""

_CHANGE_ATTRIBUTES = (GEN_AI_EVALUATION_NAME, GEN_AI_WORKFLOW_NAME, SEGMENT, CHANGE_KIND)
CHANGE_EVIDENCE: Final = _gauge("ragmeter.change.evidence", "{threshold}", *_CHANGE_ATTRIBUTES)
CHANGE_ALARMS: Final = _counter("ragmeter.change.alarms", "{alarm}", *_CHANGE_ATTRIBUTES)
DRIFT_INSTRUMENTS: Final = _with_ends(
    "ragmeter.judge.drift", _gauge("ragmeter.judge.drift", "{score}", GEN_AI_EVALUATION_NAME)
)
SHADOW_INSTRUMENTS: Final = _with_ends(
    "ragmeter.shadow", _gauge("ragmeter.shadow.difference", "{score}", SHADOW, GEN_AI_EVALUATION_NAME)
)
"""Every instrument of the comparison with another retriever, which is off by default."""
CHANGE_INSTRUMENTS: Final = (CHANGE_EVIDENCE, CHANGE_ALARMS, *DRIFT_INSTRUMENTS)
"""Every instrument of the watch over scores, which is off by default."""


def terms() -> Mapping[str, Term]:
    """Return every `Term` of this module by its constant's name, for tables and tests."""
    return {name: value for name, value in globals().items() if isinstance(value, Term)}
