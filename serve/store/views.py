"""What can be read of the store, as plain values: an overview, lists of requests, and one request.

The page and the API show the same of these.  Numbers of scores are on each score's own scale, but for
`Estimate`, which is on the range scaled to 0 … 1 as everywhere in ragmeter.  Times are milliseconds since the
epoch.  None is "not known", never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ConfigDict

from ragmeter.quality.estimates import Estimate
from ragmeter.quality.gaps.gap import Gap

from ._evidence import Evidence
from ._guidance import Advice, Cause, SameQuestion
from ._stages import DocumentView, StageView
from .health_views import BadShare, bad_share

__all__ = [
    "ContextView",
    "ConversationPage",
    "ConversationView",
    "Facet",
    "FacetPage",
    "FacetValue",
    "Filters",
    "GapPage",
    "GapView",
    "Group",
    "ItemView",
    "JudgeOutage",
    "JudgeUse",
    "Overview",
    "RequestPage",
    "RequestRow",
    "RequestView",
    "ScoreSummary",
    "ScoreValue",
    "ScoreView",
    "TrendPoint",
    "TurnView",
]


_DESCRIBED = ConfigDict(use_attribute_docstrings=True)
"""The description of the API says of each field what stands here below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which requests count."""

    range_s: float = 3600.0
    """The last so many seconds before `until_ms`."""
    since_ms: int | None = None
    """From this moment on, instead of `range_s`."""
    until_ms: int | None = None
    """Before this moment; None: until now."""
    service: str | None = None
    """Of this service alone (``service.name``)."""
    workflow: str | None = None
    """Of this workflow alone; empty: of requests without one."""
    segment: str | None = None
    """Of this part alone, as ``name:value``: ``language:zh``, ``metadata.tenant:acme``."""
    verdict: str | None = None
    """With this verdict alone; lists only, as all that follow."""
    question: str | None = None
    """Of this question alone, by `QuestionView.key`."""
    reason: str | None = None
    """With this code among its verdict's."""
    segments: tuple[str, ...] = ()
    """Of these parts, too, as `segment`."""
    scores: tuple[tuple[str, str, float], ...] = ()
    """With scores within bounds: (name, ``>=`` or ``<=``, value)."""
    search: str | None = None
    """With these words in question, answer or chunks; words between quotation marks stand together."""
    conversation_id: str | None = None
    """Of this conversation alone."""
    gap: str | None = None
    """Of the knowledge gap with this id: its requests that went badly, within the last 14 days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """What a score was in one stretch of time. Stretches without any value are left out."""

    from_ms: int
    """Its beginning."""
    until_ms: int
    """Its end."""
    estimate: Estimate
    """The mean with its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """One score over all requests of a service that count."""

    service: str = ""
    """The service; empty: it has no name."""
    name: str
    """Its name."""
    direction: str
    """``higher``, ``lower`` or ``none``: which way is better."""
    method: str
    """How it is computed, as `Score.method`."""
    target: str
    """What it judges: ``retrieval`` or ``answer``."""
    definition: str
    """Version of its formula."""
    range: tuple[float | None, float | None]
    """Smallest and largest possible value; None: no bound."""
    judged: bool
    """Whether only requests have it that were chosen to be judged."""
    estimate: Estimate | None
    """The mean with its interval; None: no quality, as with counts."""
    statuses: Mapping[str, int]
    """Requests by `Score.status`."""
    usual: tuple[float, float] | None
    """Between the 10th and the 90th percentile of the values before that time, else within
    it, rounded outwards to twentieths of the range; None: fewer than 20 values."""
    trend: tuple[TrendPoint, ...] = ()
    """How it went."""
    measurement: str = ""
    """Names the formula and the judge that it was measured by, a short hash: there is no mean over two of them.
    Empty: it was not measured."""
    judge: str = ""
    """The model that judged; empty: none did, or it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The requests of one workflow, or of one of its segments."""

    service: str = ""
    """The service that it runs in; empty: it has no name."""
    workflow: str
    """Name of the workflow; empty: it has none."""
    segment: str
    """``name:value``; empty: all of the workflow's."""
    requests: int
    """How many."""
    estimates: Mapping[str, Estimate]
    """The means of their scores by name; where several judges measured one, of the one that `measurements`
    names."""
    measurements: Mapping[str, str] = field(default_factory=dict)
    """Which measurement of each score that is, as `ScoreSummary.measurement`: that of `Overview.scores` where
    these requests have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUse:
    """The calls to the judge, by outcome."""

    requests: int = 0
    """Requests with a judged score that was tried."""
    failed: int = 0
    """Those of them with one that failed."""
    calls: int = 0
    """Calls."""
    input_tokens: int = 0
    """Tokens sent to it."""
    output_tokens: int = 0
    """Tokens that it wrote."""
    cache_hits: int = 0
    """Questions answered from its cache."""
    cost: float | None = None
    """What that cost, in the currency of the judge's prices; None: no price is known."""
    priced: int = 0
    """Requests that `cost` is of: those whose application knows the prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOutage:
    """A time in which judged scores failed."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    from_ms: int
    """When the first request began that has none for that."""
    until_ms: int
    """When the last one did."""
    requests: int
    """Requests with a judged score that failed."""
    models: tuple[str, ...]
    """The models that were asked, as far as they are known."""
    errors: Mapping[str, int]
    """Requests by class of the error, the commonest first; where that is unknown, by `Score.status`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreValue:
    """A score of a request in a list."""

    value: float | None
    """The number; None: `status` says why there is none."""
    status: str
    """As `Score.status`."""
    label: str | None = None
    """The word for it."""
    lower: float | None = None
    """Lower bound of a ``partial`` one."""
    upper: float | None = None
    """Upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One request in a list."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    run_id: str
    """Its own id."""
    trace_id: str | None
    """32 hex digits; None: it ran outside any trace."""
    span_id: str | None
    """16 hex digits: the span of the request within the trace."""
    at_ms: int
    """When it began; of an orphan, when the first was heard of it."""
    duration_ms: float | None
    """How long it took."""
    service: str
    """The service that it ran in; empty: unknown."""
    workflow: str
    """Name of the chain, engine or workflow; empty: it has none."""
    framework: str | None
    """Which framework, as `RagRun.framework`."""
    status: str | None
    """How it ended, as `RagSample.status`."""
    segments: Mapping[str, str]
    """The parts that it belongs to, by name."""
    question: str | None
    """What was asked; None: no text was captured."""
    verdict: str | None
    """``good``, ``suspect`` or ``bad``."""
    verdict_codes: tuple[str, ...]
    """The rules that apply, strongest first."""
    scores: Mapping[str, ScoreValue]
    """Its scores by name, in alphabetical order."""
    excess: float | None
    """How much worse than its workflow's means its scores are, added up over them, each on 0 … 1; None: not
    asked for."""
    times: int = 1
    """How many requests of the same question this line stands for, this being the worst; 1 unless grouped."""
    bad: BadShare | None = None
    """How many requests of its service with its question are bad; None: not in order of `question`."""
    orphan: bool = False
    """Only scores have come, and no span of the request: it is still on its way, or was not sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPage:
    """A page of a list."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    requests: tuple[RequestRow, ...]
    """In order."""
    next: str | None
    """Cursor of the next page; None: this is the last."""
    previous_count: int = 0
    """Requests before this page."""
    total: int = 0
    """Requests on all pages."""
    complete: bool = True
    """Whether these are all; False: a search has found more, and these are the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetValue:
    """A value that a list can be narrowed to."""

    value: str
    """The value; empty: of requests that have none."""
    requests: int
    """Requests that the list would then hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """The values of one filter."""

    name: str
    """``verdict``, ``reason``, ``service``, ``workflow``, or the name of a segment."""
    values: tuple[FacetValue, ...]
    """Each counted under all other filters; at most twelve, the commonest first, and those that are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetPage:
    """What a list can be narrowed to, and how its requests lie in time."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    total: int
    """Requests of the list."""
    facets: tuple[Facet, ...]
    """Those with more than one value, or with a chosen one."""
    from_ms: int
    """When the first stretch of `bins` begins."""
    step_ms: int
    """How long each is."""
    bins: tuple[tuple[int, int, int, int], ...]
    """Of each stretch of time: bad, suspect and good requests, and those without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A request of a conversation."""

    trace_id: str | None
    """Its trace; None: it has none."""
    span_id: str | None
    """Its span there."""
    run_id: str
    """Its own id."""
    at_ms: int
    """When it began, milliseconds since the epoch."""
    status: str | None
    """How it ended."""
    verdict: str | None
    """Its word; None: it has none."""
    question: str | None
    """What was asked; None: no text is kept."""
    answer: str | None = None
    """The beginning of what was answered; None: no text is kept."""
    verdict_codes: tuple[str, ...] = ()
    """The rules that apply, strongest first."""
    asks_again: bool | None = None
    """Whether it asks the turn before again, by its phrases; None: not looked for, or no text is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """The requests of one conversation, session or thread, in order of time."""

    conversation_id: str
    """Its id, as the application reports it."""
    service: str
    """The service it is with; empty: unknown."""
    workflow: str
    """The chain, engine or workflow of its first turn; empty: none."""
    verdict: str | None
    """``bad`` where the last turn with a verdict is, ``suspect`` where another one is, else the last one's."""
    first_bad: int | None
    """Which turn is the first bad one, counted from 1; None: none is."""
    ended_bad: bool
    """Whether it ended, as far as is known, with its first bad turn, which was not its only one."""
    turns: tuple[TurnView, ...]
    """Those of the chosen time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """Conversations of a period, the worst first."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    conversations: tuple[ConversationView, ...]
    """The bad ones first, then the suspect ones; of each the newest first."""
    total: int
    """Conversations within that time."""
    with_bad: int
    """Those of them that have a bad turn."""
    share: float | None
    """Of those with a verdict, the share that has a bad turn; None: none has a verdict."""
    lower: float | None
    """Lower end of its 95 % interval (Wilson): conversations are its cases, not requests."""
    upper: float | None
    """Upper end."""
    complete: bool
    """Whether all requests of that time were read; else the newest 20,000 that name a conversation."""


