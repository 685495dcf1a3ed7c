"""`faithfulness` through the whole judge path."""

import pytest
from judging_tools import only, sample, verdicts

from ragmeter.metrics import Faithfulness

THREE = "It is 31 metres tall. It was lit in 1846. It is painted red."


def test_worked_example(server):
    """Two of three sentences supported: 2/3; contradicted and absent are told apart in the items."""
    server.answer = verdicts("supported", "contradicted", "supported")
    result = only(server, Faithfulness(), sample(answer=THREE))

    assert result.value == pytest.approx(2 / 3)
    assert (result.status, result.target, result.judge_calls) == ("ok", "answer", 1)
    assert [item.evidence for item in result.items] == ["supported", "contradicted", "supported"]
    assert [item.verdict for item in result.items] == [True, False, True]


def test_two_verdicts_for_three_statements_are_not_one(server):
    """A missing verdict makes the score partial, 2/3 to 1; ragas says 1.0."""
    server.answer = verdicts("supported", "supported", None)
    result = only(server, Faithfulness(), sample(answer=THREE))

    assert (result.value, result.status) == (None, "partial")
    assert (result.lower, result.upper) == (pytest.approx(2 / 3), 1.0)


def test_what_claims_nothing_leaves_the_denominator(server):
    server.answer = verdicts("no_claim", "supported", "absent")
    result = only(server, Faithfulness(), sample(answer=f"Good question! {THREE[:42]}"))

    assert result.value == 0.5
    assert result.items[0].verdict is None


def test_a_refusal_is_undefined_not_faithful(server):
    server.answer = verdicts("no_claim")
    result = only(server, Faithfulness(), sample(answer="I do not know."))

    assert (result.value, result.status) == (None, "undefined")


@pytest.mark.parametrize("words", [("нет", "нет", "нет"), ("否", "否", "否"), (False, "no", 0)])
def test_verdicts_in_other_languages_are_verdicts(server, words):
    """Three times "no" is 0.0, in whatever language; deepeval drops them and says 1.0."""
    server.answer = verdicts(*words)
    result = only(server, Faithfulness(), sample(answer=THREE))

    assert (result.value, result.status) == (0.0, "ok")


@pytest.mark.parametrize("contexts", [[], [" "]])
def test_after_an_empty_retrieval_any_claim_is_unfaithful(server, contexts):
    """One call asks only whether the answer claims something."""
    server.answer = verdicts(True, False, False)
    result = only(server, Faithfulness(), sample(answer=THREE, contexts=contexts))

    assert (result.value, result.status, result.judge_calls) == (0.0, "ok", 1)
    assert list(server.requests[0].passages) == ["answer"]


def test_a_refusal_after_an_empty_retrieval_is_undefined(server):
    server.answer = verdicts(False)
    result = only(server, Faithfulness(), sample(answer="I found nothing.", contexts=[]))

    assert (result.value, result.status) == (None, "undefined")


def test_unknown_claims_after_an_empty_retrieval_have_no_value(server):
    server.answer = verdicts(None, False)
    asked = sample(answer="It is tall. Sorry.", contexts=[])
    result = only(server, Faithfulness(unknown_as=0), asked)

    assert (result.value, result.status) == (None, "partial")


def test_by_claim_the_judge_splits_the_answer(server):
    server.answer = lambda request, item_id: (
        ["It is tall.", "It is red."] if item_id == "t1" else ["supported", "absent"][item_id != "a1"]
    )
    result = only(server, Faithfulness(unit="claim"), sample(answer="It is tall and red."))

    assert (result.value, result.judge_calls) == (0.5, 2)
    assert [item.text for item in result.items] == ["It is tall.", "It is red."]
