"""What LangSmith, Phoenix, Langfuse and deepeval write, row by row, as they do it."""

import json

import pytest

from ragmeter.metrics._files.rows import BadRow, GoodRow
from ragmeter.metrics._files.samples import row_of

DOCUMENT = {"page_content": "It is 8 m long.", "metadata": {"page": 1}, "type": "Document"}
LANGSMITH_RUN = {
    "id": "8b1f", "name": "RetrievalQA", "run_type": "chain", "trace_id": "8b1f", "parent_run_id": None,
    "inputs": {"question": "How long is it?"},
    "outputs": {"answer": "8 m.", "context": [DOCUMENT, {"kwargs": DOCUMENT, "lc": 1}]},
    "error": None,
}  # fmt: skip
PHOENIX_SPAN = {
    "context.span_id": "51", "context.trace_id": "33", "parent_id": None, "span_kind": "RETRIEVER",
    "status_code": "OK",
    "attributes.openinference.span.kind": "RETRIEVER",
    "attributes.input.value": "How long is it?",
    "attributes.output.value": '{"documents": []}',
    "attributes.retrieval.documents": [
        {"document.content": "It is 8 m long.", "document.id": "d1", "document.score": 0.75}
    ],
}  # fmt: skip


def sample(fields):
    found = row_of(GoodRow(1, fields))
    assert not isinstance(found, BadRow), found
    return found.sample


def test_a_langsmith_run():
    found = sample(LANGSMITH_RUN)

    assert (found.question, found.answer, found.status) == ("How long is it?", "8 m.", "ok")
    assert [context.text for context in found.contexts] == ["It is 8 m long."] * 2


def test_a_langsmith_run_of_a_bulk_export_has_json_in_its_columns():
    columns = LANGSMITH_RUN | {
        "inputs": json.dumps(LANGSMITH_RUN["inputs"]), "outputs": json.dumps(LANGSMITH_RUN["outputs"]),
    }  # fmt: skip

    assert sample(columns) == sample(LANGSMITH_RUN)


def test_a_langsmith_run_of_messages_that_failed():
    found = sample(
        {
            "run_type": "chain",
            "inputs": {"messages": [{"role": "user", "content": "How long is it?"}]},
            "outputs": None,
            "error": "TimeoutError",
        }
    )

    assert (found.question, found.answer, found.status) == ("How long is it?", None, "error")
    assert found.contexts is None


def test_a_langsmith_retriever_run_and_an_example():
    retrieval = sample(
        {"run_type": "retriever", "inputs": {"query": "How long?"}, "outputs": {"documents": [DOCUMENT]}}
    )
    example = sample({"inputs": {"question": "How long?"}, "outputs": {"answer": "8 m."}, "metadata": {}})

    assert (retrieval.status, retrieval.contexts[0].text) == ("retrieval_only", "It is 8 m long.")
    assert (example.question, example.reference.answer, example.answer) == ("How long?", "8 m.", None)


@pytest.mark.parametrize("nested", [False, True])
def test_a_phoenix_span(nested):
    row = PHOENIX_SPAN
    if nested:
        row = {
            "context": {"trace_id": "33", "span_id": "51"}, "span_kind": "RETRIEVER", "status_code": "OK",
            "attributes": {
                "openinference": {"span": {"kind": "RETRIEVER"}},
                "input": {"value": "How long is it?"},
                "retrieval": {"documents": [{"document": {"content": "It is 8 m long.", "id": "d1", "score": 0.75}}]},
            },
        }  # fmt: skip
    found = sample(row)

    assert (found.question, found.answer, found.status) == ("How long is it?", None, "retrieval_only")
    [context] = found.contexts
    assert (context.text, context.id, context.score) == ("It is 8 m long.", "d1", 0.75)


def test_a_phoenix_span_of_its_rest_interface_has_numbered_documents():
    found = sample(
        {
            "id": "U3Bhbjox", "name": "retriever", "span_kind": "RETRIEVER", "status_code": "OK",
            "context": {"trace_id": "33", "span_id": "51"},
            "attributes": {
                "input.value": "How long is it?",
                "output.value": '{"documents": []}',
                "retrieval.documents.10.document.content": "It is red.",
                "retrieval.documents.2.document.content": "It is 8 m long.",
                "retrieval.documents.2.document.id": "d1",
                "retrieval.documents.2.document.score": 0.75,
            },
        }
    )  # fmt: skip

    assert (found.question, found.answer, found.status) == ("How long is it?", None, "retrieval_only")
    assert [(one.text, one.id, one.score) for one in found.contexts] == [
        ("It is 8 m long.", "d1", 0.75),
        ("It is red.", None, None),
    ]


