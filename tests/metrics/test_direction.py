"""Which way a score is better: said by the metric, carried by every score, whoever makes it."""

import json
from dataclasses import dataclass

import pytest

from ragmeter import RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.metrics import (
    ComputedMetric,
    ConfigurationError,
    Metric,
    RagSample,
    RetrievalHealth,
    Score,
    evaluate,
    known_metrics,
    metric,
)
from ragmeter.metrics.judge import CountingJudge
from ragmeter.metrics.protocol import compute_metric
from ragmeter.metrics.registry import resolve_metrics
from ragmeter.pipeline.process.codec import pack_scores, unpack_scores

COUNTS = ("context_count", "context_tokens", "retriever_top_score", "retriever_score_spread")
REPEATS = ("empty_retrieval", "duplicate_ratio", "repeated_context_ratio")
SAMPLE = RagSample(question="q", contexts=["a", "a"], answer="b")


@dataclass(frozen=True)
class Both(ComputedMetric):
    """One score of each kind, one of them made by hand."""

    name = "both"
    score_names = ("noise", "size", "fit", "by_hand")
    needs = ("contexts",)
    method = "exact"
    target = "retrieval"
    definition = "1"
    direction = "lower"
    directions = {"size": "none", "fit": "higher"}  # noqa: RUF012 -- as a user writes it

    def compute(self, sample):
        made = [self.make_score(name, 0.5) for name in self.score_names[:3]]
        return [*made, Score(name="by_hand", value=0.5, status="ok", method="exact", definition="1")]


EXPECTED = {"noise": "lower", "size": "none", "fit": "higher", "by_hand": "lower"}


def _directions(scores):
    return {score.name: score.direction for score in scores}


@pytest.mark.parametrize("sample", [SAMPLE, RagSample(question="q")], ids=["scored", "missing"])
def test_every_score_has_its_direction_with_a_value_or_without(sample):
    assert _directions(compute_metric(Both(), sample)) == EXPECTED
    named = compute_metric(Both().prefixed("my_"), sample)
    assert _directions(named) == {f"my_{name}": way for name, way in EXPECTED.items()}
    assert _directions(compute_metric(Both().passing(at_least=0.1), sample)) == EXPECTED
    assert len({Both().prefixed("a_"), Both().prefixed("a_")}) == 1


def test_a_judged_metric_s_scores_follow_it_too():
    class Toxicity(Metric):
        name = "toxicity"
        score_names = ("toxicity",)
        needs = ()
        method = "llm"
        target = "answer"
        definition = "1"
        direction = "lower"

        async def measure(self, sample, judge):
            score = Score(name="toxicity", value=0.1, status="ok", method="llm", definition="1")
            return [score]

    (row,) = evaluate([SAMPLE], [Toxicity()], judge=_Judge())
    assert row["toxicity"].direction == "lower"


class _Judge(CountingJudge):
    model = "fake"

    async def ask(self, ask):
        raise NotImplementedError


def test_a_function_says_it_in_the_decorator():
    @metric(direction="lower")
    def noise(sample):
        return 0.2

    assert compute_metric(noise, SAMPLE)[0].direction == "lower"
    with pytest.raises(ConfigurationError, match="higher, lower, none"):
        metric(direction="down")


def test_the_built_in_ones():
    """Of repeats, lost documents and empty retrievals fewer are better, a count is neither, all else is quality."""
    other = {
        name: score
        for known in known_metrics()
        for one in resolve_metrics([known])
        for name in one.score_names
        if (score := one.direction_of(name)) != "higher"
    }
    assert other == {
        **dict.fromkeys(COUNTS, "none"),
        **dict.fromkeys(REPEATS, "lower"),
        "refusal": "none",
        "judged_refusal": "none",
        "retrieval_funnel": "none",
        "unsupported_words_max": "lower",
        "fact_conflict": "lower",
        "right_documents_dropped": "lower",
        "right_documents_never_found": "lower",
    }


def test_it_passes_to_the_worker_and_into_files(tmp_path):
    scores = compute_metric(Both(), SAMPLE)
    assert unpack_scores(pack_scores([scores])) == [scores]

    path = tmp_path / "scores.jsonl"
    with RagMeter(metrics=[RetrievalHealth()], exporters=[JsonlExporter(path)]) as meter:
        meter.submit(SAMPLE)
        assert meter.flush(60)
    (line,) = path.read_text("utf-8").splitlines()
    said = {name: score["direction"] for name, score in json.loads(line)["scores"].items()}
    assert said == {**dict.fromkeys(COUNTS, "none"), **dict.fromkeys(REPEATS, "lower")}


@pytest.mark.parametrize(("sample", "missing"), [(RagSample(question="q"), "contexts"), (SAMPLE, None)])
def test_a_score_names_the_input_that_it_lacks(sample, missing):
    assert {score.missing for score in compute_metric(Both(), sample)} == {missing}
