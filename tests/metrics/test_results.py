"""What `evaluate` returns, how a notebook shows it, and what it becomes as a data frame."""

import asyncio
import io
import subprocess
import sys
import types
from html.parser import HTMLParser

import pytest

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import MissingDependencyError, RagSample, _progress_bar, aevaluate, evaluate

GOOD = RagSample(
    question="When was the bridge opened?",
    contexts=["The bridge was opened in 1932."],
    answer="The bridge was opened in 1932.",
)
BAD = GOOD.model_copy(update={"answer": "John Bradfield and Ralph Freeman designed it together."})
NASTY = RagSample(
    question="<script>alert('x')</script> \ud83d", contexts=["<b>"], answer="<i>&</i>"
)
SAMPLES = [GOOD, BAD, NASTY, RagSample(question=None)]


class Tags(HTMLParser):
    """The elements that HTML opens, all of which it closes."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_it_is_the_list_it_was_with_a_summary_and_the_worst():
    found = evaluate(SAMPLES)

    assert isinstance(found, list)
    assert len(found) == 4
    assert [each.sample for each in found] == SAMPLES
    assert [each.sample for each in found.worst(1)] == [BAD]
    assert [each.sample for each in found.worst()][-1] is GOOD
    grounded = found.summary["lexical_groundedness"]
    assert (grounded.count, dict(grounded.without_value)) == (
        2,
        {"undefined": 1, "missing_input": 1},
    )
    values = [each["lexical_groundedness"].value for each in found[:2]]
    assert grounded.mean == pytest.approx(sum(values) / 2)
    assert found == asyncio.run(aevaluate(SAMPLES))


def test_a_mean_of_nothing_is_unknown():
    assert evaluate([]).summary == {}
    assert evaluate([]).worst() == []
    (found,) = evaluate([RagSample(question=None)], ["lexical_groundedness"]).summary.values()
    assert (found.count, found.mean) == (0, None)


@pytest.mark.parametrize("shown", ["evaluation", "sample", "memory", "nothing"])
def test_a_notebook_shows_tables_in_which_texts_are_only_texts(shown):
    with RagMeter(exporters=[memory := InMemoryExporter()]) as meter:
        for sample in SAMPLES:
            meter.submit(sample)
        assert meter.flush(60)
    html = {
        "evaluation": evaluate(SAMPLES),
        "sample": evaluate(SAMPLES)[2],
        "memory": memory.results,
        "nothing": evaluate([]),
    }[shown]._repr_html_()

    assert {"table", "th"} <= Tags(html).seen <= set("div table thead tbody tr th td p b i".split())
    html.encode("utf-8")
    if shown != "nothing":
        assert "lexical_groundedness" in html


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for made in (evaluate([GOOD]), evaluate([GOOD])[0], InMemoryExporter().results):
        with pytest.raises(MissingDependencyError, match="pip install pandas"):
            made.to_pandas()


def test_a_data_frame_has_a_row_for_each_sample_and_unknown_is_no_number():
    pandas = pytest.importorskip("pandas")
    frame = evaluate(SAMPLES).to_pandas()

    assert list(frame.columns[:3]) == ["question", "verdict", "codes"]
    assert len(frame) == 4
    assert frame["lexical_groundedness"].isna().tolist() == [False, False, True, True]
    assert frame["verdict"].tolist()[:2] == ["good", "bad"]
    one = evaluate([GOOD])[0].to_pandas()
    assert one.loc[one["score"] == "refusal", "value"].tolist() == [0.0]
    assert isinstance(InMemoryExporter().results.to_pandas(), pandas.DataFrame)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    """No bar waits until it is worth while."""
    monkeypatch.setattr(_progress_bar, "SHOWN_AFTER_S", -1.0)
    monkeypatch.setattr(_progress_bar, "EVERY_S", 0.0)


def test_a_terminal_shows_a_bar_and_takes_it_away(at_once, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    evaluate(SAMPLES)

    assert "] 1/4\r" in stream.getvalue()
    assert stream.getvalue().endswith("] 4/4\r\x1b[K")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_server_prints_nothing(at_once, monkeypatch, capsys, stream):
    """Neither into a file, nor on a terminal from an event loop or another thread."""
    monkeypatch.setattr(sys, "stderr", stream := stream())
    asyncio.run(aevaluate(SAMPLES))

    async def handler():
        evaluate(SAMPLES)
        await asyncio.to_thread(evaluate, SAMPLES)

    asyncio.run(handler())
    if not stream.isatty():
        evaluate(SAMPLES)
    evaluate(SAMPLES, progress=False)

    assert stream.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_a_notebook_shows_a_bar_in_its_cell(at_once, monkeypatch):
    shown = []

    class Cell:
        def update(self, html):
            shown.append(html)

    def display(html, display_id):
        shown.append(html)
        return Cell()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.HTML, ipython.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    evaluate(SAMPLES)

    assert shown[0] == '<progress value="1" max="4"></progress> 1 of 4'
    assert shown[-1] == ""
    assert len(shown) == 5


def test_pandas_is_not_loaded_before_it_is_asked_for():
    code = "import sys, ragmeter.metrics.evaluation, ragmeter.exporters.memory; print('pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "False\n"
