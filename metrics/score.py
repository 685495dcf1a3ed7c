"""The output of every metric: a value, or the reason why there is none, and the evidence.

Metrics build a `Score`; the meter and the exporters read it.  A score never
carries NaN, an epsilon, or 0 in the place of "unknown".
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, FiniteFloat, model_validator

__all__ = [
    "Score",
    "ScoreDirection",
    "ScoreItem",
    "ScoreMethod",
    "ScoreStatus",
    "ScoreTarget",
    "evidence_item",
    "plain_score",
    "unvalidated",
]

ScoreStatus = Literal[
    "ok",
    "undefined",
    "missing_input",
    "partial",
    "judge_error",
    "timeout",
    "skipped",
    "metric_error",
]
"""Whether there is a value, and if not, why.

``ok``: everything was measured. ``undefined``: the inputs are there, the formula has no
denominator. ``missing_input``: a needed field was never given. ``partial``: some verdicts stayed
unknown; see `Score.lower` and `Score.upper`. ``judge_error``, ``timeout``: the judge failed.
``skipped``: not asked for (sampling, budget, or an answer metric on a failed request).
``metric_error``: the metric itself raised.
"""

ScoreMethod = Literal["exact", "rouge", "lexical", "llm", "human"]
"""How the value came about; ``human``: feedback given after the fact."""

ScoreTarget = Literal["retrieval", "answer"]
"""What is judged: the retrieval (its span carries the score) or the answer (the workflow's)."""

ScoreDirection = Literal["higher", "lower", "none"]
"""Which way is better: ``higher`` values, ``lower`` ones, or ``none``, as with counts."""


class ScoreItem(BaseModel):
    """One piece of evidence: the verdict on one chunk, sentence, claim, entity or question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Identifies the item within its score, e.g. ``chunk-1``; counted from 1."""
    verdict: bool | None
    """True, False, or None for unknown or not applicable."""
    text: str | None = None
    """The item itself. Content: leaves the process only when content capture is on."""
    evidence: str | None = None
    """What decided it, e.g. the matching chunk or the tier. Content, as `text`."""
    reason: str | None = None
    """The judge's reason, or the rule. Content, as `text`."""
    value: FiniteFloat | None = None
    """A number behind the verdict, e.g. the coverage that was compared with a threshold."""


class Score(BaseModel):
    """One number about one request, or the reason why there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Snake case; the public name, equal to ``gen_ai.evaluation.name``."""
    value: FiniteFloat | None
    """A number within `range`, or None."""
    status: ScoreStatus
    """``ok`` and ``partial`` may carry a value, nothing else does."""
    method: ScoreMethod
    """How it was computed."""
    definition: str
    """Version of the formula and, for judged metrics, of the prompt."""
    target: ScoreTarget = "retrieval"
    """What the score judges."""
    label: str | None = None
    """Low-cardinality word for the value, e.g. ``pass``; None unless bands are defined."""
    explanation: str | None = None
    """One sentence for a person. Content: leaves the process only when content capture is on."""
    lower: FiniteFloat | None = None
    """Lower bound over every way of filling unknown verdicts; set when ``partial``."""
    upper: FiniteFloat | None = None
    """Upper bound, as `lower`."""
    items: tuple[ScoreItem, ...] = ()
    """The evidence."""
    range: tuple[float, float | None] = (0.0, 1.0)
    """Smallest and largest possible value; None: no upper bound."""
    direction: ScoreDirection = "higher"
    """Which way is better; alarms, panels and ``keep="worst"`` follow it."""
    missing: str | None = None
    """The field that was not given, as `Metric.needs` spells it; set when ``missing_input``."""
    judge_calls: int = 0
    """Calls made to the judge for this score."""
    input_tokens: int = 0
    """Tokens sent to the judge for this score."""
    output_tokens: int = 0
    """Tokens the judge wrote for this score."""
    cache_hits: int = 0
    """Questions answered from the judge's cache for this score."""
    error_type: str | None = None
    """Low-cardinality class of what went wrong (``error.type``)."""

    @model_validator(mode="after")
    def _value_agrees_with_status(self) -> "Score":
        if self.value is None:
            if self.status == "ok":
                raise ValueError(f"score {self.name!r}: status 'ok' needs a value")
        elif self.status not in ("ok", "partial"):
            raise ValueError(f"score {self.name!r}: status {self.status!r} cannot carry a value")
        return self


_METHODS = frozenset(get_args(ScoreMethod))
_WITHOUT_VALUE = frozenset(get_args(ScoreStatus)) - {"ok"}
_TARGETS = frozenset(get_args(ScoreTarget))
_DIRECTIONS = frozenset(get_args(ScoreDirection))
_RANGES = frozenset({(float, float), (float, type(None))})
_ITEM_FIELDS = set(ScoreItem.model_fields)
_DEFAULTS = {name: field.default for name, field in Score.model_fields.items()}

Model = TypeVar("Model", bound=BaseModel)

# What a pydantic 2 object consists of.  Should a later one consist of something else, every
# object is validated.
_SLOTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_KNOWN_SLOTS = tuple(BaseModel.__slots__) == _SLOTS
_new = object.__new__
if _KNOWN_SLOTS:
    _set_fields, _set_names, _set_extra, _set_private = (
        vars(BaseModel)[slot].__set__ for slot in _SLOTS
    )


def unvalidated(kind: type[Model], fields: Mapping[str, Any], names: set[str]) -> Model:
    """Return a model that holds `fields` as they are, as unpickling makes it.

    Args:
        kind: The model; one without private attributes.
        fields: A value of every field, known to be valid. Kept, not copied.
        names: The fields that count as set. Kept, not copied: may be shared, must not change.
    """
    if not _KNOWN_SLOTS:
        return kind.model_construct(names, **fields)
    made = _new(kind)
    _set_fields(made, fields)
    _set_names(made, names)
    _set_extra(made, None)
    _set_private(made, None)
    return made


def evidence_item(
    id: str,  # noqa: A002 -- the field's name
    verdict: bool | None,
    text: str | None = None,
    evidence: str | None = None,
    reason: str | None = None,
    value: float | None = None,
) -> ScoreItem:
    """Return the same `ScoreItem` as its constructor, unchecked and so in half the time.

    For metrics of this package that make many items and whose arguments have exactly these types
    (a finite `value`) by construction.  All fields count as set.
    """
    fields = {
        "id": id,
        "verdict": verdict,
        "text": text,
        "evidence": evidence,
        "reason": reason,
        "value": value,
    }
    if not _KNOWN_SLOTS:
        return ScoreItem.model_validate(fields)
    # `unvalidated`, written out for speed.  The names are shared: nothing changes them, and a copy
    # has its own.
    made = _new(ScoreItem)
    _set_fields(made, fields)
    _set_names(made, _ITEM_FIELDS)
    _set_extra(made, None)
    _set_private(made, None)
    return made


def plain_score(
    name: str,
    value: float | None,
    status: ScoreStatus,
    method: ScoreMethod,
    definition: str,
    target: ScoreTarget,
    explanation: str | None,
    items: Iterable[ScoreItem],
    range: tuple[float, float | None],  # noqa: A002 -- the field's name
    direction: ScoreDirection | None = None,
    missing: str | None = None,
) -> Score:
    """Return ``Score(name=name, ...)``; validation is left out where it would change nothing.

    The last two count as not given when they are None.

    Raises:
        ValidationError: As `Score` does.
    """
    given: dict[str, Any] = {
        "name": name,
        "value": value,
        "status": status,
        "method": method,
        "definition": definition,
        "target": target,
        "explanation": explanation,
        "items": (evidence := tuple(items)),
        "range": range,
    }
    if direction is not None:
        given["direction"] = direction
    if missing is not None:
        given["missing"] = missing
    if (
        _KNOWN_SLOTS
        and type(name) is str
        and (
            (value is None and status in _WITHOUT_VALUE)
            or (type(value) is float and status == "ok" and math.isfinite(value))
        )
        and type(definition) is str
        and method in _METHODS
        and target in _TARGETS
        and (direction is None or direction in _DIRECTIONS)
        and (missing is None or type(missing) is str)
        and (explanation is None or type(explanation) is str)
        and (not evidence or set(map(type, evidence)) == {ScoreItem})
        and type(range) is tuple
        and tuple(map(type, range)) in _RANGES
    ):
        return unvalidated(Score, _DEFAULTS | given, set(given))
    return Score(**given)
