"""Labels of people: the file, who counts in an estimate, and what they say."""

import json
import random
import stat

import pytest

from ragmeter.metrics import ConfigurationError
from ragmeter.quality.estimate import estimate
from ragmeter.quality.labels import (
    Label,
    append_label,
    label_moments,
    labelled_requests,
    probability_sample,
    read_labels,
)
from ragmeter.quality.moments import JudgedMoments


def _label(request="r1", value=0.75, **given):
    defaults = {"score": "faithfulness", "rater": "anna", "at": "2026-11-22T09:00:00Z"}
    return Label(request=request, value=value, **{**defaults, **given})


def test_a_file_of_labels_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "labels.jsonl"
    labels = [
        _label(probability=0.25, judged=0.5, judge="faithfulness@2 m", judge_probability=0.5),
        _label("r2", None, rater="Борис", scale="yes-no"),
    ]
    for label in labels:
        append_label(path, label)
    assert read_labels(path) == (labels, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    origins = [json.loads(line)["origin"] for line in path.read_text("utf-8").splitlines()]
    assert origins == ["drawn", "volunteered"]


def test_the_last_label_of_a_rater_counts(tmp_path):
    path = tmp_path / "labels.jsonl"
    for value, rater in ((0.0, "anna"), (1.0, "boris"), (0.5, "anna")):
        append_label(path, _label(value=value, rater=rater))
    labels, _ = read_labels(path)
    assert {one.rater: one.value for one in labels} == {"anna": 0.5, "boris": 1.0}


def test_half_a_line_of_a_crash_spoils_no_label(tmp_path):
    path = tmp_path / "labels.jsonl"
    append_label(path, _label())
    with path.open("a") as file:
        file.write('{"request": "r')
    append_label(path, _label("r2"))
    labels, bad = read_labels(path)
    assert [one.request for one in labels] == ["r1", "r2"]
    assert [one.line for one in bad] == [2]


@pytest.mark.parametrize(
    "changes",
    [
        {"value": 1.5}, {"value": "good"}, {"value": True}, {"probability": 0}, {"probability": 2},
        {"judge_probability": None}, {"judged": -1}, {"request": ""}, {"request": 7}, {"scale": "1-7"},
        {"rater": None},
    ],
)  # fmt: skip
def test_what_is_no_label_is_named_and_left_out(tmp_path, changes):
    path = tmp_path / "labels.jsonl"
    record = {"request": "r", "score": "s", "value": 1, "rater": "a", "at": "2026"}
    path.write_text(json.dumps(record) + "\n" + json.dumps(record | changes) + "\n")
    labels, bad = read_labels(path)
    assert len(labels) == 1
    assert [one.line for one in bad] == [2]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_labels(tmp_path / "none.jsonl")


def test_raters_of_one_request_are_averaged():
    [one] = labelled_requests([_label(value=1.0), _label(value=0.5, rater="b"), _label(value=None, rater="c")])
    assert one.values == (1.0, 0.5)
    assert one.mean == 0.75


def test_shares_drawn_from_one_source_nest():
    """50 of 1,000, then 50 more: all were drawn with the probability of the second drawing."""
    labels = [
        _label("a", probability=0.05, source="x.jsonl"),
        _label("b", probability=0.1, source="x.jsonl", judge_probability=0.5),
        _label("a", probability=0.5, source="y.jsonl"),
    ]
    assert [one.probability for one in labelled_requests(labels)] == [0.1, 0.05, 0.5]


def test_volunteered_labels_enter_no_estimate():
    """However many bad requests somebody picked."""
    chance = random.Random(1)
    fair = [
        _label(f"r{n}", float(chance.random() < 0.8), probability=0.1, judged=chance.random())
        for n in range(60)
    ]
    picked = [_label(f"p{n}", 0.0, judged=0.1) for n in range(500)]
    only, both = (labelled_requests(labels) for labels in (fair, [*fair, *picked]))
    assert len(probability_sample(both)) == 60
    assert label_moments(both).values() == label_moments(only).values()
    alone = label_moments(both, with_judge=False)
    assert estimate(alone) == estimate(label_moments(only, with_judge=False))
    assert estimate(alone).n_judged == 60


def _world(labelled, seed=4):
    """4,000 judged requests whose judge is .15 kinder than people, and labels of some of them."""
    chance = random.Random(seed)
    verdicts, labels = JudgedMoments(), []
    for number in range(4000):
        person = chance.choice((0.0, 0.25, 0.5, 0.75, 1.0, 1.0))
        judged = min(1.0, max(0.0, person + 0.15 + chance.gauss(0, 0.1)))
        verdicts.add_request(0.5)
        verdicts.judged(0.5, 1.0, judged)
        if number < labelled:
            labels.append(_label(str(number), person, probability=labelled / 4000, judged=judged))
    return verdicts, labelled_requests(labels)


def test_labels_of_the_same_window_correct_the_judge():
    verdicts, labels = _world(100)
    truth = (0.0 + 0.25 + 0.5 + 0.75 + 1.0 + 1.0) / 6
    judge, people = estimate(verdicts), estimate(verdicts, label_moments(labels))
    alone = estimate(label_moments(labels, with_judge=False))
    assert judge.lower > truth
    assert people.lower <= truth <= people.upper
    assert people.n_labelled == 100
    assert people.gain > 3
    assert people.upper - people.lower < 0.6 * (alone.upper - alone.lower)


def test_a_label_without_a_verdict_tells_nothing_about_the_judge():
    labels = labelled_requests(
        [_label("a", 1.0, probability=0.5), _label("b", 0.0, probability=0.5, judged=0.2)]
    )
    assert label_moments(labels).k == 1
    assert label_moments(labels, with_judge=False).k == 2


def test_who_cannot_say_is_in_no_mean():
    labels = [_label(str(n), 1.0 if n % 2 else None, probability=0.5, judged=0.5) for n in range(80)]
    found = estimate(label_moments(labelled_requests(labels), with_judge=False))
    assert found.mean == 1.0
    assert found.undefined == 0.5
