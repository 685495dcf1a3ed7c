"""Objectives: one text form, one meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_points import points_of
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ragmeter import RagMeter, RagSample, Scoring
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import ConfigurationError, metric
from ragmeter.quality.objectives import Objective, Objectives, parse_objective, parse_objectives


def test_the_text_form_says_workflow_score_threshold_and_share() -> None:
    assert parse_objective("shop_qa:faithfulness>=0.8 for 95%") == Objective(
        score="faithfulness", at_least=0.8, share=0.95, workflow="shop_qa"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("faithfulness>=0.8 for 95%", Objective(score="faithfulness", at_least=0.8, share=0.95)),
        (" refusal <= 0 for 99.5 % ", Objective(score="refusal", at_most=0.0, share=0.995)),
        (
            "a:b >= c:lexical_groundedness≥.5 for 80%",
            Objective(score="lexical_groundedness", at_least=0.5, share=0.8, workflow="a:b >= c"),
        ),
        (":faithfulness>=1e-1 for 75%", Objective(score="faithfulness", at_least=0.1, share=0.75, workflow="")),
    ],
    ids=["every_workflow", "lower_is_better", "workflow_with_signs", "workflow_without_a_name"],
)
def test_the_text_form_is_read_with_and_without_its_parts(text: str, expected: Objective) -> None:
    assert parse_objective(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "faithfulness",
        "faithfulness>=0.8",
        "faithfulness>0.8 for 95%",
        "faithfulness>=0.8 for 95",
        "faithfulness>=high for 95%",
        ">=0.8 for 95%",
        "faithfulness>=nan for 95%",
    ],
)
def test_a_text_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"shop_qa:faithfulness>=0\.8 for 95%"):
        parse_objective(text)


@pytest.mark.parametrize("percent", ["0", "100", "101", "-5"])
def test_a_share_that_leaves_no_room_for_a_bad_request_is_refused(percent: str) -> None:
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        parse_objective(f"faithfulness>=0.8 for {percent}%")


def test_several_are_told_apart_by_semicolons_and_come_as_objects_too() -> None:
    both = parse_objectives("a>=0.5 for 90%; b<=0.1 for 99% ;")
    assert [str(one) for one in both] == ["a>=0.5 for 90%", "b<=0.1 for 99%"]
    assert parse_objectives([both[0], "b<=0.1 for 99%"]) == both
    assert parse_objectives("") == ()
    with pytest.raises(ConfigurationError, match="objectives"):
        parse_objectives([7])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"at_least": 0.5, "at_most": 0.6},
        {"at_least": float("nan")},
        {"at_least": "0.5"},
        {"at_least": 0.5, "share": 1.0},
        {"at_least": 0.5, "share": 0},
        {"at_least": 0.5, "workflow": 7},
        {"score": " ", "at_least": 0.5},
    ],
)
def test_an_objective_that_makes_no_sense_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="objective"):
        Objective(**{"score": "faithfulness", **arguments})  # type: ignore[arg-type]


def test_the_threshold_itself_is_good() -> None:
    least, most = Objective(score="a", at_least=0.8), Objective(score="a", at_most=0.2)
    assert [least.is_low(value) for value in (0.79, 0.8, 1.0)] == [True, False, False]
    assert [most.is_low(value) for value in (0.0, 0.2, 0.21)] == [False, False, True]
    assert least.budget == 0.05


def test_a_workflows_own_objective_wins_over_the_one_for_all() -> None:
    general, own = (Objective(score="a", at_least=0.5), Objective(score="a", at_least=0.9, workflow="shop"))
    objectives = Objectives([general, own])
    assert objectives.of("a", "shop") is own
    assert objectives.of("a", "other") is general
    assert objectives.of("a", "") is general
    assert objectives.of("b", "shop") is None
    assert Objectives().of("a", "shop") is None
    assert objectives.all() == (general, own)


def test_a_second_threshold_for_the_same_is_refused_and_the_same_again_is_not() -> None:
    objectives = Objectives([Objective(score="a", at_least=0.5)])
    objectives.add(Objective(score="a", at_least=0.5))
    with pytest.raises(ConfigurationError, match=r"there is a>=0\.5 for 95% already"):
        objectives.add(Objective(score="a", at_least=0.6))
    assert len(objectives.all()) == 1


@metric(needs=("answer",), target="answer", name="goodness")
def goodness(sample: RagSample) -> float:
    """The answer itself."""
    return float(sample.answer or 0)


@metric(needs=("answer",), target="answer", name="badness", direction="lower")
def badness(sample: RagSample) -> float:
    """Likewise; lower is better."""
    return float(sample.answer or 0)


def _points(reader: InMemoryMetricReader, name: str) -> dict[tuple[str, str], float]:
    return {
        (
            point.attributes["gen_ai.evaluation.name"],
            point.attributes.get("gen_ai.workflow.name", ""),
        ): point.value
        for point in points_of(reader).get(name, ())
        if "ragmeter.segment" not in point.attributes
    }


def test_a_meter_counts_the_bad_side_of_each_objective_and_publishes_the_budget() -> None:
    reader = InMemoryMetricReader()
    meter = RagMeter(
        [goodness, badness],
        exporters=[OpenTelemetryExporter(meter_provider=MeterProvider([reader], shutdown_on_exit=False))],
        scoring=Scoring(objectives="shop:goodness>=0.5 for 90%"),
    )
    made = meter.objective("badness", at_most=0.2, share=0.75)
    assert str(made) == "badness<=0.2 for 75%"
    for workflow in ("shop", "help"):
        for answer in ("0.0", "0.2", "0.3", "0.5", "1.0"):
            meter.submit(RagSample(question="q", answer=answer, name=workflow))
    assert meter.flush(60)
    assert _points(reader, "ragmeter.quality.low") == {
        ("goodness", "shop"): 3.0,
        ("badness", "shop"): 3.0,
        ("badness", "help"): 3.0,
    }
    assert _points(reader, "ragmeter.quality.budget") == {
        ("goodness", "shop"): 0.1,
        ("badness", "shop"): 0.25,
        ("badness", "help"): 0.25,
    }
    meter.shutdown()


def test_a_meter_refuses_an_objective_that_makes_no_sense() -> None:
    with RagMeter([goodness], exporters=[], scoring=Scoring(objectives=["goodness>=0.5 for 90%"])) as meter:
        with pytest.raises(ConfigurationError, match="one objective"):
            meter.objective("goodness", at_least=0.6)
        with pytest.raises(ConfigurationError, match="at_least"):
            meter.objective("goodness")
    with pytest.raises(ConfigurationError, match="objective"):
        RagMeter([goodness], exporters=[], scoring=Scoring(objectives="goodness is fine"))


@given(
    score=st.from_regex(r"[a-z_][a-z0-9_.]*", fullmatch=True),
    threshold=st.floats(-1e6, 1e6).map(lambda value: round(value, 6)),
    thousandths=st.integers(1, 999),
    workflow=st.none() | st.text(max_size=20).map(str.strip),
    is_least=st.booleans(),
)
def test_what_is_written_is_read_again(
    score: str, threshold: float, thousandths: int, workflow: str | None, *, is_least: bool
) -> None:
    objective = Objective(
        score=score,
        at_least=threshold if is_least else None,
        at_most=None if is_least else threshold,
        share=thousandths / 1000,
        workflow=workflow,
    )
    assert parse_objective(str(objective)) == objective
