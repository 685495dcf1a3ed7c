"""Requests with two roots, a retrieval and a later chain with its documents; roots with several requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragmeter.adapters.reading.letters import letters_of
from ragmeter.adapters.reading.prompt_layout import place_in, question_in_prompt
from ragmeter.adapters.reading.step import Message

from ._contexts import Read
from ._limits import CutLength
from ._steps import call_of

_BEGINNING = 64
"""Letters that identify a document."""
_REPLY = 20
"""Minimum letters of a reply that is looked for in later prompts."""


def join_roots(
    groups: dict[str, list[Read]],
    alone: Sequence[Read],
    reads: Mapping[str, Read],
    tops: Mapping[str, str | None],
    retrieval_above: Mapping[str, str | None],
    limit: CutLength,
) -> list[Read]:
    """Add to a root with documents as input the earlier retrieval that found them; return the rest.

    Such a retrieval has no root of its own, or one that calls no model.
    """
    outside = {key for key, members in groups.items() if not _asks_model(members)}
    offers = {
        read.span.span_id: (key, read)
        for key, members in [("", alone), *((key, groups[key]) for key in outside)]
        for read in members
        if read.is_retrieval and retrieval_above[read.span.span_id] is None
    }
    if not offers:
        return [*alone]
    joined: set[str] = set()
    for key, members in sorted(groups.items(), key=lambda item: reads[item[0]].span.started_ns):
        if not _asks_model(members) or any(map(brings_documents, members)):
            continue
        root = reads[key].span
        prompts = [text for read in members for _, text in call_of(read, limit).sent]
        given = letters_of("\0".join([reads[key].reader.input_text(root), *prompts]))
        found = [
            (place, read)
            for place, (_, read) in offers.items()
            if place not in joined
            and read.span.ended_ns <= root.started_ns
            and (
                tops[place] == tops[key]
                or read.span.parent_id == root.parent_id
                or read.span.resource != root.resource  # another process of the trace
            )
            and any(item.text for item in read.documents().items)
            and is_given_in([read], given)
        ]
        # One is given in part, where a person or a step chose; several are given whole.
        for place, read in [one for one in found if is_shown_in([one[1]], given)] or found[:1]:
            above = offers[place][0]
            joined.add(place)
            members.extend(groups.pop(above, []) if above else [read])
    return [read for read in alone if read.span.span_id not in joined]


def _asks_model(members: Iterable[Read]) -> bool:
    return any(read.role == "model" for read in members)


def brings_documents(read: Read) -> bool:
    """Return whether a span outputs documents: a reranking without them makes no request."""
    return read.is_retrieval or (read.role == "rerank" and (read.span.failed or bool(read.documents().items)))


def is_given_in(members: Iterable[Read], page: str) -> bool:
    """Return whether a text contains the beginning of a document of the retrievals, or none has a text."""
    found = [letters_of(item.text) for read in members for item in read.documents().items if item.text]
    return not found or any(text[:_BEGINNING] in page for text in found)


def is_shown_in(members: Iterable[Read], page: str) -> bool:
    """Return whether a prompt contains all documents of the retrievals."""
    found = [letters_of(item.text or "") for read in members for item in read.documents().items]
    return bool(found) and all(text in page for text in found)


def split_requests(members: list[Read]) -> list[list[Read]]:
    """Return the spans of each request below one span without data of its own.

    There are several if calls have a question and a context each, and none was sent another one's reply.
    """
    asked: dict[str, int] = {}
    said: list[str] = []
    parts: list[list[Read]] = [[]]
    for read in members:
        sent = [Message(role, text) for role, text in read.reader.prompt(read.span)]
        question = question_in_prompt(sent) if read.role == "model" and place_in(sent) else None
        page = "".join(letters_of(text) for _, text in sent)
        if any(words in page for words in said):
            return [members]
        words = letters_of(read.reader.said(read.span) or "") if question else ""
        if len(words) >= _REPLY:
            said.append(words)
        if question is not None and question not in asked:
            asked[question] = len(asked)
            parts += [[]] if len(asked) > 1 else []
        parts[asked.get(question or "", len(parts) - 1)].append(read)
    return parts
