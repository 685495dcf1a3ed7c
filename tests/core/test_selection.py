"""What goes out, what is judged, and what the numbers then say: ``keep="worst"`` above all."""

import random
from collections import Counter

import pytest
from at_once import at_once
from fakes_core import FakeJudge, awaited_metric
from fakes_quality import Runs
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_sdk import memory_sdk

from ragmeter import Limits, RagMeter, Sampling
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import RagSample, Score, metric
from ragmeter.pipeline._admission import Admission
from ragmeter.pipeline.sampling import WARM_UP, Candidate, Selector, TailSampling

SCORES = "gen_ai.evaluation.score"


@metric(name="free", method="lexical")
def free(sample):
    """The value that the question tells."""
    return float(sample.question)


JUDGED = awaited_metric("judged", lambda self, sample: [self.make_score("judged", float(sample.question))])
"""A judge that sees what the free metric sees."""


@pytest.mark.parametrize(("sample_rate", "judge_rate"), [(0.02, 1.0), (0.1, 0.2)])
def test_kept_for_being_bad_is_not_counted_as_sampled(sample_rate, judge_rate):
    """The mean of all requests, of free scores exactly and of judged ones within their error."""
    sdk, memory = memory_sdk(), InMemoryExporter()
    meter = RagMeter(
        metrics=[free, JUDGED],
        judge=FakeJudge(),
        exporters=[OpenTelemetryExporter(meter_provider=sdk.meter_provider), memory],
        sample_rate=sample_rate,
        judge_sample_rate=judge_rate,
        sampling=Sampling(keep="worst"),
        limits=Limits(queue_size=10_000, hold_s=60),
    )
    chance = random.Random(3)
    values = [round(chance.betavariate(4, 1.6), 6) for _ in range(4_000)]
    runs = iter(range(10**6))
    for value in values:
        run_id = f"{next(runs)}"
        meter.port.offer(_built(value, run_id), run_id=run_id)
    assert meter.flush(120)
    stats, points = meter.stats(), sdk.points()
    meter.shutdown(60)

    true = sum(values) / len(values)
    by = {
        (p.attributes["gen_ai.evaluation.name"], p.attributes.get("ragmeter.selection")): p
        for p in points[SCORES]
    }
    everyone = by["free", None]
    assert everyone.count == len(values)
    assert everyone.sum == pytest.approx(sum(values))
    sampled, worst = by["judged", "sampled"], by["judged", "worst"]
    assert sampled.sum / sampled.count == pytest.approx(true, abs=0.06)
    assert worst.sum / worst.count < 0.45
    # Weighted by what is exported, all judged ones together say the same.
    weights = [
        (1 / (r.sample_rate * r.judge_sample_rate), r.scores["judged"].value)
        for r in memory.results
        if r.scores["judged"].value is not None
    ]
    assert sum(w * v for w, v in weights) / sum(w for w, _ in weights) == pytest.approx(true, abs=0.06)
    assert sum(w for w, _ in weights) == pytest.approx(len(values), rel=0.25)
    # Every request is in one column.
    assert sum(p.value for p in points["ragmeter.requests"]) == len(values)
    assert stats.captured == len(values)
    assert stats.exported + sum(stats.dropped.values()) == len(values)
    assert stats.exported == len(memory.results)
    assert not stats.internal_errors


def _built(value, run_id):
    run = Runs()(run_id=run_id, sample=RagSample(question=str(value), contexts=["c"]))
    return lambda: run


@pytest.mark.parametrize(("direction", "kept"), [("higher", 0.0), ("lower", 1.0), ("none", None)])
def test_the_worst_are_those_on_the_bad_side(direction, kept):
    """Low where higher is better, high where lower is, and nothing where neither is."""
    keeper = TailSampling()

    def keeps(value):
        score = Score(name="s", value=value, status="ok", method="lexical", definition="1", direction=direction)
        return keeper.keeps(RagSample(question="q", contexts=["c"]), {"s": score}, None)

    for number in range(WARM_UP * 2):
        keeps(0.25 + (number % 10) / 20)
    assert [value for value in (0.0, 0.5, 1.0) if keeps(value)] == ([] if kept is None else [kept])


