"""Two judges, or two formulas, of one score are two measurements: never one mean, whatever comes in which order."""

from dataclasses import replace
from operator import attrgetter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from stored import judged, scored, store, told

from ragmeter import Score
from ragmeter.quality.estimates import Estimate
from ragmeter.serve.page._score_rows import score_rows
from ragmeter.serve.page._words import words_in
from ragmeter.serve.store.views import Filters
from ragmeter.watch.change import Change

NOW = 1_800_000_000.0
HOUR = 3600.0
DAY = Filters(range_s=86_400.0)


@pytest.fixture(scope="module")
def run():
    [one] = scored(1)
    return one


def one_request(run, number, judge, value, *, ago_s=HOUR, rate=1.0, definition="1"):
    """A request that one of the judges scored."""
    found = judged(run, at_ms=int((NOW - ago_s) * 1000), model=judge, number=number)
    score = Score(
        name="faithfulness", value=value, status="ok", method="llm", definition=definition,
        target="answer",
    )  # fmt: skip
    kept = {**found.scores, "faithfulness": score}
    # Requests with one question are a conversation, in which those of one judge link those of the other.
    alone = replace(found.run, conversation_id=f"talk-{number}")
    return replace(found, run=alone, scores=kept, judge_sample_rate=rate)


def measurements(kept, filters=DAY):
    """What the overview says of faithfulness, by judge and definition."""
    overview = kept.reader().overview(filters)
    return {(one.judge, one.definition): one for one in overview.measured if one.name == "faithfulness"}


def added_up(kept):
    while kept.maintain():
        pass


_REQUESTS = some.lists(
    some.tuples(
        some.sampled_from([("gpt-4.1", "1"), ("gpt-5", "1"), ("gpt-4.1", "2")]),
        some.sampled_from([0.0, 0.25, 0.5, 1.0]),
        some.sampled_from([1.0, 0.5, 0.25]),
        some.integers(0, 20),
    ),
    min_size=1,
    max_size=16,
)


@settings(max_examples=6, deadline=None)
@given(requests=_REQUESTS)
@example(requests=[(("gpt-4.1", "1"), 1.0, 1.0, 0), (("gpt-5", "1"), 0.0, 1.0, 0)] * 6)
@example(
    requests=[
        (("gpt-5" if n in (4, 7, 8, 11) else "gpt-4.1", "1"), 0.25 if n == 4 else 0.0, 1.0, tenth)
        for n, tenth in enumerate((14, 17, 0, 0, 0, 0, 0, 10, 8, 0, 0, 4))
    ]
)
def test_in_any_order_each_judge_has_the_mean_that_it_has_alone(run, requests):
    runs = [
        (who, one_request(run, number, who[0], value, ago_s=HOUR * (1 + tenth / 10), rate=rate,
                          definition=who[1]))
        for number, (who, value, rate, tenth) in enumerate(requests)
    ]  # fmt: skip
    alone = {}
    for who in {who for who, _ in runs}:
        with store(clock=lambda: NOW) as kept:
            kept.export([one for by, one in runs if by == who])
            alone[who] = measurements(kept)[who]
    with store(clock=lambda: NOW) as kept:
        kept.export([one for _, one in runs])
        for _ in ("as it came", "from sums of hours"):
            found = measurements(kept)
            assert set(found) == set(alone)
            for who, one in found.items():
                assert one.estimate.mean == pytest.approx(alone[who].estimate.mean)
                assert one.estimate.lower == pytest.approx(alone[who].estimate.lower)
                assert one.estimate.n_judged == alone[who].estimate.n_judged
                assert one.estimate.n_requests == alone[who].estimate.n_requests
                assert one.statuses == alone[who].statuses
                assert one.usual == alone[who].usual
            added_up(kept)


def test_after_a_switch_the_new_judge_comes_first_and_beside_a_trial_the_common_one(run):
    old = [one_request(run, n, "old", 0.9, ago_s=7200 - n) for n in range(30)]
    new = [one_request(run, 100 + n, "new", 0.4, ago_s=600 - n) for n in range(6)]
    both = [one_request(run, 200 + n, "old", 0.9, ago_s=600 - n) for n in range(30)]
    with store(clock=lambda: NOW) as kept:
        kept.export([*old, *new])
        overview = kept.reader().overview(DAY)
        [first] = [one for one in overview.scores if one.name == "faithfulness"]
        [other] = [one for one in overview.others if one.name == "faithfulness"]
        assert (first.judge, first.estimate.mean) == ("new", pytest.approx(0.4))
        assert (other.judge, other.estimate.mean) == ("old", pytest.approx(0.9))
        [whole] = [one for one in overview.groups if one.segment == ""]
        assert whole.estimates["faithfulness"].mean == pytest.approx(0.4)
        assert whole.measurements["faithfulness"] == first.measurement != other.measurement
        # The other judged score has two measurements, too; the free ones have one.
        assert {one.name for one in overview.others} == {"faithfulness", "context_precision"}
        kept.export(both)
        overview = kept.reader().overview(DAY)
        [first] = [one for one in overview.scores if one.name == "faithfulness"]
        assert first.judge == "old"


