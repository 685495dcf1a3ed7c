"""The verdict: every rule on its own, what is not known, who replaces whom, and thresholds."""

import dataclasses
import itertools
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.metrics import ConfigurationError, RagSample, Score, Verdict, evaluate
from ragmeter.metrics.verdict import VERDICT_CODES, VerdictRules, known_values

RULES = VerdictRules()
NAMES = {
    "grounded": "lexical_groundedness",
    "faithful": "faithfulness",
    "relevant": "lexical_context_relevance",
    "sufficient": "context_sufficiency",
    "support": "support",
    "conflict": "fact_conflict",
    "hit": "judged_hit_rate",
    "judged_refusal": "judged_refusal",
    "refusal": "refusal",
    "empty": "empty_retrieval",
    "dropped": "right_documents_dropped",
    "never": "right_documents_never_found",
}


def _score(name, value, status="ok"):
    return Score(name=name, value=value, status=status, method="exact", definition="1")


def _verdict(status="ok", rules=RULES, **values):
    scores = {NAMES[key]: _score(NAMES[key], value) for key, value in values.items()}
    return rules.verdict(scores, status)


def _said(**values):
    found = _verdict(**values)
    return None if found is None else (found.word, *found.codes)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # one row of the table after the other
        ({"empty": 1, "refusal": 0}, ("bad", "answered_without_context")),
        ({"empty": 1, "refusal": 0.5}, ("bad", "answered_without_context", "partial_refusal")),
        ({"grounded": 0.45, "refusal": 0}, ("bad", "unsupported_answer")),
        ({"sufficient": 0, "refusal": 0}, ("bad", "insufficient_context")),
        ({"sufficient": 0, "refusal": 1}, ("suspect", "insufficient_context")),
        ({"sufficient": 0}, ("suspect", "insufficient_context")),
        ({"sufficient": 1, "refusal": 1}, ("bad", "refused_with_context")),
        ({"relevant": 0.6, "refusal": 1}, ("suspect", "refused_with_context")),
        ({"grounded": 0.47, "refusal": 0}, ("suspect", "partly_unsupported")),
        # support speaks where both are known
        ({"grounded": 0.9, "support": 0.45, "refusal": 0}, ("bad", "unsupported_answer")),
        ({"grounded": 0.1, "support": 0.7, "refusal": 0}, ("good",)),
        ({"support": 0.9, "conflict": 1, "refusal": 0}, ("suspect", "number_not_in_context")),
        ({"grounded": 0.57, "refusal": 0}, ("suspect", "partly_unsupported")),
        ({"grounded": 0.58, "refusal": 0}, ("good",)),
        ({"relevant": 0.29, "refusal": 0}, ("suspect", "off_topic_context")),
        ({"relevant": 0.30, "refusal": 0}, ("good",)),
        ({"relevant": 0.59, "refusal": 1}, ("suspect", "refused_off_topic")),
        ({"empty": 1, "refusal": 1}, ("suspect", "refused_without_context")),
        ({"grounded": 0.9, "refusal": 0.5}, ("suspect", "partial_refusal")),
        ({"sufficient": 0.5, "refusal": 0}, ("suspect", "partial_context")),
        ({"hit": 0, "refusal": 0}, ("suspect", "no_relevant_chunk")),
        ({"dropped": 0.5, "never": 0}, ("suspect", "right_document_dropped")),
        ({"dropped": 0, "never": 1}, ("suspect", "right_document_never_found")),
        ({"dropped": 0.3, "never": 0.3}, ("suspect", "right_document_dropped", "right_document_never_found")),
        ({"dropped": 0.2, "never": 0.2, "grounded": 0.9, "refusal": 0}, ("good",)),
        ({"grounded": 0.1, "refusal": 1}, ("suspect", "refused")),
        # several at once, the strongest first
        (
            {"grounded": 0.2, "refusal": 0.5, "relevant": 0.1},
            ("bad", "unsupported_answer", "off_topic_context", "partial_refusal"),
        ),
        (
            {"grounded": 0.2, "refusal": 0, "sufficient": 0, "hit": 0},
            ("bad", "unsupported_answer", "insufficient_context", "no_relevant_chunk"),
        ),
        # a refusal is neither faithful nor unfaithful
        ({"grounded": 0.0, "refusal": 1, "relevant": 0.9}, ("suspect", "refused_with_context")),
        # an empty retrieval is said once
        (
            {"empty": 1, "refusal": 0, "grounded": 0, "relevant": 0, "sufficient": 0},
            ("bad", "answered_without_context"),
        ),
        ({"empty": 1, "refusal": 1, "grounded": 0, "relevant": 0}, ("suspect", "refused_without_context")),
    ],
)
def test_the_table(values, expected):
    assert _said(**values) == expected


