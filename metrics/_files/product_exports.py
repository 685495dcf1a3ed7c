"""Rows that other products write, as columns of a data set: LangSmith, Phoenix, Langfuse and deepeval.

A row is a single run, span, trace or example: other rows of the same trace are not looked up, so export root
runs, or retrievals, or examples. A product is recognised by columns that only its exports have; every other
row passes unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_QUESTION = ("question", "query", "input", "user_input", "prompt", "text", "content")
_ANSWER = ("answer", "output", "response", "result", "output_text", "text", "content", "generation")
_CONTEXTS = (
    "contexts", "context", "documents", "source_documents", "retrieved_contexts", "source_nodes",
    "retrieval_context",
)  # fmt: skip
_DEEPEVAL_ONLY = ("actual_output", "actualOutput", "retrieval_context", "retrievalContext")
_DEEPEVAL_SOURCE = re.compile(r"deepeval_source=(?P<source>.*?),deepeval_context=(?P<text>.*)", re.DOTALL)
_PHOENIX_DOCUMENT = re.compile(r"(?:attributes\.)?retrieval\.documents\.(\d+)\.(document\..+)")
_REFERENCE = ("reference", "reference_answer", "expected_output", "ground_truth", *_ANSWER)


class UnreadableExportError(ValueError):
    """Why an exported row cannot be read."""


def as_columns(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an exported row as columns of a data set; any other row unchanged.

    Raises:
        UnreadableExportError: An export has its retrieved documents in an unknown form.
    """
    if "attributes.input.value" in row or "attributes.retrieval.documents" in row:
        return _phoenix_span(row)
    if isinstance(attributes := _value(row.get("attributes")), Mapping) and (
        "span_kind" in row or "context" in row
    ):
        outside = {name: row.get(name) for name in ("status_code", "span_kind")}
        return _phoenix_span(_flat(attributes) | outside)
    if "inputs" in row and ("run_type" in row or "outputs" in row):
        return _langsmith(row)
    if "input" in row and any(name in row for name in _DEEPEVAL_ONLY):
        return _deepeval(row)
    if "expectedOutput" in row or ("expected_output" in row and "input" in row):
        return _example_columns(row.get("input"), None, _either(row, "expectedOutput", "expected_output"))
    if "input" in row and "output" in row:
        return _langfuse(row)
    return row


