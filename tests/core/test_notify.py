"""Who tells of a change when it cannot be known: it waits, and then is told all the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from fakes_quality import make_change

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.exporters.changes import ChangeNote
from ragmeter.watch.change import Change
from ragmeter.watch.notify import PATIENCE_S, ClaimError, Notifier
from ragmeter.watch.watch import ChangeNotice

CHANGE = make_change()
TOLD = ChangeNotice(CHANGE, {"service.name": "shop"})


def test_a_notice_keeps_its_notes() -> None:
    notes = ChangeNote("in", ("language:zh",)), ChangeNote("kinder", (0.25, 40, 0.1, 0.4))
    notice = ChangeNotice(replace(CHANGE, notes=notes), {})
    assert ChangeNotice.from_json(notice.to_json()) == notice


class Claims:
    """Where claims are, which may be away."""

    def __init__(self) -> None:
        self.away = False
        self.taken = False
        self.others: list[tuple[str, ChangeNotice]] = []
        self.held = True
        self.told: list[str] = []

    def claim(self, told: ChangeNotice) -> str | None:
        self._reach()
        taken, self.taken = self.taken, True
        return None if taken else "claim"

    def left(self) -> list[tuple[str, ChangeNotice]]:
        self._reach()
        others, self.others = self.others, []
        return others

    def hold(self, claim: str) -> bool:
        self._reach()
        return self.held

    def done(self, claim: str) -> None:
        self._reach()
        self.told.append(claim)

    def _reach(self) -> None:
        if self.away:
            raise ClaimError("it is away")


class Case:
    """What tells, and to whom."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[Change] = []
        self.errors = ErrorLog()
        self.claims = Claims()
        self.telling = Notifier([self], Guard("changes", self.errors), lambda: self.now)
        self.telling.claim_by(self.claims)

    def changed(self, change: Change, said: str, resource: object) -> None:
        self.seen.append(change)

    def wait(self) -> int:
        assert self.telling.flush(time.monotonic() + 60.0)
        assert not self.errors.counts
        return len(self.seen)


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    made.telling.close()


def test_what_is_claimed_is_told_once_and_noted(case: Case) -> None:
    case.telling.put_claimed(TOLD)
    case.telling.put(TOLD)
    assert case.wait() == 1
    assert case.claims.told == ["claim"]


@pytest.mark.parametrize("claimed_at_once", [True, False])
def test_what_cannot_be_claimed_waits_until_it_can(case: Case, claimed_at_once: bool) -> None:
    case.claims.away = True
    (case.telling.put_claimed if claimed_at_once else case.telling.put)(TOLD)
    assert case.wait() == 0
    case.telling.take_up()
    assert case.wait() == 0
    case.claims.away = False
    case.telling.take_up()
    assert case.wait() == 1
    assert case.claims.told == ["claim"]


def test_what_another_has_told_meanwhile_is_not_told(case: Case) -> None:
    case.claims.away = True
    case.telling.put(TOLD)
    case.wait()
    case.claims.away, case.claims.taken = False, True
    case.telling.take_up()
    assert case.wait() == 0


def test_what_cannot_be_claimed_for_long_is_told_all_the_same(case: Case) -> None:
    case.claims.away = True
    case.telling.put(TOLD)
    case.wait()
    case.now = PATIENCE_S - 1.0
    case.telling.take_up()
    assert case.wait() == 0
    case.now = PATIENCE_S
    case.telling.take_up()
    assert case.wait() == 1


def test_at_the_end_nothing_waits_any_longer(case: Case) -> None:
    case.claims.away = True
    case.telling.put(TOLD)
    case.wait()
    case.telling.take_up(last=True)
    assert case.wait() == 1


def test_what_others_have_left_is_told_unless_it_is_theirs_again(case: Case) -> None:
    case.claims.others = [("theirs", TOLD)]
    case.telling.take_up()
    assert case.wait() == 1
    assert case.claims.told == ["theirs"]
    case.claims.others, case.claims.held = [("late", TOLD)], False
    case.telling.take_up()
    assert case.wait() == 1
    assert case.claims.told == ["theirs"]


def test_what_was_claimed_is_told_though_the_claims_are_away_by_then(case: Case) -> None:
    case.claims.others = [("theirs", TOLD)]
    with case.telling._queue._busy:  # nothing is told meanwhile
        case.telling.take_up()
        case.claims.away = True
    assert case.wait() == 1
