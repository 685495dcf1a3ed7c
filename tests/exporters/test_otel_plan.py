"""The plan of which score stands where, for every shape of request."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import SpanContext

from ragmeter import RagRun, Retrieval, ScoredRun
from ragmeter.exporters.otel._spans import SPAN_MODES, plan_spans
from ragmeter.metrics import RagSample, Score

SPAN = SpanContext(1, 2, is_remote=False)
spans = st.sampled_from([None, SPAN])
retrievals = st.lists(spans.map(lambda target: Retrieval(started_ns=1, ended_ns=2, target=target)), max_size=3)
scores = st.lists(
    st.builds(
        lambda n, target: Score(
            name=f"score_{n}", value=1.0, status="ok", method="exact", definition="1", target=target
        ),
        st.integers(0, 9),
        st.sampled_from(["retrieval", "answer"]),
    ),
    unique_by=lambda score: score.name,
)
runs = st.builds(
    lambda target, found, status, each, late: ScoredRun(
        run=RagRun(
            sample=RagSample(question="q", status=status),
            run_id="r",
            framework="manual",
            started_ns=1,
            ended_ns=2,
            retrievals=tuple(found),
            target=target,
        ),
        scores={score.name: score for score in each},
        late=late,
    ),
    spans,
    retrievals,
    st.sampled_from(["ok", "retrieval_only", "error"]),
    scores,
    st.booleans(),
)
modes = st.sampled_from(SPAN_MODES)


@given(runs, modes)
def test_every_score_stands_in_exactly_one_place(scored, mode):
    """Nothing is lost and nothing is said twice, unless spans are switched off."""
    plan = plan_spans(scored, mode)
    placed = [*plan.on_request, *plan.on_retrieval, *plan.beside]

    assert sorted(score.name for score in placed) == ([] if mode == "off" else sorted(scored.scores))


@given(runs, modes)
def test_scores_stand_only_on_spans_that_are_written(scored, mode):
    """A score on a span nobody writes would vanish."""
    plan = plan_spans(scored, mode)

    assert plan.request or not plan.on_request
    assert plan.retrievals or not plan.on_retrieval


@given(runs)
def test_auto_never_records_what_another_instrumentation_recorded(scored):
    """One trace, no duplicate spans."""
    plan = plan_spans(scored, "auto")

    assert not (plan.request and scored.run.target)
    assert not [each for each in plan.retrievals if each.target]


@given(runs, modes)
def test_late_and_evaluation_mode_never_record_the_request(scored, mode):
    """The request's own spans left with the first export, or are not ours to write."""
    plan = plan_spans(replace(scored, late=True), mode)

    assert (plan.request, plan.retrievals) == (False, ())
    assert plan_spans(scored, "evaluation").request is False
