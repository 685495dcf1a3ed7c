"""Fast paths over terms count what the slow ones do, to the last digit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics.computed.lexical_context_relevance import _masks
from ragmeter.metrics.text.terms import Vocabulary, absent_runs, credit

TERMS = st.sampled_from(["灯塔", "塔高", "高山", "灯", "山", "stone", "rock", "1543"])
HAN = st.sampled_from(["灯塔", "塔高", "高山", "灯", "山"])


@given(st.lists(TERMS), st.frozensets(TERMS), st.frozensets(st.sampled_from("灯塔高山")))
def test_what_is_absent_has_no_credit(
    terms: list[str], words: frozenset[str], characters: frozenset[str]
) -> None:
    there = Vocabulary(words, characters)
    absent, longest = absent_runs(terms, there)
    assert absent == [term for term in terms if not credit((term,), there)]
    marks = "".join("." if credit((term,), there) else "x" for term in terms)
    assert longest == max(map(len, marks.split(".")))


@given(st.lists(HAN), st.text("灯塔高山在\n", max_size=12), st.text("灯塔高山在\n", max_size=12))
def test_two_lines_together_have_what_either_has(han: list[str], line: str, following: str) -> None:
    """A whole pair of one of them; or half for the two characters, each in any of the two."""
    both = line + "\n" + following
    expected = sum(
        1.0 if term in both else 0.5 if term[0] in both and term[-1] in both else 0.0
        for term in han
    )
    whole, first, second = (
        a | b for a, b in zip(_masks(han, line), _masks(han, following), strict=True)
    )
    assert whole.bit_count() + (first & second & ~whole).bit_count() / 2 == expected
