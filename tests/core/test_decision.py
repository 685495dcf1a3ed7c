"""Whether an evaluation passes: four outcomes, and what each rests on."""

import random

import pytest

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._display.mean_interval import mean_interval
from ragmeter.metrics._display.summary import ScoreSummary
from ragmeter.quality.decision import Check, Criteria, Decision, Limit, decide, limit_of
from ragmeter.quality.estimate import difference_interval
from ragmeter.quality.row_scores import RowScore, RowScores


def _summary(values, without=(), direction="higher", ends=(0.0, 1.0), name="recall"):
    mean = sum(values) / len(values) if values else None
    low, high = mean_interval(values, ends) or (None, None)
    return ScoreSummary(
        name, len(values), dict(without), mean, None, None, None, low, high, ends, direction,
        tuple(sorted(values)),
    )  # fmt: skip


def _limited(summary, value, unreadable=0):
    (check,) = decide(Criteria(limits=[Limit("recall", value)]), [summary], RowScores(), unreadable).checks
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
    assert decide(Criteria(), [], RowScores(), 0) is None


def _rows(values, measurement="m@1", status="ok", first=0):
    rows = RowScores()
    for number, value in enumerate(values, first):
        shown = status if value is not None else "judge_error"
        rows.add(number, f"q{number}", {"recall": RowScore(measurement, value, shown)})
    return rows


def _compared(old, new, direction="higher", tolerance=0.03, unreadable=0, limits=()):
    values = [score.value for _, scores in new.of("recall") for score in scores if score.value is not None]
    asked = Criteria(limits=limits, baseline=old, tolerance=tolerance)
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
