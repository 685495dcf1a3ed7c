"""``evaluate --out DIR --segments``: what the parts of a folder say of each segment is what a run in memory says."""

import json

import pytest

from ragmeter.cli.evaluate import _by_segment
from ragmeter.cli.evaluate.run import EvaluateOptions, run_evaluation
from ragmeter.metrics import ConfigurationError
from ragmeter.quality.decision import Criteria, limit_of

pytest.importorskip("pyarrow")

QUESTIONS = ("How long is bridge {}?", "Какой длины мост {}?", "桥{}有多长?")
NAMES = ("language", "tenant", "metadata.plan")


def row(number):
    """Return a row; every seventh lacks contexts, every fifth a reference, every third has no tenant."""
    told = f"Bridge {number} is {number} metres long."
    found = {
        "question": QUESTIONS[number % 3].format(number),
        "contexts": [told, "Boats are blue."][: 1 + number % 2] if number % 7 else [],
        "answer": told if number % 4 else "I do not know.",
        "metadata": {"plan": "free" if number % 4 else "paid", "by": {"nobody": [1, None]}},
    }
    if number % 3:
        found["tenant"] = f"t{number % 6}"
    if number % 5:
        found["reference"] = {"contexts": [told]} if number % 2 else {"answer": told}
    return found


def write(path, rows):
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path):
    """A data set with equal rows that belong to different tenants, and one that cannot be read."""
    equal = [{**row(7), "tenant": tenant} for tenant in ("t1", "new", "t1")]
    return write(tmp_path / "data.jsonl", [*map(row, range(80)), *equal, {}])


def evaluate(data, out, *, segments=NAMES, limits=("lexical_groundedness=0.5",), **options):
    asked = Criteria(limits=[limit_of(one) for one in limits])
    return run_evaluation(EvaluateOptions(data=data, out=out, segments=segments, asked=asked, **options))


def shown(evaluation):
    """Return what is said by segment; scores stand in the order of rows here, of metrics there."""
    by_name = {
        segment: sorted(summaries, key=lambda one: one.name)
        for segment, summaries in evaluation.segments.items()
    }
    return list(by_name.items()), sorted(evaluation.decision.checks, key=lambda one: one.what)


def test_segments_and_decisions_are_those_of_a_run_in_memory(data, tmp_path):
    here = evaluate(data, None)
    there = evaluate(data, tmp_path / "out")
    assert {"tenant:new", "tenant:t1", "tenant:unknown", "language:zh"} <= set(here.segments)
    assert shown(there) == shown(here)
    again = evaluate(data, tmp_path / "out")
    assert again.resumed == 83
    assert shown(again) == shown(here)


def test_shards_together_have_the_segments_of_the_whole(data, tmp_path, monkeypatch):
    monkeypatch.setattr(_by_segment, "MOST_VALUES", 3)
    here = evaluate(data, None)
    for number in range(3):
        evaluate(data, tmp_path / "out", shard=f"{number}/3")
    assert "tenant:other" in here.segments
    assert shown(evaluate((), tmp_path / "out", merge=True)) == shown(here)
    assert evaluate((), tmp_path / "out", merge=True, segments=()).segments == {}
    some = evaluate((), tmp_path / "out", merge=True, segments=("tenant",))
    assert set(some.segments) == {one for one in here.segments if one.startswith("tenant")}


def test_segments_asked_later_are_read_and_nothing_is_measured_again(data, tmp_path, monkeypatch):
    evaluate(data, tmp_path / "out", segments=())
    with pytest.raises(ConfigurationError, match="shard 0/1 did not ask for them"):
        evaluate((), tmp_path / "out", merge=True)
    before = sorted(path.name for path in (tmp_path / "out").glob("part-*"))
    there = evaluate(data, tmp_path / "out")
    assert there.resumed == 83
    assert sorted(path.name for path in (tmp_path / "out").glob("part-*")) == before
    assert shown(there) == shown(evaluate(data, None))


def test_a_changed_segment_of_an_unchanged_row_counts_where_it_belongs_now(tmp_path):
    rows = [row(number) for number in range(20)]
    evaluate(write(tmp_path / "data.jsonl", rows), tmp_path / "out")
    rows[3]["tenant"] = "moved"
    data = write(tmp_path / "data.jsonl", rows)
    there = evaluate(data, tmp_path / "out")
    assert "tenant:moved" in there.segments
    assert shown(there) == shown(evaluate(data, None))
