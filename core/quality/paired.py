"""The mean difference of two scores of the same requests, with an always-valid interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

_BETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6)
_NARROWEST = 1e-3
_STEPS = 25


@dataclass(slots=True)
class PairedSums:
    """Sums of the differences d of two scores from 0 to 1, each of one request; sums of processes add up.

    The interval is a confidence sequence: for at most a share `alpha` of all streams the truth is ever
    outside it, at any number of looks, whatever the distribution of d in [-1, 1].

    Source: Waudby-Smith, Ramdas, *Estimating means of bounded random variables by betting* (2024), with the
    lower bound of log(1 + x) of Fan, Grama, Liu (2015), by which three sums are enough.
    """

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, difference: float) -> None:
        """Count a request.

        Raises:
            ValueError: The difference is outside [-1, 1].
        """
        if not -1.0 <= difference <= 1.0:
            raise ValueError(f"a difference of two shares is in [-1, 1], not {difference!r}")
        self.n += 1
        self.total += difference
        self.squares += difference * difference

    def merge(self, other: PairedSums) -> PairedSums:
        """Return the combined sums."""
        return PairedSums(self.n + other.n, self.total + other.total, self.squares + other.squares)

    def mean(self) -> float | None:
        """Return the mean difference; None: no request."""
        return self.total / self.n if self.n else None

    def interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """Return the ends of the interval; (-1, 1) if nothing is known."""
        return _lower(self.n, self.total, self.squares, alpha), -_lower(
            self.n, -self.total, self.squares, alpha
        )


def _log_capital(n: int, total: float, squares: float, mean: float) -> float:
    """Return the logarithm of the capital of mixed bets on a mean above `mean`."""
    room = 1 + mean
    gain = (total - n * mean) / room
    spread = (squares - 2 * mean * total + n * mean * mean) / room**2
    logs = [bet * gain + spread * (math.log(1 - bet) + bet) for bet in _BETS]
    top = max(logs)
    return top + math.log(sum(math.exp(one - top) for one in logs) / len(logs))


def _lower(n: int, total: float, squares: float, alpha: float) -> float:
    """Return the largest mean that is excluded from below; -1 if none."""
    if not n:
        return -1.0
    wanted, mean, step = math.log(2 / alpha), total / n, _NARROWEST
    while mean - step > -0.999 and _log_capital(n, total, squares, mean - step) < wanted:
        step *= 1.3
    if mean - step <= -0.999:
        return -1.0
    out, within = mean - step, mean - step / 1.3
    for _ in range(_STEPS):
        middle = (out + within) / 2
        if _log_capital(n, total, squares, middle) >= wanted:
            out = middle
        else:
            within = middle
    return out
