"""The commands of each package in the benchmark of deterministic metrics.

Imported by ``deterministic_metrics.py`` in the worker processes; each function imports one package and
returns its worker's commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from texts import sample_fields, text

STRATEGIES = ["exact_chunk_match", "exact_sentence_match", "rouge_chunk_match", "rouge_sentence_match"]


def timed(jobs: list[Callable[[], Any]]) -> dict[str, Any]:
    """Run each job once; return the CPU milliseconds of each, and the results."""
    spent, values = [], []
    for job in jobs:
        before = time.thread_time_ns()
        values.append(job())
        spent.append((time.thread_time_ns() - before) / 1e6)
    return {"ms": spent, "values": values}


def ours() -> dict[str, Callable[..., Any]]:
    from texts import sample

    from ragmeter.metrics import (
        IdPrecisionRecall,
        LexicalContextPrecision,
        LexicalContextRecall,
        PrecisionRecallF1,
        RagSample,
        RankedRetrieval,
        Reference,
        tokens,
    )
    from ragmeter.metrics.text.overlap import rouge_l as rouge_l_of_tokens

    def with_ids(seed: int, size: int) -> Any:
        fields = ids(seed, size)
        contexts = [{"text": "", "id": one} for one in fields["retrieved"]]
        return RagSample(question="", contexts=contexts, reference=Reference(context_ids=fields["expected"]))

    def values(metric: Any, given: Any) -> list[float | None]:
        return [score.value for score in metric.compute(given)]

    def precision_recall(strategy: str, backend: str = "unicode", **size: Any) -> Any:
        options: dict[str, Any] = {"backend": backend} if "rouge" in strategy else {}
        if backend != "unicode":
            options["zero_division"] = 0.0
            if "sentence" in strategy:
                from nltk.tokenize import sent_tokenize

                options["split_sentences"] = sent_tokenize
        metric = PrecisionRecallF1(strategy=strategy, **options)
        samples = [sample(**one) for one in sizes(**size)]
        return timed([lambda s=s: values(metric, s) for s in samples])

    def lexical(**size: Any) -> Any:
        metrics = LexicalContextPrecision(), LexicalContextRecall()
        samples = [sample(**one) for one in sizes(**size)]
        return timed([lambda s=s: [values(m, s)[0] for m in metrics] for s in samples])

    def rouge_l(words: int, seeds: list[int]) -> Any:
        pairs = [pair(words, seed) for seed in seeds]
        return timed([lambda p=p: list(rouge_l_of_tokens(tokens(p[1]), tokens(p[0]))) for p in pairs])

    def ranks(size: int, seeds: list[int]) -> Any:
        metric = RankedRetrieval(strategy="exact_chunk_match", by="ids")
        samples = [with_ids(seed, size) for seed in seeds]
        return timed([lambda s=s: values(metric, s) for s in samples])

    def by_id(size: int, seeds: list[int]) -> Any:
        metric = IdPrecisionRecall()
        samples = [with_ids(seed, size) for seed in seeds]
        return timed([lambda s=s: values(metric, s) for s in samples])

    return {
        "precision_recall": precision_recall,
        "lexical": lexical,
        "rouge_l": rouge_l,
        "ranks": ranks,
        "by_id": by_id,
    }


def continuous_eval() -> dict[str, Callable[..., Any]]:
    from continuous_eval.metrics.retrieval import PrecisionRecallF1
    from continuous_eval.metrics.retrieval.matching_strategy import (
        ExactChunkMatch,
        ExactSentenceMatch,
        RougeChunkMatch,
        RougeSentenceMatch,
    )

    kinds = dict(
        zip(STRATEGIES, (ExactChunkMatch, ExactSentenceMatch, RougeChunkMatch, RougeSentenceMatch), strict=True)
    )

    def precision_recall(strategy: str, **size: Any) -> Any:
        metric = PrecisionRecallF1(kinds[strategy]())

        def measure(one: dict[str, Any]) -> list[float]:
            found = metric.compute(one["contexts"], one["reference_contexts"])
            return [found[f"context_{name}"] for name in ("precision", "recall", "f1")]

        given = [sample_fields(**one) for one in sizes(**size)]
        return timed([lambda one=one: measure(one) for one in given])

    return {"precision_recall": precision_recall}


def rouge_score() -> dict[str, Callable[..., Any]]:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], use_stemmer=False)

    def rouge_l(words: int, seeds: list[int]) -> Any:
        pairs = [pair(words, seed) for seed in seeds]
        return timed([lambda p=p: list(scorer.score(p[1], p[0])["rougeL"]) for p in pairs])

    return {"rouge_l": rouge_l}


def llama_index() -> dict[str, Callable[..., Any]]:
    from llama_index.core.evaluation.retrieval.metrics import MRR, NDCG, AveragePrecision, HitRate

    metrics = AveragePrecision(), MRR(), NDCG(), HitRate()

    def ranks(size: int, seeds: list[int]) -> Any:
        given = [ids(seed, size) for seed in seeds]
        return timed(
            [
                lambda g=g: [
                    metric.compute(expected_ids=g["expected"], retrieved_ids=g["retrieved"]).score
                    for metric in metrics
                ]
                for g in given
            ]
        )

    return {"ranks": ranks}


def ragas() -> dict[str, Callable[..., Any]]:
    import asyncio

    from ragas import SingleTurnSample
    from ragas.metrics import (
        IDBasedContextPrecision,
        IDBasedContextRecall,
        NonLLMContextPrecisionWithReference,
        NonLLMContextRecall,
    )

    loop = asyncio.new_event_loop()

    def score(metrics: tuple[Any, ...], given: Any) -> list[float]:
        return [loop.run_until_complete(metric.single_turn_ascore(given)) for metric in metrics]

    def by_id(size: int, seeds: list[int]) -> Any:
        metrics = IDBasedContextPrecision(), IDBasedContextRecall()
        given = [ids(seed, size) for seed in seeds]
        samples = [
            SingleTurnSample(retrieved_context_ids=g["retrieved"], reference_context_ids=g["expected"])
            for g in given
        ]
        return timed([lambda s=s: score(metrics, s) for s in samples])

    def lexical(**size: Any) -> Any:
        metrics = NonLLMContextPrecisionWithReference(), NonLLMContextRecall()
        samples = [
            SingleTurnSample(retrieved_contexts=one["contexts"], reference_contexts=one["reference_contexts"])
            for one in (sample_fields(**one) for one in sizes(**size))
        ]
        return timed([lambda s=s: score(metrics, s) for s in samples])

    return {"by_id": by_id, "lexical": lexical}


def sizes(contexts: int, words: int, references: int, seeds: list[int]) -> list[dict[str, int]]:
    return [{"contexts": contexts, "words": words, "references": references, "seed": seed} for seed in seeds]


def pair(words: int, seed: int) -> tuple[str, str]:
    """Return a text and another that shares half of it, lower case as rouge-score would make it."""
    whole = text(words, seed)
    half = " ".join(whole.split()[: words // 2])
    return whole, half + " " + text(words - words // 2, seed + 5000)


def ids(seed: int, size: int) -> dict[str, list[str]]:
    """Return `size` retrieved ids, a third of them expected, and as many expected ones missed."""
    retrieved = [f"doc-{seed}-{n}" for n in range(size)]
    return {
        "retrieved": retrieved,
        "expected": retrieved[seed % 3 :: 3] + [f"other-{seed}-{n}" for n in range(size // 3)],
    }


PREPARE: dict[str, Callable[[], dict[str, Callable[..., Any]]]] = {
    "ours": ours,
    "continuous-eval": continuous_eval,
    "rouge-score": rouge_score,
    "llama-index": llama_index,
    "ragas": ragas,
}
