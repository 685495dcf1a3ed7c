"""The output of every metric: a value, or the reason for its absence, and the evidence.

Metrics build a `Score`; the meter and the exporters read it. A score never has NaN, an epsilon, or 0 instead
of "unknown".
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

ScoreStatus = Literal[
    "ok", "undefined", "missing_input", "partial", "judge_error", "timeout", "skipped", "metric_error"
]
"""Whether there is a value, and if not, why. ``ok``: everything was measured. ``undefined``: the inputs are
there, but the formula has no denominator. ``missing_input``: a needed field is missing. ``partial``: some
verdicts stayed unknown; see `Score.lower` and `Score.upper`. ``judge_error``, ``timeout``: the judge failed.
``skipped``: not measured (sampling, budget, or an answer metric on a failed request). ``metric_error``: the
metric itself raised."""

ScoreMethod = Literal["exact", "rouge", "lexical", "embedding", "detector", "llm", "human"]
"""Method of a value; ``embedding``: by an embedding model; ``detector``: by a model that marks spans;
``human``: later feedback."""

ScoreTarget = Literal["retrieval", "answer"]
"""The judged part: the retrieval (its span carries the score) or the answer (the workflow's)."""

ScoreDirection = Literal["higher", "lower", "none"]
"""The better direction: ``higher`` values, ``lower`` ones, or ``none``, as with counts."""


class _ItemFields(NamedTuple):
    """The fields of a `ScoreItem`."""

    id: str
    """Identifies the item within its score, e.g. ``chunk-1``; counted from 1."""
    verdict: bool | None
    """True, False, or None for unknown or not applicable."""
    text: str | None = None
    """The text of the item. Content: exported only with content capture."""
    evidence: str | None = None
    """The deciding evidence, e.g. the matching chunk or the tier. Content, as `text`."""
    reason: str | None = None
    """The judge's reason, or the rule. Content, as `text`."""
    value: FiniteFloat | None = None
    """A number behind the verdict, e.g. the coverage compared with a threshold."""


class ScoreItem(_ItemFields):
    """One piece of evidence: the verdict on one chunk, sentence, claim, entity or question.

    A named tuple: an object in JSON; `_replace` returns a changed copy.

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
        """Check the types; most arguments have exactly these, and only others require a validation."""
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
    """Return an item from its JSON form, an object."""
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
    """One number about one request, or the reason for its absence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Public name in snake case, equal to ``gen_ai.evaluation.name``."""
    value: FiniteFloat | None
    """A number within `range`, or None."""
    status: ScoreStatus
    """Only ``ok`` and ``partial`` may have a value."""
    method: ScoreMethod
    """Method of computation."""
    definition: str
    """Version of the formula and, for judged metrics, of the prompt."""
    target: ScoreTarget = "retrieval"
    """The judged part."""
    label: str | None = None
    """Low-cardinality word for the value, e.g. ``pass``; None unless bands are defined."""
    explanation: str | None = None
    """One sentence for a person. Content: exported only with content capture."""
    summary: str | None = None
    """The same without any text of the request, only ids, counts and numbers; always exported."""
    lower: FiniteFloat | None = None
    """Lower bound over all possible values of unknown verdicts; set if ``partial``."""
    upper: FiniteFloat | None = None
    """Upper bound, as `lower`."""
    items: tuple[_Item, ...] = ()
    """The evidence."""
    range: tuple[float | None, float | None] = (0.0, 1.0)
    """Smallest and largest possible value; None: no bound."""
    direction: ScoreDirection = "higher"
    """The better direction, for alarms, panels and ``keep="worst"``."""
    missing: str | None = None
    """The missing field, as in `Metric.needs`; set if ``missing_input``."""
    judge_calls: int = 0
    """Calls made to the judge for this score."""
    input_tokens: int = 0
    """Tokens sent to the judge for this score."""
    output_tokens: int = 0
    """Tokens written by the judge for this score."""
    cache_hits: int = 0
    """Questions answered from the judge's cache for this score."""
    error_type: str | None = None
    """Low-cardinality class of the error (``error.type``)."""
    asked_with: float | None = None
    """Probability with which a cascade measures it, 0.0 if it was skipped; None: no cascade."""
    asked_by_chance: bool = True
    """Whether the random draw alone would have selected it; False: only because a cheaper step was
    undecided."""

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
