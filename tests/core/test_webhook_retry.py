"""A webhook that is away hears of a change when it is back, within an hour; what it never took is counted."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from fakes_quality import make_change
from hypothesis import given, settings
from hypothesis import strategies as some

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.exporters.changes import NotTakenError
from ragmeter.watch.change import Change
from ragmeter.watch.notify import Notifier
from ragmeter.watch.watch import ChangeNotice
from ragmeter.watch.webhook_retry import LONGEST_PAUSE_S, MAX_WAITING, PATIENCE_S, WebhookRetry


class Hook:
    """A webhook, whose server may be away or refuse."""

    def __init__(self) -> None:
        self.away = False
        self.refuses = False
        self.attempts = 0
        self.taken: list[str] = []

    def changed(self, change: Change, said: str, resource: object) -> None:
        self.attempts += 1
        if self.refuses:
            raise ValueError("refused")
        if self.away:
            raise NotTakenError("status 503", None)
        self.taken.append(change.score)


class Case:
    """What offers changes, at a time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.hook = Hook()
        self.errors = ErrorLog()
        self.held = True
        self.done: list[str] = []
        self.redelivering = WebhookRetry(
            self.hook,
            Guard("changes", self.errors),
            lambda claim: self.held,
            self.done.append,
            clock=lambda: self.now,
        )

    def offer(self, name: str = "goodness", claim: str | None = "claim") -> bool:
        return self.redelivering.offer(make_change(name), name, {}, claim)

    def run(self, seconds: float) -> None:
        """Let time pass, as the thread that tells would."""
        end = self.now + seconds
        while True:
            pause = self.redelivering.step()
            if pause is None or self.now + pause > end:
                break
            self.now += pause
        self.now = end


def test_what_is_taken_at_once_is_done() -> None:
    case = Case()
    assert case.offer()
    assert tuple(case.redelivering.deliveries()) == (1, 0, 0)
    assert case.done == []  # who offers it says so
    assert case.redelivering.step() is None


def test_what_is_not_taken_is_offered_again_until_it_is_and_only_then_is_done() -> None:
    case = Case()
    case.hook.away = True
    assert not case.offer()
    case.run(1800.0)
    assert tuple(case.redelivering.deliveries()) == (0, 1, 0)
    assert 1800.0 / LONGEST_PAUSE_S <= case.hook.attempts < 600
    case.hook.away = False
    case.run(LONGEST_PAUSE_S)
    assert (case.hook.taken, case.done) == (["goodness"], ["claim"])
    assert tuple(case.redelivering.deliveries()) == (1, 0, 0)


def test_after_an_hour_it_counts_as_not_delivered_and_a_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.hook.away = True
    case.offer()
    case.run(PATIENCE_S - 1.0)
    assert case.redelivering.deliveries().not_delivered == 0
    case.run(LONGEST_PAUSE_S + 1.0)
    assert tuple(case.redelivering.deliveries()) == (0, 0, 1)
    assert case.done == ["claim"]
    assert [one.levelno for one in caplog.records if "not delivered" in one.message] == [logging.WARNING]


def test_what_another_server_has_taken_over_is_not_offered_twice() -> None:
    case = Case()
    case.hook.away = True
    case.offer()
    case.held = case.hook.away = False
    case.run(LONGEST_PAUSE_S)
    assert (case.hook.taken, case.done) == ([], [])
    assert tuple(case.redelivering.deliveries()) == (0, 0, 0)


@pytest.mark.contains_errors
def test_what_is_refused_is_not_offered_again() -> None:
    case = Case()
    case.hook.refuses = True
    assert case.offer()
    assert tuple(case.redelivering.deliveries()) == (0, 0, 1)
    assert case.redelivering.step() is None


def test_so_many_may_wait_and_the_oldest_count_as_not_delivered() -> None:
    case = Case()
    case.hook.away = True
    for number in range(MAX_WAITING + 3):
        case.offer(str(number), str(number))
    assert tuple(case.redelivering.deliveries()) == (0, MAX_WAITING, 3)
    assert case.done == ["0", "1", "2"]
    case.hook.away = False
    case.run(LONGEST_PAUSE_S)
    assert sorted(map(int, case.hook.taken)) == list(range(3, MAX_WAITING + 3))


@settings(max_examples=50, deadline=None)
@given(some.lists(some.tuples(some.booleans(), some.floats(0.0, 900.0)), min_size=1, max_size=20))
def test_each_change_is_taken_once_or_counted_whenever_the_webhook_is_there(
    story: list[tuple[bool, float]],
) -> None:
    case = Case()
    for number, (away, seconds) in enumerate(story):
        case.hook.away = away
        case.offer(str(number), str(number))
        case.run(seconds)
    case.run(PATIENCE_S + LONGEST_PAUSE_S)
    found = case.redelivering.deliveries()
    assert len(set(case.hook.taken)) == len(case.hook.taken) == found.delivered
    assert (found.delivered + found.not_delivered, found.waiting) == (len(story), 0)


@pytest.fixture
def hook() -> Iterator[tuple[Notifier, Hook, list[Change]]]:
    made, heard = Hook(), list[Change]()
    telling = Notifier([], Guard("changes", ErrorLog()), time.time, made)
    telling.on_change(heard.append)
    yield telling, made, heard
    telling.close()


def test_others_hear_at_once_and_once_and_a_flush_waits_for_the_webhook(
    hook: tuple[Notifier, Hook, list[Change]],
) -> None:
    telling, webhook, heard = hook
    webhook.away = True
    telling.put(ChangeNotice(make_change(), {}))
    assert telling.flush(time.monotonic() + 60.0)
    assert not telling.settle(time.monotonic() + 2.0)
    assert len(heard) == 1
    webhook.away = False
    assert telling.settle(time.monotonic() + 60.0)
    assert (webhook.taken, len(heard)) == (["goodness"], 1)
