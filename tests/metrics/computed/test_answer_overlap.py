"""How close the wording is: ROUGE-L and token F1 on our tokens, and rouge-score's own numbers."""

import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging_tools import oracle

from ragmeter.metrics import (
    AnswerOverlap,
    ConfigurationError,
    MissingDependencyError,
    RagSample,
    Reference,
    evaluate,
    resolve_metrics,
    token_f1,
)
from ragmeter.metrics.computed import answer_overlap


def answer(text):
    return Reference(answer=text)


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("the cat", "the cat sat", 2 / 3),
        ("", "", 1.0),
        ("a the", "!", 1.0),
        ("", "x", 0.0),
        ("x", "", 0.0),
        ("北京大学", "北京", 2 / 3),
        ("dog dog cat", "dog cat cat", 2 / 3),
    ],
)
def test_token_f1(prediction, reference, expected):
    """Multiset overlap without articles; both empty is 1, one empty is 0."""
    assert token_f1(prediction, reference) == pytest.approx(expected)
    assert token_f1(reference, prediction) == pytest.approx(expected)


def test_answer_overlap_worked_example():
    """«the cat» against «the cat sat»: ROUGE-L 0.8, token F1 2/3."""
    sample = RagSample(question="q", answer="the cat", reference=answer("the cat sat"))
    got = evaluate([sample], [AnswerOverlap()])[0]
    assert got["rouge_l"].value == pytest.approx(0.8)
    assert got["token_f1"].value == pytest.approx(2 / 3)
    assert [item.value for item in got["rouge_l"].items] == pytest.approx([1.0, 2 / 3, 0.8])


def test_answer_overlap_takes_one_best_reference():
    """Precision, recall and F1 come from the same reference, the one with the best F1."""
    reference = Reference(answer="completely different words", alternative_answers=("a b", "a b c d"))
    got = evaluate([RagSample(question="q", answer="a b c", reference=reference)], [AnswerOverlap()])[0]
    assert got["rouge_l"].items[0].id == "reference-3/precision"
    assert [item.value for item in got["rouge_l"].items] == pytest.approx([1.0, 0.75, 6 / 7])


@pytest.mark.parametrize(
    ("said", "expected", "status"), [("", 0.0, "ok"), ("x", None, "undefined"), (None, None, "missing_input")]
)
def test_answer_overlap_edges(said, expected, status):
    """An empty answer is 0, a reference without tokens undefined, no answer missing."""
    wanted = answer("…" if status == "undefined" else "word")
    got = evaluate([RagSample(question="q", answer=said, reference=wanted)], [AnswerOverlap()])[0]
    assert {(one.value, one.status) for one in got.values()} == {(expected, status)}


def test_our_rouge_l_is_rouge_scores_on_plain_words():
    """Where both cut the same tokens the numbers are the same."""
    checked = 0
    for record in oracle("rouge_score_rougeL"):
        retrieved, golden = record["input"]["retrieved"], record["input"]["ground_truth"]
        if record["params"]["use_stemmer"] or not (retrieved + golden).replace(" ", "").isalnum():
            continue
        if not (retrieved + golden).isascii():
            continue
        checked += 1
        asked = RagSample(question="q", answer=retrieved, reference=answer(golden))
        recall = evaluate([asked], [AnswerOverlap()])[0]["rouge_l"].items
        assert (recall[1].value if recall else 0.0) == pytest.approx(record["expected"]["r"])
    assert checked > 20


NAMES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}


def overlap(said, wanted, **options):
    metric = AnswerOverlap(backend="rouge-score", **options)
    (found,) = evaluate([RagSample(question="q", answer=said, reference=wanted)], [metric])
    return found


def numbers(score):
    return tuple(item.value for item in score.items)


