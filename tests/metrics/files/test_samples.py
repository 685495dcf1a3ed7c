"""Which rows `ragmeter evaluate` reads, and what it says about those it cannot."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._files.rows import BadRow
from ragmeter.metrics._files.samples import Row, read_samples


def _read(tmp_path, *rows, name="data.jsonl"):
    path = tmp_path / name
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(lines))
    return list(read_samples(path))


OURS = {
    "question": "q",
    "contexts": ["a", {"text": "b", "id": "2", "score": 0.5}],
    "answer": "r",
    "reference": {"answer": "g", "contexts": ["a"], "context_ids": ["1"]},
}
RAGAS = {
    "user_input": "q",
    "retrieved_contexts": ["a", "b"],
    "retrieved_context_ids": [1, 2],
    "response": "r",
    "reference": "g",
    "reference_contexts": ["a"],
    "reference_context_ids": [1],
}
CONTINUOUS_EVAL = {
    "question": "q",
    "retrieved_context": ["a", "b"],
    "ground_truth_context": ["a"],
    "answer": "r",
    "ground_truth_answers": ["g", "g2"],
}


@pytest.mark.parametrize("row", [OURS, RAGAS, CONTINUOUS_EVAL], ids=["ours", "ragas", "ce"])
def test_three_spellings_of_columns_give_the_same_sample(tmp_path, row):
    (read,) = _read(tmp_path, row)
    assert isinstance(read, Row)
    sample = read.sample
    assert (sample.question, sample.answer, sample.status) == ("q", "r", "ok")
    assert [context.text for context in sample.contexts] == ["a", "b"]
    assert sample.reference.answer == "g"
    assert sample.reference.contexts == ("a",)


def test_ids_and_alternative_answers_are_kept(tmp_path):
    ours, ragas, continuous = _read(tmp_path, OURS, RAGAS, CONTINUOUS_EVAL)
    assert [context.id for context in ragas.sample.contexts] == ["1", "2"]
    assert ragas.sample.reference.context_ids == ("1",)
    assert ours.sample.contexts[1].score == 0.5
    assert continuous.sample.reference.alternative_answers == ("g2",)


def test_equal_content_has_one_key_whatever_the_columns_are_called(tmp_path):
    ours, ragas = _read(
        tmp_path,
        {"question": "q", "contexts": ["a"], "answer": "r", "reference_answer": "g"},
        {"response": "r", "reference": "g", "user_input": "q", "retrieved_contexts": ["a"]},
    )
    assert ours.key == ragas.key


def test_never_given_and_given_empty_are_two_things(tmp_path):
    unknown, empty = _read(tmp_path, {"question": "q"}, {"question": "q", "contexts": []})
    assert unknown.sample.contexts is None
    assert empty.sample.contexts == ()
    assert unknown.sample.status == "retrieval_only"
    assert unknown.key != empty.key


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"not json", "not JSON"),
        ({"question": 5}, "the question is a number"),
        ({"user_input": [{"role": "user"}]}, "several turns"),
        ({"question": "q", "contexts": {"a": 1}}, "contexts are an object"),
        ({"question": "q", "contexts": [["a"]]}, "context 1 is a list"),
        ({"question": "q", "contexts": [{"txt": "a"}]}, "context 1 has no text; found txt"),
        ({"question": "q", "contexts": ["a"], "context_ids": [1, 2]}, "1 contexts but 2"),
        ({"question": "a", "user_input": "b"}, "differ"),
        ({"foo": 1}, "no column that can be scored; found foo. Columns are called question"),
        ({"question": "q", "contexts": ["a", None]}, "context 2 is null, not a text"),
        ({"question": "q", "contexts": [{"id": "a"}]}, "context 1 has no text; found id"),
        ({"question": {"0": "q", "1": "z"}}, "to_json(orient='records')"),
        ({"question": "q", "answer": "a", "status": "great"}, "status"),
        ({"question": "q", "reference": {"reply": "a"}}, "reference.reply"),
        ({"question": "q", "answer": True}, "the answer is a boolean"),
    ],
)
def test_a_bad_row_is_named_with_line_and_reason_and_the_rest_is_read(tmp_path, row, reason):
    good, bad, after = _read(tmp_path, {"question": "q"}, row, {"question": "z"})
    assert isinstance(bad, BadRow)
    assert bad.line == 2
    assert reason in bad.reason
    assert (good.line, after.line) == (1, 3)


def test_what_the_jsonl_exporter_wrote_can_be_evaluated(tmp_path):
    """Requests captured live, with content, are a data set."""
    from ragmeter import RagMeter
    from ragmeter.exporters.jsonl import JsonlExporter
    from ragmeter.metrics import RagSample, Reference

    path = tmp_path / "live.jsonl"
    sample = RagSample(question="q", contexts=["a", "b"], answer="r", reference=Reference(answer="g"))
    meter = RagMeter(exporters=[JsonlExporter(path, include_content=True)])
    meter.submit(sample)
    meter.flush(60)
    meter.shutdown(60)
    (row,) = list(read_samples(path))
    assert isinstance(row, Row)
    assert row.sample == sample


def _csv(tmp_path, *rows):
    path = tmp_path / "data.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)
    return list(read_samples(path))


def test_csv_lists_are_json_and_plain_text_is_one_context(tmp_path):
    one, many, empty = _csv(
        tmp_path,
        ["question", "contexts", "answer", "reference"],
        ["q", "just [one] text", "a", "g"],
        ["q", '["a", "b"]', "multi\nline", '{"answer": "g"}'],
        ["q", "", "", ""],
    )
    assert [context.text for context in one.sample.contexts] == ["just [one] text"]
    assert [context.text for context in many.sample.contexts] == ["a", "b"]
    assert many.sample.reference.answer == "g"
    assert empty.sample.contexts is None
    assert (one.line, many.line) == (2, 4)


@pytest.mark.parametrize("text", ["question;answer\nq;a, b\n", "question\tanswer\nq\ta, b\n"])
def test_spreadsheets_separate_cells_by_semicolons_or_tabs(tmp_path, text):
    (tmp_path / "data.csv").write_text(text)
    (row,) = read_samples(tmp_path / "data.csv")
    assert (row.sample.question, row.sample.answer, row.line) == ("q", "a, b", 2)


@pytest.mark.parametrize(
    "columns",
    [
        {"ground_truth": "g"}, {"ground_truths": ["g"]}, {"ground_truth": ["g"]},
        {"ground_truth_answer": "g"},
    ],
)  # fmt: skip
def test_what_data_sets_call_the_reference_answer(tmp_path, columns):
    """Ragas wrote ``ground_truth`` and ``ground_truths`` before 0.2, and so do many tutorials."""
    (row,) = _read(tmp_path, {"question": "q", "answer": "a", **columns})
    assert (row.sample.reference.answer, row.sample.answer) == ("g", "a")


@pytest.mark.parametrize("name", ["page_content", "content"])
def test_documents_as_frameworks_write_them_are_contexts(tmp_path, name):
    document = {name: "x", "id": "d", "metadata": {"source": "s"}, "type": "Document", "score": None}
    (row,) = _read(tmp_path, {"question": "q", "contexts": [document]})
    [context] = row.sample.contexts
    assert (context.text, context.id, context.metadata) == ("x", "d", {"source": "s"})


@pytest.mark.parametrize("name", ["data.txt", "absent.jsonl"])
def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path, name):
    with pytest.raises(ConfigurationError, match=r"data\.txt|absent\.jsonl"):
        list(read_samples(tmp_path / name))


@given(
    st.dictionaries(
        st.sampled_from(["question", "contexts", "answer", "reference", "context_ids", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_any_json_object_is_a_row_or_a_bad_row(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("rows") / "data.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    (read,) = list(read_samples(path))
    assert isinstance(read, (Row, BadRow))
