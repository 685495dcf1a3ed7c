"""Parse the spans and events of ragmeter in other processes: scored requests, and counts of dropped ones.

Every other scope is ignored here: spans of other scopes are assembled into requests and scored, and reach the
store from there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmeter.adapters.opentelemetry.otlp import ExportedRecords, ExportRequest, attributes_of, has_ids
from ragmeter.exporters import semconv
from ragmeter.exporters._format import UNKNOWN_ID
from ragmeter.metrics.text.languages import language_of
from ragmeter.quality.segments import MAX_NAMES, UNKNOWN
from ragmeter.watch.version_comparison import is_version_key

from ._names import MAX_SEGMENT_CHARS, OWN_SEGMENTS
from ._parts import Chunk, Details, Kind, RequestPart, ScorePart, Value, VerdictPart

T = TypeVar("T")

CARRIED = b"carried\0"
"""In place of a retrieval's span id: marks chunks that were only in the prompt."""
MAX_NAME = 256
"""Most characters of indexed names: no index of PostgreSQL takes more than 2,704 bytes."""
MAX_SCORES = 500
"""Most scores to read of one span."""
_LATEST_NS = 2**63 - 1
_ALWAYS_KEPT = ("service.version", "index_version", "prompt_version", "model")
"""Metadata about the running version, as is all that begins with `_DEPLOYMENT`: kept even if it is no
segment."""
_DEPLOYMENT = "deployment."
_LEAST_RATE = 1e-6
"""Lowest accepted probability: a request with a greater weight would alone determine a mean."""
_DOCUMENT = re.compile(
    rf"(?:{semconv.RETRIEVAL_DOCUMENTS}|{semconv.CARRIED_DOCUMENTS})\.(\d{{1,4}})\.(document\..+)"
)
_WITH_DOCUMENTS = (semconv.OPERATION_RETRIEVAL, semconv.OPERATION_INVOKE_WORKFLOW)
_CUMULATIVE = 2
_GREATEST = 1e100
"""Largest accepted number: no measurement exceeds it, and sums of such numbers may overflow."""
_MOST_MONEY = 1e12
_DIRECTIONS = ("higher", "lower", "none")
_VERDICTS = ("good", "suspect", "bad")
_OF_KIND = (
    semconv.SCORE_METHOD, semconv.SCORE_TARGET, semconv.EVALUATOR_VERSION, semconv.SCORE_DIRECTION,
    semconv.SCORE_MIN, semconv.SCORE_MAX, semconv.SELECTION, semconv.SCORE_JUDGE_MODEL,
    semconv.SCORE_JUDGE_ENDPOINT,
)  # fmt: skip
"""The attributes that determine a score's kind."""
_Kinds: TypeAlias = dict[tuple[Any, ...], Kind]


def home_of(run_id: str) -> tuple[bytes, bytes]:
    """Return the key of chunks that arrived with their request, without a retrieval span."""
    digest = blake2b(run_id.encode("utf-8", "replace"), digest_size=16).digest()
    return digest, digest[:8]


class StoredRetrieval(NamedTuple):
    """The chunks of one retrieval, under the span of its request."""

    trace_id: bytes
    owner: bytes
    """Span id of the request."""
    span_id: bytes
    """Span id of the retrieval."""
    at_ms: int
    chunks: tuple[Chunk, ...] = ()
    retriever: str | None = None
    """Name of the searched source, if the span does not name its request."""
    scores: Mapping[str, Value] = {}
    """Scores of the retrieval, likewise."""


class DroppedCount(NamedTuple):
    """Number of requests that one meter had dropped at some time, for one reason."""

    series: bytes
    """Identifies the meter, by a hash of everything that distinguishes it."""
    service: str
    reason: str
    began_ms: int
    at_ms: int
    value: float


class Batch(NamedTuple):
    """The parsed content of export requests."""

    requests: tuple[RequestPart, ...] = ()
    retrieved: tuple[StoredRetrieval, ...] = ()
    dropped: tuple[DroppedCount, ...] = ()

    def without_texts(self) -> Batch:
        """Return it without texts of requests.

        The application's metadata remains: it exists to distinguish requests, and was chosen for that.
        """
        return self._replace(
            requests=tuple(part.without_texts() for part in self.requests),
            retrieved=tuple(
                found._replace(chunks=tuple(chunk._replace(text=None) for chunk in found.chunks))
                for found in self.retrieved
            ),
        )


