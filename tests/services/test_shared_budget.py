"""One budget for many processes, on a real Redis that hangs, dies and forgets."""

import asyncio
import json
import math
import pickle
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from processes import wait_until

pytest.importorskip("redis")

import redis

from ragmeter.metrics.judge import JudgeBudget, JudgeError, SharedBudget
from ragmeter.metrics.judge.budget import Reservation
from ragmeter.pipeline._admission import Admission

IN_CHILDREN = """
import json, os, sys, time
from ragmeter.metrics._process import redis as shared
from ragmeter.metrics.judge import JudgeCall, JudgeError, SharedBudget
from ragmeter.pipeline._admission import Admission
shared.LONGEST_WAIT_S = 60.0  # a busy machine answers late: that is no Redis that is away
CODE
children = []
for number in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        try:
            said = json.dumps(main(number, *map(json.loads, sys.argv[2:])))
            os.write(1, (said + "\\n").encode())
        finally:
            os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""


def in_processes(count, code, *arguments):
    """Run `main` of `code` in `count` processes at once; return what each returned."""
    command = [sys.executable, "-c", IN_CHILDREN.replace("CODE", code), str(count)]
    command += map(json.dumps, arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == count, done.stderr
    return results


def taken(budget, tokens=10, output=0):
    """Return a reservation; None: there was no room."""
    try:
        room = budget.take(tokens, output)
    except JudgeError:
        return None
    return room if isinstance(room, Reservation) else None


def busiest(times):
    """Return how many of them lie in the busiest sixty seconds."""
    return max(sum(start <= at < start + 60 for at in times) for start in times)


TAKING = """
def main(number, url, limits, tries):
    return [take(url, str(place), one, tries) for place, one in enumerate(limits)]

def take(url, name, limits, tries):
    budget = SharedBudget(url, name=name, **limits)
    granted = []
    for _ in range(tries):
        try:
            while isinstance(room := budget.take(100, 20, patient=True), float):
                time.sleep(room)  # for those in flight, as judges do
        except JudgeError:
            continue
        granted.append(room.at)
        budget.settle(room, 300, 20)  # more than was expected
    budget.close()
    return granted, budget.cost
