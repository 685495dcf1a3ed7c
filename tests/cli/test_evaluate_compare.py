"""``ragmeter evaluate --compare``: another retriever's results for the same questions."""

import json

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app

RIGHT = "The kettle number {} of the museum was repaired in spring by the council of the town."
WRONG = "Nobody knows why the weather in this region changes so often during the year."


def rows(text, count=120):
    """Rows of which `text` says what was retrieved, by their number."""
    return [
        {"question": f"When was kettle number {n} repaired?", "contexts": [text(n)], "answer": "In spring."}
        for n in range(count)
    ]


def evaluated(tmp_path, mine, theirs, *options):
    """Write both files, the other one in another order, and return what the command says."""
    for name, data in (("mine.jsonl", mine), ("theirs.jsonl", theirs[::-1])):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in data), "utf-8")
    files = [str(tmp_path / "mine.jsonl"), "--compare", str(tmp_path / "theirs.jsonl")]
    return CliRunner().invoke(app, ["evaluate", *files, *map(str, options)])


@pytest.mark.parametrize(
    ("theirs", "word", "worse"),
    [
        (RIGHT.format, "nothing seen", 0),
        (lambda n: RIGHT.format(n) if n % 2 else WRONG, "worse", 60),
        (lambda n: RIGHT.format(n) * 4, "nothing seen", None),
    ],
    ids=["the same", "worse", "longer chunks"],
)
def test_the_word_is_that_of_a_shadow_run(tmp_path, theirs, word, worse):
    said = evaluated(tmp_path, rows(RIGHT.format), rows(theirs), "--json")
    found = json.loads(said.stdout)["comparison"]
    assert (found["word"], found["n"], found["comparable"]) == (word, 120, worse is not None)
    assert worse in (None, found["worse"])


def test_every_report_shows_it_with_the_rows_that_have_no_partner(tmp_path):
    page, summary = tmp_path / "report.html", tmp_path / "summary.md"
    half = [*rows(lambda n: WRONG)[20:], {"question": "Another one?", "contexts": [WRONG], "answer": "-"}]
    said = evaluated(tmp_path, rows(RIGHT.format), half, "--html", page, "--summary-markdown", summary)
    for text in (said.stdout, page.read_text("utf-8"), summary.read_text("utf-8").replace("\\", "")):
        flat = " ".join(text.split())
        assert "theirs.jsonl: worse (lexical_context_relevance" in flat
        assert "20 not compared (no_partner); 1 not compared (only_in_other)" in flat
