"""The health of services: bad requests over time, deployments, and questions that go badly, as plain values.

Counts are of requests with a verdict, shares have 95 % intervals (Wilson's, of as many independent requests as
conversations leave).  Times are milliseconds since the
epoch.  None is "not known", never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragmeter.metrics._display.mean_interval import NORMAL_QUANTILE, student_quantile, wilson_interval
from ragmeter.quality.estimates import Estimate
from ragmeter.quality.moments import Clustering


@dataclass(frozen=True, slots=True, kw_only=True)
class BadShare:
    """The share of bad requests."""

    bad: int
    """Number of bad requests."""
    requests: int
    """Number of requests with a verdict."""
    share: float | None
    """Bad requests divided by requests; None: no request has a verdict."""
    lower: float
    """Lower end of the share's 95 % interval."""
    upper: float
    """Upper end of that interval."""


def bad_share(bad: int, requests: int, alike: Clustering | None = None) -> BadShare:
    """Return a share of bad requests with its interval; `alike`: the similarity within conversations."""
    if requests <= 0:
        return BadShare(bad=0, requests=0, share=None, lower=0.0, upper=1.0)
    n, quantile = float(requests), NORMAL_QUANTILE
    if alike is not None:
        # Where a few long conversations decide, there are fewer degrees of freedom than conversations.
        n /= alike.design_effect
        quantile = student_quantile(min(n, alike.conversations) - 1)
    lower, upper = wilson_interval(bad / requests, n, quantile)
    return BadShare(bad=bad, requests=requests, share=bad / requests, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStep:
    """A new value of a version, model or the like."""

    name: str
    """Name of the value: ``service.version``, ``index_version``, ``prompt_version``, ``model``, ``tenant``,
    ..."""
    before: str
    """The previous value, by first appearance."""
    value: str
    """The new value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """The effect of a deployment, within the same languages and workflows."""

    score: str
    """The score whose means are compared."""
    before: float
    """Its mean before, weighted by the languages and workflows of the time after."""
    after: float
    """Its mean after."""
    lower: float
    """Lower end of the interval of their difference, which is valid for any number of looks."""
    upper: float
    """Upper end of that interval."""
    n_before: int
    """Number of requests before; those of one conversation count once."""
    n_after: int
    """Number of requests after, likewise."""
    effect: str
    """``worse``, ``better``, or ``none``: no difference beyond chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One value of a segment, before and since a deployment, or within a period."""

    segment: str
    """The segment, as ``language:zh``."""
    now: BadShare
    """Its bad requests."""
    before: BadShare | None
    """Its bad requests before the deployment; None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """A new version or the like, as first seen in a service."""

    number: int
    """Number of the deployment among all services'; the error rate of 5 % is spent over all of them."""
    service: str
    """Name of the service."""
    at_ms: int
    """Start of its first request."""
    values: tuple[VersionStep, ...]
    """The new values, versions first."""
    comparison: ComparisonView | None = None
    """Its effect; None: fewer than 30 requests on either side, or not compared here."""
    bad_before: BadShare | None = None
    """Bad requests with the previous value, of the newest 2,000."""
    bad_after: BadShare | None = None
    """All bad requests with the new value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """A service over time, or one of its workflows or segments."""

    name: str
    """Name of the service, the workflow, or the segment's value; empty: it has none."""
    service: str = ""
    """The lane's service; empty: unknown."""
    version: str
    """The newest `service.version`, by first appearance; empty: none is known."""
    requests: int
    """Number of requests, with and without a verdict."""
    bad: BadShare
    """Bad requests since the last deployment within the period; without one, of the whole period."""
    bad_before: BadShare | None
    """Bad requests before that deployment; None: there was none."""
    support: Estimate | None
    """Mean of the support score, of the same time as `bad`; None: no such score."""
    support_before: Estimate | None
    """Mean of the support score before the deployment."""
    relevance: Estimate | None
    """Mean of the score of whether the retrieved chunks are about the question, of the same time as `bad`."""
    relevance_before: Estimate | None
    """Mean of the relevance score before the deployment."""
    bins: tuple[tuple[int, int, int, int], ...]
    """Number of bad, suspect and good requests in each bin, and of those without a verdict."""
    deployments: tuple[int, ...]
    """Times of the deployments within the period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """A question that went badly, over all its requests."""

    question: str
    """The question."""
    key: str
    """Identifies the question, for ``question=``: 16 hex digits."""
    bad: BadShare
    """Bad requests with the question."""
    service: str
    """Service of the last bad request."""
    workflow: str
    """Workflow of the last bad request."""
    language: str | None
    """Language of the last bad request."""
    codes: tuple[str, ...]
    """Codes of the last bad request's verdict."""
    at_ms: int
    """Start of the last bad request."""
    trace_id: str | None
    """Trace id of the last bad request."""
    span_id: str | None
    """Span id of the last bad request."""
    run_id: str
    """Id of the last bad request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalView:
    """One of the few series that are always shown."""

    name: str
    """``support``, ``relevance``, ``refusals`` or ``nothing_found``."""
    score: str
    """The score behind it."""
    now: Estimate
    """Its mean since the deployment in `HealthView.lead`, else in the whole period."""
    before: Estimate | None
    """Its mean before that deployment; None: there was none."""
    is_off: bool
    """Whether it got worse since then, by intervals that do not overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """The health of services in a period."""

    by: str
    """The kind of lanes: ``service``, ``workflow``, or a segment's name."""
    bin_ms: int
    """Length of a bin of `LaneView.bins`; the first begins at `bins_from_ms`."""
    bins_from_ms: int
    """Start of the first bin."""
    lanes: tuple[LaneView, ...]
    """The lanes, those surely bad most often first."""
    deployments: tuple[DeploymentView, ...]
    """The deployments within the period, the worst first."""
    lead: DeploymentView | None
    """The deployment that made something worse, and most so; None: none did."""
    parts: tuple[PartView, ...]
    """Where it is bad: values of the segment that separates the bad requests best; empty: none does."""
    questions: tuple[QuestionView, ...]
    """The questions that go badly, the surest and most frequent first; with `lead`, of its service since
    then."""
    signals: tuple[SignalView, ...]
    """At most four signals."""
    about: str | None = None
    """The service of `parts` and `signals`: that of `lead`, else of the first lane; None: there is none."""
    detectable: float | None
    """The smallest fall of support that would be detected within 100 requests; None: unknown."""
