"""Data from others, at random and nearly right: no crash, no hang, no false score."""

import json
from pathlib import Path

import pytest
from fuzz_targets import (
    TARGETS,
    notes,
    payloads,
    recordings,
    reference_files,
    replies,
    rows,
    span_values,
    texts,
    within,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

WORDS = st.sampled_from(
    (
        "question contexts context answer reference text id score metadata tags name user_id query "
        "documents source_documents page_content messages chunks lines words texts pairs true false "
        "verdict reason c1 c2 s1 a1 t1 p1 supported input output result"
    ).split()
)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | WORDS | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=5),
    max_leaves=20,
)
NEARLY = JSON.map(lambda value: json.dumps(value).encode())
LINES = st.lists(NEARLY | st.binary(max_size=20), max_size=5).map(b"\n".join)
LETTERS = st.text(
    st.sampled_from(list("aA.!? \n\x1f\x00«»\"'-,;:0159%$中文。，的дом Иё\u0301\u200b\ufeff\U0001f600İß")),
    max_size=120,
).map(lambda text: text.encode())
_RECORDING = next((Path(__file__).parent.parent / "adapters/recorded_spans").rglob("*.pb")).read_bytes()
RECORDED = st.tuples(
    st.integers(0, len(_RECORDING)), st.integers(0, len(_RECORDING)), st.binary(max_size=8)
).map(lambda cut: _RECORDING[: cut[0]] + cut[2] + _RECORDING[cut[1] :])
INPUTS = {
    texts: LETTERS | st.binary(max_size=200),
    reference_files: LINES | LETTERS,
    rows: LINES | LETTERS,
    replies: NEARLY | LETTERS | st.binary(max_size=100),
    notes: NEARLY | st.binary(max_size=60),
    payloads: NEARLY | LETTERS,
    recordings: RECORDED | LINES | st.binary(max_size=200),
    span_values: NEARLY | LETTERS | st.binary(max_size=60),
}


@pytest.mark.contains_errors
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_nothing_that_others_write_breaks_a_promise(target):
    """See the target's own promise."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]

    @settings(deadline=None, suppress_health_check=checks)
    @given(INPUTS[target])
    def run(data):
        with within(data):
            target(data)

    run()


LONG = {
    "one word": b"a" * 200_000,
    "words": b"word " * 40_000,
    "full stops": b". " * 60_000,
    "quotes": b'"' * 100_000,
    "brackets": b"[" * 100_000,
    "objects": b'{"a":' * 20_000,
    "han": "文".encode() * 50_000,
    "numbers": b"1,000.5 " * 20_000,
    "capitals": b"Anna Bella " * 15_000,
    "fences": b"```json\n{}\n" * 10_000,
    "thinking": b"<think>" * 20_000,
    "separators": b"\x1f" * 3_000,
    "commas": b",;\t" * 30_000,
}


@pytest.mark.contains_errors
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_long_monotonous_input_takes_no_more_than_its_length_allows(target, name):
    data = LONG[name]
    with within(data):
        target(data)
