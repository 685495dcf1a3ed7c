"""Metrics without a judge, beside packages that compute the same: time by size, and equality of results.

``python benchmarks/deterministic_metrics.py``. PrecisionRecallF1 beside continuous-eval, ROUGE-L beside
rouge-score, ranks by id beside llama-index, ids and non-LLM context metrics beside ragas. Every sample is a
new text, so that no cache helps; each package runs in its own environment; time is CPU. The exponent
describes the growth of cost with size.
"""

from __future__ import annotations

from typing import Any

from deterministic_packages import PREPARE, STRATEGIES
from environments import child_environment
from measure import Row, Settings, growth, median, number, run, spread, start

NAME = "deterministic_metrics"


ENVS = {
    "continuous-eval": "continuous-eval",
    "rouge-score": "continuous-eval",
    "llama-index": "llama-index",
    "ragas": "ragas",
}


def prepare(variant: str, options: dict[str, Any]) -> Any:
    del options
    return PREPARE[variant]()


class Bench:
    """Ragmeter's worker and the peers', and a seed that never repeats."""

    def __init__(self, settings: Settings) -> None:
        self.quick = settings.quick
        pythons = {peer: settings.python_of(env, peer) for peer, env in ENVS.items()}
        there = {peer: python for peer, python in pythons.items() if python is not None}
        self.workers, self.absent = start(__file__, {"ours": None, **there}, ["ours"])
        self._seed = 1
        self.has_punkt = "NLTK_DATA" in child_environment()

    def seeds(self, count: int) -> list[int]:
        first = self._seed
        self._seed += count
        return list(range(first, first + count))

    def compare(
        self, command: str, peer: str, own: int, theirs: int, repeats: int, **given: Any
    ) -> tuple[list[float], list[float], int, int]:
        """Return CPU ms per sample, ragmeter's and the peer's by repeat; equal samples, compared samples."""
        mine, other, alike, compared = [], [], 0, 0
        extra = {k: given.pop(k) for k in ("backend",) if k in given}
        for _ in range(repeats):
            seeds = self.seeds(own)
            a = self.workers["ours"].ask(command, seeds=seeds, **given, **extra)
            mine.append(median(a["ms"]))
            if peer in self.workers:
                b = self.workers[peer].ask(command, seeds=seeds[:theirs], **given)
                other.append(median(b["ms"]))
                for x, y in zip(a["values"], b["values"], strict=False):
                    compared += 1
                    alike += all(abs((p or 0.0) - (q or 0.0)) < 1e-9 for p, q in zip(x, y, strict=True))
        return mine, other, alike, compared

    def row(
        self,
        what: str,
        peer: str,
        result: tuple[list[float], list[float], int, int],
        *,
        at_least: float | None = None,
        same: bool = True,
    ) -> Row:
        mine, other, alike, compared = result
        there = median(other) if other else None
        ratio = there / median(mine) if there else None
        note = f"equal results on {alike} of {compared} samples" if same and compared else None
        if peer in self.absent:
            note = f"{peer} could not run: {self.absent[peer]}"
        target = f"≥ {number(at_least)} ×" if at_least else None
        met = ratio >= at_least if at_least and ratio else None
        apart = spread(mine) + (f"; peer {spread(other)}" if other else "")
        return Row(
            NAME, what, "ms", median(mine), there, peer if other else None, ratio, target, met, apart, note
        )


