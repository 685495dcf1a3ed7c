"""Split the difference of two means into worse parts and a changed mix of parts.

A mean falls when its parts fall (worse answers), and also when a part that was always worse grows (other
questions). Called by `ragmeter.watch.watch`; pure functions.

Source: Kitagawa, *Components of a Difference Between Two Rates* (1955), in its symmetric form: both effects
add up to the difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from ragmeter.metrics._display.mean_interval import NORMAL_QUANTILE
from ragmeter.quality.estimates import Estimate


class Effect(NamedTuple):
    """A component of a difference, with its 95 % interval."""

    value: float
    lower: float
    upper: float


class MixChange(NamedTuple):
    """The components of a difference of two means, now less before."""

    mix: Effect
    """Effect of changed shares, with each part at its mean of both times."""
    within: Effect
    """Effect of changed means, with each part at its average share of both times."""

    @property
    def total(self) -> float:
        """The difference over the known parts."""
        return self.mix.value + self.within.value


def mix_change(before: Mapping[str, Estimate], now: Mapping[str, Estimate]) -> MixChange | None:
    """Split the difference of two means; None: too little data.

    A part whose mean is known at only one time gets the same mean at the other: its arrival or departure is a
    change of the mix.

    Args:
        before: The parts before; disjoint, and together the whole.
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
        # Shares are estimates, too: of a multinomial.
        first = sum(one[place] * one[0] for one in levels)
        second = sum(one[place] * one[0] ** 2 for one in levels)
        variance_mix += max(0.0, second - first**2) / n
    return MixChange(_effect(mix, variance_mix), _effect(within, variance_within))


def _variance(part: Estimate) -> float:
    return ((part.upper - part.lower) / (2 * NORMAL_QUANTILE)) ** 2


def _effect(value: float, variance: float) -> Effect:
    half = NORMAL_QUANTILE * math.sqrt(variance)
    return Effect(value, value - half, value + half)
