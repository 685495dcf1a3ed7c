"""``meter.conversations()``: turns in order, the first bad one, and the verdict of the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter import ConfigurationError, RagMeter
from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.quality import turns
from ragmeter.quality.turns import ConversationExporter, first_bad, verdict_of_turns

CHUNK = "The tower is 31 metres tall and was built of iron in 1889 by the harbour company."
GOOD = "The tower is 31 metres tall and was built of iron in 1889."
BAD = "Emperor Zlatan painted nine hundred elephants purple every Thursday in Vienna."


def talk(meter, name, answers, workflow="guide"):
    for answer in answers:
        with meter.request("How tall is the tower?", name=workflow, session_id=name) as request:
            request.retrieved([CHUNK])
            request.answered(answer)


@pytest.fixture
def meter():
    with RagMeter(exporters=["conversations"]) as made:
        yield made


def test_conversations_are_listed_with_the_worst_first(meter):
    talk(meter, "fine", [GOOD, GOOD])
    talk(meter, "was bad", [GOOD, BAD, GOOD], "shop")
    talk(meter, "ends badly", [GOOD, GOOD, BAD])
    talk(meter, None, [BAD])
    assert meter.flush(60)

    found = meter.conversations()
    assert [(one.id, one.verdict, one.first_bad, len(one.turns)) for one in found] == [
        ("ends badly", "bad", 3, 3), ("was bad", "suspect", 2, 3), ("fine", "good", None, 2),
    ]  # fmt: skip
    assert str(found[1]) == "was bad: 3 turns, first bad turn 2, verdict suspect"
    assert [turn.verdict for turn in found[1].turns] == ["good", "bad", "good"]
    assert [turn.at for turn in found[0].turns] == sorted(turn.at for turn in found[0].turns)
    assert [one.id for one in meter.conversations("shop")] == ["was bad"]
    assert not any(word in repr(found) for word in ("tower", "Zlatan", "iron"))
    assert [value for _, value, _ in meter._list_points()] == [2 / 3, *wilson_interval(2 / 3, 3)]


@pytest.mark.parametrize(
    ("first", "second", "again", "verdict"),
    [
        (GOOD, "I meant the other tower.", (2,), "suspect"),
        (BAD, "You didn't answer: how tall is it?", (2,), "bad"),
        (GOOD, "Я имела в виду башню в порту.", (2,), "suspect"),
        (GOOD, "我问的是港口的塔。", (2,), "suspect"),
        (GOOD, "How tall is the tower in the harbour?", (), "good"),
        (GOOD, "Are you saying that it is iron?", (), "good"),
    ],
)
def test_asked_again_is_seen_by_phrases_where_it_is_asked_for(first, second, again, verdict):
    with RagMeter(exporters=[ConversationExporter(asked_again=True)]) as meter:
        for question, answer in (("I mean, how tall is it?", first), (second, GOOD)):
            with meter.request(question, session_id="talk") as request:
                request.retrieved([CHUNK])
                request.answered(answer)
        assert meter.flush(60)
        [found] = meter.conversations()
    assert (found.asked_again, found.verdict) == (again, verdict)


def test_what_is_kept_is_bounded(meter, monkeypatch):
    monkeypatch.setattr(turns, "MOST_CONVERSATIONS", 3)
    monkeypatch.setattr(turns, "MOST_TURNS", 2)
    for number in range(5):
        talk(meter, f"c{number}", [BAD, GOOD, GOOD])
    assert meter.flush(60)
    found = meter.conversations()
    assert {one.id for one in found} == {"c2", "c3", "c4"}
    assert [(len(one.turns), one.first_bad) for one in found] == [(2, None)] * 3


def test_a_meter_that_keeps_none_says_what_to_add():
    with RagMeter(exporters=[]) as meter, pytest.raises(ConfigurationError, match='"conversations"'):
        meter.conversations()


@given(st.lists(st.sampled_from(["good", "suspect", "bad", None]), max_size=8))
def test_the_verdict_of_the_whole_is_one_of_a_turn_or_says_that_one_was_bad(words):
    whole, first = verdict_of_turns(words), first_bad(words)
    assert (first is None) == ("bad" not in words)
    assert first is None or words[first - 1] == "bad" not in words[: first - 1]
    known = [word for word in words if word]
    assert (whole is None) == (not known)
    if known:
        assert whole == known[-1] or (whole, "bad" in words) == ("suspect", True)
    assert whole != "good" or "bad" not in words
