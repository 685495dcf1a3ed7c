"""The cache's file: whatever becomes of it, a miss is the worst; and only its owner reads it."""

import asyncio
import contextlib
import gc
import json
import logging
import os
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest
from judging_tools import judge_at, sample

from ragmeter.metrics import (
    ConfigurationError,
    ContextEntityRecall,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    Faithfulness,
    RagQuestEval,
    evaluate,
)
from ragmeter.metrics.judge import Answer, JudgeCache

KEY = b"k" * 32
TRUE = Answer(known=True, value=True)

HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("PRAGMA locking_mode=EXCLUSIVE")
held.execute("BEGIN EXCLUSIVE")
held.execute("CREATE TABLE IF NOT EXISTS mine (x)")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(path):
    """Another process holds the file."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@pytest.fixture
def opened(monkeypatch):
    """The names of the threads on which the file was opened, attempt by attempt."""
    names = []
    connect = sqlite3.connect

    def noted(*arguments, **options):
        names.append(threading.current_thread().name)
        return connect(*arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", noted)
    return names


def test_a_file_that_another_process_holds_costs_no_score_and_no_time(server, tmp_path, caplog, opened):
    """Thirty requests at once: the loop never waits for the file, and two waits is all there is."""
    path = tmp_path / "judge.sqlite"
    with held(path), caplog.at_level(logging.WARNING, logger="ragmeter"):
        judge = judge_at(server, cache=path, concurrency=30)
        results = evaluate(
            [sample(question=str(n)) for n in range(30)], [ContextPrecision()], judge, concurrency=30
        )

    assert {scores["context_precision"].status for scores in results} == {"ok"}
    assert len(server.requests) == 30
    assert opened == ["ragmeter-cache"] * len(opened)
    assert 1 <= len(opened) <= 2  # one read that failed, one write
    assert len([r for r in caplog.records if "cache file" in r.getMessage()]) == 1


def test_after_a_failure_the_file_is_left_alone(tmp_path, opened):
    path = tmp_path / "judge.sqlite"
    cache = JudgeCache(path=path)
    with held(path):
        for number in range(200):
            assert cache.get(number.to_bytes(32, "big")) is None
            cache.put(number.to_bytes(32, "big"), TRUE)
    cache.close()

    assert len(opened) == 2
    assert cache.get((7).to_bytes(32, "big")) == TRUE  # from memory


def test_what_was_remembered_is_in_the_file_when_it_is_closed(tmp_path):
    path = tmp_path / "judge.sqlite"
    cache = JudgeCache(path=path)
    for number in range(300):
        cache.remember(number.to_bytes(32, "big"), TRUE)
    cache.close()
    other = JudgeCache(path=path)
    found = asyncio.run(other.fetch([number.to_bytes(32, "big") for number in range(600)]))
    other.close()

    assert len(found) == 300
    assert set(found.values()) == {TRUE}


ROWS = [
    "null", "7", "[]", "[true]", '[true, "r", 1]', '{"a": 1, "b": 2}', "[1, null]", "[1.5, null]",
    "[NaN, null]", "[true, 5]", '[{"a": 1}, null]', '[["a", 1], null]', '[[["a"]], null]',
    '[[["a", 1]], null]', '"xy"', "[" * 100_000, "", "nonsense",
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_row_of_unexpected_shape_is_a_miss(tmp_path, row):
    path = tmp_path / "judge.sqlite"
    cache = JudgeCache(path=path)
    cache.put(KEY, TRUE)
    cache.close()
    write(path, row)
    fresh = JudgeCache(path=path)

    assert fresh.get(KEY) is None
    assert asyncio.run(fresh.fetch([KEY])) == {}
    fresh.close()


@pytest.mark.parametrize("value", [5, 2.5, b"\xff\xfe", b"[true, null]", "\udcff"])
def test_a_row_of_another_type_is_a_miss_and_harms_no_other(tmp_path, value):
    path = tmp_path / "judge.sqlite"
    cache = JudgeCache(path=path)
    cache.put(KEY, TRUE)
    cache.put(b"o" * 32, TRUE)
    cache.close()
    write(path, value if not isinstance(value, str) else b"\xed\xb3\xbf")
    fresh = JudgeCache(path=path)
    found = asyncio.run(fresh.fetch([KEY, b"o" * 32]))
    fresh.close()

    assert found[b"o" * 32] == TRUE
    assert found.get(KEY, TRUE) == TRUE


def write(path, value):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE answers SET answer = ? WHERE key = ?", (value, KEY))


def test_an_answer_of_another_kind_is_asked_anew(server, tmp_path):
    """Another program wrote texts where verdicts belong: no score is made of them."""
    path = tmp_path / "judge.sqlite"
    evaluate([sample()], [ContextPrecision()], judge_at(server, cache=path))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE answers SET answer = ?", (json.dumps([["no"], "forged"]),))
    [scores] = evaluate([sample()], [ContextPrecision()], judge_at(server, cache=path))

    assert (scores["context_precision"].status, len(server.requests)) == ("ok", 2)


@pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")
def test_a_file_that_others_could_read_is_made_private(tmp_path):
    path = tmp_path / "judge.sqlite"
    first = JudgeCache(path=path)
    first.put(KEY, TRUE)
    beside = tmp_path / "judge.sqlite-wal"
    for name in (path, beside):
        name.chmod(0o666)
    second = JudgeCache(path=path)
    assert second.get(KEY) == TRUE
    modes = {stat.S_IMODE(name.stat().st_mode) for name in tmp_path.iterdir()}
    first.close()
    second.close()

    assert modes == {0o600}


@pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")
def test_a_file_that_cannot_be_made_private_is_refused(tmp_path, monkeypatch):
    """Another user's: refused when the cache is built, with what to do."""
    path = tmp_path / "judge.sqlite"
    path.touch()
    path.chmod(0o644)

    def not_yours(self, mode):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(type(path), "chmod", not_yours)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        JudgeCache(path=path)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="owner only"):
        JudgeCache(path=tmp_path)


