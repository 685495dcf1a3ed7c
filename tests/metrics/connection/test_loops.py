"""What belongs to an event loop: one each, made once. Forks: see `test_fork`."""

import asyncio

from ragmeter.metrics._connection.loops import PerLoop


def test_each_loop_has_its_own_until_it_is_taken():
    things = PerLoop(object)

    async def look():
        first = things.here()
        assert things.here() is first
        taken, nothing = things.take(), things.take()
        assert (taken is first, nothing) == (True, None)
        return first, things.here()

    one, two = asyncio.run(look()), asyncio.run(look())

    assert len({id(thing) for thing in (*one, *two)}) == 4
