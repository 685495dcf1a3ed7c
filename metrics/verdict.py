"""The verdict on a request: one word, and the reasons for it, by rules over its scores.

The meter calls `VerdictRules` with the free scores, and again when judged ones or a late reference arrive;
`evaluate` and the command line call it once. A pure function: it reads values, never texts, so that its
result may be exported anywhere. It is a queue for people, not a gate; ``docs/verdict.md`` has its error
rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from ._display.wording import percent
from .errors import ConfigurationError
from .sample import SampleStatus
from .score import Score

VerdictWord = Literal["good", "suspect", "bad"]
"""Quality of a request: people should look at ``bad`` ones first, then at ``suspect`` ones."""


class Verdict(BaseModel):
    """The verdict on a request's scores."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    word: VerdictWord
    """The worst word of any applicable rule."""
    codes: tuple[str, ...] = ()
    """The rules that apply, strongest first; empty if ``good``. Low cardinality."""
    reasons: tuple[str, ...] = ()
    """One sentence for each code, without any text of the request."""
    rate: str | None = None
    """Share of this application's requests with this word that people call bad; None: too few labels, or
    none."""

    @property
    def explanation(self) -> str:
        """The reasons and the rate; empty without them."""
        return "; ".join((*self.reasons, *([self.rate] if self.rate else ())))


@dataclass(frozen=True, kw_only=True)
class VerdictRules:
    """The rules of the verdict, with their thresholds. All are shares from 0.0 to 1.0.

    The defaults were chosen on halves of four labelled sets (support) and on built pairs in three
    languages (relevance); an application with a hundred answers rated by people sets its own.

    Args:
        unsupported_below: Answers with less support are ``unsupported_answer``, bad. Support is the score
            `support` (`lexical_groundedness` if that was not measured) or, if the judge measured
            `faithfulness`, the mean of both.
        partly_unsupported_below: Answers with less are ``partly_unsupported``, suspect.
        off_topic_below: Chunks whose `lexical_context_relevance` is less are ``off_topic_context``.
        on_topic_from: From this relevance on, a refusal is ``refused_with_context``, below it
            ``refused_off_topic``.
        right_documents_missing_from: With references: from this share of right documents that did not reach the
            model on, ``right_document_dropped`` where some were lost on the way, ``right_document_never_found``
            where some were never found.

    Raises:
        ConfigurationError: A threshold is not a number from 0 to 1, or two are out of order.
    """

    definition: ClassVar[str] = "verdict-3"
    """Version of the rules; changes whenever the same scores can get another verdict."""

    unsupported_below: float = 0.47
    partly_unsupported_below: float = 0.58
    off_topic_below: float = 0.30
    on_topic_from: float = 0.60
    right_documents_missing_from: float = 0.50

    def __post_init__(self) -> None:
        for field in fields(VerdictRules):
            value: object = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise ConfigurationError(f"VerdictRules: {field.name} is {value!r}; it is a number from 0 to 1")
        for lower, upper in (
            ("unsupported_below", "partly_unsupported_below"),
            ("off_topic_below", "on_topic_from"),
        ):
            low, high = getattr(self, lower), getattr(self, upper)
            if low > high:
                raise ConfigurationError(
                    f"VerdictRules: {lower} is {low!r} and {upper} is {high!r}; {lower} is at most {upper}"
                )

    def verdict(self, scores: Mapping[str, Score], status: SampleStatus = "ok") -> Verdict | None:
        """Return the verdict on the scores of a request; None: no basis for a verdict.

        Args:
            scores: The scores by name. Those without a value, and ``partial`` ones, count as unknown.
            status: How the request ended. A request that failed, was cut short or has no answer is never
                ``good``, and only rules about its retrieval apply, as its answer was not measured. A refusal
                by the provider counts as a refusal.
        """
        return self.of_values(known_values(scores), status)

    def of_values(self, values: Mapping[str, float], status: SampleStatus = "ok") -> Verdict | None:
        """Do the same with the values, as returned by `known_values`."""
        if "greeted" in values or not values:
            return None
        seen = _look(values, status)
        found = [rule for rule in _RULES if rule.applies(seen, self)]
        if not found:
            judged = any(map(values.__contains__, _WORTH_A_GOOD_WORD)) and "claimless" not in values
            return _GOOD if judged and status in _MAY_BE_GOOD else None
        return Verdict(
            word="bad" if any(rule.word == "bad" for rule in found) else "suspect",
            codes=tuple(rule.code for rule in found),
            reasons=tuple(rule.reason(seen) for rule in found),
        )


