"""Knowledge gaps: groups of bad requests with a name, a share with its interval, and the cause.

`list_gaps` computes the list from the samples of `ragmeter.quality.gaps.memory`, or from those that the
server reads from its store. The same samples give the same list. Not detected: topics of fewer than some ten
bad requests, one meaning in different words, questions that only their conversation explains, and answers
that are wrong but well supported. About half of a topic's requests are missing from its group.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

from ragmeter.metrics._display.wording import percent
from ragmeter.metrics.text.analysis import analyse
from ragmeter.metrics.text.question_words import CHINESE_FUNCTION, topic_terms
from ragmeter.metrics.text.terms import as_written
from ragmeter.metrics.text.tokens import is_han

from .chunks import ChunkSearch, ChunkTerms, hash_of
from .grouping import Group, find_groups
from .sample import WHOLE, Asked, Sample

Diagnosis = Literal["missing_from_corpus", "retriever_misses", "refuses_although_found", "unclear"]
"""The cause of a gap: missing documents, a retriever that does not find them, a model that does not use
them."""

TOO_MANY = 0.4
"""With a higher share of bad requests no topic stands out from the rest: the list is empty."""
MOST_EXAMINED = 3_000
"""Most requests of each kind, bad and other, that a list examines."""
_LEAST_MEMBERS = 5
"""Least number of bad requests of a group for a diagnosis."""
_ON_TOPIC = 0.60
"""Least relevance at which a refused request had the documents it needed, as `VerdictRules.on_topic_from`."""
_LEAST_ANSWERED = 3
"""Least number of answered requests of a topic whose median relevance, if lower, replaces that threshold."""
_ENOUGH_REFUSED = 0.30
"""Least share of members for which the model is the cause."""
_ENOUGH_SUITED = 0.25
"""Least share of members for which the retriever is the cause."""
_SUITS = 0.60
"""Least relevance of a chunk that other requests retrieved for it to have suited."""
_BETTER = 0.10
"""Least excess of that relevance over the request's own."""
_MOST_MEMBERS = 60
"""Members that are looked up, and read for the name."""
_NAME_WORDS = 4
_EXAMPLES = 3
_EXAMPLE_CHARS = 300
_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A topic with a higher share of bad requests than the others."""

    id: str
    """Stable as long as the group begins with the same word: eight hex digits, without any text."""
    name: str
    """Words that its questions have in common and the others lack; empty: texts are not stored."""
    workflow: str
    """Workflow of most of its requests; empty: unknown."""
    language: str | None
    """Language of most of its questions."""
    n_bad: int
    """Its bad requests; about half of a topic's requests are missing from its group, so say "at least"."""
    n_requests: int
    """Its requests, bad or not."""
    share: float
    """Share of its requests that are bad, 0 to 1."""
    lower: float
    """The ends of the share's 95 % interval."""
    upper: float
    elsewhere: float
    """Share of bad requests among all others."""
    since: float
    """Start of the longest run of days with a bad request of it, in seconds since the epoch."""
    diagnosis: Diagnosis
    """The cause."""
    refused: float
    """Share of its bad requests that were refused although a chunk was on topic."""
    suited: float | None
    """Share of its bad requests for which a chunk retrieved by others suits better; None: no chunks are
    known."""
    examples: tuple[str, ...] = ()
    """Examples of its questions, the most typical first."""

    def __str__(self) -> str:
        return (
            f"at least {self.n_bad} questions about {self.name or self.id}: {percent(self.share)} "
            f"[{percent(self.lower)}, {percent(self.upper)}] not good, elsewhere {percent(self.elsewhere)}; "
            f"{self.diagnosis}"
        )


class GapList(NamedTuple):
    """The gaps found, and the traffic they were found in."""

    gaps: tuple[Gap, ...]
    """The gaps, most bad requests first."""
    n_bad: int
    """Number of examined bad requests, and the number that they represent."""
    n_requests: int
    """The same for all requests."""
    without_topic: int = 0
    """Bad requests whose questions have no known topic word."""
    why_empty: str = ""
    """Why the list is empty: ``no_requests``, ``no_questions``, ``too_many_bad``, ``nothing_stands_out``."""
    members: Mapping[str, tuple[int, ...]] = {}
    """By the id of a gap, `rank_of` of the ids of its bad requests."""


def list_gaps(bad: Sample[Asked], good: Sample[Asked], chunks: Sample[ChunkTerms] | None = None) -> GapList:
    """Return the gaps among requests.

    Args:
        bad: Requests with the verdict ``bad`` or ``suspect``, empty retrievals and refusals.
        good: All other requests with a verdict.
        chunks: The retrieved chunks; None or empty: unknown.
    """
    weights = WHOLE / bad.limit, WHOLE / good.limit
    sides = [sorted(side.items(), key=lambda one: one.rank) for side in (bad, good)]
    n_bad, n_good = (round(weight * len(side)) for weight, side in zip(weights, sides, strict=True))
    without = round(weights[0] * sum(not one.terms for one in sides[0]))
    empty = GapList((), n_bad, n_bad + n_good, without)
    if not sides[0]:
        return empty._replace(why_empty="nothing_stands_out" if n_good else "no_requests")
    if not any(one.terms for one in sides[0]):
        return empty._replace(why_empty="no_questions")
    if n_bad >= TOO_MANY * (n_bad + n_good):
        return empty._replace(why_empty="too_many_bad")
    groups = find_groups(
        [one.topic for one in sides[0]], [one.topic for one in sides[1]],
        bad_weight=weights[0], good_weight=weights[1],
    )  # fmt: skip
    knows_all = chunks is not None and chunks.limit == WHOLE
    search = ChunkSearch(chunks.items()) if groups and chunks is not None else None
    found: list[Gap] = []
    ranks: dict[str, tuple[int, ...]] = {}
    for group in groups:
        members = [sides[0][place] for place in group.bad]
        answered = [sides[1][place] for place in group.good]
        found.append(_gap(group, members, answered, weights, n_bad, n_good, search, knows_all))
        ranks[found[-1].id] = tuple(one.rank for one in members)
    found.sort(key=lambda gap: (-gap.n_bad, gap.id))
    why_empty = "" if found else "nothing_stands_out"
    return empty._replace(gaps=tuple(found), why_empty=why_empty, members=ranks)


