"""The part of a request that one span or event reports, and how several parts merge.

Spans and events of a request arrive in any order, some of them twice, and later ones know better. `merge` is
therefore the same in every order and for any number of repetitions: a value that is reported once is taken as
it is; of a value that changes, the latest counts; of two different values of the same time, the greater.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from ragmeter.quality.measurement import measurement_of
from ragmeter.quality.segments import OTHER
from ragmeter.quality.verdict_shares import verdict_shares

T = TypeVar("T")

UNKNOWN_DEFINITION = "?"
"""The definition of a score whose formula was not reported."""


class Kind(NamedTuple):
    """The properties of a score that are the same for all requests."""

    name: str
    method: str
    target: str
    definition: str
    direction: str
    lowest: float | None
    highest: float | None
    judged: bool
    judge: str = ""
    """The judge's model; empty: none, or unknown."""
    endpoint: str = ""
    """The judge's kind of endpoint, as in ``ragmeter.evaluation.judge.endpoint``."""

    @property
    def measurement(self) -> str:
        """Identifies formula and judge: values of different measurements have no common mean. Empty: unknown.

        The endpoint is not included: a model is the same at any endpoint.
        """
        if self.definition == UNKNOWN_DEFINITION:
            return ""
        return measurement_of(self.name, self.definition, self.judge)

    def unmeasured(self) -> Kind:
        """Return the kind of a score of which only the name was reported, as it was not measured."""
        return self._replace(definition=UNKNOWN_DEFINITION, judge="", endpoint="")

    def among_others(self) -> Kind:
        """Return the kind for all measurements of a score beyond the bound: without direction or range."""
        return Kind(self.name, OTHER, OTHER, OTHER, "none", None, None, False, OTHER, OTHER)

    def turned(self, value: float | None) -> float | None:
        """Return a value scaled to 0 (worst possible) … 1 (best), or None without a direction or range."""
        place = self.place(value)
        if place is None or self.direction == "none":
            return None
        return 1.0 - place if self.direction == "lower" else place

    def place(self, value: float | None) -> float | None:
        """Return a value scaled to 0 (smallest possible) … 1 (largest), or None without a range."""
        lowest, highest = self.lowest, self.highest
        if value is None or lowest is None or highest is None or lowest >= highest:
            return None
        return min(1.0, max(0.0, (value - lowest) / (highest - lowest)))


SHARE_KINDS = {
    one.name: Kind(one.name, "verdict", "answer", one.definition, one.direction, *one.range, False)
    for one in verdict_shares("good")
}
"""Kinds of the shares of verdicts, which are counted as scores are, and stored with no request."""


class Value(NamedTuple):
    """The value of a score, with the time of the report."""

    at_ns: int
    value: float | None
    status: str
    label: str | None


class Details(NamedTuple):
    """Details of a score beside its value, with the time of the report."""

    at_ns: int
    kind: Kind
    lower: float | None = None
    upper: float | None = None
    error_type: str | None = None
    summary: str | None = None
    explanation: str | None = None
    items: str | None = None
    """JSON, as in ``ragmeter.evaluation.items``."""
    judge_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_hits: int = 0
    cost: float | None = None
    """Cost of the judge's calls, in the currency of its prices; None: unknown."""
    asked_with: float | None = None
    """Probability with which a cascade asked for the score, 0.0 if it spared it; None: no cascade."""


# Instances of the two are never changed. They are not frozen, as frozen ones are slow to make, and each event
# of each request makes one of each.
@dataclass(slots=True, kw_only=True)
class ScorePart:
    """One score of a request."""

    reported: Value | None = None
    details: Details | None = None

    def merge(self, other: ScorePart) -> ScorePart:
        """Return both parts merged."""
        return ScorePart(
            reported=_later(self.reported, other.reported), details=_later(self.details, other.details)
        )

    def without_texts(self) -> ScorePart:
        """Return it without an explanation that may quote texts."""
        details = self.details
        if details is None or details.explanation == details.summary:
            return self
        return ScorePart(reported=self.reported, details=details._replace(explanation=None))


class VerdictPart(NamedTuple):
    """The verdict, with the time of the report."""

    at_ns: int
    word: str
    codes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class Chunk(NamedTuple):
    """One retrieved chunk."""

    id: str | None
    score: float | None
    text: str | None


