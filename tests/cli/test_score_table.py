"""README and docs say what live traffic gets, and no more than that; the table of means fits a terminal."""

import io
import re
from pathlib import Path

import pytest

from ragmeter.metrics import RagSample, Score
from ragmeter.metrics.protocol import missing_field
from ragmeter.metrics.registry import default_metrics

ROOT = Path(__file__).parents[2]
LIVE = RagSample(question="q", contexts=["c"], stages=(), answer="a")


def _scores(*, judged, live):
    return {
        name
        for metric in default_metrics(judged=True)
        for name in metric.score_names
        if metric.judged is judged and (missing_field(LIVE, metric.needs) is None) is live
    }


def _rows(page, heading):
    text = (ROOT / page).read_text("utf-8")
    table = text[text.index(heading) :].split("\n\n")
    (rows,) = [part for part in table[:6] if part.startswith("| you give")]
    return [set(re.findall(r"`(\w+)`", row)) for row in rows.splitlines()[2:]], rows


def test_readme_names_the_scores_of_live_traffic():
    (nothing, judge, golden), text = _rows("README.md", "## What live traffic gets")

    assert nothing == _scores(judged=False, live=True)
    assert judge == _scores(judged=True, live=True)
    assert golden == set()
    numbers = {8: "eight", 16: "sixteen"}
    assert f"other {numbers[len(_scores(judged=False, live=False))]} free scores" in text
    assert f"other {numbers[len(_scores(judged=True, live=False))]} judged ones" in text


def test_the_metrics_page_says_the_same():
    (nothing, judge, golden), _ = _rows("docs/metrics.md", "Live traffic has no reference.")

    assert nothing == _scores(judged=False, live=True)
    assert judge == _scores(judged=True, live=True)
    assert golden == set()


@pytest.mark.parametrize(("width", "headings"), [(80, "p50"), (120, "p10 p50 p90")])
def test_reasons_for_missing_values_are_not_cut_into_pieces(width, headings):
    """At 80 columns the outer percentiles make room for them."""
    pytest.importorskip("rich")
    from rich.console import Console

    from ragmeter.cli._score_table import summary_table
    from ragmeter.metrics._display.summary import ScoreSummary

    means = {"mean": 0.75, "p10": 0.3, "p50": 1.0, "p90": 1.0, "mean_low": 0.3, "mean_high": 0.95}
    unknown = dict.fromkeys(means)
    rows = [
        ScoreSummary("lexical_context_utilization", 4, {}, **means, range=(0.0, 1.0)),
        ScoreSummary("retriever_score_spread", 0, {"missing_input": 4}, **unknown, range=(0.0, None)),
    ]
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(summary_table(rows, intervals=True, width=width))
    text = console.export_text()

    assert "4 missing_input" in text
    assert " ".join(re.findall(r"p\d\d", text)) == headings
    assert all(len(line.rstrip()) <= width for line in text.splitlines())


def test_the_legend_has_what_the_cells_have_and_nothing_else():
    pytest.importorskip("rich")
    from ragmeter.cli._score_table import legend, score_cell
    from ragmeter.metrics._display.summary import summarize

    def score(value, status="ok"):
        return Score(name="recall", value=value, status=status, method="exact", definition="1")

    [usual] = summarize({"recall": score(value)} for value in [1.0] * 19 + [0.0])
    cells = [
        score_cell(score(None, "missing_input")),
        score_cell(score(1.0), usual),
        score_cell(score(0.0), usual),
    ]
    said = "n/a: the request lacks what it is compared with"
    assert legend(cells, colours=False) == said
    assert legend(cells, colours=True) == f"{said}; red: among the worst tenth of its column"
    assert not legend(cells[1:2], colours=True)
