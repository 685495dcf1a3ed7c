"""Precision, recall and relevancy from one call."""

import pytest
from judging_tools import judge_at, only, sample, score
from openai_server import error

from ragmeter.metrics import (
    ContextEntityRecall,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    FusedContextMetrics,
    default_metrics,
    evaluate,
)
from ragmeter.metrics.judged.prompts import load_prompt

SAMPLE = {
    "contexts": ["It is 31 metres tall. Gulls nest.", "Winter is cold.", "It is 31 metres tall. Gulls nest."]
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
        lambda request: request.tagged(
            {"chunks": {"true": ["c1"], "false": ["c2"]}, "lines": {"true": ["s1", "s2"], "false": []}}
        )
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
    assert {"live_judged", "context_entity_recall"} <= set(names)


@pytest.mark.parametrize("judged", [False])
def test_it_is_never_chosen_unasked(judged):
    names = [metric.name for metric in default_metrics(judged=True)]

    assert "fused_context_metrics" not in names
    assert "fused_context_metrics" not in [m.name for m in default_metrics(judged=judged, fused=True)]


WITH_ENTITIES = [FusedContextMetrics(), ContextEntityRecall()]


def named(*entities):
    return lambda request, item_id: list(entities) if item_id.startswith("t") else True


def schema(request):
    return set(request.body["response_format"]["json_schema"]["schema"]["properties"])


def test_the_references_entities_are_listed_in_the_same_call(server):
    """One call; presence goes by the tiers, as it does when they are asked about alone."""
    server.answer = named("1846", "31 metres", "lighthouse")
    [scores] = evaluate([sample()], WITH_ENTITIES, judge_at(server))
    entities = scores["context_entity_recall"]

    assert [request.ids for request in server.requests] == [["c1", "c2", "r1", "r2", "s1", "s2", "t1"]]
    assert entities.value == pytest.approx(2 / 3)
    assert (entities.status, entities.judge_calls, entities.cache_hits) == ("ok", 0, 1)
    assert [item.reason for item in entities.items][1:] == ["tier: string"] * 2
    assert scores["context_recall"].value == 1.0


@pytest.mark.parametrize("first", [[ContextEntityRecall()], WITH_ENTITIES])
def test_once_they_are_known_nothing_of_them_is_asked(server, first):
    """Whoever listed them: from then on prompt and schema are those without entities."""
    server.answer = named("31 metres")
    judge = judge_at(server)
    evaluate([sample(question="Before?")], first, judge)
    evaluate([sample()], WITH_ENTITIES, judge)
    request = server.requests[1]
    without = judge_at(server)
    evaluate([sample()], [FusedContextMetrics()], without)
    plain = server.requests[2]

    assert len(server.requests) == 3
    assert request.prompts_without_marker == plain.prompts_without_marker
    assert schema(request) == schema(plain) == {"chunks", "claims", "lines"}


def test_entities_forgotten_by_the_reply_are_asked_for_alone(server):
    """The repair call shows the reference and no chunk."""
    server.script.append(
        lambda request: request.tagged(
            {
                "chunks": {"true": ["c1", "c2"], "false": []},
                "claims": {"true": ["r1", "r2"], "false": []},
                "lines": {"true": ["s1", "s2"], "false": []},
            }
        )
    )
    server.answer = named("31 metres")
    [scores] = evaluate([sample()], WITH_ENTITIES, judge_at(server))

    assert server.requests[1].ids == ["t1"]
    assert not [title for title in server.requests[1].passages if title.startswith("chunk")]
    assert scores["context_entity_recall"].value == 1.0


def test_entities_that_stay_unknown_harm_nobody_else(server):
    server.answer = lambda request, item_id: None if item_id.startswith("t") else True
    [scores] = evaluate([sample()], WITH_ENTITIES, judge_at(server))

    assert {name: score.status for name, score in scores.items()} == {
        "context_precision": "ok",
        "context_recall": "ok",
        "context_relevancy": "ok",
        "context_entity_recall": "judge_error",
    }
    assert len(server.requests) == 2


def test_a_listing_that_failed_elsewhere_harms_nobody_else(server):
    """Two requests with one new reference: the first, which asks about its entities, fails."""
    server.script.append(error(500))
    server.latency_s = 0.1
    server.answer = named("31 metres")
    samples = [sample(question="One?"), sample(question="Two?")]
    first, second = evaluate(samples, [FusedContextMetrics(entities=True)], judge_at(server))

    assert {score.status for score in first.values()} == {"judge_error"}
    assert {score.status for score in second.values()} == {"ok"}
    assert [("t1" in request.ids) for request in server.requests] == [True, False]


def test_entities_are_listed_for_whoever_wants_them_only(server):
    alone = score(server, FusedContextMetrics(), sample())
    [beside] = evaluate([sample()], WITH_ENTITIES, judge_at(server))
    named_so = [metric.name for metric in default_metrics(judged=True, fused=True)]

    assert "t1" not in server.requests[0].ids
    assert alone["context_recall"].definition != beside["context_recall"].definition
    assert named_so.index("fused_context_metrics") < named_so.index("context_entity_recall")


def test_both_prompts_put_the_same_questions():
    """Verdicts mean the same with and without the list, and the list the same alone and along."""
    along = load_prompt("context_fused_entities").task.split("\n")
    alone = load_prompt("entities").task.split("\n")[0]
    kinds = "persons, organisations, places, works, products, events, dates, numbers with their unit."

    assert along[1:5] == load_prompt("context_fused").task.split("\n")[1:5]
    assert kinds in along[5]
    assert kinds in alone


def test_nothing_retrieved_lists_the_entities_alone(server):
    server.answer = named("31 metres")
    [scores] = evaluate([sample(contexts=[])], WITH_ENTITIES, judge_at(server))

    assert scores["context_entity_recall"].value == 0.0
    assert [request.ids for request in server.requests] == [["t1"]]
