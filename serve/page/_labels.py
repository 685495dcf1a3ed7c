"""People's labels of a request on the page: right or wrong, the correct answer, and the golden set.

The label goes to a file of labels, in the format of `ragmeter label`, marked as volunteered: the request was
picked, not drawn, so it enters no estimate. The correct answer goes to the golden set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs

from ragmeter.metrics import ConfigurationError, RagmeterError
from ragmeter.quality.labels import Label, append_label
from ragmeter.quality.verdict_rates import VerdictRate, rates_in
from ragmeter.serve.store.views import RequestView

from ._golden import GoldenEntry, GoldenSet

LABELLED_SCORE = "answer_right"
"""The question on the page: whether the answer is right."""
RATER = "page"
"""Name of the rater in labels, as the page knows no names."""
MOST_FORM_BYTES = 256 * 1024
_MOST_FIELDS = 16


class NotSavedError(RagmeterError):
    """A label was not saved; its text is a key of the page's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The content of the form."""

    word: str = ""
    """``right``, ``wrong``, or empty."""
    answer: str = ""
    """The correct answer."""
    documents: str = ""
    """Ids of the correct documents, one per line."""
    golden: bool = False
    """Whether to add it to the golden set."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The files of labels and golden set."""

    path: Path
    """The file of labels."""
    golden: GoldenSet
    """The golden set."""

    def rate(self, word: str | None) -> VerdictRate | None:
        """Return the share of requests with this verdict that people call bad; None: too few drawn labels."""
        try:
            changed = self.path.stat().st_mtime_ns
            return _rates(self.path, changed).get(word or "")
        except (OSError, ConfigurationError):
            return None

    def save(self, view: RequestView, form: Form) -> None:
        """Store a person's label of a request.

        Raises:
            NotSavedError: The form is incomplete.
            OSError: A file cannot be written.
        """
        entry = _golden_entry(view, form) if form.golden else None
        if form.word not in ("right", "wrong"):
            raise NotSavedError("needs_choice")
        label = Label(
            request=view.row.trace_id or view.row.run_id,
            score=LABELLED_SCORE,
            value=float(form.word == "right"),
            rater=RATER,
            at=f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
            scale="yes-no",
            verdict=view.row.verdict or "",
            relevance=next((one.value for one in view.scores if one.name == "lexical_context_relevance"), None),
        )
        append_label(self.path, label)
        if entry is not None:
            self.golden.add(entry)


@lru_cache(maxsize=4)
def _rates(path: Path, changed: int) -> Mapping[str, VerdictRate]:  # noqa: ARG001 -- a file that changed
    return rates_in(path)


def read_fields(body: bytes) -> Mapping[str, str]:
    """Parse the fields of a form. Raises ValueError: there are too many."""
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    return {name: values[-1] for name, values in fields.items()}


def form_of(given: Mapping[str, str]) -> Form:
    """Return the content of the form for a request."""
    return Form(
        word=given.get("word", ""),
        answer=given.get("answer", "").replace("\r\n", "\n").strip(),
        documents=given.get("documents", "").replace("\r\n", "\n").strip(),
        golden=given.get("golden") == "1",
    )


def _golden_entry(view: RequestView, form: Form) -> GoldenEntry:
    """Return a new golden entry; for a right answer it has the answer and the retrieved chunks."""
    question = view.row.question
    if question is None or not question.strip():
        raise NotSavedError("needs_question")
    ids = tuple(line.strip() for line in form.documents.splitlines() if line.strip())
    answer = form.answer or None
    if form.word == "right":
        answer = answer or view.answer
        ids = ids or tuple(one.id for one in view.contexts if one.id)
    if answer is None and not ids:
        raise NotSavedError("needs_answer")
    return GoldenEntry(question=question, answer=answer, context_ids=ids, trace_id=view.row.trace_id)
