"""The interface of a judge: its questions, its answers and its reports.

Metrics and the meter depend on this contract alone, never on a client library.  A metric sends an
`Ask` (texts, and numbered items to answer), the judge returns a `Reply` with one `Answer` per item.
The meter subscribes to `JudgeCall` to export durations and tokens, and plans with the `budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .budget import JudgeBudget

__all__ = [
    "Answer",
    "AnswerKind",
    "AnswerValue",
    "Ask",
    "AsksOnly",
    "Group",
    "Item",
    "Judge",
    "JudgeCall",
    "JudgeError",
    "JudgeObserver",
    "JudgeStats",
    "Passage",
    "Reply",
    "Taken",
    "Usage",
]

AnswerKind = Literal["verdict", "choice", "text", "texts", "pairs"]
"""The kind of question about an item.

``verdict``: true or false. ``choice``: one of some words. ``text``: a short text, or null: "cannot
be answered". ``texts``: a list of texts. ``pairs``: a list of (question, answer or null).
"""

AnswerValue = bool | str | tuple[str, ...] | tuple[tuple[str, str | None], ...] | None
"""A bool for ``verdict``, a word for ``choice``, a text or None for ``text``, and so on."""

Taken = Literal["copied", "reworded"]
"""``copied``: the judge was to copy words of a text; of several answers one must be found there.
``reworded``: it was to say what the text says; every answer must share most of its words with it.
"""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text the judge is to read. Untrusted: it is data, whatever it says."""

    title: str
    """What it is, e.g. ``question`` or ``chunk c1``. Ours, never the user's."""
    text: str = ""
    """The text; ignored when `lines` is given."""
    lines: tuple[tuple[str, str], ...] = ()
    """Its parts with their ids, in order; the judge sees each on a line of its own."""
    only_for: frozenset[str] | None = None
    """Shown only while one of these items is still open; None: always shown."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to answer: a chunk, a sentence, a claim, a question."""

    id: str
    """Unique within the ask, e.g. ``c1``."""
    depends_on: tuple[str, ...]
    """Every text that can change the answer. Same texts, same prompt: asked once."""
    source: str | None = None
    """The text that the answer must be taken from, see `Group.taken`; None: it is not checked."""


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
    """Ask for a short reason with each verdict or choice; in lists with each false one."""
    compact: bool = False
    """Verdicts come as two lists of ids, which costs fewer tokens; reasons with the false ones only."""
    taken: Taken = "copied"
    """How answers are taken from `Item.source`; one that is not is unknown, and never remembered."""
    shared_with: str | None = None
    """Name of the prompt whose asks put the same question: answers are shared with them, and the
    groups of that prompt are asked along only while one of their items is open. What fails here
    leaves its items unknown and the rest of the ask unharmed."""

    def takes(self, value: AnswerValue) -> bool:
        """Return whether `value` is one that an item of this group may have."""
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
    """Name of the metric that asks; calls and tokens are reported under it."""
    prompt: str
    """Name of the prompt file, see ``metrics/judged/prompts``."""
    passages: tuple[Passage, ...]
    """What the judge is to read, in order."""
    groups: tuple[Group, ...]
    """What it is to answer."""
    prompts_with_shared: Mapping[frozenset[str], str] = field(default_factory=dict)
    """The prompt to use instead while groups with `shared_with` are asked along, by the names in it."""

    def prompt_for(self, open_ids: Collection[str]) -> str:
        """Return the prompt that asks about `open_ids`."""
        return self.prompts_with_shared.get(self._shared(open_ids), self.prompt)

    def groups_for(self, open_ids: Collection[str]) -> tuple[Group, ...]:
        """Return the groups to ask while `open_ids` are open."""
        shared = self._shared(open_ids)
        return tuple(
            group
            for group in self.groups
            if group.shared_with is None or group.shared_with in shared
        )

    def _shared(self, open_ids: Collection[str]) -> frozenset[str]:
        """Return the other prompts whose questions are asked in the same call."""
        return frozenset(
            group.shared_with
            for group in self.groups
            if group.shared_with is not None and any(item.id in open_ids for item in group.items)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer about one item."""

    known: bool
    """False: the judge said null where that means "I cannot tell", or nothing usable."""
    value: AnswerValue = None
    """The answer; see `AnswerKind`."""
    reason: str | None = None
    """The judge's reason."""

    @property
    def verdict(self) -> bool | None:
        """The answer where it is yes or no; None: unknown, or of another kind."""
        return self.value if isinstance(self.value, bool) else None


@dataclass(frozen=True, slots=True)
class Usage:
    """What asking cost."""

    calls: int = 0
    """Calls made, as the wire saw them: attempts that failed and step-downs among them."""
    input_tokens: int = 0
    """Prompt tokens, as the endpoint counts them; estimated where it does not."""
    output_tokens: int = 0
    """Completion tokens, likewise."""
    cache_hits: int = 0
    """Items answered without asking: known before, or just being asked about by another ask."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_hits + other.cache_hits,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """The answers to an `Ask`, one per item, and what they cost."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    """Answers by item id; every id that was asked is there."""
    usage: Usage = field(default_factory=Usage)
    """What this ask cost."""


class JudgeError(Exception):
    """The judge could not be asked or did not answer usably. Judged metrics turn it into a status.

    Attributes:
        error_type: Low-cardinality class of the failure, e.g. ``rate_limited``.
        status: The status of the scores that needed the answer.
        usage: What the attempt cost.
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
        """Return the same failure with `usage` as its cost; everyone who shares it pays once."""
        return JudgeError(str(self), self.error_type, status=self.status, usage=usage)


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One call to the judge's endpoint, all its attempts, as the meter exports it."""

    metric: str
    """Name of the metric that asked."""
    model: str
    """The model that was asked."""
    duration_s: float
    """Wall time of the call in seconds, retries included."""
    input_tokens: int
    """Prompt tokens, as the endpoint counts them; estimated where it does not."""
    output_tokens: int
    """Completion tokens, likewise."""
    error_type: str | None = None
    """Low-cardinality class of the failure, or None."""
    cached: bool = False
    """True when no call was made because the answer was known."""
    cost: float | None = None
    """What it cost, in the currency of the judge's prices; None: it has no prices."""
    calls: int = 1
    """Posts it took: attempts that failed and step-downs among them."""
    cached_tokens: int = 0
    """Those of the prompt tokens that the endpoint read from its own cache."""


JudgeObserver = Callable[[JudgeCall], None]
"""Gets every call; must not block and must not raise."""


@dataclass(frozen=True, slots=True)
class JudgeStats:
    """What a judge did since it was built."""

    calls: int = 0
    """Calls made, as the wire saw them: attempts that failed and step-downs among them."""
    input_tokens: int = 0
    """Prompt tokens."""
    output_tokens: int = 0
    """Completion tokens."""
    cached_tokens: int = 0
    """Prompt tokens that the endpoint read from its own cache."""
    cache_hits: int = 0
    """Items answered without asking."""
    cache_misses: int = 0
    """Items asked about."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Calls that failed, by class."""
    cost: float = 0.0
    """What was spent, if the budget knows prices."""


@runtime_checkable
class AsksOnly(Protocol):
    """What a judge cannot do without; `RagMeter` adds the rest of `Judge` to an object with these members."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    async def ask(self, ask: Ask) -> Reply:
        """Answer every item of `ask`, once.

        Raises:
            JudgeError: The judge could not be asked, or answered nothing usable.
        """
        ...

    def subscribe(self, observer: JudgeObserver) -> None:
        """Tell `observer` about every call from now on."""
        ...

    async def aclose(self) -> None:
        """Release connections. The judge can be used again afterwards."""
        ...


@runtime_checkable
class Judge(AsksOnly, Protocol):
    """Gives verdicts. `OpenAIJudge` is built in; write your own as a subclass of `CountingJudge`."""

    @property
    def budget(self) -> JudgeBudget | None:
        """Limits of its use; None without limits. The meter plans with them how many requests it judges."""
        ...

    @property
    def stats(self) -> JudgeStats:
        """What it did so far."""
        ...

    def report(self, call: JudgeCall) -> None:
        """Count a call and tell the observers: one of its own, or one that a scoring process made."""
        ...

    def report_items(self, hits: int, misses: int) -> None:
        """Count items answered without asking, and items asked about, likewise."""
        ...
