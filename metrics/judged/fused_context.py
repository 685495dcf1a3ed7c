"""Context precision, recall and relevancy in one call.

The three share the chunks, which are nearly all of a prompt; asked together they cost one call and
about a third of the tokens.  Their errors may then go together, too, so this is a choice
(``fused=True``), not the default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ragmeter.metrics.judge.protocol import Answer, Ask, Group, Item, Passage
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score
from ragmeter.metrics.text.sentences import sentences

from ._judged_metric import (
    Chunks,
    Inquiry,
    JudgedMetric,
    definition_of,
    is_blank,
    passages_of,
    ranked_score,
    ratio_score,
)
from .context_entity_recall import ContextEntityRecall, entities_group
from .context_recall import numbered, recall_items, recall_score, recall_without_chunks
from .context_relevancy import Statements

__all__ = ["FusedContextMetrics"]

_WITH_ENTITIES = "context_fused_entities"


@dataclass(frozen=True)
class FusedContextMetrics(JudgedMetric):
    """`ContextPrecision`, `ContextRecall` and `ContextRelevancy`, asked in one call.

    The scores have the names, formulas, ranges, labels and evidence of the three, by sentence; their
    definition says that they were fused.  Verdicts come as lists of ids, with reasons for the false ones.

    Range: 0.0 to 1.0 each.
    Needs: ``question``, ``contexts``; without ``reference.answer`` only relevancy is measured.
    Cost: 1 judge call for all three, and none more for `ContextEntityRecall` after it in a list of
        metrics: the reference's named things are listed in the same call while they are not known.
    Prompts: ``prompts/context_fused.md``; while entities are listed, too,
        ``prompts/context_fused_entities.md``.
    Source: ours.
    Differs from the source: nothing.

    Args:
        entities: Have the reference's named things listed along, once per reference, for a
            `ContextEntityRecall` that is measured beside it; in a list of metrics this sets itself.
        unknown_as: 0 counts unknown verdicts as false; None leaves the score without a value.

    Without a value:
        As the three; ``judge_error``, ``timeout`` and ``skipped`` strike all of them.
    """

    entities: bool = False
    unknown_as: Literal[0] | None = None
    definition: str = field(init=False)

    name = "fused_context_metrics"
    score_names = ("context_precision", "context_recall", "context_relevancy")
    covers = ("context_precision", "context_recall", "context_relevancy")
    """Names of the metrics it stands in for."""
    needs = ("question", "contexts")
    target = "retrieval"

    def __post_init__(self) -> None:
        self.check_options()
        prompts = ("context_fused", _WITH_ENTITIES) if self.entities else ("context_fused",)
        object.__setattr__(self, "definition", definition_of("2", *prompts, unit="sentence"))

    def beside(self, names: Collection[str]) -> FusedContextMetrics:
        """Return this metric as it is best asked when the metrics called `names` come after it."""
        if self.entities or ContextEntityRecall.name not in names:
            return self
        return replace(self, entities=True)

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge chunks, reference sentences and chunk sentences together."""
        question = sample.question or ""
        given = sample.reference is not None and sample.reference.supplies("answer")
        reference = (sample.reference.answer if sample.reference is not None else None) or ""
        chunks = Chunks.of(sample.contexts or ())
        statements = Statements.sentences_of(chunks)
        units = [] if is_blank(reference) else sentences(reference)
        groups = self._groups(question, reference, chunks, statements, units)
        passages = self._passages(question, statements, units)
        with_shared = None
        if self.entities:
            with_shared = _WITH_ENTITIES
            if units and chunks.texts:
                groups = (*groups, entities_group({"t1": reference}, shared_with="entities"))
        ask = Ask(self.name, "context_fused", passages, groups, with_shared)
        answers = (await inquiry.ask(ask)).answers
        return (
            self._precision(given, reference, chunks, answers),
            self._recall(given, units, chunks, answers),
            self._relevancy(question, statements, chunks, answers),
        )

    @staticmethod
    def _groups(
        question: str, reference: str, chunks: Chunks, statements: Statements, units: Sequence[str]
    ) -> tuple[Group, ...]:
        useful: tuple[Item, ...] = ()
        attributed: tuple[Item, ...] = ()
        if units and chunks.texts:
            useful = tuple(
                Item(chunk_id, (question, reference, text))
                for chunk_id, text in chunks.texts.items()
            )
            attributed = recall_items(units, question, reference, chunks)
        relevant = () if is_blank(question) else statements.items(question, chunks)
        return (
            Group("chunks", useful, compact=True),
            Group("claims", attributed, compact=True),
            Group("lines", relevant, compact=True),
        )

    @staticmethod
    def _passages(
        question: str, statements: Statements, units: Sequence[str]
    ) -> tuple[Passage, ...]:
        lines = numbered("r", units)
        read_for_recall = frozenset(lines)
        chunks = tuple(
            Passage(
                f"chunk {chunk_id}",
                lines=own,
                only_for=read_for_recall | {chunk_id, *(line_id for line_id, _ in own)},
            )
            for chunk_id, own in statements.lines.items()
        )
        reference = (Passage("claims", lines=tuple(lines.items())),) if lines else ()
        return (*chunks, *passages_of(question=question), *reference)

    def _precision(
        self, given: bool, reference: str, chunks: Chunks, answers: Mapping[str, Answer]
    ) -> Score:
        if not given:
            return self.without_value("missing_input", "not given: reference.answer")
        if is_blank(reference):
            return self.without_value("undefined", "the reference answer is blank")
        return ranked_score(self, "context_precision", chunks.evidence(answers))

    def _recall(
        self, given: bool, units: Sequence[str], chunks: Chunks, answers: Mapping[str, Answer]
    ) -> Score:
        if not given:
            why = "not given: reference.answer"
            return self.without_value("missing_input", why, "context_recall")
        if units and not chunks.texts:
            return recall_without_chunks(self, units, "sentence")
        return recall_score(self, units, answers, "sentence")

    def _relevancy(
        self, question: str, statements: Statements, chunks: Chunks, answers: Mapping[str, Answer]
    ) -> Score:
        name = "context_relevancy"
        if is_blank(question):
            return self.without_value("undefined", "the question is blank", name)
        verdicts, items = statements.evidence(chunks, answers, "sentence")
        return ratio_score(self, name, verdicts, items, nothing="no chunk has a statement")
