"""`answer_relevancy` through the whole judge path."""

import pytest
from judging_tools import only, sample, verdicts

from ragmeter.metrics import AnswerRelevancy


def test_worked_example(server):
    """Three sentences, one of them off the point: 2/3."""
    server.answer = verdicts("relevant", "irrelevant", "relevant")
    result = only(server, AnswerRelevancy(), sample(answer="It is tall. Gulls cry. 31 metres."))

    assert result.value == pytest.approx(2 / 3)
    assert (result.status, result.target, result.judge_calls) == ("ok", "answer", 1)
    assert list(server.requests[0].passages) == ["question", "answer"]


def test_a_refusal_is_irrelevant_and_told_apart(server):
    server.answer = verdicts("noncommittal")
    result = only(server, AnswerRelevancy(), sample(answer="I cannot say."))

    assert (result.value, result.items[0].evidence) == (0.0, "noncommittal")


def test_answers_in_russian_and_chinese_are_split_into_sentences(server):
    server.answer = verdicts("relevant", "irrelevant")
    russian = only(server, AnswerRelevancy(), sample(answer="Высота — 31 м. Чайки кричат."))
    chinese = only(server, AnswerRelevancy(), sample(answer="高三十一米。海鸥在叫。"))

    assert (russian.value, chinese.value) == (0.5, 0.5)
    assert [item.text for item in chinese.items] == ["高三十一米。", "海鸥在叫。"]


def test_a_word_outside_the_choices_is_unknown(server):
    server.answer = verdicts("partly")
    result = only(server, AnswerRelevancy(), sample())

    assert (result.value, result.status, result.lower, result.upper) == (None, "partial", 0.0, 1.0)


def test_courtesies_neither_help_nor_harm(server):
    """A greeting and "hope this helps" leave the denominator; their evidence says why."""
    server.answer = verdicts("no_claim", "relevant", "irrelevant", "no_claim")
    answer = "Hello! It is 31 metres tall. Gulls cry. I hope this helps!"
    result = only(server, AnswerRelevancy(), sample(answer=answer))

    assert (result.value, result.status) == (0.5, "ok")
    assert [item.evidence for item in result.items] == [
        "no_claim", "relevant", "irrelevant", "no_claim"
    ]  # fmt: skip
    assert [item.verdict for item in result.items] == [None, True, False, None]


def test_an_answer_of_courtesies_alone_is_undefined(server):
    server.answer = verdicts("no_claim", "no_claim")
    result = only(server, AnswerRelevancy(), sample(answer="Hello! Thank you for asking."))

    assert (result.value, result.status) == (None, "undefined")
    assert result.explanation == "the answer says nothing"


def test_beside_courtesies_an_unknown_line_is_unknown_still(server):
    server.answer = verdicts("no_claim", "relevant", "whatever")
    answer = "Hello! It is 31 metres tall. Gulls cry."
    result = only(server, AnswerRelevancy(), sample(answer=answer))

    assert (result.status, result.lower, result.upper) == ("partial", 0.5, 1.0)
