"""A judge that echoes the prompt's example has judged nothing: no value, and nothing remembered.

The echoes are made from each prompt's own form as it was sent: whole, in parts, reordered, filled in.
"""

import json

import pytest
from judging_tools import judge_at, sample

from ragmeter.metrics import (
    AnswerRelevancy,
    ContextEntityRecall,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    ContextUtilization,
    Faithfulness,
    FusedContextMetrics,
    LiveJudged,
    RagQuestEval,
    evaluate,
)

METRICS = {
    "context_precision": ContextPrecision(),
    "context_utilization": ContextUtilization(),
    "context_recall": ContextRecall(),
    "context_recall by claim": ContextRecall(unit="claim"),
    "context_entity_recall": ContextEntityRecall(),
    "context_entity_recall strict": ContextEntityRecall(strict=True),
    "context_relevancy": ContextRelevancy(),
    "context_relevancy by claim": ContextRelevancy(unit="claim"),
    "faithfulness": Faithfulness(),
    "faithfulness by claim": Faithfulness(unit="claim"),
    "answer_relevancy": AnswerRelevancy(),
    "answer_relevancy by claim": AnswerRelevancy(unit="claim"),
    "rag_quest_eval": RagQuestEval(),
    "fused_context_metrics": FusedContextMetrics(),
    "fused_context_metrics with entities": FusedContextMetrics(entities=True),
    "live_judged": LiveJudged(),
    "fused_context_metrics with live_judged": FusedContextMetrics(entities=True, live=True),
}


