"""Objectives: the target of a score and the share of requests to reach it, with their text form.

``shop_qa:faithfulness>=0.8 for 95%`` has the same meaning for `ragmeter.RagMeter`, ``RAGMETER_OBJECTIVES``,
``ragmeter serve --objective`` and ``ragmeter dashboards --objective``. The sums count the requests on the bad
side, and the shipped Prometheus rules compare their share with the budget. Nothing here counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process import fork

EXAMPLE = "shop_qa:faithfulness>=0.8 for 95%"
DEFAULT_SHARE = 0.95
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
# The name of a score has no colon; that of a workflow may have anything in it.
_FORM = re.compile(
    rf"(?:(?P<workflow>.*):)?\s*(?P<score>[^\s:<>=]+)\s*(?P<side>>=|<=|≥|≤)\s*(?P<threshold>{_NUMBER})"
    rf"\s+for\s+(?P<percent>{_NUMBER})\s*%",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A target: the share of a workflow's requests whose score is to be at least, or at most, some value.

    Raises:
        ConfigurationError: Not exactly one of `at_least` and `at_most` is given, a number is not finite, or
            `share` leaves no room for a bad request.
    """

    score: str
    """Name of the score."""
    at_least: float | None = None
    """The lowest good value, on the score's scale; None: the score is one where lower is better."""
    at_most: float | None = None
    """The highest good value, on the score's scale; None: higher is better."""
    share: float = DEFAULT_SHARE
    """Share of the requests with a value that are to be good; above 0 and below 1."""
    workflow: str | None = None
    """Name of the chain, engine or workflow; None: every workflow without a specific objective for the score;
    empty: requests without a workflow name."""

    def __post_init__(self) -> None:
        if not _is_text(self.score) or not self.score.strip():
            raise ConfigurationError(f'objective: the score is {self.score!r}; name one, e.g. "faithfulness"')
        if (self.at_least is None) == (self.at_most is None):
            raise ConfigurationError(
                f"objective of {self.score}: pass at_least= where higher is better, or at_most= where lower "
                "is, and not both"
            )
        if not _is_finite(self.threshold):
            raise ConfigurationError(
                f"objective of {self.score}: the threshold is {self.threshold!r}; it is a number, e.g. "
                "at_least=0.8"
            )
        if not _is_finite(self.share) or not 0.0 < self.share < 1.0:
            raise ConfigurationError(
                f"objective of {self.score}: share is {self.share!r}; it lies between 0 and 1, e.g. 0.95: "
                "five requests in a hundred may be bad"
            )
        if self.workflow is not None and not _is_text(self.workflow):
            raise ConfigurationError(f"objective of {self.score}: workflow is {self.workflow!r}; it is a name")

    @property
    def threshold(self) -> float:
        """The threshold of a good value."""
        found = self.at_most if self.at_least is None else self.at_least
        assert found is not None  # noqa: S101 -- checked at construction
        return found

    @property
    def budget(self) -> float:
        """Share of the requests that may be bad."""
        # Rounded for people: 1 - 0.95 is 0.050000000000000044.
        return round(1.0 - self.share, 12)

    def is_low(self, value: float) -> bool:
        """Return whether a request with this value is on the bad side."""
        return value > self.threshold if self.at_least is None else value < self.threshold

    def __str__(self) -> str:
        prefix = "" if self.workflow is None else f"{self.workflow}:"
        side = "<=" if self.at_least is None else ">="
        return f"{prefix}{self.score}{side}{self.threshold!r} for {100 * self.share:.10g}%"


class Objectives:
    """The objectives of one meter. Thread-safe: readers see immutable mappings that are only replaced."""

    def __init__(self, given: Iterable[Objective] = ()) -> None:
        self._lock = fork.lock()
        self._known: Mapping[tuple[str, str | None], Objective] = {}
        for objective in given:
            self.add(objective)

    def add(self, objective: Objective) -> None:
        """Add an objective.

        Raises:
            ConfigurationError: The score has another one in this workflow; the requests counted as bad so far
                would be those of two thresholds.
        """
        key = (objective.score, objective.workflow)
        with self._lock:
            earlier = self._known.get(key)
            if earlier not in (None, objective):
                raise ConfigurationError(
                    f"objective {objective}: there is {earlier} already; a score has one objective in a "
                    "workflow"
                )
            self._known = {**self._known, key: objective}

    def of(self, score: str, workflow: str | None) -> Objective | None:
        """Return the objective of a score in a workflow: a specific one, else that of every workflow.

        Args:
            score: Name of the score.
            workflow: Name of the workflow; None: of all of them together, which only the latter is for.
        """
        known = self._known
        if not known:
            return None
        return known.get((score, workflow)) or known.get((score, None))

    def all(self) -> tuple[Objective, ...]:
        """Return them in the order of their addition."""
        return tuple(self._known.values())


def parse_objective(text: str) -> Objective:
    """Parse an objective such as ``shop_qa:faithfulness>=0.8 for 95%``.

    Without a workflow it applies to each that has no specific one; ``<=`` where lower is better.

    Raises:
        ConfigurationError: It is none.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"objective {text!r}: write it as in {EXAMPLE!r}; <= where lower is better")
    workflow = found["workflow"]
    threshold = float(found["threshold"])
    is_least = found["side"] in (">=", "≥")
    return Objective(
        score=found["score"],
        at_least=threshold if is_least else None,
        at_most=None if is_least else threshold,
        share=round(float(found["percent"]) / 100.0, 12),
        workflow=None if workflow is None else workflow.strip(),
    )


def parse_objectives(given: str | Iterable[str | Objective]) -> tuple[Objective, ...]:
    """Return the objectives in a text, separated by ``;``, or in a list of texts and objectives.

    Raises:
        ConfigurationError: One of them is none.
    """
    if isinstance(given, str):
        given = [part for part in given.split(";") if part.strip()]
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"objectives: {given!r} is no list; write e.g. {EXAMPLE!r}")
    found: list[Objective] = []
    for one in given:
        if isinstance(one, Objective):
            found.append(one)
        elif isinstance(one, str):
            found.append(parse_objective(one))
        else:
            raise ConfigurationError(f"objectives: {one!r} is none; write e.g. {EXAMPLE!r}")
    return tuple(found)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
