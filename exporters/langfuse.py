"""`LangfuseScores`: scores in Langfuse, on the observations they judge.

Langfuse has no endpoint for OpenTelemetry events and shows scores only from its own
API.  A score finds its trace and observation by their OpenTelemetry ids and need not
wait for them to arrive.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from ragmeter.metrics import ConfigurationError

from .delivery import Delivered, Delivery
from .judged_spans import KnowsSpans
from .placement import PlacedScore, Placement
from .run import ScoredRun
from .score_facts import identifier, score_metadata

__all__ = ["LangfuseScores"]


class LangfuseScores:
    """Writes scores through Langfuse's public API. Needs the extra ``sinks`` (httpx).

    Sending the same score twice leaves one: its id is a function of span, name and definition.
    Scores without a value or label, and scores of spans that were not sampled, are not sent.

    Args:
        host: Langfuse's address, e.g. ``https://cloud.langfuse.com``.
        public_key: The project's public key.
        secret_key: The project's secret key.
        spans: The `OpenTelemetryExporter` that writes the spans; None: only spans that other
            instrumentations recorded get scores.
        environment: Langfuse's environment of the scores; None: its default.
        include_explanations: Whether to send explanations, which quote contexts, as comments.
        redact: Sees every explanation before it leaves.
        timeout_s: Seconds for one attempt.
        deadline_s: Seconds for all attempts of one score.

    Raises:
        ConfigurationError: `host` is not an address, or a key is empty.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(
        self,
        host: str,
        public_key: str,
        secret_key: str,
        *,
        spans: KnowsSpans | None = None,
        environment: str | None = None,
        include_explanations: bool = False,
        redact: Callable[[str], str] | None = None,
        timeout_s: float = 10.0,
        deadline_s: float = 60.0,
    ) -> None:
        if not public_key or not secret_key:
            raise ConfigurationError(
                "Langfuse needs public_key and secret_key; both stand in the project's settings"
            )
        token = b64encode(f"{public_key}:{secret_key}".encode()).decode()
        self._delivery = Delivery(
            "Langfuse",
            host,
            {"Authorization": f"Basic {token}"},
            timeout_s=timeout_s,
            deadline_s=deadline_s,
        )
        self._placement = Placement(
            "Langfuse", spans, include_explanations=include_explanations, redact=redact
        )
        self._environment = environment

    def __repr__(self) -> str:
        return f"LangfuseScores({self._delivery.shown_address!r})"

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Write the scores of `batch`.

        Raises:
            DeliveryError: What could not be sent; a `PartlyDeliveredError` when some runs were taken.
        """
        with Delivered(batch) as delivered:
            placed, unknown = self._placement.place(batch)
            for run in placed:
                for one in run:
                    self._delivery.post("/api/public/scores", self._body(one))
                delivered.add()
            if unknown is not None:
                raise unknown

    def flush(self, timeout_s: float) -> bool:
        """Nothing is buffered here: `export` returns when Langfuse has taken the scores."""
        del timeout_s
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Give up what is being retried and close the connections."""
        del timeout_s
        self._delivery.close()

    def _body(self, placed: PlacedScore) -> dict[str, Any]:
        score = placed.score
        trace_id, span_id = f"{placed.span.trace_id:032x}", f"{placed.span.span_id:016x}"
        key = "\n".join((trace_id, span_id, score.name, identifier(score)))
        metadata = score_metadata(score)
        if score.value is not None and score.label is not None:
            metadata["label"] = score.label  # a numeric score has no place of its own for it
        body: dict[str, Any] = {
            "id": blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest(),
            "traceId": trace_id,
            "observationId": span_id,
            "name": score.name,
            "value": score.label if score.value is None else score.value,
            "dataType": "CATEGORICAL" if score.value is None else "NUMERIC",
            "metadata": metadata,
        }
        if placed.explanation is not None:
            body["comment"] = placed.explanation
        if self._environment is not None:
            body["environment"] = self._environment
        return body
