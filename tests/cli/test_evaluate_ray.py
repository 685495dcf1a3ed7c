"""`ragmeter evaluate --engine ray` but for Ray itself, which `tests/services/test_ray.py` starts.

Here rows are read and scored one after the other in this process, as Ray would in its own.
"""

import json
import pickle
from contextlib import nullcontext
from itertools import islice

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation
from ragmeter.metrics import ConfigurationError, Metric, Score
from ragmeter.metrics.judge import CountingJudge, JudgeBudget
from ragmeter.metrics.judge.protocol import JudgeCall

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
_folder = pytest.importorskip("ragmeter.cli.evaluate._folder")
_with_ray = pytest.importorskip("ragmeter.cli.evaluate._with_ray")


ASKED = []
"""What judges were asked, those of other processes among them."""


class Noting(CountingJudge):
    model = "noting"

    def __init__(self):
        self.budget = JudgeBudget(input_price=1e6)

    async def ask(self, ask):
        raise NotImplementedError


class Judged(Metric):
    name = "judged"
    score_names = ("judged",)
    needs = ("contexts",)
    method = "llm"
    target = "retrieval"
    definition = "1"

    async def measure(self, sample, judge):
        ASKED.append(sample.question)
        judge.report(JudgeCall(self.name, judge.model, 0.01, 10, 1))
        judge.budget.settle(judge.budget.take(10, 1), 10, 1)
        judge.report_items(2, 3)
        if sample.question.endswith("7?"):
            raise OSError("no answer")
        value = len(sample.question) % 3 / 3
        return [Score(name="judged", value=value, status="ok", method="llm", definition="1")]


class Engine:
    """What `ragmeter.fleet._ray_data` does, in this process; ends early where that is asked for."""

    def __init__(self):
        self.runs, self.tables, self.processes = 0, None, []

    def score_tables(self, pieces, build, *, processes, rows):
        self.runs += 1
        self.processes.append((processes, rows))
        score = pickle.loads(pickle.dumps(build))()
        read = pa.concat_tables([table for piece in pieces for table in pickle.loads(pickle.dumps(piece))()])
        # As from Ray's, in another order.
        blocks = [read.slice(at, rows) for at in range(0, len(read), rows)]
        yield from islice(map(score, reversed(blocks)), self.tables)
        if self.tables is not None:
            raise ConfigurationError("--engine ray: ended")


@pytest.fixture
def engine(monkeypatch):
    ASKED.clear()
    found = Engine()
    monkeypatch.setattr(_with_ray, "score_tables", found.score_tables)
    monkeypatch.setattr(_with_ray, "cluster", lambda _processes: nullcontext(0))
    monkeypatch.setattr(_folder, "find_spec", lambda name: name)
    return found


@pytest.fixture
def data(tmp_path):
    """Three formats, rows that stand there twice, rows that cannot be read."""
    rows = [
        {
            "question": f"How long is bridge {number}?",
            "contexts": [f"Bridge {number} is {number} metres long."] * (number % 3),
            "answer": f"It is {number + number % 2} metres long.",
            "reference": None if number % 2 else {"answer": f"{number} metres."},
        }
        for number in range(120)
    ]
    one, two, three = (tmp_path / name for name in ("one.jsonl", "two.parquet", "three.csv"))
    lines = [json.dumps(row) for row in (*rows[:60], rows[3], rows[3])]
    one.write_text("\n".join([*lines[:9], "no row", "", *lines[9:]]) + "\n")
    parquet.write_table(pa.Table.from_pylist(rows[50:100]), two)
    cells = [f'"{row["question"]}","{row["answer"]}"\n' for row in rows[100:]]
    three.write_text("question,answer\n" + "".join(cells) + "a,b,c\n")
    return [one, two, three]


def evaluate(data, out, **options):
    return run_evaluation(EvaluateOptions(data=data, out=out, **options))


def lines_of(out):
    parts = [parquet.read_table(part) for part in out.glob("part-*.parquet")]
    table = pa.concat_tables(part.replace_schema_metadata(None) for part in parts)
    return table.sort_by([("row", "ascending"), ("name", "ascending")])


def shown(found):
    return (
        found.rows, found.bad_rows, found.resumed, found.summaries, found.verdicts.as_json(),
        found.failed_scores, found.worst, found.spent,
    )  # fmt: skip