"""
PRICES = {"input_price": 1.0, "output_price": 1.0}


def test_eight_processes_never_take_more_than_the_limit(redis_server):
    limits = [
        {"calls_per_minute": 100},
        {"tokens_per_minute": 32_000},
        {"cost_per_minute": 0.032, **PRICES},
        {"max_cost": 0.032, **PRICES},
    ]
    results = in_processes(8, TAKING, redis_server.url, limits, 40)
    for place, limit in enumerate(limits):
        granted = [at for result in results for at in result[place][0]]
        assert busiest(granted) <= 100, limit
        assert len(granted) >= 90, limit  # 320 tries
        cost = math.fsum(result[place][1] for result in results)
        assert "max_cost" not in limit or cost <= 0.032 + 1e-9


def test_calls_are_refused_exactly_at_the_limit(redis_server, patient_redis):
    first, second = (SharedBudget(redis_server.url, 7) for _ in range(2))
    granted = [taken(budget) for _ in range(6) for budget in (first, second)]
    assert sum(room is not None for room in granted) == 7
    with pytest.raises(JudgeError) as caught:
        second.take(10)
    assert (caught.value.status, caught.value.error_type) == ("skipped", "budget")
    assert taken(SharedBudget(redis_server.url, 7, name="another")) is not None


def test_what_a_call_really_took_is_booked_for_all(redis_server, patient_redis):
    first, second = (SharedBudget(redis_server.url, tokens_per_minute=100) for _ in range(2))
    room = taken(first, 10)
    first.settle(room, 80, 10)
    first.close()
    assert taken(second, 20) is None
    assert taken(second, 10) is not None


def test_one_window_slides_by_the_servers_clock(redis_server, patient_redis):
    """What was taken a minute ago counts no more, and what is in flight since then was spent."""
    prices = {"input_price": 1e6, "max_cost": 100.0}
    budget = SharedBudget(redis_server.url, 1, name="x", **prices)
    assert taken(budget, 30) is not None
    assert taken(budget, 1) is None
    with redis.Redis.from_url(redis_server.url) as client:
        key = "ragmeter:{judge-budget:x}:window"
        [second] = [field for field in client.hkeys(key) if field.isdigit()]
        earlier = int(second) - 61
        client.hset(key, earlier, client.hget(key, second))
        client.hdel(key, second)
        client.hset(key, "from", earlier)
        assert taken(budget, 10) is not None
        assert int(client.get("ragmeter:{judge-budget:x}:spent")) == 30 * 10**9


def test_waiting_for_room_says_how_long(redis_server, patient_redis):
    budget = SharedBudget(redis_server.url, 1, when_exhausted="wait")
    assert isinstance(budget.take(10), Reservation)
    assert 50 < budget.take(10) <= 61
    with pytest.raises(JudgeError):  # there will never be room for it
        SharedBudget(redis_server.url, tokens_per_minute=5, when_exhausted="wait").take(10)


def test_a_patient_call_waits_for_those_in_flight_in_other_processes(redis_server, patient_redis):
    async def main():
        first, second = (SharedBudget(redis_server.url, tokens_per_minute=100) for _ in range(2))
        room = await first.obtain(40, 0)
        wait_s = await second.obtain(40, 0)
        assert isinstance(room, Reservation)
        assert wait_s == pytest.approx(0.02)
        first.settle(room, 5, 5)
        await asyncio.to_thread(first.close)
        await second.until_room(40, 0)
        assert isinstance(await second.obtain(40, 0), Reservation)

    asyncio.run(main())


def test_its_keys_lie_in_one_slot_and_old_seconds_go(redis_server, patient_redis):
    budget = SharedBudget(redis_server.url, 10, max_cost=5.0, input_price=1.0)
    budget.settle(taken(budget), 10, 0)
    budget.close()
    with redis.Redis.from_url(redis_server.url) as client:
        keys = sorted(client.keys())
        assert keys == [
            f"ragmeter:{{judge-budget:default}}:{k}".encode() for k in ("settings", "spent", "window")
        ]
        assert len({redis.cluster.key_slot(key) for key in keys}) == 1
        settings, spent, window = keys
        assert client.hlen(window) <= 6
        assert 0 < client.ttl(window) <= 3600
        assert client.ttl(spent) == -1  # for good
        assert 0 < client.ttl(settings) <= 86_400


def test_a_redis_that_hangs_leaves_each_process_its_share(redis_server, caplog):
    budget = SharedBudget(redis_server.url, 100, share=0.25)
    redis_server.hang()
    try:
        granted = sum(taken(budget) is not None for _ in range(60))
        assert granted == 25 == budget.granted_alone
        assert budget.part == 0.25
        assert len(caplog.records) == 1
    finally:
        redis_server.go_on()
    wait_until(lambda: taken(budget) is not None, 60)  # asked again, and there is room
    assert budget.granted_alone == 25


def test_without_redis_processes_stay_within_limit_and_shares(redis_server):
    redis_server.kill()
    limits = [{"calls_per_minute": 80, "share": 0.125}]
    results = in_processes(8, TAKING, redis_server.url, limits, 20)
    assert [len(times) for [(times, _)] in results] == [10] * 8


@pytest.mark.parametrize(
    "limits",
    [
        {"max_cost": 1.0, "input_price": 1.0},
        {"calls_per_minute": 7},  # an eighth of them is less than one call
        {"calls_per_minute": 100, "share": 0.0},
    ],
)
def test_where_no_share_is_left_nothing_is_granted(redis_server, limits):
    redis_server.kill()
    budget = SharedBudget(redis_server.url, **limits)
    assert taken(budget) is None
    assert budget.granted_alone == 0
    redis_server.start()
    wait_until(lambda: taken(budget) is not None, 60)


def test_an_emptied_redis_is_told_what_was_taken(redis_server, patient_redis):
    """Each process brings its own last minute; nothing is granted until all could."""
    first, second = (SharedBudget(redis_server.url, 10) for _ in range(2))
    assert [taken(b) is not None for b in (first, second) * 4] == [True] * 8
    redis_server.kill()
    redis_server.start()
    wait_until(lambda: first.take(1) and False if first._line.is_away else True, 60)
    # At most what was left, however long the way back took.
    more = 0
    for _ in range(10):
        more += taken(first) is not None
        more += taken(second) is not None
    later = []
    wait_until(lambda: later.append(taken(first)) or later[-1] is not None, 60)
    more += sum(room is not None for room in later)
    more += sum(taken(budget) is not None for _ in range(10) for budget in (first, second))
    assert more == 2


def test_what_was_spent_for_good_survives_an_emptied_redis(redis_server, patient_redis):
    budget = SharedBudget(redis_server.url, max_cost=1.0, input_price=1e5)  # 0.1 a token
    for _ in range(9):
        budget.settle(taken(budget, 1), 1, 0)
    budget.close()
    assert taken(budget, 2) is None
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    assert taken(budget, 2) is None
    another = SharedBudget(redis_server.url, max_cost=1.0, input_price=1e5)
    wait_until(lambda: taken(another, 1) is not None, 60)  # 0.1 is left
    assert taken(another, 1) is None


def test_a_sum_that_was_evicted_alone_is_brought_before_anything_is_granted(redis_server, patient_redis):
    """A Redis that is full may forget one key of several; a process that has just begun knows no better."""
    limits = {"max_cost": 1.0, "input_price": 1e5}  # 0.1 a token
    first = SharedBudget(redis_server.url, **limits)
    for _ in range(5):
        first.settle(taken(first, 1), 1, 0)
    first.close()
    assert taken(first, 6) is None  # it knows what was spent
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.delete("ragmeter:{judge-budget:default}:spent") == 1

    young = SharedBudget(redis_server.url, **limits)
    assert taken(young, 9) is None
    assert taken(first, 1) is None  # it brings the sum
    wait_until(lambda: taken(young, 1) is not None, 60)
    assert [taken(young, 1) is not None for _ in range(6)] == [True] * 4 + [False] * 2


def test_other_programs_keys_count_as_a_redis_that_is_away(redis_server):
    with redis.Redis.from_url(redis_server.url) as client:
        client.set("ragmeter:{judge-budget:default}:window", "something")
    budget = SharedBudget(redis_server.url, 16)
    assert taken(budget) is not None
    assert budget.granted_alone == 1


def test_a_full_redis_counts_as_one_that_is_away(start_redis):
    server = start_redis("--maxmemory", "100kb", "--maxmemory-policy", "noeviction")
    budget = SharedBudget(server.url, 16)
    assert taken(budget) is not None
    assert budget.granted_alone == 1


def test_the_password_is_neither_shown_nor_pickled(start_redis, monkeypatch, patient_redis):
    server = start_redis("--requirepass", "hidden")
    url = server.url.replace("redis://", "redis://:hidden@")
    budget = SharedBudget(url, 4, name="a", share=0.5)
    assert taken(budget) is not None
    assert budget.granted_alone == 0
    pickled = pickle.dumps(budget)
    assert b"hidden" not in pickled + repr(budget).encode()
    monkeypatch.setenv("RAGMETER_JUDGE_SHARED_URL", url)
    again = pickle.loads(pickled)
    assert taken(again) is not None
    assert (again.granted_alone, again.share, again.limits) == (0, 0.5, budget.limits)


def test_a_forked_child_asks_with_a_connection_of_its_own(redis_server):
    code = """
