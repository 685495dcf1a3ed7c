"""Scores and evidence made without validation are the ones that validation would make."""

import copy
import math
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragmeter.metrics import ComputedMetric, Score, ScoreItem
from ragmeter.metrics.computed.precision_recall_f1 import PrecisionRecallF1
from ragmeter.metrics.metric import compute_metric
from ragmeter.metrics.sample import RagSample, Reference
from ragmeter.metrics.score import evidence_item, plain_score

TEXT = st.none() | st.text(max_size=5)
ITEMS = st.builds(
    ScoreItem, id=st.text(max_size=5), verdict=st.none() | st.booleans(), text=TEXT
)  # fmt: skip


@given(
    st.text(max_size=5),
    st.none() | st.booleans(),
    TEXT,
    TEXT,
    TEXT,
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_evidence_is_what_its_constructor_makes(id_, verdict, text, evidence, reason, value):
    """Equal, hashed, dumped, copied and frozen alike."""
    fields = {"text": text, "evidence": evidence, "reason": reason, "value": value}
    made = evidence_item(id_, verdict, **fields)
    validated = ScoreItem(id=id_, verdict=verdict, **fields)
    copied = made.model_copy(update={"text": "changed"})
    assert made == validated
    assert hash(made) == hash(validated)
    assert made.model_dump(exclude_unset=True) == validated.model_dump(exclude_unset=True)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == validated
    assert (copied.text, made.text) == ("changed", text)
    with pytest.raises(ValidationError, match="frozen"):
        made.text = "changed"


FIELDS = {
    "name": st.text(max_size=5) | st.just(1),
    "value": st.none() | st.floats() | st.integers(0, 1) | st.booleans() | st.just("0.5"),
    "status": st.sampled_from(["ok", "undefined", "missing_input", "nonsense"]),
    "method": st.sampled_from(["exact", "llm", "guess"]),
    "definition": st.just("1") | st.just(1),
    "target": st.sampled_from(["retrieval", "answer", "question"]),
    "explanation": TEXT | st.just(1),
    "items": st.lists(ITEMS | st.just("no item"), max_size=2),
    "range": st.sampled_from([(0.0, 1.0), (0.0, None), (0, 1), [0.0, 1.0], (0.0,), None]),
}
RIGHT = dict(
    zip(FIELDS, ("a", 0.5, "ok", "exact", "1", "answer", None, [], (0.0, 1.0)), strict=True)
)


def made_or_refused(make, fields):
    """Return the score, or what pydantic says against the fields."""
    try:
        return make(**fields)
    except ValidationError as refusal:
        return [(error["loc"], error["type"], error["msg"]) for error in refusal.errors()]


@given(st.fixed_dictionaries({}, optional=FIELDS).map(lambda wrong: {**RIGHT, **wrong}))
@example(RIGHT)
@example({**RIGHT, "value": None, "status": "nonsense"})
@example({**RIGHT, "value": math.nan})
@example({**RIGHT, "value": None})
@example({**RIGHT, "value": None, "status": "undefined"})
def test_a_score_is_validated_wherever_that_matters(fields):
    """Whatever is given, the outcome is the constructor's: the same score, or the same error."""
    made, validated = made_or_refused(plain_score, fields), made_or_refused(Score, fields)
    assert made == validated
    assert repr(made) == repr(validated)
    if isinstance(made, Score):
        assert made.model_dump() == validated.model_dump()
        assert hash(made) == hash(validated)
        assert made.model_fields_set == validated.model_fields_set
        assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == validated
        with pytest.raises(ValidationError, match="frozen"):
            made.value = 0.0


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
