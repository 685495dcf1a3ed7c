"""What a running meter counts for its estimates: each request once, with the probability it was chosen with."""

from functools import partial

import pytest
from fakes_core import SecondNumber, first_number
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from ragmeter import Estimate, Limits, RagMeter, RagSample, Sampling, Score
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import metric
from ragmeter.metrics.registry import preset_metrics
from ragmeter.pipeline.sampling import place, within
from ragmeter.quality.estimates import QualityKey
from ragmeter.quality.population import PROXIES, Population, proxy_value
from ragmeter.quality.verdict_shares import VERDICT_BAD, VERDICT_NOT_GOOD


@metric(needs=("reference.answer",), name="exact")
def exact(sample):
    return float(sample.answer == sample.reference.answer)


judged_by_no_one = partial(SecondNumber, judged=False)


def _meter(**options):
    given = {"metrics": [first_number, judged_by_no_one()], "exporters": [InMemoryExporter()], **options}
    return RagMeter(**given)


def _submit(meter, answers, first_trace=1, **fields):
    """Submit a request for each of `answers`; their trace ids count up from `first_trace`.

    A request is chosen by its trace id, so that the same ones are chosen in every run.
    """
    given = {"contexts": ["c"], "name": "qa", **fields}
    for trace_id, answer in enumerate(answers, first_trace):
        with use_span(NonRecordingSpan(SpanContext(trace_id, span_id=1, is_remote=False))):
            meter.submit(RagSample(**{"question": f"q{trace_id}", "answer": answer, **given}))
    assert meter.flush(60)


def _chosen(purpose, rate, traces):
    return [trace for trace in traces if within(place(purpose, trace, ""), rate)]


def test_a_running_meter_knows_the_mean_of_every_score():
    meter = _meter()
    _submit(meter, ["0.6 1.0"] * 20 + ["0.6 0.0"] * 20)
    _submit(meter, ["0.25 undefined"] * 5 + ["0.25 raises"] * 5)
    found = meter.quality("faithfulness", workflow="qa")
    assert isinstance(found, Estimate)
    assert (found.n_requests, found.n_judged, found.method) == (50, 50, "regression")
    assert found.mean == pytest.approx(0.5)
    assert (found.undefined, found.unscored) == (pytest.approx(0.1), pytest.approx(0.1))
    assert found.bounds == pytest.approx((20 / 45, 25 / 45))
    grounded = meter.quality("lexical_groundedness")
    assert (grounded.method, grounded.n_requests) == ("all", 50)
    assert grounded.mean == pytest.approx(0.53)
    shares = {QualityKey(name, "qa"): meter.quality(name) for name in (VERDICT_BAD, VERDICT_NOT_GOOD)}
    assert meter.quality() == {
        QualityKey("lexical_groundedness", "qa"): grounded,
        QualityKey("faithfulness", "qa"): found,
        **shares,
    }
    assert [one.mean for one in shares.values()] == [pytest.approx(0.2), pytest.approx(0.2)]
    assert meter.quality(workflow="other") == {}
    assert meter.quality("faithfulness", workflow="other").mean is None
    meter.shutdown()


def test_requests_without_the_inputs_of_a_score_are_no_cases_of_it():
    meter = _meter()
    _submit(meter, ["0.6 1.0"], status="error")
    meter.submit(RagSample(question="q", answer="0.6 1.0"))
    assert meter.flush(60)
    assert meter.quality("faithfulness").n_requests == 0
    assert meter.quality("lexical_groundedness").n_requests == 1
    meter.shutdown()


def test_judged_requests_speak_for_all_of_them():
    """One in four is judged, and weighs four; what is known for free narrows the rest."""
    meter = _meter(judge_sample_rate=0.25, limits=Limits(queue_size=10_000))
    _submit(meter, ["0.9 1.0", "0.1 0.0"] * 1000)
    judged = _chosen("judge", 0.25, range(1, 2001))
    (sums,) = [one.sums for one in meter._quality.totals() if one.score == "faithfulness"]
    assert (sums["n"], sums["k"], sums["w"]) == (2000, len(judged), 4 * len(judged))
    assert sums["wy"] == 4 * sum(trace % 2 for trace in judged)
    assert sums["w"] == pytest.approx(2000, rel=0.1)
    found = meter.quality("faithfulness")
    assert found.mean == pytest.approx(0.5, abs=0.01)
    assert found.lower < 0.5 < found.upper
    assert found.gain > 3
    meter.shutdown()