def known_values(scores: Mapping[str, Score]) -> dict[str, float]:
    """Return the certain values of the scores that the rules read, by name."""
    known: dict[str, float] = {}
    for name in _READ:
        score = scores.get(name)
        if score is not None and score.status == "ok" and score.value is not None:
            known[name] = score.value
    refusal = scores.get("refusal")
    if refusal is not None and refusal.label in _MANNERS:
        known[refusal.label] = 1.0
    support = scores.get("support")
    undefined = support is not None and support.status == "undefined"
    if undefined and known.pop("lexical_groundedness", None) is not None:
        # An answer without claims is not unsupported, whatever share of its words the chunks have, and not
        # good.
        known["claimless"] = 1.0
    return known


_WORTH_A_GOOD_WORD = (
    "lexical_groundedness",
    "lexical_context_relevance",
    "faithfulness",
    "context_sufficiency",
    "judged_hit_rate",
)
"""A non-empty retrieval and an answer without a refusal prove no quality: one of these is needed."""
_READ = (
    *_WORTH_A_GOOD_WORD,
    "support",
    "fact_conflict",
    "refusal",
    "judged_refusal",
    "empty_retrieval",
    "right_documents_dropped",
    "right_documents_never_found",
)
_MANNERS = frozenset({"asked_back", "greeted", "contradicts"})
"""Labels of `refusal` that rules read like scores."""
_MAY_BE_GOOD = frozenset({"ok", "retrieval_only"})
_GOOD = Verdict(word="good")


class _Signals(NamedTuple):
    """The inputs of the rules. None: unknown, which is never 0."""

    empty: bool
    """Whether it is certain that nothing was retrieved."""
    refused: bool
    """Whether it is certain that the answer only refuses."""
    partly_refused: bool
    asked: bool
    """Whether the answer only asks back, greets or thanks, without a claim."""
    contradicts: bool
    """Whether it both refuses and answers the question."""
    answered: bool
    """Whether it is certain that the answer claims something, and not known that it refuses."""
    support: float | None
    grounded: float | None
    words: float | None
    """Support by words only."""
    faithful: float | None
    conflict: bool
    """Whether the answer states a fact that no chunk has."""
    sufficiency: float | None
    """The judge's verdict: 1.0 the chunks suffice, 0.5 partly, 0.0 not."""
    relevance: float | None
    """The same by words; also None if the judge has answered."""
    hit: float | None
    """Whether the judge found a relevant chunk."""
    dropped: float
    """Share of right documents known to be lost between retriever and model."""
    never_found: float
    """Share that no retriever found."""


def _look(values: Mapping[str, float], status: SampleStatus) -> _Signals:
    get = values.get
    # A judge's verdict on a question replaces the one by words.
    refusal = get("judged_refusal", get("refusal"))
    grounded, faithful = get("lexical_groundedness"), get("faithfulness")
    sufficiency, hit = get("context_sufficiency"), get("judged_hit_rate")
    words = get("support", grounded)
    support = words if faithful is None else faithful
    if words is not None and faithful is not None:
        support = (words + faithful) / 2
    refused = refusal == 1.0 or status == "refused"
    asked = "asked_back" in values or "greeted" in values
    return _Signals(
        empty=get("empty_retrieval") == 1.0,
        refused=refused,
        partly_refused=refusal is not None and 0.0 < refusal < 1.0,
        asked=asked,
        contradicts=get("contradicts") == 1.0 and get("judged_refusal") is None,
        answered=not (refused or asked) and (refusal is not None or support is not None),
        support=support,
        grounded=grounded,
        words=words,
        faithful=faithful,
        conflict=get("fact_conflict") == 1.0,
        sufficiency=sufficiency,
        relevance=get("lexical_context_relevance") if sufficiency is None and hit is None else None,
        hit=hit,
        dropped=get("right_documents_dropped", 0.0),
        never_found=get("right_documents_never_found", 0.0),
    )


