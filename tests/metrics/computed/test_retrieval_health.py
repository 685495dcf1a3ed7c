"""`retrieval_health`: what can be counted of the contexts alone."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import RagSample, RetrievalHealth, RetrievedContext
from ragmeter.metrics.protocol import compute_metric

TEXT = st.text(st.sampled_from(list("ab .中国Д\n")), max_size=80)


def health(*contexts, max_text_chars=None):
    sample = RagSample(question="q", contexts=contexts)
    return {s.name: s for s in compute_metric(RetrievalHealth(), sample, max_text_chars)}


def scored(*scores):
    return health(*(RetrievedContext(text="a", score=score) for score in scores))


@pytest.mark.parametrize(
    ("texts", "count", "empty", "duplicates"),
    [
        ([], 0.0, 1.0, None),
        (["a", "b", "a  "], 3.0, 0.0, 1 / 3),
        (["", " "], 2.0, 1.0, 0.5),
        (["a b\nc", "a  b c", "a c"], 3.0, 0.0, 1 / 3),
    ],
)
def test_counts(texts, count, empty, duplicates):
    """How many, whether nothing came, how much of it twice after collapsing white space."""
    got = health(*texts)
    assert [got[n].value for n in ("context_count", "empty_retrieval", "duplicate_ratio")] == (
        pytest.approx([count, empty, duplicates])
    )
    assert got["context_count"].range == (0.0, None)


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        ([], None),
        (["", " "], None),
        (["a b c d e f"], 0.0),
        (["a b c d e f", "a b c d e f"], 0.5),
        (["a b c d e f", "g h i j k l"], 0.0),
        (["a b c d e f", "b c d e f g"], 1 / 4),
        (["a b", "a b"], 0.5),
        (["灯塔高二十一米", "高二十一米的灯塔"], 1 / 7),
    ],
)
def test_runs_that_an_earlier_chunk_had(texts, share):
    """Runs of five tokens, Han characters are tokens; a shorter chunk is one run."""
    assert health(*texts)["repeated_context_ratio"].value == share


def test_a_repeat_names_the_chunk_that_had_it():
    """At least 60 % of the smaller of the two; the order of names follows what is in what."""
    whole = "one two three four five six seven eight nine ten"
    got = health("another text that has nothing in common", whole, "one two three four five six")
    score = got["repeated_context_ratio"]
    assert [(item.id, item.value, item.reason) for item in score.items] == [
        ("chunk-3", 1.0, "is to 100 % in chunk-2")
    ]
    assert score.summary == score.explanation == "chunk-3 is to 100 % in chunk-2; in all 18 %"
    larger = health("one two three four five six", whole)["repeated_context_ratio"]
    assert larger.items[0].reason == "repeats 100 % of chunk-1"


def test_context_tokens():
    """Words, and Han characters one by one."""
    assert health("Two words.", "灯塔 3.5")["context_tokens"].value == 5.0
    assert health()["context_tokens"].value == 0.0
    assert health("Two words.")["context_tokens"].summary == "2 words in 1 chunk"


@pytest.mark.parametrize(
    ("scores", "top", "spread", "label"),
    [
        ((0.9, 0.7, 0.4), 0.9, 0.5, None),
        ((0.1, 0.3), 0.1, 0.2, "distance"),
        ((-0.5, -2.0), -0.5, 1.5, None),
        ((5.0,), 5.0, None, None),
        ((1.0, 1.0), 1.0, 0.0, None),
    ],
)
def test_the_retrievers_own_scores(scores, top, spread, label):
    """The first, and how far it is to the last; rising ones are distances."""
    got = scored(*scores)
    assert got["retriever_top_score"].value == top
    assert got["retriever_score_spread"].value == (spread if spread is None else pytest.approx(spread))
    assert {got[n].label for n in ("retriever_top_score", "retriever_score_spread")} == {label}
    assert got["retriever_top_score"].range == (None, None)


@pytest.mark.parametrize("scores", [(None,), (0.9, None), (0.9, math.nan), (math.inf, 0.1)])
def test_a_score_that_is_not_told_is_missing(scores):
    """LangChain's retrievers tell none; what is no number is none."""
    got = scored(*scores)
    for name in ("retriever_top_score", "retriever_score_spread"):
        assert (got[name].status, got[name].missing) == ("missing_input", "contexts.score")
    assert got["context_count"].value == len(scores)


def test_nothing_retrieved_has_no_scores():
    assert health()["retriever_top_score"].status == "undefined"
    assert scored(1e308, -1e308)["retriever_score_spread"].status == "undefined"


def test_a_text_that_is_too_long_is_counted_but_not_read():
    """That it was retrieved is known; what stands in it is not."""
    got = health("a" * 11, "b", max_text_chars=10)
    assert got["context_count"].value == 2.0
    for name in ("repeated_context_ratio", "context_tokens"):
        assert (got[name].status, got[name].error_type) == ("skipped", "too_long")
    renamed = compute_metric(
        RetrievalHealth().prefixed("my_"), RagSample(question="q", contexts=["a" * 11]), 10
    )
    assert [s.name for s in renamed if s.status == "skipped"] == [
        "my_repeated_context_ratio",
        "my_context_tokens",
    ]


@given(st.lists(TEXT, max_size=5))
def test_every_score_is_in_range_and_says_what_it_saw(texts):
    """Without any text; a blank chunk changes no ratio of words."""
    got = health(*texts)
    for score in got.values():
        if score.value is not None:
            lowest, highest = score.range
            assert lowest is None or score.value >= lowest
            assert highest is None or score.value <= highest
            assert score.summary == score.explanation != ""
    more = health(*texts, " \n")
    for name in ("repeated_context_ratio", "context_tokens"):
        assert more[name].value == got[name].value
