"""`ragmeter evaluate` as a gate: four outcomes, each with an exit code of its own, and what each rests on."""

import json
import random

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.metrics import ConfigurationError
from ragmeter.quality.decision import Asked, Check, Decision, Limit, decide, limit_of
from ragmeter.quality.estimate import difference_interval
from ragmeter.quality.row_scores import RowScore, RowScores
from ragmeter.quality.summary import ScoreSummary, mean_interval

EXITS = {"pass": 0, "fail": 1, "inconclusive": 4, "blocked": 5}


def _summary(values, without=(), direction="higher", ends=(0.0, 1.0), name="recall"):
    mean = sum(values) / len(values) if values else None
    low, high = mean_interval(values, ends) or (None, None)
    return ScoreSummary(
        name, len(values), dict(without), mean, None, None, None, low, high, ends, direction,
        tuple(sorted(values)),
    )  # fmt: skip


def _limited(summary, value, unreadable=0):
    (check,) = decide(
        Asked(limits=[Limit("recall", value)]), [summary], RowScores(), unreadable
    ).checks
    return check


@pytest.mark.parametrize(
    ("share", "direction", "limit", "outcome"),
    [
        (0.9, "higher", 0.8, "pass"),
        (0.6, "higher", 0.8, "fail"),
        (0.78, "higher", 0.8, "inconclusive"),
        (0.82, "higher", 0.8, "inconclusive"),
        (0.1, "lower", 0.2, "pass"),
        (0.4, "lower", 0.2, "fail"),
        (0.22, "lower", 0.2, "inconclusive"),
    ],
)
def test_the_whole_interval_decides(share, direction, limit, outcome):
    values = [1.0] * round(200 * share) + [0.0] * (200 - round(200 * share))
    check = _limited(_summary(values, direction=direction), limit)
    assert check.outcome == outcome
    assert check.interval == pytest.approx(mean_interval(values, (0.0, 1.0)))
    assert check.what == f"recall at {'most' if direction == 'lower' else 'least'} {limit:g}"


def test_a_few_values_decide_little():
    assert _limited(_summary([1.0] * 3), 0.8).outcome == "inconclusive"
    assert _limited(_summary([0.0] * 10), 0.8).outcome == "fail"


def test_another_range_is_decided_on_its_own_scale():
    stars = [4.0, 5.0] * 50
    assert _limited(_summary(stars, ends=(1.0, 5.0)), 4.0).outcome == "pass"
    assert _limited(_summary(stars, ends=(1.0, 5.0)), 4.8).outcome == "fail"


def test_what_is_missing_blocks_only_where_it_could_change_the_outcome():
    values = [1.0] * 180 + [0.0] * 20
    assert _limited(_summary(values, {"judge_error": 2}), 0.8).outcome == "pass"
    assert _limited(_summary(values, {"judge_error": 40}), 0.8).outcome == "blocked"
    assert _limited(_summary(values), 0.8, unreadable=40).outcome == "blocked"
    assert _limited(_summary(values, {"timeout": 5}), 0.1).outcome == "pass"
    # Not defined, or no case of it: nothing is missing.
    assert _limited(_summary(values, {"undefined": 90, "missing_input": 90}), 0.8).outcome == "pass"


def test_without_evidence_nothing_is_decided():
    assert _limited(_summary([], {"missing_input": 3}), 0.8).outcome == "blocked"
    assert _limited(_summary([1.0] * 50, name="other"), 0.8).outcome == "blocked"
    assert _limited(_summary([1.0] * 50, direction="none"), 0.8).outcome == "blocked"
    assert _limited(_summary([1.0] * 50, ends=(0.0, None)), 0.8).outcome == "blocked"
    assert decide(Asked(), [], RowScores(), 0) is None


def _rows(values, measurement="m@1", status="ok", first=0):
    rows = RowScores()
    for number, value in enumerate(values, first):
        shown = status if value is not None else "judge_error"
        rows.add(number, f"q{number}", {"recall": RowScore(measurement, value, shown)})
    return rows


def _compared(old, new, direction="higher", tolerance=0.03, unreadable=0, limits=()):
    values = [
        score.value for _, scores in new.of("recall") for score in scores if score.value is not None
    ]
    asked = Asked(limits=limits, baseline=old, tolerance=tolerance)
    (check,) = decide(asked, [_summary(values, direction=direction)], new, unreadable).checks
    return check


def _graded(count, seed=1):
    chance = random.Random(seed)
    return [round(chance.uniform(0.2, 0.8), 3) for _ in range(count)]


def test_a_baseline_is_compared_question_by_question():
    """Answers differ much among each other and little between the runs: pairs see it, means do not."""
    before = _graded(200)
    worse, better = ([value + change for value in before] for change in (-0.1, 0.1))
    assert _compared(_rows(before), _rows(worse)).outcome == "fail"
    assert _compared(_rows(before), _rows(better)).outcome == "pass"
    assert _compared(_rows(before), _rows(before)).outcome == "pass"
    assert _compared(_rows(before), _rows(worse), "lower").outcome == "pass"
    assert _compared(_rows(before), _rows(better), "lower").outcome == "fail"
    found = _compared(_rows(before), _rows(worse))
    assert found.mean == pytest.approx(-0.1)
    assert found.interval[0] < -0.1 < found.interval[1] < -0.03
    assert found.count == 200
    few = _compared(_rows(before[:8]), _rows(before[:8]))
    assert few.outcome == "inconclusive"
    assert _compared(_rows(before), _rows(worse), tolerance=0.2).outcome == "pass"


