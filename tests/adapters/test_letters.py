"""`adapters/reading/letters.py`: what a template does to a text falls away, letters and digits stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.adapters.reading.letters import collapsed, letters_of, words_of

TEXTS = st.text() | st.text("aZ0_ .\\u&#;amp<br/>", max_size=60) | st.text("Straße «да» 、。退款\n")


@given(text=TEXTS)
def test_the_letters_are_the_words_without_what_parts_them(text):
    """By whatever way letters are taken, they are those of the words."""
    assert letters_of(text) == "".join(words_of(text))


@pytest.mark.parametrize("text", ["Refund – «soon». ", "退款，五天。", "x - y\\n"])
def test_a_long_text_has_the_letters_of_its_parts(text):
    """What is read in several goes reads as it would in one."""
    assert letters_of(text * 20_000) == letters_of(text) * 20_000


def test_a_text_of_many_different_signs_keeps_its_letters():
    """More signs than are taken out one by one."""
    signs = "".join(map(chr, range(0x2190, 0x2300)))

    assert letters_of(f"a{signs}b{signs}ц") == "abц"


def test_signs_stay_where_a_text_is_only_collapsed():
    """Single spaces, no escapes."""
    assert collapsed("-5\\n  &amp; 6") == "-5 & 6"