@pytest.mark.parametrize("use_stemmer", [False, True])
def test_the_recorded_numbers_of_rouge_score_are_given(use_stemmer):
    """Precision, recall and F1 to the last digit, stemmed or not; undefined without a token."""
    pytest.importorskip("rouge_score")
    checked = 0
    for record in oracle("rouge_score_rougeL"):
        if record["params"]["use_stemmer"] is not use_stemmer:
            continue
        texts, expected = record["input"], record["expected"]
        got = overlap(texts["retrieved"], answer(texts["ground_truth"]), use_stemmer=use_stemmer)["rouge_l"]
        if got.status == "undefined":
            assert expected == {"r": 0, "p": 0, "f": 0}
        else:
            assert numbers(got) == (expected["p"], expected["r"], expected["f"])
            assert got.value == expected["f"]
            checked += 1
    assert checked > 100


WORDS = st.lists(st.sampled_from("running ran the runs cats cat Мост 3.5 a".split()), max_size=8)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3), st.booleans())
def test_every_number_is_the_packages_own(said, wanted, use_stemmer):
    """ROUGE-1, 2 and L equal `RougeScorer.score_multi` over the references that have a token."""
    scorers = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = scorers.RougeScorer(list(NAMES), use_stemmer=use_stemmer)
    texts = [" ".join(words) for words in wanted]
    got = overlap(
        " ".join(said), Reference(answer=texts[0], alternative_answers=texts[1:]), use_stemmer=use_stemmer
    )
    with_tokens = [text for text in texts if any(c.isascii() and c.isalnum() for c in text)]
    if not with_tokens:
        assert {score.status for score in got.values()} == {"undefined"}
        return
    expected = scorer.score_multi(with_tokens, " ".join(said))

    assert list(got) == list(NAMES.values())
    for theirs, ours in NAMES.items():
        assert got[ours].value == expected[theirs].fmeasure
        best = [
            (one.precision, one.recall, one.fmeasure)
            for one in (scorer.score(text, " ".join(said))[theirs] for text in with_tokens)
        ]
        assert numbers(got[ours]) in best


def test_the_stemmer_is_an_argument():
    """«running» and «runs» are one word with it, two without."""
    pytest.importorskip("rouge_score")
    plain = overlap("running", answer("runs"))["rouge_1"]
    stemmed = overlap("running", answer("runs"), use_stemmer=True)["rouge_1"]

    assert (plain.value, stemmed.value) == (0.0, 1.0)
    assert (plain.method, stemmed.method) == ("rouge", "rouge")
    assert plain.definition != stemmed.definition


def test_both_backends_live_side_by_side_and_in_another_process():
    """Under a prefix the scores have names of their own; a pickled metric is the same metric."""
    pytest.importorskip("rouge_score")
    google = AnswerOverlap(backend="rouge-score", use_stemmer=True)
    both = resolve_metrics([AnswerOverlap(), google.prefixed("google_")])

    assert pickle.loads(pickle.dumps(google)) == google
    assert [name for metric in both for name in metric.score_names] == [
        "rouge_l", "token_f1", "google_rouge_1", "google_rouge_2", "google_rouge_l",
    ]  # fmt: skip


def test_texts_that_would_take_gigabytes_are_skipped():
    """The package's table has tokens times tokens numbers; 4 million are the limit."""
    pytest.importorskip("rouge_score")
    found = overlap("word " * 2001, answer("word " * 2000))

    assert {(one.status, one.error_type) for one in found.values()} == {("skipped", "too_long")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "nltk"}, r"backend is 'nltk'; it is 'unicode' or 'rouge-score'"),
        ({"use_stemmer": True}, r"use_stemmer=True needs backend='rouge-score'"),
    ],
)
def test_wrong_options_are_refused_at_construction(options, message):
    with pytest.raises(ConfigurationError, match=message):
        AnswerOverlap(**options)


def test_without_the_package_the_message_names_the_extra(monkeypatch):
    """At construction, before any request; the default backend needs nothing."""
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    answer_overlap._rouge_score.cache_clear()

    with pytest.raises(MissingDependencyError, match=r"backend='rouge-score'.*\[rouge\]'") as caught:
        AnswerOverlap(backend="rouge-score")
    assert caught.value.extra == "rouge"
    assert AnswerOverlap().score_names == ("rouge_l", "token_f1")
