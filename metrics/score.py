"""The output of every metric: a value, or the reason why there is none, and the evidence.

Metrics build a `Score`; the meter and the exporters read it.  A score never
carries NaN, an epsilon, or 0 in the place of "unknown".
"""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    FiniteFloat,
    InstanceOf,
    PlainValidator,
    TypeAdapter,
    field_serializer,
    model_validator,
)

__all__ = [
    "Score",
    "ScoreDirection",
    "ScoreItem",
    "ScoreMethod",
    "ScoreStatus",
    "ScoreTarget",
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

ScoreMethod = Literal["exact", "rouge", "lexical", "embedding", "detector", "llm", "human"]
"""How the value came about; ``embedding``: by an embedding model; ``detector``: by a model that marks spans;
``human``: feedback given after the fact."""

ScoreTarget = Literal["retrieval", "answer"]
"""What is judged: the retrieval (its span carries the score) or the answer (the workflow's)."""

ScoreDirection = Literal["higher", "lower", "none"]
"""Which way is better: ``higher`` values, ``lower`` ones, or ``none``, as with counts."""


class _ItemFields(NamedTuple):
    """The fields of a `ScoreItem`."""

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


class ScoreItem(_ItemFields):
    """One piece of evidence: the verdict on one chunk, sentence, claim, entity or question.

    A named tuple: an object in JSON, `_replace` gives a changed copy.

    Raises:
        ValidationError: A field has a value of another type, or `value` is not finite.
    """

    __slots__ = ()

    def __new__(
        cls,
        id: str,  # noqa: A002 -- the field's name
        verdict: bool | None,
        text: str | None = None,
        evidence: str | None = None,
        reason: str | None = None,
        value: float | None = None,
    ) -> ScoreItem:
        """Check the types; most arguments have exactly these, and only others cost a validation."""
        fields = (id, verdict, text, evidence, reason, value)
        if not (
            type(id) is str
            and (verdict is None or type(verdict) is bool)  # type: ignore[redundant-expr]
            and (text is None or type(text) is str)
            and (evidence is None or type(evidence) is str)
            and (reason is None or type(reason) is str)
            and (value is None or (type(value) is float and math.isfinite(value)))
        ):
            fields = _item_validator().validate_python(fields)
        return tuple.__new__(cls, fields)


@cache
def _item_validator() -> TypeAdapter[_ItemFields]:
    return TypeAdapter(_ItemFields)


def _item_from_object(value: Any) -> Any:
    """Return an item as JSON writes it, an object, as an item."""
    if not isinstance(value, dict):
        raise ValueError("an item is a ScoreItem or an object with its fields")  # noqa: TRY004 -- pydantic reports ValueError
    try:
        return ScoreItem(**value)
    except TypeError as error:
        raise ValueError(str(error)) from error


_Item = Annotated[
    InstanceOf[ScoreItem] | Annotated[ScoreItem, PlainValidator(_item_from_object)],
    Field(union_mode="left_to_right"),
]


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
    summary: str | None = None
    """The same without any text of the request, by ids, counts and numbers alone; always allowed out."""
    lower: FiniteFloat | None = None
    """Lower bound over every way of filling unknown verdicts; set when ``partial``."""
    upper: FiniteFloat | None = None
    """Upper bound, as `lower`."""
    items: tuple[_Item, ...] = ()
    """The evidence."""
    range: tuple[float | None, float | None] = (0.0, 1.0)
    """Smallest and largest possible value; None: no bound."""
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
    asked_with: float | None = None
    """Probability that a cascade asked for it with, 0.0 where it was spared; None: there is no cascade."""
    asked_by_chance: bool = True
    """Whether chance alone would have asked for it; False: only as something cheaper was undecided."""

    @model_validator(mode="after")
    def _value_agrees_with_status(self) -> Score:
        if self.value is None:
            if self.status == "ok":
                raise ValueError(f"score {self.name!r}: status 'ok' needs a value")
        elif self.status not in ("ok", "partial"):
            raise ValueError(f"score {self.name!r}: status {self.status!r} cannot carry a value")
        return self

    def to_pandas(self) -> Any:
        """Return a pandas frame of one row: ``score``, ``value``, ``status``, ``label``, ``explanation``.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        from ._display.data_frames import frame_of_scores  # noqa: PLC0415 -- it imports this module

        return frame_of_scores([self])

    def _repr_html_(self) -> str:
        from ._display import html  # noqa: PLC0415 -- likewise

        return html.fragment(html.scores_table({self.name: self}))

    @field_serializer("items")
    def _items_as_objects(
        self, items: tuple[ScoreItem, ...], info: FieldSerializationInfo
    ) -> list[dict[str, Any]]:
        sparse = info.exclude_defaults or info.exclude_none
        return [
            {
                name: field
                for name, field in item._asdict().items()
                if not sparse or field is not None or (name == "verdict" and not info.exclude_none)
            }
            for item in items
        ]