def calls(budget, count):
    for _ in range(count):
        budget.settle(budget.take(10), 10, 0)

def main(number, url):
    budget = SharedBudget(url, 1000)
    calls(budget, 5)
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            calls(budget, 20)
            budget.close()
            os._exit(budget.granted_alone)
        children.append(child)
    calls(budget, 20)
    budget.close()
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return ended, budget.granted_alone
"""
    assert in_processes(1, code, redis_server.url) == [[[0, 0, 0], 0]]
    with redis.Redis.from_url(redis_server.url) as client:
        booked = client.hget("ragmeter:{judge-budget:default}:window", "sum").split()
    assert [int(number) for number in booked[:4]] == [85, 850, 0, 0]


ADMITTING = """
from hashlib import sha256

def main(number, url):
    budget = SharedBudget(url, 600)
    now = [0.0]
    admission = Admission(budget, 1.0, lambda: now[0])
    kept = spread = 0.0
    for request in range(2_000):
        now[0] += 0.02
        rate = admission.count_request()
        digest = sha256(f"{number}:{request}".encode()).digest()
        spread += (1 - rate) / rate
        if int.from_bytes(digest[:8], "big") / 2**64 < rate:
            kept += 1 / rate
            try:
                budget.settle(budget.take(10), 10, 0)
            except JudgeError:
                pass
            admission.note_call(JudgeCall("m", "m", 0.0, 10, 0, calls=1))
            admission.finish_request()
    budget.close()
    return kept, spread
