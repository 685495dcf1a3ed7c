"""Precision, recall and relevancy from one call."""

import pytest
from judging_tools import only, sample, score

from ragmeter.metrics import (
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    FusedContextMetrics,
    default_metrics,
)

SAMPLE = {
    "contexts": [
        "It is 31 metres tall. Gulls nest.",
        "Winter is cold.",
        "It is 31 metres tall. Gulls nest.",
    ]
}


def by_words(request, item_id):
    if item_id.startswith("c"):
        return "tall" in request.text_of("s1" if item_id == "c1" else "s3")
    return "tall" in request.text_of(item_id)


def test_one_call_gives_the_values_of_three(server):
    """The same verdicts give the same values, labels and evidence as the separate metrics."""
    server.answer = by_words
    fused = score(server, FusedContextMetrics(), sample(**SAMPLE))
    calls = len(server.requests)
    server.answer = lambda request, item_id: "tall" in request.text_of(item_id)
    separate = [
        only(server, metric, sample(**SAMPLE))
        for metric in (ContextPrecision(), ContextRecall(), ContextRelevancy())
    ]

    assert calls == 1
    for one in separate:
        other = fused[one.name]
        assert (other.value, other.status, other.label) == (one.value, one.status, one.label)
        assert [item.verdict for item in other.items] == [item.verdict for item in one.items]
    assert [s.judge_calls for s in fused.values()] == [1, 0, 0]
    assert fused["context_recall"].definition != separate[1].definition


def test_without_a_reference_only_relevancy_is_measured(server):
    fused = score(server, FusedContextMetrics(), sample(reference=None, **SAMPLE))

    assert fused["context_relevancy"].value == 1.0
    assert fused["context_precision"].status == "missing_input"
    assert fused["context_recall"].status == "missing_input"
    assert set(server.requests[0].ids) == {"s1", "s2", "s3"}


def test_nothing_retrieved_costs_nothing(server):
    fused = score(server, FusedContextMetrics(), sample(contexts=[]))

    assert [s.status for s in fused.values()] == ["undefined", "ok", "undefined"]
    assert fused["context_recall"].value == 0.0
    assert len(server.requests) == 0


def test_a_blank_question_leaves_recall(server):
    fused = score(server, FusedContextMetrics(), sample(question=" "))

    assert fused["context_relevancy"].status == "undefined"
    assert fused["context_recall"].value == 1.0


def test_a_group_left_out_is_repaired_alone(server):
    """The reply forgets the reference: only its ids are asked again."""
    server.script.append(
        lambda request: {
            "chunks": {"true": ["c1"], "false": ["c2"]},
            "lines": {"true": ["s1", "s2"], "false": []},
        }
    )
    fused = score(server, FusedContextMetrics(), sample())

    assert server.requests[1].ids == ["r1", "r2"]
    assert [s.status for s in fused.values()] == ["ok", "ok", "ok"]
    assert fused["context_precision"].judge_calls == 2


def test_a_judge_that_fails_strikes_all_three(server):
    server.script += [lambda request: "nothing of use"] * 2
    fused = score(server, FusedContextMetrics(), sample())

    assert {s.status for s in fused.values()} == {"judge_error"}
    assert {s.error_type for s in fused.values()} == {"unusable_reply"}


def test_it_stands_in_for_the_metrics_it_covers():
    names = [metric.name for metric in default_metrics(judged=True, fused=True)]

    assert "fused_context_metrics" in names
    assert not {"context_precision", "context_recall", "context_relevancy"} & set(names)
    assert {"faithfulness", "context_entity_recall"} <= set(names)


@pytest.mark.parametrize("judged", [False])
def test_it_is_never_chosen_unasked(judged):
    names = [metric.name for metric in default_metrics(judged=True)]

    assert "fused_context_metrics" not in names
    assert "fused_context_metrics" not in [
        m.name for m in default_metrics(judged=judged, fused=True)
    ]
