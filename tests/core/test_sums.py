"""The table of sums: windows, bounds, what counts, twice and in a forked child; and what it says of sessions."""

import os
import random
import time
from zlib import crc32

import pytest
from fakes_quality import Runs, make_score
from forked import in_child
from hypothesis import given
from hypothesis import strategies as st
from moved_clock import MovedClock

from ragmeter.exporters.semconv import FREE_SUMS, JUDGED_SUMS
from ragmeter.quality import conversations
from ragmeter.quality.conversations import ConversationSums
from ragmeter.quality.estimates import QualityKey
from ragmeter.quality.moments import FreeMoments, JudgedMoments
from ragmeter.quality.objectives import Objective, Objectives
from ragmeter.quality.population import JudgedScore
from ragmeter.quality.segments import OTHER
from ragmeter.quality.sums import MAX_REMEMBERED, QualityTable
from ragmeter.quality.sums_by_time import SLOT_S

FAITHFULNESS = JudgedScore("faithfulness", "hash", 0.0, 1.0)
HOUR_S = 3600.0


@pytest.fixture
def clock():
    return MovedClock(1e6)


@pytest.fixture
def table(clock):
    return QualityTable(clock)


@pytest.fixture
def runs():
    return Runs()


def _scores(*scores):
    return {score.name: score for score in scores}


def test_the_sums_are_those_of_the_counters():
    assert FreeMoments.names == tuple(FREE_SUMS)
    assert JudgedMoments.names == tuple(JUDGED_SUMS)
    assert set(FREE_SUMS) < set(JUDGED_SUMS)


def test_only_what_is_a_case_of_a_score_counts(table, runs):
    """Missing inputs and ended requests are not; undefined, failed and too long ones are, without a value."""
    for score in (
        make_score(0.5),
        make_score(None),
        make_score(None, status="metric_error"),
        make_score(None, status="skipped", error_type="too_long"),
        make_score(None, status="skipped"),
        make_score(None, status="missing_input"),
    ):
        table.count_request(runs(), _scores(score), ())
    found = table.estimate("lexical_groundedness", None, HOUR_S)
    assert found.n_requests == 4
    assert (found.undefined, found.unscored) == (0.25, 0.5)


def test_counts_and_places_have_no_mean(table, runs):
    scores = _scores(
        make_score(3.0, "context_count", range=(0.0, None)), make_score(0.5, "place", direction="none")
    )
    table.count_request(runs(), scores, ())
    assert table.estimates(None, HOUR_S) == {}
    assert table.totals() == []


def test_another_range_is_scaled_to_0_to_1(table, runs):
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        table.count_request(runs(), _scores(make_score(value, "stars", range=(1.0, 5.0))), ())
    assert table.estimate("stars", "qa", HOUR_S).mean == 0.5


def test_a_judged_score_counts_by_what_became_of_it(table, runs):
    outcomes = [
        make_score(1.0, "faithfulness", method="llm"),
        make_score(0.5, "faithfulness", method="llm", status="partial", lower=0.25, upper=0.75),
        make_score(None, "faithfulness", method="llm"),
        make_score(None, "faithfulness", method="llm", status="judge_error"),
        None,
    ]
    for outcome in outcomes:
        run, scores = runs(), _scores(make_score(0.25))
        counted = table.count_request(run, scores, [FAITHFULNESS])
        if outcome is not None:
            scores["faithfulness"] = outcome
        table.count_judged(counted, scores, [FAITHFULNESS], 0.5)
    table.count_request(runs(), _scores(make_score(0.75)), [FAITHFULNESS])  # not judged
    (sums,) = [one.sums for one in table.totals() if one.score == "faithfulness"]
    assert (sums["n"], sums["x"], sums["k"], sums["kd"]) == (6, 2.0, 5, 1)
    assert (sums["w"], sums["wd"], sums["wb"]) == (10, 2, 8)
    assert (sums["wl"], sums["wu"]) == (2 + 0.5, 2 + 1.5 + 2 + 2)
    assert sums["wx"] == 2.5
    found = table.estimate("faithfulness", "qa", HOUR_S)
    assert (found.undefined, found.unscored) == (pytest.approx(0.2), pytest.approx(0.6))


def test_requests_kept_for_being_bad_are_not_among_those_that_chance_chose(table, runs):
    for value, probability, by_chance in ((1.0, 0.5, True), (0.5, 1.0, True), (0.0, 1.0, False)):
        run, scores = runs(), _scores(make_score(0.25))
        counted = table.count_request(run, scores, [FAITHFULNESS])
        scores["faithfulness"] = make_score(value, "faithfulness", method="llm")
        table.count_judged(counted, scores, [FAITHFULNESS], probability, by_chance=by_chance)
    (of_free, of_judged) = table.totals()
    assert (of_judged.sums["kd"], of_judged.sums["wy"]) == (3, 2.5)
    assert of_judged.values == (2, 1.5, 1.25)
    assert of_free.values == (3, 0.75, 3 * 0.0625)


