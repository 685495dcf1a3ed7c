"""The base of judged metrics: asks, chunks, units, and scores from possibly unknown verdicts.

Every metric that uses the judge is built from these parts. Nothing here knows a particular metric, a client
library or a prompt's text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ragmeter.metrics._display.wording import quote_text
from ragmeter.metrics.computed._ranking import average_precision, average_precision_bounds
from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.judge.protocol import (
    Answer,
    Ask,
    Group,
    Item,
    Judge,
    JudgeError,
    Passage,
    Reply,
    Taken,
    Usage,
)
from ragmeter.metrics.protocol import Metric, scores_without_value
from ragmeter.metrics.sample import RagSample, RetrievedContext
from ragmeter.metrics.score import Score, ScoreItem, ScoreMethod, ScoreStatus
from ragmeter.metrics.text.sentences import RULES, sentences

from .prompts import load_prompt

_MOST_NAMED = 5
"""Most items that a score describes in words; the others are only in its evidence."""
_MOST_QUOTED = 100

Unit = Literal["sentence", "claim"]
"""``sentence``: ragmeter splits the text, so the denominator never moves. ``claim``: the judge splits it."""


class Inquiry:
    """The asks of one measurement, and their total cost."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.usage = Usage()

    async def ask(self, ask: Ask) -> Reply:
        """Ask the judge; an ask without items costs nothing."""
        if not any(group.items for group in ask.groups):
            return Reply()
        try:
            reply = await self._judge.ask(ask)
        except JudgeError as error:
            self.usage += error.usage
            raise
        self.usage += reply.usage
        return reply


class JudgedMetric(Metric):
    """A metric that asks the judge. A failure of the judge becomes a status, never an exception.

    The cost of a measurement stands on its first score, so that sums over scores are right.
    """

    method: ScoreMethod = "llm"
    unknown_as: Literal[0] | None
    """Value of a verdict that stays unknown; None: the score is ``partial`` with bounds."""

    @abstractmethod
    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Return the scores; may raise `JudgeError`."""

    async def measure(self, sample: RagSample, judge: Judge | None) -> Sequence[Score]:
        """Return one score per name, even if the judge fails."""
        if judge is None:
            return scores_without_value(self, "skipped", "no judge is configured")
        inquiry = Inquiry(judge)
        try:
            scores = tuple(await self.judge(sample, inquiry))
        except JudgeError as error:
            scores = scores_without_value(self, error.status, str(error), error.error_type)
        usage = inquiry.usage
        cost = {
            "judge_calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_hits": usage.cache_hits,
        }
        return (scores[0].model_copy(update=cost), *scores[1:])

    def without_value(self, status: ScoreStatus, said: str, name: str | None = None) -> Score:
        """Return the score `name` (default: the first) without a value."""
        return self.score(name or self.score_names[0], None, status, said=said)

    def score(
        self,
        name: str,
        value: float | None,
        status: ScoreStatus = "ok",
        *,
        items: Sequence[ScoreItem] = (),
        bounds: tuple[float, float] | None = None,
        said: str,
        why: str | None = None,
        named: Sequence[ScoreItem] | None = None,
        label: str | None = None,
    ) -> Score:
        """Return a score of this metric, with lower and upper bound over all outcomes of unknown verdicts.

        `said` is the summary, without any text of the request; `why`, the judge's reason, follows it in the
        explanation. Both name the false ones of `named`, by default of all `items`.
        """
        failed = () if self.direction_of(name) == "none" else items if named is None else named
        summary, explanation = _with_failures(said, failed)
        if why is not None:
            explanation = f"{explanation}: {why}"
        return self.make_score(
            name,
            value,
            explanation=explanation,
            summary=summary,
            label=label,
            items=items,
            status=status,
            bounds=bounds,
        )

    def score_of_verdicts(
        self,
        name: str,
        bounds: tuple[float, float],
        unknown: int,
        *,
        least: float,
        said: str,
        items: Sequence[ScoreItem] = (),
        named: Sequence[ScoreItem] | None = None,
        label: Callable[[float], str] | None = None,
    ) -> Score:
        """Return a score of verdicts; ``partial``, with bounds, if some are unknown.

        `least` is the value with those as false; `label` returns the word for a value.
        """
        value: float | None = bounds[0]
        if unknown:
            said += f", {unknown} unknown"
            if self.unknown_as == 0:
                value = least
            elif bounds[0] != bounds[1]:
                value = None
        return self.score(
            name,
            value,
            "partial" if unknown else "ok",
            items=items,
            bounds=bounds if unknown else None,
            said=said,
            named=named,
            label=label(value) if label and value is not None else None,
        )

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` if an option common to judged metrics is invalid."""
        if self.unknown_as is not None and self.unknown_as != 0:
            raise ConfigurationError(f"unknown_as is {self.unknown_as!r}; use None or 0")


