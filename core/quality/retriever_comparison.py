"""Two retrievers on the same questions: the paired difference of one score, and the conclusion.

`ragmeter.RagMeter.shadow` counts live requests here, ``ragmeter evaluate --compare`` the rows of two files.
Words prove little: on five data sets they named the wrong winner between families of retrievers, with a clear
interval, but with a margin of .02 they never called the better one *worse* (400 orders of requests). So
without a judge the result is *worse* or *nothing seen*; *better* requires a judge, which reads the chunks of
both lists in one call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragmeter.metrics import LexicalContextRelevance, LiveJudged, RagSample, RetrievedContext, ndcg
from ragmeter.metrics.judge.protocol import Judge
from ragmeter.metrics.protocol import run_metric

from .paired import PairedSums

MARGIN = 0.02
"""Distance of the whole interval below 0 for *worse* by words; chosen on the data sets of its evaluation."""
LEAST_REQUESTS = 50
WORDS, JUDGED = "lexical_context_relevance", "judged_ndcg"
_CHUNK_SIZES = 1.5
"""Ratio of chunk lengths beyond which the number of matching words may reflect only the length."""
_LIST_LENGTHS = 1.2
_SCORE_SCALES = 3.0
"""Ratio of the first places' store scores beyond which the retrievers are of different families."""