@dataclass(slots=True, kw_only=True)
class RequestPart:
    """The part of a request that was reported. None or empty: not reported.

    Instances are never changed; they are not frozen, as making frozen ones took a tenth of the server's time.
    """

    run_id: str
    trace_id: bytes | None = None
    place: tuple[int, bytes] | None = None
    """Certainty and id of the request's span: 2 if the span itself reports it, 1 if a score does."""
    started_ns: int | None = None
    ended_ns: int | None = None
    noted_ns: int | None = None
    """Time of the earliest report of one of its spans or scores."""
    service: str | None = None
    workflow: str | None = None
    framework: str | None = None
    status: str | None = None
    question: str | None = None
    answer: str | None = None
    language: str | None = None
    retriever: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    sample_rate: float | None = None
    judge_sample_rate: float | None = None
    selection: str | None = None
    judge_selection: str | None = None
    missing: str | None = None
    environment: str | None = None
    """Environment of the process, as ``deployment.environment.name``."""
    received: bool | None = None
    """Whether ragmeter in another process scored and reported it."""
    alarms: bool | None = None
    """Whether the process that scored it sends alerts itself."""
    stages: str | None = None
    """The documents by stage, in the format of `stages_text`."""
    segments: Mapping[str, str] = field(default_factory=dict)
    """The application's segments, by name."""
    metadata: Mapping[str, str | float] = field(default_factory=dict)
    verdict: VerdictPart | None = None
    scores: Mapping[str, ScorePart] = field(default_factory=dict)

    @property
    def at_ms(self) -> int:
        """Start of the request, as far as known, in milliseconds."""
        known = self.noted_ns if self.started_ns is None else self.started_ns
        return (known or 0) // 1_000_000

    def merge(self, *others: RequestPart) -> RequestPart:
        """Return this part merged with others of the same request."""
        if not others:
            return self
        parts = (self, *others)
        plain: dict[str, Any] = {}
        for name, values in zip(_PLAIN, zip(*map(_plain_of, parts), strict=True), strict=True):
            known = [value for value in values if value is not None]
            if known:
                plain[name] = known[0] if len(known) == 1 else max(known)
        noted = [part.noted_ns for part in parts if part.noted_ns is not None]
        metadata: Mapping[str, str | float] = self.metadata
        segments = dict(self.segments)
        verdict = self.verdict
        scores = dict(self.scores)
        for part in others:
            if part.metadata:
                metadata = _join_names(metadata, part.metadata)
            for name, value in part.segments.items():
                segments[name] = max(value, segments.get(name, value))
            verdict = _later(verdict, part.verdict)
            for name, score in part.scores.items():
                mine = scores.get(name)
                scores[name] = score if mine is None else mine.merge(score)
        return RequestPart(
            run_id=self.run_id,
            noted_ns=min(noted, default=None),
            metadata=metadata,
            segments=segments,
            verdict=verdict,
            scores=scores,
            **plain,
        )

    def without_texts(self) -> RequestPart:
        """Return it without question, answer, and explanations that may quote them."""
        scores = {name: score.without_texts() for name, score in self.scores.items()}
        return replace(self, question=None, answer=None, scores=scores)


_PLAIN = tuple(
    each.name
    for each in fields(RequestPart)
    if each.name not in ("run_id", "noted_ns", "metadata", "segments", "verdict", "scores")
)
_plain_of = attrgetter(*_PLAIN)


def _later(one: T | None, other: T | None) -> T | None:
    """Return the later of two reports, whose first field is the time."""
    if one is None or other is None:
        return other if one is None else one
    if one[0] != other[0]:  # type: ignore[index]
        return one if one[0] > other[0] else other  # type: ignore[index]
    return max(one, other, key=_place)


def _place(part: Any) -> str:
    # As text, because None, strings and numbers have no common order.
    return json.dumps(part)


def _join_names(one: Mapping[str, str | float], other: Mapping[str, str | float]) -> dict[str, str | float]:
    joined = dict(one)
    for key, value in other.items():
        mine = joined.get(key)
        joined[key] = value if mine is None else max(mine, value, key=json.dumps)
    return joined
