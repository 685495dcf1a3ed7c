"""Finds the documents in what a tool said as text: rows, as JSON or as Python writes them.

A tool's result that is no string becomes one before any callback sees it: JSON, or for objects such
as documents, the ``str`` of the list. Whether it may hold rows is asked on the request's own path; it is
read on the worker.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ragmeter.adapters._snapshots import ContextSnapshot

from ._payloads import snapshot_documents

__all__ = ["documents_in_text", "may_hold_rows", "text_of_tool"]

MAX_READ = 1_000_000
"""Characters of a tool's text that are read; a longer one is no list of passages."""

_SCORES = frozenset({"score", "relevance_score", "similarity_score", "similarity", "distance"})
_TEXTS = ("page_content", "text", "content")
_MAX_DEPTH = 5


def text_of_tool(output: object) -> str | None:
    """Return what a tool said, if it is a text."""
    if type(output).__name__ == "Command":
        update = getattr(output, "update", None)
        messages = update.get("messages") if isinstance(update, Mapping) else None
        texts = [text_of_tool(message) for message in messages or ()]
        return next((text for text in texts if text is not None and may_hold_rows(text)), None)
    content = output if isinstance(output, str) else getattr(output, "content", None)
    if isinstance(content, list):
        # One block of text is what servers of tools send.
        blocks = [block.get("text") for block in content if isinstance(block, Mapping)]
        content = blocks[0] if len(blocks) == 1 else None
    return content if isinstance(content, str) else None


def may_hold_rows(text: str) -> bool:
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
