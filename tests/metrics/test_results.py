"""What `evaluate` returns, how a notebook shows it, and what it becomes as a data frame."""

import asyncio
import io
import sys
import types
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_process import run_python

from ragmeter import RagMeter, Reference, Scorer
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import MissingDependencyError, RagSample, aevaluate, evaluate, metric
from ragmeter.metrics._display import progress_bar
from ragmeter.metrics._display.mean_interval import mean_interval

GOOD = RagSample(
    question="When was the bridge opened?",
    contexts=["The bridge was opened in 1932."],
    answer="The bridge was opened in 1932.",
)
BAD = GOOD.model_copy(update={"answer": "John Bradfield and Ralph Freeman designed it together."})
NASTY = RagSample(question="<script>alert('x')</script> \ud83d", contexts=["<b>"], answer="<i>&</i>")
SAMPLES = [GOOD, BAD, NASTY, RagSample(question=None)]


class Tags(HTMLParser):
    """The elements that HTML opens, all of which it closes."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen, self.text = [], set(), []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)
        self.seen.add(tag)
        self.text.append(" ")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        """What can be read, but for the style."""
        return " ".join("".join(self.text).partition("}")[2].rpartition("}")[2].split())


@metric
def broken(sample):
    raise ZeroDivisionError("no <b>words</b>")


@pytest.mark.parametrize("score", [evaluate, lambda *given: Scorer(given[1]).score(given[0])])
def test_what_failed_is_counted_by_kind_with_an_example_of_each(score):
    found = score(SAMPLES, [broken, "retrieval_health"])

    [said] = found.summary.failures
    assert said.startswith("4 metric_error (ZeroDivisionError), e.g. broken of row 0: ")
    for shown in (found, found.summary):
        page = Tags(shown._repr_html_())
        assert "4 metric_error (ZeroDivisionError), e.g. broken of row 0" in page.words
    assert score([GOOD], ["retrieval_health"]).summary.failures == []


def test_it_is_the_list_it_was_with_a_summary_and_the_worst():
    found = evaluate(SAMPLES)

    assert isinstance(found, list)
    assert len(found) == 4
    assert [each.sample for each in found] == SAMPLES
    assert [each.sample for each in found.worst(1)] == [BAD]
    assert [each.sample for each in found.worst()][-1] is GOOD
    grounded = found.summary["lexical_groundedness"]
    assert (grounded.count, dict(grounded.without_value)) == (2, {"undefined": 1, "missing_input": 1})
    values = [each["lexical_groundedness"].value for each in found[:2]]
    assert grounded.mean == pytest.approx(sum(values) / 2)
    assert grounded.interval95 == pytest.approx(mean_interval(values, (0.0, 1.0)))
    assert found == asyncio.run(aevaluate(SAMPLES))


def test_a_mean_of_nothing_is_unknown():
    assert evaluate([]).summary == {}
    assert evaluate([]).worst() == []
    (found,) = evaluate([RagSample(question=None)], ["lexical_groundedness"]).summary.values()
    assert (found.count, found.mean) == (0, None)


ELEMENTS = frozenset(
    "div style table thead tbody tr th td p b i small span br ul li svg rect text title".split()
)


@pytest.fixture(scope="module")
def results():
    """Everything that a notebook shows, by what it is."""
    with RagMeter(exporters=[memory := InMemoryExporter()]) as meter:
        for sample in SAMPLES:
            meter.submit(sample)
        assert meter.flush(60)
        estimates, estimate = meter.quality(), meter.quality("lexical_groundedness")
    evaluation = evaluate(SAMPLES)
    return {
        "evaluation": evaluation,
        "summary": evaluation.summary,
        "sample": evaluation[2],
        "score": evaluation[1]["lexical_groundedness"],
        "memory": memory.results,
        "result": memory.results[1],
        "estimates": estimates,
        "estimate": estimate,
        "scorer": Scorer().score(SAMPLES),
        "nothing": evaluate([]),
    }


SHOWN = ("evaluation", "summary", "sample", "score", "memory", "result", "estimates", "estimate",
         "scorer", "nothing")  # fmt: skip


@pytest.mark.parametrize("shown", SHOWN)
def test_a_notebook_shows_tables_in_which_texts_are_only_texts(results, shown):
    html = results[shown]._repr_html_()

    assert {"table", "th"} <= Tags(html).seen <= ELEMENTS
    html.encode("utf-8")
    assert "url(" not in html
    assert "//" not in html, "nothing comes from elsewhere"
    if shown not in ("nothing", "estimate"):
        assert "lexical_groundedness" in html


def test_a_notebook_shows_interval_distribution_and_the_worst_with_all_scores(results):
    html = results["evaluation"]._repr_html_()
    grounded = results["evaluation"].summary["lexical_groundedness"]
    words = Tags(html).words

    assert f"{grounded.mean:.2f} {grounded.mean_low:.2f} – {grounded.mean_high:.2f}" in words
    assert 'aria-label="2 values of lexical_groundedness from 0 to 1' in html
    assert html.count("<svg") > 5
    assert words.index("Worst first") < words.index(BAD.question)
    assert "✕ bad row 1" in words


def test_a_result_shows_why_and_an_estimate_what_it_rests_on(results):
    reason = results["result"].verdict.reasons[0]
    assert reason in Tags(results["result"]._repr_html_()).words
    estimate = results["estimate"]
    words = Tags(results["estimate"]._repr_html_()).words
    assert f"{estimate.lower:.2f} – {estimate.upper:.2f}" in words
    assert f"{estimate.n_judged} of {estimate.n_requests}" in words
    assert estimate.mean is None, "of three values no mean is shown"


@given(st.text(max_size=60))
def test_any_text_is_only_text(said):
    sample = RagSample(question=said, contexts=[said], answer=said)
    plain = Tags(evaluate([GOOD])._repr_html_()).seen
    html = evaluate([sample])._repr_html_()
    assert Tags(html).seen <= plain | {"i"}
    html.encode("utf-8")


@pytest.mark.parametrize("made", SHOWN)
def test_without_pandas_the_error_says_what_to_install(results, monkeypatch, made):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="pip install pandas"):
        results[made].to_pandas()


class Frame(dict):
    """As much of a data frame as is asked for: columns by name."""


@pytest.mark.parametrize("made", SHOWN)
def test_a_frame_has_columns_of_equal_length(results, monkeypatch, made):
    pandas = types.ModuleType("pandas")
    pandas.array, pandas.DataFrame = (lambda values, dtype: list(values)), Frame
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    frame = results[made].to_pandas()

    scores = len(results["result"].scores)
    rows = {"score": 1, "estimate": 1, "result": scores}.get(made)
    assert {len(column) for column in frame.values()} == {len(results[made]) if rows is None else rows}
    if made in ("summary", "estimates"):
        place = frame["score"].index("lexical_groundedness")
        low = frame["mean_low" if made == "summary" else "lower"][place]
        assert 0.0 <= low <= 1.0


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
    monkeypatch.setattr(progress_bar, "SHOWN_AFTER_S", -1.0)
    monkeypatch.setattr(progress_bar, "EVERY_S", 0.0)


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
    done = run_python("-c", code, check=True)

    assert done.stdout == "False\n"


def test_a_notebook_shows_equal_questions_once():
    samples = [
        RagSample(question=f"q{n % 2}", contexts=["wrong"], reference=Reference(contexts=["right"]))
        for n in range(8)
    ]
    page = evaluate(samples, ["precision_recall_f1"])._repr_html_()

    assert page.count("× 4") == 2
    assert page.count('<td data-is="recall"') == 2
