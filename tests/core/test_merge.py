"""What was counted here and elsewhere becomes one, where it is the same."""

from ragmeter.exporters.protocol import QualitySums
from ragmeter.quality.merge import merge_sums
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
    (one,) = merge_sums([slot(2.0)], [slot(3.0)])
    assert one.counted.sums == {"n": 5.0, "x": 2.5}


def test_what_differs_stays_apart():
    bank = slot(3.0, resource={"service.name": "bank"})
    assert sums(merge_sums([slot(2.0)], [bank])) == [("shop", 2.0), ("bank", 3.0)]


def test_two_judges_measure_two_quantities_and_stay_apart():
    found = merge_sums([slot(2.0, judge="a")], [slot(3.0, judge="b"), slot(4.0, judge="a")])
    assert {one.counted.judge: one.counted.sums["n"] for one in found} == {"a": 6.0, "b": 3.0}
