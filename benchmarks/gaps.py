"""Detection by the list of knowledge gaps of planted topics, and its false findings.

Traffic is built of XQuAD's 48 articles in three languages: the paragraphs of some articles are removed from
the index, hidden from most searches, or found and yet refused; one answer in ten is wrong everywhere. The
verdicts are those of the free metrics. Then badness is shuffled over the requests, so that there is nothing
to find, and half of all requests are made bad. The last part measures time and memory. Run: ``python
benchmarks/gaps.py DATA_FOLDER``.
"""

from __future__ import annotations

import gzip
import json
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from labelled_data import LANGUAGES, RETRIEVED, Bm25, data_folder, read_json

from ragmeter.metrics import RagSample, VerdictRules, evaluate, sentences
from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.metrics.text import forget_texts
from ragmeter.quality.gaps.chunks import topic_hashes
from ragmeter.quality.gaps.memory import GapMemory, is_bad
from ragmeter.quality.gaps.sample import Asked, rank_of

METRICS = (
    "lexical_groundedness",
    "lexical_context_relevance",
    "refusal",
    "retrieval_health",
    "support",
    "fact_conflict",
)
DRAWS = 4
FRESH = 200
"""The first draw on which diagnoses are measured; their thresholds were set on others."""
ARTICLES = 5
SLIPS = 0.10
HIDDEN = 0.75
REFUSED = 0.80
SHUFFLES = 200
START = 20_000 * 86_400
REFUSALS = {
    "en": "I don't know. The documents do not say anything about this.",
    "ru": "К сожалению, в документах нет информации об этом.",
    "zh": "抱歉，文档中没有相关信息。",
}
Fault = Literal["removed", "hidden", "refused"]
EXPECTED = {"removed": "missing_from_corpus", "hidden": "retriever_misses", "refused": "refuses_although_found"}


class Question(NamedTuple):
    """A question of XQuAD."""

    text: str
    article: int
    paragraph: int
    sentence: str
    """The sentence that answers it."""
    order: tuple[int, ...]
    """All paragraphs, the nearest by BM25 first."""


class Corpus(NamedTuple):
    """XQuAD in one language."""

    language: str
    paragraphs: tuple[str, ...]
    article_of: tuple[int, ...]
    questions: tuple[Question, ...]


class Stream(NamedTuple):
    """Traffic, with its planted faults."""

    requests: tuple[tuple[Asked, bool], ...]
    contexts: tuple[tuple[str, ...], ...]
    article: dict[int, int]
    """The article of the request with a rank."""
    planted: dict[int, Fault]
    """The fault by article."""


def read_corpus(folder: Path, language: str) -> Corpus:
    paragraphs: list[str] = []
    article_of: list[int] = []
    asked: list[tuple[str, int, int, str]] = []
    for number, article in enumerate(read_json(folder, "xquad", f"xquad.{language}.json.gz")["data"]):
        for paragraph in article["paragraphs"]:
            text = paragraph["context"]
            cut = sentences(text)
            for qa in paragraph["qas"]:
                said = qa["answers"][0]["text"]
                sentence = next((one for one in cut if said in one), said)
                asked.append((qa["question"], number, len(paragraphs), sentence))
            paragraphs.append(text)
            article_of.append(number)
    search = Bm25(paragraphs)
    return Corpus(
        language,
        tuple(paragraphs),
        tuple(article_of),
        tuple(Question(*one, tuple(search.ranked(one[0])[:60])) for one in asked),
    )


def plant(corpus: Corpus, chance: random.Random, faults: Sequence[Fault]) -> Stream:
    """Return traffic in which one article each has one of the faults."""
    articles = chance.sample(sorted(set(corpus.article_of)), len(faults))
    planted = dict(zip(articles, faults, strict=True))
    samples: list[RagSample] = []
    for question in corpus.questions:
        fault = planted.get(question.article)
        gone = fault == "removed" or (fault == "hidden" and chance.random() < HIDDEN)
        found = [
            place
            for place in question.order
            if not (gone and corpus.article_of[place] == question.article)
            and planted.get(corpus.article_of[place]) != "removed"
        ][:RETRIEVED]
        wrong = question.paragraph not in found
        refuses = fault == "refused" and not wrong and chance.random() < REFUSED
        slips = chance.random() < SLIPS
        made_up = question.sentence if wrong else chance.choice(corpus.questions).sentence
        if refuses or ((wrong or slips) and chance.random() < 0.5):
            answer = REFUSALS[corpus.language]
        else:
            answer = made_up if wrong or slips else question.sentence
        contexts = [corpus.paragraphs[place] for place in found]
        samples.append(RagSample(question=question.text, contexts=contexts, answer=answer))
    rules = VerdictRules()
    requests: list[tuple[Asked, bool]] = []
    article: dict[int, int] = {}
    measured = evaluate(samples, METRICS)
    for place, (scores, question) in enumerate(zip(measured, corpus.questions, strict=True)):
        verdict = rules.verdict(scores)
        refused = scores["refusal"].value == 1.0
        bad = is_bad(None if verdict is None else verdict.word, refused=refused)
        asked = Asked(
            rank=rank_of(f"{corpus.language}-{place}"),
            at=START + 200.0 * place,
            terms=topic_hashes(question.text),
            question=question.text,
            language=corpus.language,
            refused=refused,
            relevance=scores["lexical_context_relevance"].value,
        )
        article[asked.rank] = question.article
        if bad is not None:
            requests.append((asked, bad))
    texts = tuple(tuple(c.text for c in sample.contexts or ()) for sample in samples)
    return Stream(tuple(requests), texts, article, planted)


