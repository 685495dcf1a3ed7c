"""Spans of no known convention, read by names, words and shapes.

Emitters differ in names and agree in content: a kind (``span.kind``), the input (``input``, ``arguments``,
``prompt``) and the output (``output``, ``result``, ``documents``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.documents import documents_in
from ragmeter.adapters.reading.literals import literal_in
from ragmeter.adapters.reading.messages import messages_in
from ragmeter.adapters.reading.request_texts import answer_in, query_in, question_in
from ragmeter.adapters.reading.results import ANY_TOOL, cut, reads_as_retrieved
from ragmeter.adapters.reading.values import is_hidden, mapping_of, opened

from ._messages import said_in, sent_in
from ._own_shapes import DOCUMENTS, hits_in, whole_request_in
from ._reader import Documents, Reader, Role, reported_documents, rows_under

_FOREIGN = re.compile(
    r"(?:http|url|rpc|net|network|server|client|messaging|exception|code|thread|user_agent|telemetry|otel|process|"
    r"k8s|host|os|faas|cloud|container|graphql|peer|enduser|event|feature_flag|log|db(?!\.vector\.|\.query\.result))\."
)
_KIND = re.compile(
    r"(?:.*[._:])?(?:(?:span|observation|run|step|node|action)[._]?(?:kind|type|attributes)|subtype|kind)|"
    r"llm\.request\.type|gen_ai\.operation\.name",
    re.IGNORECASE,
)
_IN = re.compile(
    r"(?:.*[._:])?(?:\w+_)?(question|query|query[._]text|query[._]content|inputs?|prompts?|messages|arguments|args|request)"
    r"(?:[._](?:value|json|text|data|body))?",
    re.IGNORECASE,
)
_OUT = re.compile(
    r"(?:.*[._:])?(?:\w+_)?(answer|choices|completions?|reply|outputs?|response|results?|return(?:_value)?|documents?|docs|contexts?|chunks|hits|"
    r"passages|nodes|matches)(?:[._](?:value|json|text|data|body|messages))?",
    re.IGNORECASE,
)
_ROLES: Mapping[Role, re.Pattern[str]] = {
    "evaluation": re.compile(r"(?<!retri)eval|scor(?:e|ing)|judge|guardrail", re.IGNORECASE),
    "rerank": re.compile(r"re-?rank", re.IGNORECASE),
    "other": re.compile(r"embed", re.IGNORECASE),
    "retrieval": re.compile(r"retriev|\brag\b|vector|knowledge|search", re.IGNORECASE),
    "tool": re.compile(r"tool", re.IGNORECASE),
    "step": re.compile(r"chat_client|advisor|agent|chain|workflow", re.IGNORECASE),
    "model": re.compile(r"llm|model|generation|chat|completion", re.IGNORECASE),
    "join": re.compile(r"flow|task|step|function|pipeline|request|^span$", re.IGNORECASE),
}
"""In the order in which kinds are tried; the last one is a step as well."""
_PARTS = frozenset(("model_chunk", "client", "server", "internal", "producer", "consumer"))
"""Kinds that do not describe a span's role."""
_STORES = re.compile(
    r"vector|chroma|pinecone|qdrant|weaviate|milvus|faiss|lancedb|marqo|vespa|opensearch|elasticsearch|turbopuffer",
    re.IGNORECASE,
)
_WRITES = re.compile(r"\b(?:add|upsert|insert|delete|update|create|index|write|drop)", re.IGNORECASE)
_RETRIEVES = re.compile(
    r"retriev|similarity|"
    r"(?:vector|semantic|hybrid|knowledge|doc\w*|index|kb|rag)[ _.-]?(?:search|query|lookup)|"
    r"search[ _.-]?(?:doc|index|knowledge|kb|vector|chunk|passage)|fetch[ _.-]?(?:doc|context|chunk)",
    re.IGNORECASE,
)
_ROW = re.compile(
    r"((?:.*[._:])?(?:documents?|docs?|contexts?|chunks?|hits?|passages?|nodes?|match(?:es)?)\.)\d+(?:\..+)?"
)
_MODELS = re.compile(r"(?:.*[._])?(?:request\.)?(?:model|model_name|model_id|llm\.model)", re.IGNORECASE)
_REPLIED = re.compile(r"(?:completion|output)_tokens$|finish_reasons?$", re.IGNORECASE)
_TOOLS = ("gen_ai.tool.name", "tool.name", "tool_name")
_QUESTIONS = "question query inputs input prompt messages".split()
_QUERIES = [
    *"query.content query.text query_text query question".split(),
    *"arguments args inputs input request prompt".split(),
]
_ANSWERS = "answer reply completion choices output outputs response result return return_value".split()
"""Words for the content of an attribute, the most specific first."""


