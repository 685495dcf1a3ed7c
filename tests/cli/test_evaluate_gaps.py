"""``ragmeter evaluate --gaps``: the topics of a data set that go worse than the others."""

import json

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app

PLACES = (
    "roof barn garage shed porch terrace balcony hangar boat caravan bridge tower church school hotel "
    "stadium library museum airport harbour"
).split()
SUBJECTS = (
    "invoice refund delivery password account voucher newsletter address phone warranty tax discount "
    "parcel subscription basket receipt catalogue branch courier deposit"
).split()
OFF_TOPIC = "Our offices are closed on public holidays."


def rows(topic=16, others=200):
    """Rows of which those about solar panels get a chunk about something else."""
    for place in PLACES[:topic]:
        yield {
            "question": f"How are solar panels on the {place} cleaned?",
            "contexts": [OFF_TOPIC],
            "answer": "Emperors paint elephants purple every Thursday.",
        }
    for number in range(others):
        subject, other = SUBJECTS[number % 20], SUBJECTS[(number * 7 + number // 20) % 20]
        text = f"The {subject} of your {other} is in the list number {number}."
        yield {"question": f"Where is the {subject} of my {other}?", "contexts": [text], "answer": text}


def evaluated(tmp_path, data, *options):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in data), "utf-8")
    return CliRunner().invoke(app, ["evaluate", str(path), "--gaps", *map(str, options)])


def test_a_topic_that_goes_badly_is_listed_with_its_rows(tmp_path):
    page, summary = tmp_path / "report.html", tmp_path / "summary.md"
    shown = evaluated(tmp_path, rows(), "--html", page, "--summary-markdown", summary)
    told = evaluated(tmp_path, rows(), "--json")

    assert (shown.exit_code, told.exit_code) == (0, 0), shown.output + told.output
    [gap] = json.loads(told.stdout)["gaps"]["gaps"]
    assert {"solar", "panels"} <= set(gap["name"].split())
    assert gap["n_bad"] >= 8
    assert gap["lower"] > gap["elsewhere"]
    assert gap["diagnosis"] == "missing_from_corpus"
    assert all(1 <= int(row.rpartition(":")[2]) <= 16 for row in gap["rows"])
    for text in (shown.stdout, page.read_text("utf-8")):
        assert "Knowledge gaps" in text
        assert "solar" in text
        assert "missing_from" in text  # broken where the terminal is narrow
    markdown = summary.read_text("utf-8")
    assert gap["id"] in markdown
    assert "solar" not in markdown, "a summary in a log has no words of questions"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (list(rows(topic=0)), "no topic goes worse than the others"),
        (list(rows(topic=16, others=8)), "so many rows are bad"),
        ([{"question": "q", "contexts": ["a"]}], "none"),
    ],
)
def test_where_nothing_is_listed_it_says_why(tmp_path, data, why):
    shown = evaluated(tmp_path, data)
    assert "Knowledge gaps: none" in " ".join(shown.stdout.split())
    assert why in " ".join(shown.stdout.split())
