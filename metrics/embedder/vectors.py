"""Vectors of length 1, in the form for comparison and caching: four bytes a number, without numpy.

`Embedder` makes them from a model's output; a vector without a direction is refused here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from operator import mul
from typing import TypeAlias

Vector: TypeAlias = "array[float]"
"""A vector of length 1, in single precision."""

BYTES_A_NUMBER = 4


def unit(numbers: Iterable[float]) -> Vector:
    """Return `numbers` as a vector of length 1.

    Args:
        numbers: A list, an array, a numpy vector.

    Raises:
        ValueError: The vector is empty, all numbers are 0, or one is not finite.
        TypeError: They are not numbers.
    """
    given = [float(number) for number in numbers]
    length = math.hypot(*given)
    if not length or not math.isfinite(length):
        raise ValueError("a vector without length, or with a number that is not finite")
    return array("f", [number / length for number in given])


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of length 1, from -1.0 to 1.0.

    Raises:
        ValueError: They have different numbers of dimensions.
    """
    if len(one) != len(other):
        raise ValueError(f"vectors of {len(one)} and of {len(other)} dimensions")
    return max(-1.0, min(1.0, math.fsum(map(mul, one, other))))
