"""`rag_quest_eval` through the whole judge path."""

import judging_tools
import pytest
from judging_tools import judge_at, score

from ragmeter.metrics import RagQuestEval, evaluate

PAIRS = [("How tall?", "31 metres"), ("Lit when?", "1846"), ("Who keeps it?", "a keeper")]


def sample(**fields):
    """A reference that gives the answers of `PAIRS`, and an answer that has them, too."""
    said = {
        "reference": "The lighthouse is 31 metres tall. It was lit in 1846. It has a keeper.",
        "answer": "Since 1846 a keeper lights it; it is 31 metres, not 31 feet, tall.",
    }
    return judging_tools.sample(**{**said, **fields})


def quest(*answers, pairs=tuple(PAIRS)):
    return lambda request, item_id: list(pairs) if item_id.startswith("t") else answers[int(item_id[1:]) - 1]


def values(scores):
    return scores["rag_quest_eval_recall"], scores["rag_quest_eval_precision"]


def test_worked_example(server):
    """Two of three answered, F1 0.5 and 1: recall 2/3, precision 0.75; two calls cold."""
    server.answer = quest("31 feet", "1846", None)
    recall, precision = values(score(server, RagQuestEval(), sample()))

    assert (recall.value, precision.value) == (pytest.approx(2 / 3), pytest.approx(0.75))
    assert (recall.status, recall.judge_calls, precision.judge_calls) == ("ok", 2, 0)
    assert [item.verdict for item in recall.items] == [True, True, False]
    assert recall.items[0].text == "How tall?"


def test_a_known_reference_costs_one_call(server):
    server.answer = quest("31 metres", "1846", "a keeper")
    judge = judge_at(server)
    evaluate([sample()], [RagQuestEval()], judge)
    [scores] = evaluate([sample(answer="1846, 31 metres, a keeper.")], [RagQuestEval()], judge)

    assert scores["rag_quest_eval_recall"].judge_calls == 1
    assert len(server.requests) == 3


def test_the_answers_come_from_the_answer_alone(server):
    """Neither the reference nor the chunks are shown when the answer is questioned."""
    server.answer = quest("31 metres", "1846", "a keeper")
    score(server, RagQuestEval(), sample(answer="31 metres, a keeper."))

    assert list(server.requests[1].passages) == ["answer text", "questions"]
    assert "1846" not in server.requests[1].user


def test_unanswerable_questions_of_the_reference_are_not_asked(server):
    server.answer = quest("31 metres", pairs=(PAIRS[0], ("Who built it?", None)))
    recall, _ = values(score(server, RagQuestEval(), sample()))

    assert recall.value == 1.0
    assert server.requests[1].ids == ["q1"]


def test_none_answered(server):
    server.answer = quest(None, None, None)
    recall, precision = values(score(server, RagQuestEval(), sample()))

    assert (recall.value, recall.status) == (0.0, "ok")
    assert (precision.value, precision.status) == (None, "undefined")


def test_a_blank_answer_answers_nothing_and_costs_nothing(server):
    recall, precision = values(score(server, RagQuestEval(), sample(answer=" ")))

    assert (recall.value, precision.status, len(server.requests)) == (0.0, "undefined", 0)


@pytest.mark.parametrize("pairs", [(), (("Who built it?", None),)])
def test_a_reference_that_answers_nothing_is_undefined(server, pairs):
    server.answer = quest(pairs=pairs)
    recall, precision = values(score(server, RagQuestEval(), sample()))

    assert {recall.status, precision.status} == {"undefined"}


def test_a_missing_answer_is_unknown(server):
    """The judge leaves q2 out, twice: bounds instead of a shift."""
    server.answer = quest("31 metres", "1846", "a keeper")
    short = {"answers": [{"id": "q1", "answer": "31 metres"}, {"id": "q3", "answer": "a keeper"}]}
    judge = judge_at(server)
    evaluate([sample(answer="31 metres, 1846, a keeper")], [RagQuestEval()], judge)
    server.script += [lambda request: request.tagged(short), lambda request: {"answers": []}]
    [scores] = evaluate([sample()], [RagQuestEval()], judge)
    recall, precision = values(scores)

    assert (recall.status, recall.lower, recall.upper) == ("partial", pytest.approx(2 / 3), 1.0)
    assert (precision.lower, precision.upper) == (pytest.approx(2 / 3), 1.0)


def test_compatible_scores_are_never_undefined(server):
    """crud_compat follows the publication: 0.0 where nothing was answered."""
    server.answer = quest(None, None, None)
    recall, precision = values(score(server, RagQuestEval(crud_compat=True), sample()))

    assert (recall.value, precision.value) == (0.0, 0.0)


def test_chinese(server):
    """Questions and answers in Chinese; each Han character is a token."""
    server.answer = quest("云南省政府", pairs=(("谁管理灯塔？", "云南省人民政府"),))
    asked = sample(answer="云南省政府管理灯塔。", reference="云南省人民政府管理灯塔。")
    _, precision = values(score(server, RagQuestEval(), asked))

    assert precision.value == pytest.approx(2 * (5 / 7) / (1 + 5 / 7))
