"""`ragmeter agreement`: the judge beside people, people beside people, and what labels say of results."""

import json
import random

import pytest
from typer.testing import CliRunner

from ragmeter.cli._results import place_of
from ragmeter.cli.app import app
from ragmeter.quality.labels import Label, append_label

COUNT = 400
LABELLED = 100


def _world(folder, seed=3, *, kinder=0.15, good=0.6, count=COUNT, name="results.jsonl", **fields):
    """Requests with a judge who is kinder than people, as `JsonlExporter` writes them; what people think."""
    chance = random.Random(seed)
    people = {}
    with (folder / name).open("w") as file:
        for number in range(count):
            person = 1.0 if chance.random() < good else chance.choice((0.0, 0.25, 0.5))
            judged = round(min(1.0, max(0.0, person + kinder + chance.gauss(0, 0.1))), 4)
            people[f"{seed}-{number}"] = (person, judged)
            record = {
                "run_id": f"{seed}-{number}",
                "scores": {
                    "faithfulness": {"value": judged, "status": "ok", "definition": "3"},
                    "lexical_groundedness": {"value": 0.5, "status": "ok", "definition": "1"},
                },
                **fields,
            }
            file.write(json.dumps(record) + "\n")
    return people


def _labels(folder, people, *, count=LABELLED, rater="anna", noise=0.0, seed=9, **given):
    """Labels of those at the lowest places, as `ragmeter label` draws them."""
    chance = random.Random(seed)
    order = sorted(people, key=place_of)
    for request in order[:count]:
        person, judged = people[request]
        value = chance.choice((0.0, 0.25, 0.5, 0.75, 1.0)) if chance.random() < noise else person
        label = {
            "request": request, "score": "faithfulness", "value": value, "rater": rater,
            "at": "2026-11-22T09:00:00Z", "probability": place_of(order[count]), "judged": judged,
            "judge": "faithfulness@3", "source": "results.jsonl",
        } | given  # fmt: skip
        append_label(folder / "labels.jsonl", Label(**label))


def _run(folder, *arguments, results=True, exit_code=0, as_json=True):
    given = ["agreement", str(folder / "labels.jsonl")]
    if results:
        given.append(str(folder / "results.jsonl"))
    ran = CliRunner().invoke(app, [*given, *arguments, *(["--json"] if as_json else [])])
    assert ran.exit_code == exit_code, ran.output
    if not as_json or exit_code:
        return ran.output
    return json.loads(ran.stdout)["scores"]["faithfulness"]


def test_labels_drawn_from_the_results_correct_the_judge(tmp_path):
    people = _world(tmp_path)
    truth = sum(person for person, _ in people.values()) / COUNT
    _labels(tmp_path, people)
    found = _run(tmp_path)
    assert found["judged"]["lower"] > truth
    assert found["people"]["lower"] <= truth <= found["people"]["upper"]
    assert found["people"]["n_labelled"] == LABELLED
    width = found["people"]["upper"] - found["people"]["lower"]
    assert width < 0.7 * (found["alone"]["upper"] - found["alone"]["lower"])
    assert found["worth"] == pytest.approx(LABELLED * found["people"]["gain"])
    assert found["needed"] < found["needed_alone"]
    assert found["now"] is None


def test_agreement_without_results(tmp_path):
    people = _world(tmp_path)
    _labels(tmp_path, people)
    found = _run(tmp_path, results=False)
    assert found["judged"] is found["people"] is found["now"] is None
    assert found["drawn"] == LABELLED
    assert found["raters"] == {"anna": LABELLED}
    assert found["levels"] == 5
    assert 0.8 < found["r"]["value"] < 1.0
    assert found["kappa"]["quadratic"]["value"] > found["kappa"]["none"]["value"]
    assert found["confusion"]["good_good"] + found["confusion"]["good_bad"] > 40
    assert found["ceiling"] is None
    assert found["worth"] > 2 * LABELLED


def test_people_among_themselves(tmp_path):
    people = _world(tmp_path)
    _labels(tmp_path, people)
    _labels(tmp_path, people, rater="boris", noise=0.5)
    found = _run(tmp_path)
    ceiling = found["ceiling"]
    assert (ceiling["raters"], ceiling["requests"]) == (2, LABELLED)
    assert 0.2 < ceiling["alpha"]["interval"]["value"] < 0.8
    assert 0.2 < ceiling["kappa"] < 0.8
    assert ceiling["r"]["value"] < 0.8


def test_labels_of_another_time_give_a_share_and_no_mean(tmp_path):
    """Quality fell since: going by regression would miss it."""
    before = _world(tmp_path, seed=5, good=0.6, count=600)
    _labels(tmp_path, before, count=300)
    now = _world(tmp_path, seed=6, good=0.3, count=600)
    truth = sum(person >= 0.75 for person, _ in now.values()) / 600
    found = _run(tmp_path, "--judge-good", "0.9")
    assert found["people"] is None
    assert found["now"]["status"] == "ok"
    assert found["now"]["lower"] <= truth <= found["now"]["upper"]
    assert any("another time" in note for note in found["notes"])


def test_results_that_grew_since_are_another_time(tmp_path):
    """All labelled requests stand in the file, and the drawing has not reached those that came later."""
    people = _world(tmp_path, count=400)
    _labels(tmp_path, people, count=200)
    grown = _world(tmp_path, seed=8, good=0.2, count=600, name="later.jsonl")
    assert grown
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write((tmp_path / "later.jsonl").read_text())
    found = _run(tmp_path)
    assert found["people"] is None
    assert found["now"] is not None


