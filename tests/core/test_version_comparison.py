"""A new version is compared with the one before from its first day: seldom wrong, soon right."""

import random

import pytest

from ragmeter.watch.version_comparison import (
    ERROR_RATE,
    ComparedValue,
    compare_versions,
    detectable_fall,
    error_share,
    is_version_key,
)


def traffic(chance, count, *, fall=0.0, turns=(1,), first=0):
    """Values of requests, a share of them bad, in conversations whose turns are alike."""
    found, left, unit = [], 0, first
    for _ in range(count):
        if not left:
            unit, left = unit + 1, chance.choice(turns)
            cell = chance.choice(("en", "en", "ru", "zh")), chance.choice(("help", "order"))
            is_bad = chance.random() < 0.12 + fall
        left -= 1
        value = chance.uniform(0, 0.4) if is_bad else min(1.0, chance.gauss(0.93, 0.07))
        found.append(ComparedValue(cell, unit, value))
    return found


@pytest.mark.parametrize("turns", [(1,), (1, 1, 2, 4)])
def test_of_shuffled_traffic_nothing_is_said_however_often_one_looks(turns):
    chance, said = random.Random(7), 0
    for _ in range(300):
        whole = traffic(chance, 700, turns=turns)
        order = {unit: chance.random() for unit in {one.unit for one in whole}}
        whole.sort(key=lambda one: order[one.unit])
        looks = (compare_versions(whole[:450], whole[450:at], ERROR_RATE) for at in range(475, 701, 25))
        said += any(one is not None and one.effect != "none" for one in looks)

    assert said <= 300 * ERROR_RATE


def test_a_fall_is_found_within_sixty_requests():
    chance, found = random.Random(3), []
    for _ in range(40):
        before, after = traffic(chance, 900), traffic(chance, 200, fall=0.45, first=10_000)
        looks = ((at, compare_versions(before, after[:at], error_share(1))) for at in range(30, 201, 5))
        found.append(next(at for at, one in looks if one is not None and one.effect == "worse"))
    found.sort()

    assert found[len(found) // 2] <= 45
    assert found[int(len(found) * 0.9)] <= 60


def test_other_questions_are_no_fall():
    """Half as many of the easy kind: the mean of all falls by 0.3, that of no kind does."""
    rows = [ComparedValue(kind, at, 0.9 - 0.6 * (kind == "hard") + at % 7 / 100)
            for at, kind in enumerate(["easy"] * 400 + ["hard"] * 100 + ["easy"] * 100 + ["hard"] * 150)]  # fmt: skip
    said = compare_versions(rows[:500], rows[500:], ERROR_RATE)

    assert said.effect == "none"
    assert abs(said.difference) < 0.02


def test_a_conversation_counts_once_and_on_one_side():
    before = [ComparedValue("a", at, 0.9) for at in range(100)]
    one = [ComparedValue("a", "long", 0.0)] * 500
    straddling = [ComparedValue("a", at, 0.0) for at in range(100)]

    assert compare_versions(before, one, ERROR_RATE) is None
    assert compare_versions(before, straddling, ERROR_RATE) is None


def test_all_comparisons_together_use_up_one_error_rate():
    shares = [error_share(at) for at in range(1, 10_000)]

    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(ERROR_RATE, rel=1e-3)
    assert sum(shares) < ERROR_RATE


def test_what_would_be_found_is_said_of_what_is_known():
    assert detectable_fall(29, 0.1) is None
    assert detectable_fall(500, 0.05) < detectable_fall(500, 0.1) < 0.5


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("service.version", True), ("deployment.id", True), ("prompt_version", True), ("model", True),
     ("tenant", True), ("deployment.environment.name", False), ("deployment.environment", False), ("user", False)],
)  # fmt: skip
def test_which_metadata_says_that_something_was_deployed(name, is_one):
    assert is_version_key(name) is is_one