@settings(derandomize=True)
@given(st.floats(0.05, 1), st.floats(0.05, 1), st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_request_is_chosen_with_the_probability_that_it_carries(sample_rate, judge_rate, bad):
    """Chances are the configured rates, and 1 for what is kept for being bad."""

    class Keeper(TailSampling):
        def keeps(self, sample, scores, verdict):
            return sample.question == "bad"

    selector = Selector(sample_rate, judge_rate, Admission(None, judge_rate), Keeper())
    for number, is_bad in enumerate(bad):
        candidate = Candidate(f"r{number}", number + 1)
        sample = RagSample(question="bad" if is_bad else "good")
        choice = selector.choose(candidate, sample, {})
        sampled = candidate.within("sample", sample_rate)
        chosen = candidate.within("judge", judge_rate)
        assert (choice is None) == (not is_bad and not sampled)
        if choice is None:
            continue
        assert choice.chances[:2] == ((1.0, 1.0) if is_bad else (sample_rate, judge_rate))
        assert choice.chances.selection == ("sampled" if sampled else "worst")
        assert choice.unjudged == (None if is_bad or chosen else "sampled_out")
        if is_bad:
            by_chance = sampled and chosen
            assert choice.chances.judge_selection == ("sampled" if by_chance else "worst")


def test_behind_a_head_sampler_a_tenth_is_a_tenth():
    """End to end: a sampling tracer provider of the application, and a tenth of what it keeps judged."""
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    class Fixed(IdGenerator):
        # Apart, as span ids are also made on other threads, in whatever order.
        spans, traces = random.Random(12), random.Random(11)

        def generate_span_id(self):
            return self.spans.getrandbits(64) or 1

        def generate_trace_id(self):
            return self.traces.getrandbits(128) or 1

    sdk = memory_sdk(sampler=TraceIdRatioBased(0.1), id_generator=Fixed())
    meter = RagMeter(
        metrics=[free, JUDGED],
        judge=FakeJudge(),
        exporters=[OpenTelemetryExporter(tracer_provider=sdk.tracer_provider)],
        judge_sample_rate=0.1,
        limits=Limits(queue_size=20_000, hold_s=60),
    )
    tracer = sdk.tracer_provider.get_tracer("application")
    for _ in range(4_000):
        with tracer.start_as_current_span("request"):
            meter.submit(RagSample(question="0.5", contexts=["c"]))
    assert meter.flush(120)
    unsampled = meter.stats().unsampled
    meter.shutdown(60)

    ours = [s for s in sdk.all_spans() if s.name.startswith(("invoke", "retrieval"))]
    judged = [span for span in ours if "ragmeter.score.judged" in span.attributes]
    assert 350 < len(ours) < 450
    assert unsampled == 4_000 - len(ours)
    assert len(judged) / len(ours) == pytest.approx(0.1, abs=0.035)
    assert {span.attributes["ragmeter.judge_sample_rate"] for span in ours} == {0.1}


def test_nothing_of_a_sampled_out_request_reaches_exporters_that_write_requests():
    """Only who aggregates is told, and only numbers come of it."""

    class Measuring(InMemoryExporter):
        def __init__(self):
            super().__init__()
            self.told = []

        def measure(self, scored):
            self.told.append(scored)

    measuring, memory = Measuring(), InMemoryExporter()
    meter = RagMeter(
        metrics=[free], exporters=[measuring, memory], sample_rate=0.0, sampling=Sampling(keep="worst")
    )
    for number in range(100):
        meter.submit(RagSample(question=str(0.5 + number / 1_000), contexts=["c"]))
    meter.submit(RagSample(question="0.1", contexts=["c"]))
    assert meter.flush(60)

    kept = [result.scores["free"].value for result in memory.results]
    assert kept == [result.scores["free"].value for result in measuring.results] == [0.1]
    assert {result.selection for result in memory.results} == {"worst"}
    assert Counter(len(one.scores) for one in measuring.told) == {1: 100}
    assert meter.stats().dropped == {"sampled_out": 100}


def test_threads_that_offer_at_once_change_no_choice():
    """The choice is the request's own: the same ones, whoever comes first."""
    exported = []
    for _ in range(2):
        memory = InMemoryExporter()
        meter = RagMeter(metrics=[free], exporters=[memory], sample_rate=0.3, limits=Limits(queue_size=5_000))

        def offer(start, meter=meter):
            for number in range(start, start + 250):
                meter.port.offer(_built(0.5, f"r{number}"), run_id=f"r{number}")

        at_once(offer, range(0, 1000, 250))
        assert meter.flush(60)
        exported.append({result.run.run_id for result in memory.results})
    assert exported[0] == exported[1]
    assert len(exported[0]) == pytest.approx(300, abs=45)
