"""The page of `ragmeter evaluate --html`, opened from the disk: no barrier, no request, wide, narrow, dark and on paper."""

import base64
import json

import pytest
from test_page_access import CONTRAST, LEAST_CONTRAST, RUN, SEVERAL_RULES, went_to

from ragmeter.cli.demo.corpus import load_chunks, load_questions
from ragmeter.cli.evaluate._html_report import write_page
from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation
from ragmeter.quality.decision import Criteria, limit_of

ROWS = 120


def row(number, questions, chunks):
    """Return a row; every seventh found other chunks than its answer needs, every 29th found nothing."""
    asked = questions[number % len(questions)]
    own = [one for one in chunks.values() if one.language == asked.language]
    found = [chunks[asked.context_ids[0]], own[number % len(own)]]
    if number % 7 == 0:
        found = [one for one in own if one.id not in asked.context_ids][:2]
    if number % 29 == 0:
        found = []
    row = {
        "question": asked.question,
        "answer": asked.answer,
        "contexts": [{"text": one.text, "id": one.id} for one in found],
    }
    if number % 3:
        row["reference"] = {"answer": asked.answer, "context_ids": list(asked.context_ids)}
    return row


@pytest.fixture(scope="module")
def page_url(tmp_path_factory):
    """The address of a page with everything that it can have."""
    folder = tmp_path_factory.mktemp("report")
    questions = [one for one in load_questions() if one.context_ids]
    chunks = {chunk.id: chunk for chunk in load_chunks()}
    rows = [json.dumps(row(number, questions, chunks)) for number in range(ROWS)]
    data = folder / "questions.jsonl"
    data.write_text("\n".join([*rows, "broken"]) + "\n", encoding="utf-8")
    asked = Criteria(limits=[limit_of("recall=0.9"), limit_of("hit_rate=0.1")])
    write_page(run_evaluation(EvaluateOptions(data=data, asked=asked)), folder / "report.html")
    return (folder / "report.html").as_uri()


def themed(page, theme):
    features = [{"name": "prefers-color-scheme", "value": theme}]
    page.call("Emulation.setEmulatedMedia", media="screen", features=features)


def unfold(page):
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1320, 360])
def test_axe_finds_no_barrier(tabs, page_url, axe, theme, width):
    page = tabs("about:blank", width=width)
    themed(page, theme)
    page.call("Page.setBypassCSP", enabled=True)  # axe is put into it from outside
    went_to(page, page_url)
    unfold(page)
    page.evaluate(axe + ";0")
    passed, barriers = json.loads(page.evaluate(RUN))

    assert passed >= SEVERAL_RULES
    assert barriers == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrast = json.loads(page.evaluate(CONTRAST))
    assert {"count", "span", "point"} <= {kind for kind, _ in contrast}
    assert {kind: ratio for kind, ratio in contrast if ratio < LEAST_CONTRAST} == {}


def test_it_asks_nobody_and_its_policy_forbids_nothing_that_it_needs(tabs, browser, page_url):
    before = set(browser.hosts)
    page = went_to(tabs(page_url), page_url)

    assert page.evaluate("JSON.stringify(window.complaints)") == "[]"
    assert browser.hosts == before
    assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "1320px"


def test_a_link_unfolds_the_row_that_it_names(tabs, page_url):
    page = went_to(tabs(page_url), page_url)
    shown = "document.getElementById('row-2').checkVisibility()"

    assert not page.evaluate(shown)
    page.evaluate("document.querySelector('a[href=\"#row-2\"]').click()")
    assert page.evaluate(shown)


def test_on_paper_it_is_light_and_what_is_folded_stays_short(tabs, page_url):
    page = tabs("about:blank")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.call("Emulation.setEmulatedMedia", media="print", features=features)
    went_to(page, page_url)

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    printed = page.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
    pages = base64.b64decode(printed["data"]).count(b"/Type /Page\n")
    assert 2 <= pages <= 8


def test_it_opens_with_what_to_look_at(tabs, tmp_path, keep_picture):
    """As the documentation shows it: the verdict, the means, the rows to look at first, equal questions once."""
    questions = [one for one in load_questions() if one.context_ids and one.language == "en"]
    chunks = {chunk.id: chunk for chunk in load_chunks() if chunk.language == "en"}
    data = tmp_path / "questions.jsonl"
    data.write_text(
        "".join(json.dumps(row(number, questions, chunks)) + "\n" for number in range(ROWS)), "utf-8"
    )
    asked = Criteria(limits=[limit_of("recall=0.9"), limit_of("lexical_groundedness=0.6")])
    write_page(run_evaluation(EvaluateOptions(data=data, asked=asked)), tmp_path / "report.html")
    url = (tmp_path / "report.html").as_uri()
    page = tabs("about:blank", width=1180, height=820)
    themed(page, "light")
    went_to(page, url)
    page.wait_for("Rows to look at first", "× ")
    keep_picture(page, "evaluate-report")
    asked_once = json.loads(
        page.evaluate(
            "JSON.stringify([...document.querySelectorAll('table.rows tbody th a')].map((a) => a.innerText))"
        )
    )

    assert len(asked_once) == len(set(asked_once)) > 3
