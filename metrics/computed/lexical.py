"""The lexical metrics: measurements by shared words only, for every request and without a judge.

They detect no paraphrase, no negation ("opened" and "closed" score alike) and no translation, and drop
function words in English only. Thresholds were tuned on AttributionBench's development set, each for its own
feature.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import add
from typing import Literal

from ragmeter.metrics._display.wording import first_words, listed_ids, number_of, quote_text
from ragmeter.metrics.errors import ConfigurationError, TooLongError
from ragmeter.metrics.protocol import ComputedMetric
from ragmeter.metrics.sample import RagSample
from ragmeter.metrics.score import Score, ScoreItem
from ragmeter.metrics.text.analysis import Analysis, analyse, analyse_all
from ragmeter.metrics.text.overlap import coverage

from ._ranking import average_precision
from .precision_recall_f1 import MOST_ITEMS

WINDOW_THRESHOLD = 0.62
"""Least coverage of a sentence by two consecutive sentences that counts as attributed."""

WHOLE_THRESHOLD = 0.69
"""Least coverage of a sentence by all contexts together that counts as attributed."""


_MOST_WINDOWS = 10_000_000
"""Most sentences of a reference times windows to search."""


def _contexts(sample: RagSample, *, by_sentence: bool = False) -> Sequence[Analysis]:
    contexts = analyse_all([context.text for context in sample.contexts or ()])
    if by_sentence:
        # A text's tokens follow from its sentences' tokens, but not vice versa.
        for context in contexts:
            _ = context.marked_tokens
    return contexts


def _words_in(words: Iterable[str], contexts: Sequence[Analysis]) -> frozenset[str]:
    """Return the `words` that occur in any context."""
    wanted = frozenset(words)
    return frozenset().union(*[wanted & context.content_set for context in contexts])


def _reference_sentences(sample: RagSample) -> list[tuple[str, list[str]]]:
    """Return the reference answer's sentences that have a content token, with those tokens."""
    answer = sample.reference.answer if sample.reference else None
    known = analyse(answer or "")
    return [
        (sentence, content)
        for sentence, content in zip(known.sentences, known.sentence_content, strict=True)
        if content
    ]


def _check_threshold(threshold: float | None) -> None:
    if threshold is not None and not 0 < threshold <= 1:
        raise ConfigurationError(f"threshold is {threshold!r}; it is more than 0.0, at most 1.0")


def _best_window(words: Sequence[str], contexts: Sequence[Analysis]) -> tuple[float, tuple[int, int] | None]:
    """Return the best coverage of `words` by two consecutive sentences, and the index of the first."""
    best, place = 0, None
    wanted = frozenset(words)
    repeats = len(words) - len(wanted)
    for number, context in enumerate(contexts):
        # Words that the whole chunk lacks are in no window.
        if sum(map(context.content_set.__contains__, words)) <= best:
            continue
        starts, sets = context.windows
        held = [wanted & sentence for sentence in sets]
        sizes = list(map(len, held))
        for index, size in enumerate(map(add, sizes, [*sizes[1:], 0])):
            # The last sentence is a window only if it is the only one; it has no more than the window before.
            if size + repeats <= best:
                continue
            at = starts[index]
            both = held[index].union(*held[index + 1 : index + 2])
            covered = sum(map(both.__contains__, words)) if repeats else len(both)
            if covered > best:
                best, place = covered, (number, at)
    return best / len(words), place


def _with_first_missing(summary: str, items: Sequence[ScoreItem]) -> str:
    missing = next((item.text for item in items if not item.verdict), None)
    return summary if missing is None else f"{summary}; not {quote_text(missing)}"


