"""Whoever looks at the page, however: axe-core finds no barrier in any state, language or theme; keyboard, paper, narrow."""

import json
import os
from contextlib import ExitStack

import pytest
from page_server import shown
from page_states import ONE, STATES, sources_of

LOOKS = tuple((language, theme) for language in ("en", "ru", "zh") for theme in ("light", "dark"))
RUN = """axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify([found.passes.length,
  found.violations.filter((one) => one.impact !== 'minor').map((one) => [one.id, one.impact, one.nodes.slice(0, 3)
  .map((node) => node.html.slice(0, 160) + ' :: ' + (node.failureSummary || '').slice(0, 300))])]))"""
SEVERAL_RULES = 10
LEAST_CONTRAST = 3.0
"""Of lines and shapes that say something (WCAG 1.4.11); axe looks at texts alone."""
CONTRAST = """(() => {
  const rgb = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (color) => rgb(color).map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ratio = (one, two) => { const [a, b] = [light(one), light(two)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const paper = getComputedStyle(document.body).backgroundColor;
  const shapes = [...document.querySelectorAll('svg .line, svg .other, svg .change, svg .band, svg .count, svg .usual, svg .span, svg .point, svg circle')];
  return JSON.stringify([...new Set(shapes.map((shape) => {
    const style = getComputedStyle(shape);
    const seen = [style.stroke, style.fill].filter((color) => color.startsWith('rgb('));
    return [shape.getAttribute('class'), Math.max(...seen.map((color) => ratio(color, paper)))];
  }).map(JSON.stringify))].map(JSON.parse));
})()"""


FOCUSED = """(() => {
  const at = document.activeElement;
  if (!at || at === document.body) return 'null';
  const style = getComputedStyle(at);
  const box = at.getBoundingClientRect();
  return JSON.stringify({
    place: [...document.querySelectorAll('*')].indexOf(at), class: at.className, html: at.outerHTML.slice(0, 120),
    outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
    seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0,
  });
})()"""
# Of radio buttons one is reached by Tab, the others by arrows.
REACHABLE = """[...document.querySelectorAll('a[href], button, input:not([type=hidden]), textarea, summary, [tabindex="0"]')]
  .filter((one) => one.type !== 'radio').length + (document.querySelector('input[type=radio]') ? 1 : 0)"""


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """The address of the page by state."""
    with ExitStack() as open_:
        yield {
            state: open_.enter_context(shown(sources_of(state, tmp_path_factory.mktemp("page"))))
            for state in STATES
        }


def went_to(page, url):
    """Go there, and wait until it is there whole."""
    page.call("Page.navigate", url=url)
    page.evaluate("document.readyState === 'complete' || new Promise((done) => addEventListener('load', done))")
    return page


def page_words(page):
    """Return the words that can be read."""
    return page.text.split()


def looks_of(place):
    """Return the languages and themes in which a state is looked at: all, or in the short form of the tests one."""
    if os.environ.get("RAGMETER_TEST_SHORT") and place:
        return (LOOKS[place % len(LOOKS)],)
    return LOOKS


@pytest.mark.parametrize(("place", "state"), list(enumerate(STATES)))
def test_axe_finds_no_barrier(tabs, sites, axe, place, state):
    page = tabs(sites[state] + STATES[state].paths[0])
    page.call("Page.setBypassCSP", enabled=True)  # axe is put into it from outside
    page.wait_for(STATES[state].says)
    found = []
    for language, theme in looks_of(place):
        for path in STATES[state].paths:
            mark = "&" if "?" in path else "?"
            went_to(page, f"{sites[state]}{path}{mark}lang={language}&theme={theme}")
            page.evaluate(axe + ";0")
            passed, barriers = json.loads(page.evaluate(RUN))
            assert passed >= SEVERAL_RULES
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            found += [(path, language, theme, *one) for one in barriers]

    assert found == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("state", "path"), [("deployment", "/"), ("change", ONE)])
def test_lines_and_shapes_stand_out_from_the_paper(tabs, sites, state, path, theme):
    page = went_to(tabs(sites[state]), f"{sites[state]}{path}?theme={theme}")
    found = json.loads(page.evaluate(CONTRAST))

    assert len(found) >= 3
    assert {kind: ratio for kind, ratio in found if ratio < LEAST_CONTRAST} == {}


@pytest.mark.parametrize("path", ["/", "/requests", ONE, "/scoring", "/golden"])
def test_the_keyboard_reaches_everything_in_the_order_in_which_it_is_read(tabs, sites, path):
    page = went_to(tabs(sites["change"]), sites["change"] + path)
    reached = []
    for _ in range(400):
        page.press("Tab")
        at = json.loads(page.evaluate(FOCUSED))
        if at is None or (reached and at["place"] == reached[0]["place"]):
            break
        reached.append(at)

    assert reached[0]["class"] == "skip"
    assert [one["place"] for one in reached] == sorted(one["place"] for one in reached)
    assert len(reached) == page.evaluate(REACHABLE)
    assert [one for one in reached if not one["outlined"]] == []
    assert [one for one in reached if not one["seen"]] == []


def test_the_skip_link_leads_past_the_head(tabs, sites):
    page = went_to(tabs(sites["change"]), sites["change"])
    page.press("Tab")
    page.press("Enter")

    assert page.evaluate("document.activeElement.id") == "main"
    page.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")


@pytest.mark.parametrize("state", STATES)
def test_a_narrow_window_needs_no_sideways_scrolling(tabs, sites, state):
    page = tabs(sites[state], width=320, height=800)
    for path in STATES[state].paths:
        for language in ("en", "ru"):
            mark = "&" if "?" in path else "?"
            went_to(page, f"{sites[state]}{path}{mark}lang={language}")

            assert page.evaluate("document.documentElement.scrollWidth") <= 320, (path, language)


def test_on_paper_there_is_what_was_found_and_no_control(tabs, sites):
    page = tabs(sites["change"])
    page.call("Emulation.setEmulatedMedia", media="print")
    for path in ("/", ONE):
        went_to(page, f"{sites['change']}{path}?theme=dark")

        assert page.evaluate("[...document.querySelectorAll('body > header, footer, form, .button')]"
                             ".every((one) => getComputedStyle(one).display === 'none')")  # fmt: skip
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.getElementById('main')).color") == "rgb(20, 24, 31)"
    page.wait_for("in no chunk", "Support")


@pytest.mark.parametrize("state", STATES)
def test_everything_is_read_without_a_script(tabs, sites, state):
    page = tabs(sites[state] + STATES[state].paths[0])
    page.wait_for(STATES[state].says)
    for path in STATES[state].paths:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
        with_script = sorted(page_words(went_to(page, sites[state] + path)))
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.call("Page.navigate", url=sites[state] + path)
        page.wait_for(STATES[state].says if path == STATES[state].paths[0] else "ragmeter")

        assert sorted(page_words(page)) == with_script, path
