"""Search and filters of lists: what is found, by whom, and what is counted beside it."""

import sqlite3
from dataclasses import replace

import pytest
from stored import moved, scored, store

from ragmeter.metrics import RagSample, Verdict
from ragmeter.serve.store import _lists, _text_search
from ragmeter.serve.store.views import Filters

NOW_S = 1_760_000_400.0
ASKED = (
    # question, answer, chunk, verdict, codes, service, tenant, support
    ("Can I return boots?", "Yes, within a month.", "Boots are returned by courier E-1042.", "good", (), "shop", "acme", 0.9),
    ("Когда действует Гарантия?", "Ещё два года.", "ГАРАНТИЯ на батарею два года.", "bad", ("unsupported_answer",), "shop", "acme", 0.1),
    ("可以退货吗？", "三十天内可以退货。", "商品可在三十天内退货。", "suspect", ("partly_unsupported", "off_topic_context"), "shop", "umbrella", 0.4),
    ("Can I return boots?", "Never.", "100% wool_socks", "bad", ("unsupported_answer",), "shop", "umbrella", 0.2),
    ("Who is on leave?", "Anna.", "Anna has holidays.", "good", (), "desk", "acme", 1.0),
)  # fmt: skip


@pytest.fixture(scope="module")
def runs():
    (kind,) = scored(1)
    made = []
    for number, (question, answer, chunk, word, codes, service, tenant, support) in enumerate(ASKED):
        made.append(
            moved(
                kind,
                f"r{number}",
                NOW_S - 600 + number * 60,
                scores={"lexical_groundedness": support},
                word=word,
                codes=codes,
                sample=RagSample(question=question, contexts=[chunk], answer=answer, name="help"),
                metadata={"tenant": tenant},
                resource={"service.name": service},
                conversation_id=f"talk-{number % 2}",
            )
        )
    return made


@pytest.fixture(
    scope="module", params=["read through", "indexed", pytest.param("postgresql", marks=pytest.mark.service)]
)
def kept(runs, request):
    place = None
    if request.param == "postgresql":
        place = request.getfixturevalue("postgresql").database()
    with store(place, clock=lambda: NOW_S) as made:
        made.export(runs)
        while request.param == "indexed" and made.maintain():
            pass
        yield made


def found(kept, **filters):
    page = kept.reader().requests(Filters(range_s=3_600, **filters), sort="newest")
    return "".join(sorted(row.run_id[1:] for row in page.requests))


@pytest.mark.parametrize(
    ("search", "requests"),
    [
        ("boots", "03"),
        ("BOO", "03"),
        ("boots courier", "0"),
        ("e-1042", "0"),
        ("гарантия", "1"),
        ("Гарант батарею", "1"),
        ("退货", "2"),
        ("三十天内退货", "2"),
        ("货", "2"),
        ("天退", ""),
        ('"return boots"', "03"),
        ('"boots return"', ""),
        ("100%", "3"),
        ("wool_socks", "3"),
        ("woolxsocks", ""),
        ("anna never", ""),
        ("returning boot", "03"),
        ("гарантии", "1"),
        ("батарей гарантию", "1"),
        ('"гарантии"', ""),
        ("недели", ""),
        ("еще", "1"),
        ("ЕЩЁ", "1"),
        ("", "01234"),
    ],
)
@pytest.mark.parametrize("many", [1, 20_000])
def test_words_are_found_in_question_answer_and_chunks(kept, search, requests, many, monkeypatch):
    monkeypatch.setattr(_text_search, "_MANY", many)
    assert found(kept, search=search) == requests


def test_of_a_word_that_most_requests_have_the_newest_are_found(kept, monkeypatch):
    monkeypatch.setattr(_lists, "MOST_HITS", 1)
    filters = Filters(range_s=3_600, search="boots")
    page = kept.reader().requests(filters)

    assert ([row.run_id for row in page.requests], page.total, page.complete) == (["r3"], 1, False)
    assert kept.reader().facets(filters).total == 1
    assert kept.reader().requests(replace(filters, verdict="good")).total == 0
    assert kept.reader().requests(Filters(range_s=3_600, verdict="bad")).complete


def test_a_search_of_a_day_is_counted_apart_from_the_day(kept):
    """Whether the day was counted before, or is counted after it."""
    day = Filters(range_s=86_400)
    reader = kept.reader()

    assert [reader.facets(one).total for one in (replace(day, search="boots"), day)] == [2, 5]
    assert [reader.facets(replace(day, search=one)).total for one in ("boots", "anna")] == [2, 1]
    assert sum(reader.services(day).values()) == 5


def test_what_comes_and_goes_is_counted_at_once(runs):
    """Whatever was remembered of the time before."""
    now, filters = [NOW_S], Filters(range_s=86_400)
    with store(clock=lambda: now[0], keep_s=10_000.0) as made:
        counts = []
        for some in (runs[:2], runs[2:], [replace(runs[0], verdict=Verdict(word="bad", codes=()))]):
            made.export(some)
            page, health = made.reader().facets(filters), made.reader().health(filters)
            bins = health.lanes[0].bins if len(health.lanes) == 1 else [
                each for lane in health.lanes for each in lane.bins
            ]  # fmt: skip
            assert [sum(each) for each in zip(*page.bins, strict=True)] == [
                sum(each) for each in zip(*bins, strict=True)
            ]
            counts.append(tuple(sum(each) for each in zip(*page.bins, strict=True)))
        now[0] += 20_000
        while made.maintain():
            pass
        assert counts == [(1, 0, 1, 0), (2, 1, 2, 0), (3, 1, 1, 0)]
        assert made.reader().facets(filters).total == 0


