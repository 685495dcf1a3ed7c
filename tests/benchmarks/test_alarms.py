"""Alarms on simulated weeks: a few, with seeds that are the same in every run; the pictures of the guide."""

import importlib
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="benchmarks need Python 3.11"),
]
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def imported(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_nothing_falls_and_there_is_no_alarm(imported):
    """Traffic and quality follow the hour, requests come in sessions: a fortnight each after learning."""
    alarms = imported("alarms")
    import numpy as np

    for scene in alarms.STEADY:
        traffic = alarms.world(scene, 200, 4, np.random.default_rng(5))
        assert alarms.falls(traffic) == [], scene.name


def test_a_fall_is_alarmed_in_time(imported):
    """Twice as long as stated is allowed: this is one world, not the median of many."""
    alarms = imported("alarms")
    rows = {row.what: row.ours for row in alarms.delay_rows(1, (200, 1000))}

    assert rows["hours until a fall of 0.1 is alarmed, 200/h"] <= 8
    assert rows["hours until a fall of 0.2 is alarmed, 200/h"] <= 2
    assert rows["hours until a fall of 0.1 is alarmed, 1000/h"] <= 2
    assert rows["hours until a fall of 0.2 is alarmed, 1000/h"] <= 1


def words_of(picture):
    return [one.text for one in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_pictures_show_an_alarm_and_none(imported):
    """Drawn again they say what those of the guide say: ``python benchmarks/alarms_plot.py`` writes them."""
    pictures = imported("alarms_plot").pictures()
    words = {name: words_of(picture) for name, picture in pictures.items()}

    assert "over" in words["alarm-fall.svg"]
    assert any(one.startswith("alarm, ") for one in words["alarm-fall.svg"])
    assert not {"over", "the fall", "still bad"} & set(words["alarm-none.svg"])
    images = BENCHMARKS.parent / "docs" / "images"
    assert words == {name: words_of((images / name).read_text("utf-8")) for name in pictures}
