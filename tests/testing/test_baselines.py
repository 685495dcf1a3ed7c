"""Tests of users that compare with an earlier run: what passes, what blocks, and what a failure says."""

import json

import pytest

from ragmeter import RagMeter, RagSample, Reference
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError, evaluate
from ragmeter.testing import QualityError, assert_quality, write_baseline
from ragmeter.testing._session import session

METRICS = ["precision_recall_f1"]


def _samples(found, count=120, first=0):
    """Return requests of which every `found`-th, or all with 1, have the right document."""
    return [
        RagSample(
            question=f"How tall is tower {n}?",
            contexts=[f"Tower {n} is 21 metres tall." if n % found == 0 else "Nothing of it."],
            reference=Reference(contexts=[f"Tower {n} is 21 metres tall."]),
        )
        for n in range(first, first + count)
    ]


@pytest.fixture
def baseline(tmp_path):
    path = tmp_path / "baselines" / "search.jsonl"
    write_baseline(_samples(1), path, metrics=METRICS)
    return path


def test_what_is_as_good_as_before_passes_in_any_order(baseline):
    decision = assert_quality(_samples(1)[::-1], baseline=baseline, metrics=METRICS)

    assert decision.outcome == "pass"
    assert {check.what.split()[0] for check in decision.checks} == {"precision", "recall", "f1"}
    assert decision.checks[0].count == 120


def test_what_fell_fails_with_the_interval_and_the_rows_that_fell(baseline):
    with pytest.raises(QualityError) as caught:
        assert_quality(_samples(2), "recall>=0.2", baseline=baseline, metrics=METRICS)
    limited, compared = caught.value.decision.checks
    first, *rows = str(caught.value).splitlines()

    assert limited.outcome == "pass"
    assert (compared.outcome, compared.mean, compared.count) == ("fail", -0.5, 120)
    assert compared.interval[0] < -0.5 < compared.interval[1] < -0.3
    assert first.startswith("fail: recall not more than 0.03 worse than the baseline: difference")
    assert rows == [f"  row {n} 1.000 then, 0.000 now" for n in (1, 3, 5, 7, 9)]


def test_a_limit_names_the_scores_that_are_compared_and_still_has_to_be_reached(baseline):
    with pytest.raises(QualityError, match=r"^fail: recall at least 0.9"):
        assert_quality(_samples(2), "recall>=0.9", baseline=baseline, tolerance=0.9, metrics=METRICS)


def test_few_rows_decide_nothing_and_other_questions_block(baseline):
    with pytest.raises(QualityError, match=r"^blocked: .* 10 questions have a value in both"):
        assert_quality(_samples(1, 10), baseline=baseline, metrics=METRICS)
    write_baseline(_samples(1, 10), baseline, metrics=METRICS)
    with pytest.raises(QualityError, match=r"^inconclusive: precision not more than 0.03 worse"):
        assert_quality(_samples(1, 10), baseline=baseline, metrics=METRICS)
    with pytest.raises(QualityError, match=r"^blocked: .* 0 questions have a value in both runs"):
        assert_quality(_samples(1, 10, 50), baseline=baseline, metrics=METRICS)


def test_another_formula_blocks(baseline):
    told = baseline.read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in told]
    for row in rows:
        for scores in row["measured"].values():
            scores[0]["definition"] = "0"
    baseline.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    with pytest.raises(QualityError, match=r"blocked: .* measured otherwise: 0 then"):
        assert_quality(_samples(1), baseline=baseline, metrics=METRICS)


def test_results_of_a_meter_are_compared_by_question(tmp_path):
    path, memory = tmp_path / "live.jsonl", InMemoryExporter()
    with RagMeter(exporters=[memory]) as meter:
        for sample in _samples(1, 130):
            meter.submit(sample)
        assert meter.flush(60)
    write_baseline(memory.results, path)

    assert assert_quality(memory.results, "recall>=0.9", baseline=path).outcome == "pass"
    assert "21 metres" not in path.read_text("utf-8")


def test_the_option_writes_instead_of_comparing(tmp_path, monkeypatch):
    path = tmp_path / "new.jsonl"
    with pytest.raises(ConfigurationError, match=r"--ragmeter-write-baselines writes it"):
        assert_quality(_samples(1), baseline=path, metrics=METRICS)
    monkeypatch.setattr(session, "write_baselines", True)
    decision = assert_quality(_samples(1), "recall>=0.9", baseline=path, metrics=METRICS)
    monkeypatch.undo()

    assert [check.what for check in decision.checks] == ["recall at least 0.9"]
    assert assert_quality(_samples(1), baseline=path, metrics=METRICS).outcome == "pass"


def test_the_command_line_s_file_is_a_baseline(tmp_path):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from ragmeter.cli.app import app

    data, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    rows = [
        {
            "question": sample.question,
            "contexts": [one.text for one in sample.contexts],
            "reference_contexts": sample.reference.contexts,
        }
        for sample in _samples(1)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = CliRunner().invoke(app, ["evaluate", str(data), "--metrics", METRICS[0], "--out", str(out)])
    assert done.exit_code == 0, done.output

    assert assert_quality(_samples(1), baseline=out, metrics=METRICS).outcome == "pass"
    with pytest.raises(QualityError, match=r"fail: recall not more than"):
        assert_quality(_samples(2), baseline=out, metrics=METRICS)


def test_what_is_no_baseline_is_said(tmp_path):
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"a": 1}\n')
    for path, said in ((wrong, "line 1: not written by"), (tmp_path, "is a folder")):
        with pytest.raises(ConfigurationError, match=said):
            assert_quality(_samples(1, 3), baseline=path, metrics=METRICS)
    with pytest.raises(ConfigurationError, match=r"these have none"):
        write_baseline([dict(one) for one in evaluate(_samples(1, 3), METRICS)], wrong)
    with pytest.raises(ConfigurationError, match=r"there are no results"):
        write_baseline([], wrong)
    with pytest.raises(ConfigurationError, match=r"tolerance is -1"):
        assert_quality(_samples(1, 3), baseline=wrong, tolerance=-1, metrics=METRICS)