@pytest.mark.parametrize("at", [{"at_least": 3.0}, {"at_most": 3.0}])
def test_requests_on_the_bad_side_of_an_objective_are_counted_by_weight(clock, runs, at):
    """On the score's own scale, each way; without a value there is no side."""
    objectives = Objectives([Objective(score=name, share=0.9, **at) for name in ("stars", "judged")])
    table = QualityTable(clock, objectives=objectives)
    one = JudgedScore("judged", "hash", 1.0, 5.0, "higher")
    for value in (1.0, 2.0, 3.0, 4.0, None):
        run, scores = runs(), _scores(make_score(value, "stars", range=(1.0, 5.0)), make_score(0.5))
        counted = table.count_request(run, scores, [one])
        scores["judged"] = make_score(value, "judged", method="llm", range=(1.0, 5.0))
        table.count_judged(counted, scores, [one], 0.25)
    found = {each.score: each for each in table.totals()}
    low = 2 if "at_least" in at else 1
    assert found["stars"].sums["low"] == low
    assert found["judged"].sums["low"] == 4 * low
    assert found["stars"].budget == 0.1
    assert "low" not in found["lexical_groundedness"].sums
    assert found["lexical_groundedness"].budget is None


def test_an_objective_that_comes_later_counts_from_then_on(clock, runs):
    objectives = Objectives()
    table = QualityTable(clock, objectives=objectives)
    table.count_request(runs(), _scores(make_score(0.0)), ())
    assert "low" not in table.totals()[0].sums
    objectives.add(Objective(score="lexical_groundedness", at_least=0.5, workflow="qa"))
    table.count_request(runs(), _scores(make_score(0.0)), ())
    assert table.totals()[0].sums["low"] == 1


def test_slots_that_are_over_are_handed_out_once_and_never_change(table, runs, clock):
    clock.now = 100 * SLOT_S + 1
    slots = []
    for number in range(5):
        for _ in range(number):
            table.count_request(runs(), _scores(make_score(0.5)), ())
        assert table.slots(100 * SLOT_S) == slots
        if number:
            (open_one,) = table.slots(clock.now - 1, unfinished=True)
            assert open_one.counted.sums["n"] == number
            slots.append(open_one)
        clock.now += SLOT_S
    assert [(one.at, one.counted.sums["n"]) for one in table.slots(0)] == [
        ((100 + number) * SLOT_S, number) for number in (1, 2, 3, 4)
    ]
    assert table.slots(102 * SLOT_S + 1) == slots[2:]
    # Also after nothing came for a while, and as long as they are remembered.
    clock.now += HOUR_S
    assert table.slots(0) == slots
    table.count_request(runs(), _scores(make_score(0.5)), ())
    assert table.slots(0) == slots


def test_slots_say_what_they_are_of(table, runs):
    run, scores = runs("qa"), _scores(make_score(0.25, "odd", direction="lower"))
    one = JudgedScore("faithfulness", "hash", 0.0, 1.0)
    table.count_request(run, scores, [one])
    found = {each.counted.score: each.counted for each in table.slots(0, unfinished=True)}
    assert (found["odd"].workflow, found["odd"].direction, found["odd"].judge) == ("qa", "lower", "")
    assert found["odd"].values == (1, 0.25, 0.0625)
    assert (found["faithfulness"].direction, found["faithfulness"].judge) == ("higher", "hash")


def test_the_clock_shows_unix_time(runs):
    table = QualityTable()
    before = time.time()
    table.count_request(runs(), _scores(make_score(0.5)), ())
    (found,) = table.slots(0, unfinished=True)
    assert before - SLOT_S - 60 < found.at < before + SLOT_S + 60


def test_a_request_that_comes_twice_counts_once(table, runs):
    run, free = runs(), _scores(make_score(0.5))
    scores = free | _scores(make_score(1.0, "faithfulness", method="llm"))
    counted, *again = [table.count_request(run, free, [FAITHFULNESS]) for _ in range(3)]
    assert again == [None, None]
    table.count_judged(counted, scores, [FAITHFULNESS], 1.0)
    assert [(one.score, one.sums["n"], one.sums["kd"]) for one in table.totals()] == [
        ("lexical_groundedness", 1, 1),
        ("faithfulness", 1, 1),
    ]


