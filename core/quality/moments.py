"""Sums over requests for means with intervals: `FreeMoments` and `JudgedMoments`.

Every sum only grows, so each is a monotonic counter, and sums of other processes and other times add up. An
estimate needs nothing else (`ragmeter.quality.estimate`): no request is stored. Called by
`ragmeter.quality.sums`; neither class is locked.

Letters: *x* is the free score of a request, *y* the judge's, both from 0 to 1; *d* is 1 if there is a *y*,
else 0; *w* is the inverse of the probability with which the request was chosen to be judged, a probability
that does not depend on the request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar, NamedTuple

from ragmeter.exporters.semconv import FREE_SUMS, JUDGED_SUMS, PAIR_SUMS


class MeasuredValues(NamedTuple):
    """The values among the sums, with their weights, for the variance."""

    weight: float
    total: float
    squared_weights: float
    squared_total: float
    squared_squares: float

    def squares(self, mean: float) -> float:
        """Return the sum of the squares of the weighted residuals from `mean`."""
        found = self.squared_squares - 2 * mean * self.squared_total
        return max(0.0, found + mean * mean * self.squared_weights)


class Clustering(NamedTuple):
    """The similarity of the values within conversations."""

    conversations: float
    """Number of conversations; a value without one counts as one."""
    design_effect: float
    """Ratio of the variance of the mean to that of independent values; at least 1. Σ over conversations of (Σ
    w (x - mean))², by Σ w² (x - mean)²: the variance of a ratio of totals of clusters (Cochran, *Sampling
    Techniques*, 1977, 9A)."""


class Moments(ABC):
    """The common part of both kinds of sums: fields that add."""

    __slots__ = tuple(PAIR_SUMS)
    names: ClassVar[Sequence[str]] = ()
    """The sums' names, in order, which are also those of the exported counters."""
    kd: float
    """Values, each counted once."""
    r: float
    """Those of them whose conversation had one before."""
    cn: float
    """Σ w w' over the values of one conversation, each pair in both orders."""
    cx: float
    """Σ w w' x, likewise."""
    cxx: float
    """Σ w w' x x', likewise."""

    def __init__(self, values: Sequence[float] | array[float] | None = None) -> None:
        for name, value in zip(self.names, values or [0.0] * len(self.names), strict=True):
            setattr(self, name, value)

    def values(self) -> array[float]:
        """Return the sums in the order of `names`."""
        return array("d", attrgetter(*self.names)(self))

    def add(self, values: Sequence[float] | array[float]) -> None:
        """Add other sums, in the order of `names`."""
        for name, value in zip(self.names, values, strict=True):
            if value:
                setattr(self, name, getattr(self, name) + value)

    def follow(
        self, weight: float, value: float, earlier: float, total: float, times: int = 1, turns: int = 1
    ) -> None:
        """Count the products of a value with the earlier ones of its conversation.

        Args:
            weight: Of the value: 1.0 for a free score, else the inverse of its probability.
            value: The value, 0 to 1; it is added elsewhere.
            earlier: Sum of the weights of the earlier values; above 0.
            total: Sum of their weighted values.
            times: Number of conversations that this one represents.
            turns: Likewise of known conversations; 0: only the question is the same.
        """
        self.r += turns
        self.cn += times * 2.0 * weight * earlier
        self.cx += times * weight * (value * earlier + total)
        self.cxx += times * 2.0 * weight * value * total

    def clustering(self) -> Clustering | None:
        """Return the similarity within conversations; None: no conversation has two values."""
        if not self.cn:
            return None
        values = self.measured_values()
        mean = values.total / values.weight
        alone = values.squares(mean)
        together = alone + self.cxx - 2 * mean * self.cx + mean * mean * self.cn
        # For conversations that began before a window only pairs are known: `r` alone would count too few.
        effective = values.weight**2 / (values.squared_weights + self.cn)
        conversations = max(self.kd - self.r, effective, 1.0)
        if not alone:
            return Clustering(conversations, 1.0)
        few = conversations / max(1.0, conversations - 1.0)
        return Clustering(conversations, max(1.0, few * together / alone))

    @abstractmethod
    def measured_values(self) -> MeasuredValues:
        """Return the values among the sums."""