def test_every_code_has_one_sentence_and_every_verdict_is_data():
    found = _verdict(grounded=0.2, faithful=0.4, refusal=0, relevant=0.12)

    assert found == Verdict(
        word="bad",
        codes=("unsupported_answer", "off_topic_context"),
        reasons=(
            "20 % of the answer's words are in the chunks; the judge found 40 % of what it says supported",
            "the best chunk has relevance 0.12",
        ),
    )
    assert Verdict.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # support is the mean of words and judge
        ({"grounded": 0.4, "faithful": 1.0, "refusal": 0}, ("good",)),
        ({"grounded": 0.9, "faithful": 0.0, "refusal": 0}, ("bad", "unsupported_answer")),
        ({"faithful": 0.5, "refusal": 0}, ("suspect", "partly_unsupported")),
        # the judge's word about a question replaces what words say of it
        ({"refusal": 1, "judged_refusal": 0, "grounded": 0.9}, ("good",)),
        ({"refusal": 0, "judged_refusal": 1, "relevant": 0.7}, ("suspect", "refused_with_context")),
        ({"relevant": 0.1, "sufficient": 1, "refusal": 0}, ("good",)),
        ({"relevant": 0.9, "sufficient": 0, "refusal": 1}, ("suspect", "insufficient_context")),
        ({"relevant": 0.1, "hit": 1, "refusal": 0}, ("good",)),
        ({"relevant": 0.9, "hit": 0, "refusal": 1}, ("suspect", "refused_off_topic")),
    ],
)
def test_the_judge_goes_before_the_words(values, expected):
    assert _said(**values) == expected


@pytest.mark.parametrize(
    "values",
    [{}, {"refusal": 0}, {"empty": 0}, {"refusal": 0, "empty": 0}, {"judged_refusal": 0}, {"empty": 1}],
)
def test_nothing_to_judge_by_is_no_verdict(values):
    """That something was retrieved and nobody refused says nothing about quality."""
    assert _verdict(**values) is None


@pytest.mark.parametrize(
    "status", ["undefined", "missing_input", "judge_error", "timeout", "skipped", "metric_error"]
)
def test_a_score_without_a_value_is_as_if_it_were_not_there(status):
    known = {"lexical_groundedness": _score("lexical_groundedness", 0.9), "refusal": _score("refusal", 0.0)}
    failed = {name: _score(name, None, status) for name in NAMES.values() if name not in known}
    if status == "undefined":  # then the answer claims nothing, and its words say nothing either
        del failed["support"]

    assert RULES.verdict(known | failed) == RULES.verdict(known) == Verdict(word="good")
    assert RULES.verdict(failed) is None


def test_a_partial_score_is_not_known_for_certain():
    partial = _score("faithfulness", 0.0, "partial")

    assert RULES.verdict({"faithfulness": partial}) is None
    assert known_values({"faithfulness": partial}) == {}


def test_that_nobody_looked_for_a_refusal_excuses_no_answer():
    """Only a refusal that is known is an excuse."""
    assert _said(grounded=0.2) == ("bad", "unsupported_answer")
    assert _said(grounded=0.0, empty=1) == ("bad", "answered_without_context")


@pytest.mark.parametrize("status", ["error", "cancelled", "interrupted", "partial", "no_answer"])
def test_a_request_without_a_whole_answer_is_never_good(status):
    """Its answer was not measured: what speaks against it is its retrieval."""
    assert _verdict(status, relevant=0.9, empty=0) is None
    assert _verdict(status, empty=1) is None
    assert _verdict(status, relevant=0.0, empty=1).codes == ("off_topic_context",)
    assert _verdict(status, relevant=0.1, empty=0).codes == ("off_topic_context",)
    assert _verdict(status, sufficient=0, empty=0).word == "suspect"


def test_a_refused_request_is_a_refusal_whatever_was_measured():
    def codes(**values):
        return _verdict("refused", **values).codes

    assert codes(empty=0) == ("refused",)
    assert codes(empty=1, refusal=0) == ("refused_without_context",)
    assert codes(grounded=0.0, relevant=0.9, refusal=0) == ("refused_with_context",)
    assert codes(support=0.0, relevant=0.1, judged_refusal=0) == ("refused_off_topic",)
    assert _verdict("refused") is None


def test_a_retrieval_by_itself_is_judged_as_one():
    assert _verdict("retrieval_only", relevant=0.9, empty=0) == Verdict(word="good")
    assert _verdict("retrieval_only", relevant=0.2, empty=0).codes == ("off_topic_context",)


