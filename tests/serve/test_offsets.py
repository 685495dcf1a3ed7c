"""What the broker is told never goes beyond a message that is not done, in whatever order messages are done."""

from hypothesis import given
from hypothesis import strategies as st

from ragmeter.serve._offsets import Offsets

A, B = ("spans", 0), ("spans", 1)


def test_the_offset_stays_behind_the_oldest_message_that_is_not_done():
    offsets = Offsets()
    first, second, third = (offsets.read(A, number) for number in (7, 8, 12))
    assert offsets.due() == {A: 7}
    offsets.settle([second])
    assert offsets.due() == {A: 7}
    offsets.settle([first])
    assert offsets.due() == {A: 12}
    offsets.settle([third])
    assert offsets.due() == {A: 13}


def test_what_the_broker_knows_is_told_once_and_again_where_it_refused():
    offsets = Offsets()
    offsets.settle([offsets.read(A, 3), offsets.read(B, 5)])
    offsets.note_committed(offsets.due())
    assert offsets.due() == {}
    offsets.note_refused([B])
    assert offsets.due() == {B: 6}


def test_a_message_for_which_there_was_no_room_is_to_be_read_again():
    offsets = Offsets()
    offsets.settle([offsets.read(A, 3)])
    offsets.put_back(offsets.read(A, 4))
    assert offsets.due() == {A: 4}
    offsets.settle([offsets.read(A, 4)])
    assert offsets.due() == {A: 5}


def test_nothing_is_told_of_a_partition_that_was_given_up():
    offsets = Offsets()
    mine, other = offsets.read(A, 3), offsets.read(B, 5)
    assert offsets.give_up([A]) == {mine}
    offsets.settle([mine, other])
    assert offsets.due() == {B: 6}
    assert offsets.behind(A) is None
    assert offsets.behind(B) == 6


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=80))
def test_no_message_that_is_not_done_is_ever_left_behind(steps):
    """Each step reads the next message of one of two partitions, or has one done that was read."""
    offsets = Offsets()
    unfinished = {A: {}, B: {}}
    following = {A: 100, B: 200}
    for is_read, number in steps:
        partition = (A, B)[number % 2]
        if is_read:
            offset = following[partition]
            following[partition] += 1
            unfinished[partition][offset] = offsets.read(partition, offset)
        elif unfinished[partition]:
            offset = sorted(unfinished[partition])[number % len(unfinished[partition])]
            offsets.settle([unfinished[partition].pop(offset)])
        for one in (A, B):
            expected = min(unfinished[one], default=following[one])
            assert offsets.behind(one) in (None, expected)
            assert offsets.due().get(one, expected) == expected
