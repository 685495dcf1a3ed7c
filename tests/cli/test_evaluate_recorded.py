"""`ragmeter evaluate` of what `JsonlExporter` wrote: without texts its recorded scores are shown."""

import json

import pytest
from typer.testing import CliRunner

from ragmeter import RagMeter
from ragmeter.cli.app import app
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample, Reference


@pytest.fixture
def recorded(tmp_path):
    """Return the file, and the scores of each request as they were exported."""
    path, memory = tmp_path / "results.jsonl", InMemoryExporter()
    meter = RagMeter(exporters=[JsonlExporter(path), memory])
    for number in range(12):
        meter.submit(
            RagSample(
                question=f"How long is bridge {number}?",
                contexts=[f"Bridge {number} is {number} metres long."] * (number % 3),
                answer=f"It is {number} metres long.",
                reference=Reference(answer=f"{number} metres") if number % 2 else None,
            )
        )
    assert meter.flush(60)
    meter.shutdown()
    return path, memory.results


def invoke(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_recorded_scores_are_shown(recorded):
    path, results = recorded
    result = invoke(path, "--json")
    shown = json.loads(result.stdout)

    assert result.exit_code == 0, result.output
    assert (shown["rows"], shown["recorded"], shown["bad_row_count"]) == (12, True, 0)
    for name, one in shown["summary"].items():
        scores = [found.scores[name] for found in results if name in found.scores]
        values = [score.value for score in scores if score.value is not None]
        assert one["count"] == len(values)
        assert one["mean"] == (pytest.approx(sum(values) / len(values)) if values else None)
    words = [found.verdict.word for found in results if found.verdict is not None]
    assert shown["verdicts"]["words"] == {word: words.count(word) for word in ("good", "suspect", "bad")}
    assert "recorded scores" in invoke(path).stdout


def test_what_came_later_is_added_to_its_request(recorded):
    path, _ = recorded
    first = json.loads(path.read_text("utf-8").splitlines()[0])
    late = first | {
        "late": True,
        "verdict": {"word": "bad", "codes": ["unsupported_answer"], "reasons": ["r"]},
        "scores": {
            "faithfulness": {"value": 0.25, "status": "ok", "method": "llm", "definition": "3", "of_tomorrow": 1},
            "refusal": first["scores"]["refusal"] | {"value": 1.0},
        },
    }  # fmt: skip
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(late) + "\n")
    shown = json.loads(invoke(path, "--json").stdout)

    assert shown["rows"] == 12
    assert shown["summary"]["faithfulness"]["mean"] == 0.25
    assert shown["summary"]["refusal"]["count"] == 12
    assert shown["summary"]["refusal"]["mean"] == pytest.approx(1 / 12)
    assert shown["verdicts"]["words"]["bad"] >= 1


def test_a_wrong_line_is_counted_and_named(recorded):
    path, _ = recorded
    with path.open("a", encoding="utf-8") as file:
        file.write('{"run_id": "x", "scores": {"recall": {"value": 2, "status": "sure"}}}\n{"a": 1}\n[]\n')
    result = invoke(path)

    assert result.exit_code == 1
    for line, reason in ((13, "not those of a result"), (14, "no run_id"), (15, "not a JSON object")):
        assert f"{path.name}:{line}: " in result.stderr
        assert reason in result.stderr


def test_gates_decide_by_recorded_scores(recorded):
    path, _ = recorded

    assert invoke(path, "--fail-under", "lexical_groundedness=0.0").exit_code == 0
    assert invoke(path, "--fail-under", "recall=0.5").exit_code in (1, 4, 5)


@pytest.mark.parametrize("option", [("--metrics", "refusal"), ("--out", "scores.jsonl")])
def test_what_needs_texts_is_refused(recorded, tmp_path, option, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(recorded[0], *option)

    assert result.exit_code == 2
    assert "include_content=True" in result.stderr
