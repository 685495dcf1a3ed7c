"""Which sentences refuse: wordings in three languages, and negatives that are answers."""

from pathlib import Path

import pytest

from ragmeter.metrics.text import analyse
from ragmeter.metrics.text.refusals import sentence_kinds


def sentences(name):
    return Path(__file__).with_name(name).read_text("utf-8").splitlines()


def kinds(text):
    return analyse(text).memoize(sentence_kinds)


def test_a_refusal_is_found():
    """The assistant lacks the answer, or the documents do, or it is not said who."""
    for sentence in sentences("refusals.txt"):
        found = kinds(sentence)
        assert any(kind.refuses for kind in found), sentence
        assert not any(kind.claims for kind in found), sentence


def test_a_negative_is_an_answer():
    """What is not so, not allowed or not there can be the answer itself."""
    negatives = sentences("negative_answers.txt")
    assert [one for one in negatives if any(kind.refuses for kind in kinds(one))] == []


def test_courtesies_claim_nothing():
    """Apologies, offers and pointers elsewhere neither refuse nor claim."""
    for sentence in sentences("courtesies.txt"):
        found = [(kind.refuses, kind.claims) for kind in kinds(sentence)]
        assert found == [(None, False)], sentence


@pytest.mark.parametrize(
    "piece",
    ["i do not ", "no information ", "the documents do not ", "from the text, it is ", "not enough ", "the ",
     "не ", "в документах нет ", "информации ", "没有", "文档没有", "i do not. ", "没有。"],
)  # fmt: skip
def test_a_hostile_text_is_read_in_linear_time(piece):
    """Every sentence up to 600 characters, so that what stands beyond them is not searched."""
    long = kinds(piece * 20_000)
    assert len(long) >= 1
    assert kinds("x" * 600 + " i do not know")[0].refuses is None
