"""What was acknowledged is there again, whatever happened meanwhile; nothing grows beyond its bound."""

import os
import sqlite3
import stat
import sys
from contextlib import ExitStack, closing
from random import Random

import pytest
from at_once import at_once
from hypothesis import given, settings
from hypothesis import strategies as st
from python_process import run_python
from served import until

from ragmeter.metrics import ConfigurationError
from ragmeter.serve._spool import FORWARDED, Entry, Spool, SpoolFullError

MB = 1024 * 1024


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens a spool, by default in the test's folder; all are closed with the test."""
    with ExitStack() as spools:
        yield lambda folder=tmp_path, max_bytes=MB: spools.enter_context(
            closing(Spool(folder, max_bytes=max_bytes))
        )


def held(spool):
    return {entry.position: entry.body for entry in spool.replay()}


def test_what_was_appended_is_replayed_in_order_after_a_restart_until_it_is_done(opened):
    spool = opened()
    first, second, third = (spool.append("traces", body) for body in (b"a", b"b", b"a"))
    logs = spool.append("logs", b"")
    assert first < second < third < logs
    assert spool.settle([second])
    spool.close()

    spool = opened()
    assert list(spool.replay()) == [
        Entry(first, "traces", b"a"),
        Entry(third, "traces", b"a"),
        Entry(logs, "logs", b""),
    ]
    assert spool.settle([first, third, logs, 999])
    assert spool.append("traces", b"c") > logs
    assert spool.stats().entries == 1


def test_the_oldest_that_waits_has_an_age(opened, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("ragmeter.serve._spool.time.monotonic", lambda: now[0])
    spool = opened()
    assert spool.stats().oldest_s == 0
    at = {}
    for _ in range(3):
        now[0] += 100.0
        at[spool.append("traces", b"a")] = now[0]
    first, second, third = at
    for done, oldest in ((second, first), (first, third)):
        assert spool.settle([done])
        assert spool.stats().oldest_s == now[0] - at[oldest]
    spool.close()
    now[0] += 500.0
    spool = opened()
    now[0] += 50.0
    assert spool.stats().oldest_s == 50.0
    assert spool.settle([third])
    assert spool.stats().oldest_s == 0
    now[0] += 50.0
    spool.append("traces", b"b")
    now[0] += 5.0
    assert spool.stats().oldest_s == 5.0


def test_positions_are_never_used_twice(opened):
    spool = opened()
    before = spool.append("traces", b"a")
    spool.settle([before])
    spool.close()
    spool = opened()
    assert spool.append("traces", b"b") > before


def test_only_what_was_there_when_it_was_opened_is_replayed(opened):
    spool = opened()
    spool.append("traces", b"new")
    assert not held(spool)


def test_parts_that_are_done_are_remembered_with_their_entry(opened):
    spool = opened()
    one, two = spool.append("traces", b"a"), spool.append("traces", b"b")
    assert spool.settle([two], {one: ["t1", FORWARDED], two: ["t1"]})
    assert spool.settle(parts={one: ["t1", "t2"]})
    spool.close()
    spool = opened()
    assert [entry.settled for entry in spool.replay()] == [{"t1", "t2", FORWARDED}]


def test_it_is_bounded_in_bytes_and_takes_again_when_there_is_room(opened):
    spool = opened(max_bytes=10_000)
    one = spool.append("traces", b"x" * 8_000)
    with pytest.raises(SpoolFullError, match="as much as it may") as refused:
        spool.append("traces", b"x" * 8_000)
    assert refused.value.reason == "full"
    assert spool.stats().refused == {"full": 1}
    spool.settle([one])
    assert spool.stats().bytes == 0
    spool.append("traces", b"x" * 8_000)


def test_many_empty_bodies_are_bounded_too(opened):
    spool = opened(max_bytes=10_000)
    with pytest.raises(SpoolFullError):
        for _ in range(100):
            spool.append("logs", b"")
    assert spool.stats().bytes <= 10_000


def test_room_that_is_freed_is_used_again(opened, tmp_path):
    spool = opened(max_bytes=4 * MB)
    sizes = []
    for _ in range(8):
        spool.settle([spool.append("traces", os.urandom(300_000)) for _ in range(8)])
        sizes.append((tmp_path / "spool.db").stat().st_size)
    spool.close()
    assert (tmp_path / "spool.db").stat().st_size <= 4 * MB
    assert max(sizes) <= 4 * MB


def test_senders_at_the_same_time_each_have_their_own_position(opened):
    spool = opened(max_bytes=10 * MB)
    positions = {}

    def send(number):
        for index in range(8):
            body = f"{number}-{index}".encode()
            positions[body] = spool.append("traces", body)

    at_once(send, range(8))
    spool.close()
    spool = opened(max_bytes=10 * MB)
    assert held(spool) == {position: body for body, position in positions.items()}
    assert len(set(positions.values())) == 64
    for number in range(8):  # in each sender's order
        mine = [positions[f"{number}-{index}".encode()] for index in range(8)]
        assert mine == sorted(mine)


@settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.binary(max_size=40)),
            st.tuples(st.just("done"), st.integers(0, 30)),
            st.tuples(st.just("part"), st.integers(0, 30)),
            st.tuples(st.just("restart"), st.none()),
        ),
        max_size=20,
    )
)
def test_it_holds_what_was_appended_and_not_done(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder, max_bytes=MB)
    expected, parts = {}, {}
    for step, value in steps:
        if step == "append":
            expected[spool.append("traces", value)] = value
        elif step == "restart":
            spool.close()
            spool = Spool(folder, max_bytes=MB)
        elif step == "done":
            gone = sorted(expected)[:value]
            spool.settle(gone)
            for position in gone:
                del expected[position]
        else:
            for position in sorted(expected)[:value]:
                spool.settle(parts={position: [str(value)]})
                parts.setdefault(position, set()).add(str(value))
    assert spool.stats().entries == len(expected)
    assert spool.stats().bytes == sum(len(body) + 512 for body in expected.values())
    spool.close()
    spool = Spool(folder, max_bytes=MB)
    assert held(spool) == expected
    assert {entry.position: entry.settled for entry in spool.replay()} == {
        position: parts.get(position, set()) for position in expected
    }
    spool.close()


