"""Requests with two roots, or whose root never arrived; roots with several requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragmeter.adapters.reading.letters import letters_of
from ragmeter.adapters.reading.prompt_layout import place_in, question_in_prompt
from ragmeter.adapters.reading.step import Message

from ._contexts import Read
from ._limits import CutLength
from ._steps import call_of
from ._tree import SpanTree
from .record import SpanRecord

_BEGINNING = 64
"""Letters that identify a document."""
_REPLY = 20
"""Minimum letters of a reply that is looked for in later prompts."""
_MOST_SIBLINGS = 100
"""Maximum requests of a trace, or siblings below a missing parent, that are compared."""


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


def join_siblings(
    groups: dict[str, list[Read]],
    alone: Sequence[Read],
    tree: SpanTree,
    tops: Mapping[str, str | None],
    limit: CutLength,
) -> tuple[list[list[Read]], list[Read]]:
    """Take out the parts of requests whose own span never arrived; return them by request, and what is left.

    They stand below one missing parent, and a model in one of them was sent what another one found, or its
    reply; or a model wrote its query. A request that ran within another one's time, and whose answer that one's
    model was sent, is a part of it: the engine of another instrumentation that an agent asked. So is what was
    found below a missing parent within a request's time, if the request's model was sent it.
    """
    _join_inner(groups, tree, tops, limit)
    loose: dict[str, list[Read]] = {}
    for read in alone:
        loose.setdefault(tops[read.span.span_id] or read.span.span_id, []).append(read)
    for key, members in [*loose.items()]:
        if tree.lacks_parent(tree.spans[key]) and _is_part(tree.spans[key], members, groups, tree, limit):
            del loose[key]
            alone = [read for read in alone if read not in members]
    siblings: dict[str, list[list[Read]]] = {}
    for key, members in (*groups.items(), *loose.items()):
        top = tree.spans[tops[key] or key]
        if tree.lacks_parent(top):
            siblings.setdefault(top.parent_id or "", []).append(members)
    joined: list[list[Read]] = []
    for parts in siblings.values():
        joined += _linked(parts, limit) if 1 < len(parts) <= _MOST_SIBLINGS else []
    taken = {read.span.span_id for members in joined for read in members}
    for key in [key for key, members in groups.items() if members[0].span.span_id in taken]:
        del groups[key]
    return joined, [read for read in alone if read.span.span_id not in taken]


def _join_inner(
    groups: dict[str, list[Read]], tree: SpanTree, tops: Mapping[str, str | None], limit: CutLength
) -> None:
    asking = [key for key, members in groups.items() if _asks_model(members)]
    if not 1 < len(asking) <= _MOST_SIBLINGS:
        return
    for key in [one for one in asking if any(map(brings_documents, groups[one]))]:
        own, span = groups[key], tree.spans[key]
        said = {letters_of(read.reader.said(read.span) or "") for read in own if read.role == "model"}
        said = {words for words in said if len(words) >= _REPLY}
        for other in asking:
            outer = tree.spans[other]
            around = outer.started_ns <= span.started_ns and span.ended_ns <= outer.ended_ns
            if other != key and around and other in groups and tops[key] == tops[other] and said:
                page = _page_of(groups[other], limit)
                if any(words in page for words in said):
                    groups[other] += groups.pop(key)
                    break


def _is_part(
    span: SpanRecord, found: list[Read], groups: dict[str, list[Read]], tree: SpanTree, limit: CutLength
) -> bool:
    """Add what was found to the request that ran at the time and whose model was sent it, if there is one."""
    texts = [text for text in _handed_on(found) if len(text) >= _REPLY]
    for key, own in groups.items():
        outer = tree.spans[key]
        if texts and outer.started_ns <= span.started_ns and span.ended_ns <= outer.ended_ns:
            page = _page_of(own, limit)
            if any(text in page for text in texts):
                own.extend(found)
                return True
    return False


def _linked(siblings: list[list[Read]], limit: CutLength) -> list[list[Read]]:
    """Return the requests that several siblings make together."""
    siblings.sort(key=lambda members: min((read.span.started_ns, read.span.span_id) for read in members))
    pages = [_page_of(members, limit) for members in siblings]
    queries = [{letters_of(read.reader.query(read.span) or "") for read in members} for members in siblings]
    answers = [any(read.role == "model" and read.reader.said(read.span) for read in one) for one in siblings]
    request = [*range(len(siblings))]
    for place, members in enumerate(siblings):
        for text in _handed_on(members):
            for later in range(place + 1, len(siblings)):
                if text in queries[later] or (len(text) >= _REPLY and text in pages[later]):
                    request = [request[place] if one == request[later] else one for one in request]
                    if answers[later]:
                        break  # from here on it is the conversation
    parts: dict[int, list[list[Read]]] = {}
    idle: list[Read] = []
    for one, members in zip(request, siblings, strict=True):
        parts.setdefault(one, []).append(members)
        if not (_asks_model(members) or any(map(brings_documents, members))):
            idle += members
    joined = [[read for members in each for read in members] for each in parts.values() if len(each) > 1]
    joined = [one for one in joined if _asks_model(one) and any(map(brings_documents, one))]
    return [joined[0] + idle] if len(joined) == 1 else joined


def _page_of(members: Sequence[Read], limit: CutLength) -> str:
    """Return the letters of the first step's input and of what models were sent, without their replies."""
    first = min(members, key=lambda read: read.span.started_ns)
    texts = [first.reader.input_text(first.span)] if first.role == "step" else []
    sent = [message for read in members if read.role == "model" for message in call_of(read, limit).sent]
    texts += [message.text for message in sent if message.role != "assistant"]
    return "\0".join(map(letters_of, texts))


def _handed_on(members: Iterable[Read]) -> Iterator[str]:
    """Yield letters that show what these found or said; for a retrieval without any text, its query."""
    for read in members:
        found = [item.text for item in read.documents().items] if brings_documents(read) else []
        if read.role == "model":
            found = [read.reader.said(read.span)]
        elif brings_documents(read) and not any(found):
            found = [read.reader.query(read.span)]
        yield from filter(None, [letters_of(text or "")[:_BEGINNING] for text in found])


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