def test_runs_that_cannot_be_compared_block():
    before = _graded(100)
    other = _compared(_rows(before), _rows(before, "m@2"))
    assert other.outcome == "blocked"
    assert "m@1 then, m@2 now" in other.reason
    assert _compared(_rows(before), _rows(before, first=50)).outcome == "blocked"
    assert _compared(_rows(before), _rows([*before[:80], *[None] * 20])).outcome == "blocked"
    assert _compared(_rows(before), _rows(before), unreadable=30).outcome == "blocked"


def test_questions_that_are_asked_twice_are_paired_in_order():
    rows = RowScores()
    for line, value in ((2, 0.0), (1, 1.0)):
        rows.add(line, "q", {"recall": RowScore("m@1", value, "ok")})
    [(_, found)] = rows.of("recall")
    assert [one.value for one in found] == [1.0, 0.0]


def test_the_strongest_outcome_is_the_runs():
    def decided(*outcomes):
        return Decision([Check("what", one, "reason") for one in outcomes]).outcome

    assert decided("pass", "inconclusive", "blocked", "fail") == "fail"
    assert decided("pass", "inconclusive", "blocked") == "blocked"
    assert decided("pass", "inconclusive") == "inconclusive"
    assert decided("pass") == "pass"


@pytest.mark.parametrize("text", ["recall", "recall=", "=0.8", "recall=high", "recall=nan"])
def test_a_limit_that_is_none_is_explained(text):
    with pytest.raises(ConfigurationError, match="NAME=VALUE"):
        limit_of(text)


def test_the_interval_of_a_difference():
    """Student's with its guard, from scipy 1.17.1 for the plain part; identical pairs prove little."""
    mean, lower, upper = difference_interval([0.0] * 30)
    assert (mean, upper) == (0.0, pytest.approx(2.045230 * (2 / 870) ** 0.5, rel=1e-5))
    assert lower == -upper
    assert difference_interval([-0.1] * 4)[1:] == (-1.0, 1.0)


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
    return CliRunner().invoke(
        app, ["evaluate", "--metrics", "precision_recall_f1", *map(str, arguments)]
    )


def test_the_command_exits_with_the_outcome(tmp_path):
    good = _write(tmp_path / "good.jsonl", lambda number: ["right"])
    half = _write(tmp_path / "half.jsonl", lambda number: ["right"] if number % 2 else ["wrong"])
    for data, limit, outcome in (
        (good, "recall=0.8", "pass"),
        (half, "recall=0.8", "fail"),
        (half, "recall=0.5", "inconclusive"),
        (half, "no_such_score=0.5", "blocked"),
    ):
        done = _run(data, "--fail-under", limit)
        assert done.exit_code == EXITS[outcome], done.output
        assert f"Decision: {outcome}" in done.output
    assert _run(half).exit_code == 0
    wrong = _run(half, "--fail-under", "recall")
    assert wrong.exit_code == 2
    assert "NAME=VALUE" in wrong.output


def test_the_command_compares_with_an_earlier_run(tmp_path):
    good = _write(tmp_path / "good.jsonl", lambda number: ["right"])
    half = _write(tmp_path / "half.jsonl", lambda number: ["right"] if number % 2 else ["wrong"])
    old = tmp_path / "old.jsonl"
    assert _run(good, "--out", old).exit_code == 0
    before = old.read_bytes()
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
    assert old.read_bytes() == before


def test_a_baseline_that_is_none_is_explained(tmp_path):
    data = _write(tmp_path / "data.jsonl", lambda number: ["right"], 3)
    for name, text in (("empty", ""), ("other", '{"a": 1}\n'), ("text", "hello\n")):
        path = tmp_path / name
        path.write_text(text)
        done = _run(data, "--baseline", path)
        assert done.exit_code == 2, done.output
        assert "--baseline" in done.output
    missing = _run(data, "--baseline", tmp_path / "nowhere")
    assert missing.exit_code == 2
    out = tmp_path / "out.jsonl"
    assert _run(data, "--out", out).exit_code == 0
    assert _run(data, "--out", out, "--baseline", out).exit_code == 2


def test_what_was_not_given_is_named(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text('{"question": "q", "contexts": ["a b c"], "answer": "a b c"}\n')
    ran = CliRunner().invoke(
        app,
        ["evaluate", str(data), "--metrics", "precision_recall_f1", "--fail-under", "recall=0.8"],
    )
    assert ran.exit_code == EXITS["blocked"]
    assert "no value: 1 missing_input (not given: reference" in " ".join(ran.output.split())
    assert "1 row of" in " ".join(ran.output.split())
