"""All that is judged without a reference, in one call."""

import math

import pytest
from judging_tools import judge_at, sample, score
from openai_server import error

from ragmeter import Limits, RagMeter, Scoring
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import (
    ConfigurationError,
    ContextEntityRecall,
    Faithfulness,
    FusedContextMetrics,
    LiveJudged,
    default_metrics,
    evaluate,
    resolve_metrics,
)
from ragmeter.metrics.judged.prompts import load_prompt

THREE = ["It is 31 metres tall.", "Winter is cold.", "It was lit in 1846."]
RANKED = ("judged_precision", "judged_average_precision", "judged_ndcg", "judged_hit_rate")


def live(**fields):
    return sample(**{"contexts": THREE, "reference": None, **fields})


def saying(**by_id):
    return lambda request, item_id: by_id[item_id]


def values(scores):
    return {name: score.value for name, score in scores.items()}


def test_one_call_gives_all_scores(server):
    """Relevant: the first and the third of three; the second sentence of the answer is made up."""
    server.answer = saying(c1=True, c2=False, c3=True, e1="partly", a1="supported", a2="absent", a3="no_claim")
    answer = "It is 31 metres tall. Gulls nest on it. Anything else?"
    scores = score(server, LiveJudged(), live(answer=answer))

    assert [request.ids for request in server.requests] == [["c1", "c2", "c3", "e1", "a1", "a2", "a3"]]
    assert values(scores) == {
        "context_sufficiency": 0.5,
        "judged_precision": pytest.approx(2 / 3),
        "judged_average_precision": pytest.approx((1 / 1 + 2 / 3) / 2),
        "judged_ndcg": pytest.approx((1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3))),
        "judged_hit_rate": 1.0,
        "faithfulness": 0.5,
        "judged_refusal": 0.0,
    }
    assert [s.judge_calls for s in scores.values()] == [1, 0, 0, 0, 0, 0, 0]
    assert [s.target for s in scores.values()] == ["retrieval"] * 5 + ["answer"] * 2
    assert scores["context_sufficiency"].label == "partly"
    assert scores["judged_refusal"].label == "answered"
    assert scores["judged_refusal"].direction == "none"
    assert [item.verdict for item in scores["judged_precision"].items] == [True, False, True]
    assert [item.evidence for item in scores["faithfulness"].items] == ["supported", "absent", "no_claim"]


@pytest.mark.parametrize("contexts", [THREE[:1], []])
def test_what_earlier_turns_found_is_read_for_the_answer_alone(server, contexts):
    server.answer = saying(c1=True, e1="yes", a1="supported")
    given = live(contexts=contexts, carried=[THREE[2]], answer="It was lit in 1846.")
    scores = score(server, LiveJudged(), given)
    [request] = server.requests
    assert request.ids == (["c1", "e1", "a1"] if contexts else ["a1"])
    assert THREE[2] in request.user
    assert scores["faithfulness"].value == 1.0


def test_every_score_says_what_it_saw_with_and_without_texts(server):
    server.answer = saying(c1=True, c2=False, c3=True, e1="partly", a1="supported", a2="refusal")
    given = live(answer="It is 31 metres tall. The keeper is not known.")
    scores = score(server, LiveJudged(), given)
    said = {name: score.summary for name, score in scores.items()}
    texts = [given.question, given.answer, *THREE]

    assert said["judged_precision"] == ("2 of 3 chunks hold something that answers the question; not: chunk-2")
    assert scores["judged_precision"].explanation == f"{said['judged_precision']}: about c2"
    assert said["context_sufficiency"] == "the chunks state some of what a full answer needs"
    assert scores["context_sufficiency"].explanation.endswith(": about e1")
    assert said["judged_refusal"] == ("1 of 2 sentences of the answer refuse, 1 claim something")
    assert not [text for text in texts for summary in said.values() if text in summary]
    assert all(score.explanation for score in scores.values())


@pytest.mark.parametrize(
    ("words", "value", "label", "faithful"),
    [
        (["supported", "absent"], 0.0, "answered", 0.5),
        (["refusal", "no_claim"], 1.0, "refused", None),
        (["refusal", "supported"], 0.5, "partial", 1.0),
        (["no_claim", "no_claim"], 0.0, "answered", None),
    ],
)
def test_refusal_and_faithfulness_by_the_words_for_the_answer(server, words, value, label, faithful):
    server.answer = lambda request, i: words[int(i[1:]) - 1] if i[0] == "a" else True
    scores = score(server, LiveJudged(), live(answer="One thing. Another."))

    assert (scores["judged_refusal"].value, scores["judged_refusal"].label) == (value, label)
    assert scores["faithfulness"].value == faithful
    assert scores["faithfulness"].status == ("undefined" if faithful is None else "ok")


