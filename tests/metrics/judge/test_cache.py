"""The judge's memory: bounded, private, and never the reason for a failed score."""

import contextlib
import gc
import logging
import pickle
import sqlite3
import stat

import pytest
from at_once import at_once
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.judge import Answer, JudgeCache


def key(number):
    return number.to_bytes(32, "big")


VALUES = (
    st.booleans()
    | st.none()
    | st.text()
    | st.lists(st.text()).map(tuple)
    | st.lists(st.tuples(st.text(), st.none() | st.text())).map(tuple)
)


@given(VALUES, st.none() | st.text())
def test_what_comes_out_is_what_went_in(value, reason):
    cache = JudgeCache()
    answer = Answer(known=True, value=value, reason=reason)
    cache.put(key(1), answer)

    assert cache.get(key(1)) == answer
    assert cache.get(key(2)) is None


def test_memory_is_bounded_and_the_least_recently_used_goes_first():
    cache = JudgeCache(max_bytes=3000)
    for number in range(10):
        cache.put(key(number), Answer(known=True, value=True))
    cache.get(key(0))
    cache.put(key(10), Answer(known=True, value="x" * 500))

    assert cache.size_bytes <= 3000
    assert cache.get(key(0)) is not None
    assert cache.get(key(1)) is None


def test_the_file_is_private_and_holds_no_pickles(tmp_path):
    path = tmp_path / "judge.sqlite"
    cache = JudgeCache(path=path)
    cache.put(key(1), Answer(known=True, value=("a",), reason="because"))
    cache.close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        [(stored,)] = connection.execute("SELECT answer FROM answers").fetchall()
    connection.close()
    assert stored == '[["a"], "because"]'
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(stored.encode())


@pytest.mark.parametrize("content", [b"not a database at all, by any means" * 40])
def test_a_broken_file_is_a_miss_with_one_warning(tmp_path, caplog, content):
    path = tmp_path / "judge.sqlite"
    path.write_bytes(content)
    cache = JudgeCache(path=path)
    with caplog.at_level(logging.WARNING, logger="ragmeter"):
        for number in range(5):
            cache.put(key(number), Answer(known=True, value=True))
            assert cache.get(key(number + 50)) is None
    cache.close()

    assert cache.get(key(1)) is not None
    assert len([record for record in caplog.records if "cache file" in record.getMessage()]) == 1


def test_threads_may_share_it(tmp_path):
    cache = JudgeCache(max_bytes=10_000, path=tmp_path / "judge.sqlite")

    def work(offset):
        for number in range(offset, offset + 200):
            cache.put(key(number), Answer(known=True, value=str(number)))
            assert cache.get(key(number)).value == str(number)

    at_once(work, range(0, 4_000, 1_000))
    cache.close()


def test_a_missing_folder_is_refused():
    with pytest.raises(ConfigurationError, match="does not exist"):
        JudgeCache(path="/no/such/folder/judge.sqlite")
    with pytest.raises(ConfigurationError, match="max_bytes"):
        JudgeCache(max_bytes=-1)


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_cache_that_is_let_go_closes_its_file(tmp_path):
    """Python 3.13 warns of databases that are left open."""
    cache = JudgeCache(path=tmp_path / "judge.sqlite")
    cache.put(key(1), Answer(known=True, value=True))
    del cache
    gc.collect()

    again = JudgeCache(path=tmp_path / "judge.sqlite")
    assert again.get(key(1)) == Answer(known=True, value=True)
    again.close()
