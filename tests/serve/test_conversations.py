"""Turns of one conversation count together in the store, too, however its time is cut."""

import random
from contextlib import nullcontext
from dataclasses import asdict, replace

import pytest
from frozen_page import client
from json_schema import wrong
from starlette.applications import Starlette
from starlette.testclient import TestClient
from stored import moved, scored, store, told

from ragmeter.quality.estimate import estimate
from ragmeter.quality.moments import FreeMoments
from ragmeter.quality.sums import QualityTable
from ragmeter.quality.sums_by_time import SLOT_S
from ragmeter.serve._api import api_routes
from ragmeter.serve._openapi import description
from ragmeter.serve.store import Store
from ragmeter.serve.store.views import Filters

NOW_S = 1_760_000_400.0
"""A whole hour."""
SCORE = "lexical_groundedness"


@pytest.fixture(scope="module")
def conversations():
    """Forty conversations of five turns over ten minutes, each wholly good or wholly bad; in order of time."""
    chance = random.Random(5)
    (bad, good) = scored(2)
    found = []
    for number in range(40):
        kind = good if chance.random() < 0.7 else bad
        began = NOW_S - 3600 + chance.uniform(0, 2900)
        for turn in range(5):
            at_s = began + chance.uniform(0, 600)
            found.append(moved(kind, f"{number} {turn}", at_s, conversation_id=f"c{number}"))
    return sorted(found, key=lambda one: one.run.started_ns)


@pytest.mark.parametrize("foreign", [False, True], ids=["scored here", "received"])
def test_the_store_knows_conversations_across_its_slots_as_a_meter_does(conversations, foreign):
    kept = Store(clock=lambda: NOW_S)
    if foreign:
        for request in told(conversations):
            kept.take(request)
    else:
        kept.export(conversations)
    now = [0.0]
    meter = QualityTable(lambda: now[0])
    alone = FreeMoments()
    slots = set()
    for one in conversations:
        now[0] = one.run.started_ns / 1e9
        slots.add(now[0] // SLOT_S)
        meter.count_request(one.run, {SCORE: one.scores[SCORE]}, ())
        alone.add_value(one.scores[SCORE].value)
    (found,) = (score for score in kept.reader().overview().scores if score.name == SCORE)
    assert len(slots) > 9
    for part, value in asdict(meter.estimate(SCORE, None, 3600.0)).items():
        assert getattr(found.estimate, part) == pytest.approx(value), part
    assert found.estimate.n_conversations == 40
    assert found.estimate.design_effect > 4
    plain = estimate(alone)
    assert found.estimate.upper - found.estimate.lower > 1.8 * (plain.upper - plain.lower)
    assert not found.estimate.has_few_conversations
    kept.close()


def test_the_page_says_where_a_mean_rests_on_few_conversations(conversations):
    few = [one for one in conversations if int(one.run.conversation_id[1:]) < 12]
    with store(clock=lambda: NOW_S) as kept:
        kept.export(few)
        page = client(kept.reader(), clock=lambda: NOW_S, changes=tuple)
        assert "few conversations: 12" in page.get("/scoring").text


def turns(name, words, *, began=0.0, workflow="qa"):
    """A conversation whose turns have these verdicts, a minute apart."""
    kinds = {word: one for one in scored(12) if one.verdict for word in (one.verdict.word,)}
    for number, word in enumerate(words):
        kind = kinds["bad" if word == "bad" else "good"]
        sample = kind.run.sample.model_copy(update={"name": workflow})
        at_s = NOW_S - 3000 + began + 60 * number
        made = moved(kind, f"{name} {number}", at_s, conversation_id=name, sample=sample)
        yield replace(made, verdict=None if word is None else kind.verdict)


@pytest.fixture
def talked(fresh):
    with store(fresh(), clock=lambda: NOW_S) as kept:
        kept.export(
            [
                *turns("fine", ["good", "good"], began=5),
                *turns("ends badly", ["good", "bad"]),
                *turns("was bad", ["good", "bad", "bad", "good"], began=30, workflow="shop"),
                *turns("unknown", [None], began=60),
            ]
        )
        yield kept


def test_conversations_are_listed_with_their_turns_in_order_and_the_first_bad_one(talked):
    found = talked.reader().conversations()

    assert [(one.conversation_id, one.verdict, one.first_bad) for one in found.conversations] == [
        ("ends badly", "bad", 2), ("was bad", "suspect", 2), ("fine", "good", None), ("unknown", None, None),
    ]  # fmt: skip
    assert [turn.run_id for turn in found.conversations[1].turns] == [f"was bad {n}" for n in range(4)]
    assert (found.total, found.with_bad, found.share, found.complete) == (4, 2, 2 / 3, True)
    assert found.lower < 2 / 3 < found.upper
    [one] = talked.reader().conversations(Filters(workflow="shop"), limit=1).conversations
    assert (one.workflow, len(one.turns)) == ("shop", 4)
    alone = talked.reader().conversations(conversation_id="fine")
    assert (alone.total, alone.share, alone.with_bad) == (1, 0.0, 0)
    nothing = talked.reader().conversations(conversation_id="no such")
    assert (nothing.total, nothing.share, nothing.lower) == (0, None, None)


def test_turns_that_ask_again_are_marked_where_that_is_asked_for(fresh):
    first, second = turns("misread", ["bad", "good"])
    meant = second.sample.model_copy(update={"question": "I meant the tower in the harbour."})
    with store(fresh(), clock=lambda: NOW_S) as kept:
        kept.export([first, replace(second, run=replace(second.run, sample=meant))])
        [plain] = kept.reader().conversations().conversations
        [looked] = kept.reader().conversations(asked_again=True).conversations
    assert (plain.verdict, [turn.asks_again for turn in plain.turns]) == ("suspect", [None, None])
    assert (looked.verdict, [turn.asks_again for turn in looked.turns]) == ("bad", [False, True])


def test_the_api_answers_what_it_describes(talked):
    routes = api_routes(talked.reader(), lambda *, on: [], list, nullcontext())
    answers = TestClient(Starlette(routes=routes))
    told_all = answers.get("/api/conversations", params={"limit": 2, "range": "24h"})
    assert told_all.status_code == 200, told_all.text
    page = told_all.json()
    schemas = description()["components"]["schemas"]
    assert wrong(page, schemas["ConversationPage"], schemas) == []
    assert [one["conversation_id"] for one in page["conversations"]] == ["ends badly", "was bad"]
    assert page["total"] == 4
    one = answers.get("/api/conversations", params={"conversation_id": "was bad"}).json()
    assert [turn["verdict"] for turn in one["conversations"][0]["turns"]] == ["good", "bad", "bad", "good"]
    for asked, why in (({"limit": 0}, "limit"), ({"verdict": "bad"}, "unknown parameter")):
        refused = answers.get("/api/conversations", params=asked)
        assert (refused.status_code, why in refused.json()["error"]) == (400, True)
