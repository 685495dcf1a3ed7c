"""Sums over requests from which means with intervals follow: `FreeMoments` and `JudgedMoments`.

Every sum only grows, so each is a monotonic counter, and sums of other processes and other times add
up.  They are all that an estimate needs (`ragmeter.quality.estimate`): no request is remembered.  Called by
`ragmeter.quality.sums`; neither class is locked.

Letters: *x* is what is known of a request for free, *y* what the judge says, both from 0 to 1; *d* is 1
when there is a *y* and 0 when there is none; *w* is the inverse of the probability with which the
request was chosen to be judged, a probability that does not depend on the request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar, NamedTuple

from ragmeter.exporters.semconv import FREE_SUMS, JUDGED_SUMS, PAIR_SUMS

__all__ = ["Clustering", "FreeMoments", "JudgedMoments", "MeasuredValues", "Moments"]


class MeasuredValues(NamedTuple):
    """The values among the sums, by weight: what says how much they vary."""

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
    """How alike the values of one conversation are."""

    conversations: float
    """How many there are; a value that belongs to none is one by itself."""
    design_effect: float
    """How much larger the variance of the mean is than of independent values; at least 1.

    Σ over conversations of (Σ w (x - mean))², by Σ w² (x - mean)²: the variance of a ratio of totals of
    clusters (Cochran, *Sampling Techniques*, 1977, 9A).
    """


class Moments(ABC):
    """What both kinds of sums have in common: fields that add."""

    __slots__ = tuple(PAIR_SUMS)
    names: ClassVar[Sequence[str]] = ()
    """The sums' names, in order; those of the counters that are exported."""
    kd: float
    """Values, each counted once."""
    r: float
    """Those of them whose conversation had one before."""
    cn: float
    """Σ w w' over the values of one conversation, each pair both ways round."""
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
        self, weight: float, value: float, earlier: float, total: float, *, is_turn: bool = True
    ) -> None:
        """Count how a value goes together with the earlier ones of its conversation.

        Args:
            weight: Of the value: 1.0 for a free score, else the inverse of its probability.
            value: The value, 0 to 1; it is counted by itself elsewhere.
            earlier: The weights of the earlier ones, added up; above 0.
            total: Their weighted values, added up.
            is_turn: It is known to be of their conversation; False: it asks the same, of whom nothing is known.
        """
        if is_turn:
            self.r += 1.0
        self.cn += 2.0 * weight * earlier
        self.cx += weight * (value * earlier + total)
        self.cxx += 2.0 * weight * value * total

    def clustering(self) -> Clustering | None:
        """Return how alike the values of one conversation are; None: no conversation has two."""
        if not self.cn:
            return None
        values = self.measured_values()
        mean = values.total / values.weight
        alone = values.squares(mean)
        together = alone + self.cxx - 2 * mean * self.cx + mean * mean * self.cn
        # Of conversations that began before a window only pairs are known: `r` alone would count too few.
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
    """Sums of a score that every request gets.

    Attributes:
        n: Requests that had what the score needs.
        kd: Those of them with a value.
        x: Their values added up.
        xx: Their squares added up.
        wb: Requests for which a value exists in principle: all but the undefined ones.
        low: Requests on the bad side of the objective; 0 without one.
    """

    names = tuple(FREE_SUMS)
    __slots__ = tuple(name for name in FREE_SUMS if name not in PAIR_SUMS)

    n: float
    kd: float
    x: float
    xx: float
    wb: float
    low: float

    def measured_values(self) -> MeasuredValues:
        """Return the values among the sums; they all weigh 1."""
        return MeasuredValues(self.kd, self.x, self.kd, self.x, self.xx)

    def add_value(self, value: float | None, *, undefined: bool = False, low: bool = False) -> None:
        """Count a request.

        Args:
            value: The score, 0 to 1, or None.
            undefined: There is no value because the score is not defined for this request.
            low: The value is on the bad side of the objective.
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
    """Sums of a score that only requests have that were chosen to be judged.

    Attributes:
        n: Requests that had what the score needs, judged or not.
        x: Their free scores added up.
        xx: Their squares.
        k: Judged requests.
        kd: Those of them with a value.
        w: Σ w of the judged ones, an estimate of n.
        wx: Σ w x.
        wd: Σ w d.
        wy: Σ w d y.
        wl: Σ w times the lowest value that is possible.
        wu: Σ w times the highest.
        wb: Σ w of requests for which a value exists in principle: all but the undefined ones.
        q: Σ w².
        qx: Σ w² x.
        qxx: Σ w² x².
        qd: Σ w² d.
        qxd: Σ w² d x.
        qy: Σ w² d y.
        qyy: Σ w² d y².
        qxy: Σ w² d x y.
        c: Judged requests with a value that chance alone chose: none that was kept for being bad only.
        y: Their Σ y, without weights: what changes are looked for in.
        yy: Their Σ y².
        low: Σ w d of the requests on the bad side of the objective; 0 without one.
    """

    names = tuple(JUDGED_SUMS)
    __slots__ = tuple(name for name in JUDGED_SUMS if name not in PAIR_SUMS)

    n: float
    x: float
    xx: float
    k: float
    kd: float
    w: float
    wx: float
    wd: float
    wy: float
    wl: float
    wu: float
    wb: float
    q: float
    qx: float
    qxx: float
    qd: float
    qxd: float
    qy: float
    qyy: float
    qxy: float
    c: float
    y: float
    yy: float
    low: float

    def measured_values(self) -> MeasuredValues:
        """Return the values among the sums, by weight."""
        return MeasuredValues(self.wd, self.wy, self.qd, self.qy, self.qyy)

    def add_request(self, x: float, weight: float = 1.0) -> None:
        """Count a request that had what the score needs, judged or not.

        Args:
            x: What is known of it for free.
            weight: So many requests it stands for, where those like it are not known.
        """
        self.n += weight
        self.x += weight * x
        self.xx += weight * x * x

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
            x: What `add_request` was given for it.
            probability: Of being selected; independent of the request, 1.0 for one selected as bad.
            y: What the judge said, 0 to 1; None: it gave no value.
            lower: Without a value: the lowest that is possible.
            upper: The highest, likewise.
            undefined: There is no value because the score is not defined for this request.
            low: What the judge said is on the bad side of the objective.
            by_chance: Chance alone would have chosen the request, whether it is bad or not.
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