class _Rule(NamedTuple):
    code: str
    word: Literal["suspect", "bad"]
    applies: Callable[[_Signals, VerdictRules], bool]
    reason: Callable[[_Signals], str]


def _has_answer(seen: _Signals) -> bool:
    # An empty retrieval already has its own code.
    return seen.answered and not seen.empty


def _refused_with_chunks(seen: _Signals) -> bool:
    return seen.refused and not seen.empty


def _is_unsupported(seen: _Signals, rules: VerdictRules) -> bool:
    return _has_answer(seen) and seen.support is not None and seen.support < rules.unsupported_below


def _is_off_topic(seen: _Signals, rules: VerdictRules) -> bool:
    """Return whether the chunks miss the question; refusals and empty retrievals have separate codes."""
    if seen.refused or (seen.empty and (seen.answered or seen.asked)):
        return False
    return seen.relevance is not None and seen.relevance < rules.off_topic_below


def _lacks_right_documents(seen: _Signals, rules: VerdictRules) -> bool:
    return seen.dropped + seen.never_found >= rules.right_documents_missing_from


def _is_on_topic(seen: _Signals, rules: VerdictRules) -> bool | None:
    if seen.sufficiency is not None:
        return None  # then a judge has answered the more precise question
    if seen.hit is not None:
        return seen.hit > 0.0
    return None if seen.relevance is None else seen.relevance >= rules.on_topic_from


def _support(seen: _Signals) -> str:
    said: list[str] = []
    if seen.grounded is not None:
        said.append(f"{percent(seen.grounded)} of the answer's words are in the chunks")
    if seen.words is not None and seen.words != seen.grounded:
        said.append(f"support {seen.words:.2f}")
    if seen.faithful is not None:
        said.append(f"the judge found {percent(seen.faithful)} of what it says supported")
    return "; ".join(said)


def _topic(seen: _Signals) -> str:
    if seen.relevance is None:
        return "the judge found " + ("a relevant chunk" if seen.hit else "no relevant chunk")
    return f"the best chunk has relevance {seen.relevance:.2f}"