def test_what_is_remembered_of_requests_is_bounded(table, runs):
    for _ in range(3 * MAX_REMEMBERED):
        table.count_request(runs(), {}, ())
    assert len(table._counted) + len(table._counted_before) <= MAX_REMEMBERED


def test_a_window_is_the_last_while_and_totals_are_all_time(table, runs, clock):
    """By five minutes, beyond three hours by hours, for a day."""
    clock.now = 40 * HOUR_S
    for hour in range(30):
        table.count_request(runs(), _scores(make_score(hour / 30)), ())
        if hour < 29:
            clock.now += HOUR_S

    def counted(hours):
        return table.estimate("lexical_groundedness", None, hours * HOUR_S).n_requests

    assert [counted(hours) for hours in (0.1, 1, 2, 6, 12, 24, 1000)] == [1, 2, 3, 7, 13, 25, 25]
    assert table.totals()[0].sums["n"] == 30
    clock.now += SLOT_S * 2
    assert [counted(hours) for hours in (0.05, 1)] == [0, 1]
    assert table.estimate("lexical_groundedness", None, 300.0).method == "none"


def test_workflows_are_apart_and_together(table, runs):
    for workflow, value in (("a", 1.0), ("b", 0.0), (None, 0.5)):
        for _ in range(5):
            table.count_request(runs(workflow), _scores(make_score(value)), ())
    assert table.estimate("lexical_groundedness", "a", HOUR_S).mean == 1.0
    assert table.estimate("lexical_groundedness", "", HOUR_S).mean == 0.5
    assert table.estimate("lexical_groundedness", None, HOUR_S).n_requests == 15
    assert table.estimate("lexical_groundedness", "c", HOUR_S).method == "none"
    assert set(table.estimates(None, HOUR_S)) == {
        QualityKey("lexical_groundedness", workflow) for workflow in ("a", "b", "")
    }


@pytest.mark.parametrize("valued", [True, False])
def test_workflows_without_end_are_counted_together(clock, runs, valued):
    table = QualityTable(clock, most=10)
    for number in range(1000):
        scores = _scores(make_score(0.5) if valued else make_score(None, status="missing_input"))
        judged = [FAITHFULNESS] if valued else ()
        counted = table.count_request(runs(f"w{number}"), scores, judged)
        table.count_judged(counted, scores, judged, 1.0)
    found = {one.workflow: one.sums["k"] for one in table.totals() if one.score == "faithfulness"}
    assert len(table.totals()) <= 12
    if valued:
        assert found[OTHER] == 1000 - (len(found) - 1)
    assert len(table._services[()]._workflows) <= 11


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_over(table, runs):
    table.count_request(runs(), _scores(make_score(0.5)), ())
    assert in_child(table.totals) == "[]"
    assert len(table.totals()) == 1


def _sessions(table, clock, alike, named, hours=3):
    """Sessions of five requests, twenty each five minutes; `alike`: the share that repeats their session's value.

    Args:
        named: Gives what names a session: its number → arguments of `Runs`.
    """
    chance, made = random.Random(3), Runs()
    for slot in range(12 * hours):
        sessions = [(20 * slot + number, float(chance.random() < 0.7)) for number in range(20)]
        for _ in range(5):  # the turns of one come in between those of others
            for number, same in sessions:
                value = same if chance.random() < alike else float(chance.random() < 0.7)
                table.count_request(made(**named(number)), _scores(make_score(value)), ())
        clock.now += SLOT_S


NAMED = {
    "by an id": lambda number: {"conversation_id": f"c{number}"},
    "by the same question": lambda number: {"question": f"about {number}"},
}


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
def test_requests_of_a_conversation_that_resemble_each_other_have_a_design_effect(clock, named):
    """Five alike: (1 + 4 x correlation), the correlation being the square of the share, within an hour, too."""
    independent, alike = QualityTable(clock), QualityTable(clock)
    _sessions(independent, clock, 0.0, named)
    _sessions(alike, clock, 0.9, named)
    assert independent.estimate("lexical_groundedness", None, 3 * HOUR_S).design_effect < 1.15
    for window in (HOUR_S, 3 * HOUR_S):
        found = alike.estimate("lexical_groundedness", None, window)
        assert found.design_effect == pytest.approx(1 + 4 * 0.81, rel=0.1)
        assert found.upper - found.lower == pytest.approx(
            2 * 1.97 * (found.design_effect * 0.7 * 0.3 / found.n_judged) ** 0.5, rel=0.05
        )


