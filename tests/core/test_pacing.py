"""A judge's budget spread evenly over time; losses are told."""

import itertools
import logging
from dataclasses import dataclass

import pytest
from fakes_core import FakeJudge, GatedMetric, context_tally

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample
from ragmeter.metrics.judge import JudgeBudget
from ragmeter.metrics.judge.contract import JudgeCall
from ragmeter.pacing import JudgePacer


@dataclass
class Limits:
    calls_per_minute: int | None = None
    tokens_per_minute: int | None = None


def _simulate(limits, *, requests_per_s, seconds, calls, tokens):
    now = [0.0]
    pacer = JudgePacer(limits, clock=lambda: now[0])
    admitted = []
    for step in range(int(requests_per_s * seconds)):
        now[0] = step / requests_per_s
        if pacer.admits():
            for _ in range(calls):
                pacer.called(JudgeCall("m", "model", 0.1, tokens // calls, 0))
            pacer.judged()
            admitted.append(now[0])
    return pacer, admitted


@pytest.mark.parametrize(
    ("limits", "per_minute"),
    [
        (Limits(calls_per_minute=120), 40),
        (Limits(tokens_per_minute=60_000), 60),
        # 1,000 prompt tokens at 2 a million are 0.002 a request: 50 requests for 0.1.
        (JudgeBudget(cost_per_minute=0.1, input_price=2.0, output_price=8.0), 50),
    ],
)
def test_the_budget_is_spent_evenly(limits, per_minute):
    """3 calls and 1,000 tokens a request: the budget allows so many requests a minute."""
    pacer, admitted = _simulate(limits, requests_per_s=10, seconds=600, calls=3, tokens=1_000)

    later = [at for at in admitted if at >= 120]
    by_minute = [sum(1 for at in later if m * 60 <= at < m * 60 + 60) for m in range(2, 10)]
    assert all(per_minute * 0.85 <= count <= per_minute * 1.15 for count in by_minute)
    gaps = [b - a for a, b in itertools.pairwise(later)]
    assert max(gaps) < 3 * 60 / per_minute
    assert pacer.share == pytest.approx(per_minute / 600, abs=0.08)


def test_without_a_budget_everything_is_admitted():
    pacer, admitted = _simulate(None, requests_per_s=10, seconds=10, calls=3, tokens=10)

    assert (len(admitted), pacer.share) == (100, 1.0)


def test_traffic_below_the_budget_is_judged_whole():
    pacer, admitted = _simulate(
        Limits(calls_per_minute=600), requests_per_s=2, seconds=300, calls=3, tokens=10
    )

    assert len(admitted) == 600
    assert pacer.share == pytest.approx(1.0, abs=0.01)


def test_requests_over_budget_go_out_unjudged_at_once_and_say_so():
    import threading

    gate = threading.Event()
    gate.set()
    judge = FakeJudge()
    judge.budget = Limits(calls_per_minute=3)
    memory = InMemoryExporter()
    meter = RagMeter(
        metrics=[context_tally, GatedMetric(gate)], judge=judge, exporters=[memory], hold_s=60
    )
    for _ in range(40):
        meter.submit(RagSample(question="q", contexts=["a"]))
    assert meter.flush(20)

    skipped = [r for r in memory.results if r.scores["gated"].status == "skipped"]
    assert len(memory.results) == 40
    assert 35 <= len(skipped) == meter.stats().judge_skipped["budget"]
    assert all(result.scores["context_tally"].value == 1.0 for result in memory.results)
    assert skipped[-1].judge_sample_rate < 0.5


def test_drops_are_logged_once_a_minute_and_sampling_is_not(caplog):
    import threading

    from ragmeter.metrics import metric

    gate = threading.Event()

    @metric
    def blocked(sample):
        gate.wait(30)
        return 1.0

    meter = RagMeter(metrics=[blocked], exporters=[InMemoryExporter()], queue_size=1)
    quiet = RagMeter(metrics=[], exporters=[], sample_rate=0.0)
    with caplog.at_level(logging.WARNING, "ragmeter"):
        for _ in range(30):
            meter.submit(RagSample(question="q"))
            quiet.submit(RagSample(question="q"))
    gate.set()
    meter.flush(10)

    assert [record.message.split(";")[0] for record in caplog.records] == [
        "ragmeter: requests are not scored (queue_full)"
    ]