def test_thresholds_are_settings():
    strict = VerdictRules(
        unsupported_below=0.8, partly_unsupported_below=0.9, off_topic_below=0.7, on_topic_from=0.7
    )

    assert _verdict(rules=strict, grounded=0.75, refusal=0).word == "bad"
    assert _verdict(rules=strict, grounded=0.85, refusal=0).word == "suspect"
    assert _verdict(rules=strict, relevant=0.65).codes == ("off_topic_context",)
    assert _verdict(rules=strict, relevant=0.65, refusal=1).codes == ("refused_off_topic",)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"unsupported_below": -0.1}, "unsupported_below is -0.1"),
        ({"on_topic_from": 1.1}, "on_topic_from is 1.1"),
        ({"off_topic_below": float("nan")}, "off_topic_below is nan"),
        ({"off_topic_below": "0.3"}, "off_topic_below is '0.3'"),
        ({"off_topic_below": True}, "off_topic_below is True"),
        ({"unsupported_below": 0.7}, "unsupported_below is at most partly_unsupported_below"),
        ({"on_topic_from": 0.2}, "off_topic_below is at most on_topic_from"),
    ],
)
def test_a_wrong_threshold_is_refused(given, named):
    with pytest.raises(ConfigurationError, match="VerdictRules") as raised:
        VerdictRules(**given)

    assert named in str(raised.value)


_VALUES = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([0.0, 0.2, 0.47, 0.5, 0.58, 0.8, 1.0]) for name in NAMES.values()}
)


@given(_VALUES)
def test_verdicts_are_whole_for_any_scores(values):
    """A word, as many reasons as codes, no code twice, all of them from the list and in its order."""
    found = RULES.of_values(values)

    if found is None or found.word == "good":
        assert found is None or (found.codes, found.reasons) == ((), ())
        return
    assert len(found.codes) == len(found.reasons) == len(set(found.codes))
    assert list(found.codes) == [code for code in VERDICT_CODES if code in found.codes]
    assert all(found.reasons)


@given(_VALUES, st.sampled_from(sorted(NAMES.values())))
def test_knowing_less_never_makes_a_request_good(values, name):
    """Where nothing could be judged by, taking something away leaves nothing."""
    less = {key: value for key, value in values.items() if key != name}
    before, after = RULES.of_values(values), RULES.of_values(less)

    if before is None:
        assert after is None or after.word != "good"


def test_every_code_can_be_reached():
    """By three scores at most."""
    found = set()
    for names in itertools.combinations(NAMES.values(), 3):
        for marks in itertools.product((0.0, 0.5, 0.6, 1.0), repeat=3):
            verdict = RULES.of_values(dict(zip(names, marks, strict=True)))
            found.update(verdict.codes if verdict else ())
    manners = {"empty_retrieval": 1.0, "asked_back": 1.0}, {"refusal": 0.5, "contradicts": 1.0}
    for values in manners:
        verdict = RULES.of_values(values)
        found.update(verdict.codes if verdict else ())

    assert found == set(VERDICT_CODES)


def test_evaluate_gives_every_sample_its_verdict():
    """By the meter's rules, or others; failed samples are never good."""
    samples = [
        RagSample(question="q", contexts=["the ship sails"], answer="The ship sails."),
        RagSample(question="q", contexts=["the ship sails"], answer="Nine elephants sleep."),
        RagSample(question="q", contexts=["the ship sails"], answer="The ship sails.", status="error"),
    ]
    lenient = VerdictRules(unsupported_below=0.0, partly_unsupported_below=0.0)

    usual = evaluate(samples, ["lexical_groundedness"])
    other = evaluate(samples, ["lexical_groundedness"], verdict=lenient)

    assert [found.verdict and found.verdict.word for found in usual] == ["good", "bad", None]
    assert [found.verdict and found.verdict.word for found in other] == ["good", "good", None]
    assert usual[0] == {"lexical_groundedness": usual[0]["lexical_groundedness"]}
    assert pickle.loads(pickle.dumps(usual[1])).verdict == usual[1].verdict


def test_the_manual_has_every_code_and_every_threshold():
    page = (Path(__file__).parents[2] / "docs" / "verdict.md").read_text("utf-8")

    for code in VERDICT_CODES:
        assert f"| `{code}` |" in page
    for field in dataclasses.fields(VerdictRules):
        assert f"{field.name}={field.default:.2f}".replace("=0.", "=.") in page


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("<think>Is it two?\n</think>\n\nIt is three.", "It is three."),
        ("They ask for a number.\n</think>\nIt is three.", "It is three."),
        ("<reasoning>It may be two, or", ""),
        ("Thought: I can answer.\nAnswer: It is three.", "It is three."),
        ("Write <think> before it and </think> behind it.", None),
        ("<b>Three</b>", None),
    ],
)
def test_thoughts_before_an_answer_are_no_part_of_it(said, answer):
    assert RagSample(question="q", answer=said).answer == (said if answer is None else answer)
