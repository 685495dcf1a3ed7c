"""The one scoring function: the scores of live requests, batch after batch, on any thread and in any process."""

import asyncio
import os
import pickle
import sys
import threading
from dataclasses import dataclass

import pytest
from at_once import at_once
from fakes_core import FakeJudge, answer_length
from fakes_worker import EchoJudge
from forked import in_child

from ragmeter import ConfigurationError, Limits, RagMeter, Scorer
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import Metric, RagSample, Reference, RetrievedContext, Score, evaluate
from ragmeter.metrics.protocol import reads_reference
from ragmeter.quality.positions import POSITIONED, position_name

PLACED = {position_name(name) for name in POSITIONED}

SENTENCES = {
    "en": "The lock of {place} lifts a ship {number} metres. It was opened in 19{number}.",
    "ru": "Шлюз {place} поднимает судно на {number} метров. Он открыт в 19{number} году.",
    "zh": "{place}船闸将船只提升{number}米。它于19{number}年开放。",
}
QUESTIONS = {
    "en": "How high does the lock of {place} lift a ship?",
    "ru": "На сколько метров шлюз {place} поднимает судно?",
    "zh": "{place}船闸将船只提升多少米？",
}
REFUSALS = {"en": "I do not know.", "ru": "Я не знаю.", "zh": "我不知道。"}


def sample(number: int) -> RagSample:
    language = ("en", "ru", "zh")[number % 3]
    place = ("Panama", "Суэц", "三峡", "Kiel")[number % 4]
    texts = [SENTENCES[language].format(place=place, number=number + other) for other in range(number % 6)]
    truth = SENTENCES[language].format(place=place, number=number)
    return RagSample(
        question=QUESTIONS[language].format(place=place),
        contexts=[
            RetrievedContext(text=text, id=f"doc-{at}", score=0.9 - at / 10) for at, text in enumerate(texts)
        ],
        answer=REFUSALS[language] if number % 11 == 0 else truth,
        reference=Reference(answer=truth, contexts=[truth], context_ids=["doc-0", "doc-9"])
        if number % 2
        else None,
        status="ok" if number % 7 else "error",
    )


SAMPLES = [
    *map(sample, range(240)),
    RagSample(question="\ud800?", contexts=["\udfff lone"], answer=None, status="error"),
    RagSample(question=None, contexts=["text"], status="retrieval_only", name="retriever"),
    RagSample(question="Long?", contexts=["x " * 200_000], answer="x"),
]


def by_meter(samples, **arguments):
    """Return what `scoring="thread"` writes of each sample, in their order."""
    exporter = InMemoryExporter()
    meter = RagMeter(
        exporters=[exporter], limits=Limits(hold_s=600, queue_size=4096, queue_bytes=1 << 30), **arguments
    )
    try:
        for one in samples:
            meter.submit(one)
        assert meter.flush(120)
    finally:
        meter.shutdown()
    place = {id(one): number for number, one in enumerate(samples)}
    results = sorted(exporter.results, key=lambda result: place[id(result.sample)])
    assert len(results) == len(samples)
    return [
        ([written(score) for score in result.scores.values() if score.name not in PLACED], result.verdict)
        for result in results
    ]  # fmt: skip


def by_scorer(samples, **arguments):
    with Scorer(**arguments) as scorer:
        half = len(samples) // 2
        found = [*scorer.score(samples[:half]), *scorer.score(samples[half:])]
    return [([written(score) for score in one.values()], one.verdict) for one in found]


def written(score):
    return score.model_dump_json(exclude_unset=True)


def test_free_scores_are_those_of_live_requests_bit_for_bit():
    assert by_scorer(SAMPLES) == by_meter(SAMPLES)


def test_judged_scores_are_those_of_live_requests_bit_for_bit():
    some = [one for one in SAMPLES if len(one.contexts) < 4][:120]

    assert by_scorer(some, judge=EchoJudge()) == by_meter(some, judge=EchoJudge())


def test_named_metrics_are_scored_as_evaluate_scores_them():
    chosen = ["precision_recall_f1", "refusal", answer_length]
    samples = SAMPLES[:60]

    with Scorer(chosen) as scorer:
        found = scorer.score(samples)

    assert found == evaluate(samples, chosen)
    assert [one.verdict for one in found] == [one.verdict for one in evaluate(samples, chosen)]
    assert list(found[0]) == ["precision", "recall", "f1", "refusal", "answer_length"]
    assert found[3].sample is samples[3]


def test_a_running_event_loop_may_await_or_call_it():
    samples = SAMPLES[:20]
    with Scorer(judge=EchoJudge()) as scorer:
        expected = scorer.score(samples)

        async def twice():
            return await scorer.ascore(samples), scorer.score(samples)

        awaited, called = asyncio.run(twice())

    assert awaited == called == expected


