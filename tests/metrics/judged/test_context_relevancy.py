"""`context_relevancy`, by sentence and by claim, through the whole judge path."""

import pytest
from judging_tools import judge_at, only, oracle, sample

from ragmeter.metrics import ContextRelevancy, RagSample, evaluate


def about(*words):
    return lambda request, item_id: any(word in request.text_of(item_id) for word in words)


def test_worked_example(server):
    """Three one-sentence chunks, one off the point: 2/3."""
    [record] = oracle("seed_examples", id="seed004-relevancy")
    relevant = record["input"]["relevant"]
    server.answer = lambda request, item_id: bool(relevant[int(item_id[1:]) - 1])
    asked = RagSample(
        question="What keeps a lighthouse lamp turning?",
        contexts=["The lamp floats on mercury.", "Gulls nest nearby.", "A weight drives it."],
    )
    result = only(server, ContextRelevancy(), asked)

    assert result.value == pytest.approx(record["expected"])
    assert (result.status, result.judge_calls) == ("ok", 1)
    assert server.requests[0].form["lines"].keys() == {"true", "false"}


def test_statements_are_pooled_and_each_chunk_keeps_its_ratio(server):
    """Micro average over all sentences: (2 + 0) / (3 + 1); the chunks' own are 2/3 and 0."""
    server.answer = about("tall", "lamp")
    contexts = ["It is tall. Its lamp turns. Gulls nest there.", "The harbour freezes."]
    result = only(server, ContextRelevancy(), sample(contexts=contexts))

    assert result.value == 0.5
    ratios = {item.id: item.value for item in result.items if "." not in item.id}
    assert ratios == {"chunk-1": pytest.approx(2 / 3), "chunk-2": 0.0}
    assert [i.verdict for i in result.items if "." in i.id] == [True, True, False, False]


# deepeval drops verdicts that are not yes or no in Latin letters; its zeros then are not ours.
READ_BY_DEEPEVAL = [
    record
    for record in oracle("deepeval_contextual", metric="ContextualRelevancyMetric")
    if {*record["input"]["verdicts_each_context"], "yes"} <= {"yes", "no"}
    and record["input"]["verdicts_each_context"]
]


@pytest.mark.parametrize("record", READ_BY_DEEPEVAL, ids=lambda record: str(record["input"]))
def test_agrees_with_deepeval_where_it_reads_the_verdicts(server, record):
    """The same verdicts in every chunk: the same ratio, in one call instead of K."""
    words = record["input"]["verdicts_each_context"]
    server.answer = lambda request, item_id: (
        words[int(request.text_of(item_id).split()[1].rstrip("."))] == "yes"
    )
    contexts = [
        "\n".join(f"Statement {n}." for n in range(len(words))) + "\n" * k
        for k in range(record["input"]["n_contexts"])
    ]
    result = only(server, ContextRelevancy(), sample(contexts=contexts))

    assert result.value == pytest.approx(record["expected"])
    assert result.judge_calls == 1


def test_a_blank_chunk_adds_nothing(server):
    result = only(server, ContextRelevancy(), sample(contexts=["It is tall.", " "]))

    assert result.value == 1.0


def test_sentences_of_identical_chunks_are_judged_once_and_counted_each_time(server):
    server.answer = about("tall")
    result = only(server, ContextRelevancy(), sample(contexts=["tall.", "short.", "tall."]))

    assert result.value == pytest.approx(2 / 3)
    assert server.requests[0].ids == ["s1", "s2"]


def test_claims_are_split_per_chunk_and_remembered(server):
    """With unit="claim" the judge splits each chunk once ever; only new chunks are sent."""
    judge = judge_at(server)
    server.answer = lambda request, item_id: (
        ["It is tall. A.", "It is tall. B."]
        if item_id.startswith("t")
        else request.text_of(item_id).endswith("A.")
    )
    evaluate([sample(contexts=["One is tall.", "Two is tall."])], [ContextRelevancy(unit="claim")], judge)
    [scores] = evaluate(
        [sample(contexts=["Two is tall.", "Three is tall."])], [ContextRelevancy(unit="claim")], judge
    )

    assert scores["context_relevancy"].value == 0.5
    assert [len(request.ids) for request in server.requests] == [2, 4, 1, 2]


def test_an_id_in_both_lists_or_in_none_is_unknown(server):
    """s1 stands in both lists, s3 in none: both are asked again, then the score is partial."""
    reply = {"lines": {"true": ["s1", "s2"], "false": ["s1"]}}
    server.script += [
        lambda request: request.tagged(reply),
        lambda request: {"lines": {"true": [], "false": []}},
    ]
    result = only(server, ContextRelevancy(), sample(contexts=["One. Two. Three."]))

    assert server.requests[1].ids == ["s1", "s3"]
    assert (result.status, result.lower, result.upper) == ("partial", pytest.approx(1 / 3), 1.0)
