"""The corpus as traffic sees it: contradictions, chunks that go badly or unused, stale ones, and any order of merging."""

import itertools
import random
from datetime import datetime, timezone
from hashlib import sha256

import pytest

from ragmeter import RagMeter
from ragmeter.metrics import ConfigurationError, RagSample, RetrievedContext
from ragmeter.quality.corpus.conflicts import find_conflicts
from ragmeter.quality.corpus.memory import CorpusMemory, as_seconds
from ragmeter.quality.gaps.chunks import read_chunk
from ragmeter.quality.gaps.memory import GapMemory

DAY = 86_400.0
RETURNS = "Our shop takes parcels back. Customers may return unused goods within {} days of delivery. Refunds go to the card."
CASES = {
    "en": (RETURNS.format(30), RETURNS.format(14), ("30", "14")),
    "thousands": (RETURNS.format("1,000"), RETURNS.format("1100"), ("1000", "1100")),
    "month": (
        "The yearly inspection of all lifts takes place in March. It is done by the city.",
        "The yearly inspection of all lifts takes place in October. It is done by the city.",
        ("month 3", "month 10"),
    ),
    "ru": (
        "Мы принимаем посылки. Вернуть товар без следов носки можно в течение 30 дней после покупки.",
        "Мы принимаем посылки. Вернуть товар без следов носки можно в течение 14 дней после покупки.",
        ("30", "14"),
    ),
    "ru month": (
        "Ежегодный осмотр всех лифтов в доме проводится 5 марта. Его делает город.",
        "Ежегодный осмотр всех лифтов в доме проводится 5 мая. Его делает город.",
        ("month 3", "month 5"),
    ),
    "zh": (
        "本店接受退货。顾客可以在收到商品后30天内退回未使用的商品。",
        "本店接受退货。顾客可以在收到商品后14天内退回未使用的商品。",
        ("30", "14"),
    ),
    "zh numerals": (
        "本店接受退货。顾客可以在收到商品后三十天内退回未使用的商品。",
        "本店接受退货。顾客可以在收到商品后十四天内退回未使用的商品。",
        ("30", "14"),
    ),
    "words": (RETURNS.format("thirty"), RETURNS.format("sixty"), ("30", "60")),
    "ru words": (
        "Мы принимаем посылки. Вернуть товар без следов носки можно не позднее чем через две недели.",
        "Мы принимаем посылки. Вернуть товар без следов носки можно не позднее чем через три недели.",
        ("2", "3"),
    ),
    "zh percent": (
        "本店接受退货。退回的商品将收取商品价格的百分之五作为手续费。",
        "本店接受退货。退回的商品将收取商品价格的百分之七作为手续费。",
        ("5", "7"),
    ),
    "zh month": (
        "本市所有电梯的年度检查在三月进行，由市政府负责。",
        "本市所有电梯的年度检查在10月进行，由市政府负责。",
        ("3", "10"),
    ),
    "one word more": (RETURNS.format(30), RETURNS.format("now 14"), ("30", "14")),
}
SILENT = {
    "a copy": (RETURNS.format(30), "Copy. " + RETURNS.format(30)),
    "written otherwise": (RETURNS.format("1,000"), RETURNS.format("1 000")),
    "words and digits": (RETURNS.format("thirty"), RETURNS.format(30)),
    "zeros": (RETURNS.format("3.50"), RETURNS.format("3,5")),
    "footnotes": (RETURNS.format("30[1]"), RETURNS.format("30[2]")),
    "items of lists": ("1. " + RETURNS.format(30), "2. " + RETURNS.format(30)),
    "steps": ("Step 1: " + RETURNS.format(30), "2 Step 2: " + RETURNS.format(30)),
    "items without a stop": ("1 " + RETURNS.format(30), "2 " + RETURNS.format(30)),
    "another order": (
        "Customers may return 14 unused parcels or else 30 opened parcels within the same season.",
        "Customers may return 30 unused parcels or else 14 opened parcels within the same season.",
    ),
    "names with digits": (
        "The airliner A380 needs a longer runway than most others.  It has two decks in 2005.",
        "The airliner A350 needs a longer runway than most others.  It has two decks in 2005.",
    ),
}


