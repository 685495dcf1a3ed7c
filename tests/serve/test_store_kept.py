"""A store is kept over years: files of earlier versions are brought up to date, and copied while a server writes.

`stores/version-N.db` were written with the first N steps of the tables: six requests of one service.
"""

import os
import shutil
import sqlite3
import stat
import threading
from itertools import count, takewhile
from pathlib import Path

import pytest
from stored import scored, told
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.metrics import ConfigurationError
from ragmeter.serve.store import Store, StoreOptions, _sqlite, back_up
from ragmeter.serve.store._names import BOUNDS
from ragmeter.serve.store._schema import VERSION
from ragmeter.serve.store.claims import StoredClaims
from ragmeter.serve.store.views import Filters

RECORDED = Path(__file__).parent / "stores"
AT_S = 1_790_000_060.0


def file_of(version, folder):
    return Path(shutil.copy(RECORDED / f"version-{version}.db", folder / "serve.db"))


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_file_of_an_earlier_version_keeps_what_it_holds(tmp_path, version):
    path = file_of(version, tmp_path)
    for is_again in (False, True):  # brought up to date, and then as any other
        store = Store(StoreOptions(path=path, keep_s=1e9), clock=lambda: AT_S)
        overview = store.reader().overview()
        assert overview.requests == 6
        means = {one.name: one.estimate.mean for one in overview.scores}
        assert means.pop("verdict_bad") == pytest.approx(1 / 6)
        assert means.pop("verdict_not_good") == pytest.approx(1 / 6)
        assert means == {"recall": 0.5}
        (row, *_) = store.reader().requests().requests
        assert (row.service, row.workflow, row.question) == ("shop", "shop_qa", "Who wrote it?")
        assert store.reader().requests(Filters(search="who wrote")).total == 6
        while store.maintain():
            pass
        assert store.reader().requests(Filters(search="wro")).total == 6
        assert (StoredClaims(store).claim_series("series", "fell", AT_S, "{}") is None) == is_again
        store.close()
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (VERSION,)


def killed_at(statement, path):
    """Open a store in a process that is killed before this statement; return whether it came so far."""
    child = os.fork()
    if child == 0:
        numbers = count(1)

        class Killed(_sqlite._StoreConnection):
            def execute(self, *given):
                if next(numbers) == statement:
                    os._exit(1)
                return super().execute(*given)

        _sqlite._StoreConnection = Killed
        _sqlite.File(path, 10**9)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def test_a_kill_between_any_two_statements_leaves_a_store_that_is_whole(tmp_path):
    """Its tables and its index of words: an earlier version's file, with the statements of its opening."""
    tried = takewhile(lambda n: killed_at(n, file_of(1, tmp_path)), count(1))
    path = tmp_path / "serve.db"
    for statement in tried:
        store = Store(StoreOptions(path=path, keep_s=1e9), clock=lambda: AT_S)
        while store.maintain():
            pass
        assert store.reader().requests(Filters(search="wrote")).total == 6
        store.close()
        with sqlite3.connect(path) as file:
            made = "SELECT count(*) FROM sqlite_master WHERE name IN ('text_indexed', 'text_words_gone')"
            assert file.execute(made).fetchone() == (2,), statement
        path.unlink()
    assert statement > 40


@pytest.mark.parametrize(("judges", "left"), [("ab", 0), ("a", 1)])
def test_hours_in_which_two_judges_had_one_mean_are_added_up_again(tmp_path, judges, left):
    path = file_of(3, tmp_path)
    with sqlite3.connect(path) as file:
        file.executemany(
            "INSERT INTO kind (name, method, target, definition, direction, judged, judge) "
            "VALUES ('faithfulness', 'llm', 'answer', '1', 'higher', 1, ?)",
            [(judge,) for judge in judges],
        )
        file.execute("INSERT INTO rollup VALUES (1, 1, x'00')")
    Store(StoreOptions(path=path)).close()
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(*) FROM rollup").fetchone() == (left,)


def test_services_beyond_the_bound_become_others(tmp_path):
    path = file_of(4, tmp_path)
    with sqlite3.connect(path) as file:
        file.executemany(
            "INSERT INTO request (run_id, at, stored, service) VALUES (?, 0, 0, ?)",
            [(f"r{number}", f"s{number}") for number in range(100)],
        )
    Store(StoreOptions(path=path)).close()
    with sqlite3.connect(path) as file:
        services = {name for (name,) in file.execute("SELECT service FROM request")}
    assert len(services) == BOUNDS["service"] + 1
    assert {"shop", "other"} <= services


def test_a_copy_that_is_made_while_a_server_writes_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "serve.db"
    store = Store(StoreOptions(path=path))
    ended = threading.Event()
    written = []

    def write():
        while not ended.is_set():
            spans, _ = told(scored(1))
            store.take(spans)
            written.append(1)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        while len(written) < 3:
            ended.wait(0.01)
        before = len(written)
        monkeypatch.setenv("RAGMETER_SERVE_STORE", str(path))
        done = CliRunner().invoke(app, ["store", "backup", str(tmp_path / "copy.db")])
        assert done.exit_code == 0, done.output
    finally:
        ended.set()
        writing.join()
        store.close()
    assert sorted(one.name for one in tmp_path.glob("copy*")) == ["copy.db"]
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    copy = Store(StoreOptions(path=tmp_path / "copy.db"))
    assert before <= copy.stats().requests <= len(written)
    copy.close()


@pytest.mark.parametrize(
    ("store", "to", "what"),
    [
        ("nowhere.db", "copy.db", "there is no store"),
        ("other.db", "copy.db", "no store of ragmeter"),
        ("letters.txt", "copy.db", "not a database"),
        ("other.db", "letters.txt", "file exists"),
        ("other.db", "nowhere/copy.db", "no such file"),
        ("postgresql://me:secret@host/base", "copy.db", "pg_dump"),
    ],
)
def test_what_cannot_be_copied_is_said_and_nothing_is_left(tmp_path, store, to, what):
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE a (b)").connection.close()
    (tmp_path / "letters.txt").write_text("my letters" * 100)
    where = store if "://" in store else str(tmp_path / store)
    done = CliRunner().invoke(app, ["store", "backup", str(tmp_path / to), "--store", where])
    said = " ".join(done.output.split()).lower()
    assert done.exit_code == 2, said
    assert what in said
    assert "secret" not in said
    assert (tmp_path / "letters.txt").read_text() == "my letters" * 100
    assert not list(tmp_path.glob("copy*"))


def test_a_copy_over_the_store_itself_is_refused(tmp_path):
    Store(StoreOptions(path=tmp_path / "serve.db")).close()
    with pytest.raises(ConfigurationError, match="file exists"):
        back_up(tmp_path / "serve.db", tmp_path / "serve.db")
