"""What is remembered of texts is bounded by the bytes that it takes up, in every script."""

import gc
import random
import tracemalloc

import pytest

from ragmeter.metrics import FactConflict, RagSample, Reference
from ragmeter.metrics.protocol import compute_metric
from ragmeter.metrics.registry import default_metrics
from ragmeter.metrics.text import analyse, analysis, limit_texts
from ragmeter.metrics.text.han_words import WORDS
from ragmeter.metrics.text.number_words import _SPELLED, _spelling_pattern

LIMIT = 300_000
ENGLISH = "the harbour museum opened twelve rooms after a long winter and kept its old engine".split()
RUSSIAN = "музей порта открыл новые залы после долгой зимы и сохранил старую паровую машину".split()
PARTS = {"en": (ENGLISH, " ", ". "), "ru": (RUSSIAN, " ", ". "), "zh": (sorted(WORDS), "", "。")}


def text(language, source, words):
    parts, between, stop = PARTS[language]
    return stop.join(
        between.join(f"{source.choice(parts)}{source.choice(parts)}" for _ in range(8))
        for _ in range(words // 8)
    )


@pytest.mark.parametrize("language", ["en", pytest.param("ru", marks=pytest.mark.slow), "zh"])
def test_analyses_take_no_more_bytes_than_the_bound_says(language, monkeypatch):
    monkeypatch.setattr(analysis, "_memory", analysis._Memory(LIMIT))
    source = random.Random(7)
    metrics = default_metrics()
    size = {"en": 60, "ru": 60, "zh": 100}[language]

    def score():
        chunks = [text(language, source, size) for _ in range(5)]
        answer = text(language, source, 16)
        reference = Reference(answer=text(language, source, 16), contexts=chunks[:2])
        asked = text(language, source, 8)
        sample = RagSample(question=asked, contexts=chunks, answer=answer, reference=reference)
        for metric in metrics:
            compute_metric(metric, sample)

    score()  # rules and stems are loaded once, and are not the texts'
    analysis.forget_texts()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(6):
            score()
        gc.collect()
        full = tracemalloc.get_traced_memory()[0]
        analysis._memory.clear()
        gc.collect()
        held = full - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert LIMIT / 8 < held <= LIMIT


def test_an_answers_numbers_are_not_remembered_one_by_one():
    numbers = [
        f"The harbour has {number} boats and {number % 90 + 10} engines." for number in range(20_000, 20_120)
    ]
    facts = FactConflict()
    for sentence in numbers:
        facts.compute(RagSample(question="", contexts=["The harbour has boats and engines."], answer=sentence))

    assert _spelling_pattern.cache_info().currsize <= len(_SPELLED)


@pytest.mark.parametrize(("limit", "known"), [((), False), ((40,), True)])
def test_a_server_remembers_fewer_texts_than_an_application(limit, known, monkeypatch):
    monkeypatch.setattr(analysis, "_memory", analysis._Memory(1))
    limit_texts(*limit)

    first = analyse("a" * 300_000)
    for letter in "bc":
        analyse(letter * 300_000)

    assert (analyse("a" * 300_000) is first) == known
