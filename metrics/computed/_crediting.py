"""Credit each retrieved chunk with at most one golden item, and each golden item once.

Where chunks overlap, the assignment determines the number of credited chunks: `credit` finds the best one, so
that no rank depends on the order of the golden list. `RankedRetrieval` calls this; matches are found in
`matching`.
"""

from collections.abc import Sequence

MOST_STEPS = 2_000_000
"""Most matches to examine while credits are moved: about a second. Thousands of chunks that all match the
same hundreds of golden items reach it: the remaining chunks only get free items."""


def credit(matching: Sequence[Sequence[int]]) -> list[int | None]:
    """Return the golden item credited to each chunk, or None.

    Chunks are taken by rank; if all items of one are already credited, it moves the credits above it along an
    augmenting path (Berge 1957; Kuhn 1955), if there is one. No chunk loses its credit to one below it, so
    the set of credited ranks is the one that is best at every cut: it has the most hits among the first k,
    for every k, of all ways to credit (the greedy basis of a transversal matroid; Edmonds and Fulkerson
    1965). Average precision, reciprocal rank, NDCG and hit rate are therefore all at their greatest, and the
    same for every order of the golden items.

    Args:
        matching: For each chunk, best rank first, the indexes of the golden items it matches.
    """
    owner: dict[int, int] = {}
    credited: list[int | None] = [None] * len(matching)
    settled: set[int] = set()
    steps = 0
    for chunk in range(len(matching)):
        came_from: dict[int, int] = {}
        waiting = [chunk]
        free = None
        while waiting and free is None and (steps <= MOST_STEPS or waiting == [chunk]):
            holder = waiting.pop()
            steps += len(matching[holder])
            for item in matching[holder]:
                if item in settled or item in came_from:
                    continue
                came_from[item] = holder
                if item not in owner:
                    free = item
                    break
                waiting.append(owner[item])
        if free is None:
            if steps <= MOST_STEPS:
                # Everything reachable is credited for good: no later search examines it again.
                settled.update(came_from)
            continue
        moved: int | None = free
        while moved is not None:
            holder = came_from[moved]
            owner[moved] = holder
            credited[holder], moved = moved, credited[holder]
    return credited


def credit_first_free(matching: Sequence[Sequence[int]]) -> list[int | None]:
    """Return the credits of continuous-eval 0.3.14: each chunk gets the first free item it matches.

    If chunks overlap, the result depends on the order of the golden items.
    """
    taken: set[int] = set()
    credited: list[int | None] = []
    for positions in matching:
        free = next((position for position in positions if position not in taken), None)
        if free is not None:
            taken.add(free)
        credited.append(free)
    return credited