class _Fields(NamedTuple):
    """The content of a span's attributes, by the words of their names."""

    given: Mapping[str, Any]
    out: Mapping[str, Any]
    kind: Role | None
    has_model: bool


@lru_cache(maxsize=4096)
def _place(key: str) -> tuple[Literal["kind", "in", "out", "model", "row"], str] | None:
    """Return the content of an attribute by its name. The same names come with every request.

    Of a field of a flattened list of documents, ``rag.chunks.0.text``, it is the prefix.
    """
    if _FOREIGN.match(key):
        return None
    if _KIND.fullmatch(key):
        return "kind", ""
    for side, rule in (("out", _OUT), ("in", _IN)):
        match = rule.fullmatch(key)
        if match is not None:
            return ("in" if side == "in" else "out"), match[1].lower()
    if (row := _ROW.fullmatch(key)) is not None:
        return "row", row[1]
    return ("model", "") if _MODELS.fullmatch(key) else None


def _fields(span: SpanRecord) -> _Fields:
    given: dict[str, Any] = {}
    out: dict[str, Any] = {}
    kind: Role | None = None
    has_model = False
    prefix = ""
    for key, value in span.attributes.items():
        place = _place(key)
        if place is None or value is None or value == "":
            continue
        if place[0] == "kind":
            kind = kind or _role_of(value)
        elif place[0] == "model":
            has_model = True
        elif place[0] == "row":
            prefix = place[1]
        else:
            (given if place[0] == "in" else out).setdefault(place[1], _plain(value))
    if prefix:
        rows = [row.get("", row) for row in rows_under(span.attributes, prefix).values()]
        if any(isinstance(row, dict) for row in rows) or reads_as_retrieved(cut(rows, ANY_TOOL) or ()):
            out.setdefault("documents", rows)
    return _Fields(given, out, kind, has_model)


def _plain(value: Any) -> Any:
    """Return the value wrapped in a mapping of ``type`` and ``value``, else the value itself."""
    found = literal_in(opened(value))
    if isinstance(found, dict) and set(found) == {"type", "value"}:
        return opened(found["value"])
    return found


def _role_of(value: Any) -> Role | None:
    kind = mapping_of(value).get("type", value)
    if not isinstance(kind, str) or kind.lower() in _PARTS:
        return None
    found: Role | None = next((role for role, words in _ROLES.items() if words.search(kind)), None)
    return "step" if found == "join" else found


_OPERATIONS = (
    "gen_ai.operation.name", "openinference.span.kind", "db.operation", "db.operation.name"
)  # fmt: skip


def is_indexing(span: SpanRecord) -> bool:
    """Return whether a span embeds, or writes into a store: neither is a question."""
    operations = " ".join(str(span.attributes.get(key, "")) for key in _OPERATIONS)
    return "embed" in f"{operations} {span.name}".lower() or is_writing(span)


def is_writing(span: SpanRecord) -> bool:
    """Return whether a span writes into a vector store."""
    operations = " ".join(str(span.attributes.get(key, "")) for key in _OPERATIONS)
    return _is_store(span) and _WRITES.search(f"{operations} {span.name}") is not None


def _is_store(span: SpanRecord) -> bool:
    system = span.attributes.get("db.system.name", span.attributes.get("db.system"))
    return (isinstance(system, str) and _STORES.search(system) is not None) or any(
        key.startswith("db.vector.") for key in span.attributes
    )