def test_a_line_of_several_requests_is_ordered_by_its_worst(kept):
    page = kept.reader().requests(Filters(range_s=3_600), grouped=True, limit=3)
    rest = kept.reader().requests(Filters(range_s=3_600), grouped=True, cursor=page.next)

    lines = [(row.run_id, row.times) for row in page.requests + rest.requests]
    assert lines == [("r3", 2), ("r1", 1), ("r2", 1), ("r4", 1)]


@pytest.mark.parametrize(
    ("filters", "requests"),
    [
        ({"reason": "unsupported_answer"}, "13"),
        ({"reason": "off_topic_context"}, "2"),
        ({"scores": (("lexical_groundedness", ">=", 0.2), ("lexical_groundedness", "<=", 0.9))}, "023"),
        ({"segment": "metadata.tenant:acme", "service": "shop"}, "01"),
        ({"segment": "metadata.tenant:acme", "segments": ("language:ru",)}, "1"),
        ({"conversation_id": "talk-1"}, "13"),
        ({"gap": "00000000"}, ""),
        ({"reason": "unsupported_answer", "search": "boots"}, "3"),
    ],
)  # fmt: skip
def test_filters_leave_what_they_name(kept, filters, requests):
    assert found(kept, **filters) == requests


def test_each_value_of_a_facet_is_counted_under_all_other_filters(kept):
    filters = Filters(range_s=3_600, service="shop", verdict="bad", segment="metadata.tenant:acme")
    page = kept.reader().facets(filters)
    facets = {one.name: {value.value: value.requests for value in one.values} for one in page.facets}

    assert page.total == 1
    assert facets["verdict"] == {"bad": 1, "good": 1}
    assert facets["service"] == {"shop": 1}
    assert facets["metadata.tenant"] == {"acme": 1, "umbrella": 1}
    assert sum(map(sum, page.bins)) == 1
    for facet in page.facets:
        for value in facet.values:
            part = facet.name not in ("verdict", "reason", "service", "workflow")
            changed = (
                {"segment": f"{facet.name}:{value.value}"}
                if facet.name == "metadata.tenant"
                else {"segments": (f"{facet.name}:{value.value}",)}
                if part
                else {facet.name: value.value}
            )
            listed = kept.reader().requests(replace(filters, **changed))
            assert listed.total == value.requests, (facet.name, value)


def test_questions_are_in_the_order_of_what_is_surely_bad_and_page_by_page(kept):
    reader = kept.reader()
    filters = Filters(range_s=3_600)
    first = reader.requests(filters, sort="question", limit=2)
    second = reader.requests(filters, sort="question", limit=2, cursor=first.next)
    whole = reader.requests(filters, sort="question")

    assert [row.run_id for row in first.requests + second.requests] == [row.run_id for row in whole.requests]
    assert whole.total == 4
    lowers = [row.bad.lower for row in whole.requests]
    assert lowers == sorted(lowers, reverse=True)
    boots = next(row for row in whole.requests if row.run_id == "r3")
    assert (boots.bad.bad, boots.bad.requests) == (1, 2)
    bad = reader.requests(replace(filters, verdict="bad"), sort="question")
    assert {row.run_id: row.bad.requests for row in bad.requests} == {"r1": 1, "r3": 2}


def test_without_texts_a_search_says_so(runs):
    with store(clock=lambda: NOW_S, texts=False) as made:
        made.export(runs)
        with pytest.raises(ValueError, match="keeps none"):
            made.reader().requests(Filters(search="boots"))
        assert made.reader().requests(Filters(reason="unsupported_answer")).total == 2


def test_what_is_deleted_is_in_no_index(runs, tmp_path):
    now = [NOW_S]
    place = tmp_path / "s.db"
    with store(place, clock=lambda: now[0], keep_s=1_000.0) as made:
        made.export(runs)
        while made.maintain():
            pass
        assert made.reader().requests(Filters(search="courier")).total == 1
        now[0] += 2_000
        while made.maintain():
            pass
        made.export(runs[4:])
        while made.maintain():
            pass
    with sqlite3.connect(place) as database:
        for word, hits in (("courier", 0), ("holidays", 1)):
            query = "SELECT count(*) FROM text_words WHERE text_words MATCH ?"
            assert database.execute(query, (word,)).fetchone() == (hits,)


def test_what_is_usual_is_that_of_service_and_workflow(runs):
    """Another service may call its workflow by the same name."""

    def asked(number, service, support):
        scores = {"lexical_groundedness": support}
        resource = {"service.name": service}
        return moved(runs[0], f"r{number}", NOW_S - 600 + number, scores=scores, word="bad", resource=resource)

    with store(clock=lambda: NOW_S) as made:
        made.export([asked(n, "shop", 0.9) for n in range(20)])
        made.export([asked(20 + n, "desk", 0.2) for n in range(20)])
        rows = made.reader().requests(Filters(range_s=3_600)).requests

        assert {(row.service, round(row.excess, 6)) for row in rows} == {("shop", 0.0), ("desk", 0.0)}
        assert made.reader().request("r30").row.excess == pytest.approx(0.0)
