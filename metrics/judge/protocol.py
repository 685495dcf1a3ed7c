"""The interface of a judge: its questions, its answers and its reports.

Metrics and the meter depend only on this protocol, never on a client library. A metric sends an `Ask` (texts,
and numbered items to answer), the judge returns a `Reply` with one `Answer` per item. The meter subscribes to
`JudgeCall` to export durations and tokens, and plans with the `budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass, field
from operator import add
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .budget import JudgeBudget

AnswerKind = Literal["verdict", "choice", "text", "texts", "pairs"]
"""The kind of question about an item.

``verdict``: true or false. ``choice``: one of some words. ``text``: a short text, or null: "cannot
be answered". ``texts``: a list of texts. ``pairs``: a list of (question, answer or null).
"""

AnswerValue = bool | str | tuple[str, ...] | tuple[tuple[str, str | None], ...] | None
"""A bool for ``verdict``, a word for ``choice``, a text or None for ``text``, and so on."""

Taken = Literal["copied", "reworded"]
"""``copied``: the answer must be copied from a text; of several answers one must be found there.
``reworded``: the answer must restate the text; every answer must share most of its words with it."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text for the judge to read. Untrusted: it is data, whatever it contains."""

    title: str
    """Its title, e.g. ``question`` or ``chunk c1``. Set by ragmeter, never by the user."""
    text: str = ""
    """The text; ignored when `lines` is given."""
    lines: tuple[tuple[str, str], ...] = ()
    """Its parts with their ids, in order; the judge sees each on a separate line."""
    only_for: frozenset[str] | None = None
    """Shown only while one of these items is open; None: always shown."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to answer about: a chunk, a sentence, a claim, a question."""

    id: str
    """Unique within the ask, e.g. ``c1``."""
    depends_on: tuple[str, ...]
    """Every text that can change the answer. Items with equal texts and prompt are asked once."""
    source: str | None = None
    """The text from which the answer must be taken, see `Group.taken`; None: not checked."""


