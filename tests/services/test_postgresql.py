"""Several servers keep their requests in one PostgreSQL: nothing twice, nothing lost, whoever dies."""

import random
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count, cycle

import httpx
import psycopg
import pytest
from at_once import at_once
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from overloading import Bodies, Sender
from postgresql_server import PATIENCE_S, postgresql
from served import until
from stored import CHUNKS, pieces_of, rows, scored, store, tables, told
from test_api import running

from ragmeter.metrics import ConfigurationError
from ragmeter.serve.store import Store, StoreFullError, StoreOptions, UnreadableStoreError
from ragmeter.serve.store.views import Filters

__all__ = ["postgresql"]

pytestmark = pytest.mark.service
PROTOBUF = {"Content-Type": "application/x-protobuf"}
DAY_S = 86_400.0
NOW_S = 1_800_000_000.0


@pytest.fixture(scope="module")
def runs():
    return scored(8)


@pytest.fixture
def address(postgresql):
    return postgresql.database()


def at(run, number, second):
    """A request of its own, at this time."""
    start = int(second * 1e9)
    moved = replace(run.run, run_id=f"run-{number:06}", started_ns=start, ended_ns=start + 10**9)
    return replace(run, run=moved)


def upkept(kept):
    while kept.maintain():
        pass


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_pieces_through_any_server_twice_and_at_once_make_the_tables_of_one(
    runs, postgresql, tmp_path_factory, seed
):
    """And the sums: what each server notes of names, kinds, texts and hours is noted once."""
    pieces = pieces_of(*told(runs[:3]))
    chance = random.Random(seed)
    place = postgresql.database()
    with ExitStack() as opened:
        servers = [opened.enter_context(store(place)) for _ in range(3)]
        shares = [[], [], []]
        for piece in [*pieces, *chance.choices(pieces, k=len(pieces) // 2)]:
            chance.choice(shares).append(piece)
        for share in shares:
            chance.shuffle(share)

        def send(server, share):
            for piece in share:
                server.take(piece)

        at_once(send, servers, shares)
        overviews = [server.reader().overview() for server in servers]
    reference = tmp_path_factory.mktemp("one") / "serve.db"
    with store(reference) as kept:
        for piece in pieces:
            kept.take(piece)
        expected = kept.reader().overview()

    assert tables(place) == tables(reference)
    for overview in overviews:
        assert overview.requests == 3
        assert overview.scores == expected.scores
        assert overview.groups == expected.groups


def test_servers_that_start_at_once_make_one_schema(address):
    """The others wait for the first, and find it done."""
    for one in at_once(Store, [StoreOptions(url=address)] * 4):
        one.close()
    assert len(rows(address, {"version": "SELECT version FROM store_version"})["version"]) == 1


def named(run, number, when=NOW_S):
    run = at(run, number, when)
    sample = run.run.sample.model_copy(update={"name": f"flow-{number}"})
    return replace(run, run=replace(run.run, sample=sample))


def workflows_in(address):
    return {name for sort, name in tables(address)["name"] if sort == "workflow"}


def test_names_are_bounded_over_all_servers(runs, address):
    """Each knows what the others have noted before it notes another."""
    with store(address) as one, store(address) as other:
        for number in range(60):
            (one if number % 2 else other).export([named(runs[0], number)])
        assert one.state().other.get("workflow", 0) + other.state().other.get("workflow", 0) == 10
    assert len(workflows_in(address)) == 50


def test_names_that_one_server_forgets_are_forgotten_by_all(runs, address):
    now = [NOW_S]
    options = {"clock": lambda: now[0], "keep_s": DAY_S}
    with store(address, **options) as one, store(address, **options) as other:
        for number in range(50):
            one.export([named(runs[0], number)])
        now[0] += 2 * DAY_S
        upkept(other)
        for number in (3, 100):
            one.export([named(runs[0], number, now[0])])
        assert one.state().other == {}
    assert workflows_in(address) == {"flow-3", "flow-100"}


def test_one_looks_after_the_store_and_sums_stay(runs, address):
    """Two servers whose turns come at the same time delete nothing twice and count nothing twice."""
    now = [NOW_S - 8.5 * DAY_S]
    month = Filters(range_s=30 * DAY_S)
    with ExitStack() as opened:
        servers = [
            opened.enter_context(store(address, clock=lambda: now[0], keep_s=7 * DAY_S)) for _ in range(2)
        ]
        servers[0].export([at(run, n, now[0] + n) for n, run in enumerate(runs[:4])])
        now[0] = NOW_S
        servers[1].export([at(run, 10 + n, now[0] - 3600 + n) for n, run in enumerate(runs[4:])])
        before = servers[0].reader().overview(month)
        at_once(upkept, servers)
        for server in servers:  # whoever was turned away has its turn
            upkept(server)
        after = [server.reader().overview(month) for server in servers]
        assert sum(server.state().deleted for server in servers) == 4
        assert {server.stats().requests for server in servers} == {4}
    for overview in after:
        assert overview.requests == before.requests == 8
        assert {s.name: s.estimate for s in overview.scores} == {s.name: s.estimate for s in before.scores}


def test_the_oldest_make_room_where_there_is_too_little(runs, address):
    """By an estimate of what the rows hold, since files of PostgreSQL do not shrink."""
    with store(address, clock=lambda: NOW_S, max_bytes=2**20) as kept:
        for batch in range(8):
            kept.export([at(runs[n % 8], n, NOW_S - 10_000 + n) for n in range(batch * 200, batch * 200 + 200)])
        assert kept.stats().bytes > 2**20
        upkept(kept)
        stats = kept.stats()
        left = kept.reader().requests(Filters(range_s=DAY_S), sort="newest", limit=1)
        assert 0 < stats.requests < 1_600
        assert stats.bytes <= 2**20
        assert left.requests[0].run_id == "run-001599"
        upkept(kept)
        assert kept.stats().requests == stats.requests


def test_a_connection_that_is_lost_refuses_and_comes_back_by_itself(runs, postgresql, address):
    """What is under way is refused; what comes next finds another connection."""
    name = re.search(r"/(\w+)\?", address)[1]
    spans, records = told(runs)
    with store(address) as kept:
        reader = kept.reader()
        kept.take(spans)
        assert reader.overview().requests == 8
        postgresql.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        kept.take(records)
        assert reader.overview().requests == 8
        with postgresql_connection(address) as holder:
            # Somebody who writes and hangs: whoever waits too long is refused, with nothing of a request in it.
            holder.execute("SELECT pg_advisory_xact_lock(%s)", (0x52414750_0001,))
            kept._home._engine.dispose()
            with monkeypatched_timeout(kept, "200ms"):
                with pytest.raises(StoreFullError, match="LockNotAvailable 55P03"):
                    kept.take(spans)
        assert kept.why_not() is not None
        kept.take(spans)
        assert kept.why_not() is None


@contextmanager
def postgresql_connection(address):
    with psycopg.connect(address) as connection:
        yield connection
        connection.rollback()


@contextmanager
def monkeypatched_timeout(kept, limit):
    """Wait for the turn to write no longer than this."""
    from sqlalchemy import event

    def shorter(connection, *_):
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{limit}'")
        connection.commit()

    engine = kept._home._engine
    event.listen(engine, "connect", shorter)
    try:
        yield
    finally:
        event.remove(engine, "connect", shorter)
        engine.dispose()


def test_texts_that_postgresql_does_not_know_are_kept_as_far_as_they_go(runs, address):
    """It has no character 0; a filter by metadata passes over a request that has one there."""

    def odd(number, text):
        run = at(runs[0], number, NOW_S)
        sample = run.run.sample.model_copy(update={"question": f"odd {text}?"})
        return replace(run, run=replace(run.run, sample=sample, metadata={"tenant": "acme", "note": text}))

    with store(address, clock=lambda: NOW_S) as kept:
        kept.export([odd(1, "a\0b"), odd(2, "a\ud800b"), odd(3, "100% \\u0000 ?")])
        reader = kept.reader()
        assert reader.request("run-000001").row.question == "odd a\ufffdb?"
        assert reader.request("run-000003").row.question == "odd 100% \\u0000 ??"
        found = reader.requests(Filters(segment="metadata.tenant:acme"))
        assert "run-000002" in {row.run_id for row in found.requests}


def test_names_of_any_length_are_kept_by_their_beginning(runs, address):
    """What is looked up stands in an index, which takes so many bytes and no more."""
    chance = random.Random(1)

    def long():
        return "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(5_000))

    run = at(runs[0], 1, NOW_S)
    sample = run.run.sample.model_copy(update={"name": long()})
    metadata = {long(): "a", "note": long()}
    made = replace(run.run, run_id=long(), sample=sample, metadata=metadata)
    with store(address, clock=lambda: NOW_S) as kept:
        kept.export([replace(run, run=made)])
        for request in told([replace(run, run=made)]):
            kept.take(request)
        row = kept.reader().requests().requests[0]
    assert row.workflow[:200] == sample.name[:200]


def test_without_texts_no_word_of_them_is_in_the_database(runs, address):
    with store(address, texts=False) as kept:
        kept.export(runs)
        for request in told(runs):
            kept.take(request)
    written = repr(tables(address))
    words = {word.strip(".,?") for text in CHUNKS for word in text.split() if len(word) > 5}
    assert not [word for word in words if word in written]


def test_who_cannot_use_it_says_why_and_never_the_password(postgresql):
    """It is away, it is another's, or of a later version."""
    nobody = postgresql.address("nobody")
    with pytest.raises(ConfigurationError, match='database "nobody" does not exist') as said:
        Store(StoreOptions(url=nobody))
    assert "hush-hush" not in str(said.value)
    assert said.value.__cause__ is None
    with pytest.raises(ConfigurationError, match="cannot be used") as away:
        Store(StoreOptions(url="postgresql://me:hush-hush@127.0.0.1:1/one"))
    assert "hush-hush" not in str(away.value)
    taken = postgresql.database()
    with psycopg.connect(taken, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA ragmeter")
        connection.execute("CREATE TABLE ragmeter.precious (thing TEXT)")
    with pytest.raises(ConfigurationError, match="no store of ragmeter"):
        Store(StoreOptions(url=taken))
    later = postgresql.database()
    with store(later) as kept:
        assert "hush-hush" not in kept.shown + repr(kept.options)
    with psycopg.connect(later, autocommit=True) as connection:
        connection.execute("UPDATE ragmeter.store_version SET version = 99")
    with pytest.raises(ConfigurationError, match="later version"):
        Store(StoreOptions(url=later))


def test_health_tells_how_the_database_is_and_nothing_of_its_address(runs, postgresql):
    """Anybody may ask for it: not the password, not the user, not even where it is."""
    place = postgresql.database()
    secret = place.replace("tester:", "tester:hush-hush@").replace("@@", "@")
    secret = secret if "hush-hush" in secret else place
    assert "hush-hush" in secret
    body = told(runs)[0].SerializeToString()
    with running(store=StoreOptions(url=secret)) as (_, client):
        client.post("/v1/traces", content=body, headers=PROTOBUF).raise_for_status()
        well = client.get("/healthz")
        postgresql.kill()
        assert client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 503
        away = client.get("/healthz")
        postgresql.start()
        until(lambda: client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200)
        again = client.get("/healthz")
    fine = {"kind": "postgresql", "writable": True, "why": None, "deleted": 0, "other": {}}
    assert well.json()["store"] == {**fine, "refused": 0}
    assert away.status_code == 503
    assert away.json()["store"]["writable"] is False
    assert away.json()["store"]["why"] == "the database does not answer"
    assert again.json()["store"]["writable"] is True
    for answer in (well, away, again):
        for word in ("hush-hush", "tester", str(postgresql.folder)):
            assert word not in answer.text


def test_an_administrator_may_make_the_schema_for_a_role_without_further_rights(postgresql):
    address = postgresql.database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE narrow LOGIN")
        connection.execute("CREATE SCHEMA ragmeter AUTHORIZATION narrow")
    with store(address.replace("tester:hush-hush", "narrow")) as kept:
        assert kept.stats().requests == 0


def test_two_servers_show_what_either_got(runs, address, tmp_path):
    """The page, the API, labels, the golden set and the exports."""
    spans, records = (each.SerializeToString() for each in told(runs))
    place = StoreOptions(url=address, folder=tmp_path / "state")
    with running(store=place) as (_, one), running(store=place) as (_, other):
        one.post("/v1/traces", content=spans, headers=PROTOBUF).raise_for_status()
        other.post("/v1/logs", content=records, headers=PROTOBUF).raise_for_status()
        for client in (one, other):
            assert client.get("/api/overview").json()["requests"] == 8
            found = client.get("/api/requests", params={"limit": 3}).json()
            assert (found["total"], len(found["requests"])) == (8, 3)
            further = client.get("/api/requests", params={"limit": 3, "cursor": found["next"]})
            assert further.json()["previous_count"] == 3
            trace_id = found["requests"][0]["trace_id"]
            request = client.get(f"/api/requests/{trace_id}").json()
            assert request["scores"]
            assert [chunk["text"] for chunk in request["contexts"]] == list(CHUNKS)
            for page in ("/", "/requests", "/scoring", "/golden", f"/request/{trace_id}"):
                assert client.get(page).status_code == 200, page
            assert len(client.get("/export.jsonl").text.splitlines()) == 8
            assert "hush-hush" not in client.get("/healthz").text
        page = one.get(f"/request/{trace_id}").text
        form = re.search(r'name="form" value="([^"]+)"', page)[1]
        said = one.post(
            f"/request/{trace_id}/label",
            data={"form": form, "word": "wrong", "answer": "Rembrandt.", "golden": "1"},
            headers={"Origin": str(one.base_url).rstrip("/")},
        )
        assert said.status_code in (200, 303), said.text
        assert "Rembrandt." in other.get("/golden.jsonl").text
    assert sorted(path.name for path in (tmp_path / "state").glob("*.jsonl")) == [
        "golden.jsonl",
        "labels.jsonl",
    ]


SERVER = """
import signal, sys, threading
from ragmeter.serve import ServeOptions, Server
from ragmeter.serve.store import StoreOptions

ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
server = Server(ServeOptions(http_port=0, grpc_port=0, token="", store=StoreOptions(url=sys.argv[1])))
server.start()
print(server.http_port, flush=True)
while not ending.wait(1.0):
    pass
server.stop(60.0)
"""


@contextmanager
def over_any(ports):
    """A function that sends a body to one port after the other, and returns whether it was acknowledged."""
    turns = cycle(ports)
    with httpx.Client(headers=PROTOBUF, timeout=PATIENCE_S) as client:

        def send(body):
            with suppress(httpx.HTTPError):
                answer = client.post(f"http://127.0.0.1:{next(turns)}/v1/traces", content=body)
                assert answer.status_code in (200, 503)
                if answer.status_code == 200:
                    return True
            time.sleep(0.05)
            return False

        yield send


def test_whoever_is_killed_nothing_acknowledged_is_lost(runs, postgresql):
    """A server at any moment, then the database, twice; senders come again, to whoever answers."""
    place = postgresql.database()
    body = Bodies(runs).scored
    children = [
        subprocess.Popen([sys.executable, "-c", SERVER, place], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        ports = [int(child.stdout.readline()) for child in children]
        senders = [Sender(over_any(ports), body, count(first, 3)) for first in (1, 2, 3)]

        def acknowledged():
            return {number for sender in senders for number in sender.acknowledged}

        for step in range(3):
            goal = len(acknowledged()) + 30
            until(lambda: len(acknowledged()) >= goal)  # noqa: B023
            if step == 1:
                children[0].send_signal(signal.SIGKILL)
            else:
                postgresql.kill()
                postgresql.start()
        goal = len(acknowledged()) + 30
        until(lambda: len(acknowledged()) >= goal)
        for sender in senders:
            sender.end()
        children[1].send_signal(signal.SIGTERM)
        children[1].wait(PATIENCE_S)
    finally:
        for child in children:
            child.kill()
            child.wait(PATIENCE_S)
            child.stdout.close()
    kept = [row[0] for row in rows(place, {"all": "SELECT run_id FROM request"})["all"]]
    assert len(kept) == len(set(kept))
    assert {f"run-{number}" for number in acknowledged()} <= set(kept)


def test_who_reads_while_the_database_is_away_is_told_so(runs, postgresql):
    """503 from the API and to senders; and as soon as it is back all goes on."""
    place = postgresql.database()
    spans = told(runs)[0].SerializeToString()
    with running(store=StoreOptions(url=place)) as (server, client):
        client.post("/v1/traces", content=spans, headers=PROTOBUF).raise_for_status()
        postgresql.kill()
        with pytest.raises(UnreadableStoreError):
            server.reader.overview()
        assert client.get("/api/overview").status_code == 503
        refused = client.post("/v1/traces", content=spans, headers=PROTOBUF)
        assert refused.status_code == 503
        assert refused.headers["Retry-After"]
        postgresql.start()
        until(lambda: client.get("/api/overview").status_code == 200)
        until(lambda: client.post("/v1/traces", content=spans, headers=PROTOBUF).status_code == 200)
        assert client.get("/api/overview").json()["requests"] == 8
