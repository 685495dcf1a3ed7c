"""Does the answer refuse?

Neither good nor bad in itself: right if the chunks lack the answer, wrong if they have it. The verdict
combines it with the other scores, because a refusal shares few words with any chunk.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragmeter.metrics._display.wording import number_of, quote_text
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import Analysis, analyse
from ragmeter.metrics.text.refusals import SentenceKind, asks_back, greets, sentence_kinds

from .precision_recall_f1 import MOST_ITEMS

_FIRST = 2
"""Sentences at the beginning in which a refusal qualifies the whole answer."""
_WHOLE = re.compile(r"\b(?:answer|help|assist|reply)\b|ответ|помочь|回答|帮")
"""Words showing that a refusal concerns the question, not a detail of it."""
_LABELS = {1.0: "refused", 0.5: "partial", 0.0: "answered"}


@dataclass(frozen=True)
class Refusal(ComputedMetric):
    """Does the answer refuse?

        1.0 (`refused`)  = some sentence refuses and no other claims anything; or the request
                           ended ``refused``: the provider says so, whatever the words
        0.5 (`partial`)  = a refusing sentence is among the first two or the last, or as many refuse as claim;
                           `contradicts`: the question as a whole is refused, and answered
        0.0 (`answered`) = none refuses, or one does deep inside a longer answer; `asked_back`: it only asks;
                           `greeted`: it only greets, thanks or offers help

    Apologies, offers and "please contact ..." claim nothing; a sentence that goes on after its refusal
    ("..., but the limit is 5 GB") does both.  Sentences are matched against
    wordings in English, Russian and Chinese; in another language a refusal is not recognised.

    Range: 0.0, 0.5 or 1.0; neither high nor low is better.
    Needs: ``answer``.
    Cost: no judge.
    Source: ours; all of the 16 answers of MTRAG that it calls refused are (477 answers).
    Differs from the source: nothing.

    Without a value:
        ``missing_input``: no answer; ``skipped``: the request failed.
        ``undefined``: the answer has no letter.
    """

    name = "refusal"
    score_names = ("refusal",)
    needs = ("answer",)
    method = "lexical"
    target = "answer"
    direction = "none"
    endings = frozenset({"ok", "refused"})
    definition = "5/en,ru,zh"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Count the sentences that refuse and those that claim; the evidence is the refusing ones."""
        if sample.status == "refused":
            why = "the model's provider says that it refused"
            label = _LABELS[1.0]
            return (self.make_score(self.name, 1.0, label=label, explanation=why, summary=why),)
        answer = analyse(sample.answer or "")
        if not any(map(str.isalpha, answer.plain)):
            return self.undefined_scores("no letter in the answer")
        kinds = answer.memoize(sentence_kinds)
        refusing = [at for at, kind in enumerate(kinds) if kind.refuses is not None]
        items = [
            ScoreItem(f"sentence-{at + 1}", None, answer.sentences[at], kinds[at].refuses)
            for at in refusing[:MOST_ITEMS]
        ]
        value = _value(kinds, refusing)
        explanation = summary = "no sentence refuses"
        if refusing:
            first = refusing[0]
            summary = f"{_explanation(value, kinds, len(refusing))}: sentence-{first + 1}"
            explanation = (
                f"{_explanation(value, kinds, len(refusing))}: {quote_text(answer.sentences[first])}, "
                f"by the words {quote_text(kinds[first].refuses)}"
            )
        return (
            self.make_score(
                self.name,
                value,
                label=_label(value, answer, [kinds[at].refuses or "" for at in refusing]),
                items=items,
                explanation=explanation,
                summary=summary,
            ),
        )


def _value(kinds: Sequence[SentenceKind], refusing: Sequence[int]) -> float:
    claims = sum(kind.claims for kind in kinds)
    if not refusing:
        return 0.0
    if not claims:
        return 1.0
    telling = [at for at, kind in enumerate(kinds) if kind.claims or kind.refuses is not None]
    limits = refusing[0] < _FIRST or refusing[-1] == telling[-1]
    return 0.5 if limits or len(refusing) >= claims else 0.0


def _label(value: float, answer: Analysis, refusing: Sequence[str]) -> str:
    if value == 0.0:
        if asks_back(answer):
            return "asked_back"
        return "greeted" if greets(answer) else _LABELS[value]
    if 0.0 < value < 1.0 and any(map(_WHOLE.search, refusing)):
        return "contradicts"
    return _LABELS[value]


def _explanation(value: float, kinds: Sequence[SentenceKind], refusing: int) -> str:
    if value == 1.0:
        return "the answer refuses and claims nothing"
    claims = number_of(sum(kind.claims for kind in kinds), "claim")
    refusals = number_of(refusing, "refusal")
    where = "" if value else ", deep inside,"
    return f"{refusals}{where} beside {claims}"
