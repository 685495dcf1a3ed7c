"""Did the retriever find anything, how much, how much of it twice, and with which scores?

The one metric that needs only the contexts; useful for every request.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ragmeter.metrics._display.wording import number_of, percent
from ragmeter.metrics.protocol import ComputedMetric, scores_without_value, too_long_scores
from ragmeter.metrics.sample import RagSample, RetrievedContext
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import analyse, analyse_all, comparable_tokens

from ._repetition import Repetition, repetitions
from .precision_recall_f1 import MOST_ITEMS

_NO_LETTER = re.compile(r"[\W_]+")
_END = 200
_LETTERS = 8
"""Characters to read at either end of a text, and letters and digits of them to compare."""
_READING = ("repeated_context_ratio", "context_tokens")
_OF_THE_RETRIEVER = ("retriever_top_score", "retriever_score_spread")


@dataclass(frozen=True)
class RetrievalHealth(ComputedMetric):
    """Did the retriever bring anything, how much, how much of it twice, and how sure was it?

        context_count          = K, the number of retrieved chunks
        empty_retrieval        = 1.0 if K = 0 or every chunk is blank, else 0.0
        duplicate_ratio        = 1 - distinct chunks / K, texts compared without their layout
        repeated_context_ratio = runs of five tokens that an earlier chunk had / runs of five tokens
        context_tokens         = words of all chunks, each Han character a word
        retriever_top_score    = the retriever's own score of the first chunk
        retriever_score_spread = |its score of the first chunk - that of the last|

    The retriever's scores have the scale of the store: compare them within one stream only.  Their
    label is ``distance`` where they rise with the rank.

    Range: counts are 0 or more, the retriever's scores unbounded; the others 0.0 to 1.0, lower is
    better: these are plain measurements, not quality scores.
    Needs: ``contexts``.
    Cost: none.
    Source: ours.

    Without a value:
        ``missing_input``: retrieval was not captured; for the retriever's scores, that the
            framework does not tell them all.
        ``undefined``: `duplicate_ratio` and the retriever's scores of an empty retrieval,
            `repeated_context_ratio` without a token, `retriever_score_spread` of one chunk.
        ``skipped``: `repeated_context_ratio` and `context_tokens` of a text that is too long.
    """

    name = "retrieval_health"
    score_names = ("context_count", "empty_retrieval", "duplicate_ratio", *_READING, *_OF_THE_RETRIEVER)
    needs = ("contexts",)
    method = "exact"
    target = "retrieval"
    direction = "lower"
    directions = MappingProxyType(
        dict.fromkeys(("context_count", "context_tokens", *_OF_THE_RETRIEVER), "none")
    )
    ranges = MappingProxyType(
        {
            **dict.fromkeys(("context_count", "context_tokens", _OF_THE_RETRIEVER[1]), (0.0, None)),
            _OF_THE_RETRIEVER[0]: (None, None),
        }
    )
    definition = "3"
    reads_texts = False  # a text of any length counts as retrieved

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Return the counts and ratios."""
        return self.compute_within(sample, None)

    def compute_within(self, sample: RagSample, max_text_chars: int | None) -> Sequence[Score]:
        """Do the same, but read no text that is longer."""
        contexts = sample.contexts or ()
        texts = [context.text for context in contexts]
        if sample.contexts_by == "ids":  # the texts are unknown; two chunks with one id are one chunk
            names = [
                f"#{position}" if context.id is None else f"id {context.id}"
                for position, context in enumerate(contexts)
            ]
            unread = scores_without_value(
                self,
                "missing_input",
                "only the ids of the contexts are known",
                missing="contexts.text",
                names=_READING,
            )
            return (*self._count_scores(names), *unread, *self._by_the_retriever(contexts))
        longest = max(map(len, texts), default=0)
        read: Sequence[Score]
        if max_text_chars is not None and longest > max_text_chars:
            read = too_long_scores(self, longest, max_text_chars, _READING)
        else:
            read = self._read(texts)
        return (*self._count_scores(texts), *read, *self._by_the_retriever(contexts))

    def _health_score(
        self,
        name: str,
        value: float | None,
        said: str,
        *,
        label: str | None = None,
        items: Sequence[ScoreItem] = (),
    ) -> Score:
        # These summaries never quote a text of the request.
        return self.make_score(name, value, explanation=said, summary=said, label=label, items=items)

    def _count_scores(self, texts: Sequence[str]) -> tuple[Score, Score, Score]:
        seen: dict[str, int] = {}
        repeats: list[ScoreItem] = []
        for position, text in enumerate(_comparable(texts), start=1):
            first = seen.setdefault(text, position)
            if first != position:
                repeats.append(ScoreItem(f"chunk-{position}", False, None, None, f"repeats chunk-{first}"))
        count = len(texts)
        blank = sum([not text or text.isspace() for text in texts])
        chunks = number_of(count, "chunk") if count else "nothing was retrieved"
        distinct = f"{len(repeats)} of {chunks} repeat another" if repeats else "no chunk is a repeat"
        return (
            self._health_score("context_count", float(count), chunks),
            self._health_score(
                "empty_retrieval", float(blank == count), f"{chunks}, {blank} blank" if blank else chunks
            ),
            self._health_score(
                "duplicate_ratio",
                (count - len(seen)) / count if count else None,
                distinct if count else chunks,
                items=repeats,
            ),
        )

    def _read(self, texts: Sequence[str]) -> tuple[Score, Score]:
        tokens = comparable_tokens(analyse_all(texts))
        share, pairs = repetitions(tokens)
        items = [
            ScoreItem(f"chunk-{pair.chunk + 1}", False, None, None, _repeats(pair), pair.share)
            for pair in pairs[:MOST_ITEMS]
        ]
        if share is None:
            said = "no word was retrieved"
        elif pairs:
            said = f"chunk-{pairs[0].chunk + 1} {_repeats(pairs[0])}; in all {percent(share)}"
        else:
            said = f"{percent(share)} of the chunks' words stood in an earlier chunk"
        count = sum(map(len, tokens))
        return (
            self._health_score("repeated_context_ratio", share, said, items=items),
            self._health_score(
                "context_tokens",
                float(count),
                f"{number_of(count, 'word')} in {number_of(len(texts), 'chunk')}",
            ),
        )

    def _by_the_retriever(self, contexts: Sequence[RetrievedContext]) -> tuple[Score, ...]:
        scores = [
            context.score for context in contexts if context.score is not None and math.isfinite(context.score)
        ]
        if len(scores) < len(contexts):
            why = "the retriever does not tell every chunk's score"
            return scores_without_value(
                self, "missing_input", why, missing="contexts.score", names=_OF_THE_RETRIEVER
            )
        if not scores:
            return tuple(self._health_score(name, None, "nothing was retrieved") for name in _OF_THE_RETRIEVER)
        top, last = scores[0], scores[-1]
        label = "distance" if top < last else None
        spread = abs(top - last) if len(scores) > 1 else None
        if spread is not None and not math.isfinite(spread):
            spread = None
        return (
            self._health_score(
                "retriever_top_score", top, f"the retriever scores the first chunk {top:.4g}", label=label
            ),
            self._health_score(
                "retriever_score_spread",
                spread,
                f"from {top:.4g} for the first chunk to {last:.4g} for the last"
                if spread is not None
                else "one chunk has no spread",
                label=label,
            ),
        )


def _repeats(pair: Repetition) -> str:
    earlier = f"chunk-{pair.earlier + 1}"
    if pair.of_earlier:
        return f"repeats {percent(pair.share)} of {earlier}"
    return f"is to {percent(pair.share)} in {earlier}"


def _comparable(texts: Sequence[str]) -> list[str]:
    """Remove the layout, but only of texts that begin and end with the same letters as another.

    The others are distinct anyway, and removing the layout is expensive.
    """
    heads = list(map(_head, texts))
    if len(set(heads)) == len(heads):
        return list(texts)
    ends = [
        (head, _NO_LETTER.sub("", text[-_END:])[-_LETTERS:]) for head, text in zip(heads, texts, strict=True)
    ]
    counts = Counter(ends)
    return [
        analyse(text).exact_key if counts[pair] > 1 else text for text, pair in zip(texts, ends, strict=True)
    ]


def _head(text: str) -> str:
    """Return the first letters of a text, usually from its very beginning."""
    letters = _NO_LETTER.sub("", text[: 2 * _LETTERS])
    if len(letters) < _LETTERS:
        letters = _NO_LETTER.sub("", text[:_END])
    return letters[:_LETTERS]
