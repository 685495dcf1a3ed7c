"""Tools whose results are retrieved documents, and the rules that divide a result into documents.

No convention marks a tool call as a retrieval, or the end of a document in a tool's text; both are the user's
rules (`RetrievalTool`), or follow from the shape (`_shapes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ragmeter.metrics import ConfigurationError
from ragmeter.settings.options import rules_in_environment

from .documents import Document, documents_in
from .fields import FIELD_NAMES
from .layout import pieces_of
from .letters import letters_of, weight_of
from .literals import literal_in, parsed
from .messages import messages_in
from .values import is_hidden, is_repr, opened


@dataclass(frozen=True, slots=True)
class RetrievalTool:
    """A tool whose results are retrieved documents.

    A result that is a list of documents or texts, as JSON, is read as that.  Any other text is cut.

    Args:
        name: The tool's name; ``*``, ``?`` and ``[...]`` are wildcards as in file names.
        separator: Regular expression of the text between two documents. Default: elements such as
            ``<document>``, else lines of ``---`` or ``===``, else headings such as ``Document 2:`` or
            ``[2]``, else a sign before each, else blank lines. A label in brackets before a text,
            ``[refund.md] ...``, is its id.
        text: The field of its records with the text, ``"body"`` or ``"fields.body"``. Default: the longest.
        id: The field with the id.
        score: The field with the score.
        is_span: Whether `name` is that of any span, rather than of a tool.

    Raises:
        ConfigurationError: `name` is empty, or `separator` is no regular expression.
    """

    name: str
    """The tool's name, or a pattern of names."""
    separator: str | None = None
    """Regular expression of the text between two documents."""
    text: str | None = None
    """The field with a record's text."""
    id: str | None = None
    """The field with its id."""
    score: str | None = None
    """The field with its score."""
    is_span: bool = False
    """Whether spans of this name retrieve, whatever their kind."""

    @classmethod
    def parse(cls, rule: str) -> RetrievalTool:
        """Return the rule in ``search_*`` or ``search_*:text=body,id=sku,score=rank``.

        Raises:
            ConfigurationError: A field is none of these.
        """
        name, _, said = rule.rpartition(":") if type(rule) is str else ("", "", "")
        pairs = [one.partition("=") for one in said.split(",")] if name else []
        fields = {field: value for field, _, value in pairs}
        if not any(fields.values()):
            return cls(rule)
        if not all(fields.values()) or fields.keys() - _FIELDS:
            raise ConfigurationError(
                f"retrieval tool {rule!r}: name fields as in {name + ':text=body,id=key,score=rank'!r}"
            )
        return cls(name, None, fields.get("text"), fields.get("id"), fields.get("score"))

    @property
    def names_fields(self) -> bool:
        """Whether the user names a record's fields."""
        return not self.text is self.id is self.score is None

    def __post_init__(self) -> None:
        if not self.name or type(self.name) is not str:
            raise ConfigurationError(f"retrieval tool {self.name!r}: pass the name of a tool, e.g. 'search_*'")
        if self.separator is not None:
            try:
                re.compile(self.separator)
            except (re.error, TypeError) as error:
                raise ConfigurationError(
                    f"separator {self.separator!r} is no regular expression: {error}"
                ) from None


ANY_TOOL = RetrievalTool("*")
"""Any tool; results are read by their shape."""
_FIELDS = frozenset(("text", "id", "score"))


def as_tools(
    tools: Iterable[str | RetrievalTool], option: str = "retrieval_tools", *, is_span: bool = False
) -> tuple[RetrievalTool, ...]:
    """Return the rules that the user specified for tools, or for spans and functions, plain names among them.

    Rules that code does not set are read from ``RAGMETER_RETRIEVAL_TOOLS`` and ``RAGMETER_RETRIEVAL_SPANS``.

    Raises:
        ConfigurationError: One is neither a name nor a rule, or all are one string.
    """
    if isinstance(tools, str):
        raise ConfigurationError(f"{option}={tools!r}: pass a list of names, e.g. [{tools!r}]")
    variable = "RETRIEVAL_TOOLS" if option == "retrieval_tools" else "RETRIEVAL_SPANS"
    rules = (
        item if isinstance(item, RetrievalTool) else RetrievalTool.parse(item)
        for item in list(tools) or rules_in_environment(variable)
    )
    return tuple(replace(rule, is_span=True) if is_span else rule for rule in rules)


