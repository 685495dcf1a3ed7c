"""Servers with one PostgreSQL between them tell of a change once, and it is told whichever of them is killed."""

import random
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from postgresql_server import PATIENCE_S, postgresql
from received_traffic import Traffic, Weeks, one
from shared_claims import Clock, Teller, fall, server
from stored import store

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.serve._alert_lease import SharedClaims
from ragmeter.serve._watch import ScoredElsewhere
from ragmeter.watch.alarming import Alarming
from ragmeter.watch.watch import Watch

__all__ = ["postgresql"]

pytestmark = pytest.mark.service
DAY_S = 86_400.0
MONDAY = 1_799_625_600.0  # 2027-01-11 00:00 UTC


@contextmanager
def watching(weeks, kept):
    """One server's watch over what comes to the database."""
    teller, errors = Teller(), ErrorLog()
    alarming = Alarming(Watch(), lambda since: (), [], lambda name: Guard(name, errors), clock=weeks.clock)
    alarming.on_change(teller.told.append)
    alarming.look_elsewhere(ScoredElsewhere(kept.reader(), weeks.clock), SharedClaims(kept))

    def look():
        assert alarming.flush(time.monotonic() + PATIENCE_S)
        assert not errors.counts

    try:
        yield alarming.watch, look, teller.told
    finally:
        alarming.close(time.monotonic() + PATIENCE_S)


def test_two_servers_show_a_fall_that_applications_brought_and_one_tells(postgresql):
    weeks, place = Weeks(MONDAY), postgresql.database()
    options = {"clock": weeks.clock, "keep_s": 30 * DAY_S}
    shop = Traffic(one(), "shop")
    with (
        store(place, **options) as one_store,
        store(place, **options) as other_store,
        watching(weeks, one_store) as (watch, look, told),
        watching(weeks, other_store) as (other_watch, other_look, other_told),
    ):
        weeks.pass_(96, one_store, [(shop, 8, 0.8)])
        look()
        other_look()
        for _ in range(8):
            weeks.pass_(1, other_store, [(shop, 20, 0.3)])
            both = [threading.Thread(target=each) for each in (look, other_look)]
            for each in both:
                each.start()
            for each in both:
                each.join(PATIENCE_S)
        assert watch.changes(on=True) == other_watch.changes(on=True) != ()
        assert [change.kind for change in [*told, *other_told]] == ["fell"]


def test_of_many_that_find_many_at_once_each_is_told_once(postgresql):
    place, clock, chance = postgresql.database(), Clock(), random.Random(7)
    changes = [fall(score=f"score-{number}") for number in range(20)]
    with ExitStack() as opened:
        servers = [opened.enter_context(server(place, clock)) for _ in range(3)]

        def find(one, found):
            for told in found:
                one.telling.put_claimed(told)

        finding = [
            threading.Thread(target=find, args=(one, chance.sample(changes, len(changes)))) for one in servers
        ]
        for thread in finding:
            thread.start()
        for thread in finding:
            thread.join(PATIENCE_S)
        for one in servers:
            one.wait()
        told = [each.change.score for one in servers for each in one.told]
    assert sorted(told) == sorted(each.change.score for each in changes)
