"""Does the answer carry the reference's key information, and is what it carries right?

For `RagQuestEval` the judge writes questions about the reference, once per reference, and answers them from
the generated answer; `quest_eval` does the arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragmeter.metrics.judge.protocol import Answer, Ask, Group, Item, JudgeError, Passage
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.quote_check import is_answer_from

from ._judged_metric import Inquiry, JudgedMetric, definition_of, is_blank, reference_answer
from ._quest_eval_scores import QuestEvalScores, QuestTokenizer, quest_eval_scores, quest_tokenizer

_NOT_SAID = Answer(known=False, reason="but the reference does not say so")
_RECALL, _PRECISION = "rag_quest_eval_recall", "rag_quest_eval_precision"


@dataclass(frozen=True)
class RagQuestEval(JudgedMetric):
    """Does the answer carry the reference's key information, and is what it carries right?

        recall    = questions that the answer answers / questions that the reference answers
        precision = mean token F1 of the two answers, over the answered ones

    The judge writes questions about the reference's key information with the reference's answers,
    then answers them from the generated answer alone; "cannot be answered" is an empty text, not a
    marker in it.  Answers are copied: one that does not stand in its text leaves its question
    unknown.  The retrieved contexts play no part.

    Range: 0.0 to 1.0 each.
    Needs: ``answer``, ``reference.answer``.
    Cost: 1 judge call, and 1 more per reference, ever.
    Prompts: ``prompts/quest_questions.md``, ``prompts/quest_answers.md``.
    Source: RAGQuestEval of CRUD-RAG (Lyu et al. 2024, arXiv:2401.17043), CRUD_RAG @1aace38.
    Differs from the source: answers are matched to questions by id, so a missing answer is unknown
        instead of shifting the others; tokens are normalised and work beyond Chinese; what cannot
        be measured is ``undefined`` instead of 0. `crud_compat` gives the published arithmetic.

    Args:
        tokenizer: ``"unicode"``: words and single Han characters; ``"jieba"``: jieba's words.
        crud_compat: Count as CRUD_RAG does: raw jieba tokens, 0.0 where nothing can be measured.
        unknown_as: 0 counts unknown answers as missing and wrong; None leaves the scores without a
            value.

    Raises:
        ConfigurationError: An option is none of those.
        MissingDependencyError: jieba is wanted and not installed.

    Without a value:
        ``missing_input``: no answer or reference answer.
        ``skipped``: the request did not end ``ok``, or the judge's budget is used up.
        ``undefined``: the reference answers no question; precision also when nothing was answered.
        ``partial``: answers stayed unknown, or do not stand in their text; see ``lower`` and ``upper``.
        ``judge_error``, ``timeout``: the judge failed.
    """

    tokenizer: QuestTokenizer = "unicode"
    crud_compat: bool = False
    unknown_as: Literal[0] | None = None
    definition: str = field(init=False)

    name = "rag_quest_eval"
    score_names = (_RECALL, _PRECISION)
    needs = ("answer", "reference.answer")
    target = "answer"

    def __post_init__(self) -> None:
        super().__post_init__()
        quest_tokenizer(self.tokenizer, crud_compat=self.crud_compat)
        version = "2;crud_compat" if self.crud_compat else f"2;tokenizer={self.tokenizer}"
        definition = definition_of(version, "quest_questions", "quest_answers")
        object.__setattr__(self, "definition", definition)

    async def judge(self, sample: RagSample, inquiry: Inquiry) -> Sequence[Score]:
        """Ask for questions, then for answers."""
        reference = reference_answer(sample)
        answer = sample.answer or ""
        if is_blank(reference):
            why = "the reference answer is blank"
            return tuple(self.without_value("undefined", why, name) for name in self.score_names)
        if is_blank(answer):
            zero = self.score(_RECALL, 0.0, said="the answer is blank")
            if self.crud_compat:
                return (zero, self.score(_PRECISION, 0.0, said="the answer is blank"))
            return (zero, self.without_value("undefined", "the answer is blank", _PRECISION))
        expected = await self._questions(reference, inquiry)
        questions = {f"q{number}": text for number, text in enumerate(expected, start=1)}
        reference_answers = {item_id: expected[text] for item_id, text in questions.items()}
        asked = {
            item_id: text
            for item_id, text in questions.items()
            if is_answer_from(reference_answers[item_id], reference)
        }
        passages = (Passage("answer text", answer), Passage("questions", lines=tuple(asked.items())))
        items = tuple(Item(item_id, (answer, text), source=answer) for item_id, text in asked.items())
        group = Group("answers", items, "text")
        reply = await inquiry.ask(Ask(self.name, "quest_answers", passages, (group,)))
        answers = {item_id: reply.answers.get(item_id, _NOT_SAID) for item_id in questions}
        generated = {
            item_id: answer.value if isinstance(answer.value, str) else None
            for item_id, answer in answers.items()
            if answer.known
        }
        scores = quest_eval_scores(
            reference_answers, generated, tokenizer=self.tokenizer, crud_compat=self.crud_compat
        )
        return self._scores(scores, _evidence(questions, reference_answers, answers, scores))

    async def _questions(self, reference: str, inquiry: Inquiry) -> dict[str, str]:
        """Return the questions that the reference answers, with its answers."""
        group = Group("questions", (Item("t1", (reference,), source=reference),), "pairs")
        passage = Passage("text t1", reference)
        reply = await inquiry.ask(Ask(self.name, "quest_questions", (passage,), (group,)))
        pairs = reply.answers["t1"]
        if not pairs.known or not isinstance(pairs.value, tuple):
            raise JudgeError("the judge wrote no questions, twice asked", "unusable_reply")
        return {pair[0]: pair[1] for pair in pairs.value if isinstance(pair, tuple) and pair[1] is not None}

    def _scores(self, scores: QuestEvalScores, items: list[ScoreItem]) -> tuple[Score, Score]:
        said = f"{len(scores.f1)} of {len(items)} questions answered"
        if scores.unknown:
            said += f", {scores.unknown} unknown"
        made = []
        for name, value, bounds in (
            (_RECALL, scores.recall, scores.recall_bounds),
            (_PRECISION, scores.precision, scores.precision_bounds),
        ):
            if scores.unknown and bounds is not None:
                value = bounds[0] if self.unknown_as == 0 else None  # noqa: PLW2901 -- the default
                made.append(self.score(name, value, "partial", items=items, bounds=bounds, said=said))
            elif value is None:
                why = said if items else "the reference answers no question"
                made.append(self.score(name, None, "undefined", items=items, said=why))
            else:
                made.append(self.score(name, value, items=items, said=said))
        return made[0], made[1]


def _evidence(
    questions: Mapping[str, str],
    reference_answers: Mapping[str, str],
    answers: Mapping[str, Answer],
    scores: QuestEvalScores,
) -> list[ScoreItem]:
    items: list[ScoreItem] = []
    for number, (item_id, question) in enumerate(questions.items(), start=1):
        answer, f1 = answers[item_id], scores.f1.get(item_id)
        verdict = f1 is not None if answer.known else None
        said = answer.value if isinstance(answer.value, str) else None
        why = f"the reference says: {reference_answers[item_id]}"
        if answer.reason and not answer.known:
            why += f"; {answer.reason}"
        items.append(ScoreItem(f"question-{number}", verdict, question, said, why, f1))
    return items
