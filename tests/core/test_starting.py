"""Starting threads elsewhere: a script waits for them a moment, an event loop never does."""

import asyncio
import threading

from ragmeter._runtime import threads as starting


def test_a_script_waits_until_its_threads_run():
    """Its main thread may end right after the request, and none can start then."""
    begun = threading.Event()

    assert starting.start_elsewhere(begun.set)
    assert begun.is_set()


def test_an_event_loop_is_not_blocked(monkeypatch):
    """Not even for the fifth of a millisecond that it takes."""
    waited = []
    monkeypatch.setattr(starting.Bell, "wait", lambda bell, timeout_s=None: waited.append(bell))
    begun = threading.Event()

    async def request():
        return starting.start_elsewhere(begun.set)

    assert asyncio.run(request())
    assert begun.wait(30)
    assert waited == []