Word = Literal["better", "worse", "nothing seen"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison with another retriever so far.

    Attributes:
        name: Name of the other retriever.
        n: Requests of which both lists have a score.
        difference: Mean of the other's score less that of the one in use; None: no request yet.
        lower: Lower end of its interval: 95 %, at any number of looks.
        upper: Upper end.
        better: Requests on which the other's score is higher.
        worse: Requests on which it is lower.
        same: Requests on which it is equal.
        word: ``worse`` or ``nothing seen``, with a judge also ``better``.
        comparable: Whether the score can compare lists of these kinds.
        why: The basis of the word, or why they are not comparable.
        failed: Requests that were not compared, by reason: ``error``, ``queue_full``, ``budget``,
            ``no_score``; rows without a counterpart for their question: ``no_partner``, ``only_in_other``.
        score: The compared score: ``lexical_context_relevance``, or with a judge ``judged_ndcg``.
    """

    name: str
    n: int
    difference: float | None
    lower: float
    upper: float
    better: int
    worse: int
    same: int
    word: Word
    comparable: bool
    why: str
    failed: dict[str, int]
    score: str = WORDS

    def __str__(self) -> str:
        mean = "–" if self.difference is None else f"{self.difference:+.3f}"
        shown = f"{self.score} {mean} [{self.lower:+.3f}, {self.upper:+.3f}], n {self.n}"
        failed = "".join(f"; {n} not compared ({why})" for why, n in sorted(self.failed.items()))
        return (
            f"{self.name}: {self.word} ({shown}: better on {self.better}, "
            f"worse on {self.worse}, same on {self.same}); {self.why}{failed}"
        )


def word_of(score: str, lower: float, upper: float) -> Word:
    """Return the word for an interval of a score's difference; by words it is never *better*."""
    # A judge reads the content; words need a margin for what they miss.
    if upper < (-MARGIN if score == WORDS else 0.0):
        return "worse"
    return "better" if score == JUDGED and lower > 0 else "nothing seen"


class _Lists:
    """Statistics of the lists of one retriever."""

    def __init__(self) -> None:
        self.chunks = self.characters = self.scored = 0
        self.scores = 0.0
        """Sum of the store scores of the first chunks of `scored` lists."""

    def add(self, contexts: Sequence[RetrievedContext]) -> None:
        self.chunks += len(contexts)
        self.characters += sum(len(context.text) for context in contexts)
        if contexts and contexts[0].score is not None:
            self.scored += 1
            self.scores += contexts[0].score


class RetrieverComparison:
    """Compares another retriever on the same questions. Thread-safe.

    Args:
        name: Name of the other retriever.
        judge: Judges which chunks are relevant; None: by words.
    """

    def __init__(self, name: str, judge: Judge | None = None) -> None:
        self._name, self._judge = name, judge
        self._words = LexicalContextRelevance()
        self._judged = LiveJudged(only=("judged_precision",))
        self._lock = threading.Lock()
        self._sums, self._failed = PairedSums(), Counter[str]()
        self._signs = Counter[Word | Literal["same"]]()
        self._mine, self._theirs = _Lists(), _Lists()

    async def add(self, sample: RagSample, found: Sequence[RetrievedContext]) -> None:
        """Count a request.

        Args:
            sample: The question, with the chunks of the retriever in use.
            found: The chunks of the other retriever.
        """
        if self._judge is None:
            self.add_by_words(sample, found)
        else:
            self._count(sample, found, await self._judged_values(sample, found, self._judge))

    def add_by_words(self, sample: RagSample, found: Sequence[RetrievedContext]) -> None:
        """Count a request as `add` does without a judge, but synchronously."""
        first, second = (
            self._words.value_of(sample.model_copy(update={"contexts": tuple(one)}))
            for one in (sample.contexts or (), found)
        )
        self._count(sample, found, None if first is None or second is None else (first, second))

    def _count(
        self, sample: RagSample, found: Sequence[RetrievedContext], values: tuple[float, float] | None
    ) -> None:
        """Count the scores of both lists; None: missing."""
        if values is None:
            self.fail("no_score")
            return
        difference = values[1] - values[0]
        sign: Word | Literal["same"] = "better" if difference > 0 else "worse"
        with self._lock:
            self._sums.add(difference)
            self._signs["same" if abs(difference) < 1e-9 else sign] += 1
            self._mine.add(sample.contexts or ())
            self._theirs.add(found)

    def fail(self, reason: str, n: int = 1) -> None:
        """Count requests that could not be compared."""
        with self._lock:
            self._failed[reason] += n

    def result(self) -> Comparison:
        """Return the result so far."""
        with self._lock:
            n, (lower, upper) = self._sums.n, self._sums.interval()
            difference, signs, failed = self._sums.mean(), Counter(self._signs), dict(self._failed)
            unlike = self._unlike()
        score = WORDS if self._judge is None else JUDGED
        margin = MARGIN if score == WORDS else 0.0
        enough = n >= LEAST_REQUESTS and not unlike
        word: Word = word_of(score, lower, upper) if enough else "nothing seen"
        ends = f"below -{margin}" if margin else "on one side of 0"
        rule = f"worse takes {LEAST_REQUESTS} requests and an interval {ends}"
        return Comparison(
            name=self._name,
            n=n,
            difference=difference,
            lower=lower,
            upper=upper,
            better=signs["better"],
            worse=signs["worse"],
            same=signs["same"],
            word=word,
            comparable=not unlike,
            why=unlike or (rule if word == "nothing seen" else f"the whole interval is {ends}"),
            failed=failed,
            score=score,
        )

    async def _judged_values(
        self, sample: RagSample, found: Sequence[RetrievedContext], judge: Judge
    ) -> tuple[float, float] | None:
        lists = (sample.contexts or (), found)
        texts = [list(dict.fromkeys(context.text for context in one)) for one in lists]
        if texts[0] == texts[1]:
            return 0.0, 0.0
        union = list(dict.fromkeys(texts[0] + texts[1]))
        asked = RagSample(question=sample.searched_for, contexts=union)
        [score] = await run_metric(self._judged, asked, judge)
        if score.status != "ok":
            return None
        verdicts = (bool(item.verdict) for item in score.items)
        relevant = dict(zip(union, verdicts, strict=True))
        total = sum(relevant.values())
        first, second = (ndcg([relevant[text] for text in one], total) or 0.0 for one in texts)
        return first, second

    def _unlike(self) -> str:
        """Return why the score cannot compare these kinds of lists; empty if it can."""
        mine, theirs, n = self._mine, self._theirs, self._sums.n
        if not n or not mine.chunks or not theirs.chunks:
            return ""
        lengths = sorted((mine.chunks / n, theirs.chunks / n))
        sizes = sorted(one.characters / one.chunks for one in (mine, theirs))
        if sizes[1] > _CHUNK_SIZES * max(sizes[0], 1.0):
            return f"not comparable: chunks of {sizes[0]:.0f} and {sizes[1]:.0f} characters"
        if lengths[1] > _LIST_LENGTHS * lengths[0]:
            return f"not comparable: lists of {lengths[0]:.1f} and {lengths[1]:.1f} chunks; ask for as many"
        if self._judge is None and mine.scored and theirs.scored:
            tops = [one.scores / one.scored for one in (mine, theirs)]
            low, high = sorted(map(abs, tops))
            if high > _SCORE_SCALES * low or tops[0] * tops[1] < 0:
                return (
                    f"not comparable by words: first places score {tops[0]:.3g} and {tops[1]:.3g}, "
                    "another family of retrievers; ask a judge"
                )
        return ""
