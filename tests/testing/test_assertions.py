"""Means and single rows of users' tests: what passes, what fails, and what a failure says."""

import pytest

from ragmeter import RagMeter, RagSample, Reference, Score
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError, evaluate
from ragmeter.testing import MeterResults, QualityError, assert_each, assert_quality
from ragmeter.testing._session import session


def _rows(values, name="recall", direction="higher", ends=(0.0, 1.0)):
    return [
        {
            name: Score(
                name=name, value=value, status="ok" if value is not None else "judge_error",
                method="exact", definition="1", direction=direction, range=ends,
            )
        }
        for value in values
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "limit", "outcome"),
    [
        ([1.0] * 90 + [0.0] * 10, "recall>=0.8", "pass"),
        ([1.0] * 90 + [0.0] * 10, "recall=0.8", "pass"),
        ([1.0] * 60 + [0.0] * 40, "recall>=0.8", "fail"),
        ([1.0] * 78 + [0.0] * 22, "recall>=0.8", "inconclusive"),
        ([1.0] * 90 + [None] * 40, "recall>=0.8", "blocked"),
        ([], "recall>=0.8", "blocked"),
        ([1.0] * 90, "recall<=0.8", "blocked"),
    ],
)
def test_a_mean_is_decided_about_as_the_command_line_does(values, limit, outcome):
    if outcome == "pass":
        assert assert_quality(_rows(values), limit).outcome == "pass"
    else:
        with pytest.raises(QualityError, match=f"^{outcome}: recall at ") as caught:
            assert_quality(_rows(values), limit)
        assert caught.value.decision.outcome == outcome


def test_where_lower_is_better_a_mean_must_stay_below():
    rows = _rows([0.0] * 90 + [1.0] * 10, "refusal", "lower")
    assert_quality(rows, "refusal<=0.2")
    with pytest.raises(QualityError, match=r"ask for at most 0\.2"):
        assert_quality(rows, "refusal>=0.2")


def test_a_score_of_which_neither_end_is_better_takes_the_side_that_is_named():
    rows = _rows([0.0] * 90 + [1.0] * 10, "share", "none")
    assert_quality(rows, "share<=0.2")
    with pytest.raises(QualityError, match="neither end is better"):
        assert_quality(rows, "share=0.2")


def test_a_message_has_mean_interval_number_and_the_worst_rows_without_their_texts():
    rows = _rows([1.0] * 60 + [0.25] * 3 + [0.0] * 37)
    with pytest.raises(QualityError) as caught:
        assert_quality(rows, "recall>=0.8")
    first, *worst = str(caught.value).splitlines()
    assert first == ("fail: recall at least 0.8: mean 0.608, 95 % interval 0.510 to 0.705, 100 values")
    assert [line.split()[1] for line in worst] == ["63", "64", "65", "66", "67"]
    assert worst[0] == "  row 63 0.000"


def test_a_message_names_the_score_that_was_meant():
    with pytest.raises(QualityError, match="did you mean recall"):
        assert_quality(_rows([1.0] * 40), "recal>=0.8")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("context_recall>=0.5", "which was not measured: it needs a judge and a reference$"),
        ("token_f1>=0.5", "one of the metric answer_overlap, which was not measured: it needs a reference$"),
        ("refusal<=0.5", "one of the metric refusal, which was not asked for$"),
        ("precision_recall_f1>=0.5", "the scores of this metric are precision, recall, f1"),
    ],
)  # fmt: skip
def test_a_message_says_why_a_known_score_is_not_there(limit, said):
    with pytest.raises(QualityError, match=f"(?m)blocked: .*{said}"):
        assert_quality(_rows([1.0] * 40), limit)


@pytest.mark.parametrize("asked", [assert_quality, assert_each])
def test_where_nothing_was_captured_the_message_says_so(asked):
    with pytest.raises(QualityError, match="blocked: ") as raised:
        asked([], "lexical_groundedness>=0.5")
    assert "no request was captured: is the handler attached" in str(raised.value)
    assert "not asked for" not in str(raised.value)


def test_few_values_say_how_many_are_needed():
    with pytest.raises(QualityError, match="no fewer than 16 can pass"):
        assert_quality(_rows([1.0] * 15), "recall>=0.8")
    assert_quality(_rows([1.0] * 16), "recall>=0.8")


def test_the_needed_number_of_values_is_exact_on_both_sides():
    for limit, least in ((0.5, 4), (0.9, 35), (0.95, 73)):
        with pytest.raises(QualityError):
            assert_quality(_rows([1.0] * (least - 1)), f"recall>={limit}")
        assert_quality(_rows([1.0] * least), f"recall>={limit}")
        assert_quality(_rows([0.0] * least, direction="lower"), f"recall<={1 - limit}")


def test_inconclusive_can_be_a_warning_and_what_fails_beside_it_still_fails():
    rows = _rows([1.0] * 78 + [0.0] * 22)
    with pytest.warns(UserWarning, match="inconclusive: recall"):
        decision = assert_quality(rows, "recall>=0.8", inconclusive="warn")
    assert decision.outcome == "inconclusive"
    with pytest.raises(QualityError, match=r"fail: recall at least 0\.95"):
        assert_quality(rows, "recall>=0.8", "recall>=0.95", inconclusive="warn")


def test_each_row_is_decided_about_alone():
    assert_each(_rows([1.0, 0.8]), "recall>=0.8")
    with pytest.raises(QualityError, match=r"fail: each recall at least 0.8: 1 of 2 reach it") as e:
        assert_each(_rows([1.0, 0.5]), "recall>=0.8")
    assert "row 1 0.500" in str(e.value)