def test_few_labels_of_another_time_say_nothing(tmp_path):
    _labels(tmp_path, _world(tmp_path), count=60)
    _world(tmp_path, seed=6)
    found = _run(tmp_path)
    assert found["now"]["share"] is None
    assert found["now"]["status"] == "few_labels"
    assert "100 labels" in " ".join(_run(tmp_path, as_json=False).split())


def test_another_judge_is_not_corrected_by_labels_of_this_one(tmp_path):
    people = _world(tmp_path)
    _labels(tmp_path, people, judge="faithfulness@2")
    found = _run(tmp_path)
    assert found["people"] is found["now"] is None
    assert any("another judge" in note for note in found["notes"])


def test_volunteered_labels_are_counted_and_in_no_mean(tmp_path):
    people = _world(tmp_path)
    _labels(tmp_path, people)
    before = _run(tmp_path)
    for number in range(50):
        _labels(tmp_path, {f"p{number}": (0.0, 0.1), "q": (0, 0)}, count=1, probability=None)
    after = _run(tmp_path)
    assert after["volunteered"] > 0
    for name in ("people", "alone", "r", "confusion", "kappa", "drawn"):
        assert after[name] == before[name]


def test_yes_and_no_have_two_levels(tmp_path):
    people = {name: (float(person >= 0.75), judged) for name, (person, judged) in _world(tmp_path).items()}
    _labels(tmp_path, people, scale="yes-no")
    found = _run(tmp_path)
    assert found["levels"] == 2
    assert found["kappa"]["none"]["value"] == found["kappa"]["quadratic"]["value"]


def test_labels_without_a_judge_still_have_a_mean(tmp_path):
    people = _world(tmp_path)
    _labels(tmp_path, people, judged=None, judge="")
    found = _run(tmp_path, results=False)
    assert found["unjudged"] == LABELLED
    assert found["alone"]["n_judged"] == LABELLED
    assert found["kappa"]["none"]["value"] is None
    assert found["worth"] == 0


def test_how_many_labels_are_needed_follows_the_width(tmp_path):
    _labels(tmp_path, _world(tmp_path))
    narrow, wide = (_run(tmp_path, "--width", width) for width in ("0.05", "0.2"))
    assert narrow["needed_alone"] == pytest.approx(16 * wide["needed_alone"], rel=0.05)


def test_it_is_readable_at_forty_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    people = _world(tmp_path)
    _labels(tmp_path, people)
    _labels(tmp_path, people, rater="boris", noise=0.3)
    output = _run(tmp_path, as_json=False)
    assert max(len(line) for line in output.splitlines()) <= 40
    together = " ".join(output.split())
    for word in ("raw agreement", "sensitivity", "quadratic", "α", "no judge can be asked for more", "alone"):
        assert word in together


def test_lines_that_are_no_labels_are_named(tmp_path):
    _labels(tmp_path, _world(tmp_path))
    with (tmp_path / "labels.jsonl").open("a") as file:
        file.write("{}\n")
    output = _run(tmp_path, exit_code=1)
    assert f"labels.jsonl:{LABELLED + 1}: no request" in output


def test_nothing_to_compare(tmp_path):
    (tmp_path / "labels.jsonl").write_text("")
    assert "has no labels" in _run(tmp_path, results=False, exit_code=2)
    _labels(tmp_path, _world(tmp_path))
    output = _run(tmp_path, "--score", "fluency", exit_code=2)
    assert "has no labels of fluency" in output


def test_results_without_that_score(tmp_path):
    _labels(tmp_path, _world(tmp_path), score="answer_relevancy")
    given = ["agreement", str(tmp_path / "labels.jsonl"), str(tmp_path / "results.jsonl"), "--json"]
    ran = CliRunner().invoke(app, given)
    found = json.loads(ran.stdout)["scores"]["answer_relevancy"]
    assert found["judged"] is None
    assert any("have no answer_relevancy" in note for note in found["notes"])


def test_what_a_cascade_asked_for_weighs_as_much_as_what_it_stands_for(tmp_path):
    """Of what is decided a tenth is asked for: the means are those of all, with labels and without."""
    chance = random.Random(5)
    truth, people = 0.0, {}
    with (tmp_path / "results.jsonl").open("w") as file:
        for number in range(1200):
            is_undecided = number % 4 == 0
            value = float(chance.random() < (0.3 if is_undecided else 0.95))
            truth += value / 1200
            asked_with = 1.0 if is_undecided else 0.1
            is_asked = chance.random() < asked_with
            score = {"value": value, "status": "ok", "definition": "3", "asked_with": asked_with}
            spared = {"value": None, "status": "skipped", "definition": "3", "asked_with": 0.0}
            scores = {"faithfulness": score if is_asked else spared}
            file.write(json.dumps({"run_id": f"r-{number}", "scores": scores}) + "\n")
            if is_asked:
                people[f"r-{number}"] = value, value
                known = 1.0 if is_undecided else 0.1
                label = {"at": "2026-11-22T09:00:00Z", "rater": "anna", "source": "results.jsonl"}
                append_label(
                    tmp_path / "labels.jsonl",
                    Label(
                        request=f"r-{number}", score="faithfulness", value=value, judged=value, probability=1.0,
                        judge="faithfulness@3", judge_probability=known, **label,
                    ),
                )  # fmt: skip
    found = _run(tmp_path)
    assert sum(value for value, _ in people.values()) / len(people) < truth - 0.15
    for name in ("judged", "people", "alone"):
        assert found[name]["mean"] == pytest.approx(truth, abs=0.04), name
        assert found[name]["lower"] < truth < found[name]["upper"]