def _conflicts(*texts):
    return find_conflicts(map(read_chunk, texts))


@pytest.mark.parametrize("case", CASES)
def test_the_same_sentence_with_another_figure_is_a_conflict(case):
    one, other, figures = CASES[case]

    for given in ((one, other), (other, one)):
        [conflict] = _conflicts(*given, "Something else, with 12 words about the opening of schools.")
        assert sorted(conflict.figures) == sorted(figures)
        assert {text.rstrip() in one or text.rstrip() in other for text in conflict.texts} == {True}


@pytest.mark.parametrize("case", SILENT)
def test_no_contradiction_is_listed(case):
    assert _conflicts(*SILENT[case]) == []


def test_a_contradiction_is_found_among_many_sentences_of_the_same_characters():
    one, other, figures = CASES["zh"]
    chance = random.Random(1)
    common = sorted({*one} - {*"30。顾"})
    others = [
        "".join(chance.sample(common, 14)) + chr(0x5000 + 9 * n) * 2 + chr(0x6000 + 7 * n) + f"有{n}个。"
        for n in range(300)
    ]
    [conflict] = _conflicts(one, *others, other.replace("可以", "现在可以"))
    assert sorted(conflict.figures) == sorted(figures)


def test_a_series_is_no_contradiction_and_overlapping_chunks_are_no_series():
    series = [RETURNS.format(days) for days in (10, 20, 30)]
    assert _conflicts(*series) == []
    overlapping = "More of it. " + series[0]
    assert len(_conflicts(series[0], overlapping, series[1])) == 2


def _memory(requests, most=None):
    memory = CorpusMemory(most)
    for at, (texts, bad, used) in enumerate(requests):
        contexts = [RetrievedContext(text=text, id=text[:7]) for text in texts]
        memory.add(contexts, at=at * 60.0, bad=bad, used=used)
    return memory


def _requests(n_requests=400):
    """Requests of 40 chunks: number 7 leads to bad answers, number 9 is never used."""
    chance = random.Random(5)
    for n in range(n_requests):
        first, second = n % 40, chance.randrange(40)
        bad = chance.random() < (0.8 if first == 7 else 0.1)
        used = {place for place, chunk in enumerate((first, second)) if chunk != 9}
        texts = [f"chunk {chunk} says something of its own." for chunk in (first, second)]
        yield texts, bad, used


def test_chunks_that_serve_bad_answers_or_none_are_listed():
    texts = GapMemory()
    view = _memory(_requests(1200)).view(texts.chunks())

    assert [one.quote.split()[1] for one in view.bad] == ["7"]
    assert [one.quote.split()[1] for one in view.unused] == ["9"]
    assert view.bad[0].id == "chunk 7"
    assert (view.n_requests, view.n_chunks, view.undated, view.unverified) == (1200, 40, 1.0, 1.0)
    assert "no date for 100 %" in str(view)
    assert "went badly where this chunk stood first: chunk 7" in str(view)


def test_badness_by_chance_is_not_listed():
    listed = 0
    for seed in range(50):
        chance = random.Random(seed)
        requests = [([f"chunk {n % 30} of a text."], chance.random() < 0.2, set()) for n in range(300)]
        listed += bool(_memory(requests).view(GapMemory().chunks()).bad)
    assert listed <= 5


def test_processes_merge_in_any_order_into_what_one_would_have_counted():
    requests = list(_requests())
    whole = _memory(requests)
    views = set()
    for order in itertools.permutations(range(4)):
        parts = [CorpusMemory() for _ in range(4)]
        for at, (texts, bad, used) in enumerate(requests):
            contexts = [RetrievedContext(text=text, id=text[:7]) for text in texts]
            parts[at % 4].add(contexts, at=at * 60.0, bad=bad, used=used)
        first = parts[order[0]]
        for other in order[1:]:
            first.merge(parts[other])
        views.add(first.view(GapMemory().chunks(), 0.0))
    assert views == {whole.view(GapMemory().chunks(), 0.0)}


