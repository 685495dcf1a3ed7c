"""From real applications to the chunk at fault: `ragmeter serve` as a process, LangChain and LlamaIndex, three languages."""

import json
import time

import httpx
import pytest
from library_apps import ASKED, FAULTY, LANGUAGES, asked
from processes import wait_until
from serving import serving

MOST_S = 5.0
FIRST_VIEW_BYTES, FIRST_VIEW_REQUESTS = 70_000, 6


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The server's address, and the questions whose retrieval was bad."""
    folder = tmp_path_factory.mktemp("library")
    store = ("--store", str(folder / "serve.db"))
    with serving(folder, "http://127.0.0.1:9", *store) as server:
        bad = asked(server.http)

        def all_there():
            told = httpx.get(f"{server.http}/api/overview", timeout=60).json()
            return told["requests"] == 2 * ASKED and not told["orphans"]

        wait_until(all_there, 120, "not all requests came")
        yield server.http, bad


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_injected_bad_retrieval_is_two_clicks_away(tabs, library, language):
    server, bad = library
    page = tabs(f"{server}/?lang={language}")
    page.wait_for("library-qa")
    began = time.monotonic()
    page.evaluate("document.querySelector('ol.worst a.open').click()")
    text = page.wait_for(r"✕ 0 (of|из|/) |✕ .*0")
    assert time.monotonic() - began < MOST_S

    assert page.evaluate("document.querySelector('h1').innerText") in bad
    assert page.evaluate("document.querySelectorAll('.chunk.off').length") == 2
    called = {"en": "Language", "ru": "Язык", "zh": "语言"}[language]
    assert f"{called} {FAULTY}" in text


def test_the_injected_bad_retrieval_is_two_keys_away(tabs, library):
    server, bad = library
    page = tabs(server)
    page.wait_for("library-qa")
    page.press("j")
    page.press("Enter")
    page.wait_for(r"✕ 0 of \d+ words of the question")

    assert page.evaluate("document.querySelector('h1').innerText") in bad


def test_both_applications_and_all_languages_are_there(library):
    server, bad = library
    told = httpx.get(f"{server}/api/overview", timeout=60).json()
    listed = httpx.get(f"{server}/api/requests", params={"limit": len(bad)}, timeout=60).json()

    assert told["segments"]["language"] == dict.fromkeys(LANGUAGES, 2 * ASKED // 3)
    assert len(told["workflows"]) == 2
    assert sorted(one["question"] for one in listed["requests"]) == sorted(bad)


@pytest.mark.parametrize("path", ["/", "/requests", "/gaps", "/conversations", "/connect"])
def test_the_first_view_is_small_and_all_our_own(tabs, library, path):
    server, _ = library
    # That a script asks again, for times in the reader's zone or for what came since, is no part of it.
    page = tabs("about:blank")
    page.call("Network.setCacheDisabled", cacheDisabled=True)
    page.call("Page.navigate", url=server + path)
    page.wait_for("ragmeter")
    found = json.loads(page.evaluate(
        "JSON.stringify([...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".filter((one) => one.initiatorType !== 'xmlhttprequest').map((one) => [one.name, one.transferSize]))"
    ))  # fmt: skip

    assert [name for name, _ in found if not name.startswith(server)] == []
    assert len(found) <= FIRST_VIEW_REQUESTS
    assert sum(size for _, size in found) < FIRST_VIEW_BYTES
    assert page.evaluate("window.complaints") == []
