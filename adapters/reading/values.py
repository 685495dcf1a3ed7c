"""The content of an attribute's value: documents, messages, a question, an answer, by their shape.

Values come as plain text, as JSON, as JSON in JSON, or as the ``repr`` of an object; a ``repr`` is never text
of a request. Knows no convention, only the usual names in frameworks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragmeter.requests.refusals import is_refusal_reason, refusal_of, refusal_part

from .fields import FIELD_NAMES, ROLES
from .literals import literal_in

MAX_DEPTH = 8
"""Levels of mappings and lists, JSON in JSON among them, that are read."""


class Document(NamedTuple):
    """One retrieved document, as a span reports it."""

    text: str | None
    """Its text; None if the span does not contain it."""
    id: str | None = None
    """Its id."""
    score: float | None = None
    """The retriever's own score."""
    metadata: Mapping[str, Any] = {}
    """The fields beside the text."""
    hidden: bool = False
    """Whether the user had its text replaced."""


_HIDDEN = re.compile(r"[\[<({*_]*redacted[\]>)}*_]*|\*{3,}", re.IGNORECASE)


def is_hidden(value: object) -> bool:
    """Return whether a value is a placeholder for text that the user had removed."""
    return isinstance(value, str) and len(value) < 24 and _HIDDEN.fullmatch(value.strip()) is not None


_REPR = re.compile(
    r"<(?:async_)?(?:generator|coroutine|function|bound method) ?|<[\w.]+ object at 0x|"
    r"<[\w.]+ object>|<[A-Z]\w+\(|[A-Z]\w+\(_?[a-z]\w*="
)


def is_repr(text: str) -> bool:
    """Return whether a text is the ``repr`` of an object."""
    return _REPR.match(text.lstrip()) is not None


def opened(value: Any) -> Any:
    """Return the value of a JSON text; anything else unchanged."""
    if isinstance(value, str) and value[:1] in '{["' and len(value) > 1:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def is_broken(value: Any) -> bool:
    """Return whether a text begins like JSON but does not parse: cut off."""
    return isinstance(value, str) and value[:2] in ('{"', '["', "[{") and opened(value) is value


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return a value, or the JSON in it, if that is a mapping; else an empty one."""
    found = opened(value)
    return found if isinstance(found, dict) else {}


_TEXT_KEYS = FIELD_NAMES["document_text"]
_ID_KEYS = FIELD_NAMES["document_id"]
_SCORE_KEYS = FIELD_NAMES["document_score"]
_METADATA_KEYS = FIELD_NAMES["document_metadata"]
_LIST_KEYS = FIELD_NAMES["documents"]
_FIELDS = frozenset((*_ID_KEYS, *_SCORE_KEYS, *_METADATA_KEYS, *_TEXT_KEYS, "type"))


def documents_in(value: Any, depth: int = 0) -> tuple[Document, ...] | None:
    """Return the documents in a value, in its order; None if it has none and is not an empty list."""
    found = opened(value)
    if depth > MAX_DEPTH:
        return None
    if isinstance(found, (list, tuple)):
        found = [item for item in found if item is not None] or found
        documents = tuple(filter(None, (_document(item, depth + 1) for item in found)))
        if len(documents) == len(found):
            return documents
        if len(found) == 1:
            return documents_in(found[0], depth + 1)
        return None
    if isinstance(found, dict):
        inner = _constructor_arguments(found)
        if inner is not found:
            return documents_in(inner, depth + 1)
        for key in _LIST_KEYS:
            is_open = isinstance(opened(found.get(key)), (list, tuple, dict))
            if is_open and (listed := documents_in(found[key], depth + 1)) is not None:
                return listed
        for rows in found.values():
            if isinstance(rows, list) and rows and all(isinstance(item, dict) for item in rows):
                listed = documents_in(rows, depth + 1)
                if listed and all(item.text is not None for item in listed):
                    return listed
    return None


def _constructor_arguments(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments in LangChain's JSON of an object."""
    if value.get("type") == "constructor" and isinstance(value.get("kwargs"), dict):
        inner: Mapping[str, Any] = value["kwargs"]
        return inner
    return value


