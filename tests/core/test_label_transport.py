"""Labels of another time: Rogan and Gladen's share with Lang and Reiczigel's interval."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmeter.quality.agreement import Confusion
from ragmeter.quality.label_transport import transport_share

ERRORS = Confusion(good_good=108, good_bad=12, bad_good=24, bad_bad=56)


def test_a_share_worked_out_by_hand():
    """Without the added pairs: (.64 + .7 - 1) / (.9 + .7 - 1) = .567."""
    found = transport_share(0.64, 1e9, Confusion(90_000, 10_000, 30_000, 70_000))
    assert found.share == pytest.approx(0.34 / 0.6, abs=1e-3)
    assert found.upper - found.lower < 0.02
    assert (found.status, found.n_labelled) == ("ok", 200_000)


@pytest.mark.parametrize(
    ("errors", "k_eff", "status"),
    [
        (Confusion(60, 5, 10, 24), 300, "few_labels"),  # 99
        (Confusion(100, 10, 9, 20), 300, "few_labels"),  # 29 bad ones
        (Confusion(10, 19, 40, 60), 300, "few_labels"),  # 29 good ones
        (Confusion(60, 40, 55, 45), 300, "judge_tells_nothing"),
        (ERRORS, 0, "nothing_judged"),
    ],
)
def test_where_nothing_can_be_said_nothing_is(errors, k_eff, status):
    found = transport_share(0.6, k_eff, errors)
    assert (found.share, found.lower, found.upper, found.status) == (None, 0.0, 1.0, status)


@settings(derandomize=True)
@given(st.floats(0, 1), st.floats(1, 1e6), st.lists(st.integers(30, 300), min_size=4, max_size=4))
def test_the_share_lies_in_its_interval(judge_good, k_eff, cells):
    found = transport_share(judge_good, k_eff, Confusion(*cells))
    assert 0.0 <= found.lower <= (found.share if found.share is not None else 0.5) <= found.upper <= 1


def test_it_holds_after_a_fall():
    """Labels from when 80 % were good, 50 % are now: 400 worlds with a fixed seed."""
    chance = random.Random(7)
    held = said = 0
    for _ in range(400):
        cells = dict.fromkeys(((True, True), (True, False), (False, True), (False, False)), 0)
        for _ in range(250):
            good = chance.random() < 0.8
            cells[good, chance.random() < (0.9 if good else 0.3)] += 1
        errors = Confusion(*cells.values())
        k = 300
        says = sum(chance.random() < (0.9 if chance.random() < 0.5 else 0.3) for _ in range(k))
        found = transport_share(says / k, k, errors)
        said += found.share is not None
        held += found.share is not None and found.lower <= 0.5 <= found.upper
    assert said > 390
    assert held / said >= 0.93
