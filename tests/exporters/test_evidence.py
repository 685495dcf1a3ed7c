"""Evidence without texts: bounded in count and size, and what was cut is said."""

import json

import pytest

from ragmeter.exporters._annotations import chunk_verdicts
from ragmeter.exporters._format import MAX_ITEMS, MAX_ITEMS_CHARS, items_attribute
from ragmeter.metrics import ScoreItem


def chunks(count, **fields):
    return [ScoreItem(id=f"chunk-{n}", verdict=True, **fields) for n in range(1, count + 1)]


def test_an_item_leaves_with_id_verdict_and_value_alone():
    """Its text, evidence and reason stay."""
    item = ScoreItem("sentence-2", None, "TEXT", "EVIDENCE", "REASON", 0.123456789)

    assert json.loads(items_attribute([item])) == {
        "items": [{"id": "sentence-2", "verdict": None, "value": 0.1235}]
    }


def test_without_items_there_is_nothing_to_say():
    """No empty list on every event."""
    assert items_attribute([]) is None


@pytest.mark.parametrize("count", [1, MAX_ITEMS, MAX_ITEMS + 1, 5_000])
def test_the_first_items_leave_and_the_others_are_counted(count):
    """Whoever reads it knows that it is not all."""
    said = json.loads(items_attribute(chunks(count)))

    assert [item["id"] for item in said["items"]] == [f"chunk-{n}" for n in range(1, min(count, MAX_ITEMS) + 1)]
    assert said.get("left_out", 0) == max(0, count - MAX_ITEMS)


@pytest.mark.parametrize("unit", ["x", "检", "\ud800", '"', "\n", "\x00"])
def test_long_ids_do_not_make_it_longer_than_allowed(unit):
    """However an id is spelled in JSON."""
    items = [ScoreItem(id=unit * 500, verdict=False, value=-1.25e-300)] * 200
    text = items_attribute(items)
    said = json.loads(text)

    assert len(text.encode()) <= MAX_ITEMS_CHARS
    assert len(said["items"]) + said["left_out"] == 200
    assert said["items"]


def test_chunks_are_told_from_their_parts(make):
    """A verdict on a sentence of a chunk is none on the chunk; one that says nothing is none at all."""
    items = (
        ScoreItem("chunk-2", None, value=0.5),
        ScoreItem("chunk-1", False),
        ScoreItem("chunk-3", None),
        ScoreItem("chunk-0", True),
        ScoreItem("chunk-1/sentence-1", True),
        ScoreItem("sentence-1", True),
    )
    score = make.score("precision", 0.5, items=items)

    ((_, found),) = chunk_verdicts(make.scored_run(scores=[score]))

    assert [(place, item.id) for place, item in found.items()] == [(1, "chunk-2"), (0, "chunk-1")]
