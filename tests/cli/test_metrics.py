"""`ragmeter metrics` tells the truth about every metric, because it asks the metrics."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmeter.cli._metric_page import EXAMPLE
from ragmeter.cli.app import app
from ragmeter.metrics import VERDICT_CODES, VerdictRules
from ragmeter.metrics.registry import BUILTIN, known_metrics
from ragmeter.metrics.verdict import _READ


def test_every_metric_is_listed_with_its_scores():
    shown = CliRunner().invoke(app, ["metrics"], terminal_width=200).stdout
    for kind in BUILTIN:
        assert kind().name in shown
        assert all(score in shown for score in kind().score_names)


def test_json_has_needs_method_cost_and_range():
    listed = json.loads(CliRunner().invoke(app, ["metrics", "--json"]).stdout)
    assert [one["name"] for one in listed] == list(known_metrics())
    by_name = {one["name"]: one for one in listed}
    for kind in BUILTIN:
        one = by_name[kind().name]
        assert one["needs"] == list(kind().needs)
        assert one["method"] == kind().method
        assert (one["cost"] == "free") == (not kind.judged)
        assert list(one["ranges"]) == one["scores"]
        assert one["question"].endswith("?")


def test_a_count_has_no_upper_bound_and_qualities_have():
    listed = json.loads(CliRunner().invoke(app, ["metrics", "--json"]).stdout)
    ranges = {name: ends for one in listed for name, ends in one["ranges"].items()}
    for count in ("context_count", "context_tokens", "retriever_score_spread"):
        assert ranges.pop(count) == [0.0, None]
    assert ranges.pop("unsupported_words_max") == [0.0, None]
    assert ranges.pop("retriever_top_score") == [None, None]
    assert ranges.pop("semantic_context_relevance") == [-1.0, 1.0]
    assert set(map(tuple, ranges.values())) == {(0.0, 1.0)}


def test_judged_metrics_say_what_they_cost():
    listed = json.loads(CliRunner().invoke(app, ["metrics", "--json"]).stdout)
    for one in listed:
        if one["method"] == "llm":
            assert "call" in one["cost"], one["name"]


@pytest.mark.parametrize("name", known_metrics())
def test_every_metric_has_a_page_with_example_thresholds_and_source(name):
    done = CliRunner().invoke(app, ["metrics", name], terminal_width=200)
    page = " ".join(done.stdout.split())

    assert done.exit_code == 0, done.output
    for words in ("Range", "Needs", "Cost", "Source", "Example", "Thresholds of the verdict"):
        assert words in page, words
    assert "Args:" not in page
    listed = json.loads(CliRunner().invoke(app, ["metrics", name, "--json"]).stdout)
    if listed["example"]:
        assert list(listed["example"]) == listed["scores"]


def test_a_score_leads_to_its_metric_and_a_typing_error_to_its_neighbour():
    page = CliRunner().invoke(app, ["metrics", "recall"]).stdout
    assert page.startswith("precision_recall_f1\n")
    assert "recall = 1" in page
    wrong = CliRunner().invoke(app, ["metrics", "faithfullness"])
    assert wrong.exit_code == 2
    assert "Did you mean 'faithfulness'?" in wrong.output


def test_the_thresholds_are_those_of_the_rules():
    listed = json.loads(CliRunner().invoke(app, ["metrics", "lexical_groundedness", "--json"]).stdout)
    (said,) = listed["thresholds"]
    assert f"below {VerdictRules().unsupported_below:g}: bad" in said
    assert set(VERDICT_CODES) >= set(re.findall(r"\((\w+)\)", said))
    for name in _READ:  # whatever the verdict reads says so
        assert json.loads(CliRunner().invoke(app, ["metrics", name, "--json"]).stdout)["thresholds"]


def test_the_example_is_that_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    code = re.search(r"## The example\n.*?```python\n(.*?)```", page, re.DOTALL)[1]
    namespace = {}
    exec(code, namespace)

    assert namespace["sample"] == EXAMPLE


@pytest.mark.parametrize(
    "arguments", [["metrics"], ["metrics", "faithfulness"], ["--help"], ["metrics", "--help"]]
)
def test_a_narrow_terminal_is_readable(arguments, monkeypatch):
    """No line is wider than forty columns, and no name is cut."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERMINAL_WIDTH", "40")
    shown = CliRunner().invoke(app, arguments).stdout

    assert max(map(len, shown.splitlines())) <= 40
    if arguments == ["metrics"]:
        assert all(kind().name in shown for kind in BUILTIN)
