"""`ragmeter evaluate` as a gate: each of the four outcomes has an exit code of its own."""

import json

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app

EXITS = {"pass": 0, "fail": 1, "inconclusive": 4, "blocked": 5}


def _write(path, contexts_of, count=60):
    rows = [
        {
            "question": f"q{number}?", "contexts": contexts_of(number), "answer": "a",
            "reference_contexts": ["right"],
        }
        for number in range(count)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def _run(*arguments):
    return CliRunner().invoke(app, ["evaluate", "--metrics", "precision_recall_f1", *map(str, arguments)])


def test_the_command_exits_with_the_outcome(tmp_path):
    good = _write(tmp_path / "good.jsonl", lambda number: ["right"])
    half = _write(tmp_path / "half.jsonl", lambda number: ["right"] if number % 2 else ["wrong"])
    for data, limit, outcome in (
        (good, "recall=0.8", "pass"),
        (half, "recall=0.8", "fail"),
        (half, "recall=0.5", "inconclusive"),
    ):
        done = _run(data, "--fail-under", limit)
        assert done.exit_code == EXITS[outcome], done.output
        assert f"Decision: {outcome}" in done.output
    assert _run(half).exit_code == 0


def test_the_command_compares_with_an_earlier_run(tmp_path):
    good = _write(tmp_path / "good.jsonl", lambda number: ["right"])
    half = _write(tmp_path / "half.jsonl", lambda number: ["right"] if number % 2 else ["wrong"])
    old = tmp_path / "old.jsonl"
    assert _run(good, "--out", old).exit_code == 0
    before = old.read_bytes()
    assert _run(good, "--out", old, "--baseline", old).exit_code == 2
    worse = _run(half, "--baseline", old, "--json")
    assert worse.exit_code == EXITS["fail"], worse.output
    decision = json.loads(worse.stdout)["decision"]
    assert decision["outcome"] == "fail"
    recall = next(one for one in decision["checks"] if one["what"].startswith("recall "))
    assert (recall["outcome"], recall["mean"], recall["count"]) == ("fail", -0.5, 60)
    assert recall["ci95"][1] < -0.3
    same = _run(good, "--baseline", old, "--tolerance", "0.1")
    assert same.exit_code == EXITS["pass"], same.output
    only = _run(half, "--baseline", old, "--fail-under", "precision=0.1", "--json")
    checks = json.loads(only.stdout)["decision"]["checks"]
    assert {one["what"].split()[0] for one in checks} == {"precision"}
    fallen = json.loads(only.stdout)["decision"]["fallen"]
    assert {one["score"] for one in fallen} == {"recall", "f1"}
    shown = _run(half, "--baseline", old, "--fail-under", "precision=0.1").output
    table = shown.split("Compared with the baseline")[1]
    [row] = [line.split() for line in table.splitlines() if line.startswith(" recall")]
    assert row[:4] == ["recall", "1.00", "0.50", "-0.500"]
    assert " ".join(row[-4:]) == "fell, not asked about"
    assert "recall fell below the baseline, and is not asked about" in " ".join(shown.split())
    assert old.read_bytes() == before


def test_what_was_not_given_is_named(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text('{"question": "q", "contexts": ["a b c"], "answer": "a b c"}\n')
    ran = CliRunner().invoke(
        app, ["evaluate", str(data), "--metrics", "precision_recall_f1", "--fail-under", "recall=0.8"]
    )
    assert ran.exit_code == EXITS["blocked"]
    assert "no value: 1 missing_input (not given: reference" in " ".join(ran.output.split())
    assert "1 row of" in " ".join(ran.output.split())


@pytest.mark.parametrize("out", ["old.jsonl", "old"])
def test_a_fall_of_groundedness_says_of_what_it_consists(tmp_path, out):
    """Of manner, where the answers of the later run only say more words about their texts."""
    chunk = "The lighthouse of Genoa was built in 1543 and is 77 metres high."

    def written(name, *sentences):
        path = tmp_path / name
        rows = [
            {"question": f"Which lighthouse {n}?", "contexts": [chunk], "answer": " ".join(sentences)}
            for n in range(30)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    plain = "The lighthouse was built in 1543."
    old = written("plain.jsonl", plain)
    metrics = ("--metrics", "lexical_groundedness")
    CliRunner().invoke(app, ["evaluate", *metrics, old, "--out", str(tmp_path / out)])
    for sentence, said in (
        ("Based on the provided passages, here is my answer.", "mostly manner, not truth"),
        ("Elephants paint purple umbrellas.", "mostly what no chunk says"),
    ):
        new = written("new.jsonl", sentence, plain)
        shown = CliRunner().invoke(app, ["evaluate", *metrics, new, "--baseline", str(tmp_path / out)])
        assert f"; {said}" in " ".join(shown.output.split()), shown.output
    same = CliRunner().invoke(app, ["evaluate", *metrics, old, "--baseline", str(tmp_path / out)])
    assert "groundedness lost" not in same.output
