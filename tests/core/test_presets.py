"""What a meter measures that was told nothing, a preset, or names: the few that matter, and no noise."""

import pytest
from fakes_core import scored

from ragmeter import ConfigurationError, RagMeter, RagSample, Reference
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import evaluate

LIVE = RagSample(question="Which towers?", contexts=["Two towers stand."], answer="Two towers.")
GOLDEN = LIVE.model_copy(update={"reference": Reference(answer="Two towers.", contexts=("Two towers stand.",))})


def _scored(sample, **arguments):
    [result], _ = scored(sample, **{"metrics": None, **arguments})
    return result.scores


def _missing(scores):
    return {score.missing for score in scores.values() if score.status == "missing_input"}


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_by_default_a_request_without_a_reference_hears_nothing_of_references(scoring):
    scores = _scored(LIVE, scoring=scoring)

    assert {"lexical_groundedness", "lexical_context_relevance", "context_count"} <= set(scores)
    assert {"precision", "ndcg", "rouge_l", "lexical_query_coverage"}.isdisjoint(scores)
    assert _missing(scores) == {"contexts.score"}  # the retriever gave none


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_by_default_a_request_that_brings_a_reference_has_the_golden_scores(scoring):
    scores = _scored(GOLDEN, scoring=scoring)

    assert scores["precision"].value == 1.0
    assert scores["rouge_l"].value == 1.0
    assert scores["lexical_groundedness"].value == 1.0


def test_by_default_a_late_reference_leads_to_the_golden_scores():
    memory = InMemoryExporter()
    with RagMeter(exporters=[memory]) as meter:
        with meter.request("Which towers?") as request:
            request.retrieved(["Two towers stand."])
            request.answered("Two towers.")
        assert meter.flush(30)
        meter.attach_reference(request.run_id, {"contexts": ["Two towers stand."]})
        assert meter.flush(30)

    assert "precision" not in memory.results[0].scores
    assert memory.results[1].scores["precision"].value == 1.0


def test_whoever_gives_references_hears_which_requests_have_none():
    scores = _scored(LIVE, references={"Which harbour?": "This one."})

    assert scores["precision"].status == "missing_input"
    assert "stages" not in _missing(scores)


def test_by_default_nobody_hears_of_stages_that_nobody_watched():
    memory = InMemoryExporter()
    with RagMeter(exporters=[memory]) as meter:
        with meter.request("Which towers?") as request:
            request.retrieved(["Two towers stand."])
            request.answered("Two towers.")
        meter.submit(LIVE)
        assert meter.flush(30)

    watched, given = (result.scores for result in memory.results)
    assert watched["retrieval_funnel"].value == 1.0
    assert "retrieval_funnel" not in given
    assert "retrieval_funnel" not in evaluate([LIVE])[0]
    assert "stages" in _missing(_scored(LIVE, metrics="live"))


@pytest.mark.parametrize(
    ("sample", "metrics", "there", "absent"),
    [
        # Live reads no reference even where there is one.
        (GOLDEN, "live", {"lexical_groundedness"}, {"precision"}),
        (GOLDEN, ["live"], {"lexical_groundedness"}, {"precision"}),
        (LIVE, "all", {"lexical_query_coverage"}, set()),
        (LIVE, ["live", "lexical_query_coverage", "lexical_groundedness"],
         {"lexical_groundedness", "lexical_query_coverage"}, set()),
    ],
)  # fmt: skip
def test_what_presets_and_names_measure(sample, metrics, there, absent):
    scores = set(_scored(sample, metrics=metrics))

    assert there <= scores
    assert absent.isdisjoint(scores)


def test_golden_is_always_measured_and_says_what_is_missing():
    scores = _scored(LIVE, metrics="golden")

    assert scores["lexical_groundedness"].value == 1.0
    assert _missing(scores) >= {"reference.contexts", "reference.answer"}


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("lively", "'live', 'golden', 'all', or a list of names"),
        ("faithfulness", r"\['faithfulness'\]"),
        (["live", "all"], "'live' and 'all'"),
    ],
)
def test_a_wrong_preset_is_explained(metrics, said):
    with pytest.raises(ConfigurationError, match=said):
        RagMeter(metrics=metrics)


def test_evaluate_takes_them_and_follows_the_references_it_is_given():
    (live,), both = evaluate([LIVE]), evaluate([LIVE, GOLDEN])

    assert "precision" not in live
    assert [found["precision"].status for found in both] == ["missing_input", "ok"]
    assert "precision" not in evaluate([GOLDEN], "live")[0]
    assert live.verdict.word == "good"


def test_from_the_environment(monkeypatch):
    monkeypatch.setenv("RAGMETER_METRICS", "live")
    with RagMeter.from_env() as meter:
        assert "lexical_groundedness" in repr(meter)
        assert "precision_recall_f1" not in repr(meter)