def test_the_page_has_a_row_for_each_and_names_it_only_where_there_are_several(run):
    runs = [one_request(run, n, ("a", "b")[n % 2], (0.9, 0.3)[n % 2]) for n in range(20)]
    with store(clock=lambda: NOW) as kept:
        kept.export(runs)
        overview = kept.reader().overview(DAY)
    rows = score_rows(overview, {}, {}, None, words_in("en"))
    assert sorted((one.by, one.mean) for one in rows if one.score.name == "faithfulness") == [
        ("a", "0.90"), ("b", "0.30"),
    ]  # fmt: skip
    assert {one.by for one in rows if one.score.name.startswith("lexical")} == {""}


def test_a_trend_is_of_one_judge(run):
    with store(clock=lambda: NOW) as kept:
        kept.export(
            [one_request(run, n, ("a", "b")[n % 2], (0.9, 0.3)[n % 2], ago_s=7200 - 60 * n)
             for n in range(60)]
        )  # fmt: skip
        for (judge, _), one in measurements(kept).items():
            means = [point.estimate.mean for point in one.trend]
            assert means == [pytest.approx(0.9 if judge == "a" else 0.3)] * len(means)
            assert means


def test_a_value_is_compared_with_what_is_usual_of_its_own_judge(run):
    """A strict judge's values are not worse than usual since a mild one's are higher."""
    with store(clock=lambda: NOW) as kept:
        kept.export(
            [one_request(run, n, ("mild", "strict")[n % 2], (0.9, 0.3)[n % 2], ago_s=86_000 - n)
             for n in range(60)]
        )  # fmt: skip
        kept.export([one_request(run, 100, "mild", 0.4), one_request(run, 101, "strict", 0.3)])
        page = kept.reader().requests(Filters(range_s=2 * HOUR), sort="worst")
        assert [one.run_id for one in page.requests] == ["run-100", "run-101"]
        assert page.requests[0].excess == pytest.approx(0.5 + page.requests[1].excess)
        [view] = [one for one in kept.reader().request("run-101").scores if one.name == "faithfulness"]
        assert view.usual[0] <= 0.3 < view.usual[1] < 0.5


def test_requests_that_nobody_judged_are_shared_out_and_counted_once(run):
    """Telemetry of a score that was not tried tells no judge."""
    skipped = Score(name="faithfulness", value=None, method="llm", status="skipped", definition="1")
    runs = [one_request(run, n, "a", 0.9, rate=0.25) for n in range(8)]
    runs += [one_request(run, 20 + n, "b", 0.3, rate=0.25) for n in range(4)]
    for n in range(36):
        one = one_request(run, 50 + n, "a", 0.5, rate=0.25)
        runs.append(replace(one, scores={**one.scores, "faithfulness": skipped}))
    with store(clock=lambda: NOW) as kept:
        for body in told(runs):
            kept.take(body)
        found = measurements(kept)
        assert {judge: one.estimate.n_requests for (judge, _), one in found.items()} == {
            "a": 8 + 24, "b": 4 + 12,
        }  # fmt: skip
        assert [one.statuses for one in sorted(found.values(), key=attrgetter("judge"))] == [
            {"ok": 8, "skipped": 36}, {"ok": 4},
        ]  # fmt: skip
        assert found["a", "1"].estimate.mean == pytest.approx(0.9)
        assert found["b", "1"].estimate.mean == pytest.approx(0.3, abs=1e-9) or (
            found["b", "1"].estimate.mean is None
        )


def test_a_new_judge_is_new_since_a_change_also_within_an_hour(run):
    half = Estimate(mean=0.5, lower=0.4, upper=0.6, n_requests=9, n_judged=9, method="all")
    change = Change(
        score="faithfulness", workflow="museum", since=NOW - 1200, at=NOW, before=half, now=half,
        evidence=2.0, kind="fell",
    )  # fmt: skip
    with store(clock=lambda: NOW) as kept:
        kept.export([one_request(run, n, "a", 0.9, ago_s=2400 - n) for n in range(9)])
        kept.export([one_request(run, 20 + n, "b", 0.3, ago_s=900 - n) for n in range(5)])
        [new] = kept.reader().explained(change).new
    assert (new.name, new.value) == ("judge", "b")


def test_detectors_are_fed_each_judge_by_itself(run):
    runs = [one_request(run, n, ("a", "b")[n % 2], (0.9, 0.3)[n % 2]) for n in range(12)]
    with store(clock=lambda: NOW) as kept:
        for body in told(runs):
            kept.take(body)
        [slot] = kept.reader().received(0.0, NOW + 600)
        found = [
            one.counted for one in slot.sums
            if one.counted.score == "faithfulness" and not one.counted.segment
        ]  # fmt: skip
    assert len({one.measured_by for one in found}) == 2
    means = sorted(total / n for n, total, _ in (one.values for one in found))
    assert means == [pytest.approx(0.3), pytest.approx(0.9)]
