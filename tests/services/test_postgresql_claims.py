"""Servers with one PostgreSQL between them tell of a change once, and it is told whichever of them is killed."""

import random
from contextlib import ExitStack

import pytest
from at_once import at_once
from postgresql_server import postgresql
from received_traffic import Traffic, Weeks, one, watching
from shared_claims import Clock, fall, server
from stored import store

__all__ = ["postgresql"]

pytestmark = pytest.mark.service
DAY_S = 86_400.0
MONDAY = 1_799_625_600.0  # 2027-01-11 00:00 UTC


def test_two_servers_show_a_fall_that_applications_brought_and_one_tells(postgresql):
    weeks, place = Weeks(MONDAY), postgresql.database()
    options = {"clock": weeks.clock, "keep_s": 30 * DAY_S}
    shop = Traffic(one(), "shop")
    with (
        store(place, **options) as one_store,
        store(place, **options) as other_store,
        watching(weeks, one_store, shared=True) as one_watch,
        watching(weeks, other_store, shared=True) as other_watch,
    ):
        weeks.pass_(96, one_store, [(shop, 8, 0.8)])
        one_watch.look()
        other_watch.look()
        for _ in range(8):
            weeks.pass_(1, other_store, [(shop, 20, 0.3)])
            at_once(lambda watch: watch.look(), (one_watch, other_watch))
        assert one_watch.watch.changes(on=True) == other_watch.watch.changes(on=True) != ()
        assert [change.kind for change, *_ in [*one_watch.told, *other_watch.told]] == ["fell"]


def test_of_many_that_find_many_at_once_each_is_told_once(postgresql):
    place, clock, chance = postgresql.database(), Clock(), random.Random(7)
    changes = [fall(score=f"score-{number}") for number in range(20)]
    with ExitStack() as opened:
        servers = [opened.enter_context(server(place, clock)) for _ in range(3)]

        def find(one, found):
            for told in found:
                one.telling.put_claimed(told)

        at_once(find, servers, [chance.sample(changes, len(changes)) for _ in servers])
        for one in servers:
            one.wait()
        told = [each.change.score for one in servers for each in one.told]
    assert sorted(told) == sorted(each.change.score for each in changes)