@dataclass(frozen=True)
class LexicalContextRecall(ComputedMetric):
    """Which share of the reference answer's sentences can be found in the contexts, word by word?

        value = attributed sentences / sentences

    A sentence is attributed when two consecutive sentences of one chunk hold at least 0.62 of its
    content tokens (or, with ``scope="whole"``, all contexts together at least 0.69).

    Range: 0.0 to 1.0, dimensionless.
    Needs: ``contexts``, ``reference.answer``.
    Cost: no judge.
    Source: ours; balanced accuracy .68 / .70 / .80 on AttributionBench dev / test / out of domain.

    Args:
        scope: ``window`` or ``whole``, see above.
        threshold: Least coverage, over 0.0 to 1.0; None: the one tuned for the scope.

    Without a value:
        ``missing_input``: no reference answer, or retrieval was not captured.
        ``undefined``: the reference answer has no sentence with a content token.
    """

    scope: Literal["window", "whole"] = "window"
    threshold: float | None = None

    name = "lexical_context_recall"
    score_names = ("lexical_context_recall",)
    needs = ("contexts", "reference.answer")
    method = "lexical"
    target = "retrieval"
    definition = "3"

    def __post_init__(self) -> None:
        if self.scope not in ("window", "whole"):
            raise ConfigurationError(f"scope is {self.scope!r}; it is 'window' or 'whole'")
        _check_threshold(self.threshold)

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Find the best place for each sentence of the reference."""
        wanted = _reference_sentences(sample)
        if not wanted:
            return self.undefined_scores("no content word in the reference")
        contexts = _contexts(sample)
        threshold = self.threshold
        if threshold is None:
            threshold = WINDOW_THRESHOLD if self.scope == "window" else WHOLE_THRESHOLD
        known = frozenset[str]()
        if self.scope == "whole":
            known = _words_in(chain.from_iterable(words for _, words in wanted), contexts)
        known_windows: dict[tuple[str, ...], tuple[float, tuple[int, int] | None]] = {}
        attributed = 0
        items: list[ScoreItem] = []
        for number, (sentence, words) in enumerate(wanted, start=1):
            evidence = None
            if self.scope == "whole":
                best = coverage(words, known) or 0.0
            else:
                if (key := tuple(words)) not in known_windows:
                    if len(known_windows) * sum(len(one.windows[0]) for one in contexts) > _MOST_WINDOWS:
                        raise TooLongError(f"more than {_MOST_WINDOWS} pairs of sentences to compare")
                    known_windows[key] = _best_window(words, contexts)
                best, place = known_windows[key]
                if place is not None:
                    chunk, at = place
                    evidence = " ".join(contexts[chunk].sentences[at : at + 2])
            found = bool(best >= threshold)
            attributed += found
            if number <= MOST_ITEMS:
                items.append(
                    ScoreItem(
                        id=f"sentence-{number}", verdict=found, text=sentence, evidence=evidence, value=best
                    )
                )
        summary = f"{attributed} of {number_of(len(wanted), 'sentence')} found in the chunks"
        return (
            self.make_score(
                self.name,
                attributed / len(wanted),
                items=items,
                explanation=_with_first_missing(summary, items),
                summary=summary,
            ),
        )


@dataclass(frozen=True)
class LexicalContextPrecision(ComputedMetric):
    """Do the chunks that hold words of the reference answer stand above those that do not?

        value = average precision of v_k, where v_k = 1 if chunk k covers
                at least 0.62 of the content tokens of some reference sentence

    The denominator is the number of such chunks among the retrieved (context precision@K).

    Range: 0.0 to 1.0, dimensionless.
    Needs: ``contexts``, ``reference.answer``.
    Cost: no judge.
    Source: ours; the threshold is borrowed from `lexical_context_recall`, not tuned for chunks.

    Args:
        threshold: Least coverage, over 0.0 to 1.0.

    Without a value:
        ``missing_input``: no reference answer, or retrieval was not captured.
        ``undefined``: nothing was retrieved, or the reference answer has no content token.
    """

    threshold: float = WINDOW_THRESHOLD

    name = "lexical_context_precision"
    score_names = ("lexical_context_precision",)
    needs = ("contexts", "reference.answer")
    method = "lexical"
    target = "retrieval"
    definition = "3"

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Judge each chunk by its best covered reference sentence."""
        wanted = _reference_sentences(sample)
        if not wanted:
            return self.undefined_scores("no content word in the reference")
        # `lexical_context_recall`, which has the same needs, will use the sentences.
        contexts = _contexts(sample, by_sentence=True)
        relevances: list[bool] = []
        items: list[ScoreItem] = []
        for rank, context in enumerate(contexts, start=1):
            best, sentence = max(
                ((coverage(words, context.content_set) or 0.0, text) for text, words in wanted),
                key=lambda covered: covered[0],
            )
            relevances.append(bool(best >= self.threshold))
            if rank <= MOST_ITEMS:
                items.append(
                    ScoreItem(
                        id=f"chunk-{rank}",
                        verdict=relevances[-1],
                        text=context.text,
                        evidence=sentence if best else None,
                        value=best,
                    )
                )
        value = average_precision(relevances)
        if value is None:
            return self.undefined_scores("nothing was retrieved")
        ranks = [rank for rank, relevant in enumerate(relevances, start=1) if relevant]
        said = f"{len(ranks)} of {number_of(len(relevances), 'chunk')} on a sentence of the reference"
        if ranks:
            said += f", at {listed_ids(ranks, 'rank')}"
        return (self.make_score(self.name, value, items=items, explanation=said, summary=said),)


