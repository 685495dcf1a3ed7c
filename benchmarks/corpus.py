"""Detection by the list of chunks of faults planted among XQuAD's paragraphs, and its cost.

A number of a copied paragraph is changed, of some a third of the other sentences, too; others are plain copies.
Three chunks go wrong in 70 % of the requests that they lead, three hubs are retrieved everywhere.
Run: ``python benchmarks/corpus.py DATA_FOLDER``.
"""

from __future__ import annotations

import random
import re
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

from labelled_data import LANGUAGES, data_folder, read_json

from ragmeter.metrics import LexicalContextUtilization, RagSample, RetrievedContext, sentences
from ragmeter.metrics.text import forget_texts
from ragmeter.quality.corpus.conflicts import find_conflicts
from ragmeter.quality.corpus.memory import CorpusMemory, used_places
from ragmeter.quality.gaps.chunks import read_chunk
from ragmeter.quality.gaps.memory import GapMemory
from ragmeter.quality.gaps.sample import rank_of

PLANTED = 70
POISON = 0.7
SLIPS = 0.1
HUBS = 3
_NUMBER = re.compile(r"(?<![\w.,])[1-9]\d*(?![\w.,]*\d)(?! \d)")


def change(text: str, chance: random.Random, others: Sequence[str]) -> str | None:
    """Return a paragraph with a number of one nine-word sentence changed, and perhaps sentences of `others`."""
    cut = sentences(text)
    places = []
    for place, one in enumerate(cut):
        if len(one.split()) >= 9 or (not one.isascii() and len(one) >= 14):
            places += [(place, found) for found in _NUMBER.finditer(one)]
    if not places:
        return None
    place, found = chance.choice(places)
    told = cut[place]
    cut[place] = f"{told[: found.start()]}{int(found[0]) + chance.randint(1, 9)}{told[found.end() :]}"
    if others:
        cut = [
            one if at == place or chance.random() < 2 / 3 else chance.choice(others)
            for at, one in enumerate(cut)
        ]
    return " ".join(cut)


def measure_conflicts(texts: Sequence[str], language: str) -> None:
    chance = random.Random(language)
    pool = [one for text in texts for one in sentences(text)]
    clean = [read_chunk(text) for text in texts]
    print(f"{language}: {len(texts)} clean chunks, pairs listed: {len(find_conflicts(clean))}")
    for name, others in (("one number changed", ()), ("and a third of the rest", pool), ("copies", None)):
        order = list(texts)
        chance.shuffle(order)
        made: list[tuple[str, str]] = []
        for text in order:
            changed = f"{text} " if others is None else change(text, chance, others)
            if changed is not None and len(made) < PLANTED:
                made.append((text, changed))
        found = {
            frozenset(one.ranks) for one in find_conflicts([*clean, *(read_chunk(one) for _, one in made)])
        }
        hit = sum(frozenset(map(rank_of, pair)) in found for pair in made)
        print(f"  {name}: {hit} of {len(made)} found, other pairs {len(found) - hit}")


def measure_traffic(questions: Sequence[tuple[str, str, int]], texts: Sequence[str], language: str) -> None:
    """Print whether poisoned chunks and hubs are listed; each question is sent six times."""
    chance = random.Random(language)
    metric = LexicalContextUtilization()
    poisoned = set(chance.sample(range(len(texts)), 3))
    words = [word for text in texts[:40] for word in (text if language == "zh" else text.split())]
    hubs = [" ".join(chance.sample(words, min(60, len(words)))) for _ in range(HUBS)]
    memory = CorpusMemory()
    place = {rank_of(text): at for at, text in enumerate(texts)}
    chunks = GapMemory()
    for n in range(6 * len(questions)):
        _, answer, right = questions[n % len(questions)]
        contexts = [texts[right], texts[chance.randrange(len(texts))]]
        if chance.random() < 0.15:
            contexts.append(hubs[n % HUBS])
        [score] = metric.compute(RagSample(question="-", contexts=contexts, answer=answer))
        bad = chance.random() < (POISON if right in poisoned else SLIPS)
        memory.add(
            [RetrievedContext(text=one) for one in contexts], at=float(n), bad=bad, used=used_places(score)
        )
    view = memory.view(chunks.chunks())
    starts = {" ".join(texts[at][:80].split()) for at in poisoned}
    bad = {one.quote for one in view.bad}
    unused = {one.quote for one in view.unused}
    tops = {" ".join(one[:80].split()) for one in hubs}
    seen = sum(1 for one in place)
    print(
        f"  poisoned chunks: {len(bad & starts)} of 3 listed, others {len(bad - starts)}; hubs: "
        f"{len(unused & tops)} of {HUBS} never used, others of {seen}: {len(unused - tops)}"
    )


