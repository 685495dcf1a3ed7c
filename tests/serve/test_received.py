"""What applications scored themselves is under watch: told where, since when, once, and by one."""

import pytest
from received_traffic import Traffic, Weeks, one, watching
from stored import store

from ragmeter.exporters.protocol import JudgeIdentity
from ragmeter.serve.store.views import Filters

MONDAY = 1_799_625_600.0  # 2027-01-11 00:00 UTC
DAY, HOUR = 86_400.0, 3_600.0
HISTORY_H = 96


@pytest.fixture
def weeks():
    return Weeks(MONDAY)


@pytest.fixture
def kept(weeks):
    with store(clock=weeks.clock, keep_s=30 * DAY) as made:
        yield made


def test_a_fall_is_told_of_the_service_and_workflow_that_fell_and_of_no_other(weeks, kept):
    shop, bank = Traffic(one(), "shop"), Traffic(one(), "bank")
    with watching(weeks, kept) as seen:
        weeks.pass_(HISTORY_H, kept, [(shop, 8, 0.8), (bank, 8, 0.8)], seen.look)
        assert {each.status for each in seen.watch.series()} == {"watching"}
        fell_at = weeks.now
        weeks.pass_(8, kept, [(shop, 20, 0.3), (bank, 8, 0.8)], seen.look)
        ((change, said, resource),) = seen.told
    assert resource == {"service.name": "shop"}
    assert (change.service, change.workflow, change.score, change.kind) == ("shop", "qa", "goodness", "fell")
    assert abs(change.since - fell_at) <= HOUR
    assert change.before.mean > 0.7
    assert change.now.mean < 0.4
    assert change.at - fell_at <= 6 * HOUR
    assert "shop" in said


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("framing 4, facts 1", "0.400 by framing words; mostly manner, not truth"),
        ("facts 4, framing 1", "0.400 by absent numbers and names; mostly what no chunk says"),
        ("sentences 4, framing 0.5, facts 0.5", "0.400 by unsupported sentences"),
    ],
)
def test_a_fall_of_groundedness_says_of_which_words_it_consists(weeks, kept, lacking, said):
    def shop(value, lacking):
        score = {"summary": f"{value * 10:g} of 10 words; lacking: {lacking}"}
        run_id = lacking.partition(" ")[0] + str(value)
        tell = one("lexical_groundedness", value, run_id=run_id, score=score)
        return Traffic(tell, "shop")

    usual = lacking.partition(", ")[2]
    before, since = shop(0.9, usual), shop(0.5, lacking)
    with watching(weeks, kept) as seen:
        weeks.pass_(HISTORY_H, kept, [(before, 8, None)], seen.look)
        since.sent = before.sent
        weeks.pass_(8, kept, [(since, 20, None)], seen.look)
        ((change, _, _),) = seen.told
    assert change.score == "lexical_groundedness"
    assert f"groundedness lost 0.400; {said}" in change.note


def test_of_two_servers_on_one_store_both_show_a_fall_and_its_end_and_one_tells(weeks, kept):
    shop = Traffic(one(), "shop")
    with watching(weeks, kept, shared=True) as first, watching(weeks, kept, shared=True) as second:

        def look():
            first.look()
            second.look()

        weeks.pass_(HISTORY_H, kept, [(shop, 8, 0.8)], look)
        weeks.pass_(8, kept, [(shop, 20, 0.3)], look)
        assert first.watch.changes(on=True) == second.watch.changes(on=True) != ()
        assert [each.kind for each, _, _ in first.told] == ["fell"]
        weeks.pass_(48, kept, [(shop, 20, 0.8)], look)
        assert first.watch.changes(on=True) == second.watch.changes(on=True) == ()
        assert [each.kind for each, _, _ in first.told] == ["fell", "recovered"]
        assert second.told == []


def test_a_quiet_week_tells_nothing(weeks, kept):
    with watching(weeks, kept) as seen:
        weeks.pass_(HISTORY_H + 168, kept, [(Traffic(one(), "shop"), 8, 0.8)], seen.look)
        assert [each.status for each in seen.watch.series()] == ["watching"]
        assert seen.told == []


def test_nothing_counts_twice_however_often_it_comes_and_is_looked_at(weeks, kept):
    shop = Traffic(one(), "shop")
    with watching(weeks, kept) as seen:
        weeks.pass_(2, kept, [(shop, 5, 0.8)])
        seen.look()
        shop.sent = 0  # the sender comes again: the same requests, by id
        weeks.pass_(1, kept, [(shop, 5, 0.8)], seen.look)
        seen.look()
        assert [each.scores for each in seen.watch.series()] == [10]


def test_what_is_not_complete_waits(weeks, kept):
    shop = Traffic(one(), "shop")
    with watching(weeks, kept) as seen:
        shop.send(kept, [0.5])
        weeks.now += 599.0  # ten minutes are not over
        seen.look()
        assert seen.watch.series() == ()
        weeks.now += 1.0
        seen.look()
        assert [each.scores for each in seen.watch.series()] == [1]


