"""The golden set: questions with correct answers, in the format that `ragmeter.requests.references` reads.

It has one JSON object per line, ``{"question": …, "answer": …, "context_ids": […]}``. If a question occurs
twice, the later line counts, and the earlier one stays as its history. So saving is appending, and a file
written by hand can be continued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.append import append_whole, appending
from ragmeter.metrics._files.json_lines import as_line, read_objects
from ragmeter.requests.references import normalise_question


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenEntry:
    """A question and its correct answer."""

    question: str
    """The question."""
    answer: str | None = None
    """The correct answer; None: only the documents are known."""
    context_ids: tuple[str, ...] = ()
    """Ids of the correct documents."""
    trace_id: str | None = None
    """Run id of the request that the entry comes from."""


class GoldenSet:
    """The file of a golden set, for one server.

    Args:
        path: The file, which ends in ``.jsonl``; created for its owner only, with the first entry.

    Raises:
        ConfigurationError: The file has another ending, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != ".jsonl":
            raise ConfigurationError(f"--golden {str(path)!r}: the file's name ends in .jsonl")
        self.path = path
        """The file."""
        self.entries()

    def add(self, entry: GoldenEntry) -> None:
        """Append an entry.

        Raises:
            OSError: The file cannot be written; its earlier lines remain.
        """
        record = {
            "question": entry.question,
            **({} if entry.answer is None else {"answer": entry.answer}),
            **({"context_ids": list(entry.context_ids)} if entry.context_ids else {}),
            **({} if entry.trace_id is None else {"trace_id": entry.trace_id}),
            "added": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        }
        with appending(self.path) as file:
            append_whole(file, as_line(record))

    def entries(self) -> list[GoldenEntry]:
        """Return the valid entries, in the order of the first line of each question.

        Raises:
            ConfigurationError: The file cannot be read.
        """
        found: dict[str, GoldenEntry] = {}
        for fields in read_objects(self.content()):
            entry = _entry(fields)
            if entry is not None:
                found[normalise_question(entry.question)] = entry
        return list(found.values())

    def of(self, question: str) -> GoldenEntry | None:
        """Return the golden entry of a question, or None."""
        wanted = normalise_question(question)
        return next((one for one in self.entries() if normalise_question(one.question) == wanted), None)

    def content(self) -> bytes:
        """Return the whole file.

        Raises:
            ConfigurationError: The file cannot be read.
        """
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ConfigurationError(f"--golden {str(self.path)!r}: {error.strerror}") from None


def _entry(read: Mapping[str, Any]) -> GoldenEntry | None:
    """Return a line as an entry, or None if it is invalid, which a reader of references reports."""
    if not isinstance(read.get("question"), str):
        return None
    answer, ids, trace = read.get("answer"), read.get("context_ids"), read.get("trace_id")
    return GoldenEntry(
        question=read["question"],
        answer=answer if isinstance(answer, str) else None,
        context_ids=_ids(ids),
        trace_id=trace if isinstance(trace, str) else None,
    )


def _ids(value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(str(one) for one in value)
    return ()