def measure_counting() -> None:
    """Print cost, error and size of the counts."""
    chance = random.Random(1)
    # Zipf 1.05 over a million ids, by the inverse of its integral.
    top = 1_000_000.0**-0.05
    parts = [CorpusMemory() for _ in range(4)]
    true: dict[int, int] = {}
    requests = []
    for _ in range(100_000):
        chosen = {int((1 - chance.random() * (1 - top)) ** (-20)) for _ in range(4)}
        for n in chosen:
            true[n] = true.get(n, 0) + 1
        requests.append([RetrievedContext(text=f"chunk {n}", id=str(n)) for n in sorted(chosen)])
    for at, contexts in enumerate(requests):
        parts[at % 4].add(contexts, at=float(at), bad=False, used=())
    known = [[RetrievedContext(text=f"{n} {m} {'word ' * 150}") for m in range(4)] for n in range(500)]
    memory = CorpusMemory()
    for _ in range(2):
        began = time.process_time()
        for contexts in known:
            memory.add(contexts, at=0.0, bad=False, used=())
        spent = (time.process_time() - began) / len(known) * 1e6
    for other in parts[1:]:
        parts[0].merge(other)
    counted = {one.id: one for one in parts[0].counts.all()}
    best = sorted(true, key=lambda n: -true[n])
    error = max(abs(counted[str(n)].n - true[n]) / true[n] for n in best[:200])
    print(f"counting a request of four chunks that are known: {spent:.1f} µs")
    print(
        f"top 500 kept: {sum(str(n) in counted for n in best[:500])}; largest error among the top 200: {error:.1%}"
    )


def measure_memory(texts: Sequence[str]) -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    memory, chunks = CorpusMemory(), GapMemory()
    for n in range(6_000):
        text = f"{n}. {texts[n % len(texts)]}"
        memory.add([RetrievedContext(text=text, id=f"document-{n}")], at=float(n), bad=False, used=(0,))
        if n < 2_500:
            chunks.add_chunks([text])
    forget_texts()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    began = time.process_time()
    memory.view(chunks.chunks())
    print(f"full: {held / 1e6:.1f} MB; a look {(time.process_time() - began) * 1e3:.0f} ms of CPU")
    new = [f"new {text}" for text in texts]
    began = time.process_time()
    GapMemory().add_chunks(new)
    print(f"a chunk never seen before: {(time.process_time() - began) / len(new) * 1e3:.2f} ms, beside scoring")


def read_xquad(folder: Path, language: str) -> tuple[list[str], list[tuple[str, str, int]]]:
    texts: list[str] = []
    questions: list[tuple[str, str, int]] = []
    for article in read_json(folder, "xquad", f"xquad.{language}.json.gz")["data"]:
        for paragraph in article["paragraphs"]:
            for one in paragraph["qas"]:
                start = one["answers"][0]["answer_start"]
                at = 0
                sentence = ""
                for sentence in sentences(paragraph["context"]):
                    at = paragraph["context"].find(sentence, at) + len(sentence)
                    if at >= start:
                        break
                questions.append((one["question"], sentence, len(texts)))
            texts.append(paragraph["context"])
    return texts, questions


def main() -> None:
    folder = data_folder()
    if folder is None:
        return
    every: list[str] = []
    for language in LANGUAGES:
        texts, questions = read_xquad(folder, language)
        measure_conflicts(texts, language)
        measure_traffic(questions, texts, language)
        every += texts
    measure_counting()
    measure_memory(every)


if __name__ == "__main__":
    main()
