"""Numbers computed again by packages that others wrote, on thousands of random inputs in three languages.

What is not installed is left out: `.ci/peers` installs them all.
"""

import math
from random import Random

import pytest

from ragmeter.metrics import (
    AnswerOverlap,
    MatchingStrategy,
    RagSample,
    RankedRetrieval,
    Reference,
    average_precision,
    evaluate,
    ndcg,
    reciprocal_rank,
    token_f1,
    tokens,
)

WORDS = {
    "en": "the lighthouse bridge river was built by Mara Lund in 1931 3.5 metres tall and green".split(),
    "ru": "маяк мост построен в 1931 году Мара Линд ёлка зелёный река высотой 3,5 метра и".split(),
    "zh": list("科尔卡灯塔高二十一米一八八四年点亮的大桥是绿色"),
}


def text(random: Random, language: str, least: int = 0) -> str:
    words = random.choices(WORDS[language], k=random.randint(least, 14))
    return ("" if language == "zh" else " ").join(words)


def rankings(count: int):
    for seed in range(count):
        random = Random(seed)
        ids = [f"d{n}" for n in range(random.randint(1, 12))]
        retrieved = random.sample(ids, random.randint(1, len(ids)))
        golden = random.sample(ids, random.randint(1, len(ids)))
        yield retrieved, golden


def ours(retrieved, golden):
    sample = RagSample(
        question="q",
        contexts=[{"text": "t", "id": one} for one in retrieved],
        reference=Reference(context_ids=golden),
    )
    (scores,) = evaluate([sample], [RankedRetrieval(by="ids")])
    return {name: score.value for name, score in scores.items()}


def test_trec_eval_ranks_alike():
    """map, recip_rank and success of NIST's trec_eval on 2,000 rankings; NDCG where all of R fit in K."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    for retrieved, golden in rankings(2_000):
        evaluator = pytrec_eval.RelevanceEvaluator(
            {"q": dict.fromkeys(golden, 1)}, {"map", "recip_rank", "ndcg", "success"}
        )
        run = {one: float(len(retrieved) - rank) for rank, one in enumerate(retrieved)}
        theirs = evaluator.evaluate({"q": run})["q"]
        got = ours(retrieved, golden)
        assert got["average_precision"] == pytest.approx(theirs["map"])
        assert got["reciprocal_rank"] == pytest.approx(theirs["recip_rank"])
        assert got["hit_rate"] == theirs["success_10"] or len(retrieved) > 10
        # Its ideal ranking has all R relevant items, ours what fits into the K retrieved.
        ideal = sum(1 / math.log2(k + 1) for k in range(1, len(golden) + 1))
        cut = sum(1 / math.log2(k + 1) for k in range(1, min(len(golden), len(retrieved)) + 1))
        assert got["ndcg"] == pytest.approx(theirs["ndcg"] * ideal / cut)


@pytest.mark.timeout(900)  # it compiles itself, for minutes on a busy machine
def test_ranx_ranks_alike():
    """ranx's map, mrr, hit rate and NDCG cut at K on 300 rankings."""
    ranx = pytest.importorskip("ranx")
    for retrieved, golden in rankings(300):
        qrels = ranx.Qrels({"q": dict.fromkeys(golden, 1)})
        run = ranx.Run({"q": {one: float(100 - rank) for rank, one in enumerate(retrieved)}})
        names = ["map", "mrr", "hit_rate", f"ndcg@{len(retrieved)}"]
        theirs = ranx.evaluate(qrels, run, names)
        got = ours(retrieved, golden)
        expected = [theirs[name] for name in names]
        found = [got[n] for n in ("average_precision", "reciprocal_rank", "hit_rate", "ndcg")]
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("language", list(WORDS))
def test_rouge_score_with_our_tokens_overlaps_alike(language):
    """Google's rouge-score gives the same ROUGE-L on 1,000 pairs when it is given our tokens."""
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")

    class Tokenizer:
        def tokenize(self, text):
            return tokens(text)

    scorer = rouge_scorer.RougeScorer(["rougeL"], tokenizer=Tokenizer())
    random = Random(language)
    for _ in range(1_000):
        answer, reference = text(random, language), text(random, language, 1)
        theirs = scorer.score(reference, answer)["rougeL"]
        sample = RagSample(question="q", answer=answer, reference=Reference(answer=reference))
        (scores,) = evaluate([sample], [AnswerOverlap()])
        assert scores["rouge_l"].value == pytest.approx(theirs.fmeasure)
        assert scores["rouge_l"].items[1].value == pytest.approx(theirs.recall)


def longest_common(one: list[str], other: list[str]) -> int:
    row = [0] * (len(other) + 1)
    for a in one:
        before = 0
        for at, b in enumerate(other, start=1):
            before, row[at] = row[at], before + 1 if a == b else max(row[at], row[at - 1])
    return row[-1]


@pytest.mark.parametrize("language", list(WORDS))
def test_ranks_by_text_are_recomputed_by_brute_force(language):
    """Matches by a textbook table, credits by trying every way: 300 requests per language."""
    random = Random(language)

    def best(matching, used=frozenset()):
        if not matching:
            return [()]
        ways = [(0, *rest) for rest in best(matching[1:], used)]
        for item in matching[0]:
            if item not in used:
                ways += [(1, *rest) for rest in best(matching[1:], used | {item})]
        return ways

    for _ in range(300):
        retrieved = [text(random, language) for _ in range(random.randint(0, 5))]
        golden = list({text(random, language, 2): None for _ in range(random.randint(1, 4))})
        matching = [
            [
                at
                for at, wanted in enumerate(golden)
                if longest_common(tokens(wanted), tokens(chunk)) / len(tokens(wanted)) >= 0.4
            ]
            for chunk in retrieved
        ]
        metric = RankedRetrieval(MatchingStrategy.ROUGE_CHUNK_MATCH, threshold=0.4)
        sample = RagSample(question="q", contexts=retrieved, reference=Reference(contexts=golden))
        (scores,) = evaluate([sample], [metric])
        ways = best(matching)
        total = len(golden)
        assert scores["average_precision"].value == pytest.approx(
            max(average_precision(way, total) for way in ways)
        )
        assert scores["ndcg"].value == pytest.approx(max(ndcg(way, total) for way in ways))
        assert scores["reciprocal_rank"].value == max(map(reciprocal_rank, ways))
        assert scores["hit_rate"].value == float(any(map(any, ways)))


@pytest.mark.parametrize("language", list(WORDS))
def test_token_f1_is_recomputed_by_counting(language):
    """Multisets of tokens without articles, 1,000 pairs per language."""
    from collections import Counter

    random = Random(language)
    for _ in range(1_000):
        one, other = (
            Counter(word for word in tokens(text(random, language)) if word not in {"a", "an", "the"})
            for _ in range(2)
        )
        left = " ".join(one.elements())
        right = " ".join(other.elements())
        shared = (one & other).total()
        if not one and not other:
            expected = 1.0
        elif not shared:
            expected = 0.0
        else:
            expected = 2 * shared / (one.total() + other.total())
        assert token_f1(left, right) == pytest.approx(expected)
