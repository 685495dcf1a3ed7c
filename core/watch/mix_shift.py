"""Is it worse answers, or other questions? Splits the difference of two means by the parts they are made of.

A mean falls when its parts fall, and also when a part that was always worse becomes larger.  The first is for
those who build the application, the second tells them who asks now.  Called by `ragmeter.watch.watch`; pure.

Source: Kitagawa, *Components of a Difference Between Two Rates* (1955), in its symmetric form, with which the
two add up to the whole difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ragmeter.metrics._display.mean_interval import NORMAL_QUANTILE
from ragmeter.quality.estimates import Estimate

__all__ = ["Effect", "MixChange", "mix_change"]


class Effect(NamedTuple):
    """A part of a difference, with the 95 % interval that it lies in."""

    value: float
    lower: float
    upper: float


class MixChange(NamedTuple):
    """A difference of two means, now less before, taken apart."""

    mix: Effect
    """What comes of other shares of the parts, each as good as it is on average of both times."""
    within: Effect
    """What comes of other means of the parts, each as large as it is on average of both times."""

    @property
    def total(self) -> float:
        """The whole difference, of the parts that are known."""
        return self.mix.value + self.within.value


def mix_change(before: Mapping[str, Estimate], now: Mapping[str, Estimate]) -> MixChange | None:
    """Take the difference of two means apart; None: too little is known.

    A part whose mean is known at one of the two times only is taken to be as good at the other: that it came or
    went is a change of the mix.

    Args:
        before: The parts before, which do not overlap and together are the whole.
        now: The parts since.
    """
    n_before = sum(part.n_requests for part in before.values())
    n_now = sum(part.n_requests for part in now.values())
    if not n_before or not n_now:
        return None
    mix = within = variance_mix = variance_within = 0.0
    levels: list[tuple[float, float, float]] = []
    for name in sorted({*before, *now}):
        earlier, later = before.get(name), now.get(name)
        share_before = 0.0 if earlier is None else earlier.n_requests / n_before
        share_now = 0.0 if later is None else later.n_requests / n_now
        known = [part for part in (earlier, later) if part is not None and part.mean is not None]
        if not known:
            continue
        means = [part.mean for part in known if part.mean is not None]
        level, weight = sum(means) / len(means), (share_before + share_now) / 2
        variance = sum(map(_variance, known)) / len(known) ** 2
        mix += (share_now - share_before) * level
        variance_mix += (share_now - share_before) ** 2 * variance
        levels.append((level, share_before, share_now))
        if len(known) == 2:
            within += weight * (means[1] - means[0])
            variance_within += weight**2 * sum(map(_variance, known))
    if not levels:
        return None
    for place, n in ((1, n_before), (2, n_now)):
        # Shares are counted, too: those of a multinomial.
        first = sum(one[place] * one[0] for one in levels)
        second = sum(one[place] * one[0] ** 2 for one in levels)
        variance_mix += max(0.0, second - first**2) / n
    return MixChange(_effect(mix, variance_mix), _effect(within, variance_within))


def _variance(part: Estimate) -> float:
    return ((part.upper - part.lower) / (2 * NORMAL_QUANTILE)) ** 2


def _effect(value: float, variance: float) -> Effect:
    half = NORMAL_QUANTILE * math.sqrt(variance)
    return Effect(value, value - half, value + half)
