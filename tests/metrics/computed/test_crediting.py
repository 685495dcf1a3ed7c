"""The golden list is a set: who is credited with what does not depend on its order."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import (
    MatchingStrategy,
    RagSample,
    RankedRetrieval,
    Reference,
    average_precision,
    evaluate,
    ndcg,
    reciprocal_rank,
)
from ragmeter.metrics.computed._crediting import credit

MATCHINGS = st.integers(1, 5).flatmap(
    lambda golden: st.lists(st.lists(st.integers(0, golden - 1), unique=True, max_size=golden), max_size=6)
)
WORDS = st.lists(st.sampled_from("маяк lamp 塔 bridge 1884 остров keeper".split()), max_size=6)
CHUNKS = st.lists(WORDS.map(" ".join), max_size=6)


def every_way(matching):
    """All ways to credit chunks with items, each item once."""
    for way in itertools.product(*[[None, *items] for items in matching]):
        used = [item for item in way if item is not None]
        if len(used) == len(set(used)):
            yield way


@given(MATCHINGS, st.integers(0, 3))
def test_the_credit_is_the_best_of_all(matching, more):
    """By brute force: no way to credit gives a greater AP, RR, NDCG or hit rate."""
    found = credit(matching)
    assert all(item is None or item in items for item, items in zip(found, matching, strict=True))
    used = [item for item in found if item is not None]
    assert len(used) == len(set(used))

    total = len({item for items in matching for item in items}) + more
    relevances = [item is not None for item in found]
    for other in every_way(matching):
        rival = [item is not None for item in other]
        assert reciprocal_rank(relevances) >= reciprocal_rank(rival)
        assert sum(relevances) >= sum(rival)
        if total:
            assert average_precision(relevances, total) >= average_precision(rival, total) - 1e-12
            assert ndcg(relevances, total) >= ndcg(rival, total) - 1e-12


@given(CHUNKS, CHUNKS, st.randoms(), st.sampled_from([0.3, 0.5, 0.7]))
def test_ranks_do_not_depend_on_the_order_of_the_golden_list(retrieved, golden, random, threshold):
    """Also when one chunk matches several golden texts and one golden text several chunks."""
    metric = RankedRetrieval(threshold=threshold)

    def values(texts):
        sample = RagSample(question="q", contexts=retrieved, reference=Reference(contexts=texts))
        return {name: s.value for name, s in evaluate([sample], [metric])[0].items()}

    expected = values(golden)
    for _ in range(3):
        assert values(random.sample(golden, len(golden))) == expected
    assert values([*golden, *golden]) == expected


@pytest.mark.parametrize("golden", [["a b", "a b c"], ["a b c", "a b"]])
def test_an_overlapping_chunk_takes_what_the_others_leave(golden):
    """The first chunk holds both golden texts, the second only the short one: both count."""
    sample = RagSample(question="q", contexts=["a b c", "a b"], reference=Reference(contexts=golden))
    (scores,) = evaluate([sample], [RankedRetrieval(threshold=1.0)])
    assert [score.value for score in scores.values()] == [1.0, 1.0, 1.0, 1.0]


def test_ndcg_is_cut_at_k():
    """Five golden texts, one chunk retrieved, and it is golden: no ranking of one does better."""
    sample = RagSample(question="q", contexts=["a"], reference=Reference(contexts=list("abcde")))
    (scores,) = evaluate([sample], [RankedRetrieval("rouge_chunk_match")])
    assert scores["ndcg"].value == 1.0
    assert scores["average_precision"].value == pytest.approx(0.2)
    two = sample.model_copy(update={"contexts": RagSample(question="q", contexts=["x", "a"]).contexts})
    (scores,) = evaluate([two], [RankedRetrieval("rouge_chunk_match")])
    assert scores["ndcg"].value == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))


def test_a_crowd_of_equal_chunks_is_credited_in_bounded_time():
    """Two thousand chunks that each match the same three hundred golden items."""
    items = list(range(300))
    found = credit([items] * 2000)
    assert found[:300] == items
    assert found[300:] == [None] * 1700


def test_equal_golden_texts_in_two_layouts_are_one():
    """Wrapped and unwrapped, a golden text counts once."""
    golden = ["The lamp was lit\nin 1884.", "The lamp was lit in 1884."]
    for strategy in (MatchingStrategy.EXACT_CHUNK_MATCH, MatchingStrategy.ROUGE_CHUNK_MATCH):
        sample = RagSample(question="q", contexts=[golden[1]], reference=Reference(contexts=golden))
        (scores,) = evaluate([sample], [RankedRetrieval(strategy)])
        assert {score.value for score in scores.values()} == {1.0}


def test_a_repeated_chunk_is_credited_once_although_it_holds_two_golden_texts():
    both, one = "The lamp was lit in 1884. The keeper left the island.", "The keeper left the island."
    sample = RagSample(question="q", contexts=[both, both], reference=Reference(contexts=[both, one]))
    [row] = evaluate([sample], [RankedRetrieval("rouge_chunk_match")])
    assert row["average_precision"].value == 0.5
    assert [item.verdict for item in row["average_precision"].items] == [True, False]
