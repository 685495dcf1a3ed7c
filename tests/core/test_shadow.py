"""``meter.shadow(...)``: another retriever beside the one in use, and the interval of the paired difference."""

import asyncio
import math
import random
import threading

import pytest
from fakes_core import context_tally
from hypothesis import given
from hypothesis import strategies as st
from metric_points import points_of
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ragmeter import ConfigurationError, RagMeter, RagSample, Scoring
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics.judge.counting import CountingJudge
from ragmeter.metrics.judge.protocol import Answer, Reply
from ragmeter.quality.paired import PairedSums

TOPICS = [f"{a}{b}" for a in ("kettle", "tower", "bridge", "harbour") for b in range(200)]
RIGHT = "The {0} of the museum was repaired in spring by the council of the town."
WRONG = "Nobody knows why the weather in this region changes so often during the year."


def ask(meter, count, *shadows, chunk=RIGHT):
    """Ask, not faster than the other retrievers are compared."""
    for number, topic in enumerate(TOPICS[:count], 1):
        sample = RagSample(
            question=f"When was the {topic} repaired?",
            contexts=[{"text": chunk.format(topic), "score": 23.5}],
            answer="In spring.",
        )
        meter.submit(sample)
        if number % 50 == 0 or number == count:
            assert meter.flush(60)
            assert all(shadow.wait(60) for shadow in shadows)


def topic_of(question):
    return question.split()[3]


def good(question):
    return [RIGHT.format(topic_of(question))]


def bad_of_three(question):
    topic = topic_of(question)
    return [WRONG if int(topic[-1]) % 3 == 0 else RIGHT.format(topic)]


@pytest.fixture
def meter():
    made = RagMeter([context_tally], exporters=[InMemoryExporter()])
    yield made
    made.shutdown(60)


def test_a_retriever_that_misses_more_is_worse_and_one_that_finds_the_same_is_not(meter):
    missing = meter.shadow(bad_of_three, rate=1.0)
    same = meter.shadow(good, rate=1.0, name="the same")
    ask(meter, 300, missing, same)
    found = missing.result()
    assert (found.name, found.word, found.comparable, found.n) == ("bad_of_three", "worse", True, 300)
    assert (found.worse, found.better, found.same) == (120, 0, 180)
    assert found.lower < found.difference < found.upper < -0.02
    assert "bad_of_three: worse (lexical_context_relevance -" in str(found)
    other = same.result()
    assert (other.word, other.difference, other.same) == ("nothing seen", 0.0, 300)


def test_what_is_known_of_other_retrievers_is_published_where_lists_can_be_compared():
    metrics = InMemoryMetricReader()
    otel = OpenTelemetryExporter(meter_provider=MeterProvider([metrics]), span_mode="off")
    with RagMeter([context_tally], exporters=[otel]) as meter:
        shadows = [
            meter.shadow(retriever, rate=1.0, name=name)
            for name, retriever in (
                ("misses", bad_of_three), ("same", good), ("longer", lambda question: [WRONG, WRONG]),
            )
        ]  # fmt: skip
        ask(meter, 60, *shadows)
        expected = {
            (name, field): getattr(shadow.result(), field)
            for name, shadow in zip(("misses", "same"), shadows, strict=False)
            for field in ("difference", "lower", "upper")
        }
        points = {
            (point.attributes["ragmeter.shadow"], name.rpartition(".")[2]): point.value
            for name, points in points_of(metrics).items()
            if name.startswith("ragmeter.shadow.")
            for point in points
        }
    assert points == expected
    assert points["misses", "difference"] < 0.0 == points["same", "difference"]


def test_it_is_never_called_better(meter, monkeypatch):
    """Words name wrong winners between families of retrievers: that takes a judge. They await nothing."""
    monkeypatch.setattr(asyncio.events, "new_event_loop", None)
    shadow = meter.shadow(good, rate=1.0)
    ask(meter, 300, shadow, chunk=WRONG)
    assert shadow.result().lower > 0.02
    assert shadow.result().word == "nothing seen"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (lambda question: [RIGHT.format("lamp") * 4], "chunks of"),
        (lambda question: [WRONG, WRONG], "lists of 1.0 and 2.0"),
        (lambda question: [{"text": WRONG, "score": 0.8}], "first places score 23.5 and 0.8, another family"),
    ],
)
def test_lists_of_another_kind_are_not_compared(meter, other, why):
    shadow = meter.shadow(other, rate=1.0)
    ask(meter, 200, shadow)
    found = shadow.result()
    assert (found.word, found.comparable) == ("nothing seen", False)
    assert why in found.why


