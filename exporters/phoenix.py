"""`PhoenixAnnotations`: verdicts and scores as annotations in Arize Phoenix.

Phoenix shows and averages annotations only; score attributes on spans are just
attributes to it.  The annotations go through its REST API, after the fact, and find their
spans by id; Phoenix keeps those whose span has not arrived yet and attaches them later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from opentelemetry import trace

from ragmeter.metrics import ConfigurationError

from . import semconv
from ._foreign import attribute_of
from ._http import DeliveryCount, in_requests
from ._span_targets import AnnotatingExporter, KnowsSpans, SpansAddress, TargetedAnnotation
from .protocol import ScoredRun

__all__ = ["PhoenixAnnotations"]

PER_REQUEST = 200
"""Most annotations in one request."""
_RESERVED = "note"
_WORTH = {"good": 1.0, "suspect": 0.5, "bad": 0.0}
"""The words of the verdict, in Phoenix's order, which determines their colours."""


class PhoenixAnnotations(AnnotatingExporter):
    """Annotates traces, judged spans and documents in Phoenix. Needs the extra ``sinks`` (httpx).

    The verdict (``ragmeter.verdict``, its word as label, its reasons as explanation; its score, by which
    Phoenix sorts, is 1 for good, 0.5 for suspect and 0 for bad) goes to the trace, to the request's span and
    to the application's span around it; a score about the retrieval to the retrieval's span, and its result
    on a chunk to that document. Phoenix sorts by name and hides annotations that do not fit, so where there
    is a verdict, scores about the answer go to the trace.

    Sending the same score twice leaves one annotation: Phoenix updates the one of the same span,
    name and identifier, and the identifier is the score's definition.  Scores without a value or
    label, and scores of spans that were not sampled, are not sent.

    Args:
        endpoint: Phoenix's address, e.g. ``http://127.0.0.1:6006``.
        api_key: Its API key, when authentication is on.
        spans: The `OpenTelemetryExporter` that writes the spans; None: only spans that other
            instrumentations recorded are annotated.
        scores: Names of the scores to send, ``ragmeter.verdict`` among them. None: the verdict and all scores
            except those that judge nothing (counts, and scores without a better direction) and normal health
            measurements of the retrieval (``empty_retrieval``, ...).
        trace_annotations: Annotate the trace with the retrieval's scores, too, so that they count in the
            averages of traces.
        document_annotations: Annotate documents with the results of scores on each chunk.
        include_explanations: Whether to send explanations, which quote contexts. Otherwise the explanation
            has ids, counts and numbers.
        headers: Sent with every request, such as those of a gateway.
        timeout_s: Seconds for one attempt.
        deadline_s: Seconds for all attempts of one request.

    Raises:
        ConfigurationError: `endpoint` is not an address, or `scores` is a string.
        MissingDependencyError: httpx is not installed.
    """

    def __init__(
        self,
        endpoint: str,
        api_key: str | None = None,
        *,
        spans: KnowsSpans | None = None,
        scores: Iterable[str] | None = None,
        trace_annotations: bool = False,
        document_annotations: bool = True,
        include_explanations: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        deadline_s: float = 60.0,
    ) -> None:
        key = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(
            "Phoenix",
            endpoint,
            {**(headers or {}), **key},
            spans=spans,
            scores=scores,
            include_explanations=include_explanations,
            documents=document_annotations,
            timeout_s=timeout_s,
            deadline_s=deadline_s,
        )
        self._trace_annotations = trace_annotations
        self._fold = scores is None
        self._judged = False
        self._tries = 10

    @classmethod
    def from_env(cls, *, spans: KnowsSpans | None = None) -> PhoenixAnnotations:
        """Build one from the variables that Phoenix's own packages read.

        The address is ``PHOENIX_ENDPOINT`` or ``PHOENIX_COLLECTOR_ENDPOINT`` (as for traces: its path
        ``/v1/traces`` is left out), else ``OTEL_EXPORTER_OTLP_ENDPOINT``, else ``PHOENIX_HOST`` with
        ``PHOENIX_PORT``, else ``http://localhost:6006``; ``PHOENIX_API_KEY`` is the key,
        ``PHOENIX_CLIENT_HEADERS`` are more headers.

        Args:
            spans: As above.

        Raises:
            ConfigurationError: The address is invalid; names its variable.
            MissingDependencyError: httpx is not installed.
        """
        variable, address = _address()
        headers = {}
        for pair in os.environ.get("PHOENIX_CLIENT_HEADERS", "").split(","):
            name, separator, value = pair.partition("=")
            if separator:
                headers[unquote(name).strip()] = unquote(value).strip()
        try:
            return cls(address, os.environ.get("PHOENIX_API_KEY"), spans=spans, headers=headers)
        except ConfigurationError as error:
            raise ConfigurationError(f"{variable}: {error}") from error

    @property
    def trace_url(self) -> str:
        """Phoenix's address of a trace, with the placeholder ``{trace_id}``."""
        return f"{self._delivery.shown_address}/redirects/traces/{{trace_id}}"

    def spans_address(self) -> SpansAddress:
        """Return Phoenix's address for spans, and the project of ``PHOENIX_PROJECT``."""
        project = _project()
        resource = {str(semconv.OPENINFERENCE_PROJECT): project} if project else {}
        return SpansAddress(f"{self._address}/v1/traces", self._headers, resource)

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Annotate the spans of `batch`.

        Raises:
            DeliveryError: Some could not be sent; a `PartlyDeliveredError` if some runs were accepted.
        """
        with DeliveryCount(batch) as delivered:
            placed, unknown = self._place(batch)
            for group in in_requests(placed, PER_REQUEST):
                self._send([one for run in group for one in run])
                for _ in group:
                    delivered.add()
            if unknown is not None:
                raise unknown
        self._judged |= any(one.annotation.target == "request" for run in placed for one in run)
        self._explain_verdicts()

    def _explain_verdicts(self) -> None:
        """Send the order of the verdict's labels to Phoenix, which determines their colours."""
        if not (self._judged and self._tries):
            return
        self._tries -= 1
        name = str(semconv.VERDICT)
        values = [{"label": word, "score": worth} for word, worth in _WORTH.items()]
        self._delivery.offer(
            "POST",
            "/v1/annotation_configs",
            {"name": name, "type": "CATEGORICAL", "optimization_direction": "MAXIMIZE", "values": values},
        )  # it may already exist
        project = quote(_project_of(self._spans), safe="")
        # A project is created by its first span, which may still be in transit.
        if self._delivery.offer("PUT", f"/v1/projects/{project}/annotation_configs/{name}", {}):
            self._tries = 0

    def _send(self, placed: Sequence[TargetedAnnotation]) -> None:
        for start in range(0, len(placed), PER_REQUEST):
            some = placed[start : start + PER_REQUEST]
            for path, data in (
                ("/v1/trace_annotations", [_of_trace(p) for p in some if self._on_trace(p)]),
                ("/v1/span_annotations", [each for p in some for each in self._of_spans(p)]),
                ("/v1/document_annotations", [_of_span(p) for p in some if p.document is not None]),
            ):
                if data:
                    self._delivery.post(path, {"data": data})

    def _on_trace(self, placed: TargetedAnnotation) -> bool:
        if placed.document is not None:
            return False
        return self._trace_annotations or placed.annotation.target == "request" or self._is_folded(placed)

    def _is_folded(self, placed: TargetedAnnotation) -> bool:
        return self._fold and placed.beside_verdict and placed.annotation.target == "answer"

    def _of_spans(self, placed: TargetedAnnotation) -> Iterator[dict[str, Any]]:
        if placed.document is not None or self._is_folded(placed):
            return
        yield _of_span(placed)
        if placed.annotation.target == "request" and placed.around is not None:
            # In the list of requests, the root span represents them; it may contain several.
            span_id = f"{placed.around.span_id:016x}"
            yield {**_of_span(placed), "span_id": span_id, "identifier": _unique(placed)}

    def flush(self, timeout_s: float) -> bool:
        """Return True: `export` returns when Phoenix has accepted the annotations."""
        if timeout_s > 0:
            self._explain_verdicts()  # by now the project may exist
        return True


