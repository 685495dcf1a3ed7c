"""A judged metric with a judge that calls no model: each question is booked as one call of 10 + 1 tokens."""

from ragmeter.metrics import Metric, Score
from ragmeter.metrics.judge import CountingJudge
from ragmeter.metrics.judge.protocol import JudgeCall

__all__ = ["Paid", "PaidJudge"]


class PaidJudge(CountingJudge):
    """Records its booked questions."""

    def __init__(self, model="paid"):
        self.model = model
        self.asked = []

    async def ask(self, ask):
        raise AssertionError("the metric here pays, it does not ask")


class Paid(Metric):
    """1.0 for questions with an odd number at their end, else 0.0; an error for those in `failing`."""

    needs = ("question",)
    method = "llm"
    target = "retrieval"

    def __init__(self, name="paid", definition="1", failing=(), stop_at=""):
        self.name, self.score_names, self.definition = name, (name,), definition
        self.failing, self.stop_at = set(failing), stop_at

    async def measure(self, sample, judge):
        if sample.question == self.stop_at:
            raise KeyboardInterrupt
        judge.asked.append(sample.question)
        judge.report(JudgeCall(self.name, judge.model, 0.01, 10, 1))
        if sample.question in self.failing:
            raise OSError("no answer")
        value = float(sample.question.rstrip("?")[-1] in "13579")
        return [Score(name=self.name, value=value, status="ok", method="llm", definition=self.definition)]
