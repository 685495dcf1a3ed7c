"""Prices are told once, in the budget; what judging took stands in a counter and on the events."""

import pytest
from memory_sdk import memory_sdk
from openai_server import OpenAIServer

from ragmeter import RagMeter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import RagSample
from ragmeter.metrics.judge import JudgeBudget, OpenAIJudge

SAMPLE = RagSample(question="How tall?", contexts=["It is 25 m tall."], answer="25 m.")


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_cost_and_usage_follow_from_the_budget_alone(scoring):
    sdk = memory_sdk()
    budget = JudgeBudget(input_price=2.0, output_price=8.0)
    with OpenAIServer() as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="none", budget=budget)
        meter = RagMeter(
            metrics=["context_relevancy", "answer_relevancy"],
            judge=judge,
            scoring=scoring,
            exporters=[OpenTelemetryExporter(**sdk.providers)],
        )
        with meter:
            meter.submit(SAMPLE)
            assert meter.flush(60)
            stats = meter.stats()

    assert stats.judge_calls == 2
    points = sdk.points()
    paid = {
        name: sum(point.value for point in points[name])
        for name in ("ragmeter.judge.cost", "ragmeter.judge.calls")
    }
    cost = budget.price(stats.input_tokens, stats.output_tokens)
    assert cost > 0
    assert paid == {"ragmeter.judge.cost": pytest.approx(cost), "ragmeter.judge.calls": 2}
    said = [record.attributes for record in sdk.records()]
    assert {one["gen_ai.evaluation.name"] for one in said} == {"context_relevancy", "answer_relevancy"}
    for key, total in (
        ("calls", stats.judge_calls),
        ("input_tokens", stats.input_tokens),
        ("output_tokens", stats.output_tokens),
    ):
        assert sum(one[f"ragmeter.evaluation.judge.{key}"] for one in said) == total
    told = sum(one["ragmeter.evaluation.judge.cost"] for one in said)
    assert told == pytest.approx(cost)
    assert {one["ragmeter.evaluation.judge.endpoint"] for one in said} == {"local"}
    assert {one["ragmeter.evaluation.judge.model"] for one in said} == {judge.model}