def test_what_was_known_is_learned_from_the_store_and_an_old_fall_is_not_told_again(weeks, kept):
    shop = Traffic(one(), "shop")
    weeks.pass_(HISTORY_H, kept, [(shop, 8, 0.8)])
    weeks.pass_(8, kept, [(shop, 20, 0.3)])
    with watching(weeks, kept) as seen:
        seen.look()
        (fallen,) = seen.watch.changes(on=True)
        assert (fallen.service, fallen.score) == ("shop", "goodness")
        assert seen.told == []


def test_an_application_with_alarms_of_its_own_is_shown_and_not_told(weeks, kept):
    shop = Traffic(one(alarms=True), "shop")
    with watching(weeks, kept) as seen:
        weeks.pass_(HISTORY_H, kept, [(shop, 8, 0.8)], seen.look)
        weeks.pass_(8, kept, [(shop, 20, 0.3)], seen.look)
        assert [each.service for each in seen.watch.changes(on=True)] == ["shop"]
        assert seen.told == []
        assert seen.teller.evidence() == []


def test_what_was_kept_for_being_bad_is_no_case(weeks, kept):
    with watching(weeks, kept) as seen:
        worst = Traffic(one(run_id="w", selection="worst", sample_rate=0.1), "shop")
        sampled = Traffic(one(run_id="s", sample_rate=0.1), "shop")
        weeks.pass_(1, kept, [(worst, 9, 0.1), (sampled, 4, 0.8)], seen.look)
        assert [each.scores for each in seen.watch.series()] == [4]


def test_a_judged_score_weighs_by_the_probability_of_being_judged(weeks, kept):
    llm = {"method": "llm"}
    often = one(run_id="o", value=1.0, score=llm, judged=frozenset({"goodness"}))
    seldom = one(run_id="s", value=0.0, score=llm, judged=frozenset({"goodness"}), judge_sample_rate=0.25)
    by_chance_bad = one(run_id="b", score=llm, judged=frozenset({"goodness"}), judge_selection="worst")
    Traffic(often, "shop").send(kept, [1.0] * 4)
    Traffic(seldom, "shop").send(kept, [0.0])
    Traffic(by_chance_bad, "shop").send(kept, [0.5])
    (slot,) = kept.reader().received(0.0, weeks.now + 300.0)
    ((_, counted),) = slot.sums
    sums = counted.sums
    assert (sums["k"], sums["w"], sums["wy"]) == (6.0, 9.0, 4.5)
    # A detector is fed what chance chose alone.
    assert counted.values == (5.0, 4.0, 4.0)


def test_the_parts_of_a_workflow_that_the_application_names_are_watched(weeks, kept):
    for tenant, mean in (("acme", 1.0), ("umbrella", 0.0)):
        tell = one(run_id=tenant, segments={"metadata.tenant": tenant, "language": "zh"})
        Traffic(tell, "shop").send(kept, [mean] * 3)
    (slot,) = kept.reader().received(0.0, weeks.now + 300.0)
    assert {counted.segment: (counted.sums["kd"], counted.sums["x"]) for _, counted in slot.sums} == {
        "": (6.0, 3.0),
        "language:zh": (6.0, 3.0),
        "metadata.tenant:acme": (3.0, 3.0),
        "metadata.tenant:umbrella": (3.0, 0.0),
    }


def test_what_judging_cost_and_who_judged_reach_the_store_and_stay_unknown_where_they_are(weeks, kept):
    judged = {"method": "llm", "judge_calls": 1, "input_tokens": 1_000, "output_tokens": 100}
    priced = JudgeIdentity(model="m-1", endpoint="azure", input_price=2.0, output_price=8.0)
    unpriced = JudgeIdentity(model="m-2", endpoint="local", input_price=2.0)
    for run_id, judge in (("p", priced), ("u", unpriced)):
        Traffic(one(run_id=run_id, score=judged, judge=judge), "shop").send(kept, [0.5])
    reader = kept.reader()
    use = reader.overview(Filters(since_ms=0, until_ms=int(DAY * 1000))).judge
    assert (use.calls, use.priced) == (2, 1)
    assert use.cost == pytest.approx(0.0028)
    seen = {
        (score.judge, score.endpoint, score.cost)
        for run_id in ("p-1", "u-1")
        for score in reader.request(run_id).scores
    }
    assert seen == {("m-1", "azure", 0.0028), ("m-2", "local", None)}


def test_either_kind_of_store_counts_what_came_and_finds_it_by_the_parts_that_were_named(weeks, fresh):
    with store(fresh(), clock=weeks.clock) as kept:
        tell = one(run_id="a", segments={"index_version": "7"}, alarms=True)
        Traffic(tell, "shop").send(kept, [0.5, 1.0])
        Traffic(one(run_id="b", segments={"index_version": "8"}), "shop").send(kept, [0.0])
        reader = kept.reader()
        (slot,) = reader.received(0.0, weeks.now + 300.0)
        assert slot.self_reporting == (("shop", ""),)
        assert {counted.segment: counted.sums["kd"] for _, counted in slot.sums} == {
            "": 3.0,
            "index_version:7": 2.0,
            "index_version:8": 1.0,
        }
        asked = Filters(since_ms=0, until_ms=int(DAY * 1000), segment="index_version:7")
        assert {each.run_id for each in reader.requests(asked).requests} == {"a-1", "a-2"}
