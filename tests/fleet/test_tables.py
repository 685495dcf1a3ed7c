"""From Arrow table to Arrow table: what an engine of one's own calls."""

import json
import sys
from pathlib import Path

import pytest
from python_process import run_python

from ragmeter import MissingDependencyError, Scorer
from ragmeter.metrics import RagSample, Reference

pa = pytest.importorskip("pyarrow")
tables = pytest.importorskip("ragmeter.fleet.tables")

ROWS = [
    {
        "question": "How long is the bridge?",
        "contexts": ["The bridge is 8 m long.", "Tea is hot."],
        "answer": "It is 8 m long.",
        "reference": {"answer": "8 m", "contexts": ["The bridge is 8 m long."]},
        "status": None,
    },
    {"question": "Why?", "contexts": [], "answer": "\u4e0d\u77e5\u9053\u3002", "reference": None, "status": None},
    {"question": "Bad", "contexts": None, "answer": None, "reference": None, "status": "no such status"},
]  # fmt: skip
FIRST = RagSample(
    question=ROWS[0]["question"], contexts=ROWS[0]["contexts"], answer=ROWS[0]["answer"],
    reference=Reference(answer="8 m", contexts=["The bridge is 8 m long."]),
)  # fmt: skip


def test_a_table_of_rows_becomes_a_table_of_scores():
    scorer = Scorer()
    found = tables.score_table(pa.Table.from_pylist(ROWS), scorer)
    expected = scorer.score([FIRST, RagSample(question="Why?", contexts=[], answer=ROWS[1]["answer"])])

    assert found.schema == tables.SCORES
    lines = found.to_pylist()
    for number, scores in enumerate(expected, start=1):
        mine = [line for line in lines if line["line"] == number]
        assert [(line["name"], line["value"], line["status"]) for line in mine] == [
            (score.name, score.value, score.status) for score in scores.values()
        ]
        assert {line["verdict"] for line in mine} == {scores.verdict.word}
    assert [line["line"] for line in lines] == sorted(line["line"] for line in lines)
    assert {line["measurement"] for line in lines if line["name"] == "recall"} == {
        scorer.measurements["recall"]
    }


def test_a_row_that_cannot_be_read_has_one_line_that_says_why():
    found = tables.score_table(pa.Table.from_pylist(ROWS), Scorer()).to_pylist()
    [bad] = [line for line in found if line["line"] == 3]

    assert (bad["name"], bad["value"], bad["status"]) == (None, None, tables.UNREADABLE)
    assert "status" in bad["error_type"]


def test_texts_leave_only_when_asked_for_and_then_the_score_is_whole():
    rows, scorer = pa.Table.from_pylist(ROWS[:2]), Scorer()
    silent = tables.score_table(rows, scorer)
    whole = tables.score_table(rows, scorer, with_text=True)

    for word in ("bridge", "Tea", "\u4e0d\u77e5"):
        assert word not in json.dumps(silent.to_pylist(), ensure_ascii=False)
    assert {line["question"] for line in whole.to_pylist()} == {"How long is the bridge?", "Why?"}
    lines = [line for line in whole.to_pylist() if line["line"] == 1]
    [scores] = scorer.score([FIRST])
    assert [tables.score_of_line(line) for line in lines] == list(scores.values())


def test_an_empty_table_gives_an_empty_one():
    empty = pa.table({"question": pa.array([], pa.string())})

    assert tables.score_table(empty, Scorer()).num_rows == 0


def test_a_missing_pyarrow_is_named_with_its_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "ragmeter.fleet.tables")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"\[parquet\]"):
        import ragmeter.fleet.tables  # noqa: F401


def test_the_documented_example_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text("utf-8")
    [example] = [
        block.partition("```")[0]
        for block in page.split("```python\n")[1:]
        if "score_table" in block.partition("```")[0]
    ]
    exec(compile(example, "docs/evaluate.md", "exec"), {})

    assert "lexical_groundedness" in capsys.readouterr().out


def test_what_is_the_hosts_is_left_as_it_is():
    """How long a cell of CSV may be is a limit of the whole process."""
    code = "import csv; before = csv.field_size_limit(); import ragmeter.fleet.tables; print(csv.field_size_limit() == before)"
    done = run_python("-c", code, check=True)

    assert done.stdout.strip() == "True"
