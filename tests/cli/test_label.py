"""`ragmeter label`: who is drawn with which probability, what a rater sees, and what is kept."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmeter.cli._results import ResultFile, ScoredRequest, place_of
from ragmeter.cli.app import app
from ragmeter.cli.label._draw import draw
from ragmeter.cli.label._screen import grade_of
from ragmeter.cli.label._wording import WORDINGS
from ragmeter.exporters.change_words import LANGUAGES
from ragmeter.quality.labels import read_labels

ESCAPE = "\x1b[2Jevil"


def _results(path, count=40, *, judged=lambda number: number / 40, content=True, **fields):
    """What `JsonlExporter` writes: one line per request."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            value = judged(number)
            record = {
                "run_id": f"run-{number}",
                "trace_id": f"{number + 1:032x}",
                "judge_sample_rate": 0.5,
                "scores": {
                    "faithfulness": {"value": value, "status": "ok" if value is not None else "judge_error",
                                     "definition": "3", "range": [0.0, 1.0]},
                },
                **fields,
            }  # fmt: skip
            if content:
                record |= {
                    "question": f"question {number}?",
                    "contexts": [{"text": f"context {number} {ESCAPE}", "id": f"doc-{number}"}],
                    "answer": f"answer {number}",
                }
            file.write(json.dumps(record) + "\n")
    return path


def _label(tmp_path, keys, *options, results=None, exit_code=0):
    path = tmp_path / "results.jsonl"
    if results is None and not path.exists():
        _results(path)
    out = tmp_path / "labels.jsonl"
    arguments = ["label", str(results or path), "--out", str(out), "--rater", "anna", *options]
    ran = CliRunner().invoke(app, arguments, input="".join(f"{key}\n" for key in keys))
    assert ran.exit_code == exit_code, ran.output
    return ran.output, read_labels(out)[0] if out.exists() else []


def test_a_label_says_how_it_came_about(tmp_path):
    output, [label] = _label(tmp_path, ["4", "q"], "--count", "10", "--language", "en")
    number = int(label.request.removeprefix("run-"))
    assert (label.value, label.scale, label.rater, label.score) == (0.75, "1-5", "anna", "faithfulness")
    assert (label.judged, label.judge) == (number / 40, "faithfulness@3")
    assert label.judge_probability == 0.5
    assert 0 < label.probability < 1
    assert label.at.endswith("+00:00")
    assert label.source == "results.jsonl"
    assert "1 of 10" in output
    assert "supported by the contexts" in output
    assert f"doc-{number}" in output
    assert f"answer {number}" in output


def test_a_label_of_what_a_cascade_asked_for_says_so(tmp_path):
    """A request that was judged with .5, and asked about with .2, stands for ten."""
    score = {"value": 0.4, "status": "ok", "definition": "3", "asked_with": 0.2}
    _results(tmp_path / "results.jsonl", scores={"faithfulness": score})
    _, [label] = _label(tmp_path, ["4", "q"], "--count", "10")
    assert label.judge_probability == pytest.approx(0.1)


def test_the_verdict_is_not_shown_and_texts_do_not_steer_the_terminal(tmp_path):
    _results(tmp_path / "results.jsonl", judged=lambda _: 0.4321)
    output, _ = _label(tmp_path, ["4"] * 10, "--count", "10")
    assert "4321" not in output.replace("\n", "")
    assert "\x1b" not in output
    assert "\ufffd[2Jevil" in output


def test_exactly_as_many_as_were_asked_for_are_drawn(tmp_path):
    _, labels = _label(tmp_path, ["3"] * 40, "--count", "12")
    assert len(labels) == 12
    assert len({one.probability for one in labels}) == 1


def test_probabilities_are_true_over_many_files():
    """Over 400 files with fixed ids Σ 1/probability is the number of requests."""
    total = 0.0
    for number in range(400):
        requests = tuple(
            ScoredRequest(name, frozenset([name]), 1, place_of(name), has=frozenset(["contexts", "answer"]))
            for name in (f"{number}-{one}" for one in range(50))
        )
        drawing = draw(ResultFile(Path("x"), requests, (), has_texts=True), "faithfulness", 10)
        assert len(drawing.requests) == 10
        total += 10 / drawing.probability
    assert total / (400 * 50) == pytest.approx(1.0, abs=0.05)