APPENDING = """
import sys
from pathlib import Path
from random import Random
from ragmeter.serve._spool import Spool

spool = Spool(Path(sys.argv[1]), max_bytes=1 << 30)
chance = Random(int(sys.argv[2]))
while True:
    body = chance.randbytes(chance.randrange(20_000))
    position = spool.append("traces", body)
    print(position, len(body), body[:8].hex(), flush=True)
    if position % 3 == 0:
        spool.settle([position])
        print("done", position, flush=True)
"""


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(opened, tmp_path, warm, seed):
    expected = {}
    chance = Random(seed)
    for round_ in range(2):
        child = warm.start(APPENDING, str(tmp_path), str(seed * 10 + round_), cwd=tmp_path, env={})
        out, wanted = child.folder / "out", chance.randrange(5, 20)
        until(lambda: out.exists() and out.read_text().count("\n") >= wanted)  # noqa: B023
        child.kill()
        lines = child.end().stdout.splitlines(keepends=True)
        for line in lines:
            if not line.endswith("\n"):
                continue
            words = line.split()
            if words[0] == "done":
                expected.pop(int(words[1]))
            else:
                expected[int(words[0])] = words[1:]
    spool = opened(max_bytes=1 << 30)
    found = {position: [str(len(body)), body[:8].hex()] for position, body in held(spool).items()}
    # One that was done may not have said so any more.
    missing = [position for position in expected if position not in found]
    assert all(position % 3 == 0 for position in missing)
    assert len(missing) <= 2
    assert {position: found[position] for position in expected if position in found} == {
        position: value for position, value in expected.items() if position in found
    }
    assert spool.stats().damaged == 0


