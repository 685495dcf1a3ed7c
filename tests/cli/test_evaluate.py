"""`ragmeter evaluate` from the outside: exit codes, resuming, cost, and the tables it prints."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.evaluate import EvaluateOptions, run_evaluation
from ragmeter.metrics import ConfigurationError, Metric, Score
from ragmeter.metrics.judge.contract import JudgeCall

ROWS = [
    {"question": "q1", "contexts": ["a", "a"], "answer": "a"},
    {"question": "q2", "contexts": ["b"], "answer": "b"},
    {"question": "q3", "contexts": [], "answer": "c"},
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


class CountingJudge:
    """Counts what it is asked; each ask is one call of 10 + 1 tokens."""

    def __init__(self, model="counting"):
        self.model = model
        self.asked = []
        self._observers = []

    def subscribe(self, observer):
        self._observers.append(observer)

    async def aclose(self):
        pass

    def ask(self, question):
        self.asked.append(question)
        for observer in self._observers:
            observer(JudgeCall("paid", self.model, 0.1, 10, 1))


@dataclass(frozen=True)
class Paid(Metric):
    """A judged metric: 1.0 for every question, an error for those in `failing`."""

    name: str = "paid"
    score_names: tuple[str, ...] = ("paid",)
    needs: tuple[str, ...] = ("question",)
    method = "llm"
    target = "retrieval"
    definition: str = "1"
    failing: tuple[str, ...] = ()
    stop_at: str = ""

    async def measure(self, sample, judge):
        if sample.question == self.stop_at:
            raise KeyboardInterrupt
        judge.ask(sample.question)
        if sample.question in self.failing:
            raise RuntimeError("the endpoint is down")
        return [
            Score(
                name="paid",
                value=1.0,
                status="ok",
                method="llm",
                definition=self.definition,
                judge_calls=1,
            )
        ]


def _run(data, judge, out, **changes):
    metric = Paid(**changes)
    return run_evaluation(
        EvaluateOptions(data=data, metrics=[metric], judge=judge, out=out, concurrency=1)
    )


def test_a_second_run_pays_nothing(data, tmp_path):
    judge, out = CountingJudge(), tmp_path / "scores.jsonl"
    first = _run(data, judge, out)
    second = _run(data, judge, out)
    assert judge.asked == ["q1", "q2", "q3"]
    assert (first.resumed, second.resumed) == (0, 3)
    assert first.summaries == second.summaries
    assert (first.spent.calls, first.spent.input_tokens, first.spent.output_tokens) == (3, 30, 3)


def test_an_interrupted_run_continues_where_it_stopped(data, tmp_path):
    judge, out = CountingJudge(), tmp_path / "scores.jsonl"
    with pytest.raises(KeyboardInterrupt):
        _run(data, judge, out, stop_at="q3")
    _run(data, judge, out)
    assert judge.asked == ["q1", "q2", "q3"]


def test_failed_scores_are_kept_out_and_tried_again(data, tmp_path):
    judge, out = CountingJudge(), tmp_path / "scores.jsonl"
    first = _run(data, judge, out, failing=("q2",))
    second = _run(data, judge, out)
    assert first.failed_scores == {"judge_error": 1}
    assert not first.complete
    assert judge.asked == ["q1", "q2", "q3", "q2"]
    assert second.complete


@pytest.mark.parametrize(
    ("judge", "changes"),
    [(CountingJudge("another-model"), {}), (CountingJudge(), {"definition": "2"})],
    ids=["another model", "another definition"],
)
def test_another_model_or_definition_is_measured_anew(data, tmp_path, judge, changes):
    out = tmp_path / "scores.jsonl"
    _run(data, CountingJudge(), out)
    _run(data, judge, out, **changes)
    assert len(judge.asked) == 3


def test_equal_rows_are_paid_once_and_counted_twice(data, tmp_path):
    data.write_text(data.read_text() * 2)
    judge = CountingJudge()
    evaluation = _run(data, judge, None)
    assert len(judge.asked) == 3
    assert evaluation.summaries[0].count == 6


def test_half_a_line_left_by_a_crash_is_cut_off(data, tmp_path):
    judge, out = CountingJudge(), tmp_path / "scores.jsonl"
    _run(data, judge, out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-20])
    _run(data, judge, out)
    assert judge.asked == ["q1", "q2", "q3", "q3"]
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 3


def test_a_file_of_something_else_is_never_appended_to(data, tmp_path):
    out = tmp_path / "precious.jsonl"
    for content in (b'{"mine": 1}\n', b"half a line"):
        out.write_bytes(content)
        with pytest.raises(ConfigurationError, match="not written by ragmeter"):
            _run(data, CountingJudge(), out)
        assert out.read_bytes() == content


def test_the_data_set_itself_is_refused_as_out_file(data):
    with pytest.raises(ConfigurationError, match="data set itself"):
        _run(data, CountingJudge(), data)


def test_judged_metrics_without_a_judge_are_refused(data):
    with pytest.raises(ConfigurationError, match=r"a judge is needed for .*--judge-model"):
        _run(data, None, None)


def _invoke(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_free_metrics_need_nothing_and_exit_with_0(data):
    result = _invoke(data, "--metrics", "retrieval_health")
    assert result.exit_code == 0, result.output
    assert "context_count" in result.stdout
    assert "1 undefined" in result.stdout


def test_bad_rows_are_named_on_the_error_stream_and_exit_with_1(data):
    data.write_text('oops\n{"question": 1}\n' + data.read_text())
    result = _invoke(data, "--metrics", "retrieval_health", "--json")
    assert result.exit_code == 1
    assert f"{data}:1: not JSON" in result.stderr
    assert f"{data}:2: the question is a number" in result.stderr
    summary = json.loads(result.stdout)
    assert [bad["line"] for bad in summary["bad_rows"]] == [1, 2]
    assert summary["summary"]["context_count"]["mean"] == 1.0


def test_a_wrong_option_exits_with_2_and_says_what_is_allowed(data):
    result = _invoke(data, "--metrics", "no_such_metric")
    assert result.exit_code == 2
    assert "retrieval_health" in result.stderr
    assert _invoke(data.with_name("absent.jsonl")).exit_code == 2
    assert _invoke(data, "--judge-base-url", "http://127.0.0.1:9").exit_code == 2


def test_every_row_gets_one_line_in_the_out_file(data, tmp_path):
    out = tmp_path / "scores.jsonl"
    _invoke(data, "--metrics", "retrieval_health", "--out", out)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(record["line"] for record in records) == [1, 2, 3]
    assert all(record["scores"]["context_count"] is not None for record in records)


def test_lone_surrogates_survive_the_out_file(data, tmp_path):
    data.write_text('{"question": "\\ud800", "contexts": ["\\udfff"]}\n')
    out = tmp_path / "scores.jsonl"
    for _ in range(2):
        result = _invoke(data, "--metrics", "retrieval_health", "--out", out)
        assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["question"] == "\ud800"


def test_an_interrupt_exits_with_130_and_tells_how_to_continue(data, tmp_path):
    """A real process, a real SIGINT while a slow metric runs."""
    script = tmp_path / "slow.py"
    started, out = tmp_path / "started", tmp_path / "scores.jsonl"
    script.write_text(
        "import asyncio, pathlib\n"
        "import ragmeter.cli.evaluate as e\n"
        "async def slow(metric, sample, judge):\n"
        f"    pathlib.Path({str(started)!r}).touch()\n"
        "    await asyncio.sleep(60)\n"
        "e.run_metric = slow\n"
        "from ragmeter.cli.main import run\n"
        "run()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", script, "evaluate", data, "--out", out],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert b"continues from" in errors
