"""Vectors of length 1, and their cosine."""

import math

import pytest

from ragmeter.metrics.embedder.vectors import BYTES_A_NUMBER, cosine, unit


def test_a_vector_has_length_one_and_four_bytes_a_number():
    made = unit([3, 4.0])

    assert list(made) == pytest.approx([0.6, 0.8])
    assert made.itemsize == BYTES_A_NUMBER


@pytest.mark.parametrize(
    "numbers", [[], [0.0, 0.0], [1.0, math.nan], [math.inf, 1.0], [1.7e308, 1.7e308, 1.7e308]]
)
def test_what_says_nothing_is_no_vector(numbers):
    with pytest.raises(ValueError, match="without length, or with a number that is not finite"):
        unit(numbers)


def test_words_are_no_numbers():
    with pytest.raises(ValueError):
        unit(["a"])
    with pytest.raises(TypeError):
        unit([None])


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [([1, 0], [2, 0], 1.0), ([1, 0], [0, 5], 0.0), ([1, 1], [-2, -2], -1.0), ([1, 0], [3, 4], 0.6)],
)
def test_cosine(one, other, value):
    assert cosine(unit(one), unit(other)) == pytest.approx(value, abs=1e-6)
    assert -1.0 <= cosine(unit(one), unit(other)) <= 1.0


def test_vectors_of_two_models_have_no_cosine():
    with pytest.raises(ValueError, match="of 2 and of 3 dimensions"):
        cosine(unit([1, 0]), unit([1, 0, 0]))
