"""The shortcuts of the entity tiers: what they pass over could not have been found."""

from hypothesis import example, given
from hypothesis import strategies as st

from ragmeter.metrics import EntityFinder
from ragmeter.metrics.dates import date_keys, may_hold, number_keys
from ragmeter.metrics.entities import stands_in
from ragmeter.metrics.text import forget_texts

NUMERIC = st.text(st.sampled_from(list("0012345,.' -/年月日\u0663\u0660a")), max_size=24)
WORDS = st.lists(
    st.sampled_from(
        "the The being run running Runs café cafe 1,904 1904 city's cities Эйфелевой".split()
    ),
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
        assert may_hold(other, (key,))
    assert all(may_hold(text, (key,)) for key in keys)


@given(st.lists(WORDS, max_size=3), WORDS)
def test_an_entity_is_found_in_a_list_of_texts_as_in_each(texts, entity):
    """The first text with the tightest tier that any of them has, known before or not."""
    tiers = ["string", "number", "accents", "stems", "han"]
    alone = [EntityFinder([text]).find(entity) for text in texts]
    forget_texts()
    found = EntityFinder(texts).find(entity)
    expected = min(
        ((tiers.index(match.tier), index) for index, match in enumerate(alone) if match),
        default=None,
    )
    assert expected == (found and (tiers.index(found.tier), found.text_index))


def test_an_entity_stands_in_a_text_or_does_not():
    """One entity, one text: by any tier; a blank one stands nowhere."""
    text = "The Taj Mahal in Agra has 1,000 steps."
    assert stands_in("taj mahal", text)
    assert stands_in("1000", text)
    assert not stands_in("Delhi", text)
    assert not stands_in(" ", text)