@pytest.mark.parametrize("judged", [False, True])
def test_report_and_scores_are_those_of_one_process(data, tmp_path, engine, judged):
    def options():
        if not judged:
            return {"metrics": ()}
        return {"metrics": [Judged(), "lexical_groundedness"], "judge": Noting(), "with_text": True}

    there = evaluate(data, tmp_path / "there", engine="ray", processes=3, **options())
    here = evaluate(data, tmp_path / "here", **options())

    assert shown(there) == shown(here)
    assert there.bad_row_count == 2
    assert lines_of(tmp_path / "there").equals(lines_of(tmp_path / "here"))
    assert there.spent.calls == (100 if judged else 0)
    assert there.spent.cost == (1000.0 if judged else 0.0), "money that other processes spent"
    assert engine.processes == [(2, 85) if judged else (1, 256)]


def test_a_finished_run_starts_nothing_and_one_process_goes_on_where_ray_ended(data, tmp_path, engine):
    engine.tables = 1
    out, judge = tmp_path / "out", Noting()
    asked = {"metrics": [Judged()], "judge": judge}
    with pytest.raises(ConfigurationError, match="ended"):
        evaluate(data, out, engine="ray", processes=4, **asked)
    first = set(ASKED)
    assert len(set(lines_of(out).column("row").to_pylist())) == 56
    ASKED.clear()
    evaluate(data, out, **asked)
    second = set(ASKED)
    failed = {f"How long is bridge {number}?" for number in range(7, 100, 10)}
    assert len(second) == len(ASKED)
    assert first & second <= failed
    assert len(first | second) == 100  # those of the table have no contexts

    engine.tables = None
    ASKED.clear()
    again = evaluate(data, out, engine="ray", processes=4, **asked)
    assert set(ASKED) == failed  # what failed is tried again
    assert again.failed_scores == {"judge_error": 11}  # row 57 stands in two files
    free = evaluate(data, tmp_path / "free", engine="ray", metrics=["refusal"])
    before = engine.runs
    assert evaluate(data, tmp_path / "free", engine="ray", metrics=["refusal"]).rows == free.rows
    assert engine.runs == before


def test_a_cluster_with_too_few_cpus_is_waited_for_and_that_is_said(
    data, tmp_path, engine, monkeypatch, capsys
):
    """Without a place to read in Ray waits without a word."""
    monkeypatch.setattr(_with_ray, "cluster", lambda _processes: nullcontext(2))
    evaluate(data, tmp_path / "out", engine="ray", metrics=["refusal"], processes=1)
    said = "Ray's cluster lacks 2 of the CPUs for --processes 1"
    assert said in capsys.readouterr().err


def test_shards_are_merged_as_without_ray(data, tmp_path, engine):
    whole = evaluate(data, tmp_path / "whole")
    out = tmp_path / "out"
    evaluate(data, out, shard="0/2", engine="ray", processes=2)
    evaluate(data, out, shard="1/2")
    merged = evaluate(data, out, merge=True)

    assert (merged.rows, merged.summaries) == (whole.rows, whole.summaries)
    assert engine.runs == 1


def test_a_row_that_changes_after_it_was_planned_is_missed(data, tmp_path, engine):
    real = engine.score_tables

    def changing(pieces, build, **more):
        data[0].write_text(data[0].read_text().replace("bridge 8?", "bridge 8, please?"))
        return real(pieces, build, **more)

    _with_ray.score_tables = changing  # restored by the fixture
    with pytest.raises(ConfigurationError, match="run the same command again"):
        evaluate(data, tmp_path / "out", engine="ray", metrics=["refusal"])
    _with_ray.score_tables = real
    assert evaluate(data, tmp_path / "out", engine="ray", metrics=["refusal"]).rows == 132


def test_wrong_options_are_said(data, tmp_path, monkeypatch):
    run = CliRunner()
    one = str(data[0])
    out = ["--out", str(tmp_path / "out")]
    for options, said in (
        (["--engine", "ray"], "need --out DIR"),
        ([*out, "--engine", "spark"], "'spark' is not known"),
        ([*out, "--processes", "2"], "--processes needs --engine ray"),
        (
            [*out, "--engine", "ray", "--judge-model", "m", "--judge-key-env", "MINE"],
            "take the judge's key from OPENAI_API_KEY",
        ),
    ):
        result = run.invoke(app, ["evaluate", one, *options])
        assert (result.exit_code, said in " ".join(result.stderr.split())) == (2, True), result.stderr
    monkeypatch.setattr(_folder, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"\[ray\]"):
        evaluate(data, tmp_path / "out", engine="ray")
