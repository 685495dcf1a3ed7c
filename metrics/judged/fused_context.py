"""Context precision, recall and relevancy in one call.

The three share the chunks, which are nearly all of a prompt; asked together they cost one call and about a
third of the tokens. Their errors may then be correlated, too, so this is an option (``fused=True``), not the
default.
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
    extraction,
    is_blank,
    number_units,
    passages_of,
    ranked_score,
    ratio_score,
    reference_answer,
)
from .context_entity_recall import PROMPT as ENTITIES
from .context_entity_recall import ContextEntityRecall
from .context_recall import recall_items, recall_score, recall_without_chunks
from .context_relevancy import Statements
from .live_judged import PROMPT as LIVE
from .live_judged import LiveJudged, LiveQuestions

_ALONE = "context_fused"
_WITH_SHARED = {
    frozenset({ENTITIES}): "context_fused_entities",
    frozenset({LIVE}): "context_fused_live",
    frozenset({ENTITIES, LIVE}): "context_fused_live_entities",
}


@dataclass(frozen=True)
class FusedContextMetrics(JudgedMetric):
    """`ContextPrecision`, `ContextRecall` and `ContextRelevancy`, asked in one call.

    The scores have the names, formulas, ranges, labels and evidence of the three, by sentence; their
    definition says that they were fused.  Verdicts come as lists of ids, with reasons for the false ones.
    With a `LiveJudged` after it in a list of metrics its questions are asked in the same call; of a
    request without a reference answer that one asks then, and this one nothing.

    Range: 0.0 to 1.0 each.
    Needs: ``question``, ``contexts``; without ``reference.answer`` only relevancy is measured.
    Cost: 1 judge call for all three, and none more for `ContextEntityRecall` after it in a list of
        metrics: the reference's named things are listed in the same call while they are not known.
    Prompts: ``prompts/context_fused.md``; ``context_fused_entities.md``, ``context_fused_live.md`` and
        ``context_fused_live_entities.md`` while entities are listed or live questions asked, too.
    Source: ours.
    Differs from the source: nothing.

    Args:
        entities: Have the reference's named things listed along, once per reference, for a
            `ContextEntityRecall` that is measured beside it; in a list of metrics this sets itself.
        live: Ask the questions of a `LiveJudged` along; sets itself likewise.
        unknown_as: 0 counts unknown verdicts as false; None leaves the score without a value.

    Without a value:
        As the three; ``judge_error``, ``timeout`` and ``skipped`` strike all of them.
    """

    entities: bool = False
    live: bool = False
    unknown_as: Literal[0] | None = None
    definition: str = field(init=False)

    name = "fused_context_metrics"
    score_names = ("context_precision", "context_recall", "context_relevancy")
    covers = ("context_precision", "context_recall", "context_relevancy")
    """Names of the metrics that it replaces."""
    needs = ("question", "contexts")
    target = "retrieval"

    def __post_init__(self) -> None:
        super().__post_init__()
        prompts = (_ALONE, *sorted(self._prompts_with_shared.values()))
        object.__setattr__(self, "definition", definition_of("2", *prompts, unit="sentence"))
        if self.live:
            object.__setattr__(self, "needs", (*type(self).needs, "reference.answer"))

    @property
    def _prompts_with_shared(self) -> dict[frozenset[str], str]:
        """Return the extended prompts, by the prompts whose questions they include."""
        along = {name for name, asked in ((ENTITIES, self.entities), (LIVE, self.live)) if asked}
        return {names: prompt for names, prompt in _WITH_SHARED.items() if names <= along}

    def beside(self, names: Collection[str]) -> FusedContextMetrics:
        """Return this metric adapted to the metrics called `names` that follow it."""
        return replace(
            self,
            entities=self.entities or ContextEntityRecall.name in names,
            live=self.live or LiveJudged.name in names,
        )

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge chunks, reference sentences and chunk sentences together."""
        question = sample.question or ""
        given = sample.reference is not None and sample.reference.supplies("answer")
        reference = reference_answer(sample)
        chunks = Chunks.of(sample.contexts or ())
        statements = Statements.sentences_of(chunks)
        units = [] if is_blank(reference) else sentences(reference)
        groups = self._groups(question, reference, chunks, statements, units)
        live = LiveQuestions.of(sample, LiveJudged.score_names) if self.live else None
        passages = self._passages(question, statements, units, live)
        # Only together with its own questions: separately they need fewer words.
        if live is not None and any(group.items for group in groups):
            groups += live.groups("d", shared_with=LIVE)
        if self.entities and units and chunks.texts:
            groups = (*groups, extraction(ENTITIES, {"t1": reference}, shared_with=ENTITIES))
        ask = Ask(self.name, _ALONE, passages, groups, self._prompts_with_shared)
        answers = (await inquiry.ask(ask)).answers
        relevancy = self._relevancy(question, statements, chunks, answers)
        if not given:
            why = "not given: reference.answer"
            return (*(self.without_value("missing_input", why, one) for one in self.score_names[:2]), relevancy)
        if is_blank(reference):
            precision = self.without_value("undefined", "the reference answer is blank")
        else:
            precision = ranked_score(self, "context_precision", chunks.evidence(answers))
        if units and not chunks.texts:
            return precision, recall_without_chunks(self, units, "sentence"), relevancy
        return precision, recall_score(self, units, answers, "sentence"), relevancy

    @staticmethod
    def _groups(
        question: str, reference: str, chunks: Chunks, statements: Statements, units: Sequence[str]
    ) -> tuple[Group, ...]:
        useful: tuple[Item, ...] = ()
        attributed: tuple[Item, ...] = ()
        if units and chunks.texts:
            useful = tuple(
                Item(chunk_id, (question, reference, text)) for chunk_id, text in chunks.texts.items()
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
        question: str, statements: Statements, units: Sequence[str], live: LiveQuestions | None
    ) -> tuple[Passage, ...]:
        lines = number_units("r", units)
        read_for_all = frozenset(lines)
        if live is not None:
            read_for_all |= live.about_all_chunks
        chunks = tuple(
            Passage(
                f"chunk {chunk_id}",
                lines=own,
                only_for=read_for_all | {chunk_id, f"d{chunk_id[1:]}", *(line_id for line_id, _ in own)},
            )
            for chunk_id, own in statements.lines.items()
        )
        reference = (Passage("claims", lines=tuple(lines.items())),) if lines else ()
        answer = () if live is None else live.answer_passages
        return (*chunks, *passages_of(question=question), *reference, *answer)

    def _relevancy(
        self, question: str, statements: Statements, chunks: Chunks, answers: Mapping[str, Answer]
    ) -> Score:
        name = "context_relevancy"
        if is_blank(question):
            return self.without_value("undefined", "the question is blank", name)
        verdicts, items = statements.evidence(chunks, answers, "sentence")
        said = "sentences of the chunks are about the question"
        nothing = "no chunk has a statement"
        return ratio_score(self, name, verdicts, items, said=said, nothing=nothing)
