"""Texts and samples of a given size, the same in every process and every run.

Benchmarks call it for documents, questions and whole samples. Sentences are made of common words
with a few names and years, lengths vary as in prose, and nothing is random between runs.
"""

from __future__ import annotations

import random
from typing import Any

_NAMES = "Berlin Lisbon Tokyo Nairobi Oslo Curie Turing Lovelace Kepler Noether Danube Everest".split()
_WORDS = (
    "the of a to in that was it for on as with by at from this which were are been have had its after "
    "city river school engine market winter council bridge report method system harbour museum letter "
    "people company century language station village garden history science music winter surface island "
    "built found moved opened wrote measured joined carried began reached followed produced described "
    "large early small northern public common second local several main new old long high first late"
).split()


def text(words: int, seed: int) -> str:
    """Return prose of exactly `words` words, in sentences of 8 to 18 words."""
    source = random.Random(seed)
    out: list[str] = []
    while len(out) < words:
        length = min(source.randint(8, 18), words - len(out))
        sentence = [source.choice(_WORDS) for _ in range(length)]
        if length > 4:
            sentence[2] = source.choice(_NAMES)
            sentence[-2] = str(source.randint(1800, 2020))
        sentence[0] = sentence[0].capitalize()
        sentence[-1] += "."
        out += sentence
    return " ".join(out)


def chinese(characters: int, seed: int) -> str:
    """Return Chinese of exactly `characters` characters: everyday words in sentences, some with a year."""
    from ragmeter.metrics.text.han_words import PLACES, WORDS

    source = random.Random(seed)
    words, places = sorted(WORDS), sorted(PLACES)
    out = ""
    while len(out) < characters:
        clause = [source.choice(words) for _ in range(source.randint(4, 9))]
        clause[1] = source.choice(places)
        if source.random() < 0.3:
            clause[2] = f"{source.randint(1800, 2020)}年"
        out += "的".join(["".join(clause[:3]), "".join(clause[3:])]) + source.choice("，。。")
    return out[: characters - 1] + "。"


def chinese_sample(contexts: int, characters: int, seed: int) -> Any:
    """Return a request without a reference, whose answer of 80 characters is half a chunk's and half its own."""
    from ragmeter.metrics import RagSample

    chunks = [chinese(characters, seed * 1000 + number) for number in range(contexts)]
    return RagSample(
        question=f"{chinese(16, seed * 1000 + 700)[:-1]}是什么？",
        contexts=chunks,
        answer=chunks[0][:40] + chinese(40, seed * 1000 + 900),
    )


def sample_fields(contexts: int = 5, words: int = 200, references: int = 3, seed: int = 0) -> dict[str, Any]:
    """Return the fields of one request, as plain data that suits every package.

    Every reference context shares about half its sentences with the retrieved context of the same number, so
    that matching finds and misses some.
    """
    retrieved = [text(words, seed * 1000 + number) for number in range(contexts)]
    golden = []
    for number in range(references):
        if number >= contexts:
            golden.append(text(words, seed * 1000 + 500 + number))
            continue
        sentences = retrieved[number].split(". ")
        half = ". ".join(sentences[: max(1, len(sentences) // 2)]).rstrip(".") + "."
        rest = words - len(half.split())
        golden.append(half + (" " + text(rest, seed * 1000 + 700 + number) if rest > 0 else ""))
    first = retrieved[0].split(". ") if retrieved else [text(20, seed)]
    return {
        "question": f"What was built in {_NAMES[seed % len(_NAMES)]} in the early century and by which council?",
        "contexts": retrieved,
        "answer": first[0].rstrip(".") + ". " + text(25, seed * 1000 + 900),
        "reference_answer": first[-1].rstrip(".") + ". " + text(20, seed * 1000 + 950),
        "reference_contexts": golden,
    }


def sample(contexts: int = 5, words: int = 200, references: int = 3, seed: int = 0) -> Any:
    """Return the same as a `RagSample` with a full reference."""
    from ragmeter.metrics import RagSample, Reference

    fields = sample_fields(contexts, words, references, seed)
    return RagSample(
        question=fields["question"],
        contexts=fields["contexts"],
        answer=fields["answer"],
        reference=Reference(answer=fields["reference_answer"], contexts=fields["reference_contexts"]),
    )
