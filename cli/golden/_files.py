"""Reads golden sets and chunks from files, and repairs rows; other fields stay unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.rows import BadRow, read_rows

from ._anchors import Chunk, GoldenLabel, LabelOutcome

_ID = ("id", "id_", "chunk_id", "node_id", "context_id", "doc_id", "document_id")
_TEXT = ("text", "page_content", "content", "context", "chunk", "document")
_COLUMN = "reference_context_ids"
_LISTS = (*("context_ids", "contexts", _COLUMN, "reference_contexts"), *("anchors", "orphaned_ids"))


@dataclass(frozen=True, slots=True)
class GoldenRow:
    """One question of a golden set, and its labels."""

    line: int
    fields: dict[str, Any]
    labels: tuple[GoldenLabel, ...]
    orphaned: tuple[str, ...]
    """Ids of labels that the file marks as orphaned."""


def read_chunks(path: Path) -> Iterator[Chunk]:
    """Yield the chunks of an index, one at a time."""
    for row in _rows(path, ()):
        name, text = _first(row.fields, _ID), _first(row.fields, _TEXT)
        if name is None or not isinstance(text, str):
            raise ConfigurationError(
                f"{str(path)!r}, line {row.line}: a chunk has an id ({', '.join(_ID)}) and a text "
                f"({', '.join(_TEXT)})"
            )
        yield Chunk(str(name), text)


def read_golden(path: Path, texts: Mapping[str, str]) -> list[GoldenRow]:
    """Return the rows of a golden set, with texts of the old index by id."""
    found: list[GoldenRow] = []
    for row in _rows(path, _LISTS):
        where = f"{str(path)!r}, line {row.line}"
        orphaned = _strings(_holder(row.fields).get("orphaned_ids"), where)
        labels = tuple(_labels(row.fields, orphaned, texts, where))
        found.append(GoldenRow(row.line, row.fields, labels, tuple(orphaned)))
    return found


def repair_row(row: GoldenRow, outcomes: Sequence[LabelOutcome], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with the current ids of its labels; `texts`: of chunks with parts of split labels."""
    fields = {key: value for key, value in row.fields.items() if value is not None}
    if not row.labels:
        return fields
    anchors: list[dict[str, str]] = []
    ids: list[str] = []
    orphaned: list[str] = []
    for label, found in zip(row.labels, outcomes, strict=True):
        if not found.sure:
            orphaned.append(label.id)
            if label.text is not None:
                anchors.append({"id": label.id, "text": label.text})
            continue
        ids += found.ids
        for name in found.ids:
            text = label.text if len(found.ids) == 1 else texts.get(name)
            if text is not None:
                anchors.append({"id": name, "text": text})
    given: dict[str, Any] = {"context_ids": list(dict.fromkeys(ids))}
    if orphaned:
        given["orphaned_ids"] = list(dict.fromkeys(orphaned))
    nested = fields.get("reference")
    if isinstance(nested, str):
        nested = {"answer": nested}
    if isinstance(nested, Mapping) or _COLUMN in fields:
        # A top-level column takes precedence over a nested field; the result has only one of them.
        fields.pop(_COLUMN, None)
        kept = {key: value for key, value in (nested or {}).items() if key != "orphaned_ids"}
        fields["reference"] = {**kept, **given}
    else:
        fields.pop("orphaned_ids", None)
        fields.update(given)
    if anchors:
        fields["anchors"] = anchors
    return fields


def _holder(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = fields.get("reference")
    return nested if isinstance(nested, Mapping) else fields


def _labels(
    fields: Mapping[str, Any], orphaned: Sequence[str], texts: Mapping[str, str], where: str
) -> Iterator[GoldenLabel]:
    prefix = "reference_" if _COLUMN in fields else ""
    place = fields if prefix else _holder(fields)
    ids = _strings(place.get(f"{prefix}context_ids"), where)
    contexts = _strings(place.get(f"{prefix}contexts"), where)
    anchors: dict[str, list[str]] = {}
    for anchor in fields.get("anchors") or ():
        if not isinstance(anchor, Mapping) or not isinstance(anchor.get("text"), str):
            raise ConfigurationError(f"{where}: an anchor is an object with 'id' and 'text'")
        anchors.setdefault(str(anchor.get("id")), []).append(anchor["text"])
    beside = dict(zip(ids, contexts, strict=True)) if len(ids) == len(contexts) else {}
    for name in dict.fromkeys([*ids, *orphaned]):
        known: list[str | None] = [*anchors.get(name, ())]
        for text in known or [beside.get(name, texts.get(name))]:
            yield GoldenLabel(name, text)


def _strings(value: Any, where: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, (str, int)):
        return [str(value)]
    if isinstance(value, list) and all(isinstance(one, (str, int)) for one in value):
        return [str(one) for one in value]
    raise ConfigurationError(f"{where}: ids and contexts are lists of texts")


def _rows(path: Path, lists: Sequence[str]) -> Iterator[Any]:
    try:
        for row in read_rows(path, lists):
            if isinstance(row, BadRow):
                raise ConfigurationError(f"{str(path)!r}, line {row.line}: {row.reason}")
            yield row
    except OSError as error:
        raise ConfigurationError(f"cannot read {str(path)!r}: {error.strerror}") from error


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)
