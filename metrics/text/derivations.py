"""Numbers that plainly follow from others: sums, differences and rounded ones. `facts` calls this."""

from collections.abc import Collection
from decimal import Decimal

__all__ = ["is_sum", "rounds"]


def is_sum(number: float, known: Collection[float], *, doubled: bool) -> bool:
    """Return whether a number is the sum or difference of two of these, or, if `doubled`, twice one."""
    return any(
        number + one in known or (round(number - one, 6) in known and (doubled or number != 2 * one))
        for one in known
    )


def rounds(exact: float, said: float, *, hedged: bool) -> bool:
    """Return whether a number is the other one, rounded to its digits; if it is hedged, also truncated.

    A last digit of 5 stands for the next ones, too: about 25 for 27.
    """
    _, digits, exponent = Decimal(str(said)).normalize().as_tuple()
    place = 10.0 ** int(exponent)
    if not hedged:
        return len(digits) > 1 and abs(exact - said) <= 0.5 * place
    most = abs(exact) * (0.1 if digits[1:] else 0.5)
    place *= 5 if digits[1:] and digits[-1] == 5 else 1
    return abs(exact - said) < min(most, place) * (1 - 1e-9)
