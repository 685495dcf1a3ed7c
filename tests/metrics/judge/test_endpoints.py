"""Every endpoint at first try: recorded replies of some thirty of them, replayed over real HTTP."""

import pytest
from judging_tools import judge_at, sample
from openai_server import OpenAIServer
from replayed_endpoint import REPLIES, Replayed

from ragmeter.metrics import ContextPrecision, evaluate

BY_NAME = {record["name"]: record for record in REPLIES}
MOST_CALLS = 113
"""On the wire, for all of them, with one retry each."""


def replay(record, **options):
    """Score one sample with a metric of two chunks; return the score, the judge and the requests."""
    with OpenAIServer() as server:
        server.supports = {"json_schema", "json_object"}
        server.script.extend([Replayed(record)] * 1)
        replayed = server.script[0]
        server.script.extend([replayed] * 30)
        judge = judge_at(server, max_retries=1, max_output_tokens=500, timeout_s=60.0, cache=False, **options)
        [scores] = evaluate([sample()], [ContextPrecision()], judge)
        return scores["context_precision"], judge, list(server.requests)


@pytest.fixture(scope="module")
def replayed():
    """All of them, each with a judge of its own."""
    return {name: replay(record) for name, record in BY_NAME.items()}


@pytest.mark.parametrize("name", BY_NAME)
def test_what_becomes_of_a_reply(replayed, name):
    """The value where there is one, else no value and the class that says why."""
    score, _, requests = replayed[name]
    expected = BY_NAME[name]["expected"]

    assert (score.value, score.status, score.error_type) == (
        expected["value"],
        expected["status"],
        expected["error_type"],
    )
    assert score.judge_calls == len(requests)


def test_what_it_costs(replayed):
    """38 of 70 are scored; the wire sees so many calls, and each of them is counted."""
    assert sum(score.status == "ok" for score, _, _ in replayed.values()) == 38
    assert sum(len(requests) for _, _, requests in replayed.values()) <= MOST_CALLS
    for score, judge, requests in replayed.values():
        assert judge.stats.calls == score.judge_calls == len(requests)
