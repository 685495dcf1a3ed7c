"""README and docs say what live traffic gets, and no more than that."""

import re
from pathlib import Path

from ragmeter.metrics import RagSample
from ragmeter.metrics.metric import missing_field
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