@dataclass(frozen=True)
class UnitMetric(JudgedMetric):
    """A metric that judges the units of a text, its sentences or claims."""

    unit: Unit = "sentence"
    unknown_as: Literal[0] | None = None
    definition: str = field(init=False)

    prompts: ClassVar[tuple[str, ...]]
    """Names of its prompts, for any unit."""

    def __post_init__(self) -> None:
        if self.unit not in ("sentence", "claim"):
            raise ConfigurationError(f"unit is {self.unit!r}; use 'sentence' or 'claim'")
        super().__post_init__()
        prompts = (*self.prompts, *(["claims"] if self.unit == "claim" else []))
        object.__setattr__(self, "definition", definition_of("2", *prompts, unit=self.unit))


def _with_failures(said: str, items: Sequence[ScoreItem]) -> tuple[str, str]:
    """Return `said` with the failed items: by ids only, and with reasons and texts."""
    failed = [item for item in items if item.verdict is False]
    if not failed:
        return said, said
    left = len(failed) - _MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    named = failed[:_MOST_NAMED]
    ids = ", ".join(item.id for item in named)
    why = "; ".join(f"{item.id}: {item.reason or quote_text(item.text, _MOST_QUOTED)}" for item in named)
    return f"{said}; not: {ids}{more}", f"{said}; not: {why}{more}"


def definition_of(version: str, *prompts: str, unit: str | None = None) -> str:
    """Return the definition to publish: versions of formula, unit, sentence rules and prompts."""
    parts = [version]
    if unit is not None:
        parts.append(f"unit={unit}")
    if unit == "sentence":
        parts.append(f"sentences={RULES}")
    return ";".join([*parts, *(f"{name}={load_prompt(name).version}" for name in prompts)])


def is_blank(text: str | None) -> bool:
    """Return whether a text is missing, empty, or only white space."""
    return text is None or not text.strip()


@dataclass(frozen=True)
class Chunks:
    """Retrieved chunks for the judge: without blank ones, identical ones once."""

    texts: Mapping[str, str]
    """Distinct texts by id; ``c3`` is the chunk at rank 3, counted from 1."""
    ids: tuple[str | None, ...]
    """For each rank the id of its text, or None if it is blank."""

    @classmethod
    def of(cls, contexts: Sequence[RetrievedContext]) -> Chunks:
        """Number the chunks of a retrieval."""
        first: dict[str, str] = {}
        ids = tuple(
            first.setdefault(text, f"c{rank}") if (text := context.text.strip()) else None
            for rank, context in enumerate(contexts, start=1)
        )
        return cls({chunk_id: text for text, chunk_id in first.items()}, ids)

    def passages(self, *, only_own: bool = False) -> tuple[Passage, ...]:
        """Return the chunks to read; with `only_own` each is shown only while it is an open item."""
        return tuple(
            Passage(f"chunk {chunk_id}", text, only_for=frozenset({chunk_id}) if only_own else None)
            for chunk_id, text in self.texts.items()
        )

    def evidence(self, answers: Mapping[str, Answer]) -> list[ScoreItem]:
        """Return one item per rank: its verdict, or the reason why it was not judged."""
        items: list[ScoreItem] = []
        for rank, chunk_id in enumerate(self.ids, start=1):
            if chunk_id is None:
                items.append(ScoreItem(f"chunk-{rank}", verdict=False, reason="blank"))
                continue
            answer, text = answers[chunk_id], self.texts[chunk_id]
            repeats = None if chunk_id == f"c{rank}" else f"same text as chunk-{chunk_id[1:]}"
            items.append(ScoreItem(f"chunk-{rank}", answer.verdict, text, repeats, answer.reason))
        return items


def passages_of(**texts: str | None) -> tuple[Passage, ...]:
    """Return the given texts as passages, under their names; blank ones are left out."""
    return tuple(
        Passage(name.replace("_", " "), text)
        for name, text in texts.items()
        if text is not None and text.strip()
    )


def reference_answer(sample: RagSample) -> str:
    """Return the expected answer; empty without one."""
    return (sample.reference and sample.reference.answer) or ""


