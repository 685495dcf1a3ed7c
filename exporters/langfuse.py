"""`LangfuseScores`: scores in Langfuse, on the observations they judge.

Langfuse has no endpoint for OpenTelemetry events and shows scores only from its own
API.  A score finds its trace and observation by their OpenTelemetry ids and need not
wait for them to arrive.  Scores go through the batch call, which Langfuse's rate limits
count once.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Any

from ragmeter.metrics import ConfigurationError

from ._foreign import attribute_of
from ._http import DeliveryCount, DeliveryError, in_requests
from ._span_targets import AnnotatingExporter, KnowsSpans, SpansAddress, TargetedAnnotation
from .protocol import ScoredRun

__all__ = ["LangfuseScores"]

PER_REQUEST = 500
"""Most scores in one request."""
BYTES_PER_REQUEST = 1_000_000
"""Most bytes in one request; Langfuse refuses 3.5 MB."""


class LangfuseScores(AnnotatingExporter):
    """Writes verdicts and scores through Langfuse's public API. Needs the extra ``sinks`` (httpx).

    The verdict (``ragmeter.verdict``, a category whose comment has the reasons) goes to the trace, a score
    to the observation it judges.

    Sending the same score twice leaves one: its id is a function of span, name and definition.
    Scores without a value or label, and scores of spans that were not sampled, are not sent.
    Up to 500 scores go in one call. Pauses of Langfuse's rate limit are respected; meanwhile, results wait in
    this exporter's bounded queue.

    Args:
        host: Langfuse's address, e.g. ``https://cloud.langfuse.com``.
        public_key: The project's public key.
        secret_key: The project's secret key.
        spans: The `OpenTelemetryExporter` that writes the spans; None: only spans that other
            instrumentations recorded get scores.
        scores: Names of the scores to send, ``ragmeter.verdict`` among them. None: the verdict and all scores
            except those that judge nothing (counts, and scores without a better direction) and normal health
            measurements of the retrieval (``empty_retrieval``, ...).
        environment: Langfuse's environment of the scores; None: its default.
        include_explanations: Whether to send explanations, which quote contexts, as comments. Otherwise the
            comment has ids, counts and numbers.
        timeout_s: Seconds for one attempt.
        deadline_s: Seconds for all attempts of one call, pauses for its rate limit not counted.

    Raises:
        ConfigurationError: `host` is not an address, a key is empty, or `scores` is a string.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(
        self,
        host: str,
        public_key: str,
        secret_key: str,
        *,
        spans: KnowsSpans | None = None,
        scores: Iterable[str] | None = None,
        environment: str | None = None,
        include_explanations: bool = False,
        timeout_s: float = 10.0,
        deadline_s: float = 60.0,
    ) -> None:
        if not public_key or not secret_key:
            raise ConfigurationError(
                "Langfuse needs public_key and secret_key; both stand in the project's settings"
            )
        token = b64encode(f"{public_key}:{secret_key}".encode()).decode()
        super().__init__(
            "Langfuse",
            host,
            {"Authorization": f"Basic {token}"},
            spans=spans,
            scores=scores,
            include_explanations=include_explanations,
            timeout_s=timeout_s,
            deadline_s=deadline_s,
        )
        describe: Callable[[], None] | None = attribute_of(spans, "describe_traces")
        if describe is not None:
            describe()
        self._environment = environment

    @classmethod
    def from_env(cls, *, spans: KnowsSpans | None = None) -> LangfuseScores:
        """Build one from the variables that Langfuse's own package reads.

        ``LANGFUSE_BASE_URL`` or ``LANGFUSE_HOST`` (else ``https://cloud.langfuse.com``),
        ``LANGFUSE_PUBLIC_KEY``, ``LANGFUSE_SECRET_KEY`` and ``LANGFUSE_TRACING_ENVIRONMENT``.

        Args:
            spans: As above.

        Raises:
            ConfigurationError: A key is not set, or the address is invalid; names the variables.
            MissingDependencyError: httpx is not installed.
        """
        keys = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
        missing = [name for name in keys if not os.environ.get(name)]
        if missing:
            raise ConfigurationError(
                f"exporters='langfuse': set {' and '.join(missing)}, which the project's settings in Langfuse "
                "show, and LANGFUSE_BASE_URL unless it is https://cloud.langfuse.com"
            )
        variable = "LANGFUSE_BASE_URL" if os.environ.get("LANGFUSE_BASE_URL") else "LANGFUSE_HOST"
        try:
            return cls(
                os.environ.get(variable) or "https://cloud.langfuse.com",
                *(os.environ[name] for name in keys),
                spans=spans,
                environment=os.environ.get("LANGFUSE_TRACING_ENVIRONMENT") or None,
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"{variable}: {error}") from error

    def spans_address(self) -> SpansAddress:
        """Return Langfuse's address for spans."""
        environment = {"langfuse.environment": self._environment} if self._environment else {}
        url = f"{self._address}/api/public/otel/v1/traces"
        return SpansAddress(url, self._headers, environment)

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Write the scores of `batch`.

        Raises:
            DeliveryError: Some scores could not be sent; a `PartlyDeliveredError` if some runs were accepted.
        """
        refusals: list[str] = []
        with DeliveryCount(batch) as delivered:
            placed, unknown = self._place(batch)
            events = [[self._event(one) for one in run] for run in placed]
            for group in in_requests(events, PER_REQUEST, BYTES_PER_REQUEST):
                refused = self._send([event for run in group for event in run])
                for run in group:
                    problems = [refused[event["id"]] for event in run if event["id"] in refused]
                    refusals += problems
                    if not problems:
                        delivered.add()
            if refusals:
                raise DeliveryError(f"Langfuse refused {len(refusals)} scores: {refusals[0]}")
            if unknown is not None:
                raise unknown

    def _send(self, events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Send a batch; return the reasons of refused events by id."""
        if not events:
            return {}
        answer = self._delivery.post("/api/public/ingestion", {"batch": events})
        errors = answer.get("errors") if isinstance(answer, dict) else None
        # Only the status: the message may quote content.
        return {
            str(error.get("id")): f"status {error.get('status')}"
            for error in errors or ()
            if isinstance(error, dict)
        }

    def _event(self, placed: TargetedAnnotation) -> dict[str, Any]:
        body = self._body(placed)
        # Langfuse ignores an event whose id it has seen: the same score again, but not another value of it.
        content = json.dumps(body, sort_keys=True, default=str).encode()
        return {
            "id": blake2b(content, digest_size=16).hexdigest(),
            "type": "score-create",
            "timestamp": datetime.now(timezone.utc).isoformat(),
            "body": body,
        }

    def _body(self, placed: TargetedAnnotation) -> dict[str, Any]:
        annotation = placed.annotation
        trace_id, span_id = f"{placed.span.trace_id:032x}", f"{placed.span.span_id:016x}"
        key = f"{trace_id}\n{span_id}\n{annotation.name}\n{annotation.identifier}"
        metadata = dict(annotation.metadata)
        if annotation.value is not None and annotation.label is not None:
            metadata["label"] = annotation.label  # a numeric score has no label field
        body: dict[str, Any] = {
            "id": blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest(),
            "traceId": trace_id,
            "name": annotation.name,
            "value": annotation.label if annotation.value is None else annotation.value,
            "dataType": "CATEGORICAL" if annotation.value is None else "NUMERIC",
            "metadata": metadata,
        }
        # For the trace, Langfuse shows the verdict as a column of the list of traces.
        if annotation.target != "request":
            body["observationId"] = span_id
        if annotation.explanation is not None:
            body["comment"] = annotation.explanation
        if self._environment is not None:
            body["environment"] = self._environment
        return body
