"""What a judge says it took from a text is looked up there: names, answers, claims."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging_tools import only, sample, score

from ragmeter.metrics import ContextEntityRecall, ContextRecall, Faithfulness, RagQuestEval
from ragmeter.metrics.text.quote_check import is_answer_from, is_restatement, is_sentence_of, stands_as_entity


@pytest.mark.parametrize(
    ("entity", "source", "stands"),
    [
        ("Paris", "Paris.", True),
        ("Петра Лаптева", "Мост построил Пётр Лаптев.", True),
        ("李文山", "青石塔由李文山建造。", True),
        ("5%", "It costs 5 %.", True),
        ("$5", "It costs 5%.", False),
        ("Oslo", "It is in Bergen.", False),
        ("US", "He told us so.", False),
        ("王五", "青石塔由李文山建造。", False),
        ("...", "It ... ends", False),
        ("", "It ends", False),
    ],
)
def test_an_entity_stands_in_its_text_or_not(entity, source, stands):
    assert stands_as_entity(entity, source) is stands


@pytest.mark.parametrize(
    ("entity", "source", "whole"),
    [
        ("It was lit in 1846", "It is 31 metres tall. It was lit in 1846.", True),
        ("It is tall. It was lit.", "It is tall. It was lit.", True),
        ("灯塔高31米", "灯塔高31米。", True),
        ("Башня построена в 1889 году", "Башня построена в 1889 году.", True),
        ("Gustave Eiffel", "Gustave Eiffel", False),
        ("United States of America", "United States of America", False),
        ("21 April 1960", "21 April 1960", False),
        ("1846", "It was lit in 1846.", False),
    ],
)
def test_a_whole_sentence_is_no_name_unless_it_is_nothing_else(entity, source, whole):
    assert is_sentence_of(entity, source) is whole


@pytest.mark.parametrize(
    ("answer", "source", "taken"),
    [
        ("in 1846", "It was lit in 1846.", True),
        ("Париж", "Башня находится в Париже.", True),
        ("31 metres", "It is 31 m tall.", True),
        ("Paris and Lyon", "Lyon first, then Paris.", True),
        ("not in 1846", "It was lit in 1846.", False),
        ("1847", "It was lit in 1846.", False),
        ("王五", "青石塔由李文山建造。", False),
        ("...", "It ... ends", False),
    ],
)
def test_an_answer_is_taken_from_its_text_or_not(answer, source, taken):
    assert is_answer_from(answer, source) is taken


@pytest.mark.parametrize(
    ("claim", "source", "says_it"),
    [
        ("The bridge was built by Laptev.", "It is a bridge. Laptev built it in 1903.", True),
        ("Эйфель был инженером.", "Башню спроектировал инженер Эйфель.", True),
        ("李文山建造了青石塔", "青石塔由李文山建造。", True),
        ("Paris is a large city.", "The lighthouse is 31 metres tall.", False),
        ("...", "It ... ends", False),
    ],
)
def test_a_claim_restates_its_text_or_not(claim, source, says_it):
    assert is_restatement(claim, source) is says_it


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from("a harbour lamp keeper oil burns 1846 Рига 塔".split()), min_size=1))
def test_every_part_of_a_text_is_taken_from_it(words):
    """Whatever the words: a text is made of its own pieces."""
    text = " ".join(words)
    assert is_answer_from(words[0], text)
    assert is_answer_from(text, text)
    assert is_restatement(text, text)


REFERENCE = "The lighthouse is 31 metres tall. It was lit in 1846."


def test_an_entity_that_the_reference_does_not_name_is_unknown(server):
    """Its item says so, and the bounds cover both verdicts; the others are looked up as ever."""
    server.answer = lambda request, item_id: ["31 metres", "Oslo"]
    result = only(server, ContextEntityRecall(), sample(reference=REFERENCE))

    assert (result.value, result.status) == (None, "partial")
    assert (result.lower, result.upper) == (0.5, 1.0)
    assert [item.verdict for item in result.items] == [True, None]
    assert "not found in the reference" in result.items[1].reason


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("listed", [[REFERENCE], ["Oslo", "Rome"], ["It was lit in 1846."], ["..."]])
def test_a_list_without_any_name_of_the_reference_gives_no_number(server, listed, strict):
    """Nor is it remembered: the next request asks again."""
    server.answer = lambda request, item_id: listed
    for _ in range(2):
        result = only(server, ContextEntityRecall(strict=strict), sample(reference=REFERENCE))
        assert (result.value, result.status) == (None, "judge_error")
    assert len(server.requests) == 4


def test_names_beside_a_whole_sentence_are_counted_without_it(server):
    server.answer = lambda request, item_id: [REFERENCE, "31 metres", "1846"]
    result = only(server, ContextEntityRecall(), sample(reference=REFERENCE))

    assert (result.value, result.status) == (0.5, "ok")
    assert [item.text for item in result.items] == ["31 metres", "1846"]


def test_strict_counts_nothing_that_the_chunks_do_not_say(server):
    """The judge lists for the chunk what the reference names, though the chunk does not."""
    server.answer = lambda request, item_id: ["31 metres", "1846"]
    asked = sample(reference=REFERENCE, contexts=["The lighthouse is 31 metres tall."])
    result = only(server, ContextEntityRecall(strict=True), asked)

    assert [item.verdict for item in result.items] == [True, False]


def test_a_question_whose_answer_the_reference_does_not_give_is_unknown(server):
    """It is not asked, and counts for the bounds alone."""
    pairs = [("How tall?", "31 metres"), ("Who built it?", "Ada Norrby")]
    server.answer = lambda request, item_id: pairs if item_id == "t1" else "31 metres"
    scores = score(server, RagQuestEval(), sample(reference=REFERENCE))
    recall = scores["rag_quest_eval_recall"]

    assert (recall.value, recall.status, recall.lower, recall.upper) == (None, "partial", 0.5, 1.0)
    assert [item.verdict for item in recall.items] == [True, None]
    assert "reference does not say" in recall.items[1].reason
    assert server.requests[1].ids == ["q1"]


def test_an_answer_that_the_answer_does_not_give_is_unknown(server):
    """The judge knows better than the text that it was shown: that is no answer of the text."""
    pairs = [("Lit when?", "1846")]
    server.answer = lambda request, item_id: pairs if item_id == "t1" else "1846"
    scores = score(server, RagQuestEval(), sample(reference=REFERENCE, answer="I do not know."))
    recall = scores["rag_quest_eval_recall"]

    assert (recall.value, recall.status, recall.lower, recall.upper) == (None, "partial", 0.0, 1.0)
    assert "not found in the text" in recall.items[0].reason
    assert [request.ids for request in server.requests] == [["t1"], ["q1"], ["q1"]]


@pytest.mark.parametrize("metric", [ContextRecall(unit="claim"), Faithfulness(unit="claim")])
def test_claims_that_the_text_does_not_make_are_not_judged(server, metric):
    server.answer = lambda request, item_id: ["Paris is a large city."] if item_id == "t1" else True
    result = only(server, metric, sample(reference=REFERENCE))

    assert (result.value, result.status) == (None, "judge_error")
    assert "not found" in result.explanation
