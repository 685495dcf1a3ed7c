"""JSON lines are parted at newlines only, and whatever a text holds comes back, in every file of the house."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics._files.json_lines import as_line, lines_of, object_of, read_objects

PARTING = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\udc80i"
"""Every character at which `str.splitlines` parts a text, and one that has no UTF-8."""


@given(st.lists(st.dictionaries(st.text(), st.text() | st.just(PARTING), max_size=3), max_size=5))
def test_what_is_written_is_read_again(values):
    whole = b"".join(map(as_line, values))

    assert whole.count(b"\n") == len(values)
    assert list(read_objects(whole)) == values


def test_numbers_count_blank_lines_and_a_byte_order_mark_is_none():
    assert list(lines_of(b'\xef\xbb\xbf{"a": 1}\n\n \n{"b": 2}')) == [(1, b'{"a": 1}'), (4, b'{"b": 2}')]


def test_nan_is_read_as_nothing_and_never_written():
    assert object_of(b'{"a": NaN}') == {"a": None}
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_line(float("nan"))


def test_every_writer_of_the_house_keeps_a_text_that_other_readers_part(tmp_path):
    """Golden sets of the page, labels, scores and the exporter's lines: written, read, equal."""
    from ragmeter.quality.labels import Label, append_label, read_labels
    from ragmeter.serve.page._golden import GoldenEntry, GoldenSet

    golden = GoldenSet(tmp_path / "golden.jsonl")
    golden.add(GoldenEntry(question=PARTING, answer=PARTING))
    label = Label(request=PARTING, score="s", value=1.0, rater="r", at="2026-01-01T00:00:00Z")
    append_label(tmp_path / "labels.jsonl", label)

    assert golden.entries() == [GoldenEntry(question=PARTING, answer=PARTING)]
    assert read_labels(tmp_path / "labels.jsonl") == ([label], [])
    for name in ("golden.jsonl", "labels.jsonl"):
        assert json.loads((tmp_path / name).read_bytes().decode())
