"""The page of `ragmeter serve` in a real browser: what is said, what is asked for, and what the browser complains of."""

import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from page_server import shown
from page_traffic import NEW_VERSION, fall, runs
from processes import wait_until

from ragmeter.cli.demo._page import server_with
from ragmeter.cli.demo.run import run_demo, worst_request
from ragmeter.requests.references import load_references
from ragmeter.serve.page import GoldenSet, Labels, Sources, Standing
from ragmeter.serve.store import Store, StoreOptions


@contextmanager
def looked_at(folder, batch, changes):
    """Serve the page of what was stored, for the block."""
    store = Store(StoreOptions(path=folder / "serve.db"))
    if batch:
        store.export(batch)
    labels = Labels(folder / "labels.jsonl", GoldenSet(folder / "golden.jsonl"))
    sources = Sources(
        reader=store.reader(), changes=lambda: changes, standing=lambda: Standing(81), labels=labels
    )
    try:
        with shown(sources) as url:
            yield SimpleNamespace(url=url, store=store, labels=labels)
    finally:
        store.close()


@pytest.fixture(scope="module")
def fallen(tmp_path_factory):
    now = time.time()
    changes = [fall(now), fall(now, "lexical_groundedness")]
    with looked_at(tmp_path_factory.mktemp("page"), runs(now), changes) as page:
        yield page


def test_the_bad_retrieval_is_found_in_two_clicks(tabs, fallen, keep_picture):
    page = tabs(fallen.url, width=1180, height=820)
    page.wait_for(r"library-qa · zh got worse since", rf"index_version = {NEW_VERSION}")
    keep_picture(page, "page-overview")
    page.click("Open the worst of them")
    page.wait_for(r"by question", r"Language: zh")
    page.evaluate("document.querySelector('a.open').click()")
    text = page.wait_for(r"in no chunk", r"✕ 0 of \d+ words of the question")

    assert NEW_VERSION in text
    assert page.evaluate("document.querySelectorAll('.chunk.off').length") == 3


def test_the_demos_page_marks_the_sentence_that_was_made_up(tabs, keep_picture):
    """``ragmeter demo --page``: the request that its report shows, on the page."""
    outcome = run_demo(offline=True)
    server = server_with(outcome)
    server.start()
    try:
        page = tabs(server.url, width=1180, height=820)
        page.wait_for(r"demo", r"bad")
        worst = worst_request(outcome.asked).run.run
        page = tabs(f"{server.url}trace/{worst.trace_id:032x}", width=1180, height=820)
        page.wait_for("Ottokar Lindqvist", "in no chunk")
        assert page.evaluate("document.querySelectorAll('.chunk').length") == 3
        keep_picture(page, "page-request")
    finally:
        server.stop(10)


@pytest.mark.parametrize("path", ["/", "/requests", "/scoring", "/golden", f"/trace/{1:032x}"])
@pytest.mark.parametrize("language", ["en", "ru", "zh"])
def test_no_page_does_what_its_content_policy_forbids(tabs, fallen, path, language):
    page = tabs(f"{fallen.url}{path}?lang={language}")
    page.wait_for("ragmeter")

    assert page.evaluate("document.readyState === 'complete' || new Promise(r => onload = r)") is not None
    assert page.evaluate("window.complaints") == []
    assert page.evaluate("trustedTypes.getAttributeType('script', 'src')") == "TrustedScriptURL"


def test_what_somebody_says_of_a_request_becomes_a_reference(tabs, fallen):
    page = tabs(f"{fallen.url}/trace/{1:032x}")
    page.wait_for("Your word on it")
    question = page.evaluate("document.querySelector('h1').innerText")
    page.evaluate("document.querySelector('input[value=right]').click()")
    page.evaluate("document.querySelector('input[name=golden]').click()")
    page.evaluate("document.querySelector('form button').click()")
    page.wait_for("Saved")

    assert load_references(fallen.labels.golden.path)(question) is not None


def test_what_is_being_said_is_not_replaced_by_a_page_that_comes_later(tabs, fallen):
    """A first visit from another zone fetches the page once more, with times in the reader's zone."""
    page = tabs("about:blank")
    page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    page.call("Network.clearBrowserCookies")
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="""
            window.asked = [];
            const send = XMLHttpRequest.prototype.send;
            XMLHttpRequest.prototype.send = function () {
              this.addEventListener("loadend", () => { window.arrived = true; });
              window.asked.push(() => send.call(this));
            };
        """,
    )
    page.call("Page.navigate", url=f"{fallen.url}/trace/{1:032x}")
    page.wait_for("Your word on it")
    wait_until(lambda: page.evaluate("window.asked.length"), 60)
    page.evaluate("document.querySelector('input[value=right]').click()")
    page.evaluate("window.asked[0]()")
    wait_until(lambda: page.evaluate("!!window.arrived"), 60)

    assert page.evaluate("document.querySelector('input[value=right]').checked")


def test_an_open_page_shows_what_came_and_keeps_its_place(tabs, tmp_path):
    now = time.time()
    with looked_at(tmp_path, [], []) as empty:
        page = tabs(empty.url)
        page.wait_for("Waiting for the first request", empty.url)
        page.evaluate("window.kept = true")
        empty.store.export(runs(now, 60))
        page.wait_for(r"\d+ requests", "library-qa")

        assert page.evaluate("window.kept"), "it was put in place, not loaded anew"
        assert page.evaluate("window.complaints") == []


def test_times_are_in_the_zone_of_who_reads(tabs, fallen):
    page = tabs("about:blank")
    page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    page.call("Page.navigate", url=fallen.url)
    page.wait_for("Times: Asia/Tokyo")

    assert page.evaluate("window.complaints") == []
    assert page.evaluate(
        "[...document.querySelectorAll('time')].every((one) => one.innerText.endsWith("
        "new Date(one.dateTime).toTimeString().slice(0, 5)))"
    )


def test_without_text_the_scores_are_there_and_no_word_is(tabs, tmp_path):
    now = time.time()
    with looked_at(tmp_path, runs(now, 60, texts=False), []) as page_of:
        page = tabs(page_of.url)
        page.wait_for("60 without text|without text", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
