"""Writes mappings, lists, strings and numbers as YAML, for files that people edit afterwards.

Enough for rule files, and no more: the command line shall not need a YAML library.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["to_yaml"]


def to_yaml(value: dict[str, Any]) -> str:
    """Return `value` as a YAML document. Strings of several lines become literal blocks."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> list[str]:
    lines: list[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            lines += _entry(f"{indent}{key}:", item, f"{indent}  ")
    else:
        for item in value:
            if isinstance(item, dict) and item:
                first, *rest = _lines(item, f"{indent}  ")
                lines += [f"{indent}- {first.lstrip()}", *rest]
            else:
                lines += _entry(f"{indent}-", item, f"{indent}  ")
    return lines


def _entry(head: str, item: Any, indent: str) -> list[str]:
    if isinstance(item, (dict, list)) and item:
        return [head, *_lines(item, indent)]
    if isinstance(item, str) and "\n" in item:
        return [f"{head} |-", *(indent + line for line in item.split("\n"))]
    # JSON's scalars, and its empty collections, are YAML's.
    return [f"{head} {json.dumps(item, ensure_ascii=False)}"]