def _gap(
    group: Group,
    members: Sequence[Asked],
    answered: Sequence[Asked],
    weights: tuple[float, float],
    n_bad: int,
    n_good: int,
    search: ChunkSearch | None,
    knows_all: bool,
) -> Gap:
    bad, good = weights[0] * len(members), weights[1] * len(answered)
    others = n_bad + n_good - bad - good
    had = [one.relevance for one in answered if one.relevance is not None]
    enough = min(_ON_TOPIC, median(had)) if len(had) >= _LEAST_ANSWERED else _ON_TOPIC
    refused = sum(
        one.refused and one.relevance is not None and one.relevance >= enough for one in members
    ) / len(members)
    suited = _share_suited(members, search)
    diagnosis: Diagnosis
    if len(members) < _LEAST_MEMBERS:
        diagnosis = "unclear"
    elif refused >= _ENOUGH_REFUSED:
        diagnosis = "refuses_although_found"
    elif suited is not None and suited >= _ENOUGH_SUITED:
        diagnosis = "retriever_misses"
    else:
        # A sample of the chunks does not allow conclusions about the missing ones.
        diagnosis = "missing_from_corpus" if suited is not None and knows_all else "unclear"
    languages = Counter(one.language for one in members if one.language)
    workflows = Counter(one.workflow for one in members)
    order = {term: at for at, term in enumerate(group.profile)}
    typical = sorted(
        (one for one in members if one.question),
        key=lambda one: (-sum(1.0 / (1 + order[t]) for t in one.topic if t in order), one.rank),
    )
    return Gap(
        id=f"{group.seed:08x}",
        name=_name(group.profile, typical[:_MOST_MEMBERS]),
        workflow=_commonest(workflows) or "",
        language=_commonest(languages),
        n_bad=round(bad),
        n_requests=round(bad + good),
        share=group.share,
        lower=group.lower,
        upper=group.upper,
        elsewhere=max(0.0, n_bad - bad) / others if others > 0 else 0.0,
        since=_since(members),
        diagnosis=diagnosis,
        refused=refused,
        suited=suited,
        examples=tuple(dict.fromkeys((one.question or "")[:_EXAMPLE_CHARS] for one in typical))[:_EXAMPLES],
    )


def _share_suited(members: Sequence[Asked], search: ChunkSearch | None) -> float | None:
    """Return the share of members for which a chunk of other requests suits better than their own."""
    looked_up = [one for one in members if one.terms and one.question][:_MOST_MEMBERS]
    if search is None or not len(search) or not looked_up:
        return None
    return sum(
        search.best_relevance(one.question or "") >= max(_SUITS, (one.relevance or 0.0) + _BETTER)
        for one in looked_up
    ) / len(looked_up)


def _commonest(counts: Counter[str]) -> str | None:
    return min(counts, key=lambda one: (-counts[one], one)) if counts else None


def _since(members: Sequence[Asked]) -> float:
    """Return the start of the longest run of days with a member."""
    first: dict[int, float] = {}
    for one in members:
        day = math.floor(one.at / _DAY_S)
        first[day] = min(one.at, first.get(day, one.at))
    longest = begun = best = 0
    for day in sorted(first):
        if day - 1 not in first:
            begun = day
        if day - begun + 1 > longest:
            longest, best = day - begun + 1, begun
    return first[best]


def _name(profile: Sequence[int], members: Sequence[Asked]) -> str:
    """Return the first words of a profile in the most frequent spelling."""
    naming = {
        hash_of(term): len(term) == 1 and is_han(term)
        for one in members
        for term in analyse(one.question or "").memoize(topic_terms)
        if CHINESE_FUNCTION.isdisjoint(term)
    }
    known_words = [stands_for for stands_for in profile if stands_for in naming]
    # A single Chinese character is meaningful only if there is no word.
    whole = [stands_for for stands_for in known_words if not naming[stands_for]]
    first = (whole or known_words)[:_NAME_WORDS]
    written: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for one in members:
        known = analyse(one.question or "")
        terms = [term for term in known.memoize(topic_terms) if hash_of(term) in first]
        runs = as_written([term for term in terms if is_han(term)], known)
        for term in terms:
            if is_han(term):
                written[hash_of(term)].update(run for run in runs if term in run)
            else:
                written[hash_of(term)].update(as_written([term], known))
    name: list[str] = []
    for stands_for in first:
        word = _commonest(written[stands_for])
        if word and not any(word in earlier for earlier in name):
            name = [earlier for earlier in name if earlier not in word] + [word]
    return " ".join(name)