def test_free_metrics_need_no_thread_and_leave_the_loop_to_others():
    turns = 0

    async def counted():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main():
        other = asyncio.create_task(counted())
        found = await Scorer().ascore(SAMPLES[:20])
        other.cancel()
        return found

    before = set(threading.enumerate())
    assert asyncio.run(main()) == Scorer().score(SAMPLES[:20])
    assert turns >= 20
    assert set(threading.enumerate()) <= before


@dataclass(frozen=True, eq=False)
class Counts(Metric):
    """A judged metric that knows how many of its kind are at work at a time."""

    state: dict
    name: str = "counts"
    score_names: tuple[str, ...] = ("counts",)
    needs: tuple[str, ...] = ()
    method = "llm"
    target = "retrieval"
    definition = "1"

    async def measure(self, sample, judge):
        self.state["now"] += 1
        self.state["most"] = max(self.state["most"], self.state["now"])
        self.state["loops"].add(id(asyncio.get_running_loop()))
        for _ in range(5):
            await asyncio.sleep(0)
        self.state["now"] -= 1
        return [Score(name="counts", value=0.5, status="ok", method="llm", definition="1")]


def test_one_loop_serves_all_batches_and_concurrency_holds_over_them():
    state = {"now": 0, "most": 0, "loops": set()}
    judge = FakeJudge()
    with Scorer([Counts(state)], judge, concurrency=3) as scorer:
        at_once(scorer.score, [SAMPLES[:30]] * 4)
        assert judge.closed == 0

    assert state["most"] == 3
    assert len(state["loops"]) == 1
    assert judge.closed == 1


def test_after_close_a_batch_starts_it_again():
    judge = FakeJudge()
    scorer = Scorer([Counts({"now": 0, "most": 0, "loops": set()})], judge)
    first = scorer.score(SAMPLES[:1])
    scorer.close()
    scorer.close()

    assert scorer.score(SAMPLES[:1]) == first
    scorer.close()
    assert judge.closed == 2


@dataclass(frozen=True, eq=False)
class Hangs(Counts):
    """A judged metric that never answers."""

    async def measure(self, sample, judge):
        await asyncio.Event().wait()


def test_who_does_not_answer_is_a_timeout_and_not_a_hang():
    with Scorer([Hangs({})], FakeJudge(), deadline_s=0.05) as scorer:
        [found] = scorer.score(SAMPLES[:1])

    assert (found["counts"].status, found["counts"].error_type) == ("timeout", "timeout")


def test_a_text_that_is_too_long_is_skipped_as_live():
    [found] = Scorer(["precision_recall_f1"], max_text_chars=10).score([sample(5)])

    assert found["recall"].error_type == "too_long"


def test_what_is_not_judged_says_why():
    with Scorer(["faithfulness", "refusal"], EchoJudge()) as scorer:
        judged, spared = scorer.score([sample(5), sample(5)], unjudged=[None, "sampled_out"])
        with pytest.raises(ValueError):
            scorer.score([sample(5)], unjudged=[])

    assert judged["faithfulness"].status != "skipped"
    assert spared["faithfulness"].status == "skipped"
    assert spared["faithfulness"].explanation == "not judged: sampled_out"
    assert spared["refusal"] == judged["refusal"]


def test_only_some_metrics_are_measured_again():
    scorer = Scorer()
    [everything] = scorer.score([sample(5)])
    [some] = scorer.score([sample(5)], only=reads_reference)

    assert 0 < len(some) < len(everything)
    assert all(everything[name] == score for name, score in some.items())


def test_a_pickled_one_scores_the_same_before_and_after_its_first_use():
    samples = SAMPLES[:10]
    with Scorer(judge=EchoJudge()) as scorer:
        arrived = pickle.loads(pickle.dumps(scorer))
        expected = scorer.score(samples)
        with arrived, pickle.loads(pickle.dumps(scorer)) as later:
            assert arrived.score(samples) == later.score(samples) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_asks_on_a_loop_of_its_own():
    with Scorer(judge=EchoJudge()) as scorer:
        expected = scorer.score(SAMPLES[:5])  # the loop runs
        assert in_child(lambda: (scorer.score(SAMPLES[:5]) == expected, scorer.close())) == "(True, None)"
        assert scorer.score(SAMPLES[:5]) == expected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"metrics": ["faithfulness"]}, "ask a judge"),
        ({"metrics": ["semantic_context_relevance"]}, "ask an embedder"),
        ({"metrics": ["no_such_metric"]}, "no_such_metric"),
        ({"concurrency": 0}, "concurrency"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"max_text_chars": 0}, "max_text_chars"),
        ({"verdict": "strict"}, "VerdictRules"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments, says):
    with pytest.raises(ConfigurationError, match=says):
        Scorer(**arguments)


def test_the_front_door_loads_it_on_demand():
    assert "ragmeter.scorer" in sys.modules
    assert Scorer.__module__ == "ragmeter.scorer"
