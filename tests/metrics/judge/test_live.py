"""A judge behind a running meter: late or dead, it never holds up what is free."""

import pytest
from judging_tools import judge_at, sample
from openai_server import Misbehaviour, OpenAIServer

from ragmeter import RagMeter, Scoring
from ragmeter.exporters.memory import InMemoryExporter


def live(server, *, fused=False, **options):
    memory = InMemoryExporter()
    meter = RagMeter(judge=judge_at(server, **options), exporters=[memory], scoring=Scoring(fused=fused))
    meter.submit(sample())
    assert meter.flush(60)
    stats = meter.stats()
    meter.shutdown(60)
    return memory.results[0].scores, stats


@pytest.mark.parametrize("fused", [False, True])
def test_a_live_request_is_judged(fused):
    """The context metrics arrive with the free ones, fused or not."""
    with OpenAIServer() as server:
        scores, stats = live(server, fused=fused)

    for name in ("context_precision", "context_recall", "context_relevancy"):
        assert scores[name].value == 1.0
    assert scores["context_count"].value == 2.0
    definition = scores["context_precision"].definition
    assert ("context_fused" in definition) is fused
    assert stats.judge_calls == len(server.requests)


def test_a_dead_judge_leaves_the_free_scores():
    with OpenAIServer() as server:
        server.always = Misbehaviour(500)
        scores, _ = live(server)

    assert scores["context_precision"].status == "judge_error"
    assert scores["lexical_groundedness"].status == "ok"
