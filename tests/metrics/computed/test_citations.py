"""`citations`: whether the cited chunks say so, and what is cited."""

import pytest

from ragmeter.metrics import Citations, RagSample
from ragmeter.metrics.protocol import compute_metric
from ragmeter.metrics.text.citations import cited_numbers

LAMP, HARBOUR = "The lamp was lit in 1884.", "The harbour is home to a fleet."


def cited(answer, *contexts, carried=()):
    contexts = contexts or (LAMP, HARBOUR)
    sample = RagSample(question="q", contexts=contexts, carried=carried, answer=answer)
    return compute_metric(Citations(), sample)


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("Yes [1, 3].", [1, 3]),
        ("见[2]和【3】", [2, 3]),
        ("a[1-3]", [1, 2, 3]),
        ("a [1–2; 5]", [1, 2, 5]),
        ("a [^1] b [1]", [1]),
        ("a [source 1] [Doc 2]", [1, 2]),
        ("见[来源1]", [1]),
        ("see [docs](http://x) and [1](http://x)", []),
        ("array[0]", [0]),
        ("[2024]", []),
        ("[^1]: a footnote", []),
        ("none", []),
    ],
)
def test_marks(sentence, numbers):
    """Numbers, lists, ranges, footnotes; no links, years or definitions."""
    assert cited_numbers(sentence) == numbers


@pytest.mark.parametrize(
    ("answer", "precision", "coverage"),
    [
        ("The lamp was lit in 1884 [1]. A fleet is in the harbour [1].", 0.5, 1.0),
        ("The lamp was lit in 1884.[1] A fleet has its home in the harbour. [2]", 1.0, 1.0),
        ("The lamp was lit in 1884 [0]. The harbour is home to a fleet [1].", 1.0, 1.0),
        ("The lamp was lit in 1884 [1, 2].", 0.5, 1.0),
        ("The lamp was lit in 1884 [7].", 0.0, 1.0),
        ("The lamp was lit in 1884 [1]. It is red.", 1.0, 0.5),
        ("The lamp was lit in 1884 [1]. I don't know who lit it. Please contact us.", 1.0, 1.0),
        ("No citation.", None, None),
        ("I don't know [1].", None, None),
        ("", None, None),
    ],
)
def test_precision_and_coverage(answer, precision, coverage):
    """Per pair and per claiming sentence; without a mark both are undefined, never 0."""
    got = cited(answer)
    assert [score.value for score in got] == [precision, coverage]
    assert all(score.explanation and score.summary for score in got)


@pytest.mark.parametrize("mark", [1, 2])
def test_a_chunk_of_an_earlier_turn_may_be_the_one_that_is_cited(mark):
    """Its number of that turn is not known; alone it does not make another sentence right."""
    said = cited(f"{LAMP[:-1]} [{mark}].", HARBOUR, carried=[LAMP])
    unsaid = cited(f"The keeper was born in Ireland [{mark}].", HARBOUR, carried=[LAMP])

    assert [said[0].value, unsaid[0].value] == [1.0, 0.0]


def test_a_chunk_in_another_script_cannot_be_compared():
    precision, coverage = cited("Лампу зажгли в 1884 году [1].")
    assert (precision.status, coverage.value) == ("undefined", 1.0)


def test_the_evidence():
    """Pairs with their shares; what is wrong and what is not cited is said."""
    precision, coverage = cited("The lamp was lit in 1884 [2]. It is red.")
    assert [(item.id, item.verdict, item.value) for item in precision.items] == [
        ("sentence-1-cites-2", False, 0.0)
    ]
    assert precision.summary == "0 of 1 citation supported; sentence-1 cites 2: 0.00"
    assert coverage.summary == "1 of 2 claims cited; sentence-2 is not"
    assert "“It is red.”" in coverage.explanation
