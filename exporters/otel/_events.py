"""Writes an event for each attempted score, for the verdict, and for each change of quality.

It is a log record in the judged span's context, or the same attributes as a span event on ragmeter's spans
for backends that accept only traces. Scores that were never attempted (``missing_input``, ``skipped``) are no
result and have no event: they are counted in ``ragmeter.missing_inputs`` and ``ragmeter.results`` and are on
the span as ``ragmeter.missing`` and ``ragmeter.status.*``. The inputs of the score are exported as a sentence
and as items without any text; the explanation, which quotes contexts, needs the content opt-in, and without
it the sentence takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.util.types import AttributeValue

from ragmeter.exporters import semconv
from ragmeter.exporters._foreign import attribute_of
from ragmeter.exporters._format import ContentPolicy, clean, clean_name, explanation, items_attribute
from ragmeter.exporters.changes import QualityChange
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import Score, ScoreTarget, Verdict, VerdictRules

from ._metrics import Attributes, SeriesBound

ATTEMPTED = frozenset({"ok", "partial", "undefined", "judge_error", "timeout", "metric_error"})
"""Statuses of scores that were attempted."""
FAILURES = frozenset({"judge_error", "timeout", "metric_error"})
"""Statuses of failed ones: severity WARN, with ``error.type``."""
_EVALUATOR_TYPES = {
    "llm": "llm_judge", "embedding": "embedding", "detector": "detector", "human": "human",
}  # fmt: skip


class ResultEvent(NamedTuple):
    """The event of one score, or of the verdict."""

    target: ScoreTarget
    failed: bool
    body: str
    attributes: dict[str, AttributeValue]


def result_events(
    scored: ScoredRun,
    scores: Iterable[Score],
    content: ContentPolicy,
    *,
    verdict: bool = True,
    service: str | None = None,
) -> Iterator[ResultEvent]:
    """Yield an event for the verdict, and one for each score that was attempted.

    Args:
        scored: The request.
        scores: The scores to include.
        content: Whether to include explanations.
        verdict: Whether to include the verdict.
        service: The name of the request's service, if it is to be included.
    """
    of_request = _of_request(scored)
    if service:
        of_request[semconv.SERVICE] = clean(service)
    if verdict and scored.verdict is not None:
        attributes = {**_of_verdict(scored, scored.verdict), **of_request}
        yield ResultEvent("answer", False, f"{semconv.VERDICT}={scored.verdict.word}", attributes)
    for score in scores:
        if score.status in ATTEMPTED:
            sentence = score.status if score.value is None else f"{score.value:.4g}"
            yield ResultEvent(
                score.target,
                score.status in FAILURES,
                f"{clean_name(score.name)}={sentence}",
                {**_of_score(scored, score, content), **of_request},
            )


def _of_score(scored: ScoredRun, score: Score, content: ContentPolicy) -> dict[str, AttributeValue]:
    """Return the attributes of a score's event; an undefined or failed score has no value."""
    attributes: dict[str, AttributeValue] = {
        semconv.GEN_AI_EVALUATION_NAME: clean_name(score.name),
        semconv.EVALUATOR_TYPE: _EVALUATOR_TYPES.get(score.method, "deterministic"),
        semconv.EVALUATOR_VERSION: clean_name(score.definition),
        semconv.SCORE_METHOD: score.method,
        semconv.SCORE_TARGET: score.target,
        semconv.SCORE_DIRECTION: score.direction,
    }
    if score.range[0] is not None:
        attributes[semconv.SCORE_MIN] = float(score.range[0])
    if score.range[1] is not None:
        attributes[semconv.SCORE_MAX] = float(score.range[1])
    if score.value is not None:
        attributes[semconv.GEN_AI_EVALUATION_SCORE_VALUE] = float(score.value)
    if score.label is not None:
        attributes[semconv.GEN_AI_EVALUATION_SCORE_LABEL] = clean_name(score.label)
    elif score.status == "undefined":
        attributes[semconv.GEN_AI_EVALUATION_SCORE_LABEL] = str(semconv.LABEL_NOT_APPLICABLE)
    if score.lower is not None:
        attributes[semconv.SCORE_LOWER] = score.lower
    if score.upper is not None:
        attributes[semconv.SCORE_UPPER] = score.upper
    if score.status != "ok":
        attributes[semconv.SCORE_STATUS] = score.status
    if score.status in FAILURES:
        attributes[semconv.ERROR_TYPE] = clean(score.error_type or score.status)
    if score.summary:
        attributes[semconv.SCORE_SUMMARY] = clean(score.summary)
    sentence = explanation(score, texts=content.on_events)
    if sentence is not None:
        attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = sentence
    items = items_attribute(score.items)
    if items is not None:
        attributes[semconv.SCORE_ITEMS] = items
    if scored.judge_sample_rate < 1.0:
        attributes[semconv.JUDGE_SAMPLE_RATE] = scored.judge_sample_rate
    if score.asked_with is not None:
        attributes[semconv.SCORE_ASKED_WITH] = score.asked_with
    selection = scored.selection_of(score)
    if selection is not None:
        attributes[semconv.SELECTION] = selection
    usage = {
        semconv.SCORE_JUDGE_CALLS: score.judge_calls,
        semconv.SCORE_INPUT_TOKENS: score.input_tokens,
        semconv.SCORE_OUTPUT_TOKENS: score.output_tokens,
        semconv.SCORE_CACHE_HITS: score.cache_hits,
    }
    attributes.update({key: count for key, count in usage.items() if count})
    judge = scored.judge
    if judge is not None and score.method == "llm":
        attributes[semconv.SCORE_JUDGE_MODEL] = clean(judge.model)
        attributes[semconv.SCORE_JUDGE_ENDPOINT] = judge.endpoint
        cost = judge.cost_of(score) if any(usage.values()) else None
        if cost is not None:
            attributes[semconv.SCORE_COST] = cost
    return attributes


