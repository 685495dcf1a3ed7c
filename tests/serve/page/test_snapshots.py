"""What is computed once for everybody."""

import contextvars
import gc
import threading
import weakref

from ragmeter.serve.page._snapshots import LEAST_S, MOST_KEPT, MOST_S, SHOWN, Snapshots


class Source:
    def __init__(self):
        self.revision, self.now, self.made = 1, 100.0, 0
        self.snapshots = Snapshots(lambda: self.revision, lambda: self.now)

    def get(self, key="overview"):
        return self.snapshots.get(self.make, key)

    def make(self, _):
        self.made += 1
        return self.made


def test_what_nothing_changed_is_kept_for_a_while():
    source = Source()

    source.get()
    source.now += MOST_S - 1
    assert source.get() == 1
    source.now += 2
    assert source.get() == 2


def test_what_came_shows_after_two_seconds_at_the_earliest():
    source = Source()

    source.get()
    source.revision = 2
    source.now += LEAST_S
    assert source.get() == 1
    source.now += 0.1
    assert source.get() == 2


def test_every_view_is_one_of_its_own_and_few_are_kept():
    source = Source()

    for at in range(MOST_KEPT + 1):
        source.get(at)
    assert source.get(MOST_KEPT) == MOST_KEPT + 1
    assert source.get(0) == MOST_KEPT + 2


def test_what_is_too_old_to_be_shown_is_not_kept():
    """A reader who goes through a list leaves nothing behind."""
    source, asked = Source(), []

    class View:
        """What can be watched being let go of."""

    for _ in range(3):
        view = View()
        asked.append(weakref.ref(view))
        source.snapshots.get(lambda view=view: view)
    del view
    assert None not in [one() for one in asked]
    source.now += MOST_S + 1
    source.get("another")
    gc.collect()

    assert [one() for one in asked] == [None, None, None]


def test_who_asks_for_the_same_at_once_waits_for_the_first():
    source = Source()
    begun, go = threading.Event(), threading.Event()
    got = []

    def slow():
        begun.set()
        assert go.wait(30)
        return source.make("slow")

    first = threading.Thread(target=lambda: got.append(source.snapshots.get(slow)))
    first.start()
    assert begun.wait(30)
    second = threading.Thread(target=lambda: got.append(source.snapshots.get(slow)))
    second.start()
    go.set()
    first.join(30)
    second.join(30)

    assert got == [1, 1]


def test_a_page_knows_the_revision_of_its_oldest_view():
    source = Source()
    source.get("services")
    source.revision = 2

    def page():
        SHOWN.set(source.revision)
        source.get("services")
        source.get("overview")
        return SHOWN.get()

    assert contextvars.copy_context().run(page) == 1