def test_a_cache_that_is_let_go_takes_its_thread_along(tmp_path):
    cache = JudgeCache(path=tmp_path / "judge.sqlite")
    cache.remember(KEY, TRUE)
    [thread] = [t for t in threading.enumerate() if t.name == "ragmeter-cache"]
    del cache
    gc.collect()
    thread.join(30)

    assert not thread.is_alive()


def test_the_file_holds_what_the_judge_said_and_no_text_of_a_request(server, tmp_path):
    """Digests, and verdicts, reasons, entities, claims, questions and their answers; nothing else."""
    texts = {
        "question": "How tall is the tower? MARKER-QUESTION",
        "contexts": ["The tower is 31 metres tall. MARKER-CHUNK", "Harbours freeze. MARKER-OTHER"],
        "answer": "It is 31 metres tall. MARKER-ANSWER",
        "reference": "The tower is 31 metres tall. MARKER-REFERENCE",
    }

    def answer(request, item_id):
        if "pairs" in str(request.form):
            return [["How tall is it?", "31 metres"]]
        if "entities" in request.form:
            return ["31 metres"]
        if "texts" in str(request.form):
            return ["The tower is 31 metres tall."]
        return "31 metres" if item_id.startswith("q") else not item_id.endswith("2")

    server.answer = answer
    path = tmp_path / "judge.sqlite"
    judge = judge_at(server, cache=path)
    metrics = [
        ContextPrecision(), ContextRecall(unit="claim"), ContextRelevancy(), Faithfulness(),
        ContextEntityRecall(), RagQuestEval(),
    ]  # fmt: skip
    evaluate([sample(**texts)], metrics, judge)

    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        rows = connection.execute("SELECT * FROM answers").fetchall()
    found = path.read_bytes()
    assert b"MARKER" not in found
    assert b"Harbours" not in found
    assert b"fake-model" not in found
    assert server.url.encode() not in found
    assert sorted(tables) == ["answers", "sqlite_autoindex_answers_1"]
    assert all(isinstance(key, bytes) and len(key) == 32 for key, _ in rows)
    values = [json.loads(text) for _, text in rows]
    assert {json.dumps(value) for value, _ in values} == {
        "true", "false", '"supported"', '"absent"',  # verdicts
        '["31 metres"]',  # entities
        '["The tower is 31 metres tall."]',  # claims
        '[["How tall is it?", "31 metres"]]', '"31 metres"',  # questions, and answers to them
    }  # fmt: skip
    assert {reason for _, reason in values} == {
        None, "about c1", "about c2", "about r1", "about s2", "about a1", "about a2",
    }  # fmt: skip
