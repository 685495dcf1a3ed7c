"""OpenInference: ``openinference.span.kind``, documents flattened into attributes or as one JSON.

Ids that LangChain's documents lack there are in the JSON of ``output.value``. Prompt variables and prompts
never replace content that the user had hidden.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.reading.documents import Document, documents_in
from ragmeter.adapters.reading.messages import messages_in
from ragmeter.adapters.reading.request_texts import answer_in, query_in, question_in
from ragmeter.adapters.reading.values import is_hidden, is_repr, mapping_of, opened

from ._kinds import role_of_kind
from ._reader import Documents, Reader, Role, reported_documents, rows_under

_KIND = "openinference.span.kind"
_FIELDS = ("document.content", "document.id", "document.score", "document.metadata")
_NODE = re.compile(r"<?NodeWithScore\(node=\w+\(id_=(.+?)\), score=(None|-?[\d.e+-]+)\)>?")
_PROMPTS = re.compile(r"llm\.prompts\.\d+\.prompt\.text")


class OpenInference(Reader):
    """Reads OpenInference's spans."""

    name = "openinference"
    switch = "take OPENINFERENCE_HIDE_INPUTS, _HIDE_OUTPUTS and their like out of the environment"
    input_key = "input.value"
    output_key = "output.value"

    def role(self, span: SpanRecord) -> Role | None:
        kind = span.attributes.get(_KIND)
        role = role_of_kind(kind) if kind != "UNKNOWN" else "other"
        if role == "step" and span.name.endswith("postprocess_nodes") and kind != "AGENT":
            return "join"  # LlamaIndex reports a reranking only where the step fires its events
        if role == "model" and span.name.endswith("PromptBuilder.run"):
            return "other"  # Haystack's: it only fills a template
        if (
            role == "retrieval"
            and span.attributes.get("input.value") == "{}"
            and not (span.failed or any(key.startswith(("output.", "retrieval.")) for key in span.attributes))
        ):
            return "other"  # it was asked nothing: a retriever's construction
        return role

    def tool_name(self, span: SpanRecord) -> str:
        return str(span.attributes.get("tool.name") or span.name)

    def question(self, span: SpanRecord) -> str | None:
        asked = question_in(_value(span, "input"))
        tasks = opened(span.attributes.get("crew_tasks")) if asked is None else None
        # A crew without inputs has its only task's description as the question.
        return (
            question_in(mapping_of(tasks[0]).get("description"))
            if isinstance(tasks, list) and len(tasks) == 1
            else asked
        )

    def query(self, span: SpanRecord) -> str | None:
        query = span.attributes.get("reranker.query")
        return query_in(_value(span, "input")) or (query if isinstance(query, str) else None)

    def answer(self, span: SpanRecord) -> str | None:
        return answer_in(_value(span, "output"))

    def answer_beside(self, span: SpanRecord) -> str | None:
        # The output of others is their documents, in whatever form.
        return self.answer(span) if "llm.model_name" in span.attributes else None

    def documents(self, span: SpanRecord) -> Documents:
        if self.role(span) == "join":
            left = span.attributes.get("output.value")
            nodes = _nodes_of(left)
            return Documents(nodes, None if nodes or opened(left) == [] else "rerank_invisible")
        prefix = "reranker.output_documents" if self.role(span) == "rerank" else "retrieval.documents"
        found, whole = _flat(span, prefix)
        output = span.attributes.get("output.value")
        if found:
            items = tuple(found)
            if any(item.hidden for item in items):
                return Documents(items, "redacted")
            return Documents(_with_ids(items, output), None if whole else "truncated")
        if span.failed:
            return Documents()
        if span.dropped:
            return Documents(missing="truncated")
        if prefix in span.attributes:
            return reported_documents(span, span.attributes[prefix], None, "truncated")
        if output is None and self.role(span) == "rerank":
            return Documents(missing="rerank_invisible")
        return Documents(documents_in(output) or ())

    def reranked(self, span: SpanRecord) -> tuple[Document, ...]:
        if self.role(span) == "join":
            return _nodes_of(mapping_of(span.attributes.get("input.value")).get("nodes"))
        found, _ = _flat(span, "reranker.input_documents")
        return tuple(found) or documents_in(span.attributes.get("reranker.input_documents")) or ()

    def prompt(self, span: SpanRecord) -> list[tuple[str, str]]:
        messages = _messages(span, "llm.input_messages.")
        if messages and '"document":' in self.input_text(span):  # Bedrock's, which it leaves out of messages
            whole = [text for _, text in super().prompt(span) if "<document " in text]
            messages = [
                (role, next((one for one in whole if text and text in one), text)) for role, text in messages
            ]
        prompts = span.attributes.get("llm.prompts")
        texts = list(prompts) if isinstance(prompts, (list, tuple)) else []
        texts += [value for key, value in span.attributes.items() if _PROMPTS.fullmatch(key)]
        return messages or [("user", text) for text in texts if isinstance(text, str)] or super().prompt(span)

    def said(self, span: SpanRecord) -> str | None:
        messages = _messages(span, "llm.output_messages.")
        for role, text in reversed(messages):
            if role in ("assistant", "") and text.strip():
                return None if is_hidden(text) else text
        if messages or any(key.startswith("llm.output_messages.") for key in span.attributes):
            return None  # it called tools
        value = _value(span, "output")
        if isinstance(opened(value), str):
            return self.answer(span)
        completed = value.get("text") if isinstance(value, dict) else None
        said = answer_in(messages_in(value)) or (completed if isinstance(completed, str) else None)
        output = span.attributes.get("output.value")
        # Without a type it is text, which may be a reply in JSON.
        is_text = isinstance(output, str) and "output.mime_type" not in span.attributes
        return output if said is None and is_text and not is_hidden(output) else said

    def hides(self, span: SpanRecord, side: Literal["input", "output"]) -> bool:
        return is_hidden(span.attributes.get(f"{side}.value"))