def test_whoever_comes_back_goes_on(tmp_path):
    _, first = _label(tmp_path, ["5", "1", "q"], "--count", "6")
    output, both = _label(tmp_path, ["2"] * 10, "--count", "6", "--language", "en")
    assert len(first) == 2
    assert len(both) == 6
    assert [one.value for one in both[:2]] == [1.0, 0.0]
    assert "3 of 6" in output
    assert "All 6 requests" in output
    _, again = _label(tmp_path, ["2"] * 10, "--count", "6")
    assert again == both


def test_whoever_wants_more_draws_more_of_the_same(tmp_path):
    _, first = _label(tmp_path, ["5"] * 40, "--count", "6")
    _, more = _label(tmp_path, ["5"] * 40, "--count", "15")
    assert {one.request for one in first} < {one.request for one in more}
    assert len(more) == 15


def test_a_file_that_grew_is_drawn_from_with_the_same_probability(tmp_path):
    _, first = _label(tmp_path, ["5"] * 40, "--count", "10")
    _results(tmp_path / "results.jsonl", 400, judged=lambda _: 0.5)
    _, more = _label(tmp_path, ["5"] * 400, "--count", "10")
    assert {one.probability for one in more} == {first[0].probability}
    assert len(more) > 50


def test_raters_are_shown_the_same_requests_in_the_same_order(tmp_path):
    _label(tmp_path, ["5"] * 5, "--count", "5")
    _, labels = _label(tmp_path, ["1"] * 5, "--count", "5", "--rater", "boris")
    by_rater = {name: [one.request for one in labels if one.rater == name] for name in ("anna", "boris")}
    assert by_rater["anna"] == by_rater["boris"]


def test_only_judged_requests_are_drawn_where_there_are_any(tmp_path):
    _results(tmp_path / "results.jsonl", judged=lambda number: 0.5 if number % 2 else None)
    _, labels = _label(tmp_path, ["3"] * 40, "--count", "40")
    assert len(labels) == 20
    assert all(one.judged == 0.5 for one in labels)
    assert {one.probability for one in labels} == {1.0}


def test_the_worst_are_volunteered(tmp_path):
    output, labels = _label(
        tmp_path, ["n"] * 3, "--worst", "--count", "3", "--scale", "yes-no", "--language", "en"
    )
    assert [one.request for one in labels] == ["run-0", "run-1", "run-2"]
    assert {one.origin for one in labels} == {"volunteered"}
    assert "enter no estimate" in output
    assert "Mean" not in output


def test_back_skip_and_keys_that_mean_nothing(tmp_path):
    output, labels = _label(
        tmp_path, ["x", "7", "b", "5", "b", "1", "s", "q"], "--count", "5", "--language", "en"
    )
    assert [one.value for one in labels] == [0.0, None]
    assert "Not a key: x" in output


def test_long_texts_are_cut_until_somebody_asks(tmp_path):
    path = tmp_path / "results.jsonl"
    text = "word " * 400 + "END"
    path.write_text(json.dumps({"run_id": "r", "question": "q", "contexts": [text], "answer": "a"}))
    output, _ = _label(tmp_path, ["q"], "--language", "en")
    assert "END" not in output
    assert "more characters" in output
    output, _ = _label(tmp_path, ["m", "q"])
    assert "END" in output


@pytest.mark.parametrize("language", LANGUAGES)
def test_narrow_terminals_and_all_languages(tmp_path, monkeypatch, language):
    monkeypatch.setenv("COLUMNS", "40")
    output, _ = _label(tmp_path, ["3"] * 35, "--count", "35", "--language", language)
    words = WORDINGS[language]
    together = "".join(output.split())
    assert "".join(words.asked["faithfulness"].split()) in together
    assert "±" in output
    assert max(len(line) for line in output.splitlines()) <= 40


