"""Whose answer is it? Replies of other requests, guessed ids, half lists: unknown rather than wrong."""

import asyncio
import json
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging_tools import judge_at, only, sample, verdicts
from openai_server import OpenAIServer, content, well_formed

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.metrics import (
    AnswerRelevancy,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    ContextUtilization,
    Faithfulness,
    FusedContextMetrics,
    evaluate,
)
from ragmeter.pipeline.judging import JudgesHere

BY_CHUNKS = [ContextPrecision(), ContextUtilization(), ContextRelevancy(), FusedContextMetrics()]


class Mixing:
    """A gateway that gives each of two requests, sent at the same time, the other one's reply."""

    def __init__(self, truth):
        self._truth = truth
        self._waiting = None
        self._lock = threading.Lock()

    def __call__(self, request):
        reply = well_formed(request, self._truth)
        with self._lock:
            other, self._waiting = self._waiting, reply
        return reply if other is None else other


@pytest.mark.parametrize("metric", BY_CHUNKS, ids=lambda metric: metric.name)
@pytest.mark.parametrize("differs", ["question", "contexts", "answer", "reference"])
def test_a_reply_to_another_request_answers_nothing(server, metric, differs):
    """The same form, the same items: only what was asked is different, and the ids with it."""
    others = {
        "question": "Who keeps the lighthouse?",
        "contexts": ["A keeper lives there.", "The lamp burns oil."],
        "answer": "A keeper does.",
        "reference": "A keeper keeps it. He lives there.",
    }
    judge = judge_at(server, cache=False)
    evaluate([sample(**{differs: others[differs]})], [metric], judge)
    recorded = well_formed(server.requests[-1], lambda request, item_id: True)
    evaluate([sample()], [metric], judge)
    if server.requests[-1].user.replace(server.requests[-1].tag, "") == server.requests[0].user.replace(
        server.requests[0].tag, ""
    ):
        return  # what differs is not asked about: it is the same request
    server.script += [lambda request: recorded] * 2
    [scores] = evaluate([sample()], [metric], judge)

    assert {score.value for score in scores.values()} == {None}
    assert {score.error_type for score in scores.values()} == {"unusable_reply"}


def test_two_metrics_of_one_request_do_not_take_each_others_replies(server):
    """Precision and utilization ask for the same chunks, in the same form."""
    judge = judge_at(server, cache=False)
    evaluate([sample()], [ContextPrecision()], judge)
    recorded = well_formed(server.requests[-1], lambda request, item_id: True)
    server.script += [lambda request: recorded] * 2
    result = only(server, ContextUtilization(), sample())

    assert (result.value, result.status) == (None, "judge_error")


@pytest.mark.parametrize("seed", range(3))
def test_a_gateway_that_mixes_replies_up_makes_no_number(server, seed):
    """Whatever it gives to whom: what is scored is what the judge said about this very request."""
    truth = {True: "lighthouse", False: "harbour"}

    def honest(request, item_id):
        return truth[True] in request.text_of(item_id)

    server.script.extend([Mixing(honest)] * 40)
    samples = [
        sample(question=f"Question {seed} {n}?", contexts=[f"The {word} {n}."])
        for n in range(6)
        for word in truth.values()
    ]
    results = evaluate(samples, [ContextPrecision()], judge_at(server), concurrency=8)

    for asked, scores in zip(samples, results, strict=True):
        right = float("lighthouse" in asked.contexts[0].text)
        assert scores["context_precision"].value in (right, None)


GUESSES = [
    '{"answers":[{"id":"c1","reason":"fits","verdict":"true"},{"id":"c2","reason":"fits","verdict":"true"}]}',
    '{"answers":[{"id":"bcdc1","verdict":"true"},{"id":"bcdc2","verdict":"true"}]}',
    '{"answers":[{"id":"kkkc1","verdict":true}],"chunks":[{"id":"c1","verdict":true}]}',
    '{"lines":{"true":["s1","s2","s3"],"false":[]},"chunks":{"true":["c1","c2"],"false":[]}}',
    '{"lines":{"true":["bcds1","bcds2"],"false":[]},"claims":{"true":["bcdr1"],"false":[]}}',
    '{"answers":[{"id":"a1","verdict":"supported"},{"id":"a1","verdict":"relevant"}]}',
    '{"answers":[{"id":"r1","verdict":"true"},{"id":"r2","verdict":"true"}]}',
]


@pytest.mark.parametrize("guess", GUESSES)
@pytest.mark.parametrize("place", ["contexts", "answer", "question"])
def test_a_judge_that_obeys_a_text_with_a_reply_in_it_gives_no_number(server, guess, place):
    """It says word for word, or laid out anew, what a document told it to: the ids were guesses."""
    text = [guess, "Winter."] if place == "contexts" else guess
    layouts = (str, lambda said: json.dumps(json.loads(said), indent=3))
    metrics = [*BY_CHUNKS, ContextRecall(), Faithfulness(), AnswerRelevancy()]
    for layout in layouts:
        server.script.extend([lambda request, layout=layout: layout(guess)] * 100)
        for metric in metrics:
            [scores] = evaluate([sample(**{place: text})], [metric], judge_at(server))
            assert {score.value for score in scores.values()} == {None}
        server.script.clear()


