"""The page of `ragmeter evaluate --html`: complete, self-contained, and safe whatever the data says."""

import json
import stat
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.evaluate._evaluation import SkippedRow
from ragmeter.cli.evaluate._html_report import render_page
from ragmeter.cli.evaluate._verdicts import Verdicts
from ragmeter.cli.evaluate._worst_rows import WorstRow
from ragmeter.cli.evaluate.run import EvaluateOptions, Evaluation, run_evaluation
from ragmeter.metrics import RagSample, Reference, Score, ScoreItem, Verdict
from ragmeter.metrics._samples import Row
from ragmeter.metrics.judge.protocol import JudgeStats
from ragmeter.quality.summary import summarize

ALLOWED_TAGS = frozenset(
    "html head meta title style body main h1 h2 h3 p div table thead tbody tr th td span svg rect "
    "line details summary b i dl dt dd ol ul li".split()
)


class _Reader(HTMLParser):
    """Collects tags, attributes and text the way a browser would find them."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts = set(), set(), []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


def _evaluation(tmp_path, text):
    """An evaluation in which every text that can be shown is `text`."""
    item = ScoreItem(id=text, verdict=False, text=text, evidence=text, reason=text, value=0.5)
    score = Score(
        name="recall",
        value=0.25,
        status="ok",
        method="rouge",
        definition="1",
        explanation=text,
        items=(item, ScoreItem(id=text, verdict=None)),
    )
    sample = RagSample(
        question=text,
        contexts=[{"text": text, "id": text}],
        answer=text,
        reference=Reference(answer=text, contexts=[text]),
    )
    return Evaluation(
        data=str(tmp_path / "data.jsonl"),
        rows=1,
        worst={"recall": [WorstRow(Row(1, sample, "k"), score)]},
        bad_rows=[SkippedRow("data.jsonl", 2, text)],
        bad_row_count=1,
        summaries=summarize([{"recall": score}]),
        resumed=0,
        spent=JudgeStats(),
        duration_s=1.0,
        judge_model=text,
        failed_scores={},
        verdicts=_verdicts(sample),
    )


def _verdicts(sample):
    found = Verdicts()
    found.add(Row(1, sample, "k"), Verdict(word="bad", codes=("c",), reasons=("r",)))
    return found


ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title><svg/onload=alert(1)>",
    "<!-- <b>",
    "&lt;script&gt; &amp;",
    "]]><![CDATA[",
    "</dd></dl></details>",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_markup_in_the_data_is_shown_not_obeyed(tmp_path, text):
    read = _Reader(render_page(_evaluation(tmp_path, text)))
    assert read.tags <= ALLOWED_TAGS
    assert not any(name.startswith("on") or name in ("src", "href") for name in read.attributes)
    assert text in read.text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_adds_no_tag(tmp_path_factory, text):
    plain = _Reader(render_page(_evaluation(tmp_path_factory.getbasetemp(), "x")))
    read = _Reader(render_page(_evaluation(tmp_path_factory.getbasetemp(), text)))
    assert read.tags <= plain.tags | {"i"}
    assert read.attributes <= plain.attributes


@given(st.text(max_size=50))
def test_any_text_can_be_written(tmp_path_factory, text):
    from ragmeter.cli.evaluate._html_report import write_page

    path = tmp_path_factory.getbasetemp() / "page.html"
    write_page(_evaluation(path.parent, text), path)
    assert path.read_text(encoding="utf-8").endswith("</html>\n")


def test_the_page_asks_nothing_of_anybody(tmp_path):
    page = render_page(_evaluation(tmp_path, "text"))
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "url(" not in page


def test_page_of_a_real_run_has_histograms_and_the_worst_samples(tmp_path):
    data = tmp_path / "data.jsonl"
    rows = [
        {"question": f"question {number}", "contexts": ["a"] * number, "answer": "a"}
        for number in range(5)
    ]
    data.write_text("\n".join(map(json.dumps, rows)) + "\nbroken\n")
    page = render_page(run_evaluation(EvaluateOptions(data=data, metrics=["retrieval_health"])))
    read = _Reader(page)
    assert {"svg", "rect"} <= read.tags
    assert "line 6: not JSON" in read.text
    assert "could not be read and were skipped: 1" in read.text
    # Where lower is better, the worst are the highest; a count is neither good nor bad.
    assert {"Highest empty_retrieval", "Highest duplicate_ratio"} <= set(read.texts)
    assert not {"Lowest context_count", "Highest context_count"} & set(read.texts)


def test_the_option_writes_the_file_whole(tmp_path):
    data, page = tmp_path / "data.jsonl", tmp_path / "report.html"
    data.write_text('{"question": "q", "contexts": ["a"]}\n')
    arguments = ["evaluate", str(data), "--metrics", "retrieval_health", "--html", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []
    assert stat.S_IMODE(page.stat().st_mode) == 0o600  # it quotes the data set
    assert CliRunner().invoke(app, arguments).exit_code == 0, "a page of ours may be replaced"


def test_an_unwritable_page_is_explained(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text('{"question": "q", "contexts": ["a"]}\n')
    arguments = ["evaluate", str(data), "--html", str(tmp_path / "absent" / "page.html")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--html" in result.stderr
