"""Ctrl-C in real processes: 130 within a second, no traceback, what is finished is kept and goes on."""

import fcntl
import json
import os
import random
import re
import signal
import termios
import time
from functools import partial
from pathlib import Path

import pytest

ROWS = 20_000
METRICS = """\
import hashlib, pathlib, time
from ragmeter.metrics import metric

@metric(needs=("question",))
def quick(sample):
    if sample.question.endswith(" 300"):
        pathlib.Path("reached").touch()
    for _ in range(20):
        hashlib.sha256(b"x" * 20_000)
    return 1.0

@metric(needs=("question",))
def slow(sample):
    if sample.question.endswith(" 3"):
        pathlib.Path("reached").touch()
        time.sleep(60)
    return 1.0
"""
RUN = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # some job runners ignore it
from ragmeter.cli.main import run
run()
"""


IN_A_CALLBACK = re.compile(r"Exception ignored in.*?\nKeyboardInterrupt: *\n", re.DOTALL)
"""What the interpreter writes where an interrupt lands in a callback of its own, such as that of a weak reference."""


@pytest.fixture
def place(tmp_path):
    rows = (json.dumps({"question": f"question {n}", "contexts": ["a"]}) for n in range(ROWS))
    (tmp_path / "data.jsonl").write_text("\n".join(rows))
    (tmp_path / "my_metrics.py").write_text(METRICS)
    return tmp_path


@pytest.fixture
def interrupted(warm, place):
    """Start a command, press Ctrl-C once it is at its rows, and return what it says."""

    def interrupt(*arguments, presses=1, held=None):
        stdin = os.devnull if held is None else str(place / WITHOUT_END)
        process = warm.start(RUN, *arguments, cwd=place, env=dict(os.environ), stdin=stdin)
        deadline = time.monotonic() + 60
        while not ((place / "reached").exists() if held is None else is_read(held)):
            assert process.poll() is None, process.end()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
        done = process.end(20)
        said = done.stdout + done.stderr
        assert done.returncode == 130, said
        assert "Traceback" not in IN_A_CALLBACK.sub("", said)
        return said

    return interrupt


def is_read(pipe: int) -> bool:
    """Return whether a command has taken everything from a pipe, and waits for more."""
    return fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4) == b"\0" * 4


def kept(out: Path) -> int:
    if out.is_dir():
        from pyarrow import parquet

        return sum(parquet.read_metadata(one).num_rows for one in out.glob("*part*.parquet"))
    return len(out.read_bytes().splitlines())


@pytest.mark.parametrize(
    ("metric", "out", "presses"),
    [
        ("quick", "scores.jsonl", 1),
        ("quick", "scores", 1),
        ("slow", "scores.jsonl", 1),
        ("slow", "scores", 1),
        ("quick", "scores.jsonl", 2),
        ("slow", "scores", 7),
    ],
)
def test_evaluate_stops_and_keeps_what_is_finished(interrupted, place, metric, out, presses):
    asked = ("evaluate", "data.jsonl", "--metrics", f"my_metrics.py:{metric}", "--out", out)

    said = interrupted(*asked, presses=presses)

    assert f"interrupted; the same command continues from {out}" in said
    if presses == 1:
        assert (3 if metric == "slow" else 200) <= kept(place / out) < ROWS


LABEL = {"request": "r", "score": "faithfulness", "value": 1.0, "rater": "a", "at": "2026-01-01"}
GOLDEN = {"question": "q", "context_ids": ["1"], "contexts": ["text"]}
WITHOUT_END = "without-end.jsonl"
"""A file whose end never comes: whoever reads it is at its rows."""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("evaluate", WITHOUT_END), "interrupted; --out keeps scores"),
        (("agreement", "labels.jsonl", WITHOUT_END), "interrupted"),
        (("golden", "check", WITHOUT_END, "--against", "data.jsonl"), "interrupted"),
        (("golden", "check", "golden.jsonl", "--against", WITHOUT_END), "interrupted"),
        (("label", WITHOUT_END), "interrupted; labels are kept in labels.jsonl"),
        (("label", "data.jsonl", "--score", "context_relevancy"), "interrupted; labels are kept in"),
        (("spans", WITHOUT_END), "interrupted"),
    ],
    ids=" ".join,
)
def test_every_command_stops_at_any_row(interrupted, place, arguments, says):
    (place / "labels.jsonl").write_text(json.dumps(LABEL) + "\n")
    (place / "golden.jsonl").write_text(json.dumps(GOLDEN) + "\n")
    os.mkfifo(place / WITHOUT_END)
    held = os.open(place / WITHOUT_END, os.O_RDWR)
    try:
        row = json.dumps(GOLDEN | {"id": "1", "text": "t"}) + "\n"
        os.write(held, row.encode() * 9 if WITHOUT_END in arguments else b"\n")
        said = interrupted(*arguments, held=held)
    finally:
        os.close(held)

    assert says in said
    assert (place / "labels.jsonl").read_text() == json.dumps(LABEL) + "\n"


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_change_no_row(warm, place, kills):
    """Whenever it is killed, the same command goes on: rows and values are those of a run without a kill."""
    rows = (place / "data.jsonl").read_text().splitlines()[:600]
    (place / "data.jsonl").write_text("\n".join(rows))
    slow_row = "@metric\ndef short(sample):\n    time.sleep(0.001)\n    return len(sample.question) / 99\n"
    (place / "my_metrics.py").write_text(METRICS + slow_row)
    asked = ("evaluate", "data.jsonl", "--metrics", "my_metrics.py:short", "--out")
    start = partial(warm.start, RUN, *asked, cwd=place, env=dict(os.environ))
    moments = random.Random(7)
    for _ in range(kills):
        out = place / "killed.jsonl"
        before = out.stat().st_size if out.exists() else 0
        process = start("killed.jsonl")
        wanted = before + moments.randrange(1, 9_000)
        while process.poll() is None and (not out.exists() or out.stat().st_size < wanted):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.end()
    for name in ("killed.jsonl", "whole.jsonl"):
        assert start(name).end().returncode == 0

    killed, whole = (
        {
            one["row"]: (one["question"], one["scores"])
            for one in map(json.loads, path.read_bytes().splitlines())
        }
        for path in (place / "killed.jsonl", place / "whole.jsonl")
    )
    assert killed == whole
    assert len(whole) == len(rows)
    assert kept(place / "killed.jsonl") == len(rows)  # no row was scored twice
