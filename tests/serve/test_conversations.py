"""Turns of one conversation count together in the store, too, however its time is cut."""

import random
from dataclasses import asdict, replace

import pytest
from frozen_page import client
from stored import scored, told

from ragmeter.quality._series import SLOT_S
from ragmeter.quality.estimate import estimate
from ragmeter.quality.moments import FreeMoments
from ragmeter.quality.sums import QualityTable
from ragmeter.serve.store import Store

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
            at_ns = int((began + chance.uniform(0, 600)) * 1e9)
            run = replace(
                kind.run, run_id=f"{number} {turn}", conversation_id=f"c{number}", retrievals=(),
                started_ns=at_ns, ended_ns=at_ns + 10**6, target=None,
            )  # fmt: skip
            found.append(replace(kind, run=run))
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
    kept = Store(clock=lambda: NOW_S)
    kept.export(few)
    page = client(kept.reader(), clock=lambda: NOW_S, changes=tuple)
    assert "few conversations: 12" in page.get("/").text
    kept.close()
