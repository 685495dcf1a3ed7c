"""The cause of a request's verdict and advice about it, by rules: codes and counts, never sentences.

The page has the sentences, in each language.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ._evidence import Evidence
from .health_views import bad_share

if TYPE_CHECKING:
    from .views import GapView

_LEAST_BEFORE = 5
"""Fewest requests with the same question before a deployment for a comparison."""

_NOTHING_ON_TOPIC = ("no_relevant_chunk", "answered_without_context", "refused_without_context")

CauseCode: TypeAlias = Literal[
    "answered_from_nothing", "declined_nothing_found", "declined_off_topic", "declined",
    "nothing_carried_off_topic", "nothing_carried", "partly_carried", "all_carried", "verdict",
]  # fmt: skip
AdviceCode: TypeAlias = Literal[
    "nothing", "write_document", "right_to_decline", "search_index", "changed_retrieval", "changed_prompt",
    "let_answer", "fix_prompt", "unknown",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The cause of a request's verdict, as its texts show it."""

    code: CauseCode
    """The cause; ``verdict``: the texts show no more than `verdict_codes`."""
    sentences: int = 0
    """Number of sentences of the answer."""
    missing: int = 0
    """Number of them without support in any chunk."""
    chunks: int = 0
    """Number of chunks in the prompt."""
    words_found: int | None = None
    """Most of the question's topic words in one chunk; None: not comparable."""
    topic_words: int = 0
    """Number of the question's topic words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameQuestion:
    """The requests of one service with the question of this one, around its last deployment."""

    n: int
    """Number of stored requests with the question, including this one."""
    n_bad: int
    """Number of bad ones."""
    deployment: str = ""
    """The version or index of the last deployment before this request; empty: none is known."""
    deployed_ms: int | None = None
    """Time at which it was first seen."""
    n_since: int = 0
    """Number of requests since then."""
    n_bad_since: int = 0
    """Number of bad requests since then."""

    @property
    def is_worse(self) -> bool:
        """Whether the share of bad ones rose with the deployment beyond chance: 95 % intervals apart."""
        before, bad_before = self.n - self.n_since, self.n_bad - self.n_bad_since
        if not self.deployment or before < _LEAST_BEFORE or not self.n_since:
            return False
        return bad_share(self.n_bad_since, self.n_since).lower > bad_share(bad_before, before).upper


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advice of the first rule that applies."""

    code: AdviceCode
    """In the order of the rules: the request is good; its topic is a knowledge gap; its question got worse
    with the last deployment, by retrieval or by prompt and model; off topic; declined although found; else
    the prompt."""
    gap: str | None = None
    """Id of the knowledge gap; None: the request belongs to none."""
    gap_bad: int = 0
    """Number of the gap's requests that went badly."""
    gap_requests: int = 0
    """Number of all requests of the gap's topic."""


def is_refused(codes: Collection[str], refusal: float | None) -> bool:
    """Return whether the answer refuses, by its verdict's codes and its refusal score."""
    return any(code.startswith("refused") for code in codes) or refusal == 1.0


def is_off_topic(codes: Collection[str]) -> bool:
    """Return whether the verdict says that the whole retrieval is off topic."""
    return any("off_topic" in code or code in _NOTHING_ON_TOPIC for code in codes)


def cause(
    verdict: str | None, codes: Collection[str], marked: Evidence | None, *, refused: bool, nothing_found: bool
) -> Cause:
    """Return the cause of a request's verdict."""
    answer = () if marked is None else marked.answer
    chunks: Sequence[object] = () if marked is None else marked.chunks
    missing = sum(one.support == "missing" for one in answer)
    off_topic = is_off_topic(codes)
    code: CauseCode = "verdict"
    if nothing_found and verdict != "good":
        code = "declined_nothing_found" if refused else "answered_from_nothing"
    elif refused:
        code = "declined_off_topic" if off_topic else "declined"
    elif missing and missing == len(answer):
        code = "nothing_carried_off_topic" if off_topic else "nothing_carried"
    elif missing:
        code = "partly_carried"
    elif verdict == "good" and answer and all(one.support == "found" for one in answer):
        code = "all_carried"
    known = [] if marked is None else [one.words_found for one in marked.chunks]
    return Cause(
        code=code,
        sentences=len(answer),
        missing=missing,
        chunks=len(chunks),
        words_found=max((one for one in known if one is not None), default=None),
        topic_words=0 if marked is None else marked.topic_words,
    )


def advice(
    verdict: str | None,
    codes: Collection[str],
    gap: GapView | None,
    same: SameQuestion,
    *,
    refused: bool,
    nothing_found: bool,
) -> Advice:
    """Return the advice about a request."""
    off_topic = nothing_found or is_off_topic(codes)
    if verdict is None:
        return Advice(code="unknown")
    if verdict == "good":
        return Advice(code="nothing")
    code: AdviceCode | None = None
    if gap is not None:
        if gap.diagnosis == "retriever_misses":
            code = "search_index"
        elif gap.diagnosis == "refuses_although_found":
            code = "let_answer"
        elif gap.diagnosis == "missing_from_corpus" or off_topic:
            code = "right_to_decline" if refused else "write_document"
    if code is None and same.is_worse:
        code = "changed_retrieval" if off_topic else "changed_prompt"
    if code is None:
        code = "search_index" if off_topic else "let_answer" if refused else "fix_prompt"
    return Advice(
        code=code,
        gap=None if gap is None else gap.id,
        gap_bad=0 if gap is None else gap.n_bad,
        gap_requests=0 if gap is None else gap.n_requests,
    )