def test_a_folder_serves_one_process(opened, tmp_path):
    spool = opened()
    with pytest.raises(ConfigurationError, match="in use by another process"):
        opened()
    script = """if True:
        import sys
        from pathlib import Path
        from ragmeter.serve._spool import Spool
        Spool(Path(sys.argv[1]), max_bytes=1000)
    """
    other = run_python("-c", script, str(tmp_path))
    assert "in use by another process" in other.stderr
    spool.append("traces", b"still mine")
    spool.close()
    opened()


def test_servers_that_share_a_folder_have_one_each_and_find_it_again(tmp_path):
    def started():
        return Spool.first_free(tmp_path / "store.spool", max_bytes=MB)

    one, other = started(), started()
    assert [one.folder.name, other.folder.name] == ["store.spool", "store.spool.2"]
    one.append("traces", b"one")
    other.append("traces", b"other")
    for spool in (one, other):
        place = spool.folder
        spool.close()
        again = started()
        assert (again.folder, again.stats().found) == (place, 1)


def test_what_servers_left_that_do_not_start_again_is_taken_over(tmp_path):
    def started():
        return Spool.first_free(tmp_path / "store.spool", max_bytes=MB)

    one, other, third = started(), started(), started()
    one.append("traces", b"one")
    parted = other.append("traces", b"other")
    other.settle(parts={parted: ["1" * 32]})
    other.append("logs", b"another")
    third.append("traces", b"of one that goes on")
    one.close()
    other.close()
    again = started()
    kept = {entry.body: (entry.signal, entry.settled) for entry in again.replay()}
    assert kept == {
        b"one": ("traces", frozenset()),
        b"other": ("traces", frozenset({"1" * 32})),
        b"another": ("logs", frozenset()),
    }
    assert again.stats().found == 3
    again.close()
    following, fourth = started(), started()  # nothing is taken over twice
    assert [following.stats().found, fourth.stats().found] == [3, 0]
    assert third.stats().entries == 1


def test_what_has_no_room_when_it_is_taken_over_stays_where_it_is(tmp_path):
    def started(size):
        return Spool.first_free(tmp_path / "store.spool", max_bytes=size)

    one, other = started(MB), started(MB)
    for _ in range(4):
        other.append("traces", b"x" * 1000)
    one.close()
    other.close()
    small = started(3 * (1000 + 512))
    assert small.stats().found == 3
    small.close()
    assert started(MB).stats().found == 4


def test_a_folder_that_cannot_be_used_is_named(opened, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        opened(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="allow it some"):
        opened(max_bytes=0)


def test_other_users_cannot_read_it(opened, tmp_path):
    old = os.umask(0)
    try:
        spool = opened(tmp_path / "made" / "here")
        spool.append("traces", b"secret")
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made" / "here").iterdir()
        }
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE((tmp_path / "made" / "here").stat().st_mode) == 0o700
        spool.close()
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    ("pragma", "words"),
    [("user_version = 7", "another version of ragmeter"), ("application_id = 7", "no spool of ragmeter")],
)
def test_a_file_of_another_version_or_program_is_left_alone(opened, tmp_path, pragma, words):
    spool = opened()
    spool.append("traces", b"a")
    spool.close()
    database = sqlite3.connect(tmp_path / "spool.db")
    database.execute(f"PRAGMA {pragma}")
    database.close()
    with pytest.raises(ConfigurationError, match=words):
        opened()
    database = sqlite3.connect(tmp_path / "spool.db")
    assert database.execute("SELECT body FROM entries").fetchall() == [(b"a",)]
    database.close()


def test_a_body_that_the_disk_changed_is_counted_and_the_others_survive(opened, tmp_path, caplog):
    spool = opened()
    positions = [spool.append("traces", letter * 600) for letter in (b"a", b"b", b"c")]
    spool.close()
    path = tmp_path / "spool.db"
    path.write_bytes(path.read_bytes().replace(b"b" * 600, b"b" * 599 + b"x"))
    spool = opened()
    assert sorted(held(spool)) == [positions[0], positions[2]]
    assert spool.stats().damaged == 1
    assert "bbb" not in caplog.text
    spool.close()
    spool = opened()
    assert spool.stats().entries == 2
    assert spool.stats().damaged == 0


