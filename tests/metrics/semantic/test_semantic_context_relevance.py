"""How near the nearest chunk is to the question."""

import math

import pytest

from ragmeter.metrics import RagSample, SemanticContextRelevance, aevaluate, evaluate
from ragmeter.metrics.embedder import InProcessEmbedder
from ragmeter.metrics.judge import JudgeBudget

PLACES = {
    "How tall?": [1.0, 0.0],
    "31 metres.": [4.0, 3.0],
    "A harbour.": [0.0, 2.0],
    "No.": [-1.0, 0.0],
    "zero": [0.0, 0.0],
    "nan": [math.nan, 1.0],
    "longer": [1.0, 0.0, 0.0],
}


def embed(texts):
    return [PLACES[text] for text in texts]


def sample(*chunks, question="How tall?"):
    return RagSample(question=question, contexts=chunks, answer="31 metres.")


def score(given, embedder=embed, **options):
    [scores] = evaluate([given], [SemanticContextRelevance(embedder, **options)])
    return scores["semantic_context_relevance"]


def test_the_largest_cosine_with_the_cosine_of_each_rank():
    found = score(sample("A harbour.", " ", "31 metres.", "No.", "31 metres."))

    assert found.value == pytest.approx(0.8)
    assert (found.status, found.method, found.target) == ("ok", "embedding", "retrieval")
    assert found.range == (-1.0, 1.0)
    assert [item.id for item in found.items] == [f"chunk-{n}" for n in range(1, 6)]
    assert [item.value for item in found.items] == [
        pytest.approx(0.0, abs=1e-6),
        None,
        pytest.approx(0.8),
        -1.0,
        pytest.approx(0.8),
    ]
    assert found.items[1].reason == "blank"
    assert found.definition == "1;model=embed"
    assert found.summary == ("chunk-3 is nearest to the question: cosine 0.80, the others -1.00 to 0.80")
    assert found.explanation == f"{found.summary}: “31 metres.”"


def test_the_order_of_chunks_and_blank_ones_change_nothing():
    values = {
        round(score(sample(*chunks)).value, 6)
        for chunks in (("No.", "31 metres."), ("31 metres.", "No."), ("", "31 metres.", "No."))
    }
    assert values == {0.8}


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (sample(), "undefined"),
        (sample(" ", ""), "undefined"),
        (sample("31 metres.", question=" "), "undefined"),
        (sample("31 metres.", question=None), "missing_input"),
        (RagSample(question="How tall?", contexts=None), "missing_input"),
    ],
)
def test_without_something_to_compare_there_is_no_value(given, status):
    found = score(given, embedder=None if status == "missing_input" else embed)

    assert (found.status, found.value) == (status, None)


@pytest.mark.parametrize("bad", ["zero", "nan", "longer", "unheard of"])
def test_what_is_no_vector_is_an_error_of_the_metric(bad):
    found = score(sample("31 metres.", bad))

    assert (found.status, found.value) == ("metric_error", None)
    assert "metres" not in (found.explanation or "")


def test_without_an_embedder_it_is_skipped():
    found = score(sample("31 metres."), embedder=None)
    by_name = evaluate([sample("31 metres.")], ["semantic_context_relevance"])[0]

    assert (found.status, found.explanation) == ("skipped", "no embedder is configured")
    assert by_name["semantic_context_relevance"].status == "skipped"


def test_a_used_up_budget_skips():
    embedder = InProcessEmbedder(embed, budget=JudgeBudget(calls_per_minute=1))
    given = [sample("31 metres."), sample("A harbour.")]
    statuses = [score(one, embedder).status for one in given]

    assert statuses == ["ok", "skipped"]
    assert score(given[1], embedder).error_type == "budget"


def test_evaluate_gives_its_embedder_to_those_that_have_none():
    own = SemanticContextRelevance(lambda texts: [[1.0]] * len(texts)).prefixed("own_")
    [scores] = evaluate(
        [sample("31 metres.")],
        ["semantic_context_relevance", own, SemanticContextRelevance().prefixed("other_")],
        embedder=embed,
    )

    assert scores["semantic_context_relevance"].value == pytest.approx(0.8)
    assert scores["other_semantic_context_relevance"].value == pytest.approx(0.8)
    assert scores["own_semantic_context_relevance"].value == 1.0
    assert "semantic_context_relevance" in evaluate([sample("No.")], embedder=embed)[0]
    assert "semantic_context_relevance" not in evaluate([sample("No.")])[0]


@pytest.mark.asyncio
async def test_it_works_on_a_running_loop():
    [scores] = await aevaluate([sample("No.")], ["semantic_context_relevance"], embedder=embed)
    assert scores["semantic_context_relevance"].value == -1.0


def test_many_samples_take_few_calls():
    embedder = InProcessEmbedder(lambda texts: [[1.0, len(text)] for text in texts], name="length")
    samples = [sample("one", "two", question=f"{'?' * n}") for n in range(1, 30)]
    evaluate(samples, ["semantic_context_relevance"], embedder=embedder)

    assert embedder.stats.texts == 31
    assert embedder.stats.calls <= 4