@pytest.mark.parametrize(("word", "value"), [("yes", 1.0), ("partly", 0.5), ("no", 0.0)])
def test_sufficiency_is_a_word(server, word, value):
    server.answer = lambda request, i: word if i == "e1" else True
    found = score(server, LiveJudged(), live())["context_sufficiency"]

    assert (found.value, found.label, found.status) == (value, word, "ok")


def test_plain_true_and_false_are_yes_and_no(server):
    for said, word in ((True, "yes"), (False, "no")):
        server.answer = lambda request, i, said=said: said if i == "e1" else True
        assert score(server, LiveJudged(), live())["context_sufficiency"].label == word


def test_nothing_retrieved_is_insufficient_without_being_asked(server):
    scores = score(server, LiveJudged(), live(contexts=[], answer=None, status="no_answer"))

    assert server.requests == []
    assert (scores["context_sufficiency"].value, scores["context_sufficiency"].label) == (0.0, "no")
    assert [scores[name].status for name in RANKED] == ["undefined"] * 3 + ["ok"]
    assert scores["judged_hit_rate"].value == 0.0


@pytest.mark.parametrize(
    ("word", "faithful", "refused"), [("absent", 0.0, 0.0), ("supported", 0.0, 0.0), ("refusal", None, 1.0)]
)
def test_after_an_empty_retrieval_only_the_answer_is_asked_about(server, word, faithful, refused):
    """Whatever it claims is supported by nothing."""
    server.answer = saying(a1=word)
    scores = score(server, LiveJudged(), live(contexts=[]))

    assert [request.ids for request in server.requests] == [["a1"]]
    assert scores["context_sufficiency"].value == 0.0
    assert scores["faithfulness"].value == faithful
    assert scores["judged_refusal"].value == refused


def test_blank_chunks_are_useless_unasked_and_repeated_ones_judged_once(server):
    server.answer = saying(c1=True, e1="yes", a1="supported")
    scores = score(server, LiveJudged(), live(contexts=["Tall.", " ", "Tall."]))

    assert server.requests[0].ids == ["c1", "e1", "a1"]
    assert scores["judged_precision"].value == pytest.approx(2 / 3)
    only_blank = score(server, LiveJudged(), live(contexts=[" "], answer=" "))
    assert [only_blank[name].value for name in RANKED] == [0.0] * 4
    assert only_blank["context_sufficiency"].value == 0.0
    assert len(server.requests) == 1


def test_what_is_missing_costs_only_the_scores_that_need_it(server):
    without_answer = score(server, LiveJudged(), live(answer=None, status="retrieval_only"))
    unasked = score(server, LiveJudged(), live(answer=None))
    blank = score(server, LiveJudged(), live(question=" "))
    unknown = score(server, LiveJudged(), live(question=None))

    assert [request.ids[-1] for request in server.requests] == ["e1", "e1", "a1", "a1"]
    assert without_answer["faithfulness"].status == "skipped"
    assert unasked["judged_refusal"].status == "missing_input"
    assert unasked["judged_refusal"].missing == "answer"
    assert without_answer["context_sufficiency"].value == 1.0
    assert {blank[name].status for name in RANKED} == {"undefined"}
    assert unknown["context_sufficiency"].missing == "question"
    assert blank["faithfulness"].value == unknown["faithfulness"].value == 1.0


def test_unknown_verdicts_are_partial_with_bounds(server):
    server.answer = lambda request, i: {"c2": True, "c3": False}.get(i, "unknown")
    scores = score(server, LiveJudged(), live())
    bounds = {name: (s.lower, s.upper) for name, s in scores.items()}

    assert {s.status for s in scores.values()} == {"partial"}
    assert server.requests[1].ids == ["c1", "e1", "a1"]
    assert bounds["context_sufficiency"] == (0.0, 1.0)
    assert bounds["judged_precision"] == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert bounds["judged_average_precision"] == (0.5, 1.0)
    assert bounds["judged_ndcg"] == (pytest.approx(1 / math.log2(3)), 1.0)
    assert (bounds["judged_hit_rate"], scores["judged_hit_rate"].value) == ((1.0, 1.0), 1.0)
    assert bounds["judged_refusal"] == (0.0, 1.0)
    assert "1 unknown" in scores["judged_ndcg"].summary

    as_false = score(server, LiveJudged(unknown_as=0), live())
    assert values(as_false) == {
        "context_sufficiency": 0.0,
        "judged_precision": pytest.approx(1 / 3),
        "judged_average_precision": 0.5,
        "judged_ndcg": pytest.approx(1 / math.log2(3)),
        "judged_hit_rate": 1.0,
        "faithfulness": 0.0,
        "judged_refusal": 0.0,
    }


