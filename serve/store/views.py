"""Results of queries of the store, as plain values: an overview, lists of requests, and one request.

The page and the API show the same of these.  Numbers of scores are on each score's own scale, but for
`Estimate`, which is on the range scaled to 0 … 1 as everywhere in ragmeter.  Times are milliseconds since the
epoch.  None is "not known", never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragmeter.quality.estimates import Estimate
from ragmeter.quality.gaps.gap import Gap

from ._evidence import Evidence
from ._guidance import Advice, Cause, SameQuestion
from ._stages import DocumentView, StageView
from .health_views import BadShare, bad_share

"""The description of the API takes the description of each field from its docstring here."""


class InvalidQueryError(ValueError):
    """A filter, or another part of a query, has an invalid value; the message names the valid ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters that select requests."""

    range_s: float = 3600.0
    """Length of the period before `until_ms`, in seconds."""
    since_ms: int | None = None
    """Start of the period, instead of `range_s`."""
    until_ms: int | None = None
    """End of the period, exclusive; None: now."""
    service: str | None = None
    """Only this service (``service.name``)."""
    workflow: str | None = None
    """Only this workflow; empty: requests without one."""
    segment: str | None = None
    """Only this segment, as ``name:value``: ``language:zh``, ``metadata.tenant:acme``."""
    verdict: str | None = None
    """Only this verdict; for lists only, as are all following fields."""
    question: str | None = None
    """Only this question, by `QuestionView.key`."""
    reason: str | None = None
    """Only requests with this code in their verdict."""
    segments: tuple[str, ...] = ()
    """Only these segments, in addition to `segment`."""
    scores: tuple[tuple[str, str, float], ...] = ()
    """Only requests with scores within these bounds: (name, ``>=`` or ``<=``, value)."""
    search: str | None = None
    """Only requests with these words in question, answer or chunks; phrases between quotation marks."""
    conversation_id: str | None = None
    """Only this conversation."""
    gap: str | None = None
    """Only the knowledge gap with this id: its requests that went badly, within the last 14 days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A score in one period. Periods without a value are left out."""

    from_ms: int
    """Start of the period."""
    until_ms: int
    """End of the period."""
    estimate: Estimate
    """The mean with its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """One score over all matching requests of a service."""

    service: str = ""
    """The service; empty: it has no name."""
    name: str
    """Name of the score."""
    direction: str
    """The better direction: ``higher``, ``lower`` or ``none``."""
    method: str
    """Method of computation, as `Score.method`."""
    target: str
    """The measured part: ``retrieval`` or ``answer``."""
    definition: str
    """Version of the formula."""
    range: tuple[float | None, float | None]
    """Smallest and largest possible value; None: no bound."""
    judged: bool
    """Whether only requests that were selected for judging have the score."""
    estimate: Estimate | None
    """The mean with its interval; None: no mean, as for counts."""
    statuses: Mapping[str, int]
    """Requests by `Score.status`."""
    usual: tuple[float, float] | None
    """Between the 10th and the 90th percentile of the values before that time, else within
    it, rounded outwards to twentieths of the range; None: fewer than 20 values."""
    trend: tuple[TrendPoint, ...] = ()
    """The score over time."""
    measurement: str = ""
    """Identifies the formula and the judge, as a short hash: two of them have no common mean. Empty: not
    measured."""
    judge: str = ""
    """The judge's model; empty: none, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The requests of one workflow, or of one of its segments."""

    service: str = ""
    """The service that it runs in; empty: it has no name."""
    workflow: str
    """Name of the workflow; empty: it has none."""
    segment: str
    """``name:value``; empty: the whole workflow."""
    requests: int
    """Number of requests."""
    estimates: Mapping[str, Estimate]
    """The means of their scores by name; of several judges' measurements, the one in `measurements`."""
    measurements: Mapping[str, str] = field(default_factory=dict)
    """The measurement of each score in `estimates`, as `ScoreSummary.measurement`: that of `Overview.scores`
    where these requests have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUse:
    """The calls to the judge, by outcome."""

    requests: int = 0
    """Requests with an attempted judged score."""
    failed: int = 0
    """Requests with a failed judged score."""
    calls: int = 0
    """Number of calls."""
    input_tokens: int = 0
    """Tokens sent to the judge."""
    output_tokens: int = 0
    """Tokens written by the judge."""
    cache_hits: int = 0
    """Verdicts from the judge's cache."""
    cost: float | None = None
    """Cost of the calls, in the currency of the judge's prices; None: no price is known."""
    priced: int = 0
    """Number of requests in `cost`: those whose application knows the prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOutage:
    """A period in which judged scores failed."""

    from_ms: int
    """Start of the first affected request."""
    until_ms: int
    """Start of the last affected request."""
    requests: int
    """Requests with a judged score that failed."""
    models: tuple[str, ...]
    """The judge's models, as far as known."""
    errors: Mapping[str, int]
    """Requests by class of the error, the most frequent first; if that is unknown, by `Score.status`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreValue:
    """A score of a request in a list."""

    value: float | None
    """The value; None: `status` has the reason."""
    status: str
    """As `Score.status`."""
    label: str | None = None
    """The label of the value."""
    lower: float | None = None
    """Lower bound of a ``partial`` score."""
    upper: float | None = None
    """Upper bound of a ``partial`` score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One request in a list."""

    run_id: str
    """Id of the request."""
    trace_id: str | None
    """32 hex digits; None: outside any trace."""
    span_id: str | None
    """16 hex digits: the span of the request within the trace."""
    at_ms: int
    """Start of the request; of an orphan, the time of its first report."""
    duration_ms: float | None
    """Duration in milliseconds."""
    service: str
    """Name of the service; empty: unknown."""
    workflow: str
    """Name of the chain, engine or workflow; empty: it has none."""
    framework: str | None
    """Name of the framework, as `RagRun.framework`."""
    status: str | None
    """Outcome, as `RagSample.status`."""
    segments: Mapping[str, str]
    """The request's segments, by name."""
    question: str | None
    """The question; None: no text was captured."""
    verdict: str | None
    """``good``, ``suspect`` or ``bad``."""
    verdict_codes: tuple[str, ...]
    """The rules that apply, strongest first."""
    scores: Mapping[str, ScoreValue]
    """The scores by name, in alphabetical order."""
    excess: float | None
    """How much worse its scores are than its workflow's means, each scaled to 0 … 1, summed; None: not
    computed."""
    times: int = 1
    """Number of requests with this question that this line represents, the worst of them; 1 unless grouped."""
    bad: BadShare | None = None
    """Bad requests with its question in its service; None: the order is not `question`."""
    orphan: bool = False
    """Whether only scores have arrived, without the request's span, which may be late or not sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPage:
    """A page of a list."""

    requests: tuple[RequestRow, ...]
    """The requests, in the list's order."""
    next: str | None
    """Cursor of the next page; None: this is the last."""
    previous_count: int = 0
    """Requests before this page."""
    total: int = 0
    """Lines on all pages: requests, or questions where each is a line."""
    complete: bool = True
    """Whether these are all; False: the search has more results, and these are the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetValue:
    """A value to filter a list by."""

    value: str
    """The value; empty: requests without one."""
    requests: int
    """Requests in the list with this filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """The values of one filter."""

    name: str
    """``verdict``, ``reason``, ``service``, ``workflow``, or the name of a segment."""
    values: tuple[FacetValue, ...]
    """Each counted under all other filters; at most twelve, the most frequent, and the chosen ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetPage:
    """The values to filter a list by, and the distribution of its requests over time."""

    total: int
    """Requests in the list."""
    facets: tuple[Facet, ...]
    """Facets with more than one value, or with a chosen one."""
    from_ms: int
    """Start of the first bin."""
    step_ms: int
    """Length of a bin."""
    bins: tuple[tuple[int, int, int, int], ...]
    """Number of bad, suspect and good requests in each bin, and of those without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A request of a conversation."""

    trace_id: str | None
    """Id of its trace; None: it has none."""
    span_id: str | None
    """Id of its span."""
    run_id: str
    """Id of the request."""
    at_ms: int
    """Start of the request, milliseconds since the epoch."""
    status: str | None
    """Outcome of the request."""
    verdict: str | None
    """``good``, ``suspect`` or ``bad``; None: no verdict."""
    question: str | None
    """The question; None: no text is stored."""
    answer: str | None = None
    """The beginning of the answer; None: no text is stored."""
    verdict_codes: tuple[str, ...] = ()
    """The rules that apply, strongest first."""
    asks_again: bool | None = None
    """Whether it repeats the question before, by its phrases; None: not checked, or no text is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """The requests of one conversation, session or thread, in order of time."""

    conversation_id: str
    """Id of the conversation, as reported by the application."""
    service: str
    """Name of the service; empty: unknown."""
    workflow: str
    """The chain, engine or workflow of its first turn; empty: none."""
    verdict: str | None
    """``bad`` if the last verdict is, or a bad turn was asked again; ``suspect`` if another turn is bad or any
    was asked again; else the last verdict."""
    first_bad: int | None
    """Number of the first bad turn, counted from 1; None: none is bad."""
    ended_bad: bool
    """Whether it ended, as far as known, with its first bad turn, which was not its only turn."""
    turns: tuple[TurnView, ...]
    """The turns within the period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """Conversations of a period, the worst first."""

    conversations: tuple[ConversationView, ...]
    """The bad ones first, then the suspect ones; of each, the newest first."""
    total: int
    """Conversations within the period."""
    with_bad: int
    """Conversations with a bad turn."""
    share: float | None
    """Share of the conversations with a verdict that have a bad turn; None: none has a verdict."""
    lower: float | None
    """Lower end of its 95 % interval (Wilson), over conversations, not requests."""
    upper: float | None
    """Upper end of that interval."""
    complete: bool
    """Whether all requests of the period were read; else the newest 20,000 with a conversation id."""


GapState = Literal["open", "accepted", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapView(Gap):
    """A knowledge gap with its stored requests and the decision about it."""

    state: GapState = "open"
    """``accepted``: no action planned; ``closed``: resolved, but ``open`` again with its next bad request."""
    last_ms: int = 0
    """Start of its last bad request, milliseconds since the epoch."""

    service: str = ""
    """The service of most of its bad requests; empty: unknown."""
    answered: BadShare = field(default_factory=lambda: bad_share(0, 0))
    """Its bad requests that were answered nonetheless, of those known: the harm."""
    n_refused: int = 0
    """Bad requests with a refusal."""
    n_empty: int = 0
    """Bad requests for which nothing was found."""
    relevance: float | None = None
    """Mean of `lexical_context_relevance`, that of the best chunk, over the bad requests; None: unknown."""
    from_ms: int = 0
    """Start of the first bin."""
    step_ms: int = 1
    """Length of a bin."""
    bins: tuple[tuple[int, int, int, int], ...] = ()
    """Its bad and suspect requests in each bin, and of the others that went badly the good ones and those
    without a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPage:
    """Knowledge gaps of a period, found by words and counts."""

    gaps: tuple[GapView, ...]
    """The gaps, those with the most requests that went badly first."""
    n_bad: int
    """Matching requests that went badly."""
    n_requests: int
    """Matching requests with a verdict."""
    without_topic: int
    """Bad requests whose questions have no topic word."""
    why_empty: str
    """Reason for an empty list: ``no_requests``, ``no_questions``, ``too_many_bad``, ``nothing_stands_out``."""
    complete: bool
    """Whether all requests of the period were read; else the newest 20,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemView:
    """A score's finding about one piece."""

    id: str
    """``chunk-1`` and the like, counted from 1."""
    verdict: bool | None
    """True, False, or None: unknown or not applicable."""
    value: float | None = None
    """The underlying number."""
    supported_by: tuple[str, ...] = ()
    """The supporting pieces of context, as ``chunk-2#3``: the third sentence of the second chunk."""


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
    """A summary of the finding, without any text of the request."""
    explanation: str | None
    """The summary with texts, if these were captured."""
    items: tuple[ItemView, ...]
    items_left_out: int
    judge_calls: int
    input_tokens: int
    output_tokens: int
    cache_hits: int
    cost: float | None
    """Cost of the judge's calls, in the currency of its prices; None: unknown, or no calls."""
    judge: str | None
    """The judge's model; None: none, or unknown."""
    endpoint: str | None
    """The judge's kind of endpoint: ``openai``, ``azure``, ``local``, ``compatible`` or ``custom``."""
    usual: tuple[float, float] | None
    """As `ScoreSummary.usual`, of its service and workflow during the day before the last deployment, else
    before the request; None also if that spans more than 0.6 of the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """One retrieved chunk."""

    number: int
    """Rank from 1, in the order of the prompt; ``chunk-<number>`` of `ItemView.id`."""
    id: str | None
    """Id of the document."""
    score: float | None
    """The retriever's own score."""
    text: str | None
    """The text; None: no text was captured."""
    carried: bool = False
    """Whether it was only in the prompt: from an earlier turn, or as an undivided context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request, with everything stored about it."""

    row: RequestRow
    """As in a list, including `RequestRow.excess`."""
    answer: str | None
    """The answer; None: no text was captured, or there was no answer."""
    verdict_reasons: tuple[str, ...]
    """One sentence for each code."""
    contexts: tuple[ContextView, ...]
    """The retrieved chunks."""
    scores: tuple[ScoreView, ...]
    """The scores in alphabetical order."""
    metadata: Mapping[str, str | float]
    """The application's metadata."""
    conversation_id: str | None
    user_id: str | None
    missing: tuple[str, ...]
    """Missing inputs of scores, such as ``reference``."""
    sample_rate: float
    judge_sample_rate: float
    selection: str
    """``sampled``, or ``worst``: stored for being bad."""
    siblings: tuple[RequestRow, ...]
    """The other requests of the same trace, in order of time."""
    cause: Cause = field(default_factory=lambda: Cause(code="verdict"))
    """The cause of its verdict."""
    advice: Advice = field(default_factory=lambda: Advice(code="unknown"))
    """Advice about it."""
    same: SameQuestion = field(default_factory=lambda: SameQuestion(n=1, n_bad=0))
    """The stored requests with the same question."""
    evidence: Evidence | None = None
    """The answer's sentences with their support in the chunks, by shared words; None: no text is stored."""
    stages: tuple[StageView, ...] = ()
    """The stages of its documents; empty: unknown."""
    documents: tuple[DocumentView, ...] = ()
    """Its documents with their rank at each stage, those that reached the prompt first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The overview of a period."""

    from_ms: int
    """Start of the period."""
    until_ms: int
    """End of the period, exclusive."""
    requests: int
    """Requests that began within the period."""
    statuses: Mapping[str, int]
    """Requests by outcome."""
    verdicts: Mapping[str, int]
    """Requests by verdict; ``none``: without one."""
    orphans: int
    """Requests of which only scores have arrived, for longer than a minute."""
    nothing_retrieved: int
    """Requests for which nothing was found."""
    without_text: int
    """Requests whose question was not captured."""
    scores: tuple[ScoreSummary, ...]
    """By service, the largest first, and name: no mean is over two services. If several judges, or versions of
    a formula, measured one score, the measurement with the most values since the youngest of them began."""
    groups: tuple[Group, ...]
    """Workflows of services, each followed by its parts; the largest first."""
    judge: JudgeUse
    """The calls to the judge."""
    dropped: Mapping[str, int]
    """Requests that applications captured and did not send, by reason, as ``ragmeter.dropped`` reports them."""
    services: Mapping[str, int] = field(default_factory=dict)
    """Requests by service."""
    workflows: Mapping[str, int] = field(default_factory=dict)
    """Requests by workflow."""
    others: tuple[ScoreSummary, ...] = ()
    """The same scores measured by other judges, or other versions of a formula, in the same order."""
    ahead: int = 0
    """Requests of the future, by a sender's wrong clock or time zone: in no list until their time has come."""

    @property
    def measured(self) -> tuple[ScoreSummary, ...]:
        """`scores` and `others`, by service and name."""
        services = {one: place for place, one in enumerate(self.services)}
        return tuple(
            sorted((*self.scores, *self.others), key=lambda one: (services.get(one.service, 0), one.name))
        )

    segments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Requests by segment: name → value → number."""
    last_ms: int | None = None
    """Arrival of the latest stored request, by this server's clock; None: no request has arrived yet."""