@dataclass(frozen=True, slots=True)
class Group:
    """Items that are answered in the same way."""

    name: str
    """The key in the judge's reply, e.g. ``chunks``."""
    items: tuple[Item, ...]
    """The items, in order."""
    kind: AnswerKind = "verdict"
    """The kind of question about each item."""
    choices: tuple[str, ...] = ()
    """The words allowed when `kind` is ``choice``."""
    reasons: bool = True
    """Ask for a short reason with each verdict or choice; in lists only with each false one."""
    compact: bool = False
    """Return verdicts as two lists of ids, which needs fewer tokens; reasons only with the false ones."""
    taken: Taken = "copied"
    """How answers must be taken from `Item.source`; others are unknown, and never cached."""
    shared_with: str | None = None
    """Name of the prompt whose asks have the same question: answers are shared with them, and the groups of
    that prompt are asked together with this one only while one of their items is open. A failure here leaves
    its items unknown and the rest of the ask unaffected."""

    def takes(self, value: AnswerValue) -> bool:
        """Return whether `value` is a valid answer for items of this group."""
        if self.kind == "verdict":
            return isinstance(value, bool)
        if self.kind == "choice":
            return isinstance(value, str) and value in self.choices
        if self.kind == "text":
            return value is None or isinstance(value, str)
        wanted = str if self.kind == "texts" else tuple
        return isinstance(value, tuple) and all(isinstance(part, wanted) for part in value)


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to the judge about some numbered items."""

    metric: str
    """Name of the asking metric; calls and tokens are reported under it."""
    prompt: str
    """Name of the prompt file, see ``metrics/judged/prompts``."""
    passages: tuple[Passage, ...]
    """The texts for the judge, in order."""
    groups: tuple[Group, ...]
    """The groups of items to answer."""
    prompts_with_shared: Mapping[frozenset[str], str] = field(default_factory=dict)
    """The prompt to use instead while groups with `shared_with` are included, by the names in it."""

    def prompt_for(self, open_ids: Collection[str]) -> str:
        """Return the prompt that asks about `open_ids`."""
        return self.prompts_with_shared.get(self._shared(open_ids), self.prompt)

    def groups_for(self, open_ids: Collection[str]) -> tuple[Group, ...]:
        """Return the groups to ask while `open_ids` are open."""
        shared = self._shared(open_ids)
        return tuple(group for group in self.groups if group.shared_with is None or group.shared_with in shared)

    def _shared(self, open_ids: Collection[str]) -> frozenset[str]:
        """Return the other prompts whose questions are included in the same call."""
        return frozenset(
            group.shared_with
            for group in self.groups
            if group.shared_with is not None and any(item.id in open_ids for item in group.items)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer about one item."""

    known: bool
    """False: the judge answered null where that means "I cannot tell", or nothing usable."""
    value: AnswerValue = None
    """The answer; see `AnswerKind`."""
    reason: str | None = None
    """The judge's reason."""

    @property
    def verdict(self) -> bool | None:
        """The answer if it is yes or no; None: unknown, or of another kind."""
        return self.value if isinstance(self.value, bool) else None


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of asking."""

    calls: int = 0
    """Calls on the wire, including failed attempts and step-downs."""
    input_tokens: int = 0
    """Prompt tokens by the endpoint's count, else estimated."""
    output_tokens: int = 0
    """Completion tokens, likewise."""
    cache_hits: int = 0
    """Items answered without a call: known before, or pending in another ask."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Reply:
    """The answers to an `Ask`, one per item, and their cost."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    """Answers by item id, for every requested id."""
    usage: Usage = field(default_factory=Usage)
    """The cost of this ask."""


class JudgeError(Exception):
    """A failed or unusable answer of the judge. Judged metrics turn it into a status.

    Attributes:
        error_type: Low-cardinality class of the failure, e.g. ``rate_limited``.
        status: The status of the scores that needed the answer.
        usage: The cost of the attempt.
    """

    def __init__(
        self,
        message: str,
        error_type: str,
        *,
        status: Literal["judge_error", "timeout", "skipped"] = "judge_error",
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.status: Literal["judge_error", "timeout", "skipped"] = status
        self.usage = usage or Usage()

    def costing(self, usage: Usage) -> JudgeError:
        """Return the same failure with `usage` as its cost, which is counted only once if it is shared."""
        return JudgeError(str(self), self.error_type, status=self.status, usage=usage)


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One call to the judge's endpoint with all its attempts, as the meter exports it."""

    metric: str
    """Name of the asking metric."""
    model: str
    """The model's name."""
    duration_s: float
    """Wall time of the call in seconds, retries included."""
    input_tokens: int
    """Prompt tokens by the endpoint's count, else estimated."""
    output_tokens: int
    """Completion tokens, likewise."""
    error_type: str | None = None
    """Low-cardinality class of the failure, or None."""
    cached: bool = False
    """True if no call was made because the answer was known."""
    cost: float | None = None
    """Its cost, in the currency of the judge's prices; None: no prices."""
    calls: int = 1
    """Number of posts, including failed attempts and step-downs."""
    cached_tokens: int = 0
    """The part of the prompt tokens that the endpoint read from its cache."""


JudgeObserver = Callable[[JudgeCall], None]
"""Receives every call; must not block and must not raise."""


@dataclass(frozen=True, slots=True)
class JudgeStats:
    """The counts of a judge since it was built."""

    calls: int = 0
    """Calls on the wire, including failed attempts and step-downs."""
    input_tokens: int = 0
    """Prompt tokens."""
    output_tokens: int = 0
    """Completion tokens."""
    cached_tokens: int = 0
    """Prompt tokens that the endpoint read from its cache."""
    cache_hits: int = 0
    """Items answered without a call."""
    cache_misses: int = 0
    """Items in calls."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Calls that failed, by class."""
    cost: float = 0.0
    """Money spent, if the budget has prices."""


@runtime_checkable
class AsksOnly(Protocol):
    """The least members of a judge; `RagMeter` adds the rest of `Judge` to such an object."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    async def ask(self, ask: Ask) -> Reply:
        """Answer every item of `ask`, once; raise a `JudgeError` without a usable answer."""
        ...

    def subscribe(self, observer: JudgeObserver) -> None:
        """Notify `observer` of every call from now on."""
        ...

    async def aclose(self) -> None:
        """Release connections. The judge can be used again afterwards."""
        ...


@runtime_checkable
class Judge(AsksOnly, Protocol):
    """Gives verdicts. `OpenAIJudge` is built in; write your own as a subclass of `CountingJudge`."""

    @property
    def budget(self) -> JudgeBudget | None:
        """Limits of its use, or None. The meter derives from them how many requests it judges."""
        ...

    @property
    def stats(self) -> JudgeStats:
        """The counts so far."""
        ...

    def report(self, call: JudgeCall) -> None:
        """Count a call and notify the observers: one of this judge, or one of a scoring process."""
        ...

    def report_items(self, hits: int, misses: int) -> None:
        """Count items answered without a call, and items in calls, likewise."""
        ...