def extraction(name: str, texts: Mapping[str, str], shared_with: str | None = None) -> Group:
    """Return the group that has ``claims`` or ``entities``, a prompt's name, extracted from texts by id."""
    items = tuple(Item(text_id, (text,), source=text) for text_id, text in texts.items())
    taken: Taken = "reworded" if name == "claims" else "copied"
    return Group(name, items, "texts", taken=taken, shared_with=shared_with)


async def extracted(metric: str, name: str, texts: Mapping[str, str], inquiry: Inquiry) -> dict[str, list[str]]:
    """Return the ``claims`` or ``entities`` of `texts` by text id; the judge lists those of a text only once.

    Raises:
        JudgeError: The list of some text stayed unknown, so there is no denominator.
    """
    passages = tuple(
        Passage(f"text {text_id}", text, only_for=frozenset({text_id})) for text_id, text in texts.items()
    )
    reply = await inquiry.ask(Ask(metric, name, passages, (extraction(name, texts),)))
    listed: dict[str, list[str]] = {}
    for text_id in texts:
        answer = reply.answers[text_id]
        if not answer.known or not isinstance(answer.value, tuple):
            why = f": {answer.reason}" if answer.reason else ""
            raise JudgeError(f"the judge listed nothing usable, twice asked{why}", "unusable_reply")
        listed[text_id] = [text for text in answer.value if isinstance(text, str)]
    return listed


async def units_of(metric: str, text: str, unit: Unit, inquiry: Inquiry) -> list[str]:
    """Split `text` into judged units: ragmeter's sentences or the judge's claims."""
    if unit == "sentence" or is_blank(text):
        return sentences(text)
    return (await extracted(metric, "claims", {"t1": text}, inquiry))["t1"]


def number_units(letter: str, units: Sequence[str]) -> dict[str, str]:
    """Return units by id, ``r1`` and so on."""
    return {f"{letter}{number}": unit for number, unit in enumerate(units, start=1)}


def word_evidence(
    unit: str, lines: Mapping[str, str], answers: Mapping[str, Answer], good: str, nothing: Sequence[str]
) -> list[ScoreItem]:
    """Return one item per unit of a text; its `evidence` is the judge's word.

    `good` is the word for a unit that counts, `nothing` those for units outside the denominator.
    """
    items: list[ScoreItem] = []
    for number, (item_id, text) in enumerate(lines.items(), start=1):
        judged = answers[item_id]
        word = judged.value if isinstance(judged.value, str) else None
        verdict = None if word is None or word in nothing else word == good
        items.append(ScoreItem(f"{unit}-{number}", verdict, text, word, judged.reason))
    return items


def ratio_score(
    metric: JudgedMetric,
    name: str,
    verdicts: Sequence[bool | None],
    items: Sequence[ScoreItem],
    *,
    said: str,
    nothing: str,
    label: Callable[[float], str] | None = None,
) -> Score:
    """Return the share of true among `verdicts`; ``partial`` with bounds if some are unknown.

    `said` follows "2 of 3"; `nothing` says why the score is undefined without verdicts.
    """
    if not verdicts:
        return metric.score(name, None, "undefined", items=items, said=nothing)
    true = sum(verdict is True for verdict in verdicts)
    unknown = sum(verdict is None for verdict in verdicts)
    total = len(verdicts)
    least = true / total
    bounds = (least, (true + unknown) / total)
    said = f"{true} of {total} {said}"
    return metric.score_of_verdicts(name, bounds, unknown, least=least, said=said, items=items, label=label)


def ranked_score(metric: JudgedMetric, name: str, items: Sequence[ScoreItem]) -> Score:
    """Return the average precision of the chunks' verdicts, in rank order."""
    verdicts = [item.verdict for item in items]
    # A repeated chunk has one verdict, unknown or not, at all its ranks.
    bounds = average_precision_bounds(verdicts, shared=[item.text for item in items])
    if bounds is None:
        return metric.score(name, None, "undefined", said="no chunk was retrieved")
    useful = sum(verdict is True for verdict in verdicts)
    said = f"{useful} of {len(verdicts)} chunks are useful (precision@{len(verdicts)} "
    said += f"{useful / len(verdicts):.4g})"
    unknown = sum(verdict is None for verdict in verdicts)
    least = average_precision([verdict is True for verdict in verdicts]) or 0.0
    return metric.score_of_verdicts(name, bounds, unknown, least=least, said=said, items=items)