def test_a_half_written_end_is_passed_over(opened, tmp_path):
    spool = opened()
    for number in range(20):
        spool.append("traces", bytes([number]) * 5_000)
    wal = (tmp_path / "spool.db-wal").read_bytes()
    main = (tmp_path / "spool.db").read_bytes()
    spool.close()
    counts = []
    for cut in (len(wal), len(wal) - 1, len(wal) * 3 // 4, len(wal) // 3):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "spool.db").write_bytes(main)
        (folder / "spool.db-wal").write_bytes(wal[:cut])
        spool = opened(folder)
        bodies = list(held(spool).values())
        assert bodies == [bytes([number]) * 5_000 for number in range(len(bodies))]
        counts.append(len(bodies))
        spool.append("traces", b"goes on")
        spool.close()
    assert counts[0] == 20
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 20


@pytest.mark.parametrize("what", ["nothing of it is left", "pages in the middle"])
def test_what_can_be_read_of_a_damaged_file_is_kept(opened, tmp_path, what, caplog):
    spool = opened()
    bodies = [bytes([number]) * 9_000 for number in range(30)]
    for body in bodies:
        spool.append("traces", body)
    spool.close()
    path = tmp_path / "spool.db"
    content = bytearray(path.read_bytes())
    if what == "pages in the middle":
        start = len(content) // 2 // 4096 * 4096
        content[start : start + 3 * 4096] = b"\xff" * (3 * 4096)
    else:
        content = b"no database at all" * 500
    path.write_bytes(content)
    spool = opened()
    found = list(held(spool).values())
    assert spool.stats().damaged >= 1
    assert all(body in bodies for body in found)
    if what == "pages in the middle":
        assert len(found) >= 20
    spool.append("traces", b"goes on")
    spool.close()
    assert "is damaged" in caplog.text
    assert list(tmp_path.glob("*damaged*"))
    opened()


LIMITED = """
import resource, sys
from pathlib import Path
from ragmeter.serve._spool import Spool, SpoolFullError

spool = Spool(Path(sys.argv[1]), max_bytes=1 << 30)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
kept = {}
try:
    for number in range(1000):
        body = bytes([number % 256]) * 50_000
        kept[spool.append("traces", body)] = body
except SpoolFullError as error:
    assert error.reason == "disk", error
else:
    raise SystemExit("the disk was never full")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept[spool.append("traces", b"room again")] = b"room again"
assert spool.stats().refused == {"disk": 1}, spool.stats()
spool.close()
spool = Spool(Path(sys.argv[1]), max_bytes=1 << 30)
assert {entry.position: entry.body for entry in spool.replay()} == kept
spool.close()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process are Linux's here")
def test_a_full_disk_refuses_and_recovers_by_itself(tmp_path):
    """A file may not grow beyond a limit: to SQLite that is a disk that takes no more."""
    done = run_python("-c", LIMITED, str(tmp_path), timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_database_that_is_full_refuses_all_who_wait_and_forgets_nothing(opened):
    spool = opened(max_bytes=100 * MB)
    first = spool.append("traces", b"x" * 10_000)
    (pages,) = spool._database.execute("PRAGMA page_count").fetchone()
    spool._database.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(SpoolFullError, match="full") as refused:
        spool.append("traces", b"y" * 100_000)
    assert refused.value.reason == "disk"
    assert spool.stats().bytes == 10_512
    assert spool.settle([first])  # what is done can be forgotten on a full disk
    spool.append("traces", b"z" * 10_000)
    spool.close()
    spool = opened(max_bytes=100 * MB)
    assert list(held(spool).values()) == [b"z" * 10_000]


def test_what_the_disk_does_not_take_as_done_can_be_said_again(opened):
    spool = opened()
    position = spool.append("traces", b"x")
    spool._database.execute("PRAGMA query_only = ON")
    assert not spool.settle([position])
    assert spool.stats().entries == 1
    spool._database.execute("PRAGMA query_only = OFF")
    assert spool.settle([position])
    assert spool.stats().entries == 0