def test_a_phoenix_frame_saved_as_csv_is_a_bad_row_that_says_what_to_do():
    found = row_of(GoodRow(2, PHOENIX_SPAN | {"attributes.retrieval.documents": "[{'document.content': 'x'}]"}))

    assert isinstance(found, BadRow)
    assert "to_parquet" in found.reason


DEEPEVAL = {
    "input": "How long?", "actual_output": "8 m.", "expected_output": "It is 8 m long.",
    "retrieval_context": ["It is 8 m long.", "It is red."], "context": ["It is 8 m long."],
    "name": None, "comments": None, "source_file": None, "tools_called": None,
}  # fmt: skip


@pytest.mark.parametrize("saved_as", ["json", "jsonl", "camel case"])
def test_a_golden_of_deepeval(saved_as):
    row = DEEPEVAL
    if saved_as == "jsonl":  # CSV, too, joins lists
        row = row | {"retrieval_context": "It is 8 m long.|It is red.", "context": "It is 8 m long."}
    elif saved_as == "camel case":
        row = {
            "input": row["input"], "actualOutput": row["actual_output"],
            "expectedOutput": row["expected_output"],
            "retrievalContext": row["retrieval_context"], "context": row["context"],
        }  # fmt: skip
    found = sample(row)

    assert (found.question, found.answer, found.status) == ("How long?", "8 m.", "ok")
    assert [context.text for context in found.contexts] == ["It is 8 m long.", "It is red."]
    assert found.reference.answer == "It is 8 m long."
    assert list(found.reference.contexts) == ["It is 8 m long."]


def test_a_chunk_of_deepeval_may_bring_its_source():
    marked = "deepeval_source=ship.md,deepeval_context=It is 8 m, long."
    [context] = sample(DEEPEVAL | {"retrieval_context": [marked]}).contexts

    assert (context.text, context.metadata) == ("It is 8 m, long.", {"source": "ship.md"})


def test_a_golden_of_deepeval_without_a_retrieval_is_not_one_that_found_nothing():
    unknown = sample(DEEPEVAL | {"retrieval_context": None, "context": None})
    nothing = sample(DEEPEVAL | {"retrieval_context": "", "context": None})

    assert unknown.contexts is None
    assert nothing.contexts == ()
    assert "contexts" not in unknown.reference.model_fields_set


def test_a_langfuse_trace_an_observation_and_an_item():
    trace = sample(
        {
            "id": "t1", "name": "qa", "input": {"query": "How long?"}, "output": {"response": "8 m."},
            "metadata": {"contexts": ["It is 8 m long."]},
        }
    )  # fmt: skip
    retrieval = sample(
        {"id": "o1", "type": "RETRIEVER", "input": "How long?", "output": [DOCUMENT], "level": "DEFAULT"}
    )
    item = sample({"id": "i1", "input": "How long?", "expectedOutput": {"answer": "8 m."}})
    failed = sample({"type": "SPAN", "input": "How long?", "output": None, "level": "ERROR"})

    assert (trace.question, trace.answer) == ("How long?", "8 m.")
    assert trace.contexts[0].text == "It is 8 m long."
    assert (retrieval.status, retrieval.contexts[0].text) == ("retrieval_only", "It is 8 m long.")
    assert (item.question, item.reference.answer) == ("How long?", "8 m.")
    assert failed.status == "error"


@pytest.mark.parametrize(
    "fields",
    [
        {"question": "q", "answer": "a", "output": "mine"},
        {"user_input": "q", "response": "a", "reference": "r"},
        {"question": "q", "attributes": {"color": "red"}},
    ],
)
def test_other_rows_pass_as_they_are(fields):
    assert sample(fields).question == "q"


@pytest.mark.parametrize(
    "fields",
    [
        {"run_type": "llm", "inputs": {}, "outputs": {}},
        {"input": None, "output": None},
        {"inputs": 3, "outputs": [[[]]]},
        {"attributes.input.value": None},
        {"attributes": {}, "span_kind": "CHAIN"},
    ],
)
def test_an_export_with_nothing_to_score_is_a_bad_row(fields):
    found = row_of(GoodRow(4, fields))

    assert isinstance(found, BadRow)
    assert "no column that can be scored" in found.reason
