"""Which entity stands in which text: files of pairs in English, Russian and Chinese."""

import json
from pathlib import Path

from ragmeter.metrics.text.entities import stands_in


def pairs(name):
    lines = Path(__file__).with_name(name).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if not line.startswith("#")]


def test_what_is_mentioned_stands_in_the_text_and_nothing_else_does():
    assert [pair for pair in pairs("mentioned.txt") if not stands_in(*pair)] == []
    assert [pair for pair in pairs("not_mentioned.txt") if stands_in(*pair)] == []
