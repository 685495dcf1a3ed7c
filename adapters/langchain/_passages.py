"""Notes the documents that chains and tools give out without being retrievers.

These "passages" show what happened to documents between retriever and model: a reranking
function, a grading node, a vector store called by hand.  Strings that functions give out are noted
beside them, as "pastes": documents may have been cut after they became text.  A tool's result that is no
string becomes one before any callback sees it: JSON, or the ``str`` of a list of documents; whether it may
hold rows is checked on the request's own path, and it is read on the worker.  What it all means for the
contexts is decided in `_contexts`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragmeter.adapters._snapshots import ContextSnapshot, bytes_of
from ragmeter.requests.size import weight_of

from ._payloads import (
    DOCUMENT_KEYS,
    copied_lists,
    document_lists,
    find_answer,
    snapshot_documents,
    text_of,
    tool_documents,
)
from ._state import Attachment, Passage, Paste, RetrievalNote, Run, ToolText

__all__ = [
    "documents_beside_answer",
    "documents_given",
    "documents_in_text",
    "enclosing_retriever",
    "note_passage",
    "note_paste",
    "note_tool",
    "strings_of",
]


MIN_LENGTH = 12
"""Strings of fewer characters are labels, not documents."""


def note_passage(
    attached: Attachment, run: Run, outputs: object, late_inputs: object, now: int
) -> None:
    """Note the documents a chain gave out, if they are not just those it was given or retrieved."""
    request = run.request
    given = document_lists(outputs)
    if not given and type(outputs) is list and _rejects_all(run, outputs):
        given = {"": ()}
    if not given or request.options.strict or enclosing_retriever(run) is not None:
        return
    taken = run.documents
    streamed = taken is None and late_inputs is not None
    if streamed:
        lists = document_lists(late_inputs)
        taken = copied_lists(lists) if lists else None
    passed_on: frozenset[str] = frozenset()
    if taken is not None:
        # A state that is handed through: only the lists that are new or changed matter.
        passed_on = frozenset(
            key for key, documents in given.items() if _same_list(documents, taken.get(key))
        )
        given = {key: documents for key, documents in given.items() if key not in passed_on}
        flat = [pair for pairs in taken.values() for pair in pairs]
        if not flat:
            taken = None
        elif not given or _same_list(_flat(given), flat):
            return
    documents = _flat(given)
    if taken is None:
        notes = run.children_retrievals
        if notes and _as_retrieved(documents, notes):
            return
        if not notes and (request.retrievals or not documents):
            return
    _add_passage(
        attached,
        run,
        now,
        None
        if taken is None
        else {key: tuple(text for _, text in pairs) for key, pairs in taken.items()},
        {key: snapshot_documents(value) for key, value in given.items()},
        passed_on,
        streamed=streamed,
    )


def _rejects_all(run: Run, outputs: list[Any]) -> bool:
    """Return whether a function that was given documents, and nothing else, gave out an empty list.

    Not one of several that run side by side: its list may be of something else that the documents lack.
    """
    if outputs or not run.documents or "" not in run.documents:
        return False
    return not any(tag.startswith("map:key:") for tag in run.tags or ())


def _add_passage(
    attached: Attachment,
    run: Run,
    now: int,
    taken: Mapping[str, tuple[str, ...]] | None,
    given: Mapping[str, tuple[ContextSnapshot, ...]],
    passed_on: frozenset[str] = frozenset(),
    *,
    streamed: bool = False,
) -> None:
    request = run.request
    request.passages.append(
        Passage(run, next(request.clock), now, taken, given, passed_on, streamed)
    )
    size_bytes = sum(map(bytes_of, given.values()))
    attached.tracker.requests.grow(request.root.run_id.int, size_bytes)


def note_tool(attached: Attachment, run: Run, output: object, now: int) -> None:
    """Note the documents that a tool gave out beside its text, or the text if it may hold some."""
    documents = tool_documents(output)
    retrieved = run.children_retrievals
    if documents:
        if not (retrieved and _as_retrieved(documents, retrieved)):
            _add_passage(attached, run, now, None, {"": snapshot_documents(documents)})
        return
    request = run.request
    if retrieved:  # it may have pasted only some of them
        note_paste(run, _text_of_tool(output), None)
        return
    text = None if request.options.strict else _text_of_tool(output)
    if text is not None and _may_hold_rows(text):
        request.tool_texts.append(ToolText(run, next(request.clock), now, text))
        attached.tracker.requests.grow(request.root.run_id.int, weight_of(text))


def documents_beside_answer(outputs: object, inputs: object) -> tuple[ContextSnapshot, ...] | None:
    """Return documents that stand beside an answer in the root's output; the last resort.

    This is all that is seen of a chain whose own constructor got the handler.
    """
    lists = document_lists(outputs)
    if not lists or find_answer(outputs, inputs) is None:
        return None
    given = document_lists(inputs)
    for key in DOCUMENT_KEYS:
        if lists.get(key) and key not in given:
            return snapshot_documents(lists[key])
    return None


def documents_given(reader: Run, inputs: object) -> tuple[ContextSnapshot, ...]:
    """Return the documents that a request was given, or a function below it: found by an earlier one."""
    lists = document_lists(inputs) or {
        key: [document for document, _ in pairs] for key, pairs in (reader.documents or {}).items()
    }
    return snapshot_documents(_flat(lists))


def note_paste(run: Run, outputs: object, late_inputs: object) -> None:
    """Note the strings a function gave out, beside the documents and strings that it was given.

    Whether they are documents that it pasted or cut is found out later.
    """
    given = strings_of(outputs)
    request = run.request
    if not given or request.options.strict or run.retriever is not None:
        return
    before = run.strings or (() if late_inputs is None else strings_of(late_inputs))
    if before:
        handed_through = {id(text) for text in before}
        given = tuple([text for text in given if id(text) not in handed_through])
        if not given:
            return
    taken = run.documents
    if taken is None and late_inputs is not None:
        taken = copied_lists(document_lists(late_inputs))
    documents = () if not taken else tuple([text for one in taken.values() for _, text in one])
    request.pastes.append(Paste(run, next(request.clock), documents, before, given))
    for text in given:
        request.loose_bytes += weight_of(text)


def strings_of(payload: object) -> tuple[str, ...]:
    """Return the strings of a payload that may hold documents: itself, a list's, those under its keys."""
    if type(payload) is str:
        return (payload,) if len(payload) >= MIN_LENGTH else ()
    if type(payload) is list or type(payload) is tuple:
        return tuple(text for text in payload if type(text) is str and len(text) >= MIN_LENGTH)
    if type(payload) is not dict:
        return ()
    found: list[str] = []
    for value in payload.values():
        kind = type(value)
        if kind is str:
            if len(value) >= MIN_LENGTH:
                found.append(value)
        elif (kind is list or kind is tuple) and value and type(value[0]) is str:
            found += strings_of(value)
    return tuple(found)