def _of_verdict(scored: ScoredRun, verdict: Verdict) -> dict[str, AttributeValue]:
    """Return the attributes of a verdict's event: its word as label, codes, and reasons without texts."""
    attributes: dict[str, AttributeValue] = {
        semconv.GEN_AI_EVALUATION_NAME: str(semconv.VERDICT),
        semconv.GEN_AI_EVALUATION_SCORE_LABEL: verdict.word,
        semconv.VERDICT: verdict.word,
        semconv.EVALUATOR_TYPE: "deterministic",
        semconv.EVALUATOR_VERSION: VerdictRules.definition,
    }
    if verdict.codes:
        attributes[semconv.VERDICT_CODES] = verdict.codes
    if why := verdict.explanation:
        attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = clean(why)
    if scored.selection != "sampled":
        attributes[semconv.SELECTION] = scored.selection
    return attributes


def _of_request(scored: ScoredRun) -> dict[str, AttributeValue]:
    run = scored.run
    attributes: dict[str, AttributeValue] = {semconv.RUN_ID: clean(run.run_id)}
    if run.name:
        attributes[semconv.GEN_AI_WORKFLOW_NAME] = clean(run.name)
    if run.conversation_id:
        attributes[semconv.GEN_AI_CONVERSATION_ID] = clean(run.conversation_id)
    if run.response_id:
        attributes[semconv.GEN_AI_RESPONSE_ID] = clean(run.response_id)
    if scored.sample_rate < 1.0:
        attributes[semconv.SAMPLE_RATE] = scored.sample_rate
    if scored.alarms:
        attributes[semconv.ALARMS] = True
    spared = [clean_name(one.name) for one in scored.scores.values() if one.asked_with == 0.0]
    if spared:
        attributes[semconv.SPARED_SCORES] = spared
    return attributes


