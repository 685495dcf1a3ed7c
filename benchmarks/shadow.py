"""Coverage of a shadow retriever's interval under repeated looks, and wrong winners named in words.

Streams of paired differences are drawn from four worlds whose mean is known, and every interval is read
60 times; a stream counts as wrong if one of these looks misses the mean. With labelled data (see
`labelled_data.py`) XQuAD's paragraphs are found by BM25 and by worse or better lists, in shuffled orders of
requests, and the comparison's word is compared with the truth.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from labelled_data import LANGUAGES, Bm25, read_json
from measure import Row, Settings, held_to, run
from numpy.typing import NDArray

from ragmeter.metrics import RagSample, RetrievedContext
from ragmeter.quality.paired import PairedSums
from ragmeter.quality.retriever_comparison import RetrieverComparison

NAME = "shadow"
_row = partial(held_to, NAME)
Numbers = NDArray[np.float64]
WORLDS = ("uniform, sd .3", "85 % no difference, else ± .6", "3 % lose .65", "true +.05")
LENGTH, LOOKS = 3_000, 60
FOUND = 3
"""Number of chunks in a list."""
FAULTS = {"one hit in ten replaced": 0.1, "three hits in ten replaced": 0.3}


def draw(world: str, streams: int, chance: np.random.Generator) -> tuple[float, Numbers]:
    """Return the mean of a world, and the differences of `streams` streams."""
    size = (streams, LENGTH)
    if world == WORLDS[0]:
        half = 0.3 * 3**0.5
        return 0.0, chance.uniform(-half, half, size)
    if world == WORLDS[1]:
        moved = np.where(chance.random(size) < 0.5, -0.6, 0.6)
        return 0.0, np.where(chance.random(size) < 0.85, 0.0, moved)
    if world == WORLDS[2]:
        return -0.0195, np.where(chance.random(size) < 0.03, -0.65, 0.0)
    return 0.05, np.clip(chance.normal(0.05, 0.2, size), -0.9, 1.0)


def stream_rows(streams: int) -> list[Row]:
    """Return the rows of streams whose interval contains the truth at every look."""
    rows = []
    places = [(look + 1) * LENGTH // LOOKS for look in range(LOOKS)]
    for seed, world in enumerate(WORLDS):
        truth, values = draw(world, streams, np.random.default_rng(seed))
        totals, squares = np.cumsum(values, axis=1), np.cumsum(values * values, axis=1)
        held, width = 0, 0.0
        for stream in range(streams):
            ends = [
                PairedSums(n, float(totals[stream, n - 1]), float(squares[stream, n - 1])).interval()
                for n in places
            ]
            held += all(lower <= truth <= upper for lower, upper in ends)
            width += ends[-1][1] - ends[-1][0]
        note = f"{streams} streams of {LENGTH}, seed {seed}; width at the end {width / streams:.3f}"
        rows.append(
            _row(f"never wrong in {LOOKS} looks: {world}", held / streams, 0.975, note=note, least=True)
        )  # fmt: skip
    sums, began = PairedSums(LENGTH, 40.0, 90.0), time.process_time()
    for _ in range(200):
        sums.interval()
    spent = (time.process_time() - began) / 200 * 1e3
    rows.append(_row("an interval, when it is looked at", spent, None, unit="ms of CPU"))
    return rows


def read_lists(folder: Path, language: str, most: int) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Return XQuAD's questions with BM25's results, and all paragraphs."""
    articles = read_json(folder, "xquad", f"xquad.{language}.json.gz")["data"]
    paragraphs = [one for article in articles for one in article["paragraphs"]]
    texts = [one["context"] for one in paragraphs]
    search = Bm25(texts)
    questions = [qa["question"] for one in paragraphs for qa in one["qas"]]
    chosen = random.Random(language).sample(questions, min(most, len(questions)))
    return [(one, [texts[at] for at in search.ranked(one)[:FOUND]]) for one in chosen], texts


def replaced(found: Sequence[str], texts: Sequence[str], share: float, seed: str) -> list[str]:
    """Return a list in which a share of the hits are other paragraphs."""
    chance = random.Random(seed)
    return [chance.choice(texts) if chance.random() < share else one for one in found]


def word_after(asked: Sequence[tuple[str, list[str], list[str]]], chance: random.Random) -> tuple[str, int]:
    """Return the word on the second lists in an order of the requests, and after how many requests."""
    compared = RetrieverComparison("other")
    for n, (question, mine, theirs) in enumerate(chance.sample(list(asked), len(asked)), 1):
        sample = RagSample(question=question, contexts=mine)
        compared.add_by_words(sample, [RetrievedContext(text=one) for one in theirs])
        if n % 50 == 0 and compared.result().word != "nothing seen":
            return compared.result().word, n
    return "nothing seen", len(asked)


def order_rows(folder: Path, orders: int, most: int) -> list[Row]:
    """Return the rows of words on lists that are worse, better, or the same in another order."""
    said: dict[str, Counter[str]] = {"worse": Counter(), "better": Counter(), "reversed": Counter()}
    needed: list[int] = []
    for language in LANGUAGES:
        lists, texts = read_lists(folder, language, most)
        cells = [("reversed", [(one, found, found[::-1]) for one, found in lists])]
        for share in FAULTS.values():
            noisy = [replaced(found, texts, share, one) for one, found in lists]
            both = [(*one, other) for one, other in zip(lists, noisy, strict=True)]
            cells += [("worse", both), ("better", [(one, other, found) for one, found, other in both])]
        for truth, asked in cells:
            for number in range(orders):
                word, n = word_after(asked, random.Random(number))
                said[truth][word] += 1
                needed += [n] if word == "worse" else []
    notes = {truth: ", ".join(f"{word} {n}" for word, n in counts.items()) for truth, counts in said.items()}
    wrong = said["better"]["worse"] + said["reversed"]["worse"]
    tried = said["better"].total() + said["reversed"].total()
    right = said["worse"]
    what = "orders of requests in which words call a list worse"
    middle = f"; after {sorted(needed)[len(needed) // 2]} requests (median)" if needed else ""
    return [
        _row(f"{what} that is better or the same", wrong, 0, unit="orders", note=f"of {tried}: better lists {notes['better']}; reversed {notes['reversed']}"),
        _row(f"{what} in which {' or '.join(FAULTS)}", right["worse"] / right.total(), None, unit="share", note=f"of {right.total()}: {notes['worse']}{middle}"),
    ]  # fmt: skip


def benchmark(settings: Settings) -> list[Row]:
    rows = stream_rows(20 if settings.quick else 400)
    folder = os.environ.get("RAGMETER_BENCH_DATA")
    if folder and not settings.quick:
        rows += order_rows(Path(folder), 10, 600)
    return rows


if __name__ == "__main__":
    run(benchmark)
