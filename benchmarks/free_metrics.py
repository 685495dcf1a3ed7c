"""How fast are the free metrics?  Samples and pairs a second, beside rouge-score in the same run.

    python benchmarks/free_metrics.py

Texts are made of a Zipf-like vocabulary with a full stop every 18 words or so, from a fixed seed.
Each figure is the best of several rounds, in CPU time of one core.  "fresh" samples share no text with any
other; "warm" ones retrieve from a corpus seen before, as live traffic mostly does.  The peer's
time is measured on a few pairs and multiplied; it is Google's rouge-score 0.1.2 (pure Python), and
the package `rouge`, which continuous-eval matches with, where it is installed.
"""

import argparse
import itertools
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec

from ragmeter.metrics import (
    MatchingStrategy,
    PrecisionRecallF1,
    RagSample,
    Reference,
    default_metrics,
)
from ragmeter.metrics.metric import ComputedMetric, compute_metric
from ragmeter.metrics.text import forget_texts

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Author:
    """Writes texts of given length from one vocabulary."""

    def __init__(self, seed: int, vocabulary: int = 4000) -> None:
        self.random = random.Random(seed)
        words = {
            "".join(self.random.choices(LETTERS, k=self.random.randint(2, 10)))
            for _ in range(vocabulary)
        }
        self.words = sorted(words)
        self.random.shuffle(self.words)
        self.weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(self.words))))

    def text(self, length: int) -> str:
        """Return `length` words in sentences."""
        drawn = self.random.choices(self.words, cum_weights=self.weights, k=length)
        sentences, start = [], 0
        while start < length:
            end = start + self.random.randint(12, 24)
            sentences.append(" ".join(drawn[start:end]).capitalize() + ".")
            start = end
        return " ".join(sentences)

    def near(self, text: str, kept: float) -> str:
        """Return `text` with some words exchanged."""
        return " ".join(
            word if self.random.random() < kept or "." in word else self.random.choice(self.words)
            for word in text.split()
        )


def seconds(function: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def samples(author: Author, count: int, corpus: Sequence[str] | None) -> list[RagSample]:
    made = []
    for _ in range(count):
        contexts = (
            author.random.sample(corpus, 5) if corpus else [author.text(200) for _ in range(5)]
        )
        golden = [author.near(contexts[1], 0.8)]
        made.append(
            RagSample(
                question=author.text(12),
                contexts=[{"text": text, "id": str(n)} for n, text in enumerate(contexts)],
                answer=author.near(" ".join(contexts[2].split()[:60]), 0.8),
                reference=Reference(
                    answer=author.near(" ".join(contexts[0].split()[:60]), 0.8),
                    contexts=golden,
                    context_ids=["0", "7"],
                ),
            )
        )
    return made


def without(sample: RagSample, *, golden: bool, answer: bool) -> RagSample:
    """Return `sample` with less of a reference."""
    if not answer:
        return sample.model_copy(update={"reference": None})
    if golden or sample.reference is None:
        return sample
    return sample.model_copy(update={"reference": Reference(answer=sample.reference.answer)})


def throughput(author: Author, count: int, rounds: int) -> None:
    metrics = [metric for metric in default_metrics() if isinstance(metric, ComputedMetric)]
    corpus = [author.text(200) for _ in range(200)]
    print(f"all {len(metrics)} free metrics, question, answer and 5 contexts of 200 words")
    cases = {
        "no reference (live traffic)": {"golden": False, "answer": False},
        "reference answer of 60 words": {"golden": False, "answer": True},
        "the same, and 200 golden words and ids": {"golden": True, "answer": True},
    }
    for label, wanted in cases.items():
        rates = []
        for texts in (None, corpus):
            best = float("inf")
            for _ in range(rounds):
                batch = [without(sample, **wanted) for sample in samples(author, count, texts)]
                if texts is None:
                    forget_texts()
                best = min(best, seconds(partial(compute_all, batch, metrics), 1))
            rates.append(count / best)
        print(f"  {label:40}: {rates[0]:8,.0f} samples/s fresh, {rates[1]:8,.0f} warm")


def peers(retrieved: str, golden: str) -> dict[str, float]:
    """Return seconds per pair of each peer that is installed."""
    from rouge_score.rouge_scorer import RougeScorer

    google = RougeScorer(["rougeL"])
    found = {"rouge-score": seconds(lambda: google.score(golden, retrieved), 3)}
    if find_spec("rouge"):
        from rouge import Rouge

        pltrdy = Rouge(metrics=["rouge-l"])
        found["rouge"] = seconds(lambda: pltrdy.get_scores(retrieved, golden, ignore_empty=True), 2)
    return found


def compute_fresh(metric: PrecisionRecallF1, sample: RagSample) -> None:
    forget_texts()
    metric.compute(sample)


def compute_all(batch: Sequence[RagSample], metrics: Sequence[ComputedMetric]) -> None:
    """Do what the meter does: compute, and keep nothing."""
    for sample in batch:
        for metric in metrics:
            compute_metric(metric, sample)


def matching(author: Author, rounds: int) -> None:
    for kind, kept in (("unrelated", None), ("near (70 % of the words kept)", 0.7)):
        golden = [author.text(500) for _ in range(3)]
        retrieved = [
            author.text(500) if kept is None else author.near(golden[n % 3], kept)
            for n in range(10)
        ]
        sample = RagSample(question="q", contexts=retrieved, reference=Reference(contexts=golden))
        peer = peers(retrieved[0], golden[0])
        print(f"\nPrecisionRecallF1, 10 x 3 chunks of 500 words, {kind}")
        for name, each in peer.items():
            print(f"  {name}, 30 pairs (one measured, times 30): {30 * each * 1e3:10,.1f} ms")
        for backend in ("unicode", "rouge_compat"):
            for strategy in (
                MatchingStrategy.ROUGE_CHUNK_MATCH,
                MatchingStrategy.ROUGE_SENTENCE_MATCH,
            ):
                metric = PrecisionRecallF1(strategy, backend=backend)

                spent = seconds(partial(compute_fresh, metric, sample), rounds)
                ratios = ", ".join(
                    f"{30 * each / spent:,.0f} x {name}" for name, each in peer.items()
                )
                print(
                    f"  {backend:12} {strategy.name:20}: {spent * 1e3:8.2f} ms "
                    f"= {30 / spent:7,.0f} chunk pairs/s = {ratios}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    author = Author(seed=0)
    throughput(author, chosen.samples, chosen.rounds)
    matching(author, chosen.rounds)


if __name__ == "__main__":
    main()
