"""Fast paths over terms count what the slow ones do, to the last digit."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ragmeter.metrics.computed.lexical_context_relevance import _HanTopic
from ragmeter.metrics.text.analysis import Analysis
from ragmeter.metrics.text.terms import Vocabulary, absent_runs, credit, search_terms, words_with

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


@given(st.sets(HAN), st.text("灯塔高山在\n", max_size=12), st.text("灯塔高山在\n", max_size=12))
def test_two_lines_together_have_what_either_has(han: set[str], line: str, following: str) -> None:
    """A whole pair of one of them; or half for the two characters, each in any of the two."""
    both = line + "\n" + following
    expected = sum(
        1.0 if term in both else 0.5 if term[0] in both and term[-1] in both else 0.0 for term in han
    )
    topic = _HanTopic(search_terms(han))
    (whole, parts), (others, more) = (topic.bits_in(one, topic.parts_of(han)) for one in (line, following))
    assert topic.credit(whole | others, parts | more) == expected


LETTERS = st.text("abcdeghilnosyztёеиынвшюяь'", min_size=1, max_size=12)
ENDINGS = st.sampled_from(
    (
        *("", "s", "ies", "ing", "ying", "ational", "ization", "ivity", "bility", "ably", "ied", "eedly"),
        *("ency", "ance", "ology", "ogist", "fulness", "izing", "'s", "ыми", "вшись"),
    )
)


@given(st.lists(st.tuples(LETTERS, ENDINGS).map("".join), min_size=1), st.integers(0, 11))
@example(["dying", "skies", "y"], 0)
@example(["ёлки", "probability", "灯a"], 0)
def test_the_words_with_a_term_are_those_that_stemming_all_words_finds(words: list[str], place: int) -> None:
    """Only words that begin as a term does are stemmed, in a text whose stems no one asked for yet."""
    text = " ".join(words)
    whole = Analysis(text)
    stems = dict(zip(whole.marked_tokens, whole.stems, strict=True))
    terms = frozenset([term for term in stems.values() if term][place : place + 3])
    expected = {word: term for word, term in stems.items() if term in terms}
    assert words_with(terms, [Analysis(text)] * 2) == [expected] * 2
