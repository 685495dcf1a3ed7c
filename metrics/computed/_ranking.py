"""Rank arithmetic on relevance verdicts: average precision, reciprocal rank, NDCG.

Public pure functions; `ranked_retrieval`, `lexical_context_precision` and the judged context precision call
them. A list of relevances is in rank order, best rank first.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from itertools import product

_MOST_REPEATED = 10
"""Most repeated unknowns to fill exactly: each one doubles the work."""


def average_precision(relevances: Sequence[bool | int], total_relevant: int | None = None) -> float | None:
    """Return the mean of precision@k over the ranks k of relevant items.

        sum over k of v_k * (hits_k / k), divided by the number of relevant items

    Args:
        relevances: v_k, 0 or 1 per rank.
        total_relevant: Relevant items that exist. None: those among the ranked ones (context
            precision@K, as ragas 0.4.3 without its epsilon); a number: textbook average precision.

    Returns:
        0.0 to 1.0. None when nothing is ranked and `total_relevant` is None, or when it is 0.

    Raises:
        ValueError: A relevance is not 0 or 1, or more items are relevant than exist.
    """
    hits = 0
    total = 0.0
    for rank, relevant in enumerate(relevances, start=1):
        if relevant not in (0, 1):
            raise ValueError(f"relevance at rank {rank} is {relevant!r}; it is 0 or 1")
        if relevant:
            hits += 1
            total += hits / rank
    if total_relevant is None:
        if not relevances:
            return None
        return total / hits if hits else 0.0
    _check_total(hits, total_relevant)
    return total / total_relevant if total_relevant else None


def average_precision_bounds(
    relevances: Sequence[bool | int | None],
    total_relevant: int | None = None,
    *,
    shared: Sequence[Hashable] | None = None,
) -> tuple[float, float] | None:
    """Return the least and the greatest average precision over every way to fill the unknowns.

    Average precision is not monotone in its verdicts, so filling all unknowns alike is wrong.
    This keeps, for each number of hits, the least and the greatest sum reached so far:
    quadratic in the number of ranks, and exact.

    Args:
        relevances: 0, 1, or None for unknown, per rank.
        total_relevant: As in `average_precision`; fillings with more hits do not count.
        shared: The judged text, per rank: unknowns of equal texts are one unknown (a repeated chunk is useful
            at every rank or at none). None: each rank has its own. Exact for up to 10 repeated unknowns; of
            more, those with most repeats share, and the bounds are wide.

    Returns:
        Both bounds, equal if nothing is unknown, or None if `average_precision` is None.
    """
    for rank, relevant in enumerate(relevances, start=1):
        if relevant not in (0, 1, None):
            raise ValueError(f"relevance at rank {rank} is {relevant!r}; it is 0, 1 or None")
    if not relevances and total_relevant is None:
        return None
    if total_relevant is not None:
        _check_total(sum(1 for relevant in relevances if relevant), total_relevant)
        if total_relevant == 0:
            return None
    repeated = _repeated_unknowns(relevances, shared)
    found = [
        _independent_bounds(filled, total_relevant)
        for filled in _fillings(relevances, repeated)
        if total_relevant is None or sum(map(bool, filled)) <= total_relevant
    ]
    return min(least for least, _ in found), max(greatest for _, greatest in found)


def _fillings(
    relevances: Sequence[bool | int | None], repeated: Sequence[Sequence[int]]
) -> Iterator[list[bool | int | None]]:
    """Yield `relevances` with the repeated unknowns filled in all possible ways."""
    for verdicts in product((False, True), repeat=len(repeated)):
        filled = list(relevances)
        for verdict, ranks in zip(verdicts, repeated, strict=True):
            for rank in ranks:
                filled[rank] = verdict
        yield filled


def _repeated_unknowns(
    relevances: Sequence[bool | int | None], shared: Sequence[Hashable] | None
) -> list[list[int]]:
    """Return the indexes of each unknown that occurs at several ranks."""
    positions: dict[Hashable, list[int]] = {}
    if shared is not None:
        for position, (relevant, judged) in enumerate(zip(relevances, shared, strict=True)):
            if relevant is None:
                positions.setdefault(judged, []).append(position)
    repeated = [ranks for ranks in positions.values() if len(ranks) > 1]
    return sorted(repeated, key=len, reverse=True)[:_MOST_REPEATED]


def _independent_bounds(
    relevances: Sequence[bool | int | None], total_relevant: int | None
) -> tuple[float, float]:
    least: dict[int, float] = {0: 0.0}
    greatest: dict[int, float] = {0: 0.0}
    for rank, relevant in enumerate(relevances, start=1):
        if relevant == 0 and relevant is not None:
            continue
        least = _step(least, rank, relevant is None, min)
        greatest = _step(greatest, rank, relevant is None, max)
    if total_relevant is None:
        return (
            min(total / hits if hits else 0.0 for hits, total in least.items()),
            max(total / hits if hits else 0.0 for hits, total in greatest.items()),
        )
    return (
        min(total / total_relevant for hits, total in least.items() if hits <= total_relevant),
        max(total / total_relevant for hits, total in greatest.items() if hits <= total_relevant),
    )


def _step(
    sums: dict[int, float], rank: int, unknown: bool, choose: Callable[[float, float], float]
) -> dict[int, float]:
    moved = {hits + 1: total + (hits + 1) / rank for hits, total in sums.items()}
    if unknown:
        for hits, total in sums.items():
            moved[hits] = choose(moved[hits], total) if hits in moved else total
    return moved


def reciprocal_rank(relevances: Sequence[bool | int]) -> float:
    """Return 1 / the rank of the first relevant item, 0.0 if there is none."""
    for rank, relevant in enumerate(relevances, start=1):
        if relevant:
            return 1 / rank
    return 0.0


def ndcg(relevances: Sequence[float], total_relevant: int | None = None) -> float | None:
    """Return NDCG@K: the discounted gain of K ranks as a share of the best that K ranks can have.

        sum over k = 1 ... K of v_k / log2(k + 1), divided by the same sum for the ideal order

    Args:
        relevances: Gains per rank, at least 0; with `total_relevant`, 0 or 1.
        total_relevant: Relevant items that exist; the ideal has them on the first
            ``min(K, total_relevant)`` ranks. None: the ideal is the given gains, sorted.

    Returns:
        0.0 to 1.0, or None when the ideal gain is 0 (nothing relevant exists). A ranking of
        nothing, while something relevant exists, is 0.0.

    Raises:
        ValueError: A gain is negative, or more items are relevant than exist.
    """
    verdicts = set(map(type, relevances)) <= {bool}  # most lists: no need to check each item
    if not verdicts and any(not gain >= 0 for gain in relevances):
        raise ValueError("gains are at least 0")
    gained = _discounted_gain(relevances)
    if total_relevant is None:
        ideal = _discounted_gain(sorted(relevances, reverse=True))
        return gained / ideal if ideal else None
    if not verdicts and any(gain not in (0, 1) for gain in relevances):
        raise ValueError("with total_relevant, every relevance is 0 or 1")
    _check_total(sum(map(bool, relevances)), total_relevant)
    if total_relevant == 0:
        return None
    ideal = _ideal(min(len(relevances), total_relevant))
    return gained / ideal if ideal else 0.0


def ndcg_bounds(
    relevances: Sequence[bool | None], *, shared: Sequence[Hashable] | None = None
) -> tuple[float, float] | None:
    """Return the least and the greatest NDCG over every way to fill the unknowns.

    The ideal order is that of the given gains, and no relevant item at all is 0.0. For each number of
    relevant ones among the unknowns the extremes have them on the first and on the last ranks.

    Args:
        relevances: True, False, or None for unknown, per rank.
        shared: As in `average_precision_bounds`.

    Returns:
        Both bounds, equal if nothing is unknown, or None if nothing is ranked.
    """
    if not relevances:
        return None
    found: list[float] = []
    for filled in _fillings(relevances, _repeated_unknowns(relevances, shared)):
        unknown = [rank for rank, relevant in enumerate(filled) if relevant is None]
        known = [bool(relevant) for relevant in filled]
        for count in range(len(unknown) + 1):
            for chosen in (unknown[:count], unknown[len(unknown) - count :]):
                verdicts = [relevant or rank in chosen for rank, relevant in enumerate(known)]
                found.append(ndcg(verdicts) or 0.0)
    return min(found), max(found)


def _discounted_gain(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain)


@lru_cache(maxsize=1024)
def _ideal(count: int) -> float:
    return _discounted_gain([1.0] * count)


def _check_total(hits: int, total_relevant: int) -> None:
    if hits > total_relevant:
        raise ValueError(f"{hits} items are relevant, but only {total_relevant} exist")
