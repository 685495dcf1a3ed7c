"""Which columns `ragmeter evaluate` reads: our names, near ones, named ones; what a file shares is said once."""

import json

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app

TEXT = "The Kolka lighthouse is 21 metres tall and stands on an island."


def evaluate(path, rows, *arguments):
    if path.suffix == ".csv":
        names = list(rows[0])
        lines = [",".join(json.dumps(str(row[name])).replace('\\"', '""') for name in names) for row in rows]
        path.write_text("\n".join([",".join(names), *lines]))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = CliRunner().invoke(
        app, ["evaluate", str(path), "--metrics", "retrieval_health,lexical_groundedness", *map(str, arguments)]
    )
    return done, " ".join(done.stderr.split())


@pytest.mark.parametrize("out", [(), ("--out", "scores"), ("--out", "scores.jsonl")])
@pytest.mark.parametrize("name", ["data.jsonl", "data.csv"])
@pytest.mark.parametrize(
    ("columns", "named", "says"),
    [
        (("question", "contexts", "answer"), (), ""),
        (("user_input", "retrieved_contexts", "response"), (), ""),
        (("Question", "Retrieved Contexts", "ANSWER"), (), ""),
        (("question", "context", "output"), (), "'context' is read as contexts, 'output' is read as answer"),
        (("query", "Documents", "prediction"), (), "'query' is read as question"),
        (("question", "retrievedDocs", "completion"), (), "'retrievedDocs' is read as contexts"),
        (("q", "doc_texts", "said"), ("question=q,contexts=doc_texts", "answer=said"), ""),
        (("question", "answer", "contexts"), ("contexts=answer,answer=contexts",), ""),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_columns_are_read_by_many_names(tmp_path, monkeypatch, columns, named, says, name, out):
    monkeypatch.chdir(tmp_path)
    row = dict(zip(columns, ("How tall?", [TEXT], TEXT), strict=True))
    if name.endswith(".csv"):
        row[columns[1]] = json.dumps([TEXT])
    given = [part for one in named for part in ("--columns", one)]

    done, said = evaluate(tmp_path / name, [row] * 3, "--json", *given, *out)

    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)["summary"]
    assert summary["context_count"]["mean"] == summary["lexical_groundedness"]["mean"] == 1.0
    assert says in said
    assert ("--columns" in said) == bool(says)


def test_a_near_name_gives_way_to_the_right_one_and_two_near_ones_are_named(tmp_path):
    row = {"question": "q", "contexts": ["a"], "answer": "b", "documents": ["c", "d"]}
    done, said = evaluate(tmp_path / "data.jsonl", [row], "--json")
    assert json.loads(done.stdout)["summary"]["context_count"]["mean"] == 1.0
    assert said == "scoring 1/1"

    done, said = evaluate(tmp_path / "data.jsonl", [{"question": "q", "docs": ["a"], "chunks": ["b"]}])
    assert "columns docs, chunks both give the contexts, and differ" in said


def test_the_columns_of_a_run_that_goes_on_are_the_columns_of_now(tmp_path):
    """Rows scored by other columns are other rows, also where a list of them is there."""
    rows = [{"question": "q", "one": ["a"], "two": ["a", "b"]}]
    for column, count in (("one", 1.0), ("two", 2.0), ("one", 1.0)):
        asked = ("--columns", f"contexts={column}", "--out", tmp_path / "scores", "--json")
        done, _ = evaluate(tmp_path / "data.jsonl", rows, *asked)
        assert json.loads(done.stdout)["summary"]["context_count"]["mean"] == count


def test_what_a_whole_file_shares_is_said_once(tmp_path):
    rows = [{"id": number, "body": TEXT} for number in range(500)]
    done, said = evaluate(tmp_path / "data.jsonl", rows)

    assert done.exit_code == 1
    assert said.count("no column that can be scored") == 1
    assert "data.jsonl:1: no column that can be scored; found id, body" in said
    assert "(and 499 more rows)" in said
    assert "nothing reads 'body'; if one does: --columns contexts=body" in said


@pytest.mark.parametrize("out", [(), ("--out", "scores")])
def test_a_file_of_which_no_row_has_a_score_is_no_success(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    done, _ = evaluate(tmp_path / "data.jsonl", [{"question": "q"}] * 3, *out)

    assert done.exit_code == 1
    said = " ".join(done.stdout.split())
    assert "data.jsonl has a score: the scores asked for need contexts" in said


def test_one_file_of_several_without_a_score_is_named(tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"question": "q", "answer": "a"}\n')
    done, _ = evaluate(tmp_path / "data.jsonl", [{"question": "q", "contexts": ["a"]}], other)

    assert done.exit_code == 1
    assert f"no row of {other} has a score" in done.stdout.replace("\n", "")


def test_answers_as_squad_has_them_are_the_reference(tmp_path):
    row = {"question": "q", "context": TEXT, "answers": {"text": ["21", "21 metres"], "answer_start": [1]}}
    path = tmp_path / "squad.jsonl"
    path.write_text(json.dumps(row))
    from ragmeter.metrics._files.samples import read_samples

    [read] = read_samples(path)
    assert read.sample.reference.answer == "21"
    assert read.sample.reference.alternative_answers == ("21 metres",)