def remember(stream: Stream, *, chunks: bool = True) -> GapMemory:
    memory = GapMemory()
    for asked, bad in stream.requests:
        memory.add(asked, bad=bad)
    if chunks:
        for texts in stream.contexts:
            memory.add_chunks(texts)
    return memory


def share(part: int, whole: int) -> str:
    lower, upper = wilson_interval(part / whole, whole) if whole else (0.0, 1.0)
    return f"{part} of {whole} [{lower:.0%}, {upper:.0%}]"


def main_article(ranks: Sequence[int], stream: Stream) -> tuple[int, float, float]:
    """Return the most frequent article among members, its share, and the share of all planted ones."""
    counts = Counter(stream.article[rank] for rank in ranks)
    article, most = min(counts.items(), key=lambda one: (-one[1], one[0]))
    planted = sum(n for other, n in counts.items() if other in stream.planted)
    return article, most / len(ranks), planted / len(ranks)


def measure_finding(corpora: Sequence[Corpus]) -> list[Stream]:
    streams: list[Stream] = []
    found = groups = false = grouped = of_planted = bad = total = 0
    members = own = planted_members = 0.0
    for corpus in corpora:
        here = 0
        for draw in range(DRAWS):
            chance = random.Random(f"{corpus.language}-{draw}")
            stream = plant(corpus, chance, ("removed",) * ARTICLES)
            streams.append(stream)
            seen: set[int] = set()
            gaps = remember(stream).gaps().members.values()
            for ranks in gaps:
                article, pure, planted = main_article(ranks, stream)
                members += len(ranks)
                own += pure * len(ranks)
                planted_members += planted * len(ranks)
                false += planted < 0.5
                if pure >= 0.5 and article in stream.planted:
                    seen.add(article)
                    grouped += sum(stream.article[rank] == article for rank in ranks)
            groups += len(gaps)
            here += len(seen)
            of_planted += sum(one in stream.planted for one in stream.article.values())
            bad += sum(one for _, one in stream.requests)
            total += len(stream.requests)
        found += here
        print(f"  {corpus.language}: {here} of {DRAWS * ARTICLES} topics found")
    print(f"requests that are bad: {share(bad, total)}")
    print(f"planted topics in the first ten groups: {share(found, len(streams) * ARTICLES)}")
    print(f"members that ask about planted topics: {planted_members / members:.3f}")
    print(f"members that ask about their group's topic: {own / members:.3f}")
    print(f"false groups: {share(false, groups)}")
    print(f"planted requests that are in a group of theirs: {grouped / of_planted:.0%}")
    return streams


def measure_chance(streams: Sequence[Stream]) -> None:
    looks = shown = 0
    for stream in streams[::DRAWS]:
        for number in range(SHUFFLES):
            chance = random.Random(number)
            flags = [bad for _, bad in stream.requests]
            chance.shuffle(flags)
            memory = GapMemory()
            for (asked, _), bad in zip(stream.requests, flags, strict=True):
                memory.add(asked, bad=bad)
            looks += 1
            shown += bool(memory.gaps().gaps)
    print(f"shuffled badness: looks with any group: {share(shown, looks)}")
    half = 0
    for number, stream in enumerate(streams):
        chance = random.Random(number)
        memory = GapMemory()
        for asked, bad in stream.requests:
            memory.add(asked, bad=bad or chance.random() < 0.36)
        listed = memory.gaps()
        half += not listed.gaps and listed.why_empty == "too_many_bad"
    print(f"half of all requests bad: says so and lists nothing: {share(half, len(streams))}")


def measure_diagnosis(corpora: Sequence[Corpus]) -> None:
    faults: tuple[Fault, ...] = ("removed", "hidden", "refused") * 3
    said: Counter[tuple[str, str]] = Counter()
    for corpus in corpora:
        for draw in range(FRESH, FRESH + DRAWS):
            stream = plant(corpus, random.Random(f"{corpus.language}-{draw}"), faults)
            listed = remember(stream).gaps()
            for gap in listed.gaps:
                article, pure, _ = main_article(listed.members[gap.id], stream)
                if pure >= 0.5 and article in stream.planted:
                    said[stream.planted[article], gap.diagnosis] += 1
    right = sum(n for (fault, word), n in said.items() if EXPECTED[fault] == word)
    for (fault, word), n in sorted(said.items()):
        print(f"  {fault}: {word} {n}")
    missing = sum(n for (_, word), n in said.items() if word == "missing_from_corpus")
    print(f"diagnosis right: {share(right, said.total())}")
    print(f"missing_from_corpus is right: {share(said['removed', 'missing_from_corpus'], missing)}")