def filled(value, **by_key):
    """The form with other words in its fields."""
    if isinstance(value, dict):
        return {
            key: by_key[key] if key in by_key and isinstance(inner, str) else filled(inner, **by_key)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [filled(inner, **by_key) for inner in value]
    return by_key.get("text", value) if value == "..." else value


def reordered(value):
    """The form with every object's keys turned round."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(inner) for inner in value] if isinstance(value, list) else value


def moved(form):
    """Compact lists with all ids among the true ones, others with each entry twice."""
    return {
        name: {
            "true": [e if isinstance(e, str) else e["id"] for e in body["true"] + body["false"]],
            "false": [],
        }
        if isinstance(body, dict)
        else body * 2
        for name, body in form.items()
    }


def without(form, *keys):
    if isinstance(form, dict):
        return {key: without(inner, *keys) for key, inner in form.items() if key not in keys}
    return [without(inner, *keys) for inner in form] if isinstance(form, list) else form


def with_ids(request, change):
    """The form with its ids changed, as text."""
    text = json.dumps(request.form)
    for letter in "acderstq":
        for zeros in ("00", "0"):
            text = text.replace(f'"{request.tag}{letter}{zeros}"', f'"{change(letter)}"')
    return text


ECHOES = {
    "whole": lambda request: request.form,
    "as it stands in the prompt": lambda request: request.user.rsplit("Form: ", 1)[1].split("\n")[0],
    "with the word before it": lambda request: "Form: " + json.dumps(request.form),
    "fenced": lambda request: f"```json\n{json.dumps(request.form, indent=2)}\n```",
    "in prose": lambda request: f"My answer is {json.dumps(request.form)} as asked.",
    "laid out anew": lambda request: json.dumps(request.form, indent=4),
    "reordered": lambda request: reordered(request.form),
    "the first group": lambda request: dict(list(request.form.items())[:1]),
    "the last group": lambda request: dict(list(request.form.items())[-1:]),
    "no reasons": lambda request: without(request.form, "reason"),
    "no verdicts": lambda request: without(request.form, "verdict"),
    "no ids": lambda request: without(request.form, "id"),
    "a bare list": lambda request: json.dumps(next(iter(request.form.values()))),
    "filled with words": lambda request: filled(request.form, text="The lighthouse", reason="fits"),
    "filled with true": lambda request: filled(
        request.form, verdict=True, text="true", answer="true", question="true?"
    ),
    "true in every field": lambda request: filled(
        request.form, verdict="true", reason="true", text="true", id="true"
    ),
    "all ids true, entries twice": lambda request: moved(request.form),
    "the ids of no prefix": lambda request: with_ids(request, lambda letter: f"{letter}1"),
    "the ids of another prefix": lambda request: with_ids(request, lambda letter: f"qqq{letter}1"),
    "numbers as ids": lambda request: with_ids(request, lambda _: "1"),
    "example and answer": lambda request: {
        name: body if isinstance(body, dict) else [*body, {**body[0], "id": request.sent_ids[0]}]
        for name, body in request.form.items()
    },
}


@pytest.mark.parametrize("echo", ECHOES)
def test_an_echo_of_the_example_gives_no_value_and_is_not_remembered(server, echo):
    """Every metric, every prompt; the same judge then asks everything anew."""
    judge = judge_at(server)
    values, statuses = {}, {}
    server.script.extend([ECHOES[echo]] * 1_000)
    for name, metric in METRICS.items():
        [scores] = evaluate([sample()], [metric], judge)
        for score in scores.values():
            values[f"{name}: {score.name}"] = score.value
            statuses[score.name] = score.status
        assert any(score.explanation for score in scores.values())

    assert {name: value for name, value in values.items() if value is not None} == {}
    assert set(statuses.values()) <= {"judge_error", "partial"}
    assert len(judge.cache) == 0


def test_texts_of_dots_are_no_texts(server):
    """Under the right id, too: nothing was listed, asked or said."""

    def dots(request):
        return filled(json.loads(with_ids(request, lambda letter: request.sent_ids[0])), verdict="unknown")

    server.script.extend([dots] * 100)
    for metric in (RagQuestEval(), ContextEntityRecall(), Faithfulness(unit="claim")):
        [scores] = evaluate([sample()], [metric], judge_at(server))

        assert {score.status for score in scores.values()} == {"judge_error"}
        assert {score.value for score in scores.values()} == {None}


def test_an_entry_with_the_forms_dots_for_a_reason_is_no_verdict(server):
    """The id was filled in, and nothing else."""

    def id_filled_in(request):
        ids = {i[0]: request.tag + i for i in request.ids}
        entry = {"id": ids["e"], "reason": "...", "verdict": "partly"}
        false = [{"id": ids["c"], "reason": "…"}]
        return {"relevant": {"true": [], "false": false}, "sufficiency": [entry], "answer": []}

    server.script.extend([id_filled_in] * 2)
    [scores] = evaluate([sample(contexts=["One."])], [LiveJudged()], judge_at(server))

    assert {score.status for score in scores.values()} <= {"partial", "judge_error"}
    assert {score.value for score in scores.values()} == {None}


def test_the_example_of_every_prompt_has_ids_of_its_own(server):
    """They begin as the asked ones do and are never among them; another ask has another beginning."""
    server.script.extend([lambda request: request.form] * 1_000)
    for metric in METRICS.values():
        evaluate([sample(), sample(contexts=[])], [metric], judge_at(server, cache=False))
    tags = set()
    for request in server.requests:
        assert f'"{request.tag}' in json.dumps(request.form)
        assert all(sent.startswith(request.tag) for sent in request.sent_ids)
        assert not any(f'"{sent}"' in json.dumps(request.form) for sent in request.sent_ids)
        tags.add(request.tag)

    assert len(tags) > len(server.requests) / 3  # each is asked twice


def test_the_metrics_of_one_request_begin_alike_and_have_ids_of_their_own(server):
    """Rules, delimiter and chunks are the same to the letter; the ids come after them."""
    metrics = [ContextPrecision(), ContextUtilization(), ContextRecall(), Faithfulness()]
    evaluate([sample()], metrics, judge_at(server))
    beginnings = {
        request.user[: request.user.index(f"<<{request.marker} question>>")] for request in server.requests
    }

    assert len(server.requests) == 4
    assert len({request.system for request in server.requests}) == 1
    assert len(beginnings) == 1
    assert len({request.tag for request in server.requests}) == 4


def test_the_rules_are_the_same_for_everyone_up_to_the_delimiter(server):
    """It is the last thing that they say, so that prompt caches keep what stands before it."""
    for _ in range(2):
        evaluate([sample()], [ContextPrecision()], judge_at(server))
    one, two = (request.system for request in server.requests)
    place = one.index(server.requests[0].marker)

    assert one[:place] == two[:place]
    assert len(one) - place < 80