def _value(span: SpanRecord, side: str) -> Any:
    value = span.attributes.get(f"{side}.value")
    return value if span.attributes.get(f"{side}.mime_type") == "text/plain" else opened(value)


def _flat(span: SpanRecord, prefix: str) -> tuple[list[Document], bool]:
    """Return the documents flattened under a prefix, and whether none of them can be absent."""
    rows = rows_under(span.attributes, f"{prefix}.")
    # Beside documents with texts, one without is a picture.
    nothing = "" if any("document.content" in row for row in rows.values()) else None
    found: list[Document] = []
    for row in rows.values():
        text, identity, score, metadata = map(row.get, _FIELDS)
        hidden = is_hidden(text) or (text is None and is_hidden(metadata))
        found.append(
            Document(
                None if hidden else text if isinstance(text, str) else nothing,
                None if identity is None or is_hidden(identity) else str(identity),
                float(score) if isinstance(score, (int, float)) else None,
                mapping_of(metadata),
                hidden,
            )
        )
    return found, not span.dropped and (not rows or max(rows) == len(rows) - 1)


def _with_ids(items: tuple[Document, ...], output: Any) -> tuple[Document, ...]:
    """Add the documents' ids and scores from the span's output."""
    if all(item.id is not None for item in items):
        return items
    if not isinstance(output, str) or '"page_content"' not in output:
        return items
    others = documents_in(output) or ()
    if [item.text for item in others] != [item.text for item in items]:
        return items
    return tuple(
        item._replace(
            id=other.id if item.id is None else item.id,
            score=other.score if item.score is None else item.score,
            metadata=item.metadata or other.metadata,
        )
        for item, other in zip(items, others, strict=True)
    )


def _nodes_of(value: Any) -> tuple[Document, ...]:
    """Return ids and scores of LlamaIndex's nodes in the span's abbreviated output."""
    found = opened(value)
    if not isinstance(found, list):
        return ()
    matches = [_NODE.fullmatch(item) for item in found if isinstance(item, str) and is_repr(item)]
    return tuple(
        Document(None, match[1], None if match[2] == "None" else float(match[2]))
        for match in matches
        if match is not None
    )


def _messages(span: SpanRecord, prefix: str) -> list[tuple[str, str]]:
    """Return role and text of each message; of a text both whole and in parts, the whole."""
    found: list[tuple[str, str]] = []
    for row in rows_under(span.attributes, prefix).values():
        content: Any = row.get("message.content")
        if not isinstance(content, str):
            # A tool's output may be beside the message.
            content = [_part(part) for part in rows_under(row, "message.contents.").values()] or [
                mapping_of(row[key]).get("content") for key in row if key.startswith("function.")
            ]
        if content or content == "":
            found += messages_in([{"role": str(row.get("message.role", "")), "content": content}])
    return found


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a message: one that is no text, such as a document, is JSON where the text would be."""
    kind, text = part.get("message_content.type", "text"), part.get("message_content.text", "")
    other = mapping_of(text)
    return {**other} if kind != "text" and other.get("type") == kind else {"type": kind, "text": text}
