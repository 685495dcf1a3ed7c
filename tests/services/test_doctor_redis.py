"""What `ragmeter doctor` says of a Redis that several installations share."""

import asyncio

import pytest
from processes import free_port

pytest.importorskip("redis")

from ragmeter.cli.doctor._redis import check_shared
from ragmeter.metrics.judge import SharedBudget
from ragmeter.settings.config import Settings


def examined(url, **limits):
    found = check_shared(Settings(judge_shared_url=url, **limits))
    return [(one.state, one.detail) for one in found]


def use(url, **settings):
    """Ask the budget once, as an application does."""
    budget = SharedBudget(url, **settings)
    asyncio.run(budget.obtain(1, 1))
    budget.close()


def test_installations_with_other_limits_are_told_and_those_with_the_same_are_not(redis_server, patient_redis):
    url = redis_server.url
    answers = ("ok", "answers (RAGMETER_JUDGE_SHARED_URL)")
    assert examined(url, judge_calls_per_minute=100) == [answers]
    use(url, calls_per_minute=100)
    use(url, calls_per_minute=7, name="another")
    assert examined(url, judge_calls_per_minute=100) == [answers]
    use(url, calls_per_minute=4_000)
    assert examined(url, judge_calls_per_minute=100) == [
        answers,
        ("warning", "another installation shares the budget 'default' with calls_per_minute=4000"),
    ]


def test_a_redis_that_may_forget_is_told(start_redis, patient_redis):
    server = start_redis("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    [_, found] = examined(server.url)
    assert found[0] == "warning"
    assert "allkeys-lru" in found[1]
    marks = Settings(worker_dedupe_url=server.url)
    assert [one.state for one in check_shared(marks)] == ["ok"]


def test_a_redis_that_is_away_is_told_without_its_password():
    [found] = check_shared(Settings(worker_dedupe_url=f"redis://:hunter2@127.0.0.1:{free_port()}/0"))
    assert found.state == "failed"
    assert found.detail == "ConnectionError"
    assert "hunter2" not in found.what + found.detail + found.fix
    [found] = check_shared(Settings(judge_shared_url="http://nothing:hunter2@host"))
    assert found.state == "failed"
    assert "hunter2" not in found.what + found.detail + found.fix
