"""What was counted here and elsewhere becomes one, where it is the same."""

from ragmeter.exporters.protocol import QualitySums
from ragmeter.quality.joined import Joined
from ragmeter.quality.sums import SlotSums

SHOP = {"service.name": "shop"}


def slot(value, *, judge="", score="s", resource=None, at=0.0):
    """Sums of one score in five minutes."""
    return SlotSums(
        at,
        QualitySums(
            score=score,
            workflow="qa",
            judge=judge,
            resource=SHOP if resource is None else resource,
            sums={"n": value, "x": value / 2},
        ),
    )


def sums(found):
    return [(one.counted.resource["service.name"], one.counted.sums["n"]) for one in found]


def test_the_same_score_of_the_same_service_adds_up():
    (one,) = Joined().of([slot(2.0)], [slot(3.0)])
    assert one.counted.sums == {"n": 5.0, "x": 2.5}


def test_what_differs_stays_apart():
    bank = slot(3.0, resource={"service.name": "bank"})
    assert sums(Joined().of([slot(2.0)], [bank])) == [("shop", 2.0), ("bank", 3.0)]


def test_of_two_judges_the_one_of_this_process_is_watched_from_then_on():
    joined = Joined()
    assert sums(joined.of([], [slot(1.0, judge="b")])) == [("shop", 1.0)]
    assert sums(joined.of([slot(2.0, judge="a")], [slot(3.0, judge="b")])) == [("shop", 2.0)]
    assert joined.of([], [slot(3.0, judge="b")]) == []
    assert sums(joined.of([], [slot(3.0, judge="a")])) == [("shop", 3.0)]
