"""`ragmeter evaluate --out DIR`: Parquet parts that are the checkpoint, shards, and one report of all."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paid_metric import Paid, PaidJudge
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.evaluate._html_report import render_page
from ragmeter.cli.evaluate._worst_rows import SHOWN
from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation
from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._display import score_values
from ragmeter.metrics.registry import resolve_metrics

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
_archive = pytest.importorskip("ragmeter.cli.evaluate._archive")
_parts = pytest.importorskip("ragmeter.cli.evaluate._parts")


def row(number):
    found = {
        "question": f"How long is bridge {number}?",
        "contexts": [f"Bridge {number} is {number} metres long."] * (number % 4),
        "answer": "I do not know." if number % 5 == 0 else f"It is {number + number % 3} metres long.",
    }
    if number % 2:
        found["reference"] = {"answer": f"Bridge {number} is {number} metres long."}
    return found


def write(path, numbers):
    lines = [json.dumps(row(number)) + "\n" for number in numbers]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path):
    path = write(tmp_path / "data.jsonl", [*range(60), 7, 7])
    with path.open("a", encoding="utf-8") as file:
        file.write("no row\n\n{}\n")
    return path


def evaluate(data, out, *, judge=None, metrics=(), **options):
    return run_evaluation(
        EvaluateOptions(data=data, out=out, judge=judge, metrics=metrics, page=True, **options)
    )


def shown(evaluation):
    """Return everything that a report shows but for time and cost."""
    return (
        evaluation.rows,
        evaluation.bad_row_count,
        evaluation.bad_rows,
        sorted(evaluation.summaries, key=lambda one: one.name),
        evaluation.verdicts.as_json(),
        [(one.row, one.verdict, {name: score.value for name, score in one.scores.items()}) for one in evaluation.worst],
        evaluation.failed_scores,
        evaluation.decision,
    )  # fmt: skip


def lines_of(folder):
    return [line for path in sorted(folder.glob("part-*.parquet")) for line in parquet.read_table(path).to_pylist()]  # fmt: skip


def test_the_report_is_that_of_a_run_without_a_folder(data, tmp_path):
    here = evaluate(data, None)
    there = evaluate(data, tmp_path / "out")

    assert there.rows == here.rows == 62
    assert [tuple(bad) for bad in there.bad_rows] == [("data.jsonl", *bad[1:]) for bad in here.bad_rows]
    assert {one.name: one for one in there.summaries} == {one.name: one for one in here.summaries}
    assert there.verdicts.as_json() == here.verdicts.as_json()
    assert len(there.worst) == SHOWN
    assert shown(there)[5] == shown(here)[5], "the rows to look at first, each once, in one order"
    assert all(one.row.sample.question for one in there.worst)
    assert there.worst[0].scores.keys() == here.worst[0].scores.keys()


def test_parts_hold_one_line_per_score_and_no_text(data, tmp_path):
    out = tmp_path / "out"
    evaluate(data, out)
    lines = lines_of(out)

    assert {line["name"] for line in lines} > {"context_count", "refusal", "lexical_groundedness"}
    assert len({line["row"] for line in lines}) == 60
    assert all(line["question"] is None and line["explanation"] is None for line in lines)
    assert "bridge" not in json.dumps(lines).lower()
    assert {oct(path.stat().st_mode & 0o777) for path in out.iterdir()} == {"0o600"}
    assert oct(out.stat().st_mode & 0o777) == "0o700"


def test_texts_are_kept_when_asked_for(data, tmp_path):
    out = tmp_path / "out"
    evaluate(data, out, with_text=True)

    assert {line["question"] for line in lines_of(out)} == {row(number)["question"] for number in range(60)}  # fmt: skip
    assert any(line["explanation"] for line in lines_of(out))


def test_a_bad_row_is_read_again_and_a_known_one_is_not(data, tmp_path, monkeypatch):
    out = tmp_path / "out"
    evaluate(data, out)
    read = []
    real = _archive.sample_row
    monkeypatch.setattr(_archive, "sample_row", lambda raw, *rest: read.append(raw.line) or real(raw, *rest))
    evaluate(data, out)

    assert read == [63, 65]


def test_a_metric_more_is_measured_alone_and_the_report_has_all(data, tmp_path):
    out = tmp_path / "out"
    judge = PaidJudge()
    evaluate(data, out, judge=judge, metrics=[Paid(), "lexical_groundedness"])
    later = evaluate(data, out, judge=judge, metrics=[Paid(), "lexical_groundedness", Paid(name="more")])
    fresh = evaluate(
        data, tmp_path / "fresh", judge=PaidJudge(), metrics=[Paid(), "lexical_groundedness", Paid(name="more")]
    )  # fmt: skip

    assert len(judge.asked) == 120
    assert shown(later) == shown(fresh)


def test_fewer_metrics_show_what_they_would_have_shown_alone(data, tmp_path):
    out = tmp_path / "out"
    evaluate(data, out, judge=PaidJudge(), metrics=[Paid(), "lexical_groundedness"])
    fewer = evaluate(data, out, metrics=["lexical_groundedness"])

    assert shown(fewer) == shown(evaluate(data, tmp_path / "new", metrics=["lexical_groundedness"]))


def test_changed_rows_are_measured_and_old_ones_do_not_count(data, tmp_path):
    out, judge = tmp_path / "out", PaidJudge()
    evaluate(data, out, judge=judge, metrics=[Paid()])
    judge.asked.clear()
    write(data, [*range(5, 60), 100, 101])
    changed = evaluate(data, out, judge=judge, metrics=[Paid()])

    assert sorted(judge.asked) == sorted(row(number)["question"] for number in (100, 101))
    assert shown(changed) == shown(evaluate(data, tmp_path / "new", judge=judge, metrics=[Paid()]))
    assert changed.resumed == 55


@pytest.mark.parametrize("judged", [False, True])
def test_shards_together_are_the_whole(data, tmp_path, judged):
    metrics = [Paid(), "lexical_groundedness"] if judged else ()
    options = {"judge": PaidJudge(), "metrics": metrics} if judged else {}
    whole = evaluate(data, tmp_path / "whole", **options)
    out = tmp_path / "out"
    pieces = [evaluate(data, out, shard=f"{number}/3", **options) for number in range(3)]
    merged = run_evaluation(EvaluateOptions(data=data, out=out, merge=True, page=True))

    assert sum(piece.rows for piece in pieces) == whole.rows
    assert all(0 < piece.rows < whole.rows for piece in pieces)
    assert shown(merged) == shown(whole)
    if judged:
        assert len(options["judge"].asked) == 120


def test_without_the_data_set_shards_are_merged_too(data, tmp_path):
    out = tmp_path / "out"
    whole = evaluate(data, out)
    merged = run_evaluation(EvaluateOptions(data=(), out=out, merge=True))

    assert merged.summaries == whole.summaries
    assert merged.data == "data.jsonl"


def test_what_cannot_be_merged_is_said(data, tmp_path):
    out = tmp_path / "out"
    evaluate(data, out, shard="0/2")
    with pytest.raises(ConfigurationError, match=r"no run of shard 1/2"):
        evaluate((), out, merge=True)
    evaluate(data, out, shard="1/2", metrics=["refusal"])
    with pytest.raises(ConfigurationError, match="other metrics"):
        evaluate((), out, merge=True)
    with pytest.raises(ConfigurationError, match="no such folder"):
        evaluate((), tmp_path / "absent", merge=True)


def test_gates_and_baseline_decide_as_without_a_folder(tmp_path):
    data = write(tmp_path / "data.jsonl", range(60))
    arguments = ["--metrics", "refusal,lexical_groundedness", "--fail-under", "lexical_groundedness=0.5"]
    old, new = tmp_path / "old", tmp_path / "new"
    run = CliRunner()
    for out in (tmp_path / "old.jsonl", old):
        assert run.invoke(app, ["evaluate", str(data), *arguments, "--out", str(out)]).exit_code in (0, 1, 4, 5)  # fmt: skip
    decided = [
        json.loads(
            run.invoke(
                app, ["evaluate", str(data), *arguments, "--json", "--baseline", str(baseline), "--out", str(out)]
            ).stdout
        )["decision"]
        for baseline, out in ((tmp_path / "old.jsonl", tmp_path / "new.jsonl"), (old, new), (old, tmp_path / "b.jsonl"))
    ]  # fmt: skip

    assert decided[0] == decided[1] == decided[2]
    assert len(decided[0]["checks"]) == 2
    assert decided[0]["checks"][1]["count"] > 30


def test_several_files_in_several_formats_are_one_data_set(tmp_path):
    one = write(tmp_path / "one.jsonl", range(10))
    two, three = tmp_path / "two.parquet", tmp_path / "three.json"
    rows = [{"reference": None} | row(number) for number in range(10, 20)]
    parquet.write_table(pa.Table.from_pylist(rows), two)
    three.write_text(json.dumps([row(number) for number in range(20, 30)]), encoding="utf-8")
    found = evaluate([one, two, three], tmp_path / "out")
    alone = evaluate(write(tmp_path / "all.jsonl", range(30)), tmp_path / "alone")

    assert found.summaries == alone.summaries
    assert {one.row.file for one in found.worst} == {"one.jsonl", "two.parquet", "three.json"}
    assert {one.row.sample.question for one in found.worst} == {one.row.sample.question for one in alone.worst}


def test_half_a_part_and_a_damaged_one_are_measured_again(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_archive, "PART", 20)
    out, judge = tmp_path / "out", PaidJudge()
    whole = evaluate(data, out, judge=judge, metrics=[Paid()], concurrency=1)
    first, *_ = sorted(out.glob("part-*.parquet"))
    first.write_bytes(first.read_bytes()[:-9])
    (out / ".tmp-0-of-1-99999-part").write_bytes(b"PAR1 half")
    judge.asked.clear()
    again = evaluate(data, out, judge=judge, metrics=[Paid()], concurrency=1)

    assert len(judge.asked) == 19
    assert first.name in capsys.readouterr().err
    assert not list(out.glob(".tmp-*"))
    assert shown(again) == shown(whole)


def test_a_part_that_was_removed_is_missed_and_made_anew(data, tmp_path, monkeypatch):
    monkeypatch.setattr(_archive, "PART", 20)
    out = tmp_path / "out"
    whole = evaluate(data, out, shard="0/1")
    next(iter(sorted(out.glob("part-*.parquet")))).unlink()
    with pytest.raises(ConfigurationError, match="there are no scores"):
        evaluate((), out, merge=True)

    assert shown(evaluate(data, out)) == shown(whole)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs flock")
def test_two_runs_of_one_shard_at_a_time_are_refused(data, tmp_path):
    out = tmp_path / "out"
    with _parts.Folder(out, _parts.Shard(0, 2)):
        with pytest.raises(ConfigurationError, match="another run writes shard 0/2"):
            evaluate(data, out, shard="0/2")
        with pytest.raises(ConfigurationError, match="in other shards"):
            evaluate(data, out)
        evaluate(data, out, shard="1/2")
    evaluate(data, out)


def test_a_full_disk_is_said_and_the_parts_stay(data, tmp_path, monkeypatch):
    monkeypatch.setattr(_archive, "PART", 20)
    out, judge = tmp_path / "out", PaidJudge()
    real, written = parquet.write_table, []

    def full(table, where, **options):
        if len(written) == 2:
            Path(where).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        written.append(where)
        real(table, where, **options)

    monkeypatch.setattr(parquet, "write_table", full)
    with pytest.raises(ConfigurationError, match=r"No space left.*continues from there"):
        evaluate(data, out, judge=judge, metrics=[Paid()], concurrency=1)
    monkeypatch.setattr(parquet, "write_table", real)
    assert not list(out.glob(".tmp-*"))
    judge.asked.clear()
    evaluate(data, out, judge=judge, metrics=[Paid()], concurrency=1)

    assert len(judge.asked) == 60 - 2 * 19


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_said(data, tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o500)
    with pytest.raises(ConfigurationError, match="Permission denied"):
        evaluate(data, out)


@pytest.fixture
def interruptible():
    """Whoever started the tests in the background has them ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_keeps_what_has_ended(data, tmp_path):
    out, judge = tmp_path / "out", PaidJudge()

    class Stops(Paid):
        stopped = False

        async def measure(self, sample, judge):
            if len(judge.asked) == 30:
                if not self.stopped:  # a second one would interrupt the writing as well
                    self.stopped = True
                    os.kill(os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()
            return await super().measure(sample, judge)

    with pytest.raises(KeyboardInterrupt):
        evaluate(data, out, judge=judge, metrics=[Stops()], concurrency=2)
    kept = len({line["row"] for line in lines_of(out)})
    assert 0 < kept <= 30
    assert not list(out.glob("rows-*"))
    evaluate(data, out, judge=judge, metrics=[Paid()], concurrency=2)
    assert len(judge.asked) == 30 + 60 - kept


KILLED = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from paid_metric import Paid, PaidJudge
from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation

class Noted(Paid):
    async def measure(self, sample, judge):
        descriptor = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, (sample.question + "\\n").encode())
        os.close(descriptor)
        await asyncio.sleep(0.001)
        return await super().measure(sample, judge)

