"""`ragmeter evaluate` from the outside: exit codes, resuming, cost, and the tables it prints."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from paid_metric import Paid, PaidJudge
from typer.testing import CliRunner

from ragmeter.cli._ending import EXIT_USAGE, exit_with_line
from ragmeter.cli.app import app
from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation

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


OUTS = pytest.mark.parametrize("out", ["scores.jsonl", "scores"], ids=["file", "folder"])


def _run(data, judge, out, **changes):
    metric = Paid(**changes)
    return run_evaluation(EvaluateOptions(data=data, metrics=[metric], judge=judge, out=out, concurrency=1))


@OUTS
def test_a_second_run_pays_nothing(data, tmp_path, out):
    judge, out = PaidJudge(), tmp_path / out
    first = _run(data, judge, out)
    second = _run(data, judge, out)
    assert judge.asked == ["q1", "q2", "q3"]
    assert (first.resumed, second.resumed) == (0, 3)
    assert first.summaries == second.summaries
    assert (first.spent.calls, first.spent.input_tokens, first.spent.output_tokens) == (3, 30, 3)


def test_an_interrupted_run_continues_where_it_stopped(data, tmp_path):
    judge, out = PaidJudge(), tmp_path / "scores.jsonl"
    with pytest.raises(KeyboardInterrupt):
        _run(data, judge, out, stop_at="q3")
    _run(data, judge, out)
    assert judge.asked == ["q1", "q2", "q3"]


@OUTS
def test_failed_scores_are_kept_out_and_tried_again(data, tmp_path, out):
    judge, out = PaidJudge(), tmp_path / out
    first = _run(data, judge, out, failing=("q2",))
    second = _run(data, judge, out)
    assert first.failed_scores == {"judge_error": 1}
    assert not first.complete
    assert judge.asked == ["q1", "q2", "q3", "q2"]
    assert second.complete
    assert second.summaries == _run(data, PaidJudge(), None).summaries


@OUTS
@pytest.mark.parametrize(
    ("model", "changes"),
    [("another-model", {}), ("paid", {"definition": "2"})],
    ids=["another model", "another definition"],
)
def test_another_model_or_definition_is_measured_again_and_the_first_one_is_kept(
    data, tmp_path, model, changes, out
):
    first, other, out = PaidJudge(), PaidJudge(model), tmp_path / out
    for judge, measured in ((first, {}), (other, changes), (first, {})):
        _run(data, judge, out, **measured)
    assert (len(first.asked), len(other.asked)) == (3, 3)


@pytest.mark.parametrize("out", [None, "scores.jsonl", "scores"])
def test_equal_rows_are_paid_once_and_counted_twice(data, tmp_path, out):
    data.write_text(data.read_text() * 2)
    judge = PaidJudge()
    [summary] = _run(data, judge, out and tmp_path / out).summaries
    assert len(judge.asked) == 3
    assert (summary.count, summary.mean) == (6, pytest.approx(2 / 3))


def test_half_a_line_left_by_a_crash_is_cut_off(data, tmp_path):
    judge, out = PaidJudge(), tmp_path / "scores.jsonl"
    _run(data, judge, out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-20])
    _run(data, judge, out)
    assert judge.asked == ["q1", "q2", "q3", "q3"]
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 3


def test_the_table_is_printed_even_when_the_page_fails(data, tmp_path, monkeypatch):
    """What was paid for is shown; only the page is missing, and that is said."""
    from ragmeter.cli.evaluate import _html_report as html_report

    def full_disk(descriptor, mode):
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(html_report, "render_page", lambda evaluation: "x")
    monkeypatch.setattr(html_report.os, "fdopen", full_disk)
    result = _invoke(data, "--metrics", "retrieval_health", "--html", tmp_path / "page.html")

    assert result.exit_code == 2
    assert "context_count" in result.stdout
    assert "No space left" in result.stderr
    assert list(tmp_path.glob("*.part")) == []


def test_what_was_paid_for_of_a_row_is_not_paid_for_twice(data, tmp_path):
    """Two judged metrics; the second is interrupted: only that one is asked again."""
    judge, out = PaidJudge(), tmp_path / "scores.jsonl"
    first, second = Paid(), Paid(name="later", stop_at="q1")
    options = {"data": data, "judge": judge, "out": out, "concurrency": 1}
    with pytest.raises(KeyboardInterrupt):
        run_evaluation(EvaluateOptions(metrics=[first, second], **options))
    assert judge.asked == ["q1"]
    run_evaluation(EvaluateOptions(metrics=[first], **options))

    assert judge.asked == ["q1", "q2", "q3"]


def test_a_full_disk_is_said_and_leaves_whole_lines(tmp_path):
    """A real limit of the file's size, in a process of its own; the same command continues."""
    rows = tmp_path / "data.jsonl"
    rows.write_text("".join(json.dumps({**ROWS[0], "question": f"q{n}"}) + "\n" for n in range(9)))
    out = tmp_path / "scores.jsonl"
    command = [sys.executable, "-I", "-c", LIMITED, "evaluate", rows, "--out", out]
    command += ["--metrics", "retrieval_health"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr
    assert "the same command continues" in done.stderr
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert 0 < len(kept) < 9
    assert out.stat().st_mode & 0o777 == 0o600


LIMITED = """
import resource, signal, sys
sys.dont_write_bytecode = True  # half a module would stay behind for everybody
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, resource.RLIM_INFINITY))
from ragmeter.cli.main import run
run()
"""


def test_an_output_that_cannot_be_written_is_said(data):
    """/dev/full: the device that is always full."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [
                *[sys.executable, "-I", "-c", "from ragmeter.cli.main import run; run()"],
                *["evaluate", str(data), "--metrics", "retrieval_health"],
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 3, done.stderr
    assert "the output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_error_of_the_system_is_not_said_to_be_the_output(capsys):
    with pytest.raises(typer.Exit) as ended, exit_with_line():
        sys.stdout.write("before it")
        raise PermissionError(errno.EACCES, "Permission denied", "rows.jsonl")

    assert ended.value.exit_code == EXIT_USAGE
    assert capsys.readouterr().err == "ragmeter: rows.jsonl: Permission denied\n"


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Traced memory of 200 rows is that of 50 plus a few hundred bytes a row, evidence not kept."""
    import tracemalloc

    def traced(count):
        path = tmp_path / f"{count}.jsonl"
        text = "The tower stands in Paris and was finished in 1889. " * 40
        path.write_text(
            "".join(json.dumps({"question": f"q{n}", "contexts": [text] * 3}) + "\n" for n in range(count))
        )
        tracemalloc.start()
        run_evaluation(
            EvaluateOptions(data=path, metrics=["retrieval_health"], out=path.with_suffix(".out.jsonl"))
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    traced(20)  # what is loaded once
    small, large = traced(50), traced(200)
    # A row's texts alone are 6,000 characters.
    assert large - small < 150 * 2_000


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


def test_lone_surrogates_survive_the_out_file(data, tmp_path):
    data.write_text('{"question": "\\ud800", "contexts": ["\\udfff"]}\n')
    out = tmp_path / "scores.jsonl"
    for _ in range(2):
        result = _invoke(data, "--metrics", "retrieval_health", "--out", out)
        assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["question"] == "\ud800"


VERDICT_ROWS = [
    {
        "question": "Where is it?",
        "contexts": ["The ship is in the harbour."],
        "answer": "The ship is in the harbour.",
    },
    {
        "question": "Where is it?",
        "contexts": ["The ship is in the harbour."],
        "answer": "Nine elephants sleep quietly.",
    },
    {"question": "Where is it?", "contexts": [], "answer": "Nine elephants sleep quietly."},
    {"question": "Where is it?", "contexts": ["The ship is in the harbour."]},
]


@pytest.fixture
def judged_by_words(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in VERDICT_ROWS), encoding="utf-8")
    return path


FREE = "lexical_groundedness,retrieval_health"


def test_every_row_has_a_verdict_and_the_summary_counts_them(judged_by_words, tmp_path):
    out, page = tmp_path / "scores.jsonl", tmp_path / "page.html"
    arguments = ["evaluate", str(judged_by_words), "--metrics", FREE]
    told = CliRunner().invoke(app, [*arguments, "--out", str(out), "--html", str(page)])
    asked = CliRunner().invoke(app, [*arguments, "--json"])

    lines = [json.loads(line)["verdict"] for line in out.read_text("utf-8").splitlines()]
    assert [line and (line["word"], line["codes"]) for line in lines] == [
        ("good", []),
        ("bad", ["unsupported_answer"]),
        ("bad", ["answered_without_context"]),
        None,
    ]
    assert "Verdicts: 1 good (33%), 0 suspect (0%), 2 bad (67%), 1 without one" in told.stdout
    assert "1 answered_without_context, 1 unsupported_answer" in told.stdout
    assert json.loads(asked.stdout)["verdicts"] == {
        "words": {"good": 1, "suspect": 0, "bad": 2},
        "codes": {"answered_without_context": 1, "unsupported_answer": 1},
        "without_verdict": 1,
    }
    assert "answered although nothing was retrieved" in page.read_text("utf-8")


class Insufficient(Paid):
    """Finds that no chunk states what was asked."""

    async def measure(self, sample, judge):
        return [self.make_score("context_sufficiency", 0.0)]


def test_the_last_line_of_a_row_has_its_last_verdict(judged_by_words, tmp_path):
    """A judged metric comes after the free ones: the verdict is of both."""
    out = tmp_path / "scores.jsonl"
    run_evaluation(
        EvaluateOptions(
            data=judged_by_words,
            metrics=["lexical_groundedness", Insufficient("context_sufficiency")],
            judge=PaidJudge(),
            out=out,
            concurrency=1,
            limit=1,
        )
    )

    words = [json.loads(line)["verdict"]["word"] for line in out.read_text("utf-8").splitlines()]
    assert words == ["good", "bad"]


def test_without_verdicts_nothing_is_said_of_them(data):
    result = CliRunner().invoke(app, ["evaluate", str(data), "--metrics", "id_precision_recall"])

    assert "Verdicts" not in result.stdout