"""


def test_weights_of_all_processes_add_up_to_the_requests(redis_server):
    """Requests are chosen as the fleet's limits allow, with probabilities known before."""
    results = in_processes(4, ADMITTING, redis_server.url)
    kept = math.fsum(kept for kept, _ in results)
    spread = math.sqrt(math.fsum(spread for _, spread in results))
    assert abs(kept - 8_000) <= 8 * spread  # not once in 10**14 runs
    assert spread > 0


def test_a_processs_part_of_the_limits_is_its_part_of_the_requests(redis_server, patient_redis):
    first, second = (SharedBudget(redis_server.url, 1000, share=0.25) for _ in range(2))
    assert first.part == second.part == 0.25  # nothing is known yet
    for _ in range(30):
        first.came()
    taken(first)
    assert first.part == 1.0
    for _ in range(10):
        second.came()
    taken(second)
    taken(first)
    assert (first.part, second.part) == (0.75, 0.25)
    assert JudgeBudget(1000).part == 1.0


def test_as_many_are_judged_in_the_fleet_as_in_one_process(redis_server, patient_redis):
    """Two processes with half of the requests each admit what one admits with all of them."""
    now = [0.0]
    budgets = [SharedBudget(redis_server.url, 60) for _ in range(2)]
    admissions = [Admission(budget, 1.0, lambda: now[0]) for budget in budgets]
    alone = Admission(JudgeBudget(60), 1.0, lambda: now[0])
    rates = Counter()
    for request in range(1200):
        now[0] += 0.1
        place = request % 2
        rates["fleet"] += admissions[place].count_request()
        rates["alone"] += alone.count_request()
        if request % 20 < 2:
            taken(budgets[place])
    assert rates["fleet"] == pytest.approx(rates["alone"], rel=0.3)  # powers of two


def test_room_that_nobody_waits_for_any_more_is_given_back(redis_server, patient_redis):
    """A request may miss its deadline while Redis answers; only its call stays counted."""

    async def give_up(budget):
        redis_server.hang()
        asking = asyncio.create_task(budget.obtain(60, 0))
        while not budget._line._client.connection_pool._in_use_connections:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        redis_server.go_on()

    budget = SharedBudget(redis_server.url, tokens_per_minute=100)
    budget.settle(taken(budget, 1), 1, 0)  # it is connected
    asyncio.run(give_up(budget))
    other = SharedBudget(redis_server.url, tokens_per_minute=100)
    wait_until(lambda: taken(other, 90) is not None, 60)