@dataclass(frozen=True)
class LexicalEntityRecall(ComputedMetric):
    """Which of the reference answer's names, places, dates and numbers do the contexts mention?

        value = entities of the reference that a context mentions / entities of the reference

    Entities are found by rules: numbers with sign, unit and currency, dates, capitalised spans
    (English, Russian), titles in 《》 and «», and in Chinese persons, places and organisations by
    surnames, suffixes and short lists.  How a mention is recognised: `ragmeter.metrics.text.entities`.

    Range: 0.0 to 1.0, dimensionless.  A heuristic.
    Needs: ``contexts``, ``reference.answer``.
    Cost: no judge.
    Source: ours, after ragas 0.4.3 ``ContextEntityRecall``.
    Differs from the source: no model lists the entities; spelling variants count as mentions.

    Without a value:
        ``missing_input``: no reference answer, or retrieval was not captured.
        ``undefined``: no entity was found in the reference answer.
    """

    name = "lexical_entity_recall"
    score_names = ("lexical_entity_recall",)
    needs = ("contexts", "reference.answer")
    method = "lexical"
    target = "retrieval"
    definition = "4"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Look every entity of the reference up in the contexts."""
        # The rules for names take a tenth of a second to load, for the few requests with a reference.
        from ragmeter.metrics.text.entities import entity_evidence  # noqa: PLC0415
        from ragmeter.metrics.text.named_entities import named_entities  # noqa: PLC0415

        answer = sample.reference.answer if sample.reference else None
        wanted = named_entities(answer or "")
        if not wanted:
            return self.undefined_scores("no entity in the reference")
        texts = [context.text for context in sample.contexts or ()]
        chunks = [f"chunk-{number}" for number in range(1, len(texts) + 1)]
        items = entity_evidence(wanted, texts, chunks)
        found = sum(bool(item.verdict) for item in items)
        summary = f"{found} of {number_of(len(wanted), 'entity', 'entities')} in the chunks"
        missing = [item.text or "" for item in items if not item.verdict]
        explanation = f"{summary}; missing: {first_words(missing)}" if missing else summary
        return (
            self.make_score(
                self.name,
                found / len(wanted),
                items=items[:MOST_ITEMS],
                explanation=explanation,
                summary=summary,
            ),
        )


@dataclass(frozen=True)
class LexicalQueryCoverage(ComputedMetric):
    """Do the contexts contain the question's words at all?

        value = distinct content tokens of the question that any context has
                / distinct content tokens of the question

    Range: 0.0 to 1.0, dimensionless.  Weak: AUROC .578 (English) and .794 (Chinese) on RGB.
    Needs: ``question``, ``contexts``.
    Cost: no judge.
    Source: ours.

    Without a value:
        ``missing_input``: no question, or retrieval was not captured.
        ``undefined``: the question has no content token.
    """

    name = "lexical_query_coverage"
    score_names = ("lexical_query_coverage",)
    needs = ("question", "contexts")
    method = "lexical"
    target = "retrieval"
    definition = "3"

    def compute(self, sample: RagSample) -> Sequence[Score]:
        """Find the question's words in the contexts; the evidence is each chunk's share."""
        words = sorted(analyse(sample.question or "").content_set)
        contexts = _contexts(sample)
        value = coverage(words, _words_in(words, contexts))
        if value is None:
            return self.undefined_scores("no content word in the question")
        items = [
            ScoreItem(
                id=f"chunk-{rank}", verdict=None, text=context.text, value=coverage(words, context.content_set)
            )
            for rank, context in enumerate(contexts[:MOST_ITEMS], start=1)
        ]
        held = sum(any(word in context.content_set for context in contexts) for word in words)
        said = f"{held} of the question's {number_of(len(words), 'word')} in the chunks"
        return (self.make_score(self.name, value, items=items, explanation=said, summary=said),)
