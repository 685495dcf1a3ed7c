"""Cost per request of each view that needs many requests, beside scoring.

Gaps, chunks, conversations, turns that ask again, a shadow retriever and a look before the answer, each with
requests that the free metrics have scored. Everything except the look runs on threads of the exporters;
``mcp`` reads the server's API and costs a request nothing. Looks use XQuAD, with labelled data (see
`labelled_data.py`); generated texts are too simple for it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from labelled_data import LANGUAGES, read_json
from measure import Row, Settings, held_to, quantile, run
from texts import text

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import RagSample
from ragmeter.quality.corpus.memory import USE, CorpusMemory, used_places
from ragmeter.quality.gaps.memory import GapMemory
from ragmeter.quality.retriever_comparison import RetrieverComparison
from ragmeter.quality.turns import ConversationExporter

NAME = "traffic_views"
_row = partial(held_to, NAME)
CHUNKS, WORDS = 5, 100
CORPUS = 200
"""Number of different chunks of requests, few enough that nearly all of them are known."""


def requests(many: int) -> list[RagSample]:
    """Return requests of five chunks of a hundred words, from a corpus."""
    seeds = count(100_000)
    corpus = [text(WORDS, number) for number in range(CORPUS)]
    return [
        RagSample(
            question=text(12, next(seeds)),
            contexts=[corpus[(7 * number + place) % CORPUS] for place in range(CHUNKS)],
            answer=text(40, next(seeds)),
        )
        for number in range(many)
    ]


def score(samples: Sequence[RagSample]) -> list[ScoredRun]:
    """Return them in the form that exporters receive, five to a conversation."""
    kept = InMemoryExporter()
    with RagMeter(exporters=[kept]) as meter:
        for number, sample in enumerate(samples):
            with meter.request(sample.question, session_id=f"talk-{number // 5}") as request:
                request.retrieved(sample.contexts or ())
                request.answered(sample.answer or "")
            if number % 200 == 0:
                meter.flush(60)
        meter.flush(60)
    return list(kept.results)


def spent_us(act: Callable[[ScoredRun], object], scored: Sequence[ScoredRun], *, known: bool = False) -> float:
    """Return microseconds of CPU for each."""
    if known:  # a first time, so that its chunks are known
        for one in scored:
            act(one)
    began = time.thread_time()
    for one in scored:
        act(one)
    return (time.thread_time() - began) / len(scored) * 1e6


def look_rows(folder: Path, language: str) -> Iterator[Row]:
    """Yield the rows of a look's cost at a question of XQuAD, its paragraph and four others, new and known."""
    articles = read_json(folder, "xquad", f"xquad.{language}.json.gz")["data"]
    paragraphs = [one for article in articles for one in article["paragraphs"]]
    chance = random.Random(language)
    for kind in ("new", "known"):
        found: list[float] = []
        with RagMeter(exporters=[]) as meter:
            for paragraph in paragraphs:
                for qa in paragraph["qas"]:
                    others = [one["context"] for one in chance.sample(paragraphs, CHUNKS - 1)]
                    mark = f" {len(found)}" if kind == "new" else ""
                    contexts = [f"{one}{mark}" for one in (paragraph["context"], *others)]
                    began = time.thread_time()
                    meter.look(qa["question"], contexts)
                    found.append((time.thread_time() - began) * 1e3)
        looks = found[len(paragraphs) :]
        what, note = (f"look: five {kind} paragraphs of XQuAD, {language}", f"n {len(looks)}, in the caller")
        for name, share, limit in (("median", 0.5, None), ("p99", 0.99, 2.0)):
            value = quantile(looks, share)
            yield _row(f"{what}, {name}", value, limit, unit="ms of CPU", note=note)


def benchmark(settings: Settings) -> list[Row]:
    size = 60 if settings.quick else 2_000
    scored = score(requests(size))
    gaps, chunks = GapMemory(), CorpusMemory()
    turns, asked = ConversationExporter(), ConversationExporter(asked_again=True)
    compared = RetrieverComparison("other")

    def add_chunks(one: ScoredRun) -> None:
        chunks.add(
            one.sample.contexts or (),
            at=one.run.started_ns / 1e9, bad=False, used=used_places(one.scores.get(USE)),
        )  # fmt: skip

    def compare(one: ScoredRun) -> None:
        compared.add_by_words(one.sample, one.sample.contexts or ())

    phrases = spent_us(lambda one: asked.export([one]), scored, known=True)
    with RagMeter(exporters=[]) as meter:
        shadow = meter.shadow(lambda _: [], rate=0.0001)
        chosen = spent_us(lambda one: shadow.export([one]), scored)
    folder = None if settings.quick else os.environ.get("RAGMETER_BENCH_DATA")
    looks = [row for one in LANGUAGES if folder for row in look_rows(Path(folder), one)]
    return [
        *looks,
        _row("gaps: a request with known chunks", spent_us(gaps.add_run, scored, known=True), None, unit="µs of CPU", note="its question is cut"),
        _row("chunks: a request with known chunks", spent_us(add_chunks, scored, known=True), None, unit="µs of CPU"),
        _row("conversations: a turn", spent_us(lambda one: turns.export([one]), scored), None, unit="µs of CPU"),
        _row("conversations: a turn, with phrases that ask again", phrases, None, unit="µs of CPU"),
        _row("shadow: a request that is not chosen", chosen, None, unit="µs of CPU", note="on the exporters' thread"),
        _row("shadow: a comparison by words", spent_us(compare, scored[: size // 4]), None, unit="µs of CPU", note="on a thread of its own"),
    ]  # fmt: skip


if __name__ == "__main__":
    run(benchmark)