@pytest.mark.parametrize("sample_rate", [1.0, 0.5])
def test_requests_kept_for_being_bad_weigh_1_and_the_others_their_inverse(sample_rate):
    """Failed retrievals are all judged, of the others one in four or eight; every request was seen."""
    meter = _meter(
        sample_rate=sample_rate,
        judge_sample_rate=0.25,
        sampling=Sampling(keep="worst"),
        limits=Limits(queue_size=10_000),
    )
    _submit(meter, ["0.6 1.0"] * 1600)
    _submit(meter, ["0.6 0.0"] * 400, first_trace=1601, contexts=[])
    judged = _chosen("judge", 0.25, _chosen("sample", sample_rate, range(1, 1601)))
    (sums,) = [one.sums for one in meter._quality.totals() if one.score == "faithfulness"]
    weight = 4 / sample_rate
    assert (sums["n"], sums["k"]) == (2000, 400 + len(judged))
    assert (sums["w"], sums["wy"]) == (400 + weight * len(judged), weight * len(judged))
    assert sums["w"] == pytest.approx(2000, rel=0.1)
    assert meter.quality("faithfulness").mean == pytest.approx(0.8, abs=0.03)
    meter.shutdown()


def test_what_is_sampled_out_before_it_is_seen_is_not_counted():
    meter = _meter(sample_rate=0.5, limits=Limits(queue_size=10_000))
    _submit(meter, ["0.6 1.0"] * 1000)
    scored = len(_chosen("sample", 0.5, range(1, 1001)))
    assert meter.stats().dropped["sampled_out"] == 1000 - scored
    assert meter.quality("faithfulness").n_requests == scored
    assert meter.quality("faithfulness").n_judged == scored
    meter.shutdown()


def test_a_reference_that_comes_late_counts_once_and_feedback_never():
    """The first one makes scores possible; the second changes no sum; a thumb is volunteered."""
    memory = InMemoryExporter()
    needing = judged_by_no_one(name="recall", score_names=("recall",), needs=("answer", "reference.answer"))
    meter = _meter(metrics=[first_number, exact, judged_by_no_one(), needing], exporters=[memory])
    _submit(meter, ["0.6 1.0"])
    run_id = memory.results[0].run.run_id
    before = {(one.score, one.sums["n"]) for one in meter._quality.totals()}
    counted = ("lexical_groundedness", "faithfulness", VERDICT_BAD, VERDICT_NOT_GOOD)
    assert before == {(name, 1) for name in counted}
    for reference in ("0.6 1.0", "another"):
        meter.attach_reference(run_id, reference)
        assert meter.flush(60)
    meter.feedback(run_id, "thumbs_up", 1.0)
    assert meter.flush(60)
    assert {(one.score, one.sums["n"], one.sums["kd"]) for one in meter._quality.totals()} == {
        (name, 1, 1) for name in (*counted, "exact", "recall")
    }
    assert meter.quality("recall").upper == 1.0
    meter.shutdown()


@pytest.mark.contains_errors
def test_an_error_of_ours_stops_no_request(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("broken")

    memory = InMemoryExporter()
    meter = _meter(exporters=[memory])
    monkeypatch.setattr(meter._quality, "count_request", broken)
    _submit(meter, ["0.6 1.0"])
    assert set(memory.results[0].scores) >= {"lexical_groundedness", "faithfulness"}
    assert meter.stats().internal_errors == {"meter.quality": 1}
    meter.shutdown()


@pytest.mark.contains_errors
@pytest.mark.parametrize("window_s", [0, -1, float("nan"), "hour", None])
def test_a_window_that_is_none_is_counted_and_not_used(window_s):
    meter = _meter()
    _submit(meter, ["0.6 1.0"])
    assert meter.quality("faithfulness", window_s=window_s).n_requests == 1
    assert meter.stats().internal_errors == {"meter.quality": 1}
    meter.shutdown()


def test_another_judge_prompt_or_formula_is_another_quantity():
    sample = RagSample(question="q", contexts=["c"], answer="a")

    def judge(model, **changes):
        first = judged_by_no_one(**changes)
        (one,) = Population([first], model).scores_of(sample)
        return one.judge

    assert judge("a") == judge("b")  # asks no judge
    newer = partial(type("Newer", (SecondNumber,), {"definition": "2"}), judged=False)
    hashes = {
        Population([made()], model).scores_of(sample)[0].judge
        for made in (SecondNumber, newer)
        for model in ("a", "b")
    }
    assert len(hashes) == 3  # newer asks none, either


def test_free_scores_stand_in_for_judged_ones():
    """By names that exist; the first one with a value does; where there is none, a fixed number."""
    known = {name for one in preset_metrics("all", judged=True) for name in one.score_names}
    named = {*PROXIES, *(proxy for proxies in PROXIES.values() for proxy in proxies)}
    asks_others = {"semantic_context_relevance", "span_support"}  # an embedder, a detector
    assert named - known <= asks_others
    low = Score(name="lexical_groundedness", value=0.25, status="ok", method="lexical", definition="1")
    assert proxy_value("faithfulness", {low.name: low}) == 0.25
    assert proxy_value("faithfulness", {}) == 0.5
    assert proxy_value("my_own", {low.name: low}) == 0.5
