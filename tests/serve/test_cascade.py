"""Scores that a cascade asked for weigh as much in the store as they do in the meter that asked."""

import random

import pytest
from fakes_core import SecondNumber, first_number
from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span
from stored import told

from ragmeter import RagMeter, RagSample, Sampling
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics.detector import InProcessSpanDetector, SpanSupport
from ragmeter.metrics.judge import CountingJudge
from ragmeter.serve.store import Store


class Judge(CountingJudge):
    model = "fake-model"

    async def ask(self, ask):
        raise NotImplementedError


def _detect(question, contexts, answer):
    return [] if answer.endswith("1.0") else [(0, len(answer) // 3, 0.9)]


@pytest.fixture(scope="module")
def measured():
    memory, chance, truths = InMemoryExporter(), random.Random(3), []
    metrics = [first_number, SpanSupport(InProcessSpanDetector(_detect)), SecondNumber()]
    with RagMeter(metrics, judge=Judge(), exporters=[memory], sampling=Sampling(cascade=0.2)) as meter:
        for number in range(1, 301):
            truth = chance.choice((0.0, 0.5, 1.0, 1.0))
            answer = f"{min(1.0, max(0.0, truth + chance.gauss(0, 0.2))):.3f} {truth}"
            length = len(answer)
            bad = 0 if truth == 1.0 else len(answer[: length // 3].replace(" ", ""))
            support = 1 - bad / len(answer.replace(" ", ""))
            truths.append({"faithfulness": truth, "span_support": support})
            with use_span(NonRecordingSpan(SpanContext(number, span_id=1, is_remote=False))):
                meter.submit(RagSample(question=f"q{number}", contexts=["c"], answer=answer))
        assert meter.flush(60)
        return memory.results, dict(meter.quality()), truths


@pytest.mark.parametrize("foreign", [False, True], ids=["scored here", "received"])
@pytest.mark.parametrize("name", ["span_support", "faithfulness"])
def test_the_store_weighs_what_a_cascade_asked_as_the_meter_does(measured, name, foreign):
    results, known, truths = measured
    (expected,) = (found for key, found in known.items() if key.score == name)
    kept = Store()
    if foreign:
        for request in told(results):
            kept.take(request)
    else:
        kept.export(results)
    (found,) = (score for score in kept.reader().overview().scores if score.name == name)
    full = sum(truth[name] for truth in truths) / len(truths)
    assert found.estimate.mean == pytest.approx(expected.mean)
    assert (found.estimate.lower, found.estimate.upper) == pytest.approx((expected.lower, expected.upper))
    assert found.estimate.gain == pytest.approx(expected.gain) != 1.0
    assert found.estimate.lower < full < found.estimate.upper
    assert found.estimate.n_requests == expected.n_requests == len(truths)
    assert found.estimate.n_judged == expected.n_judged < 250
    kept.close()