def test_a_row_without_a_value_never_passes():
    with pytest.raises(QualityError, match=r"blocked: .* 1 of 2 reach it, 1 judge_error"):
        assert_each(_rows([1.0, None]), "recall>=0.8")
    with pytest.raises(QualityError, match=r"blocked: .* there are no rows"):
        assert_each([], "recall>=0.8")
    with pytest.raises(QualityError, match=r"blocked: .* no row has such a score; did you mean"):
        assert_each(_rows([1.0]), "recal>=0.8")


SAMPLES = [
    RagSample(
        question=f"How tall is tower {n}?",
        contexts=[f"Tower {n} is 21 metres tall."],
        answer=f"Tower {n} is 21 metres tall.",
        reference=Reference(contexts=[f"Tower {n} is 21 metres tall."]),
    )
    for n in range(20)
]


def test_samples_are_scored_and_results_of_evaluate_are_read():
    assert_quality(SAMPLES, "recall>=0.8", metrics=["precision_recall_f1"])
    assert_quality(evaluate(SAMPLES, ["precision_recall_f1"]), "recall>=0.8")


def test_texts_are_quoted_only_where_they_are_asked_for(monkeypatch):
    with pytest.raises(QualityError) as caught:
        assert_quality(SAMPLES, "lexical_groundedness<=0.1")
    assert "tower" not in str(caught.value).lower()
    with pytest.raises(QualityError) as caught:
        assert_each(SAMPLES, "recall>=1.01", metrics=["precision_recall_f1"])
    assert "tower" not in str(caught.value).lower()
    monkeypatch.setattr(session, "texts", True)
    with pytest.raises(QualityError) as caught:
        assert_each(SAMPLES, "recall>=1.01", metrics=["precision_recall_f1"])
    assert "'How tall is tower 0?'" in str(caught.value)


def test_missing_input_is_named():
    bare = [RagSample(question="q", contexts=["a b c"], answer="a b c")] * 3
    with pytest.raises(QualityError, match=r"no value: 3 missing_input \(not given: reference"):
        assert_quality(bare, "recall>=0.8", metrics=["precision_recall_f1"])


def test_late_scores_belong_to_the_request_that_they_are_of():
    memory = InMemoryExporter()
    with RagMeter(exporters=[memory]) as meter:
        with meter.request("How tall?") as request:
            request.retrieved(["It is 21 metres tall."])
            request.answered("It is 21 metres tall.")
        results = MeterResults(meter, memory)
        (first,) = results()
        meter.feedback(first.run.run_id, "thumbs", 1.0)
        (both,) = results()
    assert both.scores["thumbs"].value == 1.0
    assert set(first.scores) < set(both.scores)
    assert_each(memory.results, "thumbs>=1")


def test_a_version_that_is_worse_than_the_one_before_fails_in_the_words_of_page_and_webhook():
    memory = InMemoryExporter()
    chunk, invented = "The invoice is due in thirty days.", "Bread rises overnight in a kitchen."
    with RagMeter(exporters=[memory]) as meter:
        for number, answer in enumerate([chunk] * 40 + [chunk] * 5 + [invented] * 35):
            version = {"service.version": "2.4.1" if number < 40 else "2.5.0"}
            with meter.request(f"When is invoice {number} due?", metadata=version) as request:
                request.retrieved([chunk])
                request.answered(answer)
        results = MeterResults(meter, memory)
        assert_quality(results()[:45], "lexical_groundedness>=0.1")
        with pytest.raises(
            QualityError,
            match=r"^fail: service\.version: 2\.5\.0 is worse than 2\.4\.1 since \S+ \S+ UTC: "
            r"support \d\.\d\d → \d\.\d\d \[-\d\.\d\d, -\d\.\d\d\]; "
            r"bad answers \d+% → \d+%$",
        ):
            assert_quality(results, "lexical_groundedness>=0.1")


def test_lost_requests_are_an_error():
    memory = InMemoryExporter()
    with RagMeter(exporters=[memory], sample_rate=0.0) as meter:
        meter.submit(SAMPLES[0])
        with pytest.raises(RuntimeError, match="not every request was scored: 1 sampled_out"):
            MeterResults(meter, memory)()


@pytest.mark.contains_errors
def test_contained_errors_are_errors_of_the_test():
    memory = InMemoryExporter()
    with RagMeter(exporters=[memory]) as meter:
        with meter.request("How tall?", reference=17) as request:
            request.answered("It is 21 metres tall.")
        with pytest.raises(RuntimeError, match="contained errors, and scores may be missing: 1 "):
            MeterResults(meter, memory)()


@pytest.mark.parametrize(
    ("rows", "limits", "arguments", "said"),
    [
        ([], (), {}, "name a limit"),
        ([], ("recall",), {}, "limit 'recall': write NAME>=VALUE, e.g. recall>=0.8"),
        ([], ("recall>=high",), {}, "write NAME>=VALUE"),
        (_rows([1.0])[0], ("recall>=0.8",), {}, "pass a list of results, not one dict"),
        ([1, "x"], ("recall>=0.8",), {}, "not int, str"),
        (_rows([1.0]), ("recall>=0.8",), {"metrics": "live"}, "scored already"),
    ],
)
def test_what_makes_no_sense_is_said(rows, limits, arguments, said):
    with pytest.raises(ConfigurationError, match=said):
        assert_quality(rows, *limits, **arguments)
