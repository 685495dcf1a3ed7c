"""The shared budget and cache, where there is no Redis: what they refuse, and what is left without one.

How they behave with one stands in `tests/services`.
"""

import asyncio
import logging
import pickle
import re
import sys

import pytest

pytest.importorskip("redis")

from ragmeter.metrics import ConfigurationError, MissingDependencyError
from ragmeter.metrics.errors import install_command
from ragmeter.metrics.judge import Answer, JudgeBudget, JudgeError, SharedBudget, SharedCache
from ragmeter.settings.config import read_settings
from ragmeter.settings.from_settings import budget_and_cache

NOWHERE = "redis://:hidden@127.0.0.1:1/0"
"""Nobody listens there."""


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://:hidden@localhost",
        "redis://",
        "redis://:hidden@localhost:many",
        "unix://",
        "redis://:hidden@[",
        "redis://:hidden@localhost/0?socket_timeout=soon",
    ],
)
@pytest.mark.parametrize("kind", [SharedBudget, SharedCache])
def test_what_is_no_redis_is_refused_without_quoting_it(kind, url):
    with pytest.raises(ConfigurationError, match="URL") as caught:
        kind(url)
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (SharedBudget, {"share": 1.1}, "share is 1.1"),
        (SharedBudget, {"share": -0.1}, "share is -0.1"),
        (SharedBudget, {"name": ""}, "name is ''"),
        (SharedBudget, {"name": "a}b"}, "name is 'a}b'"),
        (SharedBudget, {"calls_per_minute": 0}, "calls_per_minute is 0"),
        (SharedBudget, {"max_cost": 1.0}, "input_price"),
        (SharedCache, {"ttl_s": 0}, "ttl_s is 0"),
        (SharedCache, {"max_bytes": -1}, "max_bytes is -1"),
    ],
)
def test_arguments_out_of_range_are_refused(kind, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        kind(NOWHERE, **arguments)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    for kind in (SharedBudget, SharedCache):
        with pytest.raises(MissingDependencyError, match=re.escape(install_command("redis"))):
            kind(NOWHERE)


def test_settings_that_are_wrong_do_not_show_the_password(monkeypatch):
    monkeypatch.setenv("RAGMETER_JUDGE_SHARED_URL", "http://:hidden@localhost")
    with pytest.raises(ConfigurationError, match="RAGMETER_JUDGE_SHARED_URL") as caught:
        budget_and_cache(read_settings())
    assert "hidden" not in str(caught.value) + repr(read_settings())


def test_without_a_url_each_process_has_its_own():
    budget, cache = budget_and_cache(read_settings())
    assert type(budget) is JudgeBudget
    assert cache is True
    assert "redis" not in type(budget).__module__


def test_without_redis_a_process_takes_its_share(caplog):
    budget = SharedBudget(NOWHERE, 16, when_exhausted="skip")
    with caplog.at_level(logging.WARNING):
        taken = [asyncio.run(budget.obtain(10, 0)) for _ in range(2)]
        for _ in range(2):
            with pytest.raises(JudgeError) as caught:
                budget.take(10)
    assert (caught.value.status, caught.value.error_type) == ("skipped", "budget")
    assert budget.granted_alone == 2
    assert budget.part == 0.125
    for reservation in taken:
        budget.settle(reservation, 10, 5)
    [said] = caplog.messages
    assert "127.0.0.1:1" in said
    assert "hidden" not in said


def test_who_waits_asks_again_within_a_second():
    budget = SharedBudget(NOWHERE, 8, when_exhausted="wait")
    budget.take(10)
    assert 0 < budget.take(10) <= 1.0


def test_without_limits_redis_is_not_asked(caplog):
    budget = SharedBudget(NOWHERE, input_price=1.0)
    reservation = budget.take(10)
    budget.settle(reservation, 1_000_000, 0)
    assert budget.cost == 1.0
    assert budget.granted_alone == 0
    assert not caplog.messages


def test_a_cache_without_redis_keeps_in_memory():
    cache = SharedCache(NOWHERE)
    answer = Answer(known=True, value=True)
    assert asyncio.run(cache.fetch([b"k"])) == {}
    cache.remember(b"k", answer)
    assert cache.recall(b"k") == answer
    cache.close()


def test_pickles_hold_no_password(monkeypatch):
    budget = SharedBudget(NOWHERE, 16, name="shop", share=0.25)
    cache = SharedCache(NOWHERE, 1000, ttl_s=60)
    pickled = pickle.dumps([budget, cache])
    assert b"hidden" not in pickled + repr([budget, cache]).encode()
    monkeypatch.setenv("RAGMETER_JUDGE_SHARED_URL", NOWHERE)
    again, cache_again = pickle.loads(pickled)
    assert repr(again) == repr(budget)
    assert cache_again.settings_and_secrets() == cache.settings_and_secrets()
    assert again._line.url == NOWHERE
    monkeypatch.setenv("RAGMETER_JUDGE_SHARED_URL", "redis://:other@elsewhere/0")
    again, _ = pickle.loads(pickled)
    assert again._line.url == "redis://127.0.0.1:1/0"
