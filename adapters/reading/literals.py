"""Values of JSON and of Python that a text is."""

from __future__ import annotations

import ast
import json
import re
from typing import Any


def parsed(text: str) -> object:
    """Return the object or list in a text of JSON or Python, or the objects in several lines; else None."""
    if text[:1] + text[-1:] not in {"{}", "[]"}:
        return None
    joined, several = _BETWEEN_OBJECTS.subn(",", text) if text[0] == "{" else (text, 0)
    text = f"[{joined}]" if several else text
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        found = literal_in(text)
        return None if found is text else found


_BETWEEN_OBJECTS = re.compile(r"(?<=\})\s*\n(?=\{)")
"""In JSON lines, and in the blocks of text into which MCP divides a list."""
_MAX_LITERAL = 1_000_000
"""Maximum characters of a Python list that are read."""
_LITERAL = re.compile(r"""\[[\[{'"(\]]|\{['"]|\(['"{)]|[\[(]+[A-Z]\w*\([a-z_]\w*=""")


_JAVA = re.compile(r"\[?[A-Z]\w* ?\{ ?\w+ ?= ?\S")
_JAVA_TEXT = re.compile(r"""(?:\bid='([^']*)', |\bscore = ([\d.]+), embedded = \w+ \{ )?\btext ?= ?["']""")
_JAVA_END = re.compile(
    r"""["'](?:, media='\w*')?,? metadata ?= ?\{[^{}]*\}(?:[^{}]*\{[^{}]*\bSCORE=|, score=)?([\d.]+)?"""
)
"""Around a text of a document of Spring AI or LangChain4j, as printed: signs within it are not escaped."""


def _java_documents(value: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    _, *parts = _JAVA_TEXT.split(value)
    for identity, first, rest in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        end = _JAVA_END.search(rest)
        if end is None:
            return []
        score = end[1] or first
        found.append({"id": identity, "text": rest[: end.start()], "score": score and float(score)})
    return found


def literal_in(value: Any) -> Any:
    """Return the value of a Python literal, calls as their arguments, or Java's documents.

    Many tools record ``str(result)``, ``result.toString()``.
    """
    if not isinstance(value, str) or len(value) > _MAX_LITERAL:
        return value
    if _JAVA.match(value) is not None:
        return _java_documents(value) or value
    if _LITERAL.match(value) is None:
        return value
    try:
        found = _value_of(ast.parse(value.strip(), mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return value if found is None else found


def _value_of(node: ast.AST) -> Any:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value_of(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            key.value: _value_of(item)
            for key, item in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
    if isinstance(node, ast.Call):
        if node.keywords:
            return {item.arg: _value_of(item.value) for item in node.keywords if item.arg}
        return _value_of(node.args[0]) if len(node.args) == 1 else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value_of(node.operand)
        return -number if isinstance(number, (int, float)) else None
    return node.value if isinstance(node, ast.Constant) else None
