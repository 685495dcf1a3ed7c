"""Lengths of common subsequences: many at once as one by one, with and without rapidfuzz's table."""

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from ragmeter.metrics.text import analyse, encoding, forget_texts, subsequences
from ragmeter.metrics.text.encoding import encode, encoded_pair
from ragmeter.metrics.text.subsequences import lcs_rows

WRITTEN = st.text(st.sampled_from("\x01\x02ab\xffЖ\ud800\U0001f600"), max_size=30)
PROSE = st.lists(st.sampled_from("a b c. A d, 3.5 Ж \n …".split(" ")), max_size=12).map(" ".join)


def one_by_one(ones, others):
    return [[LCSseq.similarity(one, other) for other in others] for one in ones]


@given(st.lists(WRITTEN, max_size=6), st.lists(WRITTEN, max_size=6))
@example(["ab" * 200], ["ba" * 200, ""])
@example(["a" * 255, "b"], ["a" * 300])
@example(["a" * 256, "b"], ["a" * 300])
def test_many_pairs_at_once_are_compared_as_one_by_one(ones, others):
    """Whatever the characters and lengths, the numbers are those of single comparisons."""
    assert list(map(list, lcs_rows(ones, others))) == one_by_one(ones, others)


@given(st.lists(WRITTEN, max_size=6), st.lists(WRITTEN, max_size=6))
def test_where_rapidfuzz_has_no_table_pairs_are_compared_singly(ones, others):
    """Other versions of rapidfuzz give the same numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subsequences, "_TABLE", None)
        assert list(map(list, lcs_rows(ones, others))) == one_by_one(ones, others)


@given(st.lists(WRITTEN, max_size=6), st.lists(WRITTEN, max_size=6), st.integers(1, 40))
def test_the_table_is_made_in_blocks(ones, others, most):
    """However little is held or done at a time, no row is lost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subsequences, "_MOST_LENGTHS", most)
        assert list(map(list, lcs_rows(ones, others))) == one_by_one(ones, others)


def test_the_table_of_rapidfuzz_needs_no_numpy():
    """The installed rapidfuzz has what makes matching fast, and nothing heavy is imported for it."""
    code = (
        "import sys; from ragmeter.metrics.text import subsequences as s; "
        "list(s.lcs_rows(['a'], ['b'])); sys.exit(s._TABLE is None or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.lists(PROSE, max_size=3), st.lists(PROSE, max_size=3), st.booleans())
def test_texts_are_encoded_once_for_sentences_and_chunks(golden, retrieved, sentences_first):
    """Lengths are those of the token lists, whichever of the two was asked for first."""
    forget_texts()
    pair = encoded_pair(golden, retrieved)
    if sentences_first:
        assert len(pair.sentences[1]) == sum(len(analyse(text).sentences) for text in retrieved)
    wanted, found = pair.chunks
    assert encoded_pair(golden, retrieved) is pair
    for one, text in zip(wanted, golden, strict=True):
        assert len(one) == len(analyse(text).tokens)
        for other, context in zip(found, retrieved, strict=True):
            expected = LCSseq.similarity(analyse(text).tokens, analyse(context).tokens)
            assert LCSseq.similarity(one, other) == expected


def test_the_latest_texts_are_forgotten_with_the_others():
    """What was written for a request does not outlive `forget_texts`, nor the next request."""
    pair = encoded_pair(["a"], ["b"])
    assert encoded_pair(("a",), ("b",)) is pair
    forget_texts()
    assert encoded_pair(["a"], ["b"]) is not pair
    latest = encoded_pair(["a"], ["c"])
    encoded_pair(["a"], ["d"])
    assert encoded_pair(["a"], ["c"]) is not latest


def test_more_tokens_than_there_are_characters_are_an_error(monkeypatch):
    """A text that no alphabet holds is refused, not matched wrongly."""
    monkeypatch.setattr(encoding, "_ALPHABET_SIZE", 4)
    assert encode([["a", "b", "c"]], [["c", "x"]]) == (["\x01\x02\x03"], ["\x03"])
    with pytest.raises(ValueError, match="distinct tokens"):
        encode([["a", "b", "c", "d"]], [])