def _flat(lists: Mapping[str, Sequence[Any]]) -> list[Any]:
    return [document for documents in lists.values() for document in documents]


def _same_list(documents: Sequence[Any], pairs: Sequence[tuple[Any, str]] | None) -> bool:
    """Return whether documents are the same objects with the same texts."""
    if pairs is None or len(documents) != len(pairs):
        return False
    for document, (before, text) in zip(documents, pairs, strict=True):
        if document is not before:
            return False
        if getattr(document, "page_content", None) is not text and text_of(document) is not text:
            return False
    return True


def _as_retrieved(documents: Sequence[Any], notes: Sequence[RetrievalNote]) -> bool:
    """Return whether a chain gave out exactly what the retrievers below it had found."""
    found = [
        (document, snapshot.text)
        for note in notes
        for document, snapshot in zip(note.documents, note.contexts or (), strict=False)
    ]
    return _same_list(documents, found)


def enclosing_retriever(run: Run) -> Run | None:
    """Return the nearest retriever around a run that is not looked through."""
    current = run.retriever
    while current is not None and current.transparent:
        current = current.retriever
    return current


MAX_READ = 1_000_000
"""Characters of a tool's text that are read; a longer one is no list of passages."""

_SCORES = frozenset({"score", "relevance_score", "similarity_score", "similarity", "distance"})
_TEXTS = ("page_content", "text", "content")
_MAX_DEPTH = 5


def _text_of_tool(output: object) -> str | None:
    """Return what a tool said, if it is a text."""
    if type(output).__name__ == "Command":
        update = getattr(output, "update", None)
        messages = update.get("messages") if isinstance(update, Mapping) else None
        texts = [_text_of_tool(message) for message in messages or ()]
        return next((text for text in texts if text is not None and _may_hold_rows(text)), None)
    content = output if isinstance(output, str) else getattr(output, "content", None)
    if isinstance(content, list):
        # One block of text is what servers of tools send.
        blocks = [block.get("text") for block in content if isinstance(block, Mapping)]
        content = blocks[0] if len(blocks) == 1 else None
    return content if isinstance(content, str) else None


def _may_hold_rows(text: str) -> bool:
    """Return whether it is worth reading: a list or object that names a document's fields."""
    if len(text) > MAX_READ:
        return False
    if "page_content" in text:
        return True
    return text[:1] in ("[", "{") and ('"score"' in text or '"metadata"' in text)


def documents_in_text(text: str) -> tuple[ContextSnapshot, ...]:
    """Return the documents among the rows that a text holds.

    A row is a mapping with ``page_content``, or with ``text`` or ``content`` beside ``metadata`` or
    a score.
    """
    try:
        parsed: Any = json.loads(text)
    except (ValueError, RecursionError):
        parsed = _python(text)
    return snapshot_documents(tuple(_rows(parsed)))


def _rows(value: Any, depth: int = 0) -> Iterator[Any]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        if _is_row(value):
            metadata = value.get("metadata")
            score = next((value[key] for key in sorted(_SCORES) if key in value), None)
            yield (
                {
                    "page_content": next(value[key] for key in _TEXTS if key in value),
                    "id": value.get("id", value.get("_id")),
                    "metadata": metadata if isinstance(metadata, dict) else {},
                },
                score,
            )
            return
        for item in value.values():
            yield from _rows(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        is_pair = len(value) == 2 and isinstance(value[1], (int, float)) and _is_row(value[0])
        if is_pair:
            yield (value[0], value[1])
            return
        for item in value:
            yield from _rows(item, depth + 1)


def _is_row(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    text = next((value[key] for key in _TEXTS if key in value), None)
    if not isinstance(text, str):
        return False
    if "page_content" in value:
        return True
    if isinstance(value.get("metadata"), dict):
        return True
    return any(
        isinstance(value.get(key), (int, float)) and not isinstance(value.get(key), bool)
        for key in _SCORES
    )


def _python(text: str) -> Any:
    """Read what Python writes for lists, mappings, pairs, and for ``Document(...)`` in them."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(node: ast.AST) -> Any:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            _value(key): _value(item)
            for key, item in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
    if isinstance(node, ast.Call):
        if node.keywords:
            return {item.arg: _value(item.value) for item in node.keywords if item.arg}
        return _value(node.args[0]) if len(node.args) == 1 else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand)
        return -number if isinstance(number, (int, float)) else None
    return node.value if isinstance(node, ast.Constant) else None
