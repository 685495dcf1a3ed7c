"""How services are: who is bad since when, what was deployed, which questions go badly. Plain values.

Counts are of requests with a verdict, shares have 95 % intervals (Wilson's).  Times are milliseconds since the
epoch.  None is "not known", never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.quality.estimates import Estimate

__all__ = [
    "BadShare",
    "ComparisonView",
    "DeploymentView",
    "HealthView",
    "LaneView",
    "PartView",
    "QuestionView",
    "SignalView",
    "VersionStep",
    "bad_share",
]

_DESCRIBED = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadShare:
    """How many requests are bad."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    bad: int
    """Those that are."""
    requests: int
    """Those with a verdict."""
    share: float | None
    """The first of the second; None: there is none."""
    lower: float
    """Lower end of its 95 % interval."""
    upper: float
    """Upper end."""


def bad_share(bad: int, requests: int) -> BadShare:
    """Return a share of bad requests with its interval."""
    if requests <= 0:
        return BadShare(bad=0, requests=0, share=None, lower=0.0, upper=1.0)
    lower, upper = wilson_interval(bad / requests, requests)
    return BadShare(bad=bad, requests=requests, share=bad / requests, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStep:
    """A version that was not there before."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    name: str
    """Of what: ``service.version``, ``index_version``, ``prompt_version``, ``model``, ``tenant``, ..."""
    before: str
    """The value that was first seen before it."""
    value: str
    """The new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """What a deployment did, within the same languages and workflows."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    score: str
    """The score whose means are compared."""
    before: float
    """Its mean before, over the languages and workflows as they are after."""
    after: float
    """Its mean since."""
    lower: float
    """Lower end of the interval of their difference: it holds however often one looks."""
    upper: float
    """Upper end."""
    n_before: int
    """Requests before that it rests on; those of one conversation count once."""
    n_after: int
    """Likewise since."""
    effect: str
    """``worse``, ``better``, or ``none``: no difference beyond chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One value of a segment, before and since a deployment, or within a time."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    segment: str
    """Which, as ``language:zh``."""
    now: BadShare
    """Its requests that are bad."""
    before: BadShare | None
    """Those before the deployment; None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """Something new that was first seen in a service."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    number: int
    """The how many-th of all services it is; the error rate of 5 % is spent over all of them."""
    service: str
    """Where."""
    at_ms: int
    """When its first request began."""
    values: tuple[VersionStep, ...]
    """What is new, versions first."""
    comparison: ComparisonView | None = None
    """What it did; None: fewer than 30 requests on either side, or it is not compared here."""
    bad_before: BadShare | None = None
    """Requests of the value before that are bad, of the newest 2,000."""
    bad_after: BadShare | None = None
    """All those of the new value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """A service over time, or a workflow or a part of one."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    name: str
    """Name of the service, the workflow, or the segment's value; empty: it has none."""
    service: str = ""
    """Its service; empty: it has none."""
    version: str
    """The `service.version` that was seen first last; empty: none is known."""
    requests: int
    """How many, with and without a verdict."""
    bad: BadShare
    """Since the last deployment within that time; without one, of all of it."""
    bad_before: BadShare | None
    """Before that; None: there was none."""
    support: Estimate | None
    """Mean of the score of support, of the same time as `bad`; None: it has none."""
    support_before: Estimate | None
    """Before the deployment."""
    relevance: Estimate | None
    """Likewise, whether what was retrieved is about the question."""
    relevance_before: Estimate | None
    """Before the deployment."""
    bins: tuple[tuple[int, int, int, int], ...]
    """Of each stretch of time: bad, suspect and good requests, and those without a verdict."""
    deployments: tuple[int, ...]
    """When something was deployed within that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """A question that went badly, with all the requests that asked it."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    question: str
    """What was asked."""
    key: str
    """Names it, for ``question=``: 16 hex digits."""
    bad: BadShare
    """Its requests."""
    service: str
    """Of the last bad one."""
    workflow: str
    """Likewise."""
    language: str | None
    """Likewise."""
    codes: tuple[str, ...]
    """The rules that apply to it."""
    at_ms: int
    """When it began."""
    trace_id: str | None
    """Its trace."""
    span_id: str | None
    """Its span."""
    run_id: str
    """Its own id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalView:
    """One of the few series that are always shown."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    name: str
    """``support``, ``relevance``, ``refusals`` or ``nothing_found``."""
    score: str
    """The score that it is the mean of."""
    now: Estimate
    """Since the deployment that `HealthView.lead` is about, else of the whole time."""
    before: Estimate | None
    """Before that; None: there was none."""
    is_off: bool
    """Whether it is worse since then beyond both intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """How services are, in a stretch of time."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    by: str
    """What lanes are of: ``service``, ``workflow``, or a segment's name."""
    bin_ms: int
    """Length of a stretch of `LaneView.bins`; the first begins at `bins_from_ms`."""
    bins_from_ms: int
    """When."""
    lanes: tuple[LaneView, ...]
    """Those that are surely bad most often first."""
    deployments: tuple[DeploymentView, ...]
    """Within that time, the worst first."""
    lead: DeploymentView | None
    """The one that made something worse, and most so; None: none did."""
    parts: tuple[PartView, ...]
    """Where it is bad: values of the segment that sets them apart most; empty: none does."""
    questions: tuple[QuestionView, ...]
    """Those that go badly, the surest and most frequent first; of `lead` and since it, where there is one."""
    signals: tuple[SignalView, ...]
    """At most four."""
    about: str | None = None
    """The service that `parts` and `signals` are of: of `lead`, else of the first lane; None: there is none."""
    detectable: float | None
    """The least fall of support that a new version would be found with within 100 requests; None: not known."""