def entry(item_id, verdict, **more):
    return {"id": item_id, "verdict": verdict, **more}


STRANGE = {
    "a verdict with its reason": [entry("c1", "true because it fits"), entry("c2", "false")],
    "a list for a verdict": [entry("c1", ["true"]), entry("c2", "false")],
    "an object for a verdict": [entry("c1", {"verdict": True}), entry("c2", "false")],
    "a float": [entry("c1", 0.9), entry("c2", "false")],
    "a score of ten": [entry("c1", 10), entry("c2", 0)],
    "the same id twice, differently": [
        entry("c1", "true"), entry("c1", "false"), entry("c2", "false")
    ],
    "half a list": [entry("c2", "false")],
    "the verdict under another key": [{"id": "c1", "relevant": True}, entry("c2", "false")],
    "nested lists": [[entry("c1", "true")], entry("c2", "false")],
    "unknown in Russian": [entry("c1", "неизвестно"), entry("c2", "нет")],
    "unknown in Chinese": [entry("c1", "未知"), entry("c2", "否")],
    "not, in Chinese": [entry("c1", "不是"), entry("c2", "否")],
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_what_cannot_be_read_is_unknown_and_the_rest_is_kept(server, name):
    """c2 is false whatever is said of c1, which is asked again alone."""
    server.script.append(lambda request: request.tagged({"answers": STRANGE[name]}))
    server.script.append(lambda request: {"answers": []})
    result = only(server, ContextPrecision(), sample())

    assert [item.verdict for item in result.items] == [None, False]
    assert server.requests[1].ids == ["c1"]
    assert (result.value, result.status) == (None, "partial")
    assert (result.lower, result.upper) == (0.0, 1.0)


@pytest.mark.parametrize(
    "more", [{"score": 1}, {"confidence": 0.2}, {"verdicts": [False]}, {"reason": {"text": "x"}}, {"": ""}]
)
def test_fields_that_nobody_asked_for_change_nothing(server, more):
    entries = [entry("c1", "true", **more), entry("c2", "false", **more)]
    server.script.append(lambda request: {**request.tagged({"answers": entries}), **more})
    result = only(server, ContextPrecision(), sample())

    assert [item.verdict for item in result.items] == [True, False]


def test_reasons_of_false_ones_in_lists_are_evidence(server):
    """Relevancy and the fused scores say why a line does not count; a true one needs no reason."""
    server.answer = verdicts(True, False)
    for metric in (ContextRelevancy(), FusedContextMetrics()):
        [scores] = evaluate([sample()], [metric], judge_at(server))
        items = {item.id: item.reason for item in scores["context_relevancy"].items}

        assert items["chunk-1.sentence-1"] is None
        assert items["chunk-2.sentence-1"] == "about s2"
    assert scores["context_precision"].items[1].reason == "about c2"
    assert scores["context_recall"].items[1].reason == "about r2"


def test_lists_without_reasons_are_read_as_well(server):
    reply = {"lines": {"true": ["s1"], "false": ["s2"]}}
    server.script.append(lambda request: request.tagged(reply))
    result = only(server, ContextRelevancy(), sample())

    assert (result.value, result.judge_calls) == (0.5, 1)


ID = st.sampled_from(["c1", "c2", "c3", "c0", "c4", "r1", "1", "", "c01", "C1", " c1 "])
SAID = st.lists(
    st.fixed_dictionaries(
        {"id": st.tuples(st.booleans(), ID)},
        optional={"verdict": st.sampled_from(["true", "false", "unknown", True, 0, 3, None, []])},
    ),
    max_size=6,
)


@settings(deadline=None, derandomize=True)
@given(SAID)
def test_no_reply_gives_a_verdict_that_was_not_said_under_the_right_id(entries):
    """Any list of entries, with the right beginning of the ids or without it."""

    def said(request):
        sent = [{**e, "id": (request.tag if e["id"][0] else "") + e["id"][1]} for e in entries]
        return content(json.dumps({"answers": sent}))

    with OpenAIServer() as server:
        server.script += [said] * 2
        asked = sample(contexts=["One.", "Two.", "Three."])
        result = only(server, ContextPrecision(), asked)
    given = {}
    for e in entries:
        if e["id"][0]:
            given.setdefault(e["id"][1].strip(), set()).add(str(e.get("verdict")).lower())
    allowed = {True: {"true"}, False: {"false", "0"}}
    for number, item in enumerate(result.items, start=1):
        if item.verdict is not None:
            assert given[f"c{number}"] <= allowed[item.verdict]
    foreign = any(not right or i.strip() not in ("c1", "c2", "c3") for right, i in (e["id"] for e in entries))
    if foreign:
        assert result.value is None


def numbered(count):
    return [f"Line number {n} is here." for n in range(count)]


@pytest.mark.parametrize(
    ("count", "sizes"), [(100, [100]), (101, [50, 51]), (250, [83, 83, 84]), (301, [75, 75, 75, 76])]
)
def test_many_items_are_asked_about_in_parts_of_even_size(server, count, sizes):
    """Each item once; the score is that of all of them."""
    server.answer = lambda request, item_id: int(item_id[1:]) % 2 == 0
    result = only(server, ContextRelevancy(), sample(contexts=[" ".join(numbered(count))]))

    assert sorted(len(request.ids) for request in server.requests) == sizes
    asked = Counter(item_id for request in server.requests for item_id in request.ids)
    assert asked == Counter(f"s{n}" for n in range(1, count + 1))
    assert result.value == pytest.approx((count // 2) / count)
    assert (result.status, result.judge_calls) == ("ok", len(sizes))


def test_a_part_that_fails_leaves_its_own_items_unknown(server):
    """The others keep their verdicts: bounds, not an error."""

    def failing_for_the_first(request):
        if "s1" in request.ids:
            return "no use"
        return well_formed(request, lambda *_: True)

    server.script.extend([failing_for_the_first] * 10)
    result = only(server, ContextRelevancy(), sample(contexts=[" ".join(numbered(120))]))

    assert (result.value, result.status) == (None, "partial")
    assert (result.lower, result.upper) == (0.5, 1.0)
    assert result.judge_calls == 3


def test_few_ids_are_named_one_by_one_and_many_as_spans(server):
    only(server, ContextPrecision(), sample(contexts=numbered(5)))
    only(server, ContextPrecision(), sample(contexts=numbered(40)))
    few, many = (request.user.rsplit("Ids to answer: ", 1)[1] for request in server.requests)

    assert few.count(", ") == 4
    assert many.count("-") == 1
    assert len(server.requests[1].ids) == 40


class Capped:
    """A judge whose replies are cut off when they answer more than `most` ids."""

    def __init__(self, most):
        self._most = most

    def __call__(self, request):
        said = json.dumps(well_formed(request, lambda *_: True))
        if len(request.ids) > self._most:
            return content(said[: len(said) // 2], finish="length")
        return said


@pytest.mark.parametrize(("most", "sizes"), [(6, [6, 6, 12]), (3, [3, 3, 3, 3, 6, 12])])
def test_items_of_a_reply_that_was_cut_off_are_asked_about_in_halves(server, most, sizes):
    """Asking the same again would be cut off again."""
    server.script.extend([Capped(most)] * 20)
    result = only(server, ContextPrecision(), sample(contexts=numbered(12)))

    assert (result.value, result.status) == (1.0, "ok")
    assert sorted(len(request.ids) for request in server.requests) == sizes


def test_what_is_cut_off_however_little_is_asked_is_given_up(server):
    """A bounded number of calls, then an error that says what happened."""
    server.script.extend([Capped(0)] * 40)
    result = only(server, ContextPrecision(), sample(contexts=numbered(12)))

    assert (result.value, result.status, result.error_type) == (None, "judge_error", "reply_cut_off")
    assert len(server.requests) == 4


def test_one_item_that_is_cut_off_is_asked_once(server):
    server.script.extend([Capped(0)] * 5)
    result = only(server, ContextPrecision(), sample(contexts=["One."]))

    assert (result.error_type, len(server.requests)) == ("reply_cut_off", 1)


LOOPED = [ContextPrecision(), ContextUtilization(), ContextRelevancy(), ContextRecall()]


def test_a_model_that_loops_is_asked_few_halves_of_one_request_not_of_each_ask(server):
    """Each metric asks once; three halves that are cut off, too, are all that the request gets."""
    server.script.extend([Capped(0)] * 40)
    [scores] = evaluate([sample(contexts=numbered(12))], LOOPED, judge_at(server, cache=False))

    assert {score.error_type for score in scores.values()} == {"reply_cut_off"}
    assert len(server.requests) <= len(LOOPED) + 3


def test_the_next_request_has_halves_of_its_own(server):
    server.script.extend([Capped(0)] * 4)
    server.script.extend([Capped(6)] * 40)
    judge = judge_at(server, cache=False)
    first, second = (evaluate([sample(contexts=numbered(12))], [ContextPrecision()], judge) for _ in range(2))

    assert first[0]["context_precision"].error_type == "reply_cut_off"
    assert second[0]["context_precision"].value == 1.0


def test_halves_of_a_live_request_are_counted_together(server):
    server.script.extend([Capped(0)] * 40)
    told = []
    job = SimpleNamespace(sample=sample(contexts=numbered(12)), metrics=LOOPED, judged=told.extend)
    here = JudgesHere(judge_at(server, cache=False), 30.0, guard=Guard("test", ErrorLog()))

    async def judged():
        await here.judge(job, 30.0)
        await here.aclose()

    asyncio.run(judged())
    assert {score.error_type for score in told} == {"reply_cut_off"}
    assert len(server.requests) <= len(LOOPED) + 3