def join_batches(batches: Iterable[Batch]) -> Batch:
    """Return the content of several batches as one."""
    return Batch(*(tuple(chain.from_iterable(same)) for same in zip(*batches, strict=True)))


def from_export_request(request: ExportRequest, received: ExportedRecords) -> Batch:
    """Parse the spans and events of scope ``ragmeter`` in an export request.

    `received` is the result of `received_in` for it, so that attributes are not parsed twice.
    """
    parts: list[RequestPart] = []
    retrieved: list[StoredRetrieval] = []
    kinds: _Kinds = {}
    if isinstance(request, ExportTraceServiceRequest):
        spans = iter(received.spans)
        for group in request.resource_spans:
            for scoped in group.scope_spans:
                known_spans = _with_known(scoped.spans, spans)
                if scoped.scope.name == semconv.SCOPE:
                    ran = _origin(group.resource)
                    for span, known in known_spans:
                        if known is not None:  # a span without ids is unusable
                            parts += _of_span(span, known.attributes, ran, kinds)
                            retrieved += _retrievals_of(span, known.attributes)
    else:
        notes = iter(received.logs)
        for records in request.resource_logs:
            for written in records.scope_logs:
                known_records = _with_known(written.log_records, notes)
                if written.scope.name == semconv.SCOPE:
                    ran = _origin(records.resource)
                    for record, note in known_records:
                        of_record = note.attributes if note else attributes_of(record.attributes)
                        parts += _of_record(record, of_record, ran, kinds)
    return Batch(tuple(parts), tuple(retrieved))


def _with_known(carriers: Iterable[Any], known: Iterator[T]) -> list[tuple[Any, T | None]]:
    """Return each span or record with its result of `received_in`, or None if it lacks ids."""
    return [(carrier, next(known) if has_ids(carrier) else None) for carrier in carriers]


def points_of(
    request: ExportMetricsServiceRequest, names: Container[str]
) -> Iterator[tuple[Any, str, Any, float]]:
    """Yield ragmeter's points of these metrics, cumulative sums and gauges: resource, name, point and value."""
    for group in request.resource_metrics:
        for scoped in group.scope_metrics:
            for metric in scoped.metrics:
                if scoped.scope.name != semconv.SCOPE or metric.name not in names:
                    continue
                is_whole = metric.sum.aggregation_temporality == _CUMULATIVE
                sums = metric.sum.data_points if is_whole else ()
                for point in (*sums, *metric.gauge.data_points):
                    value = float(point.as_int if point.HasField("as_int") else point.as_double)
                    if math.isfinite(value) and _time(point.time_unix_nano) is not None:
                        yield group.resource, metric.name, point, value


def dropped_in(request: ExportMetricsServiceRequest) -> Iterator[DroppedCount]:
    """Yield the numbers of requests that meters have dropped since they began."""
    for resource, _, point, value in points_of(request, (semconv.DROPPED.name,)):
        reason = attributes_of(point.attributes).get(semconv.REASON)
        if not isinstance(reason, str):
            continue
        process = attributes_of(resource.attributes)
        began = _time(point.start_time_unix_nano) or 0
        series = json.dumps([process, reason, began], sort_keys=True, default=str)
        yield DroppedCount(
            blake2b(series.encode(), digest_size=16).digest(),
            _origin(resource).service or "",
            reason[:64],
            began // 1_000_000,
            point.time_unix_nano // 1_000_000,
            value,
        )


class _Origin(NamedTuple):
    """The process that reported something."""

    service: str | None
    environment: str | None
    version: Mapping[str, str]
    """Versions of the process, as `version_of` returns them."""