def test_the_table_is_bounded_and_the_most_frequent_stay():
    chance = random.Random(3)
    memory = CorpusMemory(200)
    true = [0] * 2000
    for at in range(20_000):
        n = min(1999, int(chance.paretovariate(1.05)) - 1)
        true[n] += 1
        memory.add([RetrievedContext(text=f"chunk {n}")], at=float(at), bad=None, used=set())
    view = memory.view(GapMemory().chunks())
    counted = {one.quote: one.n for one in view.unused}
    assert view.n_chunks <= 200
    for n in range(20):
        assert true[n] <= counted[f"chunk {n}"] <= true[n] * 1.02


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1970-01-02", DAY),
        ("1970-01-02T00:00:00Z", DAY),
        ("1970-01-02T02:00:00+02:00", DAY),
        (datetime(1970, 1, 2, tzinfo=timezone.utc), DAY),
        (DAY, DAY),
        (1_700_000_000_000, 1_700_000_000.0),
        ("yesterday", None),
        (True, None),
        (-1, None),
    ],
)
def test_dates_of_stores_are_read(value, seconds):
    assert as_seconds(value) == seconds


def test_a_meter_lists_what_is_stale_and_what_contradicts():
    old, new = CASES["en"][:2]
    with RagMeter(exporters=["gaps"]) as meter:
        meter.chunks(
            {
                "hashed": "sha256:" + sha256(b"Another text.").hexdigest(),
                "current": "sha256:" + sha256(b"It is as it was.").hexdigest(),
                "versioned": "v2",
                "unknown": "v1",
            },
            updated_at={"dated": "2020-01-01"},
            older_than_s=365 * DAY,
        )
        contexts = [
            RetrievedContext(text="It was otherwise.", id="hashed"),
            RetrievedContext(text="It is as it was.", id="current"),
            RetrievedContext(text="Version one.", id="versioned", metadata={"version": "v1"}),
            RetrievedContext(text="No version.", id="unknown"),
            RetrievedContext(text="A date is given.", id="dated"),
            RetrievedContext(text="Metadata has it.", id="meta", metadata={"updated_at": "2019-05-01"}),
            RetrievedContext(text="Fresh.", id="fresh", metadata={"last_modified": "2999-05-01"}),
            RetrievedContext(text=old, id="twice"),
            RetrievedContext(text=new, id="twice"),
        ]
        meter.submit(RagSample(question="Is it stale?", contexts=contexts, answer="It is as it was."))
        assert meter.flush(60)
        view = meter.chunks()
    assert {one.chunk.id: one.reason for one in view.stale} == {
        "hashed": "hash", "versioned": "version", "dated": "old", "meta": "old", "twice": "two_texts",
    }  # fmt: skip
    [conflict] = view.conflicts
    assert {chunk.id for chunk in conflict.chunks} == {"twice"}
    assert (view.n_compared, view.compares_all) == (9, True)
    assert view.unverified == pytest.approx(1 - 4 / 9)
    assert view.undated == pytest.approx(1 - 3 / 9)


@pytest.mark.parametrize("wrong", [{"current": {"a": 3}}, {"updated_at": {"a": "soon"}}, {"older_than_s": 0}])
def test_what_makes_no_sense_is_refused(wrong):
    with RagMeter(exporters=["gaps"]) as meter, pytest.raises(ConfigurationError, match="chunks: "):
        meter.chunks(**wrong)


def test_a_meter_that_keeps_no_chunks_says_what_to_add():
    with RagMeter(exporters=[]) as meter, pytest.raises(ConfigurationError, match='"gaps"'):
        meter.chunks()
