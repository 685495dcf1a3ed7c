"""How much of the retrieved text is about the question?

`ContextRelevancy`, and the statements that the fused metric uses, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from ragmeter.metrics.judge.protocol import Answer, Ask, Group, Item, Passage
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.sentences import sentences

from ._judged_metric import Chunks, Inquiry, Unit, UnitMetric, extracted, is_blank, passages_of, ratio_score


@dataclass(frozen=True)
class Statements:
    """The statements of all chunks, numbered consecutively; identical chunks share theirs."""

    lines: Mapping[str, tuple[tuple[str, str], ...]]
    """The statements of each chunk, by its id, as (id, text)."""

    @classmethod
    def of(cls, by_chunk: Mapping[str, Sequence[str]]) -> Statements:
        """Number the statements of each chunk."""
        numbers = count(1)
        return cls({one: tuple((f"s{next(numbers)}", text) for text in by_chunk[one]) for one in by_chunk})

    @classmethod
    def sentences_of(cls, chunks: Chunks) -> Statements:
        """Use ragmeter's sentences as statements."""
        return cls.of({chunk_id: sentences(text) for chunk_id, text in chunks.texts.items()})

    def items(self, question: str, chunks: Chunks) -> tuple[Item, ...]:
        """Return the statements to judge; a verdict depends only on the statement's own chunk."""
        return tuple(
            Item(line_id, (question, chunks.texts[chunk_id], text))
            for chunk_id, lines in self.lines.items()
            for line_id, text in lines
        )

    def evidence(
        self, chunks: Chunks, answers: Mapping[str, Answer], unit: Unit
    ) -> tuple[list[bool | None], list[ScoreItem]]:
        """Return the verdicts over all ranks, and the items: each chunk, with its statements."""
        verdicts: list[bool | None] = []
        items: list[ScoreItem] = []
        for rank, chunk_id in enumerate(chunks.ids, start=1):
            lines = self.lines.get(chunk_id, ()) if chunk_id is not None else ()
            own = [answers[line_id].verdict for line_id, _ in lines]
            found = f"{own.count(True)} of {len(own)}" if own else "no statement"
            share = own.count(True) / len(own) if own and None not in own else None
            items.append(ScoreItem(f"chunk-{rank}", None, reason=found, value=share))
            for number, (line_id, text) in enumerate(lines, start=1):
                item_id, answer = f"chunk-{rank}.{unit}-{number}", answers[line_id]
                items.append(ScoreItem(item_id, answer.verdict, text, reason=answer.reason))
            verdicts += own
        return verdicts, items


@dataclass(frozen=True)
class ContextRelevancy(UnitMetric):
    """How much of the retrieved text is about the question?

        value = relevant statements / all statements, pooled over the chunks

    The items give each chunk's own ratio and each statement's verdict.

    Range: 0.0 to 1.0.
    Needs: ``question``, ``contexts``.
    Cost: 1 judge call; with ``unit="claim"`` one more for chunks not seen before.
    Prompts: ``prompts/context_relevancy.md``; with ``unit="claim"`` also ``prompts/claims.md``.
    Source: the statement ratio of deepeval 4.3.1 (ragas dropped it).
    Differs from the source: one call instead of one per chunk; we split the sentences; a blank chunk
        adds nothing instead of a "no"; statements of identical chunks are judged once and counted
        each time.

    Args:
        unit: ``"sentence"``: our sentences. ``"claim"``: the judge's claims, remembered per chunk.
        unknown_as: 0 counts unknown verdicts as irrelevant; None leaves the score without a value.

    Without a value:
        ``missing_input``: no question or contexts given.
        ``undefined``: the question is blank, or no chunk has a statement.
        ``partial``: verdicts stayed unknown; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``, ``skipped``: the judge failed, or its budget is used up.
    """

    name = "context_relevancy"
    score_names = ("context_relevancy",)
    needs = ("question", "contexts")
    target = "retrieval"
    prompts = ("context_relevancy",)

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Judge every statement of the chunks against the question."""
        question = sample.question or ""
        if is_blank(question):
            return (self.without_value("undefined", "the question is blank"),)
        chunks = Chunks.of(sample.contexts or ())
        if self.unit == "sentence":
            statements = Statements.sentences_of(chunks)
        else:
            texts = {f"t{chunk_id[1:]}": text for chunk_id, text in chunks.texts.items()}
            claims = await extracted(self.name, "claims", texts, inquiry)
            statements = Statements.of({f"c{text_id[1:]}": claims[text_id] for text_id in texts})
        passages = tuple(
            Passage(f"chunk {chunk_id}", lines=lines, only_for=frozenset(i for i, _ in lines))
            for chunk_id, lines in statements.lines.items()
            if lines
        )
        group = Group("lines", statements.items(question, chunks), compact=True)
        ask = Ask(self.name, self.name, (*passages, *passages_of(question=question)), (group,))
        reply = await inquiry.ask(ask)
        verdicts, items = statements.evidence(chunks, reply.answers, self.unit)
        nothing = "no chunk has a statement"
        said = f"{self.unit}s of the chunks are about the question"
        return (ratio_score(self, self.name, verdicts, items, said=said, nothing=nothing),)
