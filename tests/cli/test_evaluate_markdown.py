"""``--summary-markdown``: a table for people who read the summary of a step, without any text of the data."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.evaluate._markdown import _escape


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    rows = [
        {
            "question": f"How tall is tower {n}?",
            "contexts": [f"Tower {n} is 21 m tall." if n else "Boats are blue."],
            "answer": f"Tower {n} is 21 m tall.",
            "reference_contexts": [f"Tower {n} is 21 m tall."],
        }
        for n in range(20)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def _tables(text):
    """Return the cells of each table; every row has as many as its head."""
    found, rows = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            assert {len(row) for row in rows} == {len(rows[0])}
            found.append([rows[0], *rows[2:]])
            rows = []
    return found


def test_it_has_decision_means_with_intervals_and_where_the_worst_rows_stand(data, tmp_path):
    out = tmp_path / "summary.md"
    ran = _run(
        data, "--metrics", "precision_recall_f1", "--fail-under", "recall=0.99", "--summary-markdown", out
    )
    text = out.read_text()
    assert ran.exit_code == 4
    assert text.startswith("## ragmeter evaluate: inconclusive\n\n20 rows of ")
    decided, means, worst = _tables(text)
    assert decided[1][:2] == ["**inconclusive**", "recall at least 0.99"]
    assert "mean 0.950, 95 % interval" in decided[1][2]
    recall = dict(zip(means[0], next(row for row in means if row[0] == "recall"), strict=True))
    assert (recall["values"], recall["mean"]) == ("20", "0.950")
    low, high = map(float, recall["95 % interval"].split(" to "))
    assert low < 0.95 < high
    assert worst[0] == ["worst rows", "verdict", "its codes", "its worst scores"]
    assert worst[1] == ["line 1", "–", "–", r"precision 0.000, recall 0.000, f1 0.000"]
    assert "tower" not in text.lower().replace(str(data).lower(), "")


def test_it_is_added_to_what_other_steps_wrote(data, tmp_path):
    out = tmp_path / "summary.md"
    out.write_text("# Of another step\n")
    assert _run(data, "--metrics", "precision_recall_f1", "--summary-markdown", out).exit_code == 0
    assert out.read_text().startswith("# Of another step\n## ragmeter evaluate\n")


@given(st.text(max_size=40))
def test_no_text_leaves_its_cell_or_becomes_markup(text):
    shown = _escape(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<`*\[]", shown)
