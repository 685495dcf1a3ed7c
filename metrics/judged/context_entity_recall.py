"""Which of the reference's named things do the retrieved chunks mention?

The judge lists the reference's entities for `ContextEntityRecall`, once per reference; whether the chunks
mention one is decided by the tiers of `entities`, without a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.judge.protocol import Ask, Group, Item, Passage
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.entities import distinct_entities, entity_evidence
from ragmeter.metrics.text.quote_check import is_sentence_of, stands_as_entity

from ._judged_metric import (
    Chunks,
    Inquiry,
    JudgedMetric,
    definition_of,
    extracted,
    is_blank,
    ratio_score,
    reference_answer,
)

PROMPT = "entities"


@dataclass(frozen=True)
class ContextEntityRecall(JudgedMetric):
    """Which of the reference's named things (names, places, dates, numbers) do the chunks mention?

        value = entities of the reference that the chunks mention / entities of the reference

    The judge lists the reference's entities, once per reference ever.  One that does not stand in
    the reference stays unknown; a whole sentence is none.  Presence goes by tiers: the same string
    at word boundaries, the same number or date, the same but for accents, other forms of the same
    words (Russian cases and name orders, English plurals), the same but for a Chinese
    administrative suffix.  Sign, unit and currency belong to a number, ``+ # .`` to a name, and
    case counts where it sets a name apart from a word.  Each item names the tier that decided.

    Range: 0.0 to 1.0.
    Needs: ``contexts``, ``reference.answer``.
    Cost: 1 judge call per reference, none once it is known or beside `FusedContextMetrics`;
        `aliases` 1 more for entities not found; `strict` 1 more for chunks not seen before.
    Prompts: ``prompts/entities.md``; with `aliases` also ``prompts/entity_presence.md``.
    Source: context entity recall of ragas 0.4.3, |CE ∩ GE| / |GE|.
    Differs from the source: the chunks' entities are not extracted, only membership matters; strings
        need not be identical to the letter; repeats do not count; no epsilon in the denominator.

    Args:
        strict: The plain set intersection of the source: the chunks' entities are extracted, too,
            and strings must be identical.
        aliases: Ask the judge about the entities that no tier found (other names, other languages).
        unknown_as: 0 counts unknown verdicts as not mentioned; None leaves the score without a
            value.

    Without a value:
        ``missing_input``: no contexts or reference answer given.
        ``undefined``: the reference names nothing.
        ``partial``: the judge listed what the reference does not name, or with `aliases`, verdicts
            stayed unknown; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``, ``skipped``: the judge failed, or its budget is used up.
    """

    strict: bool = False
    aliases: bool = False
    unknown_as: Literal[0] | None = None
    definition: str = field(init=False)

    name = "context_entity_recall"
    score_names = ("context_entity_recall",)
    needs = ("contexts", "reference.answer")
    target = "retrieval"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strict and self.aliases:
            raise ConfigurationError("strict and aliases exclude each other; choose one")
        prompts = [PROMPT] + (["entity_presence"] if self.aliases else [])
        version = "2;strict" if self.strict else "2"
        object.__setattr__(self, "definition", definition_of(version, *prompts))

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """List the reference's entities and look each of them up in the chunks."""
        reference = reference_answer(sample)
        nothing = "the reference answer names nothing"
        if is_blank(reference):
            return (self.without_value("undefined", nothing),)
        listed = (await extracted(self.name, PROMPT, {"t1": reference}, inquiry))["t1"]
        entities = [
            entity
            for entity in (dict.fromkeys(listed) if self.strict else distinct_entities(listed))
            if not is_sentence_of(entity, reference)
        ]
        chunks = Chunks.of(sample.contexts or ())
        if self.strict:
            items = await self._common_entities(entities, chunks, inquiry)
            items = _unknown_unless_copied(items, reference)
        else:
            ids = [f"chunk-{chunk_id[1:]}" for chunk_id in chunks.texts]
            items = entity_evidence(entities, list(chunks.texts.values()), ids)
            items = _unknown_unless_copied(items, reference)
            if self.aliases:
                items = await self._ask_about(items, reference, chunks, inquiry)
        verdicts = [item.verdict for item in items]
        said = "named things of the reference answer are in the chunks"
        return (ratio_score(self, self.name, verdicts, items, said=said, nothing=nothing),)

    async def _common_entities(
        self, entities: Sequence[str], chunks: Chunks, inquiry: Inquiry
    ) -> list[ScoreItem]:
        found: set[str] = set()
        if entities and chunks.texts:
            texts = {f"t{chunk_id[1:]}": text for chunk_id, text in chunks.texts.items()}
            for text_id, listed in (await extracted(self.name, PROMPT, texts, inquiry)).items():
                found.update(e for e in listed if stands_as_entity(e, texts[text_id]))
        return [
            ScoreItem(id=f"entity-{number}", verdict=entity in found, text=entity, reason="identical string")
            for number, entity in enumerate(entities, start=1)
        ]

    async def _ask_about(
        self, items: list[ScoreItem], reference: str, chunks: Chunks, inquiry: Inquiry
    ) -> list[ScoreItem]:
        """Ask about the entities that no tier found."""
        missed = {
            f"e{position}": item.text or ""
            for position, item in enumerate(items, start=1)
            if item.verdict is False
        }
        if not missed or not chunks.texts:
            return items
        passages = (*chunks.passages(), Passage("named things", lines=tuple(missed.items())))
        depends_on = (reference, *chunks.texts.values())
        asked = tuple(Item(item_id, (*depends_on, entity)) for item_id, entity in missed.items())
        group = Group("answers", asked)
        reply = await inquiry.ask(Ask(self.name, "entity_presence", passages, (group,)))
        for item_id in missed:
            answer = reply.answers[item_id]
            position = int(item_id[1:]) - 1
            items[position] = items[position]._replace(
                verdict=answer.verdict,
                reason=f"tier: judge; {answer.reason}" if answer.reason else "tier: judge",
            )
        return items


def _unknown_unless_copied(items: list[ScoreItem], reference: str) -> list[ScoreItem]:
    """Remove the verdict of entities that the judge did not copy from the reference."""
    unknown = "not found in the reference answer"
    return [
        item
        if stands_as_entity(item.text or "", reference)
        else item._replace(verdict=None, evidence=None, reason=unknown)
        for item in items
    ]
