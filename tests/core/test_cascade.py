"""Words, then a detector, then the judge: the dearer one is asked where the cheaper is undecided, without bias."""

import random

import pytest
from fakes_core import FakeJudge, SecondNumber, first_number
from fakes_quality import make_score
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from ragmeter import Cascade, ConfigurationError, Limits, RagMeter, RagRun, RagSample, Sampling
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics.detector import InProcessSpanDetector, SpanSupport
from ragmeter.pipeline.sampling import Candidate, JudgingSteps
from ragmeter.quality.population import Population
from ragmeter.quality.sums import QualityTable

LEAST = 0.1
DETECTOR = SpanSupport(lambda question, contexts, answer: [])


def _stream(chance, count):
    """Yield what words, detector and judge would say: the dearer the nearer to the truth."""
    for _ in range(count):
        truth = chance.choice((0.0, 0.5, 1.0, 1.0, 1.0))
        seen = [min(1.0, max(0.0, truth + chance.gauss(0, spread))) for spread in (0.25, 0.1)]
        yield seen[0], 1.0 if seen[1] > 0.85 else seen[1], truth


def _asked(table, judged, run_id, said):
    """Take a request through the cascade; return which of the two were asked."""
    by_words, by_detector, by_judge = said
    cascade = Cascade(least=LEAST)
    free = {"lexical_groundedness": make_score(by_words)}
    asked = JudgingSteps(cascade, Candidate(run_id, None), free, (DETECTOR, SecondNumber()))
    run = RagRun(sample=RagSample(question=None), run_id=run_id, framework="manual", started_ns=1, ended_ns=2)
    counted = table.count_request(run, free, judged)
    known = dict(free)
    if asked.now:
        known["span_support"] = make_score(by_detector, "span_support")
    goes_on = asked.further(known)
    if goes_on:
        known["faithfulness"] = make_score(by_judge, "faithfulness")
    for one in judged:
        rate = asked.rate_of(one.name)
        assert (rate is None) == (one.name not in known)
        if rate is not None:
            table.count_judged(counted, known, [one], rate[0], by_chance=rate[1])
    return "span_support" in known, goes_on


def test_the_weighted_means_are_those_of_asking_about_every_request():
    """A hundred streams of 500: no bias, the interval holds the full mean as often as it says, and few are asked."""
    chance = random.Random(7)
    judged = Population((DETECTOR, SecondNumber()), "m").scores_of(
        RagSample(question="q", contexts=["c"], answer="a")
    )
    misses = {"span_support": 0, "faithfulness": 0}
    off = {"span_support": 0.0, "faithfulness": 0.0}
    fair_off, calls, streams, size = 0.0, [0, 0], 100, 500
    for stream in range(streams):
        table = QualityTable(clock=lambda: 1e6)
        said = list(_stream(chance, size))
        for number, one in enumerate(said):
            for place, was in enumerate(_asked(table, judged, f"{stream}/{number}", one)):
                calls[place] += was
        for place, name in enumerate(misses, start=1):
            full = sum(one[place] for one in said) / size
            found = table.estimate(name, None, 3600)
            misses[name] += not found.lower <= full <= found.upper
            off[name] += (found.mean - full) / streams
            assert found.n_requests == size
        (sums,) = (one.sums for one in table.totals() if one.score == "faithfulness")
        fair_off += (sums["y"] / sums["c"] - full) / streams
    assert max(misses.values()) <= 0.08 * streams
    assert all(abs(value) < 0.01 for value in off.values())
    assert abs(fair_off) < 0.015, "what changes are looked for in is a fair picture, too"
    shares = [count / streams / size for count in calls]
    assert shares[0] < 0.5
    assert shares[1] < 0.2


def test_means_of_whoever_was_asked_are_biased_without_the_weights():
    """Or the test above would prove nothing."""
    chance, judged = random.Random(8), ()
    table, asked, everyone = QualityTable(clock=lambda: 1e6), [], []
    for number, said in enumerate(_stream(chance, 4_000)):
        everyone.append(said[2])
        if _asked(table, judged, f"r{number}", said)[1]:
            asked.append(said[2])
    assert sum(asked) / len(asked) < sum(everyone) / len(everyone) - 0.03


def _scores(memory, name):
    """Return the scores in the order of the requests: what is decided goes out at once."""
    results = sorted(memory.results, key=lambda result: result.run.trace_id)
    return [result.scores[name] for result in results]


def _answers(count):
    chance = random.Random(9)
    return [f"{one:.3f} {truth}" for one, _, truth in _stream(chance, count)]


