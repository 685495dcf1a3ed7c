"""`lexical_groundedness` in three languages and across scripts."""

import pytest

from ragmeter.metrics import LexicalContextRelevance, LexicalContextUtilization, LexicalGroundedness, RagSample
from ragmeter.metrics.protocol import compute_metric


def grounded(contexts, answer):
    sample = RagSample(question="q", contexts=contexts, answer=answer)
    (score,) = compute_metric(LexicalGroundedness(), sample)
    return score


def test_groundedness_counts_the_answers_words():
    """4 of 5 content words, function words aside; the evidence is per sentence."""
    got = grounded(
        ["The bridge opened in 1931.", "It crosses the river."],
        "The bridge opened in 1931. It crosses a valley.",
    )
    assert got.value == pytest.approx(4 / 5)
    assert [item.value for item in got.items] == [1.0, 0.5]
    assert (got.method, got.target) == ("lexical", "answer")
    assert got.summary == "4 of 5 words; lacking: other 1; weakest: sentence-2 (1 unsupported word)"
    assert got.explanation == (
        "80 % of the answer's words are in the chunks; least: “It crosses a valley.”, not found: valley"
    )


def test_chunks_of_earlier_turns_support_an_answer_and_are_not_rated_as_retrieved():
    sample = RagSample(
        question="When did it open?",
        contexts=["It crosses the river."],
        carried=["The bridge opened in 1931."],
        answer="The bridge opened in 1931. It crosses the river.",
    )
    alone = sample.model_copy(update={"carried": ()})
    metrics = [LexicalGroundedness(), LexicalContextRelevance(), LexicalContextUtilization()]
    (grounded, *others), (less, *same) = (
        [compute_metric(metric, one)[0] for metric in metrics] for one in (sample, alone)
    )
    assert grounded.value == 1.0 > less.value
    assert others == same


def test_words_are_shown_as_the_answer_writes_them():
    """Not as stems, and in the answer's own case."""
    got = grounded(["Heredity."], "HEREDITARY Applications")
    assert "not found: HEREDITARY, Applications" in got.explanation


def test_han_runs_are_compared_by_bigrams():
    """Of 灯塔建于 (灯塔, 塔建, 建于) one pair is there, one half: both characters, but apart."""
    got = grounded(["建灯塔"], "灯塔建于。")
    assert got.value == pytest.approx((1 + 0.5) / 3)
    assert got.summary == "1.5 of 3 words; lacking: other 1.5; weakest: sentence-1 (1.5 unsupported words)"
    assert "not found: 建于" in got.explanation


def test_a_han_character_alone_is_there_when_the_character_is():
    """A run of one character has no pair."""
    assert grounded(["塔高21米"], "高 21 米").value == 1.0


def test_pairs_do_not_cross_punctuation():
    """灯，塔 has no 灯塔."""
    assert grounded(["灯，塔"], "灯塔").value == 0.5
    assert grounded(["灯塔"], "灯，塔").value == 1.0


def test_russian_function_words_do_not_count():
    """Only маяк, построен and 1884 are looked for; the function words are in every text."""
    got = grounded(["Маяк и порт, он же был не для всех."], "Он был построен в 1884, и это маяк.")
    assert got.value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("contexts", "answer"),
    [
        (["The lighthouse is 21 metres tall."], "Высота маяка 21 метр."),
        (["灯塔高21米。"], "The lighthouse is 21 metres tall."),
        (["The lighthouse.", ""], "灯塔高21米。"),
        (["Маяк."], "φάρος"),
    ],
)
def test_another_script_is_undefined(contexts, answer):
    """No word could be shared, so that none is says nothing."""
    got = grounded(contexts, answer)
    assert (got.value, got.status) == (None, "undefined")
    assert got.explanation == "answer and chunks are in different scripts" == got.summary
    assert grounded([*contexts, answer], answer).value == 1.0


def test_what_can_be_compared_across_scripts_is():
    """Numbers have no script; Latin terms in a Russian or Chinese text do not change the script."""
    assert grounded(["Маяк построен в 1884 году."], "1884").value == 1.0
    assert grounded(["1884"], "Built in 1884").value == pytest.approx(1 / 2)
    mixed = "Откройте LangChain и OpenTelemetry"
    assert grounded(["Откройте документ."], mixed).value == pytest.approx(1 / 3)


@pytest.mark.parametrize("contexts", [[], [""], [" \n", "---"]])
def test_nothing_retrieved_is_zero(contexts):
    """An answer from nothing is not grounded."""
    got = grounded(contexts, "It is 21 metres tall.")
    assert got.value == 0.0
    assert got.explanation == got.summary == "nothing was retrieved that the answer could rest on"


def test_everything_found_names_no_weakest_sentence():
    """There is none."""
    got = grounded(["Kolka."], "Kolka, Kolka!")
    assert (got.value, got.summary) == (1.0, "2 of 2 words")
    assert got.explanation == "100 % of the answer's words are in the chunks"


@pytest.mark.parametrize("mark", ["[1]", "[1, 2]", "【1】", "[^1]"])
def test_marks_of_citations_are_no_words(mark):
    contexts = ["Refunds are paid within 14 days."]
    plain = RagSample(question="q", contexts=contexts, answer="Refunds are paid within 14 days.")
    cited = RagSample(question="q", contexts=contexts, answer=f"Refunds are paid within 14 days {mark}.")

    values = [LexicalGroundedness().compute(sample)[0].value for sample in (plain, cited)]

    assert values == [1.0, 1.0]
