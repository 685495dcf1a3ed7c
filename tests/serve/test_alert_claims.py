"""Of several servers on one store one tells of a change, and one does: whoever is killed, whoever comes later."""

import random
import time
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared_claims import NOW, Clock, fall, killed_before_it_told, server, telling
from stored import store

from ragmeter.exporters.changes import NotTakenError
from ragmeter.serve.store.claims import LEASE_S, SAME_S, StoredClaims
from ragmeter.watch.watch import ChangeNotice

HOUR = 3_600.0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def kept(clock):
    with store(clock=clock) as made:
        yield made


def test_of_three_that_find_a_fall_one_tells(kept, clock):
    found = [fall(at=NOW + late) for late in (0.0, 300.0, 2 * HOUR)]
    with (
        telling(StoredClaims(kept), clock) as one,
        telling(StoredClaims(kept), clock) as two,
        telling(StoredClaims(kept), clock) as three,
    ):
        servers = (one, two, three)
        for each, told in zip(servers, found, strict=True):
            each.telling.put_claimed(told)
            each.telling.put(told)  # and however it comes there
        for each in servers:
            each.wait()
        clock.now += 10 * LEASE_S
        for each in servers:
            each.telling.take_up()
            each.wait()
        assert [each.told for each in servers] == [[found[0]], [], []]


def test_what_was_claimed_and_not_told_is_told_by_another_after_a_while(fresh, clock):
    place = fresh()
    killed_before_it_told(place)
    with server(place, clock) as other:
        other.telling.put_claimed(fall())  # it finds the same
        clock.now += LEASE_S - 1.0
        other.telling.take_up()
        other.wait()
        assert other.told == []
        clock.now += 1.0
        other.telling.take_up()
        other.wait()
        assert other.told == [fall()]
        clock.now += 10 * LEASE_S
        other.telling.take_up()
        other.wait()
        assert len(other.told) == 1


def test_who_was_too_slow_to_begin_leaves_it_to_who_took_over(kept, clock):
    slow, quick = StoredClaims(kept), StoredClaims(kept)
    claim = slow.claim(fall())
    clock.now += LEASE_S
    ((taken, told),) = quick.left()
    assert told == fall()
    assert not slow.hold(claim)
    assert quick.hold(taken)
    quick.done(taken)
    assert not quick.hold(taken)
    assert slow.left() == []


class Away:
    """A webhook that takes nothing until it is back."""

    def __init__(self):
        self.back = False
        self.taken = []

    def changed(self, change, said, resource):
        del said, resource
        if not self.back:
            raise NotTakenError("status 503")
        self.taken.append(change)


def test_a_webhook_that_is_away_hears_it_once_from_the_server_that_found_it(kept, clock):
    hook = Away()
    with telling(StoredClaims(kept), clock, hook) as one, telling(StoredClaims(kept), clock, hook) as two:
        one.telling.put_claimed(fall())
        two.telling.put_claimed(fall(at=NOW + 300.0))
        assert one.telling.flush(time.monotonic() + 60.0)
        assert not one.telling.settle(time.monotonic() + 1.0)
        two.telling.take_up()
        two.wait()
        hook.back = True
        one.wait()
        clock.now += 10 * LEASE_S
        two.telling.take_up()
        two.wait()
        assert (hook.taken, len(one.told), two.told) == ([fall().change], 1, [])


def test_what_a_server_that_ended_could_not_deliver_another_does(kept, clock):
    hook = Away()
    with telling(StoredClaims(kept), clock, hook) as one:
        one.telling.put_claimed(fall())
        assert one.telling.flush(time.monotonic() + 60.0)
        assert not one.telling.settle(time.monotonic() + 1.0)
    hook.back = True
    with telling(StoredClaims(kept), clock, hook) as two:
        clock.now += LEASE_S
        two.telling.take_up()
        two.wait()
    assert hook.taken == [fall().change]


def test_who_is_about_to_tell_has_the_time_for_it(kept, clock):
    claims = StoredClaims(kept)
    claim = claims.claim(fall())
    clock.now += LEASE_S - 1.0
    assert claims.hold(claim)
    clock.now += LEASE_S - 1.0
    assert claims.left() == []


@pytest.mark.parametrize(
    "other",
    [
        fall(score="badness"), fall(segment=""), fall(workflow="chat"), fall(kind="recovered"), fall(kind="judge"),
        fall(resource={"service.name": "shop", "deployment.environment.name": "test"}), fall(at=NOW + SAME_S),
    ],
)  # fmt: skip
def test_another_change_is_told_too(kept, other):
    claims = StoredClaims(kept)
    assert claims.claim(fall())
    assert claims.claim(other)


def test_a_server_that_calls_it_a_change_of_the_mix_has_found_the_same(kept):
    claims = StoredClaims(kept)
    assert claims.claim(fall())
    assert claims.claim(fall(kind="mix", at=NOW + 300.0)) is None


_NAMES = count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    gaps=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    servers=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_falls_and_recoveries_are_told_once_each_in_whatever_order_servers_find_them(kept, gaps, servers, seed):
    """Each finds them in their order, a little earlier or later than the others, and may be far behind."""
    chance, score = random.Random(seed), f"score-{next(_NAMES)}"
    times = [NOW + HOUR * sum(gaps[:place]) for place in range(len(gaps))]
    finds = []
    for _ in range(servers):
        kinds = [("fell", "recovered")[place % 2] for place in range(len(times))]
        finds.append(
            [
                fall(at=at + chance.uniform(-0.49, 0.49) * HOUR, kind=kind, score=score)
                for at, kind in zip(times, kinds, strict=True)
            ]
        )
    claims, told = StoredClaims(kept), []
    while any(finds):
        found = chance.choice([each for each in finds if each]).pop(0)
        if claims.claim(found):
            told.append(found)
    assert len(told) == len(times)


def test_what_another_version_wrote_is_left_alone(kept, clock, caplog):
    claims = StoredClaims(kept)
    claims.claim_series("series", "worse", NOW, '{"change": {"moon": 1}, "resource": {}}')
    claims.claim(fall())
    clock.now += LEASE_S
    assert [told for _, told in claims.left()] == [fall()]
    assert "version" in caplog.text


def test_a_change_is_the_same_after_it_was_written_down():
    assert ChangeNotice.from_json(fall().to_json()) == fall()


def test_what_was_told_is_forgotten_after_a_month(kept, clock):
    claims = StoredClaims(kept)
    claims.done(claims.claim(fall()))
    clock.now += 31 * 24 * HOUR
    claims.done(claims.claim(fall(at=clock.now)))
    with kept._home.moment() as database:
        assert database.execute("SELECT count(*) FROM telling").fetchone() == (1,)