def test_of_more_conversations_than_are_tracked_a_sample_says_the_same(monkeypatch):
    """Twenty have turns at a time, and 140 are not silent for half an hour yet."""
    monkeypatch.setattr(conversations, "MAX_OPEN", 15)
    monkeypatch.setattr(conversations, "hash", lambda name: crc32(repr(name).encode()), raising=False)
    chance, sums, tracked = random.Random(3), FreeMoments(), conversations.Conversations()
    for slot in range(500):
        sessions = [(20 * slot + number, float(chance.random() < 0.7)) for number in range(20)]
        for number, same in sessions * 5:
            value = same if chance.random() < 0.9 else float(chance.random() < 0.7)
            sums.add_value(value)
            if (one := tracked.of(f"c{number}", None, slot * SLOT_S)) is not None:
                one.add("all", 0, sums, 1.0, value, slot * SLOT_S)
    assert len(tracked._open) <= 15
    found = sums.clustering()
    assert found.design_effect == pytest.approx(1 + 4 * 0.81, rel=0.1)
    assert found.conversations == pytest.approx(500 * 20, rel=0.4)
    for hour in range(6):
        tracked.of("later", None, 1e6 + hour * HOUR_S)
    assert tracked._one_in == 1


def test_how_many_conversations_there_are_is_said(clock):
    table = QualityTable(clock)
    _sessions(table, clock, 0.9, NAMED["by an id"], hours=1)
    found = table.estimate("lexical_groundedness", None, HOUR_S)
    assert (found.n_requests, found.n_conversations) == (1200, 240)
    assert not found.has_few_conversations
    clock.now += 3 * HOUR_S
    made = Runs()
    made.made = 10_000
    for number in range(60):
        run = made("few", conversation_id=f"few {number % 12}")
        table.count_request(run, _scores(make_score(float(number % 2))), ())
    found = table.estimate("lexical_groundedness", "few", HOUR_S)
    assert (found.n_conversations, found.has_few_conversations) == (12, True)
    assert "few: 12" in str(found)
    table.count_request(made("alone"), _scores(make_score(1.0)), ())
    assert table.estimate("lexical_groundedness", "alone", HOUR_S).n_conversations is None


def test_who_comes_back_after_half_an_hour_begins_another_conversation(clock, table, runs):
    for _ in range(3):
        table.count_request(runs(conversation_id="c"), _scores(make_score(1.0)), ())
        clock.now += 1801
    assert table.estimate("lexical_groundedness", None, 3 * HOUR_S).n_conversations is None


def test_a_question_that_everybody_asks_is_not_one_conversation(clock, table, runs):
    chance = random.Random(7)
    for _ in range(2000):
        table.count_request(runs(question="hello"), _scores(make_score(float(chance.random() < 0.7))), ())
    assert table.estimate("lexical_groundedness", None, HOUR_S).design_effect < 1.25


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(0, 1), st.sampled_from([1.0, 0.5, 0.1])), max_size=60))
def test_pair_sums_are_those_of_whole_conversations_however_they_are_cut(turns):
    """Σ over conversations of (Σ w (x - mean))², whatever the order, and added up over processes."""
    one, processes = JudgedMoments(), [JudgedMoments(), JudgedMoments()]
    here = {}
    for number, value, probability in turns:
        for sums in (one, processes[number % 2]):
            sums.judged(0.0, probability, value)
        conversation = here.setdefault(number, (ConversationSums(), ConversationSums()))
        for each, sums in zip(conversation, (one, processes[number % 2]), strict=True):
            each.add("all", 0, sums, 1 / probability, value, 0.0)
    whole = JudgedMoments()
    for sums in processes:
        whole.add(sums.values())
    assert list(whole.values()) == pytest.approx(list(one.values()))
    found = one.clustering()
    weights = {}
    for number, _, probability in turns:
        weights.setdefault(number, []).append(1 / probability)
    assert (found is None) == all(len(each) < 2 for each in weights.values())
    if found is None:
        return
    assert found.conversations == len(weights)
    mean = one.wy / one.wd
    totals = {}
    for number, value, probability in turns:
        totals[number] = totals.get(number, 0.0) + (value - mean) / probability
    alone = sum(((value - mean) / probability) ** 2 for _, value, probability in turns)
    together = sum(total * total for total in totals.values())
    if alone > 1e-6:
        m = len(weights)
        expected = max(1.0, m / max(1, m - 1) * together / alone)
        assert found.design_effect == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_where_nothing_names_conversations_neighbouring_hours_tell(clock):
    independent, alike = QualityTable(clock), QualityTable(clock)
    _sessions(independent, clock, 0.0, lambda _: {}, hours=24)
    _sessions(alike, clock, 0.9, lambda _: {}, hours=24)
    assert independent.estimate("lexical_groundedness", None, HOUR_S).design_effect < 1.3
    assert alike.estimate("lexical_groundedness", None, HOUR_S).design_effect > 1.8
