"""The arithmetic of RAGQuestEval: from answers to its recall and precision.

For `RagQuestEval` and for users who already have answers; no judge is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError
from ragmeter.metrics.text.cleaning import clean
from ragmeter.metrics.text.jieba_words import jieba_cut
from ragmeter.metrics.text.tokens import normalise, tokens

QuestTokenizer = Literal["unicode", "jieba"]
"""``unicode``: words and single Han characters. ``jieba``: jieba's words, for Chinese."""

CRUD_UNANSWERABLE = "无法推断"
"""The markers of CRUD_RAG's prompts for a text that does not answer a question."""

_ARTICLES = frozenset({"a", "an", "the"})
_MARKERS = frozenset({CRUD_UNANSWERABLE, "unanswerable", "невозможноответить"})


@dataclass(frozen=True, slots=True)
class QuestEvalScores:
    """Recall and precision of the answers, with bounds over the unknown ones."""

    recall: float | None
    """Share of the answerable questions that were answered; None: undefined or unknown."""
    precision: float | None
    """Mean token F1 of the answered questions; None: undefined or unknown."""
    recall_bounds: tuple[float, float] | None
    """Lower and upper bound of recall; None: no question is answerable."""
    precision_bounds: tuple[float, float] | None
    """Lower and upper bound of precision; None: no question was answered, none is unknown."""
    unknown: int
    """Answerable questions without a known answer."""
    f1: Mapping[str, float]
    """Token F1 by id, for the answered questions."""


def quest_tokenizer(tokenizer: QuestTokenizer, *, crud_compat: bool = False) -> Callable[[str], list[str]]:
    """Return the function that splits an answer into counted tokens.

    Raises:
        ConfigurationError: Unknown tokenizer.
        MissingDependencyError: jieba is not installed.
    """
    if tokenizer not in ("unicode", "jieba"):
        raise ConfigurationError(f"tokenizer is {tokenizer!r}; use 'unicode' or 'jieba'")
    if tokenizer == "unicode" and not crud_compat:
        return _unicode_tokens
    try:
        cut = jieba_cut()
    except ImportError:
        raise MissingDependencyError("jieba", "jieba", "RAGQuestEval with jieba") from None
    if crud_compat:
        return lambda text: list(cut(text))
    return lambda text: [
        token for word in cut(normalise(clean(text))) if (token := _word(word)) not in ("", *_ARTICLES)
    ]


def _word(word: str) -> str:
    return "".join(letter for letter in word if letter.isalnum())


def _unicode_tokens(text: str) -> list[str]:
    return [token for token in tokens(text) if token not in _ARTICLES]


def answer_f1(
    reference_answer: str, generated_answer: str, cut: Callable[[str], list[str]] = _unicode_tokens
) -> float:
    """Return the token F1 of two short answers, as in SQuAD and CRUD_RAG.

    Multiset overlap o of the tokens: P = o / generated, R = o / reference, F1 = 2PR / (P + R). Both
    without tokens: 1.0; one without: 0.0.
    """
    reference, generated = Counter(cut(reference_answer)), Counter(cut(generated_answer))
    if not reference or not generated:
        return float(not reference and not generated)
    overlap = (reference & generated).total()
    if overlap == 0:
        return 0.0
    precision, recall = overlap / generated.total(), overlap / reference.total()
    return 2 * precision * recall / (precision + recall)


def quest_eval_scores(
    reference_answers: Mapping[str, str | None] | Sequence[str | None],
    generated_answers: Mapping[str, str | None] | Sequence[str | None],
    *,
    tokenizer: QuestTokenizer = "unicode",
    crud_compat: bool = False,
) -> QuestEvalScores:
    """Compute RAGQuestEval's recall and precision from given answers.

        A         = questions that the reference answers
        recall    = questions of A that the generated text answers / A
        precision = mean token F1 of the two answers, over the answered of A

    Args:
        reference_answers: Answers from the reference, by question id or in order; None: the
            reference does not answer it. 无法推断, <Unanswerable> and «невозможно ответить» mean None.
        generated_answers: Answers from the generated text, likewise. An id that is missing is
            unknown, never a shift of the others.
        tokenizer: How answers are split into tokens.
        crud_compat: The published arithmetic of CRUD_RAG @1aace38: jieba without any normalisation, the exact
            marker 无法推断, surplus answers ignored, 0.0 where nothing can be measured.

    Raises:
        ValueError: Two lists of different length: their answers cannot be matched.
    """
    mapped = isinstance(reference_answers, Mapping) or isinstance(generated_answers, Mapping)
    surplus = len(generated_answers) - len(reference_answers)
    if not mapped and surplus != 0 and not (crud_compat and surplus > 0):
        raise ValueError(
            f"{len(reference_answers)} reference answers, {len(generated_answers)} generated "
            "ones; pass mappings by question id when some are missing"
        )
    expected, given = _by_id(reference_answers), _by_id(generated_answers)
    cut = quest_tokenizer(tokenizer, crud_compat=crud_compat)
    missing = _is_crud_marker if crud_compat else _is_unanswerable
    answerable = {i: text for i, text in expected.items() if text is not None and not missing(text)}
    unknown = sum(item_id not in given for item_id in answerable)
    f1: dict[str, float] = {}
    for item_id, text in answerable.items():
        answer = given.get(item_id)
        if answer is not None and not missing(answer):
            f1[item_id] = answer_f1(text, answer, cut)
    return _scores(len(answerable), unknown, f1, crud_compat=crud_compat)


def _scores(total: int, unknown: int, f1: dict[str, float], *, crud_compat: bool) -> QuestEvalScores:
    nothing = 0.0 if crud_compat else None
    if not total:
        return QuestEvalScores(nothing, nothing, None, None, 0, f1)
    answered, summed = len(f1), sum(f1.values())
    recall_bounds = (answered / total, (answered + unknown) / total)
    precision_bounds = None
    if answered + unknown:
        # The unknown answers are anywhere between wrong and right.
        precision_bounds = (summed / (answered + unknown), (summed + unknown) / (answered + unknown))
    if unknown:
        return QuestEvalScores(None, None, recall_bounds, precision_bounds, unknown, f1)
    precision = summed / answered if answered else nothing
    return QuestEvalScores(recall_bounds[0], precision, recall_bounds, precision_bounds, 0, f1)


def _by_id(answers: Mapping[str, str | None] | Sequence[str | None]) -> Mapping[str, str | None]:
    if isinstance(answers, Mapping):
        return answers
    return {str(number): answer for number, answer in enumerate(answers, start=1)}


def _is_crud_marker(answer: str) -> bool:
    return answer == CRUD_UNANSWERABLE


def _is_unanswerable(answer: str) -> bool:
    return _word(answer.casefold()) in _MARKERS
