"""The bounded table of requests in flight, which both adapters keep: entries, bytes, age."""

import os
import threading

import pytest
from forked import in_child
from hypothesis import given
from hypothesis import strategies as st
from moved_clock import MovedClock

from ragmeter.adapters._open_requests import MAX_REMEMBERED, OpenRequests, ReportedOnce


def table(**bounds: float) -> tuple[OpenRequests[str, str], list[str], MovedClock]:
    """A table, the keys it gave up, and its clock."""
    given_up: list[str] = []
    clock = MovedClock()
    made: OpenRequests[str, str] = OpenRequests(
        lambda key, _: given_up.append(key),
        clock=clock,
        **bounds,  # type: ignore[arg-type]
    )
    return made, given_up, clock


def test_oldest_go_beyond_a_number() -> None:
    """The newest stay; what was closed in between is not given up."""
    requests, given_up, _ = table(max_requests=2)
    for key in "abc":
        requests.open(key, key.upper())
    assert requests.close("b") == "B"
    requests.open("d", "D")

    assert given_up == ["a"]
    assert requests.values() == ["C", "D"]
    assert requests.close("a") is None


def test_oldest_go_beyond_a_size() -> None:
    """Bytes are counted per request and leave with it."""
    requests, given_up, _ = table(max_bytes=10)
    requests.open("a", "A")
    requests.grow("a", 6)
    requests.grow("a", 2)
    requests.open("b", "B")
    requests.grow("b", 5)
    requests.grow("unknown", 1_000)
    assert (given_up, requests.size_bytes("a"), requests.size_bytes("b")) == ([], 8, 5)
    requests.open("c", "C")
    requests.open("d", "D")

    assert given_up == ["a"]
    assert requests.size_bytes("a") == 0


def test_those_beyond_an_age_go() -> None:
    """Swept when the next one opens: there is no timer."""
    requests, given_up, clock = table(max_age_s=60)
    requests.open("a", "A")
    clock.now = 50
    requests.open("b", "B")
    clock.now = 61
    assert given_up == []
    requests.open("c", "C")

    assert given_up == ["a"]
    assert len(requests) == 2


def test_the_request_that_opens_is_never_given_up() -> None:
    """Even if it alone is too much."""
    requests, given_up, _ = table(max_requests=0, max_bytes=0)
    requests.open("a", "A")

    assert (requests.get("a"), given_up) == ("A", [])


def test_giving_up_happens_outside_the_lock() -> None:
    """`on_evict` may use the table, also from another thread."""
    seen: list[int] = []

    def told(key: str, request: str) -> None:
        thread = threading.Thread(target=lambda: seen.append(len(requests.values())))
        thread.start()
        thread.join(60)

    requests: OpenRequests[str, str] = OpenRequests(told, max_requests=1)
    requests.open("a", "A")
    requests.open("b", "B")

    assert seen == [1]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("open"), st.sampled_from("abcdef"), st.just(0)),
            st.tuples(st.just("close"), st.sampled_from("abcdef"), st.just(0)),
            st.tuples(st.just("grow"), st.sampled_from("abcdef"), st.integers(0, 9)),
            st.tuples(st.just("wait"), st.just(""), st.integers(0, 9)),
        )
    )
)
def test_bounds_hold_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    """After each opening: within number and age; every byte belongs to a request that is open."""
    requests, _, clock = table(max_requests=3, max_bytes=20, max_age_s=15)
    opened: dict[str, float] = {}
    for step, key, amount in steps:
        if step == "open":
            requests.close(key)
            requests.open(key, key)
            opened[key] = clock.now
            assert len(requests) <= 3
            assert all(clock.now - opened[open_key] <= 15 for open_key in requests.values())
        elif step == "close":
            requests.close(key)
            assert requests.get(key) is None
        elif step == "grow":
            requests.grow(key, amount)
        else:
            clock.now += amount
        assert requests._bytes == sum(requests.size_bytes(open_key) for open_key in "abcdef")
    requests.clear()

    assert (len(requests), requests._bytes) == (0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_starts_empty() -> None:
    """The parent's requests end in the parent; a lock held at the fork holds nothing up."""
    requests, _, _ = table()
    requests.open("a", "A")

    def open_another() -> object:
        thread = threading.Thread(target=requests.open, args=("b", "B"))
        thread.start()
        thread.join(60)
        return requests.values()

    with requests._lock:
        assert in_child(open_another) == "['B']"
    assert requests.values() == ["A"]


def test_the_ids_of_what_was_reported_are_a_bounded_number() -> None:
    once = ReportedOnce()

    assert [once.is_first("a"), once.is_first("a"), once.is_first("b")] == [True, False, True]
    for number in range(5 * MAX_REMEMBERED):
        assert once.is_first(str(number))
    assert len(once._ids) <= MAX_REMEMBERED