class AnySpan(Reader):
    """Reads spans by names, words and shapes."""

    name = "any"
    switch = "let the instrumentation record inputs and outputs"

    def role(self, span: SpanRecord) -> Role | None:
        attributes = span.attributes
        if not attributes:
            return self._by_shape(span)
        if _is_store(span):
            return "other" if is_indexing(span) else "retrieval"
        fields = _fields(span)
        if fields.kind is not None:
            return fields.kind
        if any(key in attributes for key in _TOOLS):
            return "tool"
        called = {"prompt", "messages", "request"} & fields.given.keys() or "response" in fields.out
        if sent_in(span) or (fields.has_model and called):
            return "model"
        listed = any(
            documents_in(value) is not None and (word in DOCUMENTS or _RETRIEVES.search(span.name) is not None)
            for word, value in fields.out.items()
            if not isinstance(value, str)
        )
        if listed:
            return "retrieval"
        if fields.given and fields.out:
            return "step"
        if fields.has_model and any(attributes.get(key) for key in filter(_REPLIED.search, attributes)):
            return "model"  # its texts are switched off
        if "gen_ai.operation.name" in attributes or fields.has_model:
            return "other"
        return self._by_shape(span)

    def _by_shape(self, span: SpanRecord) -> Role | None:
        """Return the role of a span that only its own JSON, or its events, describe."""
        if hits_in(span):
            return "other" if _RETRIEVES.search(span.name) is None else "retrieval"
        return None if whole_request_in(span) is None else "step"

    def tool_name(self, span: SpanRecord) -> str:
        named = next((span.attributes[key] for key in _TOOLS if key in span.attributes), None)
        return str(named or span.name).removeprefix("execute_tool ").removeprefix("tool: ")

    def question(self, span: SpanRecord) -> str | None:
        return _first(_fields(span).given, _QUESTIONS, question_in)

    def query(self, span: SpanRecord) -> str | None:
        return _first(_fields(span).given, _QUERIES, query_in)

    def answer(self, span: SpanRecord) -> str | None:
        return _first(_fields(span).out, _ANSWERS, answer_in)

    def answer_beside(self, span: SpanRecord) -> str | None:
        return self.answer(span) if _fields(span).out.keys() & DOCUMENTS else None

    def documents(self, span: SpanRecord) -> Documents:
        hits = hits_in(span)
        if hits:
            rows = cut(hits, ANY_TOOL)
            return Documents(missing="unreadable_result") if rows is None else Documents(rows)
        value = _out(span)
        documents = reported_documents(span, value, "content_off", "unreadable_result")
        if documents.missing == "unreadable_result":
            out = _fields(span).out.values()
            listed = [one for item in out if (one := documents_in(item)) is not None]
            found = listed[0] if len(listed) == 1 else cut(value, ANY_TOOL)
            documents = documents if found is None else Documents(found)
        return documents

    def input_text(self, span: SpanRecord) -> str:
        return json.dumps([*_fields(span).given.values()], ensure_ascii=False, default=str)

    def result(self, span: SpanRecord) -> Any:
        return hits_in(span) or _out(span)

    def prompt(self, span: SpanRecord) -> list[tuple[str, str]]:
        found = sent_in(span)
        if found:
            return found
        given = _fields(span).given
        for word in ("messages", "input", "inputs", "prompt", "prompts", "request"):
            value = given.get(word)
            messages = messages_in(value)
            if messages:
                return messages
            text = value if isinstance(value, str) else question_in(value)
            if text:
                return [("user", text)]
        return []

    def said(self, span: SpanRecord) -> str | None:
        return said_in(span) or self.answer(span)

    def hides(self, span: SpanRecord, side: Literal["input", "output"]) -> bool:
        fields = _fields(span)
        return any(map(is_hidden, (fields.given if side == "input" else fields.out).values()))


def _out(span: SpanRecord) -> Any:
    out = _fields(span).out
    named = [value for word, value in out.items() if word in DOCUMENTS]
    return named[0] if named else next(iter(out.values()), None)


class OneSpan(AnySpan):
    """Reads spans that have a whole request each."""

    def query(self, span: SpanRecord) -> str | None:
        found = whole_request_in(span)
        return None if found is None else found.question

    def documents(self, span: SpanRecord) -> Documents:
        found = whole_request_in(span)
        return Documents() if found is None else Documents(found.documents)

    def answer_beside(self, span: SpanRecord) -> str | None:
        found = whole_request_in(span)
        return None if found is None else found.answer


def _first(values: Mapping[str, Any], words: Sequence[str], read: Any) -> str | None:
    for word in words:
        found = read(values[word]) if word in values else None
        if isinstance(found, str):
            return found
    return None