class EventWriter:
    """Turns scores into log records.

    Args:
        content: Whether to include texts.
        logger: Returns the current logger.
        captured_elsewhere: Whether events have the name of the request's service.
    """

    def __init__(
        self, content: ContentPolicy, *, logger: Callable[[], Logger], captured_elsewhere: bool = False
    ) -> None:
        self._captured_elsewhere = captured_elsewhere
        self._content = content
        self._logger = logger

    def is_enabled(self) -> bool:
        """Return whether the current logger takes records."""
        enabled = attribute_of(self._logger(), "enabled")  # not in the oldest supported API
        return not callable(enabled) or enabled() is not False

    def write(self, scored: ScoredRun, contexts: Mapping[ScoreTarget, Context]) -> None:
        """Emit a record per attempted score, in the context of its target's span, and the verdict's."""
        logger = self._logger()
        # Not the request's end: backends that require ordered records, or a time window, would refuse a score
        # that a slow judge gave minutes later.
        now = time.time_ns()
        service = scored.run.resource.get("service.name") if self._captured_elsewhere else None
        scores = scored.scores.values()
        for event in result_events(scored, scores, self._content, service=service):
            logger.emit(
                LogRecord(
                    timestamp=now,
                    observed_timestamp=now,
                    context=contexts[event.target],
                    severity_number=SeverityNumber.WARN if event.failed else SeverityNumber.INFO,
                    severity_text="WARN" if event.failed else "INFO",
                    body=event.body,
                    attributes=event.attributes,
                    event_name=str(semconv.EVENT_EVALUATION_RESULT),
                )
            )


_GOOD_NEWS = "recovered"
_NS = 1_000_000_000


class ChangeWriter:
    """Writes an event and counts an alarm for every change.

    Args:
        logger: Returns the current logger; None: no events.
        meter: Makes the counter; None: no metrics.
        bound: Limits the number of series to the SDK's limit.
    """

    def __init__(
        self, logger: Callable[[], Logger] | None, meter: Callable[[], Meter] | None, bound: SeriesBound
    ) -> None:
        self._logger = logger
        self._bound = bound
        alarms = semconv.CHANGE_ALARMS
        self._alarms = (
            None if meter is None else meter().create_counter(str(alarms.name), alarms.unit, alarms.description)
        )

    def write(self, change: QualityChange, sentence: str) -> None:
        """Write a change; `sentence` is the same in one sentence."""
        if self._alarms is not None and change.kind != _GOOD_NEWS:
            named = attributes_of_change(change.score, change.workflow, change.segment, change.kind)
            self._alarms.add(1, self._bound.fit(semconv.CHANGE_ALARMS.name, named))
        if self._logger is None:
            return
        is_good = change.kind == _GOOD_NEWS
        at = int(change.at * _NS)
        self._logger().emit(
            LogRecord(
                timestamp=at,
                observed_timestamp=at,
                severity_number=SeverityNumber.INFO if is_good else SeverityNumber.WARN,
                severity_text="INFO" if is_good else "WARN",
                body=clean(sentence),
                attributes=change_attributes(change),
                event_name=str(semconv.EVENT_CHANGE),
            )
        )


def change_attributes(change: QualityChange) -> dict[str, AttributeValue]:
    """Return the attributes of a change's event."""
    attributes: dict[str, AttributeValue | None] = {
        **attributes_of_change(change.score, change.workflow, change.segment, change.kind),
        semconv.CHANGE_SINCE: datetime.fromtimestamp(change.since, timezone.utc).isoformat(timespec="seconds"),
        semconv.CHANGE_EVIDENCE.name: float(change.evidence),
        semconv.CHANGE_BEFORE_LOWER: change.before.lower,
        semconv.CHANGE_BEFORE_UPPER: change.before.upper,
        semconv.CHANGE_NOW_LOWER: change.now.lower,
        semconv.CHANGE_NOW_UPPER: change.now.upper,
        semconv.CHANGE_BEFORE: change.before.mean,
        semconv.CHANGE_NOW: change.now.mean,
    }
    return {key: value for key, value in attributes.items() if value is not None}


def attributes_of_change(score: str, workflow: str, segment: str, kind: str) -> Attributes:
    """Return the attributes common to all telemetry of a change."""
    named = {
        semconv.GEN_AI_EVALUATION_NAME: score,
        semconv.GEN_AI_WORKFLOW_NAME: workflow,
        semconv.SEGMENT: segment,
        semconv.CHANGE_KIND: kind,
    }
    return {str(key): clean(value, 256) for key, value in named.items() if value}
