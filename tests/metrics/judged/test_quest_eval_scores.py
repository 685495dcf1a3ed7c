"""The arithmetic of RAGQuestEval, against CRUD_RAG's own and against its worked example."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_tools import oracle

from ragmeter.metrics import quest_eval_scores
from ragmeter.metrics.judged._quest_eval_scores import answer_f1, quest_tokenizer


def answers_of(record):
    """The generated answers, cut out of the model's text as CRUD_RAG does; none: it loses the sample."""
    if record["input"]["answers_from_generated"] is not None:
        return record["input"]["answers_from_generated"]
    return re.findall(r"<response>\n(.*?)\n</response>", record["input"]["raw_reply"], re.DOTALL)


COUNTED = [r for r in oracle("crud_ragquesteval") if answers_of(r) or not r["input"]["raw_reply"]]


@pytest.mark.parametrize("record", COUNTED, ids=lambda record: record["id"])
def test_compatible_arithmetic_is_crud_rags(record):
    """crud_compat=True gives what CRUD_RAG's quest_eval() gives from the same answers."""
    given_answers = answers_of(record)
    scores = quest_eval_scores(record["input"]["answers_from_reference"], given_answers, crud_compat=True)

    assert scores.recall == pytest.approx(record["expected"]["recall(quest_recall)"], abs=1e-9)
    assert scores.precision == pytest.approx(record["expected"]["precision(quest_avg_f1)"], abs=1e-9)


@pytest.mark.parametrize("record", oracle("crud_token_f1"), ids=lambda r: str(r["input"]))
def test_compatible_token_f1_is_crud_rags(record):
    cut = quest_tokenizer("jieba", crud_compat=True)
    pair = record["input"]

    assert cut(pair["gold"]) == record["expected"]["gold_tokens"]
    assert answer_f1(pair["gold"], pair["pred"], cut) == pytest.approx(record["expected"]["f1"])


def test_questions_the_reference_does_not_answer_do_not_count():
    scores = quest_eval_scores([None, "a keeper"], ["x", "keeper"])

    assert (scores.recall, scores.precision) == (1.0, 1.0)


@pytest.mark.parametrize("marker", ["无法推断", " 无法推断。", "<Unanswerable>", "«Невозможно ответить»"])
def test_markers_of_replayed_data_mean_unanswered(marker):
    """Whatever punctuation stands around them; CRUD_RAG counts "无法推断。" as an answer."""
    scores = quest_eval_scores(["x"], [marker])

    assert (scores.recall, scores.precision) == (0.0, None)


def test_nothing_answerable_is_undefined():
    scores = quest_eval_scores([None], ["x"])

    assert (scores.recall, scores.precision, scores.recall_bounds) == (None, None, None)


def test_a_missing_answer_is_unknown_and_shifts_nobody():
    """Bounds over the unknown: recall 1/3 to 2/3, precision 1/2 to 1."""
    scores = quest_eval_scores({"a": "x", "b": "y", "c": "z"}, {"a": None, "c": "z"})

    assert (scores.recall, scores.precision, scores.unknown) == (None, None, 1)
    assert scores.recall_bounds == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert scores.precision_bounds == (0.5, 1.0)


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="mappings"):
        quest_eval_scores(["a", "b"], ["a"])


@pytest.mark.parametrize(
    ("reference", "generated", "f1"),
    [
        ("The Cat", "cat", 1.0),
        ("１９３１年", "1931年", 1.0),
        ("36人", "36 人", 1.0),
        ("Гюстав Эйфель", "эйфель гюстав", 1.0),
        ("云南省人民政府", "云南省政府", 2 * (5 / 7) / (1 + 5 / 7)),
        ("cat", "dog", 0.0),
    ],
)
def test_unicode_tokens_are_normalised(reference, generated, f1):
    assert answer_f1(reference, generated) == pytest.approx(f1)


def test_jieba_words_are_normalised_too():
    cut = quest_tokenizer("jieba")

    assert cut("北京 大学。") == ["北京", "大学"]


def test_an_unknown_tokenizer_is_refused():
    with pytest.raises(ValueError, match="tokenizer"):
        quest_eval_scores(["a"], ["a"], tokenizer="words")


ANSWERS = st.lists(
    st.tuples(st.none() | st.text("ab 中", max_size=4), st.none() | st.text("ab 中", max_size=4)), max_size=6
)


@given(ANSWERS, st.sets(st.integers(1, 6)))
def test_bounds_hold_for_every_way_of_filling_the_unknown(answers, hidden):
    """Whatever the hidden answers were, the true scores lie within the bounds."""
    ids = [str(n) for n in range(1, len(answers) + 1)]
    reference = {i: a for i, (a, _) in zip(ids, answers, strict=True)}
    generated = {i: b for i, (_, b) in zip(ids, answers, strict=True)}
    partly = {i: b for i, b in generated.items() if int(i) not in hidden}
    full, known = quest_eval_scores(reference, generated), quest_eval_scores(reference, partly)

    if full.recall is not None:
        assert known.recall_bounds[0] <= full.recall <= known.recall_bounds[1]
    if full.precision is not None:
        low, high = known.precision_bounds
        assert low - 1e-12 <= full.precision <= high + 1e-12
