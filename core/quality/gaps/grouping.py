"""Group bad requests by a few words that they have in common and that the others lack.

A word seeds a group when more of the requests with it are bad than expected by chance; the group grows by the
words of its members. A pure, deterministic function of two samples: no model, no randomness, independent of
order. Called by `ragmeter.quality.gaps.gap`.

Source: ragmeter's own. The seeds are tested with the binomial tail, at a level divided by the number of words
that could pass (Tarone, *A modified Bonferroni method for discrete data*, 1990).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ragmeter.metrics._display.mean_interval import wilson_interval

MOST_GROUPS = 10
"""Most groups of one list; people do not read a longer one."""
LEVEL = 0.1
"""Highest probability that a list shows any group if bad requests are spread by chance; measured .04."""
_LEAST = 4
"""Least number of requests with a word for it to seed a group."""
_COMMONEST = 0.5
"""Largest share of all requests with a word that still names a topic: an application may have but two."""
_NEAR = 0.18
"""Least cosine of a request to its group's profile; from .12 to .25 the results are alike."""
_COMMONER = 3.0
"""Least ratio of a profile word's frequency among members to its frequency among all."""
_ROUNDS = 3
_SEEDS_TRIED = 25

Terms = Sequence[int]


class Group(NamedTuple):
    """A group, as indexes into the two samples."""

    seed: int
    """The word it began with."""
    profile: tuple[int, ...]
    """Its words, by descending weight."""
    bad: tuple[int, ...]
    """Indexes of its bad requests."""
    good: tuple[int, ...]
    """Indexes of the other requests on the same topic."""
    share: float
    """Share of its requests that are bad, 0 to 1."""
    lower: float
    """The ends of its 95 % interval."""
    upper: float


def find_groups(
    bad: Sequence[Terms], good: Sequence[Terms], *, bad_weight: float = 1.0, good_weight: float = 1.0
) -> list[Group]:
    """Return at most `MOST_GROUPS` groups, in the order in which they were found.

    Args:
        bad: The distinct terms of each bad request of a sample; their order determines only the indexes.
        good: The same of each other request.
        bad_weight: Number of requests that each bad one of the sample represents.
        good_weight: The same for each other request.
    """
    return _Search(bad, good, bad_weight, good_weight).groups() if bad else []