def measure_merging(streams: Sequence[Stream]) -> None:
    same = 0
    for number, stream in enumerate(streams):
        parts = [GapMemory() for _ in range(4)]
        order = list(range(len(stream.requests)))
        random.Random(number).shuffle(order)
        for place in order:
            asked, bad = stream.requests[place]
            parts[place % 4].add(asked, bad=bad)
        for place, texts in enumerate(stream.contexts):
            parts[place % 4].add_chunks(texts)
        for other in parts[1:]:
            parts[0].merge(other)
        same += parts[0].gaps() == remember(stream).gaps()
    print(f"four processes merged, any order, identical list: {share(same, len(streams))}")
    stays = windows = 0
    for stream in streams:
        third = len(stream.requests) // 4
        early = remember(stream._replace(requests=stream.requests[: 3 * third]), chunks=False)
        late = remember(stream._replace(requests=stream.requests[third:]), chunks=False)
        now = {name: set(ranks) for name, ranks in late.gaps().members.items()}
        for name, members in early.gaps().members.items():
            ranks = set(members)
            like = [key for key, other in now.items() if len(ranks & other) * 3 >= min(len(ranks), len(other))]
            if like:
                windows += 1
                stays += name in like
    print(f"same id in two windows that share two thirds: {share(stays, windows)}")


def measure_scattered(folder: Path) -> None:
    """Print the number of groups of bad answers, by people's labels, that have no topic in common."""
    for name in ("clapnq", "mtrag_un"):
        memory = GapMemory()
        with gzip.open(folder / "labels" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        if name == "clapnq":  # half of them are bad there: of those, every third
            rows = [row for place, row in enumerate(rows) if not row["bad"] or place % 3 == 0]
        for place, row in enumerate(rows):
            terms = topic_hashes(row["question"])
            memory.add(Asked(rank_of(f"{name}-{place}"), START, terms, row["question"]), bad=bool(row["bad"]))
        listed = memory.gaps()
        print(
            f"{name}: {listed.n_bad} of {listed.n_requests} bad, groups: {len(listed.gaps)} {listed.why_empty}"
        )


def measure_cost(stream: Stream) -> None:
    memory = GapMemory()
    began = time.process_time()
    for asked, bad in stream.requests:
        memory.add(asked, bad=bad)
    print(f"keeping a request: {(time.process_time() - began) / len(stream.requests) * 1e6:.1f} µs")
    flat = [text for texts in stream.contexts for text in texts]
    memory.add_chunks(flat)
    began = time.process_time()
    memory.add_chunks(flat)
    print(f"a chunk that is known: {(time.process_time() - began) / len(flat) * 1e6:.1f} µs")
    began = time.process_time()
    memory.gaps()
    print(f"a look at {len(stream.requests)}: {(time.process_time() - began) * 1e3:.0f} ms of CPU")
    full: list[GapMemory] = []
    forget_texts()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    full.append(GapMemory())
    for asked, bad in full_memory(stream):
        full[0].add(asked, bad=bad)
    for number in range(2_500):
        full[0].add_chunks([f"{number}. {flat[number % len(flat)]}"])
    forget_texts()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    began = time.process_time()
    full[0].gaps()
    print(f"a look at a full memory: {(time.process_time() - began) * 1e3:.0f} ms of CPU")
    print(f"a full memory, 14 days, with questions and 2,000 chunks: {held / 1e6:.1f} MB")


def full_memory(stream: Stream) -> Iterator[tuple[Asked, bool]]:
    """Yield 14 days of 2,500 requests, half of them bad."""
    for day in range(14):
        for number in range(2_500):
            asked, _ = stream.requests[number % len(stream.requests)]
            is_bad_one = number % 3 == 0
            copied = f"{asked.question} " if is_bad_one else None
            yield (
                asked._replace(
                    rank=rank_of(f"{day}-{number}"), at=START + day * 86_400.0, question=copied,
                    terms=topic_hashes(asked.question or ""),
                ),
                is_bad_one,
            )  # fmt: skip


def main() -> None:
    folder = data_folder()
    if folder is None:
        return
    corpora = [read_corpus(folder, language) for language in LANGUAGES]
    streams = measure_finding(corpora)
    measure_diagnosis(corpora)
    measure_merging(streams)
    measure_cost(streams[0])
    measure_chance(streams)
    measure_scattered(folder)


if __name__ == "__main__":
    main()
