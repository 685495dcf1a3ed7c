"""`ragmeter metrics` tells the truth about every metric, because it asks the metrics."""

import json

from typer.testing import CliRunner

from ragmeter.cli.app import app
from ragmeter.metrics.registry import BUILTIN, known_metrics


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
    assert ranges.pop("retriever_top_score") == [None, None]
    assert ranges.pop("semantic_context_relevance") == [-1.0, 1.0]
    assert set(map(tuple, ranges.values())) == {(0.0, 1.0)}


def test_judged_metrics_say_what_they_cost():
    listed = json.loads(CliRunner().invoke(app, ["metrics", "--json"]).stdout)
    for one in listed:
        if one["method"] == "llm":
            assert "call" in one["cost"], one["name"]