def _langsmith(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read a run (``run_type``), or an example of a data set, whose outputs are the reference."""
    inputs, outputs = _value(row.get("inputs")), _value(row.get("outputs"))
    if "run_type" not in row:
        return _example_columns(inputs, None, outputs)
    found = _example_columns(inputs, outputs, _either(row, "reference_outputs", "reference_example_outputs"))
    if row.get("run_type") == "retriever":
        found.pop("answer", None)
    return _with_status(found, failed=bool(row.get("error")))


def _langfuse(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read a trace, or an observation; for type RETRIEVER the output is the list of documents."""
    found = _example_columns(row.get("input"), row.get("output"), None)
    metadata = _value(row.get("metadata"))
    if "contexts" not in found and isinstance(metadata, Mapping):
        found |= _contexts(metadata)
    if str(row.get("type", "")).upper() == "RETRIEVER":
        if "contexts" not in found:
            found |= _contexts({"documents": _value(row.get("output"))})
        found.pop("answer", None)
    return _with_status(found, failed=str(row.get("level", "")).upper() == "ERROR")


def _phoenix_span(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read a span with OpenInference attributes, one column each."""
    found = _example_columns(_plain(row, "input.value"), _plain(row, "output.value"), None)
    documents = _value(_plain(row, "retrieval.documents"))
    if documents is None:
        documents = _numbered_documents(row)
    if isinstance(documents, str):
        raise UnreadableExportError(
            "retrieval.documents is not JSON: a frame's to_csv writes lists as Python prints them; "
            "use to_parquet, or to_json(orient='records', lines=True)"
        )
    kind = _either(row, "attributes.openinference.span.kind", "openinference.span.kind", "span_kind")
    if isinstance(documents, Sequence):
        found["contexts"] = [_document(one) for one in documents]
    if str(kind).upper() == "RETRIEVER":
        found.pop("answer", None)
    return _with_status(found, failed=str(row.get("status_code", "")).upper() == "ERROR")


def _numbered_documents(row: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return documents with numbered attributes, as in Phoenix' REST interface."""
    documents: dict[int, dict[str, Any]] = {}
    for name, value in row.items():
        if (found := _PHOENIX_DOCUMENT.fullmatch(name)) is not None:
            documents.setdefault(int(found[1]), {})[found[2]] = value
    return [documents[number] for number in sorted(documents)] or None


def _deepeval(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read a golden or test case as saved by deepeval; its ``context`` is the expected retrieval."""
    found: dict[str, Any] = {"question": row.get("input")}
    if (answer := _either(row, "actual_output", "actualOutput")) is not None:
        found["answer"] = answer
    contexts = _split_list(_either(row, "retrieval_context", "retrievalContext"))
    if contexts is not None:
        found["contexts"] = [_chunk_with_source(one) for one in contexts]
    expected = _either(row, "expected_output", "expectedOutput")
    golden = _split_list(row.get("context"))
    if expected is not None or golden is not None:
        found["reference"] = {"answer": expected, "contexts": golden}
    return found


def _split_list(given: Any) -> Any:
    """Return a list that deepeval joins with ``|`` where it saves CSV and JSON lines."""
    given = _value(given)
    return (given.split("|") if given else []) if isinstance(given, str) else given


def _chunk_with_source(one: Any) -> Any:
    """Return a chunk without the source that deepeval may write before it."""
    found = _DEEPEVAL_SOURCE.fullmatch(one) if isinstance(one, str) else None
    return one if found is None else {"text": found["text"], "metadata": {"source": found["source"]}}


def _plain(row: Mapping[str, Any], name: str) -> Any:
    return _either(row, f"attributes.{name}", name)


def _flat(attributes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested attributes by dotted names; documents stay lists."""
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _example_columns(asked: Any, said: Any, reference: Any) -> dict[str, Any]:
    """Return the columns of an input, an output and a reference output, each a text or an object."""
    found: dict[str, Any] = {}
    asked, said, reference = _value(asked), _value(said), _value(reference)
    if (question := _text_of(asked, _QUESTION)) is not None:
        found["question"] = question
    if (answer := _text_of(said, _ANSWER)) is not None:
        found["answer"] = answer
    for place in (said, asked):
        if "contexts" not in found and isinstance(place, Mapping):
            found |= _contexts(place)
    if (expected := _text_of(reference, _REFERENCE)) is not None:
        found["reference"] = {"answer": expected}
    if isinstance(reference, Mapping) and (right := _contexts(reference).get("contexts")):
        found.setdefault("reference", {})["contexts"] = [one["text"] for one in right]
    return found


def _with_status(found: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    if failed:
        found["status"] = "error"
    return found


def _contexts(place: Mapping[str, Any]) -> dict[str, Any]:
    for name in _CONTEXTS:
        value = _value(place.get(name))
        if isinstance(value, str):
            return {"contexts": [{"text": value}]}
        if isinstance(value, Sequence):
            return {"contexts": [_document(one) for one in value]}
    return {}


def _document(one: Any) -> dict[str, Any]:
    """Return a chunk in any of the forms in which frameworks serialize documents."""
    if not isinstance(one, Mapping):
        return {"text": str(one)}
    for inside in ("node", "document", "kwargs"):
        if isinstance(one.get(inside), Mapping):
            one = {**one[inside], **{key: one[key] for key in ("score",) if key in one}}
    text = _either(one, "document.content", "page_content", "pageContent", "text", "content")
    found = {"text": "" if text is None else str(text)}
    known_as = _either(one, "document.id", "id", "id_", "node_id")
    score = _either(one, "document.score", "score")
    return (
        found
        | ({} if known_as is None else {"id": str(known_as)})
        | ({} if not isinstance(score, (int, float)) else {"score": score})
    )


def _text_of(value: Any, names: Sequence[str]) -> str | None:
    """Return the text of an input or output: itself, a field's, or that of the last message."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, Mapping):
        for name in names:
            inner = value.get(name)
            if isinstance(inner, (str, Mapping)) and (found := _text_of(inner, names)) is not None:
                return found
        messages = value.get("messages")
        if isinstance(messages, Sequence) and not isinstance(messages, str):
            return _text_of(messages, names)
        texts = [inner for inner in value.values() if isinstance(inner, str) and inner]
        return texts[0] if len(value) == 1 and texts else None
    if isinstance(value, Sequence) and value:
        return _text_of(value[-1], ("content", "text", "kwargs", *names))
    return None


def _either(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _value(given: Any) -> Any:
    """Return a value, with an object or a list parsed that was exported as JSON text."""
    if isinstance(given, str) and given[:1] in ("{", "["):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given
