"""Evidence for a mean below a floor: an e-detector on sums, and e-BH over many detectors.

`FallEvidence` takes the sums of one block of requests at a time. If each block's expected mean, given the
blocks before, is not below its floor, and requests within a block are independent, evidence reaches a limit
of A after A blocks on average, or later, for any distribution of scores and any traffic. Called by
`ragmeter.watch.change`.

Sources: Shin, Ramdas, Rinaldo, *E-detectors* (2023), with the sum over starting times of Shiryaev and Roberts;
Fan, Grama, Liu, *Exponential inequalities for martingales with applications* (2015), for the bound that needs
sums alone; Wang, Ramdas, *False discovery rate control with e-values* (2022); Page (1954) for the start.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, TypeVar

from pydantic import Field

K = TypeVar("K", bound=Hashable)

BETS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6)
"""Shares of the largest loss on one score; small bets detect small falls, large bets detect large falls
early."""
_LOGS = tuple((bet, math.log1p(-bet), math.log1p(-bet) + bet) for bet in BETS)
ALARM_EVIDENCE = 8064.0
"""Five-minute blocks in four weeks: the mean time to a false alarm is at least that."""
LARGEST = 1e15
"""Cap of the evidence, so that it can fall again."""
LARGEST_LOG = 700.0
"""Cap of a factor's logarithm: a float holds its exponential."""
NEAREST = 1e-6
"""Least distance of a floor from 0 and 1."""


class Block(NamedTuple):
    """The scores of one block of time, usually five minutes; scores lie between 0 and 1, more is better."""

    n: float
    """Number of scores; of judged ones only those sampled by hash."""
    total: float
    """Their sum."""
    squares: float
    """The sum of their squares."""

    def mirror(self) -> Block:
        """Return the block of 1 - score, for scores where lower is better."""
        return Block(self.n, self.n - self.total, self.n - 2 * self.total + self.squares)


class Path(NamedTuple):
    """The scores since the estimated start of a fall."""

    since: float
    """Estimated start, Unix seconds."""
    n: float
    mean: float
    usual: float
    """The usual mean in the same hours, with the same weights."""
    log: float
    """Logarithm of the evidence for this start alone; 0 or less: no evidence for a fall."""


def block_factors(block: Block, floor: float) -> list[float]:
    """Return, for each bet, a lower bound of Σ log(1 + λ (floor - score)) over a block.

    With λ = bet / (1 - floor). The larger of two bounds: the chord of a concave function, exact for scores
    of 0 and 1, and that of Fan, Grama and Liu, which is better where scores lie close together.

    Args:
        block: Its sums.
        floor: Between 0 and 1.
    """
    n, total, squares = block
    floor = min(max(floor, NEAREST), 1.0 - NEAREST)
    rest = 1.0 - floor
    odds = floor / rest
    short = (n * floor - total) / rest
    spread = (n * floor * floor - 2 * floor * total + squares) / (rest * rest)
    above = n - total
    log1p = math.log1p
    return [
        max(above * log1p(bet * odds) + total * log, bet * short + spread * bound) for bet, log, bound in _LOGS
    ]


class _Mark(NamedTuple):
    """A time, with the sums up to it."""

    at: float
    n: float
    total: float
    usual: float


_NOTHING = _Mark(0.0, 0.0, 0.0, 0.0)
T = TypeVar("T")
_PerBet = Annotated[list[T], Field(min_length=len(BETS), max_length=len(BETS))]


@dataclass(slots=True)
class FallEvidence:
    """Evidence that a mean lies below a floor since some time or other."""

    counted: _Mark = _NOTHING
    """All scores so far."""
    factors: _PerBet[float] = field(default_factory=lambda: [0.0] * len(BETS))
    """For each bet, the evidence over all starts."""
    logs: _PerBet[float] = field(default_factory=lambda: [0.0] * len(BETS))
    """For each bet, the logarithm of the evidence for its most likely start,"""
    starts: _PerBet[_Mark] = field(default_factory=lambda: [_NOTHING] * len(BETS))
    """and that start."""

    @property
    def total(self) -> float:
        """The evidence: the mean over the bets."""
        return sum(self.factors) / len(BETS)

    @property
    def path(self) -> Path | None:
        """The scores since the most likely start; None: no scores."""
        log, start = max(zip(self.logs, self.starts, strict=True))
        _, n, total, usual = self.counted
        n -= start.n
        if not n:
            return None
        return Path(start.at, n, (total - start.total) / n, (usual - start.usual) / n, log)

    def add(self, at: float, block: Block, *, floor: float, usual: float, design_effect: float = 1.0) -> None:
        """Add a block of scores.

        Args:
            at: When it began, Unix seconds.
            block: Its sums, of one score or more.
            floor: The evidence is for a mean below this.
            usual: Their usual mean; used by `path` only.
            design_effect: Variance of the sum relative to independent scores.
        """
        factors, logs, starts = self.factors, self.logs, self.starts
        _, n_before, total_before, usual_before = self.counted
        start = _Mark(at, n_before, total_before, usual_before)
        self.counted = _Mark(at, n_before + block.n, total_before + block.total, usual_before + usual * block.n)
        for index, log in enumerate(block_factors(block, floor)):
            tempered = log / design_effect
            grown = (factors[index] + 1.0) * math.exp(min(tempered, LARGEST_LOG))
            factors[index] = min(grown, LARGEST)
            if logs[index] > 0.0:
                logs[index] += tempered
            else:
                logs[index] = tempered
                starts[index] = start


def e_bh(evidence: Mapping[K, float], limit: float = ALARM_EVIDENCE) -> frozenset[K]:
    """Return the keys to alarm: the largest set of j whose evidence is at least K · `limit` / j.

    If nothing changed, the first false alarm of all K keys comes, on average, no sooner than `limit` blocks:
    an alarm implies that the mean of all evidence is at least `limit`, and that mean is an e-detector itself.

    Args:
        evidence: The evidence of all K keys at the same time, also where it is 0.
        limit: The evidence at which a single key alarms.
    """
    ordered = sorted(evidence.values(), reverse=True)
    least = math.inf
    for number, value in enumerate(ordered, 1):
        if value * number >= limit * len(ordered):
            least = value
    return frozenset(key for key, value in evidence.items() if value >= least)
