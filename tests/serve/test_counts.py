"""When senders were told to come again, and how often."""

from ragmeter.serve._counts import Counts, Overload


def test_refusals_close_together_are_of_one_time():
    now = [1_000.0]
    counts = Counts(lambda: now[0])
    for at, why in ((1_000, "full"), (1_030, "full"), (1_089, "too many"), (1_150, "full"), (1_150, "full")):
        now[0] = float(at)
        counts.busy(why)
    assert counts.overloads() == [
        Overload(from_ms=1_000_000, until_ms=1_089_000, refused=3, why={"full": 2, "too many": 1}),
        Overload(from_ms=1_150_000, until_ms=1_150_000, refused=2, why={"full": 2}),
    ]
    assert counts.totals("exports") == {"busy": 5}


def test_a_clock_that_is_set_back_makes_no_time_end_before_it_begins():
    now = [1_000.0]
    counts = Counts(lambda: now[0])
    counts.busy("full")
    now[0] = 400.0
    counts.busy("full")
    assert counts.overloads() == [Overload(from_ms=1_000_000, until_ms=1_000_000, refused=2, why={"full": 2})]


def test_what_is_kept_of_it_is_bounded():
    now = [0.0]
    counts = Counts(lambda: now[0])
    for number in range(1_000):
        now[0] += 100.0
        counts.busy(f"reason {number}")
    for number in range(1_000):
        counts.busy(f"reason {number}")
    told = counts.overloads()
    assert len(told) == 100
    assert len(told[-1].why) == 8
    assert told[-1].refused == 1_001
    assert counts.totals("exports") == {"busy": 2_000}