# The table: the first rules are the strongest reasons, and every line is one reason for one word.
_RULES: tuple[_Rule, ...] = (
    _Rule(
        "answered_without_context",
        "bad",
        lambda seen, _: seen.empty and seen.answered,
        lambda _: "answered although nothing was retrieved",
    ),
    _Rule("unsupported_answer", "bad", _is_unsupported, _support),
    _Rule(
        "insufficient_context",
        "bad",
        lambda seen, _: _has_answer(seen) and seen.sufficiency == 0.0,
        lambda _: "answered although the chunks state nothing of what was asked",
    ),
    _Rule(
        "insufficient_context",
        "suspect",
        lambda seen, _: not seen.answered and not seen.empty and seen.sufficiency == 0.0,
        lambda _: "the chunks state nothing of what was asked",
    ),
    _Rule(
        "refused_with_context",
        "bad",
        lambda seen, _: _refused_with_chunks(seen) and seen.sufficiency == 1.0,
        lambda _: "refused although the chunks state what was asked",
    ),
    _Rule(
        "refused_with_context",
        "suspect",
        lambda seen, rules: _refused_with_chunks(seen) and _is_on_topic(seen, rules) is True,
        lambda seen: f"refused; {_topic(seen)}",
    ),
    _Rule(
        "right_document_dropped",
        "suspect",
        lambda seen, rules: seen.dropped > 0.0 and _lacks_right_documents(seen, rules),
        lambda seen: f"{percent(seen.dropped)} of the right documents were found and lost before the model",
    ),
    _Rule(
        "right_document_never_found",
        "suspect",
        lambda seen, rules: seen.never_found > 0.0 and _lacks_right_documents(seen, rules),
        lambda seen: f"{percent(seen.never_found)} of the right documents were never found",
    ),
    _Rule(
        "partly_unsupported",
        "suspect",
        lambda seen, rules: (
            _has_answer(seen)
            and seen.support is not None
            and rules.unsupported_below <= seen.support < rules.partly_unsupported_below
        ),
        _support,
    ),
    _Rule(
        "number_not_in_context",
        "suspect",
        lambda seen, _: _has_answer(seen) and seen.conflict,
        lambda _: "states a number, a date or a name that no chunk has, or denies what one says",
    ),
    _Rule("off_topic_context", "suspect", _is_off_topic, _topic),
    _Rule(
        "refused_off_topic",
        "suspect",
        lambda seen, rules: _refused_with_chunks(seen) and _is_on_topic(seen, rules) is False,
        lambda seen: f"refused; {_topic(seen)}",
    ),
    _Rule(
        "refused_without_context",
        "suspect",
        lambda seen, _: seen.empty and seen.refused,
        lambda _: "refused: nothing was retrieved",
    ),
    _Rule(
        "refused",
        "suspect",
        lambda seen, rules: (
            _refused_with_chunks(seen) and seen.sufficiency is None and _is_on_topic(seen, rules) is None
        ),
        lambda _: "refused; whether the chunks are on topic is not known",
    ),
    _Rule(
        "asked_back",
        "suspect",
        lambda seen, rules: (
            seen.asked
            and (seen.empty or (seen.support is not None and seen.support < rules.partly_unsupported_below))
        ),
        lambda _: "asks back instead of answering",
    ),
    _Rule(
        "answered_and_refused",
        "suspect",
        lambda seen, _: seen.partly_refused and seen.contradicts,
        lambda _: "says that it cannot answer, and answers",
    ),
    _Rule(
        "partial_refusal",
        "suspect",
        lambda seen, _: seen.partly_refused and not seen.contradicts,
        lambda _: "a part of the answer says that something is not known or not given",
    ),
    _Rule(
        "partial_context",
        "suspect",
        lambda seen, _: not seen.empty and seen.sufficiency is not None and 0.0 < seen.sufficiency < 1.0,
        lambda _: "the chunks state only a part of what was asked",
    ),
    _Rule(
        "no_relevant_chunk",
        "suspect",
        lambda seen, _: not seen.empty and seen.hit == 0.0 and not seen.refused,
        lambda _: "the judge found no chunk that answers the question",
    ),
)

VERDICT_CODES: tuple[str, ...] = tuple(dict.fromkeys(rule.code for rule in _RULES))
"""All codes, strongest first: a list by which metrics may be split."""

_SUPPORT = ("lexical_groundedness", "support", "faithfulness")
_TOPIC = ("context_sufficiency", "judged_hit_rate", "lexical_context_relevance")
_BEHIND: Mapping[str, tuple[str, ...]] = {
    "answered_without_context": ("empty_retrieval",),
    "unsupported_answer": _SUPPORT,
    "insufficient_context": ("context_sufficiency",),
    "refused_with_context": _TOPIC,
    "right_document_dropped": ("right_documents_dropped",),
    "right_document_never_found": ("right_documents_never_found",),
    "partly_unsupported": _SUPPORT,
    "number_not_in_context": ("fact_conflict",),
    "off_topic_context": ("lexical_context_relevance",),
    "refused_off_topic": ("judged_hit_rate", "lexical_context_relevance"),
    "refused_without_context": ("empty_retrieval",),
    "refused": ("judged_refusal", "refusal"),
    "asked_back": ("refusal",),
    "answered_and_refused": ("refusal",),
    "partial_refusal": ("judged_refusal", "refusal"),
    "partial_context": ("context_sufficiency",),
    "no_relevant_chunk": ("judged_hit_rate",),
}
"""The main score of each rule, for displays with room for a few scores only."""


def scores_behind(verdict: Verdict | None) -> tuple[str, ...]:
    """Return the names of the scores that decide a verdict, those of the strongest reason first.

    Then the scores that could have made it worse: they show which parts are good.
    """
    codes = () if verdict is None else verdict.codes
    named = [name for code in codes for name in _BEHIND[code]]
    return tuple(dict.fromkeys([*named, *_WORTH_A_GOOD_WORD]))