def tool_for(name: str, tools: Iterable[RetrievalTool], *, is_span: bool = False) -> RetrievalTool | None:
    """Return the first rule for a tool, or a span, of this name, or None."""
    return next((tool for tool in tools if tool.is_span is is_span and fnmatchcase(name, tool.name)), None)


_ERROR = re.compile(
    r"\s*(?:[\w.]*(?:Error|Exception)\s*[:(]|Traceback \(most recent|"
    r"(?:An error (?:has )?occurred|Error) (?:while )?[a-z]+ing (?:the )?(?:tool|function)\b)"
)
_WRAPPED = ("result", "output", "content", "text", "response", "results")


def cut(result: Any, tool: RetrievalTool) -> tuple[Document, ...] | None:
    """Return the documents in a tool's result; None if its shape is unknown."""
    value = literal_in(opened(result))
    if isinstance(value, str):
        value = parsed(value.strip()) or value
    if tool.names_fields and not is_hidden(value):
        return _documents_in_records(value, tool)
    if isinstance(value, str):
        if is_hidden(value):
            return (Document(None, hidden=True),)
        is_text = not is_repr(value) and _ERROR.match(value) is None
        return tuple(pieces_of(value, tool.separator)) if is_text else None
    messages = messages_in(value)
    if messages:
        state = value if isinstance(value, dict) else {}
        beside = next(filter(None, (documents_in(state.get(key)) for key in FIELD_NAMES["context"])), None)
        if beside:
            return beside
        pieces = [cut(text, tool) for _, text in messages]
        return None if None in pieces else tuple(item for one in pieces for item in one or ())
    parts = _parts(value)
    if parts is not None:
        return cut("\n\n".join(parts) if len(parts) != 1 else parts[0], tool)
    if isinstance(value, list) and all(isinstance(item, str) and not is_repr(item) for item in value):
        each = [[*pieces_of(item)] for item in value]
        # Of one passage each, the label or the element around it is taken away.
        return tuple(one[0] for one in each) if all(len(one) == 1 for one in each) else documents_in(value)
    found = documents_in(value)
    if found is not None:
        bare = len(found) == 1 and found[0] == Document(found[0].text)
        return cut(found[0].text or "", tool) if bare and isinstance(value, dict) else found
    if isinstance(value, dict):
        for key in _WRAPPED:
            if value.get(key) not in (None, "", [], {}):
                return cut(value[key], tool)
        if all(item in (None, "", [], {}) for item in value.values()):
            return ()
        lists = [item for item in _lists_in(value) if item]
        value = max(lists, key=lambda rows: len(str(rows)), default=value)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return documents_in(value)
    return () if value is None else _rows(value, tool)


_NAMES_OF_ROWS = ("id", "_id", "key", "source", "url", "uri", "title", "name")
_SCORES_OF_ROWS = ("score", "_score", "similarity", "relevance", "distance")


_ROW_DEPTH = 6


def _lists_in(value: Mapping[str, Any], depth: int = 0) -> Iterator[list[Any]]:
    """Yield the lists in a mapping, at any level of mappings."""
    for item in value.values():
        if isinstance(item, list):
            yield item
        elif isinstance(item, dict) and depth < _ROW_DEPTH:
            yield from _lists_in(item, depth + 1)


