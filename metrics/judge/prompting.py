"""Turn an `Ask` into chat messages and a JSON schema.

The asking engine calls it.  It decides what the judge gets to read; it sends nothing
and reads no reply.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from ragmeter.metrics.prompts import load_prompt

from .contract import Ask, Group
from .untrusted import enclose, marker_for

__all__ = ["messages_for", "schema_for"]

_NUMBERED = re.compile(r"([a-z]+)(\d+)")


def messages_for(ask: Ask, open_ids: Collection[str], secret: bytes) -> list[dict[str, str]]:
    """Return the chat messages that ask for the answers to `open_ids`, and only those."""
    prompt = load_prompt(ask.prompt_for(open_ids))
    shown = [
        passage
        for passage in ask.passages
        if passage.only_for is None or not passage.only_for.isdisjoint(open_ids)
    ]
    marker = marker_for(secret, shown)
    wanted = [item.id for group in ask.groups for item in group.items if item.id in open_ids]
    parts = [enclose(passage, marker) for passage in shown]
    parts.append(prompt.task)
    parts.append(f"Ids to answer: {_spans(wanted)}")
    return [
        {"role": "system", "content": prompt.rules.replace("{marker}", marker)},
        {"role": "user", "content": "\n".join(parts)},
    ]


def _spans(ids: Iterable[str]) -> str:
    """Write ``c1 c2 c3 r1`` as ``c1-c3, r1``: fewer tokens."""
    runs: list[tuple[str, int, int]] = []
    for item_id in ids:
        match = _NUMBERED.fullmatch(item_id)
        letters, number = (match[1], int(match[2])) if match else (item_id, -1)
        if runs and number > 0 and runs[-1][0] == letters and runs[-1][2] == number - 1:
            runs[-1] = (letters, runs[-1][1], number)
        else:
            runs.append((letters, number, number))
    words = []
    for letters, first, last in runs:
        if first < 0:
            words.append(letters)
        else:
            words.append(
                f"{letters}{first}" if first == last else f"{letters}{first}-{letters}{last}"
            )
    return ", ".join(words)


def schema_for(ask: Ask, open_ids: Collection[str]) -> dict[str, Any]:
    """Return the JSON schema of the reply to `open_ids`: the same for all asks of one prompt.

    The ids are not part of it, because providers compile and keep each new schema.
    """
    return _closed({group.name: _group_schema(group) for group in ask.groups_for(open_ids)})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _group_schema(group: Group) -> dict[str, Any]:
    ids = {"type": "array", "items": {"type": "string"}}
    if group.compact:
        return _closed({"true": ids, "false": ids})
    fields: dict[str, Any] = {"id": {"type": "string"}}
    if group.kind in ("verdict", "choice"):
        if group.reasons:
            fields["reason"] = {"type": "string"}
        fields["verdict"] = (
            {"type": ["boolean", "null"]}
            if group.kind == "verdict"
            else {"type": ["string", "null"], "enum": [*group.choices, None]}
        )
    elif group.kind == "text":
        fields["answer"] = {"type": ["string", "null"]}
    elif group.kind == "texts":
        fields["texts"] = ids
    else:
        pair = _closed({"question": {"type": "string"}, "answer": {"type": ["string", "null"]}})
        fields["pairs"] = {"type": "array", "items": pair}
    return {"type": "array", "items": _closed(fields)}