def headline(bench: Bench) -> list[Row]:
    """Return the rows of PrecisionRecallF1, 10 x 3 x 500 words: by default, and as continuous-eval counts."""
    words = 60 if bench.quick else 500
    size = {"contexts": 10, "references": 3, "words": words}
    repeats, peer = (1 if bench.quick else 3), "continuous-eval"
    rows = []
    for strategy in STRATEGIES:
        rouge, by_sentence = "rouge" in strategy, "sentence" in strategy
        what = f"PrecisionRecallF1 {strategy}, 10 × 3 × {words} words"
        theirs = 1 if rouge else 5
        result = bench.compare("precision_recall", peer, 5, theirs, repeats, strategy=strategy, **size)
        # Textbook ROUGE-L and ragmeter's sentences are other definitions; equality is shown below.
        same = strategy == "exact_chunk_match"
        rows.append(
            bench.row(what, peer, result, at_least=500 if rouge and not bench.quick else None, same=same)
        )
        if same or (by_sentence and not bench.has_punkt):
            continue
        result = bench.compare(
            "precision_recall", peer, 5, theirs, repeats, strategy=strategy, backend="rouge_compat", **size
        )
        how = "rouge_compat" if rouge else ""
        how += (" and " if how and by_sentence else "") + ("nltk's sentences" if by_sentence else "")
        rows.append(bench.row(f"{what}, by {how}", peer, result))
    return rows


def by_size(bench: Bench) -> list[Row]:
    """Return the rows of time by words and by chunks, and its growth."""
    rows = []
    all_words = [5, 50] if bench.quick else [5, 20, 50, 100, 200, 500]
    all_chunks = [1, 5] if bench.quick else [1, 5, 10, 20, 50]
    for strategy in ("rouge_chunk_match", "rouge_sentence_match"):
        for label, points in (("words", all_words), ("chunks", all_chunks)):
            mine, other = [], []
            for point in points:
                size = {
                    "contexts": 10 if label == "words" else point,
                    "references": 3,
                    "words": point if label == "words" else 100,
                }
                theirs = 1 if size["contexts"] * size["words"] <= 2000 else 0
                peer = "continuous-eval" if theirs else ""
                result = bench.compare(
                    "precision_recall", peer, 7, theirs, 1 if bench.quick else 3, strategy=strategy, **size
                )
                what = f"PrecisionRecallF1 {strategy}, {size['contexts']} × 3 × {size['words']} words"
                rows.append(bench.row(what, peer, result, same=False))
                mine.append(median(result[0]))
                other.append(median(result[1]) if result[1] else None)
            known = [(p, o) for p, o in zip(points, other, strict=True) if o is not None]
            ours = growth(points, mine)
            theirs_growth = growth(*zip(*known, strict=True)) if len(known) > 1 else None
            rows.append(
                Row(NAME, f"exponent of cost over {label}, {strategy}", "", ours, theirs_growth,
                    "continuous-eval" if theirs_growth else None, None, "≤ 1.2", ours <= 1.2)
            )  # fmt: skip
    return rows


def others(bench: Bench) -> list[Row]:
    rows = []
    repeats = 1 if bench.quick else 5
    for words in (20,) if bench.quick else (5, 50, 500):
        result = bench.compare("rouge_l", "rouge-score", 10, 10, repeats, words=words)
        rows.append(bench.row(f"ROUGE-L of two texts of {words} words", "rouge-score", result))
    for size in (5,) if bench.quick else (5, 50):
        result = bench.compare("ranks", "llama-index", 50, 50, repeats, size=size)
        rows.append(bench.row(f"AP, RR, NDCG, hit rate by id, {size} retrieved", "llama-index", result))
        result = bench.compare("by_id", "ragas", 50, 50, repeats, size=size)
        rows.append(bench.row(f"precision and recall by id, {size} retrieved", "ragas", result))
    size = {"contexts": 5, "references": 3, "words": 20 if bench.quick else 200}
    result = bench.compare("lexical", "ragas", 10, 10, repeats, **size)
    rows.append(
        bench.row(f"non-LLM context precision and recall, 5 × 3 × {size['words']} words (other definition)",
                  "ragas", result, same=False)
    )  # fmt: skip
    return rows


def benchmark(settings: Settings) -> list[Row]:
    bench = Bench(settings)
    try:
        return headline(bench) + by_size(bench) + others(bench)
    finally:
        for worker in bench.workers.values():
            worker.close()


if __name__ == "__main__":
    run(benchmark, prepare)