def _detect(question, contexts, answer):
    return [] if answer.endswith("1.0") else [(0, len(answer) // 2, 0.9)]


def _meter(memory, asked, **options):
    detector = SpanSupport(InProcessSpanDetector(_detect))
    return RagMeter(
        [first_number, detector, SecondNumber(asked)], judge=FakeJudge(), exporters=[memory], **options
    )


def _submit(meter, answers):
    """A request is chosen by its trace id: the same ones are in every run."""
    for number, answer in enumerate(answers, start=1):
        context = SpanContext(trace_id=number, span_id=1, is_remote=False)
        with use_span(NonRecordingSpan(context)):
            meter.submit(RagSample(question=f"q{number}", contexts=["c"], answer=answer))
    assert meter.flush(60)


def test_a_meter_asks_the_judge_where_words_and_detector_are_undecided():
    memory, asked, answers = InMemoryExporter(), [], _answers(600)
    with _meter(memory, asked, sampling=Sampling(cascade=Cascade(least=LEAST))) as meter:
        _submit(meter, answers)
        found, stats = meter.quality("faithfulness"), meter.stats()
        spans = meter.quality("span_support")

    assert stats.captured == stats.exported == len(answers)
    assert stats.judge_skipped == {"decided": len(answers) - len(asked)}
    assert 0 < len(asked) < 0.25 * len(answers)
    assert found.n_requests == len(answers)
    assert found.n_judged == len(asked)
    full = sum(float(answer.split()[1]) for answer in answers) / len(answers)
    assert found.lower <= full <= found.upper
    assert len(asked) < spans.n_judged < 0.7 * len(answers)
    for result in memory.results:
        score = result.scores["faithfulness"]
        if result.sample.answer in asked and score.status == "ok":
            assert score.asked_with in (LEAST, 1.0)
        else:
            assert (score.status, score.asked_with) == ("skipped", 0.0)
            assert score.explanation == "not judged: decided"


def test_what_is_decided_is_asked_about_with_the_probability_that_it_carries():
    """Whether the words or the detector decided it: no request stands for more than one by `least`."""
    memory, asked = InMemoryExporter(), []
    with _meter(memory, asked, sampling=Sampling(cascade=0.25)) as meter:
        _submit(meter, ["0.95 1.0", "0.6 1.0"] * 200)
    judged = _scores(memory, "faithfulness")
    for decided in (judged[::2], judged[1::2]):
        rates = [score.asked_with for score in decided]
        assert set(rates) == {0.0, 0.25}
        assert rates.count(0.25) == pytest.approx(50, abs=20)
    chance = {result.selection_of(result.scores["faithfulness"]) for result in memory.results}
    assert chance == {"sampled"}
    spans = _scores(memory, "span_support")[1::2]
    assert {one.asked_with for one in spans} == {1.0}


def test_a_judge_that_fails_leaves_a_missing_value_and_no_unasked_one():
    memory, asked = InMemoryExporter(), []
    with _meter(memory, asked, sampling=Sampling(cascade=LEAST)) as meter:
        _submit(meter, ["0.6 undefined"] * 3)
        found = meter.quality("faithfulness")
    assert (found.n_requests, found.n_judged) == (3, 3)
    assert found.mean is None


def test_without_a_detector_the_judge_is_asked_where_the_words_are_undecided():
    memory, asked = InMemoryExporter(), []
    options = {"judge": FakeJudge(), "exporters": [memory], "sampling": Sampling(cascade=Cascade(least=1e-9))}
    with RagMeter([first_number, SecondNumber(asked)], **options) as meter:
        _submit(meter, ["0.1 0.0", "0.5 1.0", "0.95 1.0"])
    assert asked == ["0.5 1.0"]
    score = _scores(memory, "faithfulness")[1]
    assert (score.asked_with, score.asked_by_chance) == (1.0, False)
    assert memory.results[1].selection_of(score) == "worst"


def test_a_flush_waits_for_the_second_step():
    """The judge's step is part of what was there when the flush began."""
    memory, asked = InMemoryExporter(), []
    with _meter(memory, asked, sampling=Sampling(cascade=LEAST), limits=Limits(hold_s=60)) as meter:
        _submit(meter, ["0.6 0.5"])
        assert asked == ["0.6 0.5"]
        assert len(memory.results) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"least": 0.0}, "least"),
        ({"least": 1.1}, "least"),
        ({"words": (0.8, 0.4)}, "words"),
        ({"detector": (0.0, 1.5)}, "detector"),
    ],
)
def test_wrong_numbers_are_refused(options, says):
    with pytest.raises(ConfigurationError, match=says):
        Cascade(**options)


def test_a_cascade_needs_somebody_to_ask():
    with pytest.raises(ConfigurationError, match="needs a judge or a detector"):
        RagMeter([first_number], exporters=[InMemoryExporter()], sampling=Sampling(cascade=0.1))
    with pytest.raises(ConfigurationError, match="Cascade"):
        RagMeter([first_number], exporters=[InMemoryExporter()], sampling=Sampling(cascade="often"))
