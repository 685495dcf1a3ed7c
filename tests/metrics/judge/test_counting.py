"""A judge of one's own: `model` and `ask` are all it needs."""

import pickle
from dataclasses import dataclass

import pytest

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError, RagSample, evaluate
from ragmeter.metrics.judge import (
    Answer,
    CountingJudge,
    Judge,
    JudgeBudget,
    JudgeCall,
    JudgeStats,
    OpenAIJudge,
    Reply,
    Usage,
)
from ragmeter.metrics.judge.counting import as_judge

SAMPLE = RagSample(question="q", contexts=["The tower is tall."], answer="The tower is tall.")


class Yes(CountingJudge):
    """Its ``__init__`` is its own, and calls no other."""

    model = "yes"

    def __init__(self):
        self.asked = []

    async def ask(self, ask):
        self.asked.append(ask.metric)
        self.report(JudgeCall(ask.metric, self.model, 0.01, 100, 10))
        answers = {
            item.id: Answer(known=True, value=group.choices[0] if group.choices else True)
            for group in ask.groups
            for item in group.items
        }
        self.report_items(0, len(answers))
        return Reply(answers, Usage(1, 100, 10))


@dataclass(frozen=True)
class Frozen(CountingJudge):
    """A judge whose fields say what it is."""

    model: str = "frozen"

    async def ask(self, ask):
        raise NotImplementedError


def test_a_meter_scores_with_it_and_exports_its_calls():
    judge, memory = Yes(), InMemoryExporter()
    meter = RagMeter(metrics=["faithfulness"], judge=judge, exporters=[memory])
    meter.submit(SAMPLE)
    assert meter.flush(60)
    meter.shutdown(60)

    [result] = memory.results
    assert result.scores["faithfulness"].value == 1.0
    assert judge.asked == ["faithfulness"]
    assert meter.stats().judge_calls == 1
    assert judge.stats == JudgeStats(calls=1, input_tokens=100, output_tokens=10, cache_misses=1)


def test_what_it_reports_is_counted_and_reaches_every_observer():
    """Calls answered from a cache are reported, and cost nothing."""
    judge, one, two = Frozen(), [], []
    judge.subscribe(one.append)
    judge.subscribe(two.append)
    calls = [
        JudgeCall("m", "frozen", 0.1, 10, 1, cached_tokens=4),
        JudgeCall("m", "frozen", 0.1, 10, 0, "timeout", calls=3),
        JudgeCall("m", "frozen", 0.0, 0, 0, cached=True),
    ]
    for call in calls:
        judge.report(call)
    judge.report_items(5, 2)

    assert one == two == calls
    assert judge.stats == JudgeStats(
        calls=4, input_tokens=20, output_tokens=1, cached_tokens=4,
        cache_hits=5, cache_misses=2, errors={"timeout": 1},
    )  # fmt: skip


def test_its_budget_says_what_was_spent():
    judge = Yes()
    judge.budget = JudgeBudget(input_price=2.0)
    judge.budget.settle(judge.budget.take(10), 1_000_000, 0)

    assert judge.stats.cost == pytest.approx(2.0)


@pytest.mark.parametrize("make", [Yes, Frozen])
def test_a_copy_in_another_process_counts_for_itself(make):
    judge = make()
    judge.subscribe(print)
    judge.report(JudgeCall("m", "model", 0.1, 10, 1))
    other = pickle.loads(pickle.dumps(judge))

    assert other.model == judge.model
    assert other.stats == JudgeStats()
    assert judge.stats.calls == 1


class AskOnly:
    """Cannot be listened to."""

    async def ask(self, ask):
        """Answer nothing."""


@pytest.mark.parametrize("wrong", [AskOnly(), OpenAIJudge, Yes, "gpt-4o-mini"])
def test_an_object_that_lacks_some_of_the_contract_is_refused_with_the_fix(wrong):
    with pytest.raises(ConfigurationError, match="subclass of ragmeter"):
        RagMeter(metrics=["faithfulness"], judge=wrong, exporters=[InMemoryExporter()])


def test_the_built_in_judge_is_one():
    assert isinstance(OpenAIJudge("m", "http://127.0.0.1:1/v1"), Judge)
    assert isinstance(Yes(), Judge)


class OfFourMembers:
    """All that a judge cannot do without, and no superclass."""

    model = "four"

    def __init__(self):
        self.observers = []
        self.closed = False

    async def ask(self, ask):
        answers = {
            item.id: Answer(known=True, value=group.choices[0] if group.choices else True)
            for group in ask.groups
            for item in group.items
        }
        for observer in self.observers:
            observer(JudgeCall(ask.metric, self.model, 0.01, 100, 10))
        return Reply(answers, Usage(1, 100, 10))

    def subscribe(self, observer):
        self.observers.append(observer)

    async def aclose(self):
        self.closed = True


def test_an_object_with_the_four_members_gets_the_rest_around_it():
    judge, memory = OfFourMembers(), InMemoryExporter()
    meter = RagMeter(metrics=["faithfulness"], judge=judge, exporters=[memory])
    meter.submit(SAMPLE)
    assert meter.flush(60)
    stats = meter.stats()
    meter.shutdown(60)

    (result,) = memory.results
    assert result.scores["faithfulness"].value == 1.0
    assert result.scores["faithfulness"].judge_calls == stats.judge_calls > 0
    assert judge.closed


def test_it_works_in_a_scoring_process_and_offline_too():
    adapted = pickle.loads(pickle.dumps(as_judge(OfFourMembers())))

    assert adapted.model == "four"
    assert isinstance(adapted, Judge)
    (scored,) = evaluate([SAMPLE], metrics=["faithfulness"], judge=OfFourMembers())
    assert scored["faithfulness"].value == 1.0