def test_the_languages_ask_the_same():
    names = [(set(words.asked), set(words.grades)) for words in WORDINGS.values()]
    assert all(one == names[0] for one in names)
    for words in WORDINGS.values():
        assert words.place.format(number=1, count=2)
        assert words.early.format(count=1, least=2)


@pytest.mark.parametrize(
    ("key", "scale", "value"),
    [("1", "1-5", 0.0), ("5", "1-5", 1.0), ("6", "1-5", None), ("55", "1-5", None), ("²", "1-5", None),
     ("", "1-5", None), ("y", "1-5", None), ("y", "yes-no", 1.0), ("Д", "yes-no", 1.0), ("н", "yes-no", 0.0),
     ("否", "yes-no", 0.0), ("3", "yes-no", None)],
)  # fmt: skip
def test_what_keys_say(key, scale, value):
    assert grade_of(key, scale) == value


def test_scores_of_evaluate_with_their_data_set(tmp_path):
    data, scores = tmp_path / "data.jsonl", tmp_path / "scores.jsonl"
    rows = [{"question": f"q{n}?", "contexts": ["one two three"], "answer": "one two"} for n in range(8)]
    data.write_text("\n".join(map(json.dumps, rows)))
    ran = CliRunner().invoke(
        app, ["evaluate", str(data), "--metrics", "lexical_groundedness", "--out", str(scores)]
    )
    assert ran.exit_code == 0, ran.output
    output, _ = _label(tmp_path, ["5"], results=scores, exit_code=2)
    assert "--data" in output
    _, labels = _label(
        tmp_path, ["4"] * 8, "--data", str(data), "--score", "lexical_groundedness", results=scores
    )
    assert len(labels) == 8
    assert all(one.judged == 1.0 for one in labels)
    assert all(one.judge.startswith("lexical_groundedness@") for one in labels)


def test_results_without_texts_say_what_to_do(tmp_path):
    _results(tmp_path / "results.jsonl", content=False)
    output, _ = _label(tmp_path, ["5"], exit_code=2)
    assert "--data" in output


def test_labels_never_overwrite_something_else(tmp_path):
    path = _results(tmp_path / "results.jsonl")
    ran = CliRunner().invoke(app, ["label", str(path), "--out", str(path)])
    assert ran.exit_code == 2
    (tmp_path / "labels.jsonl").write_text('{"mine": 1}\n')
    output, _ = _label(tmp_path, ["5"], exit_code=2)
    assert "name another file" in output
    assert (tmp_path / "labels.jsonl").read_text() == '{"mine": 1}\n'


def test_the_mean_so_far_may_be_looked_at_any_time(tmp_path):
    chance = random.Random(1)
    keys = [str(chance.randint(1, 5)) for _ in range(40)]
    output, labels = _label(tmp_path, keys, "--count", "40", "--language", "en")
    mean = sum(one.value for one in labels) / 40
    assert f"Mean according to you so far: {mean:.2f} ±" in " ".join(output.split())
    output, _ = _label(tmp_path, ["5"], "--count", "40", "--rater", "boris", "--language", "en")
    assert "1 of at least 30" in " ".join(output.split())


def test_what_a_word_is_worth_is_said_when_the_rater_is_done(tmp_path):
    words = ("good", "bad")
    with (tmp_path / "results.jsonl").open("w") as file:
        for number in range(60):
            file.write(
                json.dumps({
                    "run_id": f"run-{number}", "question": "q?", "contexts": ["c"], "answer": "a",
                    "verdict": {"word": words[number % 2], "codes": [], "reasons": []},
                })
                + "\n"
            )  # fmt: skip
    output, labels = _label(tmp_path, ["5"] * 20 + ["q"], "--count", "60", "--language", "en")
    assert {one.verdict for one in labels} == set(words)
    assert "from 50 labels on; there are 20" in " ".join(output.split())
    output, labels = _label(tmp_path, ["1"] * 40, "--count", "60", "--language", "en")
    bad = [one.value < 0.75 for one in labels if one.verdict == "bad"]
    assert len(bad) == 30
    assert f"Verdict “bad”: people call {sum(bad) / 30:.0%} of 30 bad [".replace("%", " %") in output
    assert "from 50" not in output
