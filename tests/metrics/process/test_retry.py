"""How long to wait before another attempt."""

import random
import time
from email.utils import formatdate

import pytest

from ragmeter.metrics._process.retry import FIRST_PAUSE_S, asked_pause_s, pause_before


@pytest.mark.parametrize(
    ("status", "headers", "delay", "asked_s"),
    [
        (503, {}, None, None),
        (429, {"retry-after": "7"}, None, 7.0),
        (429, {"retry-after": "1.5"}, None, 1.5),
        (429, {"retry-after": "0m30s"}, None, 30.0),
        (503, {"retry-after-ms": "250", "retry-after": "9"}, None, 0.25),
        (429, {"llm_provider-retry-after": "4"}, None, 4.0),
        (429, {"retry-after": "soon"}, "3s", 3.0),
        (429, {"retry-after": "-4"}, None, None),
        (429, {"retry-after": "nan"}, "inf", None),
        (429, {"retry-after": "86400"}, None, 60.0),
        (429, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, None, 60.0),
        (429, {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6m0s"}, None, None),
        (503, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, None, None),
    ],
)
def test_what_a_server_asks_for_is_read_however_it_says_so(status, headers, delay, asked_s):
    assert asked_pause_s(status, headers, delay, longest_s=60.0) == asked_s


def test_a_date_is_a_pause_until_then_and_a_past_one_is_none():
    future = {"retry-after": formatdate(time.time() + 40, usegmt=True)}
    past = {"retry-after": formatdate(time.time() - 40, usegmt=True)}

    assert 30 < asked_pause_s(503, future, longest_s=60.0) <= 40
    assert asked_pause_s(503, past, longest_s=60.0) == 0.0


def test_without_a_word_the_range_doubles_up_to_its_limit_and_begins_at_nothing(monkeypatch):
    drawn = []
    monkeypatch.setattr(random, "uniform", lambda low, high: drawn.append((low, high)) or high)
    pauses = [pause_before(retry, None, longest_s=3.0) for retry in (0, 1, 2, 3, 5000)]

    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S, 3.0, 3.0]
    assert {low for low, _ in drawn} == {0.0}


def test_what_the_server_asked_for_is_waited_out_and_a_little_more():
    assert 30.0 <= pause_before(0, 30.0, longest_s=3.0) <= 30.1
