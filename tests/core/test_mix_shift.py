"""A difference of two means, taken apart into other questions and worse answers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.quality.estimate import estimate
from ragmeter.quality.moments import FreeMoments
from ragmeter.watch.mix_shift import mix_change


def _part(mean, n):
    return estimate(FreeMoments([n, n, n * mean, n * (mean * mean + 0.01), n, 0.0, *[0.0] * 4]))


@pytest.fixture(autouse=True)
def _names():
    assert FreeMoments.names[:5] == ("n", "kd", "x", "xx", "wb")


def test_other_shares_of_equal_parts_are_all_mix():
    found = mix_change(
        {"en": _part(0.9, 900), "zh": _part(0.5, 100)}, {"en": _part(0.9, 100), "zh": _part(0.5, 900)}
    )
    assert found.mix.value == pytest.approx(-0.32)
    assert found.within.value == pytest.approx(0.0)
    assert found.mix.upper < 0.0
    assert found.within.lower < 0.0 < found.within.upper


def test_worse_parts_of_equal_shares_are_no_mix():
    found = mix_change(
        {"en": _part(0.9, 500), "zh": _part(0.5, 500)}, {"en": _part(0.8, 500), "zh": _part(0.4, 500)}
    )
    assert found.within.value == pytest.approx(-0.1)
    assert found.within.upper < 0.0
    assert found.mix.value == pytest.approx(0.0)
    assert found.mix.lower < 0.0 < found.mix.upper


def test_a_part_that_comes_is_mix_and_nothing_known_is_none():
    found = mix_change({"en": _part(0.9, 500)}, {"en": _part(0.9, 500), "zh": _part(0.3, 500)})
    assert found.mix.value == pytest.approx(-0.3)
    assert found.within.value == 0.0
    assert mix_change({}, {"en": _part(0.9, 500)}) is None
    assert mix_change({"en": _part(0.5, 2)}, {"en": _part(0.5, 2)}) is None


_PARTS = st.dictionaries(
    st.sampled_from(["en", "ru", "zh", "other"]),
    st.tuples(st.floats(0.0, 1.0), st.integers(10, 10_000)),
    min_size=1,
)


@given(_PARTS, _PARTS)
def test_the_two_add_up_to_the_whole_and_turned_over_change_their_sign(before, now):
    names = before.keys() & now.keys()
    if not names:
        return
    earlier, later = ({name: _part(*given[name]) for name in sorted(names)} for given in (before, now))

    def whole(parts):
        n = sum(part.n_requests for part in parts.values())
        return sum(part.mean * part.n_requests / n for part in parts.values())

    found, turned = mix_change(earlier, later), mix_change(later, earlier)
    assert math.isclose(found.total, whole(later) - whole(earlier), abs_tol=1e-9)
    assert math.isclose(found.mix.value, -turned.mix.value, abs_tol=1e-9)
    assert math.isclose(found.within.value, -turned.within.value, abs_tol=1e-9)
