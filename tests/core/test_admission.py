"""A judge's budget becomes a probability that is known beforehand; losses are told."""

import itertools
import threading
from collections import Counter
from dataclasses import replace

import pytest
from fakes_core import FakeJudge, GatedMetric, awaited_metric, context_tally, scored

from ragmeter import Limits
from ragmeter.metrics import RagSample
from ragmeter.metrics.judge import JudgeBudget
from ragmeter.metrics.judge.protocol import JudgeCall
from ragmeter.metrics.protocol import scores_without_value
from ragmeter.pipeline._admission import LEAST, Admission
from ragmeter.pipeline.sampling import place, within


def _judge(pacer, calls, tokens):
    for _ in range(calls):
        pacer.note_call(JudgeCall("m", "model", 0.1, tokens // calls, 0))
    pacer.finish_request()


def _simulate(limits, arrivals, *, rate=1.0, calls=3, tokens=1_000):
    """Return when a request was judged and with which probability, with traces of fixed ids."""
    now = [0.0]
    pacer = Admission(limits, rate, clock=lambda: now[0])
    judged = []
    for number, now[0] in enumerate(arrivals, start=1):
        probability = pacer.count_request()
        if within(place("judge", number, ""), probability):
            _judge(pacer, calls, tokens)
            judged.append((now[0], probability))
    return judged


def _steady(per_s, seconds):
    return [number / per_s for number in range(int(per_s * seconds))]


def _bursts(size, every_s, seconds):
    """Bursts of requests a hundredth of a second apart."""
    return [at + n * 0.01 for at in range(0, seconds, every_s) for n in range(size)]


def _waves(seconds):
    """Traffic that doubles and halves: twenty minutes busy, twenty quiet."""
    at, arrivals = 0.0, []
    while at < seconds:
        arrivals.append(at)
        at += 0.1 if at % 2_400 < 1_200 else 0.5
    return arrivals


@pytest.mark.parametrize(
    ("limits", "per_minute"),
    [
        (JudgeBudget(calls_per_minute=120), 40),
        (JudgeBudget(tokens_per_minute=60_000), 60),
        # 1,000 prompt tokens at 2 a million are 0.002 a request: 50 requests for 0.1.
        (JudgeBudget(cost_per_minute=0.1, input_price=2.0, output_price=8.0), 50),
    ],
)
def test_the_budget_is_spent_evenly_and_not_exceeded(limits, per_minute):
    """3 calls and 1,000 tokens a request: the budget allows so many requests a minute."""
    judged = _simulate(limits, _steady(10, 3_600))

    per_block = Counter(int(at // 600) for at, _ in judged)
    assert all(0.3 * per_minute <= n / 10 <= per_minute for n in per_block.values())
    assert len(per_block) == 6
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(judged)]
    assert max(gaps) < 20 * 60 / per_minute


@pytest.mark.parametrize(
    ("arrivals", "limits", "rate"),
    [
        (_steady(20, 4_000), JudgeBudget(calls_per_minute=720), 1.0),
        (_steady(20, 4_000), None, 0.1),
        (_bursts(30, 2, 5_400), JudgeBudget(calls_per_minute=960), 1.0),
        (_bursts(600, 60, 7_200), JudgeBudget(calls_per_minute=960), 0.75),
        (_waves(14_400), JudgeBudget(calls_per_minute=480), 1.0),
    ],
    ids=["steady", "a rate alone", "bursts", "large bursts", "waves"],
)
def test_the_inverse_probabilities_of_the_judged_add_up_to_the_requests(arrivals, limits, rate):
    """Within 3 %, whatever the traffic: what is exported is what decided."""
    judged = _simulate(limits, arrivals, rate=rate)

    assert len(judged) < len(arrivals) * 0.8
    assert sum(1 / p for _, p in judged) == pytest.approx(len(arrivals), rel=0.03)


def test_a_burst_now_and_then_fits_into_the_budget_of_its_minute():
    """Averaged over five minutes 500 requests at once look harmless; the fuse would refuse the last."""
    judged = _simulate(JudgeBudget(calls_per_minute=180), _bursts(500, 300, 36_000))

    per_burst = Counter(int(at // 300) for at, _ in judged)
    later = [per_burst[number] for number in sorted(per_burst)][1:]
    assert len(later) == 119
    assert sum(count > 60 for count in later) <= 2
    assert sum(1 / p for _, p in judged) == pytest.approx(60_000, rel=0.03)


def test_the_first_of_a_burst_are_judged_no_more_than_the_last():
    """A burst's first third is better by .3: refusing the later ones would say .76 instead of .70."""
    judged = _simulate(JudgeBudget(calls_per_minute=480), _bursts(30, 3, 30_000))

    weights = value = 0.0
    for at, probability in judged:
        first_third = round(at % 3 * 100) < 10
        weights += 1 / probability
        value += (0.9 if first_third else 0.6) / probability
    assert value / weights == pytest.approx(0.7, abs=0.01)


def test_probabilities_are_the_rate_or_powers_of_two_and_never_above_the_rate():
    judged = _simulate(JudgeBudget(calls_per_minute=120), _waves(8_000), rate=0.3)

    assert {p for _, p in judged} <= {0.3, *(2.0**-n for n in range(2, 13))}
    assert len({p for _, p in judged}) > 1


def test_without_a_budget_the_rate_it_is():
    assert [p for _, p in _simulate(None, _steady(10, 10))] == [1.0] * 100


def test_traffic_below_the_budget_is_judged_whole():
    judged = _simulate(JudgeBudget(calls_per_minute=600), _steady(2, 300), tokens=10)

    assert [p for _, p in judged] == [1.0] * 600


def test_bad_requests_take_half_of_the_budget_at_most():
    """The others are judged the less for it, and with a probability that says so."""
    now = [0.0]
    pacer = Admission(JudgeBudget(calls_per_minute=180), clock=lambda: now[0])
    alone = Admission(JudgeBudget(calls_per_minute=180), clock=lambda: now[0])
    taken = 0
    for step in range(20_000):
        now[0] = step / 20
        probability, undisturbed = pacer.count_request(), alone.count_request()
        taken += pacer.takes_worst()

    assert taken == pytest.approx(1_000 * 0.5, abs=5)
    assert LEAST < probability < undisturbed


@pytest.mark.parametrize("calls", [1, 3])
def test_a_call_is_priced_by_the_budget(calls):
    """Told once, in the budget; a call that cost nothing or is priced already stays as it is."""
    pacer = Admission(JudgeBudget(input_price=0.5, output_price=2.0))
    call = JudgeCall("recall", "m", 1.0, 1_000_000 * calls, 500_000)

    assert pacer.with_cost(call).cost == 0.5 * calls + 1.0
    assert pacer.with_cost(replace(call, cached=True)).cost is None
    assert pacer.with_cost(replace(call, cost=7.0)).cost == 7.0
    assert Admission(JudgeBudget(calls_per_minute=9)).with_cost(call).cost is None
    assert Admission(None).with_cost(call).cost is None


def test_requests_that_are_not_chosen_go_out_unjudged_at_once_and_say_so():
    gate = threading.Event()
    gate.set()
    judge = FakeJudge()
    judge.budget = JudgeBudget(calls_per_minute=3)
    samples = [RagSample(question="q", contexts=["a"])] * 40
    metrics = [context_tally, GatedMetric(gate)]
    results, stats = scored(*samples, metrics=metrics, judge=judge, limits=Limits(hold_s=60))

    skipped = [r for r in results if r.scores["gated"].status == "skipped"]
    assert len(results) == 40
    assert 30 <= len(skipped) == stats.judge_skipped["paced"]
    assert all(result.scores["context_tally"].value == 1.0 for result in results)
    assert skipped[-1].judge_sample_rate < 0.1


def test_what_the_fuse_refuses_is_a_missing_value_and_counted_as_such():
    """The budget's own limit stays behind the pace; its refusals are no sampling."""

    def refuse(self, sample):
        return scores_without_value(self, "skipped", "the budget is used up", "budget")

    samples = [RagSample(question="q", contexts=["a"])] * 3
    results, stats = scored(*samples, metrics=[awaited_metric("refused", refuse)], judge=FakeJudge())

    assert stats.judge_skipped == {"budget": 3}
    scores = [result.scores["refused"] for result in results]
    assert {(score.status, score.error_type) for score in scores} == {("skipped", "budget")}
    assert {result.judge_sample_rate for result in results} == {1.0}
