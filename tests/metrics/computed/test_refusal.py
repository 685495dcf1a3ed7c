"""`refusal`: whether an answer refuses, in part or in whole."""

import pytest

from ragmeter.metrics import FactConflict, RagSample, Refusal, evaluate
from ragmeter.metrics.protocol import compute_metric


def refusal(answer, **fields):
    (score,) = compute_metric(Refusal(), RagSample(question="q", answer=answer, **fields))
    return score


@pytest.mark.parametrize(
    ("answer", "value", "label"),
    [
        ("I don't know.", 1.0, "refused"),
        ("Sorry, I can't find that. Please contact support.", 1.0, "refused"),
        ("В документах нет ответа на этот вопрос.", 1.0, "refused"),
        ("文档中没有提到价格。", 1.0, "refused"),
        ("The passages don't state a price, but rather describe the route of the ferry.", 1.0, "refused"),
        ("I have no information about fees. The limit is 5 GB.", 0.5, "partial"),
        ("The limit is 5 GB. I have no information about fees. It is new.", 0.5, "partial"),
        ("It is new. It is red. It is big. I have no information about fees. It is old.", 0.0, "answered"),
        ("It is new. It is red. It is big. I have no information about fees.", 0.5, "partial"),
        ("It is new. It is red. I don't know why. I have no details on that.", 0.5, "partial"),
        ("You can't return it without a receipt.", 0.0, "answered"),
        ("The lighthouse is 21 metres tall.", 0.0, "answered"),
        ("Ich weiß es nicht.", 0.0, "answered"),
    ],
)
def test_three_values(answer, value, label):
    """Whole, in part or not; deep inside a long answer is not; German is not among the languages."""
    got = refusal(answer)
    assert (got.value, got.label, got.status) == (value, label, "ok")
    assert (got.target, got.direction, got.definition) == ("answer", "none", "5/en,ru,zh")
    assert got.summary
    assert got.explanation


@pytest.mark.parametrize(
    "answer",
    [
        "The documents do not mention the price, but the ferry leaves at nine.",
        "The ferry leaves at nine; the price is not mentioned in the documents.",
        "Although the passages don't state a price, the ferry leaves at nine.",
        "О цене в документах ничего не сказано, однако паром отходит в девять.",
        "Паром отходит в девять, но цена в тексте не указана.",
        "文档没有提到价格，但渡轮九点出发。",
        "虽然文档没有说明价格，渡轮九点出发。",
    ],
)
def test_a_sentence_that_refuses_one_thing_and_states_another_refuses_in_part(answer):
    assert (refusal(answer).value, refusal(answer).label) == (0.5, "partial")


def test_what_a_sentence_states_beside_a_refusal_is_compared_with_the_chunks():
    sample = RagSample(
        question="What is the fare?",
        contexts=["The ferry crosses in 45 minutes."],
        answer="The documents do not mention the fare, but the ferry crosses in 50 minutes.",
    )
    (score,) = compute_metric(FactConflict(), sample)
    assert [item.text for item in score.items] == ["50 minutes"]


@pytest.mark.parametrize("answer", [None, "", "The lighthouse is 21 metres tall.", "Je ne peux pas."])
def test_what_the_provider_calls_a_refusal_is_one_whatever_its_words(answer):
    got = refusal(answer, status="refused")
    assert (got.value, got.label, got.status) == (1.0, "refused", "ok")
    assert got.summary == "the model's provider says that it refused"
    sample = RagSample(question="q", contexts=["c"], answer=answer, status="refused")
    row = evaluate([sample], metrics=["refusal", "lexical_groundedness", "support"])[0]
    assert {row[name].status for name in ("lexical_groundedness", "support")} == {"skipped"}
    assert row.verdict.codes == ("refused",)


def test_the_evidence_is_the_refusing_sentence_and_its_words():
    """The summary has no text, but the sentence's number."""
    got = refusal("The limit is 5 GB. I do not have any details about fees.")
    assert [(item.id, item.evidence) for item in got.items] == [("sentence-2", "i do not have any details")]
    assert got.summary == "1 refusal beside 1 claim: sentence-2"
    assert got.explanation == (
        "1 refusal beside 1 claim: “I do not have any details about fees.”, "
        "by the words “i do not have any details”"
    )
    assert refusal("No idea.").summary == "the answer refuses and claims nothing: sentence-1"
    assert refusal("It is red.").summary == "no sentence refuses"


@pytest.mark.parametrize("answer", ["", " \n", "---", "21", "?!"])
def test_without_a_letter_it_is_undefined(answer):
    """Nothing was said."""
    assert refusal(answer).status == "undefined"


def test_without_an_answer():
    """Not given is missing, failed is skipped."""
    assert refusal(None).status == "missing_input"
    assert refusal("I don't know.", status="error").status == "skipped"


MANNERS = [
    ("Could you clarify which product you mean?", [], "asked_back", "suspect"),
    ("Уточните, пожалуйста, о каком договоре идёт речь?", [], "asked_back", "suspect"),
    ("请问您指的是哪个产品？", [], "asked_back", "suspect"),
    ("Hello! How can I help you today?", [], "asked_back", "suspect"),
    ("Let me know which version you are using.", [], "asked_back", "suspect"),
    ("Пожалуйста, укажите город.", [], "asked_back", "suspect"),
    ("请提供更多信息，例如您的订单号。", [], "asked_back", "suspect"),
    ("You're welcome!", [], "greeted", None),
    ("Sure, no problem. Glad I could help!", [], "greeted", None),
    ("Рад был помочь, всего доброго!", [], "greeted", None),
    ("不客气，很高兴能帮到您！", [], "greeted", None),
    ("Have the ferry repaired.", [], "answered", "bad"),
    ("Укажите номер билета.", [], "answered", "bad"),
    ("不客气！", [], "greeted", None),
    ("The ferry leaves at nine. Would you like to know more?", [], "answered", "bad"),
    ("Hello, the ferry leaves Roja at nine.", ["The ferry leaves Roja at nine."], "answered", "good"),
    ("Therefore, the answer is: Unable to answer based on given passages.", ["A ship."], "refused", "suspect"),
    ("Sorry, but I can not advise you about that.", ["A ship."], "refused", "suspect"),
    ("I'm sorry, but I can't do that.", ["A ship."], "refused", "suspect"),
    ("The ship sails. It sails at nine. It is late. Unable to answer based on given passages.",
     ["The ship sails at nine. It is late."], "contradicts", "suspect"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "contexts", "label", "word"), MANNERS)
def test_answers_that_are_no_claims_are_never_bad(answer, contexts, label, word):
    sample = RagSample(question="When does it leave?", contexts=contexts, answer=answer)
    [scores] = evaluate([sample])
    assert scores["refusal"].label == label
    assert (scores.verdict and scores.verdict.word) == word
