"""Those who write at once share one write, and each is told what became of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragmeter.metrics import RagmeterError
from ragmeter.metrics._files.group_commit import GroupCommit

LIMIT_S = 60.0


class Book:
    """Writes numbers, and says each number's double; a negative one spoils its group, a 0 interrupts it."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.commits: GroupCommit[int, int] = GroupCommit(self.write, lambda: RagmeterError("interrupted"))

    def write(self, numbers: Sequence[int]) -> Sequence[int]:
        self.begun.set()
        assert self.go_on.wait(LIMIT_S)
        self.groups.append(list(numbers))
        if min(numbers) < 0:
            raise RagmeterError("spoiled")
        if 0 in numbers:
            raise KeyboardInterrupt
        return [2 * number for number in numbers]

    def while_writing(self, first: int, others: Sequence[int]) -> dict[int, int | str]:
        """Write the first; have the others come meanwhile; return what each was told."""
        self.begun.clear()
        self.go_on.clear()
        told: dict[int, int | str] = {}

        def put(number: int) -> None:
            try:
                told[number] = self.commits.put(number)
            except (RagmeterError, KeyboardInterrupt) as error:
                told[number] = str(error) or type(error).__name__

        with ThreadPoolExecutor(len(others) + 1) as threads:
            done = [threads.submit(put, first)]
            assert self.begun.wait(LIMIT_S)
            done += [threads.submit(put, number) for number in others]
            while len(self.commits._queued) < len(others):
                threading.Event().wait(0.001)
            self.go_on.set()
            for one in done:
                one.result(LIMIT_S)
        return told


def test_those_who_come_meanwhile_share_one_write():
    book = Book()
    told = book.while_writing(1, range(2, 8))
    assert told == {number: 2 * number for number in range(1, 8)}
    assert [sorted(group) for group in book.groups] == [[1], list(range(2, 8))]


def test_a_write_that_fails_is_told_to_all_whose_it_was_and_to_nobody_else():
    book = Book()
    assert book.while_writing(1, [-2, 3]) == {1: 2, -2: "spoiled", 3: "spoiled"}
    assert book.commits.put(4) == 8


def test_who_was_taken_along_by_one_that_was_interrupted_is_told_so():
    book = Book()
    told = book.while_writing(1, [0, 2, 3])
    assert told[1] == 2
    # Whoever wrote for all of them is interrupted itself, and one of the three did.
    assert sorted(map(str, (told[0], told[2], told[3]))) == ["KeyboardInterrupt", "interrupted", "interrupted"]
    assert book.commits.put(4) == 8


def test_nobody_writes_while_another_has_the_turn():
    book = Book()
    with ThreadPoolExecutor(1) as threads:
        with book.commits.turn:
            later = threads.submit(book.commits.put, 1)
            while not book.commits._queued:
                threading.Event().wait(0.001)
            assert book.groups == []
            assert book.commits.put(2) == 4  # the turn's own thread may, and takes the other along
            assert book.groups == [[1, 2]]
        assert later.result(LIMIT_S) == 2


def test_who_writes_alone_is_told_of_every_failure():
    book = Book()
    with pytest.raises(RagmeterError, match="spoiled"):
        book.commits.put(-1)
    with pytest.raises(KeyboardInterrupt):
        book.commits.put(0)
    assert book.commits.put(1) == 2
