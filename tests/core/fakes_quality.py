"""Requests, scores and changes for tests of sums, estimates and alarms."""

from ragmeter import RagRun, RagSample, Score
from ragmeter.quality.estimates import Estimate
from ragmeter.watch.change import Change


class Runs:
    """Makes runs, each with an id and a question of its own."""

    def __init__(self):
        self.made = 0

    def __call__(self, workflow="qa", *, question=None, tenant=None, **fields):
        self.made += 1
        question = f"q{self.made}" if question is None else question
        given = {} if tenant is None else {"metadata": {"tenant": tenant}}
        usual = {
            "sample": RagSample(question=question, contexts=["c"], answer="a", name=workflow),
            "run_id": str(self.made), "framework": "manual", "started_ns": 1, "ended_ns": 2,
        }  # fmt: skip
        return RagRun(**usual | given | fields)


def make_score(value, name="lexical_groundedness", **changes):
    given = {"status": "undefined" if value is None else "ok", "method": "lexical", **changes}
    return Score(name=name, value=value, definition="1", **given)


def make_mean(value=0.5, half=0.1):
    return Estimate(mean=value, lower=value - half, upper=value + half, n_requests=9, n_judged=9, method="all")


def make_change(score="goodness", **fields):
    given = {
        "workflow": "qa", "since": 0.0, "at": 1.0, "before": make_mean(), "now": make_mean(), "evidence": 2.0,
        "kind": "fell",
    }  # fmt: skip
    return Change(score=score, **given | fields)
