"""The shortcuts of the entity tiers: what they pass over could not have been found."""

import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragmeter.metrics import EntityFinder
from ragmeter.metrics.text import forget_texts
from ragmeter.metrics.text.dates import date_keys
from ragmeter.metrics.text.entities import normalise_entity, stands_in
from ragmeter.metrics.text.named_entities import named_entities
from ragmeter.metrics.text.quantities import has_worded_numbers, may_hold, number_keys
from ragmeter.metrics.text.units import UNIT_STARTS

NUMERIC = st.text(st.sampled_from(list("0012345,.' -/年月日\u0663\u0660a")), max_size=24)
WORDS = st.lists(
    st.sampled_from("the The being run running Runs café cafe 1,904 1904 city's cities Эйфелевой".split()),
    max_size=8,
).map(" ".join)


@given(NUMERIC, NUMERIC)
@example("1,904.50", "0001904.5")
@example("1960-04-21", "21.04.1960")
@example("1960-04-21", "\u0661\u0669\u0666\u0660-04-21")
def test_a_number_is_looked_for_wherever_it_may_be(text, other):
    """No key of a text is denied by the quick look at another text that has it."""
    keys = number_keys(text) | date_keys(text)
    for key in keys & (number_keys(other) | date_keys(other)):
        assert may_hold(other, (key,)) or has_worded_numbers(other)
    assert all(may_hold(text, (key,)) or has_worded_numbers(text) for key in keys)


@pytest.mark.parametrize(
    "text", ["5 hundred", "5-hundred men", "1.5 lakh", "2 crore", "7 tn", "$3m", "€4 k", "三百", "٣"]
)
def test_a_number_that_is_written_with_words_is_not_passed_over(text):
    """Its digits do not stand in the text: the quick look says so."""
    (key,) = number_keys(text)
    assert has_worded_numbers(text)
    assert stands_in(key.removeprefix("number:").partition("|")[0], text) == ("|" not in key)


@given(st.sampled_from(["$", "us$", "u.s. $", "usd ", "минус ", "minus ", "负", "-", "€ -", "rub "]))
def test_what_can_stand_before_a_number_is_known_by_its_end(before):
    """Whatever belongs to a number before it makes the number another one."""
    assert number_keys(f"around {before}5 horses") != number_keys("around 5 horses")


@given(st.sampled_from(sorted(UNIT_STARTS - {""})), st.sampled_from(["5", "1990", "1,000.5"]))
def test_a_word_that_begins_no_unit_changes_nothing(word, number):
    """A word is a unit as a whole or not at all, and what is none is no part of the number."""
    assert number_keys(f"the {number} {word}zzz of it") == number_keys(f"the {number} , of it")


@given(st.lists(WORDS, max_size=3), WORDS)
def test_an_entity_is_found_in_a_list_of_texts_as_in_each(texts, entity):
    """The first text with the tightest tier that any of them has, known before or not."""
    tiers = ["string", "number", "accents", "stems", "han"]
    alone = [EntityFinder([text]).find(entity) for text in texts]
    forget_texts()
    found = EntityFinder(texts).find(entity)
    expected = min(
        ((tiers.index(match.tier), index) for index, match in enumerate(alone) if match), default=None
    )
    assert expected == (found and (tiers.index(found.tier), found.text_index))


def test_an_entity_stands_in_a_text_or_does_not():
    """One entity, one text: by any tier; a blank one stands nowhere."""
    text = "The Taj Mahal in Agra has 1,000 steps."
    assert stands_in("taj mahal", text)
    assert stands_in("1000", text)
    assert not stands_in("Delhi", text)
    assert not stands_in(" ", text)


PIECES = st.sampled_from(
    "Anna Berg|the U.S. Army|WHO|May|Иван Иванов|Ивану Петрову|город Казань|«Мир»|5-10 km|-5 °C|$5 million|"
    "1914–1918|21 апреля 1960 года|April 21|5,4%|C++|.NET|Node.js|F-16|Apollo 11|И. И. Иванов|100元|"
    "北京市海淀区|马云|《红楼梦》|京东|and|wrote|в|и|который|在|于1999年|, |. |: |\n|(|)|1,234|3.5|ё|ЁЖ|№ 5".split(
        "|"
    )
)
TEXTS = st.lists(PIECES, max_size=12).map(" ".join)
LABELLED = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "oracles/labelled_entities.jsonl").read_text("utf-8").splitlines()
]


@given(TEXTS)
@settings(derandomize=True, deadline=None)
def test_what_is_extracted_stands_in_its_text(text):
    """An entity is a piece of the text, and the look-up finds it there."""
    for entity in named_entities(text):
        assert stands_in(entity, text), entity


def test_labelled_entities_stand_in_their_texts():
    """Found by hand or by rule: both are there, whatever the layout, and with е for ё."""
    for record in LABELLED:
        text = record["text"]
        wrapped = text.replace(" ", "\n")
        for entity in (*record["names"], *record["numbers"], *named_entities(text)):
            assert stands_in(entity, text), (entity, text)
            assert stands_in(entity, wrapped), (entity, text)
            assert stands_in(entity.replace("ё", "е"), text), (entity, text)
            assert stands_in(entity, text.replace("ё", "е")), (entity, text)


@pytest.mark.parametrize(
    "pair",
    [
        ("Aa Bb ", "Aa Bb "), ("Aaaa", "Aaaa"), ("Xx 5 ", "Xx 5 "), ("On 21 April 1960 Bob. ",) * 2, ("U.S.A.",) * 2,
        ("《绿桥》在北京大学。", "北京大学生绿桥东部"), ("《京东》", "北京东部"), ("-5-", "-5-"), ("5 000 ", "5 000 "),
        ("A. ", "A. "), ("一百", "一百"), ("Иван Иванов ", "Иванов Иван "),
    ],
    ids=lambda pair: pair[0],
)  # fmt: skip
def test_cost_is_linear_in_the_text(pair):
    """Sixteen times the text, repetitive as can be, is not 256 times the work."""

    def cost(size):
        best = math.inf
        for _ in range(3):
            forget_texts()
            reference, context = (one * (size // len(one)) for one in pair)
            start = time.thread_time()
            for entity in named_entities(reference) or ("Aa Bb",):
                stands_in(entity, context)
            best = min(best, time.thread_time() - start)
        return best

    cost(500)
    assert cost(16_000) < 130 * max(cost(1_000), 0.002)


@pytest.mark.parametrize("language", ["en", "ru", "zh"])
def test_most_labelled_entities_are_found_and_little_else(language):
    """Precision at least 0.95, recall at least 0.9, in the base install: docs/metrics.md has them."""
    wanted, found = [], []
    for row in LABELLED:
        if row["language"] == language:
            wanted.append({normalise_entity(one) for one in row["names"] + row["numbers"]})
            found.append({normalise_entity(one) for one in named_entities(row["text"])})
    right = sum(len(one & other) for one, other in zip(wanted, found, strict=True))
    assert right >= 0.95 * sum(map(len, found))
    assert right >= 0.9 * sum(map(len, wanted))
