"""Where a score stands in its own stream: mid-ranks, warm-up, bounds, forks, and on the way of a request."""

import os
import random
from dataclasses import dataclass

import pytest
from at_once import at_once
from fakes_quality import Runs
from forked import in_child
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter import RagMeter, RagSample, Retrieval
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import Metric, Score, metric
from ragmeter.quality import positions as module
from ragmeter.quality.positions import MAX_STREAMS, WARM_UP, WINDOW, StreamPositions, position_name
from ragmeter.quality.recent_values import RecentValues

TOP = "retriever_top_score"


@pytest.fixture
def early(monkeypatch):
    """Positions that are known from the second value on."""
    monkeypatch.setattr(module, "WARM_UP", 1)
    return StreamPositions()


def _run(workflow="qa", retriever="store", top_k=4, contexts=1):
    retrieval = Retrieval(started_ns=1, ended_ns=2, name=retriever, top_k=top_k)
    sample = RagSample(question="q", contexts=["c"] * contexts, name=workflow)
    return Runs()(sample=sample, retrievals=(retrieval,))


def _score(value, name=TOP, **changes):
    given = {"status": "ok", "method": "exact", "definition": "1", "range": (-1e9, None), **changes}
    return Score(name=name, value=value, **given)


def _place(positions, value, run=None, name=TOP, **changes):
    (found,) = positions.of(run or _run(), [_score(value, name, **changes)])
    return found


@settings(derandomize=True)
@given(st.integers(1, 20), st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 3.0]), min_size=1, max_size=60))
def test_mid_rank_is_that_of_the_last_values(window, values):
    """Against counting, with ties, over any window."""
    recent = RecentValues(window)
    for number, value in enumerate(values):
        last = values[max(0, number - window) : number]
        if last:
            below, equal = sum(v < value for v in last), last.count(value)
            assert recent.mid_rank(value) == pytest.approx((below + equal / 2) / len(last))
            assert recent.quantile(0.3) == sorted(last)[int(len(last) * 0.3)]
        recent.add(value)
        assert len(recent) == min(window, number + 1)


def test_a_position_is_known_after_thirty_values_and_says_of_how_many():
    positions = StreamPositions()
    found = [_place(positions, float(number)) for number in range(WARM_UP + 1)]

    assert [one.status for one in found] == ["undefined"] * WARM_UP + ["ok"]
    assert found[3].value is None
    assert found[3].summary == "not known before 30 requests of this stream; 3 so far"
    assert (found[-1].name, found[-1].value, found[-1].range) == (
        "retriever_top_score_position",
        1.0,
        (0.0, 1.0),
    )
    assert found[-1].summary == "retriever_top_score is above 100 % of the last 30 of this stream"
    assert found[-1].explanation == found[-1].summary
    assert found[-1].direction == "none"


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
def test_its_mean_is_a_half_on_every_store_until_something_changes(scale):
    chance, positions = random.Random(5), StreamPositions()
    usual = [_place(positions, scale * chance.gauss(5, 1)).value for _ in range(1_000)][WARM_UP:]
    worse = [_place(positions, scale * chance.gauss(4, 1)).value for _ in range(100)]

    assert sum(usual) / len(usual) == pytest.approx(0.5, abs=0.03)
    assert sum(worse) / len(worse) < 0.35


def test_equal_values_stand_in_the_middle():
    positions = StreamPositions()

    assert [_place(positions, 1.0).value for _ in range(WARM_UP + 2)][-2:] == [0.5, 0.5]


@pytest.mark.parametrize(
    "other", [{"workflow": "chat"}, {"retriever": "bm25"}, {"top_k": 8}, {"top_k": None, "contexts": 3}]
)
def test_each_workflow_retriever_and_k_is_a_stream_of_its_own(other, early):
    _place(early, 1.0)

    assert _place(early, 1.0, _run(**other)).status == "undefined"
    assert _place(early, 1.0).status == "ok"


def test_scores_are_placed_each_by_itself_and_only_where_there_is_a_value(early):
    scores = [
        _score(0.5),
        _score(0.1, "retriever_score_spread", label="distance"),
        _score(0.9, "lexical_groundedness"),
        _score(None, "semantic_context_relevance", status="missing_input"),
    ]

    early.of(_run(), scores)
    top, spread = early.of(_run(), scores)

    assert [top.name, spread.name] == [position_name(TOP), "retriever_score_spread_position"]
    assert (top.label, spread.label) == (None, "distance")
    assert (top.value, spread.value) == (0.5, 0.5)


def test_streams_and_values_are_bounded(early):
    for number in range(MAX_STREAMS + 1):
        _place(early, 1.0, _run(workflow=f"w{number}"))
    for number in range(WINDOW * 2):
        last = _place(early, float(number), _run(workflow="w200"))

    assert _place(early, 1.0, _run(workflow="w0")).status == "undefined"
    assert last.summary.endswith("of the last 500 of this stream")


def test_threads_lose_no_value():
    positions = StreamPositions()
    at_once(lambda _: [_place(positions, 1.0) for _ in range(100)], range(4))

    assert "last 400 " in _place(positions, 1.0).summary


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_over_and_waits_for_no_lock(early):
    _place(early, 1.0)
    early._lock.acquire()
    assert in_child(lambda: _place(early, 1.0).status) == "undefined"
    early._lock.release()

    assert _place(early, 1.0).status == "ok"


@metric(name=TOP, needs=("contexts",), range=(-1e9, None))
def top_score(sample):
    return sample.contexts[0].score


@dataclass(frozen=True)
class Semantic(Metric):
    """A score that comes by way of the judges' loop."""

    name: str = "semantic_context_relevance"
    score_names: tuple[str, ...] = ("semantic_context_relevance",)
    needs: tuple[str, ...] = ("contexts",)
    judged = False
    method = "embedding"
    target = "retrieval"
    definition = "m"

    async def measure(self, sample, judge):
        return [self.make_score(self.name, sample.contexts[0].score / 10)]


def test_a_request_leaves_with_its_positions():
    """Those of free scores and those of awaited ones, which carry how they came to be measured."""
    memory = InMemoryExporter()
    with RagMeter([top_score, Semantic()], exporters=[memory]) as meter:
        for number in range(WARM_UP + 1):
            meter.submit(RagSample(question="q", contexts=[{"text": "c", "score": float(number % 7)}]))
            assert meter.flush(60)

    first, last = memory.results[0], memory.results[-1]
    assert list(last.scores) == [
        TOP,
        "semantic_context_relevance",
        "retriever_top_score_position",
        "semantic_context_relevance_position",
    ]
    assert first.scores["retriever_top_score_position"].status == "undefined"
    earlier = [float(number % 7) for number in range(WARM_UP)]
    value = float(WARM_UP % 7)
    rank = (sum(v < value for v in earlier) + earlier.count(value) / 2) / WARM_UP
    assert last.scores["retriever_top_score_position"].value == pytest.approx(rank)
    assert last.scores["semantic_context_relevance_position"].value == pytest.approx(rank)
    assert last.selection_of(last.scores["semantic_context_relevance_position"]) == "sampled"
    assert last.selection_of(last.scores["retriever_top_score_position"]) is None
