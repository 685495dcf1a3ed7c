"""Of what a fall of groundedness consists: the parts of each request add up, and so do those of a fall."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import RagSample, Score, evaluate
from ragmeter.metrics._ungrounded import KINDS, ungrounded
from ragmeter.quality.manner import PARTS, notes_on_fall, parts_of, ungrounded_shares

CHUNK = "The lighthouse of Genoa was built in 1543. It is 77 metres high and stands on a rock. 灯塔在海边。"
SENTENCES = [
    "Based on the provided passages, here is my answer.",
    "The lighthouse was built in 1543.",
    "The lighthouse was built in 1643.",
    "It is 99 metres high.",
    "Elephants paint purple umbrellas every Thursday.",
    "It stands on a wonderful rock.",
    "灯塔在山上。",
    "根据所提供的资料，灯塔在海边。",
    "Маяк построен давно.",
    "I don't know.",
]


def scored(answer: str, contexts: list[str]) -> Score:
    sample = RagSample(question="What of the lighthouse?", contexts=contexts, answer=answer)
    return evaluate([sample], ["lexical_groundedness"])[0]["lexical_groundedness"]


@given(
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6),
    st.sampled_from([[], [CHUNK], [CHUNK, "Passages speak of rocks."], [""]]),
)
def test_the_parts_of_a_request_add_up(sentences: list[str], contexts: list[str]) -> None:
    """Each word that no chunk has is of one kind, and none is of two."""
    score = scored(" ".join(sentences), contexts)
    shares = ungrounded(score.summary, score.value)
    if score.value is None:
        assert shares is None
        return
    assert shares is not None
    assert sum(shares.values()) == pytest.approx(1 - score.value, abs=1e-4)
    assert min(shares.values()) >= 0.0
    found = {PARTS[one.name]: one.value for one in ungrounded_shares({score.name: score})}
    assert found == shares


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [(SENTENCES[0], "framing"), (SENTENCES[2], "facts"), (SENTENCES[4], "sentences"), (SENTENCES[5], "other")],
)
def test_each_kind_is_told_apart(sentence: str, kind: str) -> None:
    score = scored(f"{SENTENCES[1]} {sentence}", [CHUNK])
    shares = ungrounded(score.summary, score.value)
    assert shares is not None
    assert max(shares, key=lambda one: shares[one]) == kind


def test_without_a_chunk_all_words_are_of_one_kind() -> None:
    score = scored(SENTENCES[1], [])
    assert ungrounded(score.summary, score.value) == {**dict.fromkeys(KINDS, 0.0), "chunks": 1.0}


@pytest.mark.parametrize("summary", [None, "4 of 5 words; weakest: sentence-2 (1 unsupported word)", "soon: lacking: new 3"])  # fmt: skip
def test_what_another_version_says_is_unknown(summary: str | None) -> None:
    assert parts_of(summary, 0.8) == {}
    assert notes_on_fall({}, {}) == ()


SHARES = st.lists(st.floats(0.0, 0.2), min_size=len(PARTS), max_size=len(PARTS))


@given(SHARES, SHARES)
def test_the_parts_of_a_fall_add_up(before: list[float], now: list[float]) -> None:
    notes = notes_on_fall(dict(zip(PARTS, before, strict=True)), dict(zip(PARTS, now, strict=True)))
    fall = math.fsum(now) - math.fsum(before)
    assert (not notes) == (fall < 0.005)
    if notes:
        figures = [value for note in notes for value in note.values]
        assert figures[0] == pytest.approx(fall)
        assert sum(figures[1:]) == pytest.approx(fall, abs=0.005)


def test_means_of_several_processes_add_up_as_one() -> None:
    """Sums merge: the mean of the parts is what the mean lacks to 1, however requests are spread."""
    chance = random.Random(1)
    scores = [scored(" ".join(chance.sample(SENTENCES[:6], 3)), [CHUNK]) for _ in range(12)]
    halves = [scores[:5], scores[5:]]
    sums = [sum(parts_of(one.summary, one.value)[name] for one in half) for half in halves for name in PARTS]
    lacking = [1 - (one.value or 0.0) for one in scores]
    assert sum(sums) == pytest.approx(sum(lacking), abs=1e-3)