def flattened(row: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record, with those of nested records, the outer ones last."""
    for item in row.values():
        if isinstance(item, dict) and depth < _ROW_DEPTH:
            yield from flattened(item, depth + 1)
    yield from ((key, item) for key, item in row.items() if not isinstance(item, dict))


def _documents_in_records(value: Any, tool: RetrievalTool) -> tuple[Document, ...] | None:
    """Return the documents in records whose fields the user names, at any place of the result."""
    parts = _parts(value)
    if parts is not None and len(parts) == 1:
        value = literal_in(opened(parts[0]))
    records = _records_in(value, tool)
    if records:
        return _rows(records, tool)
    if isinstance(value, str) and value:
        return None if any(pieces_of(value)) else ()
    held = [*_lists_in(value)] if isinstance(value, dict) else []
    return () if value in (None, "", [], {}) or (held and not any(held)) else None


def _records_in(value: Any, tool: RetrievalTool, depth: int = 0) -> list[Any]:
    value = literal_in(opened(value))
    if isinstance(value, dict):
        if _field(value, tool.text or tool.id or tool.score or "") is not None:
            return [value]
        value = [*value.values()]
    if not isinstance(value, list) or depth == _ROW_DEPTH:
        return []
    return [row for item in value for row in _records_in(item, tool, depth + 1)]


def _field(row: Any, name: str) -> Any:
    """Return the value of a field, ``body``, or of one in a nested record, ``fields.body``."""
    if not isinstance(row, dict):
        return None
    if name in row:
        return row[name]
    first, _, rest = name.partition(".")
    return _field(opened(row.get(first)), rest) if rest else None


def _rows(value: Any, tool: RetrievalTool) -> tuple[Document, ...] | None:
    """Return rows of unknown fields as documents: the longest text of each is its text."""
    if not isinstance(value, list) or not value:
        return None
    found: list[Document] = []
    for row in value:
        fields = dict(flattened(row)) if isinstance(row, dict) else {}
        texts = {key: item for key, item in fields.items() if isinstance(item, str) and item.strip()}
        if tool.text is not None and isinstance(said := _field(row, tool.text), str):
            texts = {tool.text: said}
        if not texts or any(map(is_hidden, texts.values())):
            return None
        key = max(texts, key=lambda name: len(texts[name]))
        if is_repr(texts[key]):
            return None
        ids = [tool.id] if tool.id else [name for name in _NAMES_OF_ROWS if name != key]
        scores = [_field(row, tool.score)] if tool.score else [_field(fields, name) for name in _SCORES_OF_ROWS]
        found.append(
            Document(
                texts[key],
                next((str(one) for name in ids if (one := fields.get(name) or _field(row, name))), None),
                next((float(one) for one in scores if type(one) in (int, float)), None),
                {name: item for name, item in fields.items() if name != key},
            )
        )
    return tuple(found)


def _parts(value: Any) -> list[str] | None:
    """Return the texts of a result in content parts, the form of MCP and models' APIs."""
    if not isinstance(value, list) or not value:
        return None
    texts = [
        item.get("text")
        for item in value
        if isinstance(item, dict) and item.get("type") in ("text", "output_text") and "id" not in item
    ]
    return [str(text) for text in texts] if len(texts) == len(value) and all(texts) else None


_LEAST_PASSAGE = 40
_LEAST_ROW = 12
"""Minimum weight of a passage, in letters: alone, and with an id or a score beside it."""


def is_list(result: Any) -> bool:
    """Return whether a tool returned rows or texts one by one, and no text that has to be cut."""
    value = literal_in(opened(result))
    return not isinstance(value, str) and _parts(value) is None and not messages_in(value)


def reads_as_retrieved(found: Iterable[Document]) -> str | None:
    """Return the letters of the first text that reads like a passage, or has an id or a score beside it."""
    for item in found:
        letters = letters_of(item.text or "")
        named = item.id is not None or item.score is not None
        if weight_of(letters) >= (_LEAST_ROW if named else _LEAST_PASSAGE):
            return letters
    return None