def _address() -> tuple[str, str]:
    """Return the variable with Phoenix's address, and that address."""
    for variable in ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        given = os.environ.get(variable, "").strip()
        if not given:
            continue
        parts = urlsplit(given)
        grpc = os.environ.get("PHOENIX_GRPC_PORT") or "4317"
        if parts.hostname and given.rstrip("/").endswith(f":{grpc}"):
            # That port accepts only traces; Phoenix's page and API are on the other one.
            host = parts.netloc.removesuffix(f":{grpc}")
            given = f"{parts.scheme}://{host}:{_port()}"
        return variable, given.rstrip("/").removesuffix("/v1/traces")
    host = os.environ.get("PHOENIX_HOST") or "localhost"
    if "://" in host:
        return "PHOENIX_HOST", host
    everywhere = host == "0.0.0.0"  # noqa: S104 -- the server's listening address
    return "PHOENIX_HOST", f"http://{'127.0.0.1' if everywhere else host}:{_port()}"


def _project() -> str | None:
    return os.environ.get("PHOENIX_PROJECT") or os.environ.get("PHOENIX_PROJECT_NAME") or None


def _project_of(spans: KnowsSpans | None) -> str:
    """Return the project of spans: that of their provider, as Phoenix reads it."""
    provider = attribute_of(spans, "tracer_provider", trace.get_tracer_provider)()
    attributes = attribute_of(attribute_of(provider, "resource"), "attributes")
    project = attributes.get(semconv.OPENINFERENCE_PROJECT) if isinstance(attributes, Mapping) else None
    return str(project or _project() or "default")


def _port() -> str:
    return os.environ.get("PHOENIX_PORT") or "6006"


def _of_trace(placed: TargetedAnnotation) -> dict[str, Any]:
    trace_id = f"{placed.span.trace_id:032x}"
    return {"trace_id": trace_id, **_annotation(placed), "identifier": _unique(placed)}


def _unique(placed: TargetedAnnotation) -> str:
    # A trace may contain several requests, each with a verdict.
    return f"{placed.annotation.identifier}@{placed.span.span_id:016x}"


def _of_span(placed: TargetedAnnotation) -> dict[str, Any]:
    where: dict[str, Any] = {"span_id": f"{placed.span.span_id:016x}"}
    if placed.document is not None:
        where["document_position"] = placed.document
    return {**where, **_annotation(placed)}


def _annotation(placed: TargetedAnnotation) -> dict[str, Any]:
    annotation = placed.annotation
    # Phoenix sorts only by scores.
    verdict = _WORTH.get(annotation.label or "") if annotation.target == "request" else None
    score = verdict if annotation.value is None else annotation.value
    result = {"score": score, "label": annotation.label, "explanation": annotation.explanation}
    return {
        # Phoenix reserves this name for people's notes.
        "name": f"{semconv.OWN}_{_RESERVED}" if annotation.name == _RESERVED else annotation.name,
        "annotator_kind": annotation.kind,
        # Phoenix refuses such annotations of documents.
        "identifier": annotation.identifier if placed.document is None else "",
        "result": {key: value for key, value in result.items() if value is not None},
        "metadata": dict(annotation.metadata),
    }