def _origin(resource: Any) -> _Origin:
    attributes = {
        item.key: str(item.value.string_value)[:255] for item in resource.attributes if item.value.string_value
    }
    return _Origin(
        attributes.get("service.name"),
        # The second is the older name of the attribute.
        attributes.get("deployment.environment.name") or attributes.get("deployment.environment"),
        version_of(attributes),
    )


def version_of(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions a request ran with, as metadata: a new value is a deployment."""
    return {
        name: value
        for name, value in attributes.items()
        if (name in _ALWAYS_KEPT or name.startswith(_DEPLOYMENT))
        and is_version_key(name)
        and len(name) <= MAX_SEGMENT_CHARS
        and isinstance(value, str)
        and 0 < len(value) <= MAX_SEGMENT_CHARS
    }


def _time(nanoseconds: int) -> int | None:
    return nanoseconds if 0 < nanoseconds <= _LATEST_NS else None


def _id(value: bytes, length: int) -> bytes | None:
    return value if len(value) == length and any(value) else None


def _text(value: Any, limit: int = 1024) -> str | None:
    return value[:limit] if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    if type(value) is not float:  # most values that are no float are absent
        if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        if abs(value) > _GREATEST:  # some integers are too large for a float
            return None
        value = float(value)
    return value if abs(value) <= _GREATEST else None


def _rate(value: Any) -> float | None:
    """Return a probability, or None below `_LEAST_RATE`: nothing is selected with probability 0."""
    number = _number(value)
    return number if number is not None and _LEAST_RATE <= number <= 1.0 else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0


def _of_span(span: Any, attributes: Mapping[str, Any], ran: _Origin, kinds: _Kinds) -> Iterator[RequestPart]:
    run_id = _text(attributes.get(semconv.RUN_ID), MAX_NAME)
    trace_id, span_id = _id(span.trace_id, 16), _id(span.span_id, 8)
    if run_id is None or trace_id is None or span_id is None:
        return
    parent = _id(span.parent_span_id, 8)
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    began, ended = _time(span.start_time_unix_nano), _time(span.end_time_unix_nano)
    is_own = operation == semconv.OPERATION_INVOKE_WORKFLOW or (
        operation == semconv.OPERATION_RETRIEVAL and semconv.REQUEST_STATUS in attributes
    )
    at = ended or began or 0
    place = (2, span_id) if is_own else None
    if operation == semconv.OPERATION_EVALUATION and parent and semconv.VERDICT in attributes:
        # If several retrieval spans have scores, the verdict is on the one beside the request's own span.
        place = (1, parent)
    segments = _segments(attributes)
    yield RequestPart(
        run_id=run_id,
        received=True,
        alarms=_alarms(attributes),
        environment=ran.environment,
        segments=segments,
        trace_id=trace_id,
        place=place,
        started_ns=began if is_own else None,
        ended_ns=ended if is_own else None,
        noted_ns=began,
        service=ran.service,
        workflow=_text(attributes.get(semconv.GEN_AI_WORKFLOW_NAME), MAX_NAME),
        framework=_text(attributes.get(semconv.FRAMEWORK)),
        status=_text(attributes.get(semconv.REQUEST_STATUS)),
        question=_text(attributes.get(semconv.INPUT_VALUE), 2**20) if is_own else None,
        answer=_text(attributes.get(semconv.OUTPUT_VALUE), 2**20) if is_own else None,
        language=segments.pop("language", None) or (_language(attributes) if is_own else None),
        retriever=segments.pop("retriever", None) or _text(attributes.get(semconv.GEN_AI_DATA_SOURCE_ID)),
        conversation_id=_text(attributes.get(semconv.GEN_AI_CONVERSATION_ID)),
        user_id=_text(attributes.get(semconv.USER_ID)),
        sample_rate=_rate(attributes.get(semconv.SAMPLE_RATE)),
        judge_sample_rate=_rate(attributes.get(semconv.JUDGE_SAMPLE_RATE)),
        selection=_text(attributes.get(semconv.SELECTION)),
        judge_selection=_text(attributes.get(semconv.JUDGE_SELECTION)),
        missing=_text(attributes.get(semconv.MISSING)),
        metadata={**_metadata(attributes), **ran.version},
        verdict=_verdict(attributes, at),
        scores=_scores(attributes, at),
    )
    for event in span.events:
        if event.name == semconv.EVENT_EVALUATION_RESULT:
            said = attributes_of(event.attributes)
            yield from _of_event(
                {semconv.RUN_ID: run_id, **said}, _time(event.time_unix_nano) or at, ran, span, kinds
            )


def _of_record(
    record: Any, attributes: Mapping[str, Any], ran: _Origin, kinds: _Kinds
) -> Iterator[RequestPart]:
    name = record.event_name or attributes.get("event.name")
    at = _time(record.time_unix_nano) or _time(record.observed_time_unix_nano)
    if name == semconv.EVENT_EVALUATION_RESULT and at is not None:
        yield from _of_event(attributes, at, ran, record, kinds)


def _of_event(
    attributes: Mapping[str, Any], at: int, ran: _Origin, carrier: Any, kinds: _Kinds
) -> Iterator[RequestPart]:
    run_id = _text(attributes.get(semconv.RUN_ID), MAX_NAME)
    name = _text(attributes.get(semconv.GEN_AI_EVALUATION_NAME), MAX_NAME)
    if run_id is None or name is None:
        return
    span_id = _id(carrier.span_id, 8)
    is_verdict = name == semconv.VERDICT
    score = None if is_verdict else _score(name, attributes, at, kinds)
    about_answer = is_verdict or attributes.get(semconv.SCORE_TARGET) == "answer"
    judged = score is not None and score.details is not None and score.details.kind.judged
    yield RequestPart(
        run_id=run_id,
        received=True,
        alarms=_alarms(attributes),
        environment=ran.environment,
        trace_id=_id(carrier.trace_id, 16),
        place=(1, span_id) if about_answer and span_id else None,
        noted_ns=at,
        service=ran.service,
        workflow=_text(attributes.get(semconv.GEN_AI_WORKFLOW_NAME), MAX_NAME),
        conversation_id=_text(attributes.get(semconv.GEN_AI_CONVERSATION_ID)),
        sample_rate=_rate(attributes.get(semconv.SAMPLE_RATE)),
        judge_sample_rate=_rate(attributes.get(semconv.JUDGE_SAMPLE_RATE)),
        selection=_text(attributes.get(semconv.SELECTION)) if is_verdict else None,
        # Not a cascade's reason for one of its scores.
        judge_selection=_text(attributes.get(semconv.SELECTION))
        if judged and semconv.SCORE_ASKED_WITH not in attributes
        else None,
        verdict=_verdict(attributes, at) if is_verdict else None,
        scores=_spared(attributes, at) if score is None else {**_spared(attributes, at), name: score},
    )


def _spared(attributes: Mapping[str, Any], at: int) -> dict[str, ScorePart]:
    """Return the scores that a cascade did not ask for; these requests count in their means, too."""
    names = attributes.get(semconv.SPARED_SCORES)
    found = names[:MAX_SCORES] if isinstance(names, list) else ()
    return {
        name: ScorePart(reported=Value(at, None, "skipped", None))
        for name in found
        if isinstance(name, str) and 0 < len(name) <= MAX_NAME
    }


def _verdict(attributes: Mapping[str, Any], at: int) -> VerdictPart | None:
    word, codes = attributes.get(semconv.VERDICT), attributes.get(semconv.VERDICT_CODES)
    if not isinstance(word, str) or word not in _VERDICTS:
        return None
    reasons = _text(attributes.get(semconv.GEN_AI_EVALUATION_EXPLANATION), 4096)
    return VerdictPart(
        at,
        word,
        tuple(map(str, codes)) if isinstance(codes, list) else (),
        () if reasons is None else tuple(reasons.split("; ")),
    )


def _kind(name: str, attributes: Mapping[str, Any], kinds: _Kinds) -> Kind:
    """Return the kind of a score, cached for all requests of an export that report the same attributes."""
    said = (name, *map(attributes.get, _OF_KIND))
    key = (said, *map(type, said))  # as True == 1, which must differ here
    try:
        known = kinds.get(key)
        if known is None:
            known = kinds[key] = _kind_of(name, attributes)
    except TypeError:  # an attribute is a list
        return _kind_of(name, attributes)
    return known


def _kind_of(name: str, attributes: Mapping[str, Any]) -> Kind:
    method = _text(attributes.get(semconv.SCORE_METHOD)) or ""
    direction = _text(attributes.get(semconv.SCORE_DIRECTION)) or "higher"
    lowest, highest = (_number(attributes.get(semconv.SCORE_MIN)), _number(attributes.get(semconv.SCORE_MAX)))
    if lowest is not None and highest is not None and lowest >= highest:
        lowest = highest = None  # an empty range
    return Kind(
        name=name,
        method=method,
        target=_text(attributes.get(semconv.SCORE_TARGET)) or "",
        definition=_text(attributes.get(semconv.EVALUATOR_VERSION)) or "",
        # A later version may report another word: the better direction is unknown then.
        direction=direction if direction in _DIRECTIONS else "none",
        lowest=lowest,
        highest=highest,
        judged=_is_judged(method, attributes.get(semconv.SELECTION)),
        judge=_text(attributes.get(semconv.SCORE_JUDGE_MODEL), 255) or "",
        endpoint=_text(attributes.get(semconv.SCORE_JUDGE_ENDPOINT), 64) or "",
    )


def _score(name: str, attributes: Mapping[str, Any], at: int, kinds: _Kinds) -> ScorePart:
    value = _number(attributes.get(semconv.GEN_AI_EVALUATION_SCORE_VALUE))
    label = _text(attributes.get(semconv.GEN_AI_EVALUATION_SCORE_LABEL))
    status = _text(attributes.get(semconv.SCORE_STATUS)) or "ok"
    if status == "undefined" and label == semconv.LABEL_NOT_APPLICABLE:
        label = None
    return ScorePart(
        reported=Value(at, value, status, label),
        details=Details(
            at,
            _kind(name, attributes, kinds),
            lower=_number(attributes.get(semconv.SCORE_LOWER)),
            upper=_number(attributes.get(semconv.SCORE_UPPER)),
            error_type=_text(attributes.get(semconv.ERROR_TYPE)),
            summary=_text(attributes.get(semconv.SCORE_SUMMARY), 4096),
            explanation=_text(attributes.get(semconv.GEN_AI_EVALUATION_EXPLANATION), 2**16),
            items=_text(attributes.get(semconv.SCORE_ITEMS), 2**16),
            judge_calls=_count(attributes.get(semconv.SCORE_JUDGE_CALLS)),
            input_tokens=_count(attributes.get(semconv.SCORE_INPUT_TOKENS)),
            output_tokens=_count(attributes.get(semconv.SCORE_OUTPUT_TOKENS)),
            cache_hits=_count(attributes.get(semconv.SCORE_CACHE_HITS)),
            cost=_money(attributes.get(semconv.SCORE_COST)),
            asked_with=_rate(attributes.get(semconv.SCORE_ASKED_WITH)),
        ),
    )


def _is_judged(method: str, selection: Any) -> bool:
    # Scores of all requests have no selection, except late scores of a request that was kept for being bad.
    return (
        method == "llm"
        or selection == "sampled"
        or (method in ("embedding", "detector") and selection is not None)
    )


def _scores(attributes: Mapping[str, Any], at: int) -> dict[str, ScorePart]:
    """Return the scores in a span's attributes, which have little more than their values."""
    values: dict[str, float] = {}
    words: dict[str, str] = {}
    statuses: dict[str, str] = {}
    for key, value in attributes.items():
        if key.startswith(semconv.SPAN_SCORE_PREFIX):
            number = _number(value)
            if number is not None:
                values[key.removeprefix(semconv.SPAN_SCORE_PREFIX)] = number
        elif key.startswith(semconv.SPAN_LABEL_PREFIX) and isinstance(value, str):
            words[key.removeprefix(semconv.SPAN_LABEL_PREFIX)] = value
        elif key.startswith(semconv.SPAN_STATUS_PREFIX) and isinstance(value, str):
            statuses[key.removeprefix(semconv.SPAN_STATUS_PREFIX)] = value
    lacking = attributes.get(semconv.MISSING_SCORES)
    for name in lacking if isinstance(lacking, list) else ():
        if isinstance(name, str):
            statuses.setdefault(name, "missing_input")
    names = [name for name in {**values, **words, **statuses} if 0 < len(name) <= MAX_NAME]
    names = names[:MAX_SCORES]
    return {
        name: ScorePart(reported=Value(at, values.get(name), statuses.get(name, "ok"), words.get(name)))
        for name in names
    }


def _money(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 0.0 <= number <= _MOST_MONEY else None


def _alarms(attributes: Mapping[str, Any]) -> bool | None:
    return True if attributes.get(semconv.ALARMS) is True else None


def _segments(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the application's segments, under its own names."""
    found = {
        key.removeprefix(semconv.SPAN_SEGMENT_PREFIX): value
        for key, value in attributes.items()
        if key.startswith(semconv.SPAN_SEGMENT_PREFIX)
        and isinstance(value, str)
        and 0 < len(value) <= MAX_SEGMENT_CHARS
    }
    return {
        name: found[name]
        for name in sorted(found)[:MAX_NAMES]
        if name and not (name in OWN_SEGMENTS and found[name] == UNKNOWN)
    }


def _language(attributes: Mapping[str, Any]) -> str | None:
    """Return the language of a request, as reported by the application, or else detected in its text."""
    said = _text(attributes.get(semconv.SPAN_METADATA_PREFIX + "language"), 64)
    text = attributes.get(semconv.INPUT_VALUE) or attributes.get(semconv.OUTPUT_VALUE)
    return said or (language_of(text) if isinstance(text, str) and text else None)


def _metadata(attributes: Mapping[str, Any]) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for key, value in attributes.items():
        if key.startswith(semconv.SPAN_METADATA_PREFIX):
            name = key.removeprefix(semconv.SPAN_METADATA_PREFIX)
            scalar = _text(value) if isinstance(value, str) else _number(value)
            if name and scalar is not None:
                found[name] = scalar
    return found


def _retrievals_of(span: Any, attributes: Mapping[str, Any]) -> Iterator[StoredRetrieval]:
    """Yield the retrieved chunks of one of ragmeter's spans, and those that were only in the prompt."""
    trace_id, span_id = _id(span.trace_id, 16), _id(span.span_id, 8)
    operation = attributes.get(semconv.GEN_AI_OPERATION_NAME)
    if trace_id is None or span_id is None or operation not in _WITH_DOCUMENTS:
        return
    documents: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if found := _DOCUMENT.fullmatch(key):
            documents.setdefault(int(found[1]), {})[found[2]] = value
    chunks = tuple(
        Chunk(
            None if (name := _text(one.get(semconv.DOCUMENT_ID))) == UNKNOWN_ID else name,
            _number(one.get(semconv.DOCUMENT_SCORE)),
            _text(one.get(semconv.DOCUMENT_CONTENT), 2**20),
        )
        for _, one in sorted(documents.items())
    )
    if operation == semconv.OPERATION_INVOKE_WORKFLOW:
        if chunks:  # sorts after the retrieved chunks
            at_ms = (_time(span.end_time_unix_nano) or 0) // 1_000_000
            yield StoredRetrieval(trace_id, span_id, CARRIED, at_ms, chunks)
        return
    # A retrieval span with a request status is itself the whole request.
    owner = span_id if semconv.REQUEST_STATUS in attributes else _id(span.parent_span_id, 8)
    is_whole = semconv.RUN_ID in attributes
    at = _time(span.end_time_unix_nano) or _time(span.start_time_unix_nano) or 0
    scores = {} if is_whole else _scores(attributes, at)
    retriever = None if is_whole else _text(attributes.get(semconv.GEN_AI_DATA_SOURCE_ID))
    if owner is not None and (documents or scores or retriever):
        yield StoredRetrieval(
            trace_id,
            owner,
            span_id,
            (_time(span.start_time_unix_nano) or 0) // 1_000_000,
            chunks,
            retriever,
            {name: score.reported for name, score in scores.items() if score.reported is not None},
        )
