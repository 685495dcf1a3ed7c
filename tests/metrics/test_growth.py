"""Free metrics take time in proportion to the text, and none of them a text that is too long.

Work is counted, not timed: every call that Python makes or that it makes into C.
"""

import pytest
from call_count import calls as count_calls

from ragmeter.metrics import (
    LexicalContextRecall,
    MatchingStrategy,
    PrecisionRecallF1,
    RagSample,
    RankedRetrieval,
    Reference,
    Score,
    default_metrics,
    evaluate,
)
from ragmeter.metrics.protocol import compute_metric
from ragmeter.metrics.text import forget_texts

METRICS = [
    *default_metrics(),
    LexicalContextRecall("whole").prefixed("whole_"),
    *(PrecisionRecallF1(strategy).prefixed(f"{strategy.value}_") for strategy in MatchingStrategy),
    RankedRetrieval(MatchingStrategy.EXACT_CHUNK_MATCH).prefixed("exact_"),
]
SHAPES = {
    "sentences": "The Green Bridge of Holm opened in 1931. ",
    "lines": "The Green Bridge\nof Holm opened in 1931.\n",
    "list": "- Mara Lund, 1931\n",
    "names": "Mara Lund ",
    "numbers": "1,931 ",
    "one word": "bridge ",
    "letters": "x",
    "marks": "!\n",
    "stops": ". ",
    "initials": "А. С. ",
    "russian": "Мост открыла Мара Линд в 1931 году. ",
    "chinese": "玛拉·林德于1931年开通绿桥。",
    "quotes": "> a\n>> b\n",
    "rows": "| a | b |\n",
    "fences": "```\n",
    "hyphens": "light-\n",
    "accents": "e\u0301\u0302 ",
    "hindi": "हिन्दी में। ",
    "keys": "Name: Mara\n",
}


def calls(metric, text: str, reference: str) -> int:
    """Return how many calls `metric` makes for texts of this kind."""
    forget_texts()
    sample = RagSample(
        question=text[:2000],
        contexts=[text, f"{text} end"],
        answer=text,
        reference=Reference(answer=reference, contexts=[reference], context_ids=["1"]),
    )
    found: list[Score] = []
    count = count_calls(lambda: found.extend(compute_metric(metric, sample)))
    assert {score.status for score in found} <= {"ok", "undefined", "missing_input"}
    return count


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_work_grows_with_the_text(metric):
    """Four times the text, reference and context alike, is not more than six times the work."""
    for shape, piece in SHAPES.items():
        work = []
        for size in (250, 600, 2_400):  # the first is for what is loaded once
            text = piece * (size // len(piece))
            work.append(calls(metric, text, text))
        assert work[2] <= 6 * work[1] + 500, shape


def long_sample(**changes) -> RagSample:
    fields = {
        "question": "Who?",
        "contexts": [{"text": "short", "id": "1"}, {"text": "x" * 101, "id": "2"}],
        "answer": "short",
        "stages": [{"name": "store", "kind": "retriever", "contexts": [{"text": "short", "id": "1"}]}],
        "reference": Reference(answer="short", contexts=["short"], context_ids=["1"]),
    }
    return RagSample(**{**fields, **changes})


def test_a_text_that_is_too_long_skips_what_reads_it():
    """Ids are no texts; a metric that does not need the text is measured."""
    for metric in METRICS:
        scores = compute_metric(metric, long_sample(), 100)
        skipped = "contexts" in metric.needs and metric.reads_texts
        for score in scores:
            if not skipped and score.name not in {"repeated_context_ratio", "context_tokens"}:
                assert score.status != "skipped", score
            else:
                assert score.status == "skipped", score
                assert (score.value, score.error_type) == (None, "too_long")
                assert score.explanation is not None
                assert score.explanation.startswith("too long: ")
        assert all(s.status != "skipped" for s in compute_metric(metric, long_sample(), 101))


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "x" * 101},
        {"answer": "x" * 101},
        {"reference": Reference(answer="x" * 101)},
        {"reference": Reference(contexts=["a", "x" * 101])},
    ],
    ids=["question", "answer", "reference answer", "reference contexts"],
)
def test_every_text_has_the_bound(changes):
    """Only the metrics that need the long text are skipped."""
    (field,) = changes
    sample = long_sample(contexts=["short"], **changes)
    skipped = {m.name for m in METRICS if compute_metric(m, sample, 100)[0].status == "skipped"}
    expected = {
        metric.name
        for metric in METRICS
        if field in metric.needs
        or (field == "reference" and any(n.startswith("reference.") for n in metric.needs))
    }
    missing = {m.name for m in METRICS if compute_metric(m, sample)[0].status == "missing_input"}
    assert skipped == expected - missing - {"id_precision_recall"}


def test_comparisons_that_would_take_minutes_are_skipped(monkeypatch):
    """Thousands of different sentences against thousands: too long, not a wait without end."""
    monkeypatch.setattr("ragmeter.metrics.computed.lexical._MOST_WINDOWS", 100_000)  # of 10,000,000
    sentences = " ".join(f"The bridge number {n} opened in {n * 7}." for n in range(5_000))
    others = " ".join(f"The tower number {n} opened in {n * 3}." for n in range(5_000))
    sample = RagSample(
        question="q", contexts=[sentences], reference=Reference(answer=others, contexts=[others])
    )
    (scores,) = evaluate([sample], [PrecisionRecallF1(), LexicalContextRecall()])
    assert {(s.status, s.error_type) for s in scores.values()} == {("skipped", "too_long")}
