"""`context_entity_recall` through the whole judge path."""

import pytest
from judging_tools import judge_at, only, oracle, sample

from ragmeter.metrics import ContextEntityRecall, RagSample, evaluate

SEEDS = {record["id"]: record for record in oracle("seed_examples")}


def naming(given):
    """A sample whose reference and context name the entities of a worked example."""
    return RagSample(
        question=None,
        contexts=[f"A text that names {', then '.join(given['context_entities'])}."],
        reference={"answer": f"A text about {', and about '.join(given['reference_entities'])}."},
    )


def listed(*entities):
    return lambda request, item_id: list(entities)


@pytest.mark.parametrize("name", ["seed000-1", "seed000-2", "seed004-entities"])
def test_worked_examples(server, name):
    """The sources' shares, with the reference's entities from the judge and presence by tiers."""
    given = SEEDS[name]["input"]
    server.answer = listed(*given["reference_entities"])
    result = only(server, ContextEntityRecall(), naming(given))

    assert result.value == pytest.approx(SEEDS[name]["expected"])
    assert (result.status, result.judge_calls) == ("ok", 1)


@pytest.mark.parametrize("name", ["seed000-1", "seed000-2", "seed004-entities"])
def test_worked_examples_as_plain_sets(server, name):
    """strict=True: both lists from the judge, strings compared to the letter."""
    given = SEEDS[name]["input"]
    asked = naming(given)
    reference = asked.reference.answer
    server.answer = lambda request, item_id: given[
        "reference_entities" if request.text_of(item_id) == reference else "context_entities"
    ]
    result = only(server, ContextEntityRecall(strict=True), asked)

    assert result.value == pytest.approx(SEEDS[name]["expected"])


def test_the_tier_that_decided_is_evidence(server):
    server.answer = listed("Эйфелева башня", "1,000", "Brasilia", "上海市", "Oslo")
    contexts = ["У Эйфелевой башни 1000 ступеней.", "Brasília; 上海 is large."]
    reference = "Эйфелева башня has 1,000 steps; Brasilia, 上海市 and Oslo have fewer."
    asked = sample(contexts=contexts, reference=reference)
    result = only(server, ContextEntityRecall(), asked)

    assert result.value == 4 / 5
    assert [item.reason for item in result.items] == [
        "tier: stems", "tier: number", "tier: accents", "tier: han", "not found"
    ]  # fmt: skip
    assert result.items[2].evidence == "chunk-2"


def test_a_known_reference_costs_no_call(server):
    server.answer = listed("Oslo")
    judge = judge_at(server)
    for context in ("Oslo is cold.", "Bergen is wet."):
        asked = sample(contexts=[context], reference="It is in Oslo.")
        [scores] = evaluate([asked], [ContextEntityRecall()], judge)
    result = scores["context_entity_recall"]

    assert (result.value, result.judge_calls, result.cache_hits) == (0.0, 0, 1)
    assert len(server.requests) == 1


def test_aliases_asks_about_the_misses_only(server):
    """One call for the entities that no tier found; its verdict stands in the evidence."""
    server.answer = lambda request, item_id: (
        ["Oslo", "Peking", "Rome"] if item_id.startswith("t") else item_id == "e2"
    )
    contexts = ["Oslo and Beijing are capitals."]
    asked = sample(contexts=contexts, reference="Oslo, Peking and Rome are capitals.")
    result = only(server, ContextEntityRecall(aliases=True), asked)

    assert result.value == pytest.approx(2 / 3)
    assert server.requests[1].ids == ["e2", "e3"]
    assert result.items[1].reason == "tier: judge; about e2"


@pytest.mark.parametrize(
    ("fields", "value", "status", "calls"),
    [
        ({"reference": None}, None, "missing_input", 0),
        ({"reference": " "}, None, "undefined", 0),
        ({"contexts": []}, 0.0, "ok", 1),
        ({"contexts": ["  "]}, 0.0, "ok", 1),
    ],
)
def test_edges(server, fields, value, status, calls):
    server.answer = listed("Oslo")
    result = only(server, ContextEntityRecall(), sample(**{"reference": "In Oslo.", **fields}))

    assert (result.value, result.status, len(server.requests)) == (value, status, calls)


def test_a_reference_that_names_nothing_is_undefined(server):
    server.answer = listed()
    result = only(server, ContextEntityRecall(), sample())

    assert (result.value, result.status) == (None, "undefined")


def test_repeats_in_the_list_do_not_change_the_score(server):
    server.answer = listed("Oslo", "oslo", "Oslo", "Rome")
    asked = sample(contexts=["Oslo"], reference="Oslo, not Rome; oslo!")
    result = only(server, ContextEntityRecall(), asked)

    assert result.value == 0.5


def test_exclusive_options_are_refused():
    with pytest.raises(ValueError, match="strict"):
        ContextEntityRecall(strict=True, aliases=True)