HOLDING = """
import signal

def main(number, url, limit):
    if number:
        return take(url, limit, settles=True)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, json.dumps(take(url, limit, settles=False)).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(os.read(reading, 60_000))

def take(url, limit, settles):
    budget, granted = SharedBudget(url, limit, name="held"), []
    for _ in range(limit):
        try:
            room = budget.take(100, 20)
        except JudgeError:
            continue
        granted.append(room.at)
        if settles:
            budget.settle(room, 100, 20)
    return granted
"""


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_what_a_killed_process_held_counts_for_its_minute_and_comes_back(count, redis_server, patient_redis):
    limit = 40
    results = in_processes(count, HOLDING, redis_server.url, limit)
    granted = [at for result in results for at in result]
    assert busiest(granted) <= limit
    assert len(granted) >= limit
    following = SharedBudget(redis_server.url, limit, name="held")
    with redis.Redis.from_url(redis_server.url) as client:
        key = "ragmeter:{judge-budget:held}:window"
        seconds = {field: client.hget(key, field) for field in client.hkeys(key) if field.isdigit()}
        earlier = min(map(int, seconds)) - 120
        client.hdel(key, *seconds)
        for place, value in enumerate(seconds.values()):
            client.hset(key, earlier + place, value)
        client.hset(key, "from", earlier)
    assert sum(taken(following, 100) is not None for _ in range(limit + 5)) == limit


UNDER_KILLS = """
def main(number, url, limits, stop):
    budgets = [SharedBudget(url, name=str(place), **one) for place, one in enumerate(limits)]
    granted = [[] for _ in limits]
    while not os.path.exists(stop):
        for budget, times in zip(budgets, granted):
            try:
                while isinstance(room := budget.take(100, 20, patient=True), float):
                    if os.path.exists(stop):
                        break
                    time.sleep(room)
                else:
                    times.append(time.monotonic())
                    budget.settle(room, 300, 20)  # more than was expected
            except JudgeError:
                pass
        time.sleep(0.1)
    for budget in budgets:
        budget.close()
    return granted, [budget.cost for budget in budgets], [budget.granted_alone for budget in budgets]
"""


@pytest.mark.long_form
def test_eight_processes_stay_within_the_limits_while_redis_is_killed_at_random(redis_server, tmp_path):
    """It comes back empty each time, and learns from those who run what they took."""
    limits = [
        {"calls_per_minute": 300, "share": 0.0},
        {"tokens_per_minute": 96_000, "share": 0.0},
        {"max_cost": 0.096, **PRICES},
        {"calls_per_minute": 300, "share": 0.125},
    ]
    stop, chance, kills = tmp_path / "stop", random.Random(27), 4
    with ThreadPoolExecutor(1) as others:
        going = others.submit(in_processes, 8, UNDER_KILLS, redis_server.url, limits, str(stop))
        try:
            for _ in range(kills):
                time.sleep(chance.uniform(2, 6))
                redis_server.kill()
                time.sleep(chance.uniform(0, 1.5))
                redis_server.start()
            time.sleep(6)
        finally:
            stop.touch()
        results = going.result()
    for place, limit in enumerate(limits):
        granted = [at for times, _, _ in results for at in times[place]]
        alone = sum(calls[place] for _, _, calls in results)
        # Where a limit counts tokens or money, eight calls that expect 120 tokens and use 320 are
        # let in beside 297 that are settled: 297 * 320 + 8 * 120 = 96,000.
        most = 300 if "calls_per_minute" in limit else 305
        assert 0 < len(granted) == busiest(granted) <= most + alone, limit
        assert (alone == 0) or ("share" in limit and limit["share"] > 0)
        spent = math.fsum(costs[place] for _, costs, _ in results)
        assert spent <= len(granted) * 0.00032 + 1e-9