def _document(value: Any, depth: int) -> Document | None:
    found = opened(value)
    if isinstance(found, str):
        if is_hidden(found):
            return Document(None, hidden=True)
        return None if is_repr(found) else Document(found)
    if isinstance(found, (list, tuple)) and len(found) == 2 and _number(found[1]) is not None:
        document = _document(found[0], depth + 1)
        return None if document is None else document._replace(score=_number(found[1]))
    if not isinstance(found, dict) or depth > MAX_DEPTH:
        return None
    found = _constructor_arguments(found)
    if "role" in found or found.get("type") in ROLES:
        return None  # a message
    fields: Mapping[str, Any] = found
    if any(type(key) is not str or key.startswith("document.") for key in found):
        fields = {str(key).removeprefix("document."): item for key, item in found.items()}
    elif all(key[:1].isupper() for key in found):  # as Go and C# export them: ID, PageContent
        fields = {key.lower() if key.isupper() else key[0].lower() + key[1:]: found[key] for key in found}
    for key in ("node", "document"):
        if key in fields and isinstance(opened(fields[key]), dict):
            inner = _document(fields[key], depth + 1)
            score = _first_number(fields)
            return inner if inner is None or score is None else inner._replace(score=score)
    text, identity = _first_text(fields), _first_id(fields)
    if text is None and (identity is None or not _FIELDS.issuperset(fields)):
        return None  # an object with an id and other fields than a document's
    hidden = is_hidden(text)
    kept = next(filter(fields.__contains__, _METADATA_KEYS), None)
    metadata = None if kept is None else opened(fields[kept])
    return Document(
        None if hidden else text,
        None if is_hidden(identity) else identity,
        _first_number(fields),
        metadata if isinstance(metadata, dict) else {},
        hidden,
    )


def _first_text(fields: Mapping[str, Any]) -> str | None:
    """Return the text of a document: a string, or the one in a mapping of parts."""
    for key in _TEXT_KEYS:
        value = fields.get(key)
        if isinstance(value, dict):
            value = value.get("text")
        if isinstance(value, list) and value:  # parts of content
            value = _text_of(value) or None
        if isinstance(value, str):
            return value
    return None


def _first_id(fields: Mapping[str, Any]) -> str | None:
    return next((str(fields[key]) for key in _ID_KEYS if isinstance(fields.get(key), (str, int))), None)


