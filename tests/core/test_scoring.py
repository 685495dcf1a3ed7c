"""Scoring gives up the interpreter lock between metrics after a stretch of work."""

import time

from ragmeter.metrics import RagSample, metric
from ragmeter.pipeline.scoring import WORK_S, MetricSet


@metric
def slow_one(sample):
    time.sleep(2 * WORK_S)
    return 1.0


@metric
def quick_one(sample):
    return 0.5


def test_a_rest_follows_enough_work_and_not_less():
    """Two slow metrics earn a rest before each next metric, quick ones do not."""
    rests = []
    metrics = MetricSet([slow_one, slow_one.prefixed("b_"), quick_one.prefixed("c_"), quick_one])

    [scores] = metrics.compute([RagSample(question="q", contexts=["a"])], lambda: rests.append(1))

    assert list(scores) == ["slow_one", "b_slow_one", "c_quick_one", "quick_one"]
    assert len(rests) == 2
