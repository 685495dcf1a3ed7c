"""Recorded spans of real instrumentations, with the expected samples, and their comparison.

`recorded_spans/` holds a small selection, raw export requests in the order in which they arrived. The
environment's ``RAGMETER_OTLP_CORPUS`` may name a folder with more of them, in the same layout.
"""

import json
import os
from pathlib import Path

HERE = Path(__file__).parent / "recorded_spans"
TOOLS = ("search_*", "lookup_*")

NOT_TOLD = {
    "openinference-openai-agents-py/two_requests_one_http": "names a step of the first request as the second",
    "openllmetry-llamaindex-py/retriever_error": "nothing but a server's span that says ok was sent",
    "otel-genai-llamaindex-py/model_error": "no span says that anything failed",
    "otel-genai-llamaindex-py/reranked": "the spans are those of a request without a reranking",
    "otel-genai-llamaindex-py/sub_questions": "the spans are those of two requests",
}
"""Recordings whose spans lack the expected data."""


def cases():
    """Return folder and name of each recording."""
    roots = [HERE, *filter(None, [os.environ.get("RAGMETER_OTLP_CORPUS")])]
    found = {}
    for root in roots:
        for path in sorted(Path(root).rglob("expected.json")):
            name = f"{path.parent.parent.name}/{path.parent.name}"
            if name not in NOT_TOLD:
                found.setdefault(name, path.parent)
    return found


def expected(folder):
    """Return the samples that the recording must produce."""
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))["samples"]


def faults(rows, samples):
    """Return the differences between the printed rows and the samples."""
    left, wrong = list(rows), []
    for want in samples:
        mine = [
            row
            for row in left
            if (row["trace_id"], row["span_id"]) == (want["trace_id"], want["request_span_id"])
        ]
        mine = [row for row in mine if row["question"] == want["question"]] or mine
        if not mine:
            wrong.append(f"no request {want['request_span_id']}")
            continue
        row = mine[0]
        left.remove(row)
        if (
            row["usable"] == "full" != want["usable"] and "app_contexts" in want
        ):  # a prompt shows what no retrieval does
            texts = [item["text"] for item in row["contexts"]]
            if texts != [item["text"] for item in want["app_contexts"]]:
                wrong.append(f"contexts: {texts}, not {want['app_contexts']}")
            continue
        wrong += [
            f"{key}: {row[key]!r}, not {want[key]!r}"
            for key in ("usable", "reason", "status")
            if row[key] != want[key]
        ]
        wrong += list(_texts(row, want))
    return wrong + [f"one too many: {row['span_id']} {row['question']!r}" for row in left]


def _texts(row, want):
    told = want["available"]
    for key in ("question", "answer"):
        known = told[key] in ("full", "chat span only", "log record") or (
            key == "question" and told[key] == "retrieval span only"
        )
        if known and row[key] != want[key]:
            yield f"{key}: {row[key]!r}, not {want[key]!r}"
        if told[key] in ("leaked", "none") and row[key] is not None:
            yield f"{key} is there: {row[key]!r}"
    if told["contexts"] in ("leaked", "none", "ids") and any(c["text"] for c in row["contexts"]):
        yield "texts are there"
    if want["usable"] == "full" and list(map(_plain, row["contexts"])) != list(map(_plain, want["contexts"])):
        yield f"contexts: {row['contexts']}, not {want['contexts']}"
    if want["usable"] == "ids_only" and [c["id"] for c in row["contexts"]] != [
        c["id"] for c in want["contexts"]
    ]:
        yield f"ids: {row['contexts']}"


def _plain(context):
    score = context["score"]
    return (
        context["text"],
        context["id"],
        None if score is None else round(score, 3),
        context["metadata"] or {},
    )