def _first_number(fields: Mapping[str, Any]) -> float | None:
    numbers = (_number(fields.get(key)) for key in _SCORE_KEYS)
    return next((number for number in numbers if number is not None), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_REPEATED = frozenset(
    """tool tool_call tool-call tool_call_response tool-result tool_result thinking reasoning""".split()
)


_CONVERSATIONS = FIELD_NAMES["conversation"]
_INSTRUCTIONS = ("system", "instructions", "system_instruction", "systemInstruction", "system_prompt")
_ASKED_BESIDE = ("input", "prompt", "query", "question")
_RESULTS = ("toolResult", "tool_call_result", "function_response", "functionResponse")


def messages_in(value: Any, depth: int = 0) -> list[tuple[str, str]]:
    """Return role (``user``, ``assistant``, ``system``, ``tool``) and text of each message in a value."""
    found = opened(value)
    if depth > MAX_DEPTH:
        return []
    if isinstance(found, dict):
        message = _message(found)
        if message is not None:
            return [message]
        sent = next(
            (inner for key in _CONVERSATIONS if key in found and (inner := messages_in(found[key], depth + 1))),
            [],
        )
        instructions = _instructions_in(found)
        if instructions and (not sent or sent[-1][0] != "user"):
            asked = (found.get(key) for key in _ASKED_BESIDE)
            sent += [("user", text) for text in asked if isinstance(text, str) and text][:1]
        return [one for one in instructions if one not in sent] + sent if sent else []
    if isinstance(found, (list, tuple)):
        if len(found) == 2 and all(isinstance(item, str) for item in found) and found[0] in ROLES:
            return [(ROLES[found[0]], found[1])]
        return [message for item in found for message in messages_in(item, depth + 1)]
    return []


def _instructions_in(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the system message that a call has beside its messages, as Anthropic's and Google's calls do."""
    config = fields.get("config")
    values = [home.get(key) for home in (fields, config) if isinstance(home, dict) for key in _INSTRUCTIONS]
    parts = (
        {"role": "system", "content": one} if not isinstance(one, dict) else {**one, "role": "system"}
        for one in values
        if one
    )
    return [found for part in parts if (found := _message(part)) is not None and found[1]][:1]


def _message(value: Mapping[str, Any]) -> tuple[str, str] | None:
    inner = _constructor_arguments(value)
    named = inner.get("role")
    if named is None and value is not inner and isinstance(value.get("id"), list):
        named = str(value["id"][-1]) if value["id"] else None
    if named is None:
        named = inner.get("type")
        if isinstance(inner.get("data"), dict):
            inner = inner["data"]
    if not isinstance(named, str) or (named not in ROLES and "role" not in inner):
        return None
    if not any(key in inner for key in ("content", "parts", "text", "blocks", "tool_calls")):
        return None
    content = next((inner[key] for key in ("content", "parts", "blocks", "text") if inner.get(key)), None)
    if ROLES.get(named) == "tool" and _are_records(content):
        return "tool", json.dumps(content, ensure_ascii=False, default=str)
    text = _text_of(content) or refusal_of(inner)
    results = "" if text else "\n\n".join(_results_in(content))
    return ("tool", results) if results else (ROLES.get(named, named), text or "")


def _results_in(content: Any) -> Iterator[str]:
    """Yield the results of tools among the parts of a message."""
    for part in content if isinstance(content, (list, tuple)) else [content]:
        if not isinstance(part, dict):
            continue
        if part.get("type") in _REPEATED:
            names: Sequence[str] = ("response", "result", "output", "content")
            value = next((part[name] for name in names if part.get(name) is not None), None)
        else:
            inner: Mapping[str, Any] = next(
                (part[name] for name in _RESULTS if isinstance(part.get(name), dict)), {}
            )
            value = next((inner[name] for name in ("response", "result", "content") if name in inner), None)
        if isinstance(value, dict) and set(value) == {"type", "value"}:
            value = value["value"]
        is_apart = part.get("type") in _REPEATED and _are_records(value)
        text = value if isinstance(value, str) else "" if is_apart else _text_of(value)
        if text or value:
            yield text or json.dumps(value, ensure_ascii=False, default=str)


def _are_records(value: Any) -> bool:
    """Return whether a result is a list of records: several, or with more than a text, and no content parts."""
    return isinstance(value, list) and any(
        isinstance(part, dict) and not {"type", "json"} & part.keys() and len(part) + len(value) > 2
        for part in value
    )


def _text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or the text among its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, (list, tuple)):
        return ""
    texts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and (shown := _shown_document(part)) is not None:
            texts.append(shown)
        elif isinstance(part, dict) and part.get("type") not in (*_REPEATED, "blob"):
            text = part.get("text", part.get("content", part.get("value", refusal_part(part))))
            if text is None and "json" in part:
                text = json.dumps(part["json"], ensure_ascii=False, default=str)
            if isinstance(text, dict):
                text = text.get("value", text.get("text"))
            if isinstance(text, str):
                texts.append(text)
    return "\n".join(texts)


_DOCUMENT_PARTS = ("document", "search_result", "searchResult")


def _shown_document(part: Mapping[str, Any]) -> str | None:
    """Return a document among the parts of a message, as an element with its name; None for other parts."""
    kind = next((name for name in _DOCUMENT_PARTS if name in (*part, part.get("type"))), None)
    fields = part if kind is None else part.get(kind, part)
    if kind is None or not isinstance(fields, dict):
        return None
    source = fields.get("source")
    inner = source if isinstance(source, dict) else fields
    text = next((found for key in ("data", "text", "content") if (found := _text_of(inner.get(key)))), "")
    name = next((fields[key] for key in ("title", "name") if fields.get(key)), source)
    return f'<document source="{name if isinstance(name, str) else ""}">{text}</document>' if text else None


_REASON = re.compile(r"(?:.*[._])?(?:finish|stop)_?reasons?", re.IGNORECASE)
_REFUSING = ("refus", "filter", "safety", "prohibited", "blocklist", "guardrail", "spii", "toxic")
_REPLIES = ("messages", "choices", "generations", "replies", "message", "output", "data")


def refuses(attributes: Mapping[str, Any], key: str) -> bool:
    """Return whether a span reports that the model refused, or that its reply was filtered.

    Of a conversation under `key`, the last message counts.
    """
    for name, value in attributes.items():
        if name.endswith("message_content.type"):
            if value == "refusal":
                return True
        elif name.endswith(".refusal"):
            if isinstance(value, str) and value:
                return True
        elif name.lower().endswith(("reason", "reasons")) and _REASON.fullmatch(name):
            reasons = opened(value)
            if any(map(is_refusal_reason, reasons if isinstance(reasons, (list, tuple)) else [reasons])):
                return True
    return any(
        isinstance(value := attributes.get(name), str)
        # A search for one word after the other is many times faster than one pattern of them all.
        and any(map(value.lower().__contains__, _REFUSING))
        and _holds_refusal(opened(value), 0)
        for name in {key, "gen_ai.output.messages"}
    )


def _holds_refusal(value: Any, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, (list, tuple)):
        return bool(value) and _holds_refusal(value[-1], depth + 1)
    if not isinstance(value, dict):
        return False
    fields = _constructor_arguments(value)
    parts = {"content": fields.get("parts")}
    if refusal_of(fields) is not None or refusal_of(parts) is not None:
        return True
    if _message(value) is not None:
        return False
    return any(_holds_refusal(opened(fields.get(name)), depth + 1) for name in _REPLIES)


def last_of(messages: Sequence[tuple[str, str]], role: str) -> str | None:
    """Return the text of the last non-empty message of a role."""
    return next((text for named, text in reversed(messages) if named == role and text.strip()), None)


_QUESTION_KEYS = FIELD_NAMES["question"]
_QUERY_KEYS = (*FIELD_NAMES["query"], *_QUESTION_KEYS, *FIELD_NAMES["arguments"])
_ANSWER_KEYS = FIELD_NAMES["output"]


def question_in(value: Any) -> str | None:
    """Return the question in a request's input: a text, a field, or the last user message."""
    return _message_text(opened(value), _QUESTION_KEYS, "user", 0)


def query_in(value: Any) -> str | None:
    """Return the query in the input of a retriever or a tool."""
    return _message_text(opened(value), _QUERY_KEYS, "user", 0)


def answer_in(value: Any) -> str | None:
    """Return the answer in a request's output: a text, a field, or the last assistant message."""
    value = opened(value)
    if isinstance(value, str) and is_repr(value):
        fields = literal_in(f"[{value}]")
        given = fields[0] if isinstance(fields, list) and isinstance(fields[0], dict) else {}
        value = {
            key: text
            for key in _ANSWER_KEYS
            if isinstance(text := given.get(key), dict) or (isinstance(text, str) and text[-3:] != "...")
        }  # others are cut
    return _message_text(value, _ANSWER_KEYS, "assistant", 0)


_FORM_KEYS = frozenset(FIELD_NAMES["answer"])


def answer_in_form(reply: str | None) -> str | None:
    """Return the answer in a reply that is a JSON object with a field for it; any other reply unchanged."""
    form = mapping_of(reply) if reply and reply[:1] == "{" else {}
    return (answer_in(form) if _FORM_KEYS & form.keys() else None) or reply


def _message_text(value: Any, keys: Sequence[str], role: str, depth: int) -> str | None:
    if isinstance(value, str):
        inner = opened(value) if depth else value
        if inner is not value:
            return _message_text(inner, keys, role, depth + 1)
        is_absent = not value.strip() or (value == "null" and not depth)  # JSON of nothing
        return None if is_absent or is_hidden(value) or is_repr(value) else value
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, (list, tuple)):
        said = last_of(messages_in(value), role)
        if said is not None:
            return said if not is_hidden(said) else None
        return _message_text(value[0], keys, role, depth + 1) if len(value) == 1 else None
    if not isinstance(value, dict) or (keys is _QUESTION_KEYS and value.get("type") == "tool_call"):
        return None  # what a model asks a tool is not what the user asked
    fields = _constructor_arguments(value)
    message = _message(value)
    if message is not None:
        return message[1] if message[0] == role and message[1].strip() else None
    for key in keys:
        if key in fields:
            found = _message_text(fields[key], keys, role, depth + 1)
            if found is not None:
                return found
    said = last_of(messages_in(fields), role)
    if said is not None:
        return said
    return _below(fields, keys, role, depth)


def _below(fields: Mapping[str, Any], keys: Sequence[str], role: str, depth: int) -> str | None:
    """Return the text one level down, by the first key that has one there; else a lone text."""
    inner = [item for item in map(opened, fields.values()) if isinstance(item, dict)]
    for key in keys:
        for item in inner:
            if key in item:
                found = _message_text(item[key], keys, role, depth + 2)
                if found is not None:
                    return found
    for item in inner:
        found = _message_text(item, keys, role, depth + 1)
        if found is not None:
            return found
    return lone_text_in(fields) if keys is not _QUESTION_KEYS else None


def arguments_in(value: Any) -> list[str]:
    """Return the texts among a function's arguments, or the only text of any other mapping."""
    fields = mapping_of(value)
    args, named = fields.get("args"), fields.get("kwargs")
    if isinstance(args, list) and isinstance(named, dict):
        return [item for item in (*args, *named.values()) if isinstance(item, str) and item.strip()]
    lone = lone_text_in(fields)
    return [] if lone is None else [lone]


def lone_text_in(value: Any) -> str | None:
    """Return the only text of a mapping that has nothing else, under any name."""
    fields = opened(value)
    if not isinstance(fields, dict) or len(fields) != 1:
        return None
    (text,) = fields.values()
    if isinstance(text, dict):
        return lone_text_in(text)
    if not isinstance(text, str) or not text.strip() or is_repr(text) or is_hidden(text):
        return None
    return text


_CONTEXT_KEYS = FIELD_NAMES["context"]
_CONTEXT_MARKS = ("page_content", "pageContent", *(f'"{key}"' for key in _CONTEXT_KEYS))


def has_context(values: Iterable[Any]) -> bool:
    """Return whether values contain documents passed on: by their shape, or under a name for them."""
    return any(
        _holds_documents(opened(value))
        for value in values
        if isinstance(value, str) and any(mark in value for mark in _CONTEXT_MARKS)
    )


def _holds_documents(value: Any) -> bool:
    # A context is passed to a prompt together with its question.
    return any(
        not item.keys().isdisjoint(("page_content", "pageContent"))
        or (any(key in item for key in _CONTEXT_KEYS) and any(key in item for key in _QUESTION_KEYS[:6]))
        for item in _descend(value, 0)
        if isinstance(item, dict)
    )


def _descend(value: Any, depth: int) -> Iterator[Any]:
    yield value
    if depth <= MAX_DEPTH and isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _descend(item, depth + 1)
