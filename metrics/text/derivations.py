"""Numbers that plainly follow from others: sums, differences and rounded ones. `facts` calls this."""

from collections.abc import Collection
from decimal import Decimal


def is_sum(number: float, known: Collection[float], *, doubled: bool) -> bool:
    """Return whether a number is the sum or difference of two of these, or, if `doubled`, twice one."""
    return any(
        number + one in known or (round(number - one, 6) in known and (doubled or number != 2 * one))
        for one in known
    )


def rounds(exact: float, said: float, how: str) -> bool:
    """Return whether a number is another one, rounded or bounded.

    Args:
        exact: The other one.
        said: The number.
        how: ``least`` or ``most``: a bound; ``about``: truncated or rounded to its digits, of which a last 5
            stands for the next ones, too (about 25 for 27); ``scaled``: correctly rounded to its digits, at
            least two; ``exactly``: neither.
    """
    if how == "exactly" or abs(exact - said) > 0.5 * max(abs(exact), abs(said)):
        return False  # most numbers, at once
    _, digits, exponent = Decimal(str(said)).normalize().as_tuple()
    place = 10.0 ** int(exponent)
    if how == "scaled":
        return len(digits) > 1 and abs(exact - said) <= 0.5 * place
    most = abs(exact) * (0.1 if digits[1:] else 0.5)
    if how == "about":
        place *= 5 if digits[1:] and digits[-1] == 5 else 1
        return abs(exact - said) < min(most, place) * (1 - 1e-9)
    there = Decimal(str(exact)).normalize().as_tuple().digits
    inside = said <= exact if how == "least" else said >= exact and how == "most"
    return inside and len(digits) <= len(there) and abs(exact - said) <= most
