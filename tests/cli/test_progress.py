"""What is told of a long run where there is no terminal."""

import io
import re

import pytest
from rich.console import Console

from ragmeter.cli import _progress
from ragmeter.cli._progress import progress


def lines(total, label="scoring"):
    file = io.StringIO()
    with progress(label, total, Console(file=file, width=200)) as advance:
        for number in range(total):
            advance(f"row {number + 1}")
    return file.getvalue().splitlines()


@pytest.mark.parametrize("total", [1, 2, 9, 100, 1000])
def test_the_first_step_tells_no_time_and_the_last_none_left(total):
    """It has its warming up, and those that run beside it have not ended."""
    said = lines(total)

    assert said[0] == f"scoring 1/{total}: row 1"
    if total > 1:
        assert re.fullmatch(rf"scoring {total}/{total}, \d+\.\d/s, 0 s left: row {total}", said[-1])
    assert len(said) <= 12


def test_an_estimate_comes_with_a_tenth_of_the_steps(monkeypatch):
    monkeypatch.setattr(_progress, "LINE_AFTER_S", 0.0)
    said = lines(100)

    assert said[1].startswith("scoring 10/100, ")
    assert "s left" in said[1]