class FreeMoments(Moments):
    """Sums of a score that every request gets."""

    names = tuple(FREE_SUMS)
    __slots__ = tuple(name for name in FREE_SUMS if name not in PAIR_SUMS)

    n: float
    """Requests with the inputs of the score."""
    kd: float
    """Those of them with a value."""
    x: float
    """Sum of their values."""
    xx: float
    """Sum of their squares."""
    wb: float
    """Requests for which a value exists in principle: all but the undefined ones."""
    low: float
    """Requests on the bad side of the objective; 0 without one."""

    def measured_values(self) -> MeasuredValues:
        """Return the values among the sums, all with weight 1."""
        return MeasuredValues(self.kd, self.x, self.kd, self.x, self.xx)

    def add_value(self, value: float | None, *, undefined: bool = False, low: bool = False) -> None:
        """Count a request.

        Args:
            value: The score, 0 to 1, or None.
            undefined: Whether the value is missing because the score is undefined for this request.
            low: Whether the value is on the bad side of the objective.
        """
        self.n += 1.0
        if value is not None:
            self.kd += 1.0
            self.x += value
            self.xx += value * value
            self.wb += 1.0
            if low:
                self.low += 1.0
        elif not undefined:
            self.wb += 1.0


class JudgedMoments(Moments):
    """Sums of a score that only requests chosen to be judged have."""

    names = tuple(JUDGED_SUMS)
    __slots__ = tuple(name for name in JUDGED_SUMS if name not in PAIR_SUMS)

    n: float
    """Requests with the inputs of the score, judged or not."""
    x: float
    """Sum of their free scores."""
    xx: float
    """Their squares."""
    k: float
    """Judged requests."""
    kd: float
    """Those of them with a value."""
    w: float
    """Σ w of the judged ones, an estimate of n."""
    wx: float
    """Σ w x."""
    wd: float
    """Σ w d."""
    wy: float
    """Σ w d y."""
    wl: float
    """Σ w times the lowest possible value."""
    wu: float
    """Σ w times the highest."""
    wb: float
    """Σ w of requests for which a value exists in principle: all but the undefined ones."""
    q: float
    """Σ w²."""
    qx: float
    """Σ w² x."""
    qxx: float
    """Σ w² x²."""
    qd: float
    """Σ w² d."""
    qxd: float
    """Σ w² d x."""
    qy: float
    """Σ w² d y."""
    qyy: float
    """Σ w² d y²."""
    qxy: float
    """Σ w² d x y."""
    c: float
    """Judged requests with a value that were chosen at random, without those chosen only as bad."""
    y: float
    """Their Σ y, without weights, for the detection of changes."""
    yy: float
    """Their Σ y²."""
    low: float
    """Σ w d of the requests on the bad side of the objective; 0 without one."""

    def measured_values(self) -> MeasuredValues:
        """Return the values among the sums, by weight."""
        return MeasuredValues(self.wd, self.wy, self.qd, self.qy, self.qyy)

    def add_request(self, x: float) -> None:
        """Count a request with the inputs of the score, judged or not; `x` is its free score."""
        self.n += 1.0
        self.x += x
        self.xx += x * x

    def judged(
        self,
        x: float,
        probability: float,
        y: float | None,
        *,
        lower: float = 0.0,
        upper: float = 1.0,
        undefined: bool = False,
        low: bool = False,
        by_chance: bool = True,
    ) -> None:
        """Count a request that was chosen to be judged.

        Args:
            x: As passed to `add_request`.
            probability: Of being selected; independent of the request, 1.0 for one selected as bad.
            y: The judge's score, 0 to 1; None: no value.
            lower: Lowest possible value, for a missing one.
            upper: Highest possible value, for a missing one.
            undefined: Whether the value is missing because the score is undefined for this request.
            low: Whether the judge's score is on the bad side of the objective.
            by_chance: Whether the random selection alone would have chosen the request.
        """
        w = 1.0 / probability
        q = w * w
        wx, qx = w * x, q * x
        self.k += 1.0
        self.w += w
        self.wx += wx
        self.q += q
        self.qx += qx
        self.qxx += qx * x
        if y is None:
            if not undefined:
                self.wb += w
                self.wl += w * lower
                self.wu += w * upper
            return
        wy, qy = w * y, q * y
        self.kd += 1.0
        self.wd += w
        self.wy += wy
        self.wb += w
        self.wl += wy
        self.wu += wy
        self.qd += q
        self.qxd += qx
        self.qy += qy
        self.qyy += qy * y
        self.qxy += qy * x
        if low:
            self.low += w
        if by_chance:
            self.c += 1.0
            self.y += y
            self.yy += y * y
