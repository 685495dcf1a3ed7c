"""Turn an `Ask` into chat messages and a JSON schema, with untrusted texts between delimiters.

`Batching` calls it. It decides what the judge reads; it sends nothing and reads no reply.

Delimiter and ids are derived from the texts and a secret that is drawn at random when the judge is
built: the authors of the texts cannot guess them, and they differ from request to request.  The
delimiter is the same for the metrics of one request, so that a provider's prompt cache can share
their common beginning; the ids differ for every ask, so that a reply to another ask answers nothing.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ragmeter.metrics._connection.sent_text import sendable
from ragmeter.metrics.judged.prompts import load_prompt

from .protocol import Ask, Group, Passage

_NUMBERED = re.compile(r"([a-z]+)(\d+)")
_MOST_WRITTEN_OUT = 12
"""Most ids listed individually; more are written as ranges, which need fewer tokens."""
_MARKER_LENGTH = 12
"""Decimal digits: models read three of them as one token."""
_LETTERS = "bcdfghjkmpqvwxz"
"""Letters of a tag: no vowels, so that it is never a word, and none that is easily misread."""
_TAG_LENGTH = 3


@dataclass(frozen=True, slots=True)
class SentAsk:
    """An ask in its sent form."""

    messages: list[dict[str, str]]
    """System and user message."""
    tag: str
    """The beginning of every id in them, unique to this ask and unknown to the authors of the texts."""
    task: str
    """The trusted text among them: rules, task and form."""


def write(ask: Ask, open_ids: Collection[str], secret: bytes) -> SentAsk:
    """Write the messages that ask for the answers to `open_ids`, and only those.

    The most constant parts come first, for the sake of prompt caches: the rules, then the delimiter, the
    chunks, the rest of the texts, and at the end the task with its ids.
    """
    prompt = load_prompt(ask.prompt_for(open_ids))
    shown = [
        passage
        for passage in ask.passages
        if passage.only_for is None or not passage.only_for.isdisjoint(open_ids)
    ]
    wanted = [item.id for group in ask.groups for item in group.items if item.id in open_ids]
    marker, tag = marker_for(secret, shown), tag_for(secret, prompt.name, shown, wanted)
    rules, task = prompt.rules.replace("{marker}", marker), prompt.task.replace("{tag}", tag)
    parts = [enclose(passage, marker, tag) for passage in shown]
    parts += [task, f"Ids to answer: {', '.join(_id_ranges(wanted, tag))}"]
    messages = [{"role": "system", "content": rules}, {"role": "user", "content": "\n".join(parts)}]
    return SentAsk(messages, tag, f"{rules}\n{task}")


def _id_ranges(ids: Sequence[str], tag: str) -> Iterable[str]:
    """List ids individually if they are few, else as ranges: ``c1-c3``, ``r1``."""
    if len(ids) <= _MOST_WRITTEN_OUT:
        return [tag + item_id for item_id in ids]
    runs: list[tuple[str, int, int]] = []
    for item_id in ids:
        match = _NUMBERED.fullmatch(item_id)
        letters, number = (match[1], int(match[2])) if match else (item_id, -1)
        if runs and number > 0 and runs[-1][0] == letters and runs[-1][2] == number - 1:
            runs[-1] = (letters, runs[-1][1], number)
        else:
            runs.append((letters, number, number))
    return [_span(tag + letters, first, last) for letters, first, last in runs]


def _span(letters: str, first: int, last: int) -> str:
    if first < 0:
        return letters
    return f"{letters}{first}" if first == last else f"{letters}{first}-{letters}{last}"


def schema_for(ask: Ask, open_ids: Collection[str]) -> dict[str, Any]:
    """Return the JSON schema of the reply to `open_ids`: the same for all asks of one prompt.

    The ids are not part of it, because providers compile and keep each new schema.
    """
    return _closed_object({group.name: _group_schema(group) for group in ask.groups_for(open_ids)})


def _closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _group_schema(group: Group) -> dict[str, Any]:
    """Return the schema of one group, without unions, which some endpoints refuse or ignore."""
    text: dict[str, Any] = {"type": "string"}
    texts = {"type": "array", "items": text}
    if group.compact:
        explained = {"type": "array", "items": _closed_object({"id": text, "reason": text})}
        return _closed_object({"true": texts, "false": explained if group.reasons else texts})
    fields: dict[str, Any] = {"id": text}
    if group.kind in ("verdict", "choice"):
        if group.reasons:
            fields["reason"] = text
        words = ("true", "false") if group.kind == "verdict" else group.choices
        fields["verdict"] = {"type": "string", "enum": [*words, "unknown"]}
    elif group.kind == "text":
        fields["answer"] = text
    elif group.kind == "texts":
        fields["texts"] = texts
    else:
        pair = _closed_object({"question": text, "answer": text})
        fields["pairs"] = {"type": "array", "items": pair}
    return {"type": "array", "items": _closed_object(fields)}


def marker_for(secret: bytes, passages: Sequence[Passage]) -> str:
    """Return a delimiter that occurs in no passage.

    It depends only on chunks and question if there are any, else on all texts.
    """
    # All metrics of one request show the question and its chunks.
    common = [one for one in passages if one.title == "question" or one.title.startswith("chunk ")] or passages
    texts = [_body(passage, "") for passage in passages]
    seed = _bytes("\x00".join(_words(passage) for passage in common))
    attempt = 0
    while True:
        number = _pseudo_random(secret, seed + attempt.to_bytes(4, "big")) % 10**_MARKER_LENGTH
        marker = f"{number:0{_MARKER_LENGTH}}"
        if not any(marker in text for text in texts):
            return marker
        attempt += 1


def tag_for(secret: bytes, prompt: str, passages: Sequence[Passage], ids: Collection[str]) -> str:
    """Return the three letters that begin every id of this ask: one of 3375 combinations."""
    texts = "\x00".join(f"{passage.title}\x00{_body(passage, '')}" for passage in passages)
    seed = _bytes("\x00".join([prompt, *ids, texts]))
    number = _pseudo_random(secret, seed)
    return "".join(_LETTERS[number // len(_LETTERS) ** place % len(_LETTERS)] for place in range(_TAG_LENGTH))


def _pseudo_random(secret: bytes, seed: bytes) -> int:
    return int.from_bytes(hmac.new(secret, seed, sha256).digest()[:8], "big")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _words(passage: Passage) -> str:
    if passage.lines:
        return " ".join(" ".join(text.split()) for _, text in passage.lines)
    return " ".join(passage.text.split())


def _body(passage: Passage, tag: str) -> str:
    if not passage.lines:
        return sendable(passage.text)
    # One line per part: a text with its own line break and id cannot imitate a part.
    return "\n".join(f"{tag}{part_id}: {' '.join(sendable(text).split())}" for part_id, text in passage.lines)


def enclose(passage: Passage, marker: str, tag: str = "") -> str:
    """Return `passage` between its delimiters, ready to be sent; `tag` begins the ids of its lines."""
    return f"<<{marker} {passage.title}>>\n{_body(passage, tag)}\n<<{marker}>>"
