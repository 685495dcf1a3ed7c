"""`lexical_context_utilization`: which chunks the answer's sentences come from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import LexicalContextUtilization, RagSample
from ragmeter.metrics.protocol import compute_metric

LAMP, HARBOUR = "The lamp was lit in 1884.", "The harbour is home to a fleet."
TEXT = st.text(st.sampled_from(list("ab .,。中国Дё\n")), max_size=60) | st.text(max_size=40)


def utilization(answer, *contexts):
    sample = RagSample(question="q", contexts=contexts, answer=answer)
    (score,) = compute_metric(LexicalContextUtilization(), sample)
    return score


def test_each_sentence_goes_to_the_chunk_that_has_most_of_it():
    """One of two chunks used; the evidence is each chunk's share and each sentence's chunk."""
    got = utilization("The lamp was lit in 1884. It is red and very far away.", LAMP, HARBOUR)
    assert got.value == 0.5
    assert [(item.id, item.verdict, item.evidence) for item in got.items] == [
        ("chunk-1", True, None),
        ("chunk-2", False, None),
        ("sentence-1", None, "chunk-1"),
        ("sentence-2", None, None),
    ]
    assert got.items[0].value == pytest.approx(3 / 7)
    assert got.summary == "chunk 1 of 2 used"
    assert got.explanation == "chunk 1 of 2 used; chunk-1: “The lamp was lit in 1884.”"


def test_chunks_that_cover_as_much_share_the_sentence():
    """Both are used, each to the half."""
    got = utilization("The lamp was lit in 1884.", LAMP, f"{LAMP} {HARBOUR}", HARBOUR)
    assert got.value == pytest.approx(2 / 3)
    assert [item.value for item in got.items[:3]] == [0.5, 0.5, 0.0]
    assert got.summary == "chunks 1 and 2 of 3 used"


def test_nothing_used_is_zero():
    """The answer says something else."""
    got = utilization("It is red and far away.", LAMP, HARBOUR)
    assert (got.value, got.summary) == (0.0, "none of 2 chunks used")


@pytest.mark.parametrize(
    ("answer", "contexts"),
    [
        ("The lamp.", []),
        ("The lamp.", ["", " \n"]),
        ("", [LAMP]),
        ("I don't know.", [LAMP]),
        ("Please contact support.", [LAMP]),
        ("Лампа горит.", [LAMP]),
    ],
)
def test_without_a_chunk_or_a_claim_it_is_undefined(answer, contexts):
    """Nothing could be used, or nothing was said."""
    assert utilization(answer, *contexts).status == "undefined"


def test_three_languages():
    """Function words and single Han characters find no chunk."""
    assert utilization("Лампу зажгли в 1884 году.", "Порт.", "В 1884 году зажгли лампу.").value == 0.5
    assert utilization("灯塔于1884年点亮。", "港口里有船队。", "灯塔于1884年点亮。").value == 0.5


@given(st.lists(TEXT, max_size=4), TEXT, st.randoms())
def test_order_does_not_matter_and_a_blank_chunk_is_an_unused_one(contexts, answer, random):
    value = utilization(answer, *contexts).value
    assert value is None or 0 <= value <= 1
    assert utilization(answer, *random.sample(contexts, len(contexts))).value == value
    more = utilization(answer, *contexts, " ").value
    if value is None:
        assert more is None
    else:
        assert more == pytest.approx(value * len(contexts) / (len(contexts) + 1))