GapState = Literal["open", "accepted", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapView(Gap):
    """A knowledge gap with its stored requests and the decision about it."""

    state: GapState = "open"
    """``accepted``: nothing will be done; ``closed``: dealt with, ``open`` again with its next bad request."""
    last_ms: int = 0
    """When its last bad request came, milliseconds since the epoch."""

    service: str = ""
    """That most of its bad requests ran in; empty: unknown."""
    answered: BadShare = field(default_factory=lambda: bad_share(0, 0))
    """How many of its bad requests were answered all the same, of those of which it is known: the harm."""
    n_refused: int = 0
    """Bad ones whose answer refuses."""
    n_empty: int = 0
    """Bad ones for which nothing was found."""
    relevance: float | None = None
    """Mean of `lexical_context_relevance` of the bad ones, which is that of the best chunk; None: unknown."""
    from_ms: int = 0
    """When the first stretch of `bins` begins."""
    step_ms: int = 1
    """How long each is."""
    bins: tuple[tuple[int, int, int, int], ...] = ()
    """Of each stretch of time: its bad and suspect requests, and of the others that went badly the good ones
    and those without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPage:
    """Knowledge gaps of a stretch of time, found by words and counts."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    gaps: tuple[GapView, ...]
    """Those with the most requests that went badly first."""
    n_bad: int
    """Requests that went badly, of all that count."""
    n_requests: int
    """Requests that count: those with a verdict."""
    without_topic: int
    """Bad ones whose questions have no topic word."""
    why_empty: str
    """Why none is listed: ``no_requests``, ``no_questions``, ``too_many_bad``, ``nothing_stands_out``."""
    complete: bool
    """Whether all requests of that time were read; else the newest 20,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemView:
    """What a score found of one piece."""

    id: str
    """E.g. ``chunk-1``, counted from 1."""
    verdict: bool | None
    """True, False, or None: unknown or not applicable."""
    value: float | None = None
    """The number behind it."""
    supported_by: tuple[str, ...] = ()
    """The pieces of context that it rests on, as ``chunk-2#3``: the third sentence of the second chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreView:
    """One score of one request, with everything known about it."""

    name: str
    value: float | None
    status: str
    label: str | None
    lower: float | None
    upper: float | None
    direction: str | None
    method: str | None
    target: str | None
    definition: str | None
    range: tuple[float | None, float | None]
    error_type: str | None
    summary: str | None
    """What it saw, without any text of the request."""
    explanation: str | None
    """The same with texts, where they were captured."""
    items: tuple[ItemView, ...]
    items_left_out: int
    judge_calls: int
    input_tokens: int
    output_tokens: int
    cache_hits: int
    cost: float | None
    """What asking the judge for it cost, in the currency of its prices; None: not known, or not asked."""
    judge: str | None
    """The model that judged; None: none did, or it is unknown."""
    endpoint: str | None
    """What kind of endpoint that was: ``openai``, ``azure``, ``local``, ``compatible`` or ``custom``."""
    usual: tuple[float, float] | None
    """As `ScoreSummary.usual`, of its service and workflow during the day before the last deployment, else
    before the request; None, too, where that spans more than 0.6 of the range: nothing is usual then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """One retrieved chunk."""

    number: int
    """From 1, in the order in which the model saw it; ``chunk-<number>`` of `ItemView.id`."""
    id: str | None
    """The document's id."""
    score: float | None
    """The retriever's own score."""
    text: str | None
    """None: no text was captured."""
    carried: bool = False
    """Whether it only stands in the prompt: of an earlier turn, or a whole context that nothing divides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request, whole."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    row: RequestRow
    """As in a list, with `RequestRow.excess`."""
    answer: str | None
    """What the user got; None: no text was captured, or there was none."""
    verdict_reasons: tuple[str, ...]
    """One sentence for each code."""
    contexts: tuple[ContextView, ...]
    """What was retrieved."""
    scores: tuple[ScoreView, ...]
    """In alphabetical order."""
    metadata: Mapping[str, str | float]
    """What the application said of it."""
    conversation_id: str | None
    user_id: str | None
    missing: tuple[str, ...]
    """The inputs that some scores lacked, e.g. ``reference``."""
    sample_rate: float
    judge_sample_rate: float
    selection: str
    """``sampled``, or ``worst``: kept for being bad."""
    siblings: tuple[RequestRow, ...]
    """The other requests of the same trace, in order of time."""
    cause: Cause = field(default_factory=lambda: Cause(code="verdict"))
    """Why it is here."""
    advice: Advice = field(default_factory=lambda: Advice(code="unknown"))
    """What to do about it."""
    same: SameQuestion = field(default_factory=lambda: SameQuestion(n=1, n_bad=0))
    """The requests with the same question."""
    evidence: Evidence | None = None
    """Which sentences of the answer the chunks carry, by shared words; None: no text is known."""
    stages: tuple[StageView, ...] = ()
    """What its documents passed; empty: not known."""
    documents: tuple[DocumentView, ...] = ()
    """They by stage, those that reached the prompt first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything of a stretch of time at a glance."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    from_ms: int
    """From when on."""
    until_ms: int
    """Before when."""
    requests: int
    """Requests that began within."""
    statuses: Mapping[str, int]
    """Requests by how they ended."""
    verdicts: Mapping[str, int]
    """Requests by verdict; ``none``: without one."""
    orphans: int
    """Requests of which only scores have come, for longer than a minute."""
    nothing_retrieved: int
    """Requests for which nothing was found."""
    without_text: int
    """Requests whose question was not captured."""
    scores: tuple[ScoreSummary, ...]
    """By service, the largest first, and name: no mean is over two services. Where several judges, or versions
    of a formula, measured one score, the measurement with the most values since the youngest of them began."""
    groups: tuple[Group, ...]
    """Workflows of services, each followed by its parts; the largest first."""
    judge: JudgeUse
    """What the judge was asked."""
    dropped: Mapping[str, int]
    """Requests that applications captured and did not send, by reason, as ``ragmeter.dropped`` reports them."""
    services: Mapping[str, int] = field(default_factory=dict)
    """Requests by service."""
    workflows: Mapping[str, int] = field(default_factory=dict)
    """Requests by workflow."""
    others: tuple[ScoreSummary, ...] = ()
    """The same scores as other judges, or other versions of a formula, measured them; likewise."""

    @property
    def measured(self) -> tuple[ScoreSummary, ...]:
        """`scores` and `others`, by service and name."""
        services = {one: place for place, one in enumerate(self.services)}
        return tuple(
            sorted(
                (*self.scores, *self.others),
                key=lambda one: (services.get(one.service, 0), one.name),
            )
        )

    segments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Requests by part: name → value → how many."""
    last_ms: int | None = None
    """When the last request came that is stored at all, by this server's clock; None: none has ever come."""