def test_frameworks_retrievers_and_asynchronous_functions_are_asked(meter):
    documents = pytest.importorskip("langchain_core.documents")
    retrievers = pytest.importorskip("langchain_core.retrievers")

    class Found(retrievers.BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [documents.Document(good(query)[0])]

    async def later(question):
        return good(question)

    class Nodes:
        def retrieve(self, question):
            from llama_index.core.schema import NodeWithScore, TextNode

            return [NodeWithScore(node=TextNode(text=good(question)[0]), score=0.5)]

    pytest.importorskip("llama_index.core")
    shadows = [meter.shadow(one, rate=1.0) for one in (Found(), later, Nodes())]
    ask(meter, 5, *shadows)
    for shadow in shadows:
        assert (shadow.result().n, shadow.result().difference) == (5, 0.0)
    assert meter.stats().captured == 5, "what the other one does is no request of the application"


class Reader(CountingJudge):
    """Calls the chunks relevant that name the topic of the question; notes what it read."""

    model = "reader"

    def __init__(self):
        self.read = []

    async def ask(self, ask):
        texts = {passage.title.removeprefix("chunk "): passage.text for passage in ask.passages}
        self.read.append(texts)
        relevant = {name: "repaired" in text for name, text in texts.items()}
        ids = [item.id for group in ask.groups for item in group.items]
        return Reply({one: Answer(True, relevant[one]) for one in ids})


def test_a_judge_says_better_reads_both_lists_in_one_call_and_no_text_unredacted():
    judge = Reader()
    with RagMeter(
        [context_tally], exporters=[InMemoryExporter()], scoring=Scoring(redact=lambda text: text.replace("council", "***"))
    ) as meter:  # fmt: skip
        found, lost = (
            meter.shadow(one, rate=1.0, judge=judge, name=name)
            for one, name in ((good, "found"), (lambda question: [WRONG], "lost"))
        )
        ask(meter, 60, found, lost, chunk=WRONG)
        better, same = found.result(), lost.result()
    assert (better.word, better.score, better.n, better.difference) == ("better", "judged_ndcg", 60, 1.0)
    assert (same.word, same.n, same.same) == ("nothing seen", 60, 60)
    assert len(judge.read) == 60, "equal lists cost no call"
    assert {len(one) for one in judge.read} == {3}, "the question and two chunks"
    assert "council" not in repr(judge.read)
    assert "***" in repr(judge.read)


@pytest.mark.contains_errors
def test_a_retriever_that_fails_or_hangs_costs_the_comparison_and_nothing_else(meter):
    gate = threading.Event()

    def hangs(question):
        gate.wait(60)
        return good(question)

    def fails(question):
        raise OSError("no index")

    hanging, failing = meter.shadow(hangs, rate=1.0), meter.shadow(fails, rate=1.0)
    ask(meter, 300)
    stats = meter.stats()
    assert (stats.exported, stats.in_flight, dict(stats.dropped)) == (300, 0, {})
    assert failing.wait(60)
    assert failing.result().failed["error"] + failing.result().failed.get("queue_full", 0) == 300
    assert hanging.result().failed["queue_full"] >= 190
    gate.set()


def test_a_share_is_asked_and_no_more_than_the_budget(meter):
    seldom = meter.shadow(good, rate=0.2)
    dear = meter.shadow(good, rate=1.0, calls_per_hour=10, name="dear")
    elsewhere = meter.shadow(good, rate=1.0, workflow="another")
    ask(meter, 90, seldom, dear, elsewhere)
    assert 3 <= seldom.result().n <= 40
    assert (dear.result().n, dear.result().failed) == (10, {"budget": 80})
    assert elsewhere.result().n == 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"retriever": 5}, "retriever is 5"),
        ({"retriever": RagMeter}, "pass a function"),
        ({"retriever": good, "rate": 2}, "rate is 2"),
        ({"retriever": good, "calls_per_hour": 0}, "calls_per_hour is 0"),
    ],
)
def test_what_is_wrong_is_said_at_once(meter, wrong, says):
    with pytest.raises(ConfigurationError, match=says):
        meter.shadow(**wrong)


STREAMS, LONG, LOOKS = 150, 600, 12
WORLDS = {
    "uniform": (0.0, lambda chance: chance.uniform(-0.52, 0.52)),
    "mostly the same": (0.0, lambda chance: 0.0 if chance.random() < 0.85 else chance.choice((-0.6, 0.6))),
    "seldom and much": (-0.0195, lambda chance: -0.65 if chance.random() < 0.03 else 0.0),
}


@pytest.mark.parametrize("world", WORLDS)
def test_looked_at_again_and_again_the_interval_holds_the_truth(world):
    """At most one stream in twenty is ever outside; here none of 150 is."""
    truth, draw = WORLDS[world]
    chance = random.Random(7)
    outside = 0
    for _ in range(STREAMS):
        sums, ever = PairedSums(), False
        for number in range(1, LONG + 1):
            sums.add(draw(chance))
            if number % (LONG // LOOKS) == 0:
                lower, upper = sums.interval()
                ever = ever or not lower <= truth <= upper
        outside += ever
    assert outside <= STREAMS * 0.025


@given(st.lists(st.floats(-1, 1), max_size=60), st.integers(0, 60))
def test_sums_of_processes_add_up_and_bound_their_mean(differences, cut):
    whole, parts = PairedSums(), (PairedSums(), PairedSums())
    for number, one in enumerate(differences):
        whole.add(one)
        parts[number >= cut].add(one)
    merged = parts[0].merge(parts[1])
    assert merged.n == whole.n
    assert math.isclose(merged.total, whole.total, abs_tol=1e-9)
    lower, upper = whole.interval()
    assert -1.0 <= lower <= upper <= 1.0
    if differences:
        assert lower <= whole.mean() <= upper


def test_a_difference_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"\[-1, 1\]"):
        PairedSums().add(1.5)