def test_a_chunk_seen_with_that_question_is_not_asked_about_again(server):
    """Sufficiency and answer depend on all chunks: they are."""
    judge = judge_at(server)
    evaluate([live(contexts=THREE[:2])], [LiveJudged()], judge)
    evaluate([live(contexts=THREE[1:])], [LiveJudged()], judge)
    evaluate([live(contexts=THREE[1:])], [LiveJudged()], judge)

    assert [request.ids for request in server.requests] == [["c1", "c2", "e1", "a1"], ["c2", "e1", "a1"]]
    # All chunks are read for the sufficiency of all.
    assert {"chunk c1", "chunk c2"} <= server.requests[1].passages.keys()


def test_a_part_is_asked_alone(server):
    [by_name] = resolve_metrics(["context_sufficiency"])
    scores = score(server, by_name, live())
    refusal = score(server, LiveJudged(only=("judged_refusal",)), live())

    assert [request.ids for request in server.requests] == [["e1"], ["a1"]]
    assert list(scores) == ["context_sufficiency"]
    assert list(refusal) == ["judged_refusal"]
    with pytest.raises(ConfigurationError, match="recall"):
        LiveJudged(only=("recall",))


def test_a_judge_that_fails_strikes_all_scores_each_on_its_span(server):
    server.script.append(error(500))
    scores = score(server, LiveJudged(), live())

    assert {s.status for s in scores.values()} == {"judge_error"}
    assert [s.target for s in scores.values()] == ["retrieval"] * 5 + ["answer"] * 2


def test_a_judge_that_fails_strikes_only_what_it_was_needed_for(server):
    """After an empty retrieval its scores are known; a missing question is missing all the same."""
    server.script += [error(500), error(500)]
    nothing = score(server, LiveJudged(), live(contexts=[]))
    unasked = score(server, LiveJudged(), live(question=None))

    assert nothing["context_sufficiency"].value == 0.0
    assert nothing["judged_hit_rate"].value == 0.0
    assert nothing["judged_precision"].status == "undefined"
    assert nothing["faithfulness"].status == nothing["judged_refusal"].status == "judge_error"
    assert sum(found.judge_calls for found in nothing.values()) == 1
    assert unasked["context_sufficiency"].status == "missing_input"
    assert unasked["faithfulness"].error_type == "server_error"


def test_faithfulness_is_the_one_asked_alone_but_for_reasons(server):
    server.answer = saying(c1=True, c2=True, c3=True, e1="yes", a1="supported", a2="absent")
    given = live(answer="It is tall. It is red.")
    along = score(server, LiveJudged(), given)["faithfulness"]
    alone = score(server, Faithfulness(), given)["faithfulness"]

    assert (along.value, along.status, along.range) == (alone.value, alone.status, alone.range)
    assert [i._replace(reason=None) for i in alone.items] == list(along.items)
    assert along.definition != alone.definition


def of_all(request, item_id):
    said = {"e": "partly", "a": "supported", "t": ["31 metres"]}
    return said.get(item_id[0], item_id not in ("c2", "d2"))


FUSED = [FusedContextMetrics(), LiveJudged(), ContextEntityRecall()]