class _Search:
    def __init__(
        self, bad: Sequence[Terms], good: Sequence[Terms], bad_weight: float, good_weight: float
    ) -> None:
        self._weights = bad_weight, good_weight
        self._terms = bad, good
        counts = [Counter(term for terms in side for term in terms) for side in self._terms]
        total = bad_weight * len(bad) + good_weight * len(good)
        self._common = {
            term: (bad_weight * counts[0][term] + good_weight * counts[1][term]) / total
            for term in sorted(counts[0].keys() | counts[1].keys())
        }
        self._idf = {term: math.log1p(1.0 / share) for term, share in self._common.items()}
        base = len(bad) / (len(bad) + len(good))
        self._level = LEVEL / _tests((counts[0][term] + counts[1][term] for term in self._common), base)
        self._candidates = [
            term for term, share in self._common.items() if counts[0][term] >= _LEAST and share <= _COMMONEST
        ]
        self._left = counts
        """By word, the number of ungrouped requests that have it."""
        self._open = set(range(len(bad))), set(range(len(good)))
        self._places = [_places_of(side) for side in self._terms]
        self._norms = [
            [math.sqrt(math.fsum(self._idf[term] ** 2 for term in terms)) or 1.0 for terms in side]
            for side in self._terms
        ]

    def groups(self) -> list[Group]:
        found: list[Group] = []
        while len(found) < MOST_GROUPS and (seed := self._seed()) is not None:
            group, elsewhere = self._grow(seed)
            if group.lower > elsewhere:
                found.append(group)
        return found

    def _seed(self) -> int | None:
        bad, good = map(len, self._open)
        if not bad:
            return None
        base = bad / (bad + good)
        with_term = [
            (self._left[0][term], self._left[0][term] + self._left[1][term], term)
            for term in self._candidates
            if self._left[0][term] >= _LEAST
        ]
        ranked = sorted(with_term, key=lambda one: (one[1] * base - one[0], one[2]))
        for x, n, term in ranked[:_SEEDS_TRIED]:
            if x > n * base and binomial_tail(x, n, base) <= self._level:
                return term
        return None

    def _grow(self, seed: int) -> tuple[Group, float]:
        """Remove and return the group that a word seeds, with the share of bad requests before the removal."""
        seeded = self._places[0][seed] & self._open[0]
        members = seeded
        profile: dict[int, float] = {}
        for _ in range(_ROUNDS):
            profile = self._profile(members)
            grown = self._near(0, profile) | seeded
            if grown == members:
                break
            members = grown
        others = self._near(1, profile) | (self._places[1].get(seed, set()) & self._open[1])
        weighted = [weight * len(side) for weight, side in zip(self._weights, self._open, strict=True)]
        elsewhere = weighted[0] / sum(weighted)
        share, lower, upper = self._share(len(members), len(others))
        for side, taken in enumerate((members, others)):
            self._open[side].difference_update(taken)
            self._left[side].subtract(term for place in taken for term in self._terms[side][place])
        words = sorted(profile, key=lambda term: (-profile[term], term)) or [seed]
        return (
            Group(
                seed, tuple(words), tuple(sorted(members)), tuple(sorted(others)), share, lower, upper
            ),
            elsewhere,
        )  # fmt: skip

    def _profile(self, members: Iterable[int]) -> dict[int, float]:
        """Return the words, with weights, that are far more frequent among members than among all."""
        places = list(members)
        counts = Counter(term for place in places for term in self._terms[0][place])
        return {
            term: n / len(places) * self._idf[term]
            for term, n in sorted(counts.items())
            if n > 1 and n / len(places) > _COMMONER * self._common[term]
        }

    def _near(self, side: int, profile: Mapping[int, float]) -> set[int]:
        length = math.sqrt(math.fsum(weight**2 for weight in profile.values())) or 1.0
        products: defaultdict[int, float] = defaultdict(float)
        for term, weight in profile.items():
            for place in self._places[side].get(term, set()) & self._open[side]:
                products[place] += weight * self._idf[term]
        norms = self._norms[side]
        return {place for place, product in products.items() if product >= _NEAR * length * norms[place]}

    def _share(self, bad: int, good: int) -> tuple[float, float, float]:
        of_bad, of_good = self._weights
        n = bad * of_bad + good * of_good
        share = bad * of_bad / n
        # The number of equally weighted requests with the same information (Kish 1965).
        return share, *wilson_interval(share, n**2 / (bad * of_bad**2 + good * of_good**2))


def _tests(numbers: Iterable[int], base: float) -> int:
    """Return the divisor of the level, from the number of requests with each word.

    Words of so few requests that they could not seed a group even if all of them were bad do not count
    (Tarone 1990). Which words those are depends on their frequency, never on how many of their requests are
    bad.
    """
    counts = sorted(n for n in numbers if n >= _LEAST)
    for tests in range(1, len(counts) + 1):
        if base >= 1.0:
            break
        needed = math.log(LEVEL / tests) / math.log(base)
        if len(counts) - bisect_left(counts, needed) <= tests:
            return tests
    return max(1, len(counts))


def _places_of(side: Sequence[Terms]) -> dict[int, set[int]]:
    places: defaultdict[int, set[int]] = defaultdict(set)
    for place, terms in enumerate(side):
        for term in terms:
            places[term].add(place)
    return dict(places)


def binomial_tail(x: int, n: int, p: float) -> float:
    """Return the probability of `x` or more bad requests among `n`, each bad with probability `p`."""
    if p >= 1.0:
        return 1.0
    odds = math.log(p) - math.log1p(-p)
    rest = n * math.log1p(-p) + math.lgamma(n + 1)
    return math.fsum(
        math.exp(rest + k * odds - math.lgamma(k + 1) - math.lgamma(n - k + 1)) for k in range(x, n + 1)
    )
