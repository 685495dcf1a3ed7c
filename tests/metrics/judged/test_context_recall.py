"""`context_recall`, by sentence and by claim, through the whole judge path."""

import pytest
from judging_tools import judge_at, only, oracle, sample, verdicts

from ragmeter.metrics import ContextRecall, RagSample, Reference, evaluate

SEEDS = {record["id"]: record for record in oracle("seed_examples")}


LIGHTHOUSE = RagSample(
    question=None,
    contexts=["Маяк зажгли в 1846 году для порта Либавы."],
    reference=Reference(
        answer="Маяк построили в 1846 году. Он стоит в Либаве, Латвия. Проект составил Карл Эйнерт."
    ),
)
DROUGHT = RagSample(
    question=None,
    contexts=["Wells ran dry after years without rain.", "Farms and towns draw too much water."],
    reference=Reference(answer="The lake shrank through drought, farming, towns, and leaks."),
)


def test_worked_example_by_sentence(server):
    """Three sentences, two of them found: 2/3, incomplete."""
    server.answer = verdicts(True, True, False)
    result = only(server, ContextRecall(), LIGHTHOUSE)

    assert result.value == pytest.approx(SEEDS["seed001"]["expected"])
    assert (result.label, result.judge_calls) == ("incomplete", 1)
    assert result.items[1].text == "Он стоит в Либаве, Латвия."
    assert "unit=sentence" in result.definition


def test_worked_example_by_a_strict_judge(server):
    """The context never names Latvia: 1/3, insufficient."""
    server.answer = verdicts(True, False, False)
    result = only(server, ContextRecall(), LIGHTHOUSE)

    assert result.value == pytest.approx(1 / 3)
    assert result.label == "insufficient"


def claims(*texts):
    def answer(request, item_id):
        return list(texts) if item_id.startswith("t") else item_id != f"r{len(texts)}"

    return answer


def test_worked_example_by_claim(server):
    """Four causes in one sentence, three of them found: 3/4, mostly complete."""
    server.answer = claims("Drought.", "Farming.", "Towns.", "Leaks.")
    result = only(server, ContextRecall(unit="claim"), DROUGHT)

    assert result.value == SEEDS["seed004-recall"]["expected"]
    assert (result.label, result.judge_calls) == ("mostly_complete", 2)
    assert "unit=claim" in result.definition


def test_claims_of_a_reference_are_asked_for_once(server):
    server.answer = claims("It is 31 metres tall.", "It was lit.")
    judge = judge_at(server)
    asked = [sample(contexts=["A chunk."]), sample(contexts=["Another chunk."])]
    for one in asked:
        [scores] = evaluate([one], [ContextRecall(unit="claim")], judge)

    assert [len(request.ids) for request in server.requests] == [1, 2, 2]
    assert (scores["context_recall"].judge_calls, scores["context_recall"].cache_hits) == (1, 1)


@pytest.mark.parametrize("attributed", [[0], [1, 0], [1, 1, 0], [1] * 7])
def test_agrees_with_ragas(server, attributed):
    """The share of attributed sentences, as ragas counts it."""
    expected = {
        tuple(r["input"]["attributed"]): r["expected"]
        for r in oracle("ragas_llm_arithmetic")
        if "attributed" in r["input"] and set(r["input"]["attributed"]) <= {0, 1}
    }
    reference = "\n".join(f"Sentence number {n}." for n in range(len(attributed)))
    server.answer = verdicts(*map(bool, attributed))
    result = only(server, ContextRecall(), sample(reference=reference))

    assert result.value == pytest.approx(expected[tuple(attributed)], abs=1e-9)


@pytest.mark.parametrize(
    ("found", "label"),
    [(10, "complete"), (9, "complete"), (8, "mostly_complete"), (7, "mostly_complete"),
     (6, "incomplete"), (5, "incomplete"), (4, "insufficient"), (0, "insufficient")],
)  # fmt: skip
def test_bands_include_their_lower_end(server, found, label):
    reference = "\n".join(f"Sentence number {n}." for n in range(10))
    server.answer = lambda request, item_id: int(item_id[1:]) <= found
    result = only(server, ContextRecall(), sample(reference=reference))

    assert (result.value, result.label) == (found / 10, label)


@pytest.mark.parametrize("contexts", [[], ["  ", "\n"]])
def test_nothing_retrieved_finds_nothing(server, contexts):
    result = only(server, ContextRecall(), sample(contexts=contexts))

    assert (result.value, result.status, result.label) == (0.0, "ok", "insufficient")
    assert len(server.requests) == 0


def test_a_reference_that_claims_nothing_is_undefined(server):
    server.answer = lambda request, item_id: []
    result = only(server, ContextRecall(unit="claim"), sample())

    assert (result.value, result.status) == (None, "undefined")


def test_unknown_verdicts_give_bounds(server):
    server.answer = verdicts(True, None)
    result = only(server, ContextRecall(), sample())

    assert (result.value, result.status, result.label) == (None, "partial", None)
    assert (result.lower, result.upper) == (0.5, 1.0)


def test_the_whole_reference_is_read_and_chunks_come_first(server):
    """Sentences are numbered lines of one reference; equal chunk prefixes serve prompt caches."""
    only(server, ContextRecall(), sample())

    assert list(server.requests[0].passages) == [
        "chunk c1", "chunk c2", "question", "claims"
    ]  # fmt: skip
    assert server.requests[0].passages["claims"] == (
        "r1: The lighthouse is 31 metres tall.\nr2: It was lit in 1846."
    )


def test_a_wrong_unit_is_refused_at_construction():
    with pytest.raises(ValueError, match="unit"):
        ContextRecall(unit="paragraph")


def test_the_lines_under_judgement_are_claims_and_no_evidence(server):
    """Called reference answer they were taken for one: by themselves they are not found anywhere."""
    only(server, ContextRecall(), sample())
    request = server.requests[0]

    assert not any("reference" in title for title in request.passages)
    assert "The claims are no evidence." in request.user
    assert "everything it states" in request.user
