"""`JsonlExporter`: one JSON object per scored run, appended to a file.

For pipelines, notebooks and machines without a collector. Texts are included only on request. A line is
written whole or not at all; errors are raised, for the meter to count.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError, RetrievalStage, Score
from ragmeter.metrics._files.append import append_whole, appending, open_to_append
from ragmeter.metrics._files.json_lines import as_line, plain
from ragmeter.metrics.errors import loggable

from ._format import ContentPolicy
from ._span_targets import recorded_spans
from .protocol import Retrieval, ScoredRun, TryLaterError, WriteCount

__all__ = ["JsonlExporter"]


class JsonlExporter:
    """Appends every `ScoredRun` to a file, one JSON object per line.

    A file it creates is readable by its owner only (0600).  Several processes may append to the
    same file.  Late scores come as a second line with the same ``run_id`` and ``"late": true``.

    Args:
        path: The file; its folder must exist.
        include_content: Whether to write question, queries, contexts, answer, reference,
            explanations and evidence texts. None: by ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``,
            off by default.

    Raises:
        ConfigurationError: The file cannot be opened for appending.
    """

    def __init__(self, path: str | os.PathLike[str], include_content: bool | None = None) -> None:
        policy = ContentPolicy.resolve(include_content)
        self._path = Path(path)
        self._include_content = policy.on_spans or policy.on_events
        self._closed = False
        try:
            os.close(open_to_append(self._path))
        except OSError as error:
            raise ConfigurationError(
                f"cannot append to {str(self._path)!r}: {error.strerror}; "
                "pass a file in a folder that exists and is writable"
            ) from error

    def export(self, batch: Sequence[ScoredRun]) -> None:
        """Append one line per run. A run that cannot be serialised is lost; the others are written.

        Raises:
            TryLaterError: The disk is full, or the file is not writable; a partial line was removed.
        """
        with WriteCount(batch) as written:
            lines: list[tuple[ScoredRun, bytes]] = []
            for scored in batch:
                with written.alone():
                    lines.append((scored, self._line(scored)))
            if self._closed:
                raise ValueError(f"{str(self._path)!r} is closed: the exporter was shut down")
            done: set[int] = set()
            try:
                with appending(self._path) as file:
                    for scored, line in lines:
                        append_whole(file, line)
                        done.add(id(scored))
                        written.add()
            except OSError as error:
                left = [scored for scored in batch if id(scored) not in done]
                raise TryLaterError(f"{self._path}: {loggable(error)}", left) from error

    def flush(self, timeout_s: float) -> bool:
        """Flush written lines to the disk."""
        del timeout_s
        if not self._closed:
            file = open_to_append(self._path)
            try:
                os.fsync(file)
            except OSError as error:
                # A pipe, a terminal or the null device cannot be synced.
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                    raise
            finally:
                os.close(file)
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Refuse further exports; no file is open between exports."""
        del timeout_s
        self._closed = True

    def _line(self, scored: ScoredRun) -> bytes:
        return as_line(plain(_record(scored, content=self._include_content)), compact=True)


_OF_RUN = (
    *("run_id", "name", "framework", "error_type", "started_ns", "ended_ns"),
    *("conversation_id", "response_id", "user_id", "tags"),
)
_OF_SCORED = ("late", "sample_rate", "judge_sample_rate", "selection", "judge_selection", "revision")
_OF_RETRIEVAL = (
    *("name", "data_source_id", "top_k", "embedding_model", "provider", "error_type"),
    *("started_ns", "ended_ns"),
)


def _record(scored: ScoredRun, *, content: bool) -> dict[str, Any]:
    run, sample = scored.run, scored.sample
    spans = recorded_spans(run)
    around = spans.request or run.parent
    record: dict[str, Any] = {
        **{name: getattr(run, name) for name in _OF_RUN},
        **{name: getattr(scored, name) for name in _OF_SCORED},
        "status": sample.status,
        "trace_id": f"{around.trace_id:032x}" if around else None,
        "span_id": f"{around.span_id:016x}" if around else None,
        "metadata": {
            str(key): value for key, value in run.metadata.items() if isinstance(value, (str, bool, int, float))
        },
        "verdict": None if scored.verdict is None else scored.verdict.model_dump(exclude_none=True),
        "contexts_by": sample.contexts_by,
        "context_count": None if sample.contexts is None else len(sample.contexts),
        "stages": None if sample.stages is None else [_stage(each) for each in sample.stages],
        "retrievals": [_retrieval(each, content=content) for each in run.retrievals],
        "scores": {name: _score(each, content=content) for name, each in scored.scores.items()},
    }
    if content:
        record["question"] = sample.question
        record["search_query"] = sample.search_query
        record["contexts"] = (
            None if sample.contexts is None else [context.model_dump() for context in sample.contexts]
        )
        record["carried"] = [context.model_dump() for context in sample.carried]
        record["answer"] = sample.answer
        record["reference"] = (
            None if sample.reference is None else sample.reference.model_dump(exclude_unset=True)
        )
    return record


def _stage(stage: RetrievalStage) -> dict[str, Any]:
    contexts = stage.contexts
    return {
        **stage.model_dump(include={"name", "kind", "recorded", "inputs"}),
        "context_count": None if contexts is None else len(contexts),
        "documents": None if contexts is None else [{"id": context.id} for context in contexts],
    }


def _retrieval(retrieval: Retrieval, *, content: bool) -> dict[str, Any]:
    documents = [{"id": context.id, "score": context.score} for context in retrieval.contexts]
    query = {"query": retrieval.query} if content else {}
    return {**{name: getattr(retrieval, name) for name in _OF_RETRIEVAL}, "documents": documents, **query}


def _score(score: Score, *, content: bool) -> dict[str, Any]:
    if content:
        return score.model_dump(exclude={"name"})
    record = score.model_dump(exclude={"name", "explanation", "items"})
    record["items"] = [{"id": item.id, "verdict": item.verdict, "value": item.value} for item in score.items]
    return record
