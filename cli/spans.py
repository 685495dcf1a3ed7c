"""Finds the requests in recorded OTLP and prints one JSON object a line for each.

A file is a raw export request, JSON, or the output of a Collector's file exporter.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ragmeter.adapters.opentelemetry import RetrievalTool
from ragmeter.adapters.opentelemetry._accounts import Accounts, account_of, notes_of_unread
from ragmeter.adapters.opentelemetry._earlier import EarlierRetrievals
from ragmeter.adapters.opentelemetry._repeats import RecentRequests
from ragmeter.adapters.opentelemetry.assembly import AssembledTrace, TraceAssembler
from ragmeter.adapters.opentelemetry.build import is_scorable, sample_of
from ragmeter.adapters.opentelemetry.otlp import ExportedRecords, MalformedError, read_json, read_protobuf
from ragmeter.adapters.opentelemetry.requests import OWN_SCOPE, FoundRequest, read_trace
from ragmeter.adapters.reading.prompt_documents import PromptTemplates
from ragmeter.metrics import RagSample
from ragmeter.metrics._files.json_lines import lines_of
from ragmeter.metrics.protocol import ComputedMetric, compute_metric
from ragmeter.metrics.registry import default_metrics

_GZIP = b"\x1f\x8b"
_MAX_BYTES = 1024 * 1024 * 1024
"""Most bytes of a file, or of a compressed file's content."""


class BadInput(NamedTuple):
    """A file, or a line of one, that cannot be read."""

    path: Path
    line: int | None
    """Line, counted from 1; None: the file as a whole."""
    reason: str

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.reason}"


def read_file(path: Path) -> Iterator[ExportedRecords | BadInput]:
    """Read a recording.

    Its content shows its format: raw protobuf, JSON, or one JSON document per line. Each may be gzipped.

    Yields:
        The content of each export request, or the place and the reason if it cannot be read.
    """
    try:
        body = _read_unpacked(path)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else None
        yield BadInput(path, None, reason or f"cannot be unpacked ({type(error).__name__})")
        return
    except MalformedError as error:
        yield BadInput(path, None, str(error))
        return
    name = path.name.removesuffix(".gz")
    start = body.lstrip()[:1]
    if name.endswith((".json", ".jsonl", ".ndjson")) or (not name.endswith(".pb") and start in (b"{", b"[")):
        yield from _json(path, body)
        return
    try:
        yield read_protobuf(body)
    except MalformedError as error:
        yield BadInput(path, None, str(error))


def _read_unpacked(path: Path) -> bytes:
    with path.open("rb") as plain:
        if plain.peek(2)[:2] != _GZIP:  # a pipe cannot be rewound
            body = plain.read(_MAX_BYTES + 1)
        else:
            with gzip.open(plain) as inner:
                body = inner.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise MalformedError(f"larger than {_MAX_BYTES // 1024**2} MiB; split it into several files")
    return body


def _json(path: Path, body: bytes) -> Iterator[ExportedRecords | BadInput]:
    lines = list(lines_of(body))
    if len(lines) > 1:
        try:
            whole = read_json(lines[0][1])
        except MalformedError:
            # The first line is no request: one request over several lines, or not OTLP.
            try:
                yield read_json(body)
            except MalformedError as error:
                if path.name.endswith(".json"):
                    yield BadInput(path, None, str(error))
                    return
            else:
                return
        else:
            yield whole
            del lines[0]
    for number, line in lines:
        try:
            yield read_json(line)
        except MalformedError as error:  # noqa: PERF203 -- one bad line is one
            yield BadInput(path, number, str(error))


@dataclass(slots=True)
class Recording:
    """The content of the files."""

    requests: list[FoundRequest] = field(default_factory=list)
    """The requests, by the start of their traces."""
    bad: list[BadInput] = field(default_factory=list)
    invalid: int = 0
    """Number of spans without an id."""
    accounts: Accounts = field(default_factory=Accounts)
    """Counts of scored spans, and of others by reason."""


def read_recording(files: Iterable[Path], tools: Sequence[RetrievalTool] = ()) -> Recording:
    """Read recorded spans and find the requests in them.

    Args:
        files: The files of one recording, in order: a trace may be spread over several.
        tools: The tools that retrieve.
    """
    recording = Recording()
    templates, recent, earlier = PromptTemplates(), RecentRequests(), EarlierRetrievals()
    traces: list[tuple[int, list[FoundRequest]]] = []

    def found_in(trace: AssembledTrace) -> None:
        requests, unheard = read_trace(
            trace.spans, trace.logs, tools, templates, repeats=trace.repeats, recent=recent, earlier=earlier
        )
        for found in requests:
            earlier.note(found)
        if requests:
            traces.append((min(span.started_ns for span in trace.spans), requests))
        others = [span for span in trace.spans if span.scope != OWN_SCOPE]
        if others and not requests and not unheard and trace.scored is None:
            unheard = notes_of_unread(others)
        for one in (*unheard, *(account_of(found, scored=is_scorable(found)) for found in requests)):
            recording.accounts.add(one)

    # Nothing is evicted: a recording is finite.
    assembler = TraceAssembler(found_in, max_traces=sys.maxsize, max_spans=sys.maxsize, max_bytes=sys.maxsize)
    for path in files:
        for part in read_file(path):
            if isinstance(part, BadInput):
                recording.bad.append(part)
                continue
            recording.invalid += part.invalid
            assembler.add(part.spans, part.logs)
    assembler.drain()
    traces.sort(key=lambda item: item[0])
    every = [found for _, requests in traces for found in requests]
    joined = {alone.run_id for found in every for alone in found.earlier}
    recording.requests = [found for found in every if found.key not in joined]
    return recording


def as_row(found: FoundRequest, *, score: bool = False, explain: bool = False) -> dict[str, Any]:
    """Return the request as ``ragmeter spans`` prints it, with its scores, or with its missing parts."""
    row: dict[str, Any] = {
        "question": found.question,
        "contexts": [
            {"text": item.text, "id": item.id, "score": item.score, "metadata": dict(item.metadata)}
            for item in found.contexts
        ],
        "answer": found.answer,
        "status": "error" if found.failed else "ok",
        "usable": found.usable,
        "reason": found.reason,
        "trace_id": found.trace_id,
        "span_id": None if found.span is None else found.span.span_id,
        "convention": found.convention,
    }
    if explain:
        row["missing"] = dict(found.missing)
    if score:
        row["scores"] = dict(scores_of(sample_of(found))) if is_scorable(found) else {}
    return row


def scores_of(sample: RagSample) -> Iterator[tuple[str, float | None]]:
    """Yield name and value of every free score; None: not measurable."""
    for metric in default_metrics(judged=False):
        if isinstance(metric, ComputedMetric):
            for one in compute_metric(metric, sample):
                yield one.name, one.value
