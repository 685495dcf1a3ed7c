"""Look up the reference of a request that has none, by its question.

The source is a JSONL or CSV file, a mapping, both by normalised question, or any callable. Look-ups run on
the meter's worker, never on the request's path. A file is parsed, never evaluated, and reloaded when it
changes.
"""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragmeter.metrics import ConfigurationError, Reference, ReferenceFileError

RECHECK_AFTER_S = 5.0
"""Least seconds between two checks of a reference file for changes."""

_FIELDS = ("answer", "contexts", "context_ids", "alternative_answers", "orphaned_ids")
_LIST_FIELDS = ("contexts", "context_ids", "alternative_answers", "orphaned_ids")
_FINAL_PUNCTUATION = ".?!…。？！؟;；"


ReferenceSource = Callable[[str], "Reference | None"]
"""Returns the reference of a question, or None."""


def normalise_question(question: str) -> str:
    """Normalise a question for comparison.

    NFKC, casefold, white space collapsed, final punctuation dropped.
    """
    text = unicodedata.normalize("NFKC", question).casefold()
    return " ".join(text.split()).rstrip(_FINAL_PUNCTUATION + " ")


def load_references(
    references: str | os.PathLike[str] | Mapping[str, Any] | Callable[[str], Any] | None,
    guard: AbstractContextManager[object] | None = None,
) -> ReferenceSource | None:
    """Make a look-up from the ``references=`` argument.

    Args:
        references: Path of a ``.jsonl`` or ``.csv`` file, a mapping from question to `Reference`
            (or its fields, or just the answer), or a callable of the question.
        guard: Contains and counts errors of a changed file: the old references stay in force. Without it,
            they are raised.

    Raises:
        ReferenceFileError: A row of the file cannot be read; names file, line and reason.
        ConfigurationError: The file does not exist or has another ending, or the argument has another type.
    """
    if references is None:
        return None
    if isinstance(references, _FileReferences):  # read where its setting is named in errors
        references.guard = guard or references.guard
        return references
    if isinstance(references, (str, os.PathLike)):
        return _FileReferences(Path(references), guard=guard)
    if isinstance(references, Mapping):
        by_question = {
            normalise_question(question): as_reference(value, f"reference for {question!r}")
            for question, value in references.items()
        }
        return lambda question: by_question.get(normalise_question(question))
    if callable(references):
        return partial(_called, references)
    raise ConfigurationError(
        f"references is a {type(references).__name__}; pass the path of a .jsonl or .csv file, "
        "a mapping from question to reference, or a callable(question) -> Reference | None"
    )


def as_reference(value: Any, where: str) -> Reference:
    """Make a `Reference` from one, its fields, or a plain answer.

    Raises:
        ConfigurationError: The value is none of these; names `where`.
    """
    if isinstance(value, Reference):
        return value
    if isinstance(value, str):
        return Reference(answer=value)
    try:
        return Reference.model_validate(value)
    except ValidationError as error:
        problem = _first_problem(error)
    # Raised outside: the caught error quotes the value and must not be its context.
    raise ConfigurationError(
        f"{where}: {problem}; pass a Reference, a mapping of its fields (answer: text, contexts: texts, "
        "context_ids: ids), or just the answer"
    )


def _called(function: Callable[[str], Any], question: str) -> Reference | None:
    value = function(question)
    return None if value is None else as_reference(value, "what references(question) returned")


class _FileReferences:
    """The references of a file, read at construction and again when it changes."""

    def __init__(self, path: Path, guard: AbstractContextManager[object] | None = None) -> None:
        self._path = path
        self.guard = guard or nullcontext()
        self._stamp = _stamp(path)
        self._by_question = _read(path)
        self._next_check = time.monotonic() + RECHECK_AFTER_S

    def __call__(self, question: str) -> Reference | None:
        self._refresh()
        return self._by_question.get(normalise_question(question))

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + RECHECK_AFTER_S
        try:
            stamp = _stamp(self._path)
        except ConfigurationError:
            return  # being replaced, or deleted: the old references stay in force
        if stamp != self._stamp:
            # The stamp is stored first: a broken new file is reported once, and the old references stay in
            # force.
            self._stamp = stamp
            with self.guard:
                self._by_question = _read(self._path)


def _stamp(path: Path) -> tuple[int, int, int]:
    from ragmeter.metrics._files.rows import format_of  # noqa: PLC0415 -- only for a file

    format_of(path)  # reports a wrong ending first
    try:
        found = path.stat()
    except OSError as error:
        raise ConfigurationError(f"references: cannot read {str(path)!r}: {error}") from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> dict[str, Reference]:
    from ragmeter.metrics._files.rows import BadRow, read_rows  # noqa: PLC0415 -- only for a file

    by_question: dict[str, Reference] = {}
    for found in read_rows(path, _LIST_FIELDS):
        if isinstance(found, BadRow):
            raise ReferenceFileError(str(path), found.line, found.reason)
        line, row = found
        question = row.pop("question", None)
        if not isinstance(question, str) or not question.strip():
            raise ReferenceFileError(str(path), line, "no 'question'")
        nested = row.pop("reference", None)
        fields = nested if isinstance(nested, Mapping) else row
        if isinstance(nested, str):
            fields = {**row, "answer": nested}
        known = {key: fields[key] for key in _FIELDS if fields.get(key) is not None}
        if not known:
            raise ReferenceFileError(
                str(path), line, f"nothing to compare with; give one of {', '.join(_FIELDS)}"
            )
        try:
            by_question[normalise_question(question)] = Reference.model_validate(known)
        except ValidationError as error:
            raise ReferenceFileError(str(path), line, _first_problem(error)) from error
    return by_question


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