def test_with_a_reference_it_is_asked_along_with_the_fused_ones(server):
    server.answer = of_all
    judge = judge_at(server)
    [scores] = evaluate([sample(answer="It is tall.")], FUSED, judge)

    assert [request.ids for request in server.requests] == [
        ["c1", "c2", "r1", "r2", "s1", "s2", "d1", "d2", "e1", "a1", "t1"]
    ]
    assert {score.status for score in scores.values()} == {"ok"}
    assert scores["judged_precision"].value == 0.5
    assert scores["context_sufficiency"].judge_calls == 0
    assert [item.id for item in scores["judged_precision"].items] == ["chunk-1", "chunk-2"]
    # What it learned along is known when it is asked alone, and the other way round.
    evaluate([sample(answer="It is tall.")], [LiveJudged()], judge)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("known", "prompt"),
    [(LiveJudged(), "context_fused_entities"), (ContextEntityRecall(), "context_fused_live")],
)
def test_what_is_known_is_not_asked_along(server, known, prompt):
    server.answer = of_all
    judge = judge_at(server)
    evaluate([sample()], [known], judge)
    evaluate([sample()], FUSED, judge)
    task = load_prompt(prompt).task.replace("{tag}", server.requests[-1].tag)

    assert len(server.requests) == 2
    assert task in server.requests[-1].user


def test_without_a_reference_it_is_asked_instead_of_the_fused_ones(server):
    [scores] = evaluate([live()], FUSED, judge_at(server))

    assert [request.ids for request in server.requests] == [["c1", "c2", "c3", "e1", "a1"]]
    assert scores["context_relevancy"].status == "missing_input"
    assert scores["context_relevancy"].missing == "reference.answer"


def test_a_reference_that_comes_later_has_the_fused_ones_asked(server):
    """The live questions are known by then."""
    server.answer = of_all
    meter = RagMeter(
        judge=judge_at(server),
        exporters=[memory := InMemoryExporter()],
        scoring=Scoring(fused=True),
        limits=Limits(hold_s=60),
    )
    try:
        with meter.request("How tall is the lighthouse?") as request:
            request.retrieved(["The lighthouse is 31 metres tall."])
            request.answered("It is tall.")
        assert meter.flush(60)
        [first] = memory.results
        assert [request.ids for request in server.requests] == [["c1", "e1", "a1"]]
        meter.attach_reference(first.run.run_id, "It is 31 metres tall.")
        assert meter.flush(60)
    finally:
        meter.shutdown(60)
    asked = [i for request in server.requests[1:] for i in request.ids]

    assert memory.results[-1].scores["context_precision"].value == 1.0
    assert not {"d1", "e1"} & set(asked)


@pytest.mark.parametrize(
    ("fused", "reference", "cold", "known"),
    [(False, None, 1, 0), (True, None, 1, 0), (False, "It was lit in 1846.", 9, 0)],
)
def test_calls_of_the_default_metrics(server, fused, reference, cold, known):
    """As docs/metrics.md states them; nothing is asked twice."""
    server.answer = lambda request, i: (
        [("When?", "1846")]
        if "questions" in request.form
        else (["1846"] if "entities" in request.form else True)
    )
    judge = judge_at(server)
    metrics = default_metrics(judged=True, fused=fused)
    counts = []
    for _ in range(2):
        before = len(server.requests)
        evaluate([sample(reference=reference)], metrics, judge)
        counts.append(len(server.requests) - before)

    assert counts == [cold, known]


def test_all_prompts_put_the_same_questions():
    alone = load_prompt("live_judged").task.split("\n")
    for name in ("context_fused_live", "context_fused_live_entities"):
        along = load_prompt(name).task.split("\n")
        assert along[1:4] == load_prompt("context_fused").task.split("\n")[1:4]
        for line in (alone[2], alone[3]):
            words = line[2:].partition(" Do not look")[0]
            assert any(words in other for other in along)
    assert load_prompt("context_fused_live").task.split("\n")[-1].startswith("Form: ")


def test_the_prompt_keeps_to_its_tokens(server):
    """730 tokens of chunks and 157 of answer: at most 1,400 of prompt, four characters each."""
    chunk = ("The lighthouse of the town is 31 metres tall and stands on a rock. " * 30)[:973]
    contexts = [f"{number} {chunk}" for number in "123"]
    sentence = "The lighthouse is 31 metres tall, it stands on a rock in the sea, and it was lit by "
    answer = "".join(f"{sentence}{keeper} first. " for keeper in ("Ann", "Bob", "Eve", "Jim", "Kim", "Leo"))
    answer += "It is white, and it is seen from afar. Yes."
    score(server, LiveJudged(), live(contexts=contexts, answer=answer))
    [request] = server.requests

    assert (sum(map(len, contexts)) / 4, len(answer) / 4) == (
        pytest.approx(735, abs=5),
        pytest.approx(157, abs=5),
    )
    assert len(request.ids) >= 10
    assert len(request.system + request.user) / 4 <= 1400