run_evaluation(EvaluateOptions(
    data=Path({data!r}), out=Path({out!r}), judge=PaidJudge(), metrics=[Noted()], concurrency=16))
"""


def test_killed_at_any_moment_a_run_repeats_one_part_at_most(tmp_path):
    data = write(tmp_path / "data.jsonl", range(1200))
    log, out = tmp_path / "asked", tmp_path / "out"
    code = KILLED.format(here=str(Path(__file__).parents[1]), log=str(log), data=str(data), out=str(out))
    chance = random.Random(7)
    kills = 0
    for at in sorted(chance.sample(range(50, 1150), 2)):
        process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if log.exists() and log.read_bytes().count(b"\n") >= at:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.005)
        process.wait(60)
    judge = PaidJudge()
    found = evaluate(data, out, judge=judge, metrics=[Paid()])

    asked = log.read_text().splitlines() + judge.asked
    assert len(set(asked)) == 1200
    assert len(asked) - 1200 <= 256 * max(kills, 1)
    assert [(one.count, one.mean) for one in found.summaries] == [(1200, 0.5)]
    rows = [line["row"] for line in lines_of(out)]
    assert len(rows) == len(set(rows)) == 1200


def test_more_values_than_are_kept_have_the_summary_of_all(tmp_path, monkeypatch):
    data = write(tmp_path / "data.jsonl", range(200))
    exact = evaluate(data, tmp_path / "exact")
    monkeypatch.setattr(score_values, "EXACT", 50)
    placed = evaluate(data, tmp_path / "placed")

    for one, other in zip(exact.summaries, placed.summaries, strict=True):
        assert other.count == one.count
        assert other.mean == (None if one.mean is None else pytest.approx(one.mean))
        for field in ("p10", "p50", "p90"):
            value = getattr(one, field)
            assert getattr(other, field) == (None if value is None else pytest.approx(value, rel=1e-3, abs=1e-3))  # fmt: skip
        if one.mean_low is not None and None not in one.range:
            assert (other.mean_low, other.mean_high) == pytest.approx((one.mean_low, one.mean_high))
        assert sum(other.histogram(10)[0]) == one.count


def test_standard_input_is_a_data_set(tmp_path):
    run = CliRunner()
    lines = "".join(json.dumps(row(number)) + "\n" for number in range(8))
    table = "question,answer\nq1,a1\nq2,a2\n"
    page = {"next_cursor": None, "data": [row(1), row(2), row(3)]}
    for given, rows in (
        (lines, 8),
        (json.dumps([row(1), row(2)]), 2),
        (table, 2),
        (json.dumps(page), 3),
        (json.dumps(page, indent=2), 3),
        (json.dumps(row(1)), 1),
    ):
        result = run.invoke(app, ["evaluate", "-", "--metrics", "refusal", "--json"], input=given)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rows"] == rows


def test_a_folder_is_the_files_in_it(tmp_path):
    """As Spark writes them: parts in order of their names, beside files that are no data."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, numbers in (("part-1.jsonl", range(4)), ("part-0.jsonl", range(4, 6))):
        write(folder / name, numbers)
    for name in ("_SUCCESS", "_more.jsonl", ".part-0.jsonl", "notes.txt"):
        (folder / name).write_text("no data")
    (folder / "sub.jsonl").mkdir()
    run = CliRunner()
    ran = run.invoke(app, ["evaluate", str(folder), "--out", str(tmp_path / "out"), "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["rows"] == 6
    about = _parts.description_of(parquet.read_schema(tmp_path / "out" / "rows-0-of-1.parquet"))
    assert about["files"] == ["part-0.jsonl", "part-1.jsonl"]
    (tmp_path / "none").mkdir()
    ran = run.invoke(app, ["evaluate", str(tmp_path / "none")])
    assert ran.exit_code == 2
    assert "has no file of a data set" in " ".join(ran.output.split())


def test_a_missing_pyarrow_is_named_with_its_extra(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"\[parquet\]"):
        evaluate(data, tmp_path / "out")


def test_equal_questions_are_one_row_that_says_how_many_it_stands_for(tmp_path):
    """The worst of them, from one part or several, as without a folder; the good ones do not count."""

    def asked(question, found, number):
        return {
            "question": question,
            "contexts": ["right"] if found else ["wrong"],
            "answer": f"answer {number}",
            "reference_contexts": ["right"],
        }

    rows = [asked("often?", number % 4 == 0, number) for number in range(40)]
    rows += [asked(f"once {number}?", False, number) for number in range(3)]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    metrics = resolve_metrics(["precision_recall_f1"])
    here = evaluate(data, None, metrics=metrics)
    there = evaluate(data, tmp_path / "out", metrics=metrics)

    told = [(one.row.sample.question, one.row.line, one.times) for one in here.worst]
    assert told == [("often?", 2, 30), *((f"once {n}?", 41 + n, 1) for n in range(3))]
    assert [(one.row.sample.question, one.row.line, one.times) for one in there.worst] == told
    page = render_page(there)
    assert "× 30" in page
    assert page.count("× ") == 2, "the row, and the rule that explains the sign"
