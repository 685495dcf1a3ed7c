"""Judged metrics beside ragas, deepeval and trulens: calls, prompt tokens and wall time per sample.

``python benchmarks/judged_metrics.py``. Each package judges the same request (five chunks of about a hundred
tokens) by the same local judge, which takes 200 ms a call and answers every package validly. Calls and tokens
are counted at the judge. "Cold" has judged nothing before; "known reference" has judged another request with
the same reference; "same request" has judged this exact request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from fake_judge import FakeJudge
from measure import Row, Settings, WorkerError, absent_rows, median, number, reason, run, spread, start

NAME = "judged_metrics"
LATENCY_S = 0.2

QUESTION = "What is the capital of Brazil and when was it established?"
ANSWER = "The capital of Brazil is Brasília, and it was established in 1960."
REFERENCE = "Brasília, the capital of Brazil, was inaugurated on 21 April 1960."
CHUNK = (
    "Brasília is the federal capital of Brazil and the seat of government of the Federal District. "
    "It was founded by President Juscelino Kubitschek on 21 April 1960 to replace Rio de Janeiro as "
    "the national capital. The city was planned by Lúcio Costa, its main buildings were designed by "
    "Oscar Niemeyer, and its gardens by Roberto Burle Marx. It stands on the Brazilian Highlands in "
    "the centre-west of the country, and report {n} counts it among the cities with the highest "
    "income per head in Latin America."
)

FOUR = ["context_precision", "context_recall", "context_entity_recall", "context_relevancy"]
THREE = ["context_precision", "context_recall", "context_relevancy"]


def request(seed: int) -> dict[str, Any]:
    """Return one request; another seed has other chunks and the same reference."""
    return {
        "question": QUESTION,
        "contexts": [CHUNK.format(n=seed * 10 + n) for n in range(5)],
        "answer": ANSWER,
        "reference": REFERENCE,
    }


def ours(url: str) -> Callable[..., float]:
    from ragmeter.metrics import RagSample, Reference, aevaluate
    from ragmeter.metrics.judge import OpenAIJudge

    loop = asyncio.new_event_loop()
    judges: dict[str, Any] = {}

    def measure(names: list[str], seed: int, cold: bool) -> float:
        key = "+".join(names)
        if cold or key not in judges:
            if key in judges:
                loop.run_until_complete(judges.pop(key).aclose())
            judges[key] = OpenAIJudge(model="fake", base_url=url, api_key="none")
        given = request(seed)
        sample = RagSample(
            question=given["question"],
            contexts=given["contexts"],
            answer=given["answer"],
            reference=Reference(answer=given["reference"]),
        )
        before = time.perf_counter()
        (scores,) = loop.run_until_complete(aevaluate([sample], names, judges[key]))
        spent = time.perf_counter() - before
        failed = {name: score.status for name, score in scores.items() if score.value is None}
        if failed:
            raise RuntimeError(f"no value: {failed}")
        return spent

    return measure


def ragas(url: str) -> Callable[..., float]:
    from langchain_openai import ChatOpenAI
    from ragas import SingleTurnSample
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import (
        ContextEntityRecall,
        ContextRelevance,
        Faithfulness,
        LLMContextPrecisionWithReference,
        LLMContextRecall,
    )

    llm = LangchainLLMWrapper(ChatOpenAI(model="gpt-4o-mini", base_url=url, api_key="none"))
    kinds = {
        "context_precision": LLMContextPrecisionWithReference,
        "context_recall": LLMContextRecall,
        "context_entity_recall": ContextEntityRecall,
        "context_relevancy": ContextRelevance,
        "faithfulness": Faithfulness,
    }
    loop = asyncio.new_event_loop()

    def measure(names: list[str], seed: int, cold: bool) -> float:
        given = request(seed)
        sample = SingleTurnSample(
            user_input=given["question"],
            retrieved_contexts=given["contexts"],
            response=given["answer"],
            reference=given["reference"],
        )

        async def all_at_once() -> None:
            await asyncio.gather(*(kinds[n](llm=llm).single_turn_ascore(sample) for n in names))

        before = time.perf_counter()
        loop.run_until_complete(all_at_once())
        return time.perf_counter() - before

    return measure


def deepeval(url: str) -> Callable[..., float]:
    from deepeval.metrics import (
        AnswerRelevancyMetric,
        ContextualPrecisionMetric,
        ContextualRecallMetric,
        ContextualRelevancyMetric,
        FaithfulnessMetric,
    )
    from deepeval.models import GPTModel
    from deepeval.test_case import LLMTestCase

    model = GPTModel(model="gpt-4o-mini", base_url=url, api_key="none")
    kinds = {
        "context_precision": ContextualPrecisionMetric,
        "context_recall": ContextualRecallMetric,
        "context_relevancy": ContextualRelevancyMetric,
        "faithfulness": FaithfulnessMetric,
        "answer_relevancy": AnswerRelevancyMetric,
    }
    loop = asyncio.new_event_loop()

    def measure(names: list[str], seed: int, cold: bool) -> float:
        given = request(seed)
        case = LLMTestCase(
            input=given["question"],
            actual_output=given["answer"],
            expected_output=given["reference"],
            retrieval_context=given["contexts"],
        )

        async def all_at_once() -> None:
            metrics = [kinds[name](model=model) for name in names]
            await asyncio.gather(*(m.a_measure(case, _show_indicator=False) for m in metrics))

        before = time.perf_counter()
        loop.run_until_complete(all_at_once())
        return time.perf_counter() - before

    return measure


def trulens(url: str) -> Callable[..., float]:
    from concurrent.futures import ThreadPoolExecutor

    from trulens.providers.openai import OpenAI

    provider = OpenAI(model_engine="gpt-4o-mini", base_url=url, api_key="none")
    pool = ThreadPoolExecutor(16)

    def measure(names: list[str], seed: int, cold: bool) -> float:
        given = request(seed)
        jobs: list[Callable[[], Any]] = []
        if "context_relevancy" in names:
            jobs += [lambda c=c: provider.context_relevance(QUESTION, c) for c in given["contexts"]]
        if "faithfulness" in names:
            whole = "\n".join(given["contexts"])
            jobs.append(lambda: provider.groundedness_measure_with_cot_reasons(whole, given["answer"]))
        if "answer_relevancy" in names:
            jobs.append(lambda: provider.relevance(QUESTION, given["answer"]))
        before = time.perf_counter()
        for done in [pool.submit(job) for job in jobs]:
            done.result()
        return time.perf_counter() - before

    return measure


PREPARE = {"ours": ours, "ragas": ragas, "deepeval": deepeval, "trulens": trulens}


def prepare(variant: str, options: dict[str, Any]) -> Any:
    return {"measure": PREPARE[variant](options["url"])}


class Bench:
    """The judge, ragmeter's worker and the peers'."""

    def __init__(self, settings: Settings, judge: FakeJudge) -> None:
        self.judge = judge
        self.repeats = 1 if settings.quick else 3
        self.rows: list[Row] = []
        pythons = {peer: settings.python_of(peer, peer) for peer in PREPARE if peer != "ours"}
        there = {peer: python for peer, python in pythons.items() if python is not None}
        self.workers, self.absent = start(__file__, {"ours": None, **there}, ["ours"], {"url": judge.url})
        for peer in there.keys() - self.absent.keys():
            self.judged_by_peer(peer, ["context_relevancy"])  # a first call loads much

    def judged(self, who: str, names: list[str], state: str) -> dict[str, Any]:
        """Return median calls, tokens and seconds of judging one request in that state."""
        calls, tokens, schemas, seconds = [], [], [], []
        for repeat in range(self.repeats):
            seed = 10 + repeat * 10
            first = {"cold": None, "known reference": seed + 1, "same request": seed}[state]
            if first is not None:
                self.workers[who].ask("measure", names=names, seed=first, cold=True)
            self.judge.get("reset")
            spent = self.workers[who].ask("measure", names=names, seed=seed, cold=first is None)
            stats = self.judge.get("stats")
            calls.append(stats["calls"])
            tokens.append(stats["tokens"])
            schemas.append(stats["schema_tokens"])
            seconds.append(spent)
        return {
            "calls": median(calls),
            "tokens": median(tokens),
            "schema": median(schemas),
            "ms": [s * 1000 for s in seconds],
        }

    def judged_by_peer(self, peer: str, names: list[str]) -> dict[str, Any] | None:
        """Return the same of a peer; None if it fails, which removes it from later comparisons."""
        try:
            return self.judged(peer, names, "cold")
        except WorkerError as error:
            self.absent[peer] = reason(error)
            self.workers.pop(peer).close()
            return None

    def compare(
        self,
        label: str,
        names: list[str],
        peers: dict[str, list[str]],
        state: str = "cold",
        *,
        most_calls: int | None = None,
        most_tokens: float | None = None,
        aimed_at: str | None = None,
    ) -> None:
        """Add rows for calls, tokens and wall time of `names`, beside each of `peers`."""
        mine = self.judged("ours", names, state)
        what = f"{label}, {state}"
        there: dict[str, list[str]] = {p: own for p, own in peers.items() if p in self.workers}
        for peer, their_names in (there or {"": []}).items():
            theirs = self.judged_by_peer(peer, their_names) if peer else None
            for key, unit in (("calls", "calls"), ("tokens", "tokens"), ("ms", "ms")):
                own = median(mine["ms"]) if key == "ms" else mine[key]
                their = None if theirs is None else median(theirs["ms"]) if key == "ms" else theirs[key]
                ratio = own / their if their else None
                target, met = None, None
                if key == "calls" and most_calls is not None:
                    target, met = f"≤ {most_calls}", own <= most_calls
                if key == "tokens" and most_tokens is not None and peer == aimed_at:
                    target = f"≤ 1/{number(1 / most_tokens)}"
                    met = None if ratio is None else ratio <= most_tokens
                name = {"calls": "judge calls", "tokens": "prompt tokens", "ms": "wall time at 200 ms a call"}[
                    key
                ]
                apart = spread(mine["ms"]) if key == "ms" else None
                note = None
                if key == "tokens":
                    note = f"besides, in schemas sent along: {number(mine['schema'])}"
                    note += f"; peer {number(theirs['schema'])}" if theirs else ""
                beside = peer if theirs else None
                self.rows.append(
                    Row(NAME, f"{what}: {name}", unit, own, their, beside, ratio, target, met, apart, note)
                )  # fmt: skip


def benchmark(settings: Settings) -> list[Row]:
    with FakeJudge(0.01 if settings.quick else LATENCY_S) as judge:
        bench = Bench(settings, judge)
        try:
            four = "precision + recall + entity recall + relevancy"
            fused = ["fused_context_metrics", "context_entity_recall"]
            third = {"most_tokens": 1 / 3, "aimed_at": "ragas"}
            eighth = {"most_tokens": 1 / 8, "aimed_at": "ragas"}
            bench.compare(four, FOUR, {"ragas": FOUR}, "cold", most_calls=4, **third)
            bench.compare(four, FOUR, {"ragas": FOUR}, "known reference", most_calls=3, **third)
            bench.compare(four, FOUR, {"ragas": FOUR}, "same request", most_calls=0)
            bench.compare(f"{four}, fused", fused, {"ragas": FOUR}, "cold", most_calls=1, **eighth)
            bench.compare(f"{four}, fused", fused, {"ragas": FOUR}, "known reference", most_calls=1, **eighth)
            bench.compare("precision + recall + relevancy", THREE, {"deepeval": THREE})
            one = ["faithfulness"]
            bench.compare("faithfulness", one, {"ragas": one, "deepeval": one, "trulens": one})
            one = ["answer_relevancy"]
            bench.compare("answer relevancy", one, {"deepeval": one, "trulens": one})
            one = ["context_relevancy"]
            bench.compare("context relevancy", one, {"ragas": one, "trulens": one})
            return bench.rows + absent_rows(NAME, bench.absent)
        finally:
            for worker in bench.workers.values():
                worker.close()


if __name__ == "__main__":
    run(benchmark, prepare)
