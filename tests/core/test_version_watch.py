"""A meter without a server says on its first day that a version is worse, once, over restarts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragmeter import Alarms, Change, RagMeter
from ragmeter.metrics.computed.support import Support
from ragmeter.watch.wording import word_change

CARRIED = "The invoice is due within thirty days of the delivery."
INVENTED = "Bread rises overnight in a warm kitchen near the window."


def _said(path: Path, told: dict[str, str], answers: dict[str, int]) -> list[Change]:
    """Let a process of its own answer so many requests each, and return what it says of changes."""
    meter = RagMeter(exporters=[], alarms=Alarms(state=path))
    said: list[Change] = []
    meter.on_change(said.append)
    for answer, count in answers.items():
        for number in range(count):
            with meter.request(f"When is invoice {number} due?", metadata=told) as one:
                one.retrieved([CARRIED])
                one.answered(answer)
    assert meter.flush(60)
    meter.shutdown(60)
    return said


@pytest.mark.parametrize(
    ("name", "lead", "beside"),
    [
        ("service.version", "3 is worse than 2", "model = n"),
        ("index_version", "3 is worse than 2", "model = n"),
        ("prompt_version", "3 is worse than 2", "model = n"),
        ("deployment.id", "n is worse than m", "deployment.id = 3"),
        ("tenant", "n is worse than m", "tenant = 3"),
    ],
)
def test_a_worse_version_is_told_once(tmp_path: Path, name: str, lead: str, beside: str) -> None:
    path = tmp_path / "watch.json"
    assert _said(path, {name: "1", "model": "m"}, {CARRIED: 57, INVENTED: 3}) == []
    assert _said(path, {name: "2", "model": "m"}, {CARRIED: 58, INVENTED: 2}) == [], "as good"

    [change] = _said(path, {name: "3", "model": "n"}, {INVENTED: 50, CARRIED: 10})

    assert change.kind == "version"
    assert re.fullmatch(
        rf"{lead} since \S+ \S+ UTC: \w+ 0\.9\d → 0\.\d\d \[-0\.\d\d, -0\.\d\d\]; "
        rf"bad answers \d+% → \d+%; new at the same moment: {beside} \(.+\)",
        word_change(change),
    )
    assert _said(path, {name: "3", "model": "n"}, {INVENTED: 50}) == [], "people know"


def test_another_formula_that_came_with_a_version_is_no_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "watch.json"
    assert _said(path, {"index_version": "1"}, {CARRIED: 60}) == []
    monkeypatch.setattr(Support, "definition", "another")

    assert _said(path, {"index_version": "2"}, {INVENTED: 60}) == []


def test_what_comes_back_or_is_an_id_is_no_version(tmp_path: Path) -> None:
    path = tmp_path / "watch.json"
    _said(path, {"index_version": "1"}, {CARRIED: 40})
    _said(path, {"index_version": "2"}, {CARRIED: 40})

    assert _said(path, {"index_version": "1"}, {INVENTED: 60}) == []
    assert _said(path, {}, {INVENTED: 60}) == []
