"""Maps the columns of a data set to ragmeter's fields.

Three spellings are known (ragmeter's, ragas', continuous-eval's). A similar name (``documents``, ``Output``)
is used if no other column has the field, and the reader reports it. The user names any other: ``--columns
contexts=text_chunks``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any

from ragmeter.metrics.errors import ConfigurationError

COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "user_input"),
    "contexts": ("contexts", "retrieved_contexts", "retrieved_context"),
    "context ids": ("context_ids", "retrieved_context_ids"),
    "answer": ("answer", "response"),
    "reference answer": (
        "reference_answer",
        "ground_truth_answers",
        "ground_truth_answer",
        "ground_truth",
        "ground_truths",
    ),
    "reference contexts": ("reference_contexts", "ground_truth_contexts", "ground_truth_context"),
    "reference context ids": ("reference_context_ids", "ground_truth_context_ids"),
}
"""Accepted columns per field: ragmeter's first, then ragas' and continuous-eval's, and ragas' before its 0.2.
``reference`` is special: an object with ``answer``, ``contexts``, ``context_ids`` (ragmeter's), or a text,
the reference answer (ragas)."""
NEAR_NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("questions", "query", "user_query", "user_question", "prompt", "input"),
    "contexts": (
        *("context", "documents", "docs", "chunks", "passages", "source_documents"),
        *("retrieved_documents", "retrieved_docs", "retrieved_chunks", "retrieved_passages"),
        "retrieval_context",
    ),
    "context ids": ("document_ids", "doc_ids", "chunk_ids", "retrieved_ids"),
    "answer": (
        *("output", "generated_answer", "model_answer", "prediction", "predicted_answer"),
        *("completion", "actual_output", "generated_text"),
    ),
    "reference answer": (
        *("expected_output", "expected_answer", "gold_answer", "golden_answer", "correct_answer"),
        *("reference_answers", "answers"),
    ),
    "reference contexts": ("expected_contexts", "gold_contexts", "golden_contexts"),
    "reference context ids": ("expected_context_ids", "relevant_ids", "gold_ids", "expected_ids"),
}
"""Other common names of them."""
_LISTS = ("contexts", "context ids", "reference contexts", "reference context ids")
_OTHERS = ("reference", "status", "name", "search_query", "metadata")
_KNOWN = {
    name: field for names in (COLUMN_NAMES, NEAR_NAMES) for field, all_of in names.items() for name in all_of
} | {name: name for name in _OTHERS}


@lru_cache(maxsize=4096)
def snake_case(column: str) -> str:
    """Return a column's name in snake case: ``User Input`` and ``userInput`` are ``user_input``."""
    if column in _KNOWN:
        return column
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])|[\s\-]+", "_", column.strip()).lower()
    return plain if plain in _KNOWN else column


class _ListColumns(frozenset[str]):
    def __contains__(self, column: object) -> bool:
        return isinstance(column, str) and super().__contains__(snake_case(column))


LIST_COLUMNS: frozenset[str] = _ListColumns(
    [name for name, field in _KNOWN.items() if field in _LISTS]
    + ["ground_truth_answers", "ground_truths", "reference_answers", "answers"]
)
"""Columns with lists: a CSV cell of one is a JSON list or one plain text."""


@dataclass(frozen=True)
class Columns:
    """The mapping of a data set's columns."""

    named: Mapping[str, str] = field(default_factory=dict)
    """ragmeter's name by the user's column."""

    @cached_property
    def lists(self) -> frozenset[str]:
        """Columns that hold lists."""
        own = {column for column, name in self.named.items() if name in LIST_COLUMNS}
        return LIST_COLUMNS if not own else _ListColumns({*LIST_COLUMNS, *own})

    def read(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields by ragmeter's names; a column chosen by the user wins over one with that name."""
        found = {snake_case(str(column)): value for column, value in fields.items()}
        if self.named:
            own = {name: fields.get(column) for column, name in self.named.items()}
            for column, name in self.named.items():
                found.pop(column, None)
                for other in (*COLUMN_NAMES.get(_KNOWN[name], ()), *NEAR_NAMES.get(_KNOWN[name], ())):
                    found.pop(other, None)
            found |= own
        return found


def columns_of(texts: list[str] | None) -> Columns:
    """Parse ``OURS=COLUMN`` texts, each of one or more separated by commas.

    Raises:
        ConfigurationError: A text has another form, or names an unknown field.
    """
    named: dict[str, str] = {}
    ours = [names[0] for names in COLUMN_NAMES.values()] + list(_OTHERS)
    for text in [one for given in texts or () for one in given.split(",")]:
        name, sign, column = (part.strip() for part in text.partition("="))
        if not sign or not name or not column:
            raise ConfigurationError(f"--columns {text!r}: write OURS=COLUMN, e.g. contexts=docs")
        field_name = snake_case(name)
        if field_name not in _KNOWN:
            near = get_close_matches(name, ours, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ConfigurationError(
                f"--columns {text!r}: there is no field {name!r}{meant}; there are {', '.join(ours)}"
            )
        named[column] = COLUMN_NAMES.get(_KNOWN[field_name], (field_name,))[0]
    twice = next((n for n in named.values() if list(named.values()).count(n) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"--columns names two columns for {twice}; name one")
    return Columns(named)
