"""The page of `ragmeter evaluate --html`: complete, self-contained, and safe whatever the data says."""

import json
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.evaluate._evaluation import SkippedRow
from ragmeter.cli.evaluate._html_report import render_page, write_page
from ragmeter.cli.evaluate._verdicts import Verdicts
from ragmeter.cli.evaluate._worst_rows import SHOWN, WorstRow
from ragmeter.cli.evaluate.run import EvaluateOptions, EvaluationReport, run_evaluation
from ragmeter.metrics import RagSample, Reference, RetrievedContext, Score, ScoreItem, Verdict
from ragmeter.metrics._display.html import DARK, LIGHT
from ragmeter.metrics._display.summary import summarize
from ragmeter.metrics._files.samples import Row
from ragmeter.metrics.judge.protocol import JudgeStats
from ragmeter.quality.decision import Check, Decision

ALLOWED_TAGS = frozenset(
    "html head meta title style body main section nav h1 h2 p pre div table thead tbody tr th td span small br svg "
    "rect text a details summary b i dl dt dd ol ul li footer".split()
)


class _Reader(HTMLParser):
    """Collects tags, attributes and text the way a browser would find them."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts = set(), set(), []
        self.links, self.ids, self.open = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value for name, value in attrs if name == "href"]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

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
    verdict = Verdict(word="bad", codes=("c",), reasons=(text,))
    verdicts = Verdicts()
    verdicts.add(verdict)
    check = Check(text, "fail", text)
    return EvaluationReport(
        data=str(tmp_path / "data.jsonl"),
        rows=1,
        worst=[WorstRow(Row(1, sample, "k"), {"recall": score}, verdict)],
        bad_rows=[SkippedRow("data.jsonl", 2, text)],
        bad_row_count=1,
        summaries=summarize([{"recall": score}] * 12),
        resumed=0,
        spent=JudgeStats(),
        duration_s=1.0,
        judge_model=text,
        verdicts=verdicts,
        decision=Decision([check]),
        at=1_790_000_000.0,
    )


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
    assert not any(name.startswith("on") or name == "src" for name in read.attributes)
    assert all(link.startswith("#") for link in read.links)
    assert read.text.count(text) >= 8


@given(st.text(max_size=200))
def test_any_text_is_written_and_adds_no_tag(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "page.html"
    plain = _Reader(render_page(_evaluation(path.parent, "x")))
    write_page(_evaluation(path.parent, text), path)
    written = path.read_text(encoding="utf-8")
    read = _Reader(written)
    assert written.endswith("</html>\n")
    assert read.tags <= plain.tags | {"i"}
    assert read.attributes <= plain.attributes


def test_the_page_asks_nothing_of_anybody(tmp_path):
    page = render_page(_evaluation(tmp_path, "text"))
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "url(" not in page


@pytest.fixture
def page_of(tmp_path):
    """A function that scores rows, and returns the page."""

    def page(rows, more="", **options):
        data = tmp_path / "data.jsonl"
        data.write_text("\n".join(map(json.dumps, rows)) + "\n" + more)
        return render_page(run_evaluation(EvaluateOptions(data=data, **options)))

    return page


def test_page_of_a_real_run_has_distributions_the_worst_rows_and_what_scores_mean(page_of):
    rows = [
        {"question": f"question {number}", "contexts": ["a"] * number, "answer": "a"} for number in range(5)
    ]
    page = page_of(rows, "broken\n", metrics=["retrieval_health", "lexical_groundedness"])
    read = _Reader(page)
    assert {"svg", "rect"} <= read.tags
    assert "line 6: not JSON" in read.text
    assert "could not be read and were skipped: 1" in read.text
    assert "Which share of the answer's words is in the retrieved contexts?" in read.text
    assert "Spearman .638" in read.text, "where the formula is from"
    assert "below 0.3: bad (unsupported_answer)" in read.text or "bad (unsupported_answer)" in read.text
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    # Question 0 found nothing; in the others chunks are there twice, the more the worse.
    first, *others = [text for text in read.texts if text.startswith("question ")][:5]
    assert first == "question 0"
    assert others == ["question 4", "question 3", "question 2", *others[3:]]


def test_scores_of_one_row_stand_side_by_side(page_of):
    page = page_of([{"question": "q", "contexts": ["a", "a"], "answer": "b"}])
    table = page[page.index('<table class="rows">') :]
    table = table[: table.index("</table>")]
    named = [part.split("<")[0] for part in table.split("<span>")[1:]]
    assert {"lexical_groundedness", "duplicate_ratio", "lexical_context_relevance"} <= set(named)
    assert "context_count" not in named, "of a count neither way is better"
    [row] = table[table.index("<tbody>") :].split("<tr>")[1:]
    assert row.count("<td") == len(named)


def test_the_page_has_date_versions_judge_and_what_is_missing(tmp_path):
    read = _Reader(render_page(_evaluation(tmp_path, "text")))
    said = " ".join(read.texts)
    assert "2026-09-21" in said
    assert f"ragmeter {version('ragmeter-otel')}" in said
    assert "not known: the judge has no prices" in said
    assert "0, of them failed: 0" in said
    assert "Decision: fail" in said


@pytest.mark.parametrize("letter", ["x", "&", "\U0001f600"])
def test_long_texts_leave_the_page_below_a_megabyte(tmp_path, letter):
    """Also where every letter takes five bytes: what is bounded is the page, not its texts."""
    one = _evaluation(tmp_path, letter * 100_000)
    [found] = one.worst
    chunks = [RetrievedContext(text=letter * 100_000) for _ in range(100)]
    item = ScoreItem(letter * 1000, False, letter * 1000, letter * 1000, letter * 1000)
    scores = {
        f"score_{number}": found.scores["recall"].model_copy(
            update={"name": f"score_{number}", "items": (item,) * 100}
        )
        for number in range(40)
    }
    row = Row(1, found.row.sample.model_copy(update={"contexts": chunks}), "k")
    whole = replace(
        one,
        worst=[WorstRow(row, scores, found.verdict)] * SHOWN,
        bad_rows=[SkippedRow("data.jsonl", 2, letter * 10_000)] * 1_000,
        bad_row_count=12_000,
        summaries=summarize([scores] * 12),
    )
    page = render_page(whole)
    assert len(page.encode()) < 1_000_000
    read = _Reader(page)
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert "and 11,950 more" in read.text


def test_the_colours_are_those_of_the_page_of_serve():
    style = (Path(__file__).parents[2] / "serve" / "page" / "static" / "style.css").read_text()
    colours = re.findall(r"(--[a-z0-9-]+): light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\)", style)
    served = {name: light for name, light, _ in colours}
    dark = {name: dark for name, _, dark in colours}
    ours, ours_dark = (dict(one.split(":") for one in theme.split(";")) for theme in (LIGHT, DARK))
    assert ours == {name: served[name] for name in ours}
    assert ours_dark == {name: dark[name] for name in ours}


def test_the_option_writes_the_file_whole(tmp_path):
    data, page = tmp_path / "data.jsonl", tmp_path / "report.html"
    data.write_text('{"question": "q", "contexts": ["a"]}\n')
    arguments = ["evaluate", str(data), "--metrics", "retrieval_health", "--html", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []
    assert stat.S_IMODE(page.stat().st_mode) == 0o600  # it quotes the data set
    assert CliRunner().invoke(app, arguments).exit_code == 0, "a page of ours may be replaced"
