"""What a score holds, how its evidence is checked, and how both are written as JSON."""

import copy
import json
import math
import pickle
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragmeter.metrics import ComputedMetric, RetrievalHealth, Score, ScoreItem, ScoreStatus
from ragmeter.metrics.computed.precision_recall_f1 import PrecisionRecallF1
from ragmeter.metrics.protocol import compute_metric
from ragmeter.metrics.sample import RagSample, Reference

TEXT = st.none() | st.text(max_size=5)
ITEMS = st.builds(
    ScoreItem,
    id=st.text(max_size=5),
    verdict=st.none() | st.booleans(),
    text=TEXT,
    evidence=TEXT,
    reason=TEXT,
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
SCORE = Score(name="a", value=0.5, status="ok", method="exact", definition="1")


@given(ITEMS)
def test_an_item_is_a_frozen_tuple_that_can_be_copied_and_sent(item):
    assert item == (item.id, item.verdict, item.text, item.evidence, item.reason, item.value)
    assert pickle.loads(pickle.dumps(item)) == copy.deepcopy(item) == item
    assert type(pickle.loads(pickle.dumps(item))) is ScoreItem
    assert item._replace(text="changed").text == "changed"
    with pytest.raises(AttributeError):
        item.text = "changed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 1}, {"verdict": "maybe"}, {"text": 3}, {"evidence": 1.5}, {"reason": ["r"]},
        {"value": math.nan}, {"value": math.inf}, {"value": "half"},
    ],
)  # fmt: skip
def test_an_item_of_wrong_types_is_refused_where_it_is_made(wrong):
    with pytest.raises(ValidationError):
        ScoreItem(**{"id": "chunk-1", "verdict": True, **wrong})


def test_an_item_takes_what_stands_for_its_types():
    """As pydantic reads them: 1 is a number and a verdict; a subclass of str is a text."""

    class Word(str):
        __slots__ = ()

    item = ScoreItem("chunk-1", 1, Word("text"), value=1)

    assert (item.verdict, item.value) == (True, 1.0)
    assert (type(item.verdict), type(item.value)) == (bool, float)
    assert item.text == "text"


@given(st.lists(ITEMS, max_size=3))
def test_items_are_objects_in_json(items):
    """Every field by its name; without what is default where defaults are left out."""
    score = SCORE.model_copy(update={"items": tuple(items)})
    whole = json.loads(json.dumps(score.model_dump()))["items"]
    short = json.loads(json.dumps(score.model_dump(exclude_defaults=True))).get("items", [])

    assert whole == [item._asdict() for item in items]
    assert list(score.model_dump(mode="json")["items"]) == whole
    assert short == [
        {name: value for name, value in one.items() if value is not None or name == "verdict"} for one in whole
    ]


@given(st.lists(ITEMS, max_size=3), st.booleans())
def test_a_score_is_read_back_from_its_json(items, short):
    score = SCORE.model_copy(update={"items": tuple(items)})
    dumped = score.model_dump(mode="json", exclude_defaults=short)

    assert Score.model_validate(dumped) == score
    assert Score.model_validate_json(json.dumps(dumped)) == score
    assert all(type(item) is ScoreItem for item in Score.model_validate(dumped).items)


@pytest.mark.parametrize(
    "items", [["chunk-1"], [{"id": "chunk-1"}], [{"id": "a", "verdict": None, "more": 1}], [("a", True)], 3]
)  # fmt: skip
def test_what_is_no_item_is_refused(items):
    with pytest.raises(ValidationError):
        SCORE.model_validate({**SCORE.model_dump(), "items": items})


@pytest.mark.parametrize("status", get_args(ScoreStatus))
def test_only_ok_and_partial_carry_a_value(status):
    fields = SCORE.model_dump()
    for value in (0.5, None):
        allowed = status == "partial" or (status == "ok") is (value is not None)
        if allowed:
            assert Score.model_validate({**fields, "status": status, "value": value})
        else:
            with pytest.raises(ValidationError, match=f"status '{status}'"):
                Score.model_validate({**fields, "status": status, "value": value})
    with pytest.raises(ValidationError, match="frozen"):
        SCORE.value = 0.0


def test_what_a_metric_leaves_to_the_defaults_is_the_default():
    """Range, direction and evidence are those of the metric, whether they were passed on or not."""
    found = compute_metric(RetrievalHealth(), RagSample(question="q", contexts=["a", "a"]))

    assert [(one.range, one.direction) for one in found[:3]] == [
        ((0.0, None), "none"), ((0.0, 1.0), "lower"), ((0.0, 1.0), "lower"),
    ]  # fmt: skip
    assert [item.id for item in found[2].items] == ["chunk-2"]


def test_a_metric_that_returns_nonsense_has_an_error_not_a_score():
    """`make_score` still refuses what is no finite number."""

    class Wrong(ComputedMetric):
        name = "wrong"
        score_names = ("wrong",)
        needs = ()
        method = "exact"
        target = "retrieval"
        definition = "1"

        def compute(self, sample):
            return (self.make_score("wrong", math.inf),)

    (score,) = compute_metric(Wrong(), RagSample(question=None))
    assert (score.status, score.error_type) == ("metric_error", "ValidationError")


def test_sentences_that_are_no_strings_are_refused():
    """A splitter that returns something else gives an error that names what it returned."""
    metric = PrecisionRecallF1("exact_sentence_match", split_sentences=lambda text: [1, 2])
    sample = RagSample(question="q", contexts=["a"], reference=Reference(contexts=["a"]))
    scores = compute_metric(metric, sample)
    assert {score.status for score in scores} == {"metric_error"}
    assert "split_sentences returned int" in (scores[0].explanation or "")
