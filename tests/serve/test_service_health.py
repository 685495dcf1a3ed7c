"""Lanes, deployments, questions: each number is the one of the list behind its link."""

import sqlite3
from dataclasses import replace

import pytest
from deployed_traffic import requests
from stored import store

from ragmeter.serve.page._export import lines
from ragmeter.serve.store import _appearances, _request_detail
from ragmeter.serve.store.views import Filters

NOW_MS = 1_795_350_000_000
HOUR_MS = 3_600_000
DEPLOYED_MS = NOW_MS - HOUR_MS
DAY = Filters(range_s=86_400)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A shop that got worse with a version and an index, and a desk that stayed as it was."""
    with store(tmp_path_factory.mktemp("store") / "serve.db", clock=lambda: NOW_MS / 1000, keep_s=1e9) as kept:
        kept.export(requests(600, start_ms=NOW_MS - 3 * HOUR_MS, index_version="i1"))
        kept.export(
            requests(200, version="2.5.0", index_version="i2", start_ms=DEPLOYED_MS, bad=0.5, first=600, seed=2)
        )
        kept.export(
            requests(100, service="desk", version="0.9", start_ms=NOW_MS - 3 * HOUR_MS, every_ms=60_000, seed=3)
        )
        yield kept.reader()  # fmt: skip


def listed(reader, filters):
    return reader.requests(filters, limit=1).total


def test_a_deployment_that_made_it_worse_leads(reader):
    health = reader.health(DAY)
    lead = health.lead

    assert (lead.service, lead.number, lead.at_ms) == ("shop", 1, DEPLOYED_MS)
    assert [(one.name, one.before, one.value) for one in lead.values] == [
        ("service.version", "2.4.1", "2.5.0"), ("index_version", "i1", "i2"),
    ]  # fmt: skip
    assert lead.comparison.effect == "worse"
    assert lead.comparison.score == "support"
    assert lead.comparison.lower <= lead.comparison.after - lead.comparison.before <= lead.comparison.upper < 0
    assert [one.name for one in health.signals] == ["support", "relevance"]
    assert all(one.is_off for one in health.signals)


def test_lanes_are_services_and_the_surely_worst_comes_first(reader):
    lanes = reader.health(DAY).lanes

    assert [(one.name, one.version, one.requests) for one in lanes] == [
        ("shop", "2.5.0", 800),
        ("desk", "0.9", 100),
    ]
    assert lanes[0].deployments == (DEPLOYED_MS,)
    assert lanes[0].bad.lower > 2 * lanes[0].bad_before.upper
    assert lanes[0].support.mean < lanes[0].support_before.mean
    assert lanes[1].bad_before is lanes[1].support_before is None
    assert [sum(map(sum, one.bins)) for one in lanes] == [800, 100]
    assert {len(one.bins) for one in lanes} <= set(range(12, 50))


@pytest.mark.parametrize("by", ["", "language", "metadata.service.version", "retriever"])
def test_lanes_of_a_service_are_its_workflows_or_parts(reader, by):
    wanted = replace(DAY, service="shop")
    health = reader.health(wanted, by=by)

    assert sum(one.requests for one in health.lanes) == 800
    for lane in health.lanes:
        part = {"workflow": lane.name} if not by else {"segment": f"{by}:{lane.name}"}
        if lane.name:
            assert listed(reader, replace(wanted, **part)) == lane.requests


@pytest.mark.parametrize("by", ["workflow", "language"])
def test_lanes_of_several_services_are_of_one_each(reader, by):
    """Workflows of two services have nothing in common but their name."""
    lanes = reader.health(DAY, by=by).lanes

    assert {one.service for one in lanes} == {"shop", "desk"}
    for lane in lanes:
        part = {"workflow": lane.name} if by == "workflow" else {"segment": f"{by}:{lane.name}"}
        assert listed(reader, replace(DAY, service=lane.service, **part)) == lane.requests


def test_each_count_is_that_of_the_list_behind_it(reader):
    health = reader.health(DAY)
    lead = health.lead
    since = Filters(
        service="shop", since_ms=lead.at_ms, segment="metadata.service.version:2.5.0", verdict="bad"
    )

    assert listed(reader, since) == lead.bad_after.bad
    assert listed(reader, replace(since, verdict=None)) == lead.bad_after.requests
    for question in health.questions:
        same = Filters(service="shop", since_ms=lead.at_ms, question=question.key)
        assert listed(reader, same) == question.bad.requests
        assert listed(reader, replace(same, verdict="bad")) == question.bad.bad
    order = [one.bad.bad * one.bad.lower for one in health.questions]
    assert order == sorted(order, reverse=True)


def test_the_bad_turns_of_one_conversation_are_no_proof(tmp_path):
    """A third of the new version's requests are bad: of as many people, or the turns of one conversation."""

    def lane(folder, conversations):
        new = requests(60, version="2", start_ms=DEPLOYED_MS, first=200, bad=0.0)
        bad = requests(30, version="2", start_ms=DEPLOYED_MS, first=300, bad=1.0, seed=4)
        talk = [
            replace(one, run=replace(one.run, conversation_id=f"c{at % conversations}"))
            for at, one in enumerate(bad)
        ]
        with store(folder / "serve.db", clock=lambda: NOW_MS / 1000, keep_s=1e9) as kept:
            kept.export(requests(200, start_ms=NOW_MS - 3 * HOUR_MS))
            kept.export([*new, *talk])
            health = kept.reader().health(DAY)
        (deployment,) = health.deployments
        return health.lanes[0], deployment

    folders = [tmp_path / "people", tmp_path / "one"]
    for folder in folders:
        folder.mkdir()
    (people, of_people), (one, of_one) = (lane(folder, n) for folder, n in zip(folders, (30, 1), strict=True))

    assert people.bad.share == one.bad.share == of_one.bad_after.share == 1 / 3
    assert people.bad.lower > people.bad_before.upper
    assert of_people.bad_after.lower > of_people.bad_before.upper
    assert one.bad.lower < one.bad_before.upper
    assert of_one.bad_after.lower < of_one.bad_before.upper


def test_without_a_deployment_nothing_leads(reader):
    health = reader.health(replace(DAY, service="desk"))

    assert health.lead is None
    assert health.deployments == ()
    assert 0 < health.detectable <= 0.5


def test_values_that_a_service_began_with_are_no_deployments(tmp_path):
    with store(tmp_path / "serve.db", clock=lambda: NOW_MS / 1000, keep_s=1e9) as kept:
        kept.export(requests(3, start_ms=NOW_MS - 3 * HOUR_MS, bad=0.0))
        kept.export(requests(90, version="2.4.2", start_ms=NOW_MS - 2 * HOUR_MS, first=3, seed=2))
        health = kept.reader().health(DAY)
        [shop] = health.lanes

    assert (health.deployments, shop.deployments, shop.bad_before) == ((), (), None)


def test_an_export_compares_and_marks_nothing(reader, monkeypatch):
    compared = []
    for name in ("means_before", "evidence", "usual_of"):
        monkeypatch.setattr(_request_detail, name, lambda *_, name=name, **__: compared.append(name))
    assert len(list(lines(reader, DAY, "newest"))) == 900
    assert compared == []


def test_a_first_value_is_no_deployment_and_a_number_is_spent_only_once(tmp_path):
    with store(tmp_path / "serve.db", clock=lambda: NOW_MS / 1000, keep_s=1e9) as kept:
        kept.export(requests(60, start_ms=NOW_MS - 3 * HOUR_MS))
        assert kept.reader().health(DAY).deployments == ()
        kept.export(requests(60, version="2", start_ms=NOW_MS - 2 * HOUR_MS, first=60))
        kept.export(requests(5, version="3", start_ms=DEPLOYED_MS, first=120))
        # What is seen again is nothing new, and who came late may have been the first.
        kept.export(requests(9, version="2", start_ms=NOW_MS - HOUR_MS // 2, first=140))
        kept.export(requests(1, version="2", start_ms=NOW_MS - 2 * HOUR_MS - 5_000, first=160))
        found = {one.values[0].value: one for one in kept.reader().health(DAY).deployments}

    assert {value: one.number for value, one in found.items()} == {"2": 1, "3": 2}
    assert found["2"].at_ms == NOW_MS - 2 * HOUR_MS - 5_000
    assert found["2"].comparison.effect == "none"
    assert found["3"].comparison is None


def test_another_formula_that_came_with_a_version_is_no_fall(tmp_path):
    def measured_again(run):
        other = {name: one.model_copy(update={"definition": "2"}) for name, one in run.scores.items()}
        return replace(run, scores=other)

    with store(tmp_path / "serve.db", clock=lambda: NOW_MS / 1000, keep_s=1e9) as kept:
        kept.export(requests(200, start_ms=NOW_MS - 3 * HOUR_MS, bad=0.0))
        later = requests(200, version="2", start_ms=NOW_MS - 2 * HOUR_MS, bad=0.9, first=200)
        kept.export(list(map(measured_again, later)))
        [two] = kept.reader().health(DAY).deployments

    assert two.comparison is None
    assert (two.bad_before.share, two.bad_after.share) == pytest.approx((0.0, 0.9), abs=0.1)


def test_an_empty_store_has_no_lanes(tmp_path):
    with store(tmp_path / "serve.db") as kept:
        health = kept.reader().health()

    assert (health.lanes, health.lead, health.questions, health.detectable) == ((), None, (), None)


def test_a_service_that_invents_versions_has_a_bounded_number_of_them(tmp_path):
    with store(tmp_path / "serve.db", clock=lambda: NOW_MS / 1000, keep_s=1e9) as kept:
        runs = requests(_appearances.MOST_VALUES + 20, start_ms=NOW_MS - HOUR_MS, every_ms=1)
        kept.export(
            [
                replace(run, run=replace(run.run, framework_metadata={f"deployment.{at}": "a"}))
                for at, run in enumerate(runs)
            ]
        )
        with sqlite3.connect(tmp_path / "serve.db") as file:
            assert file.execute("SELECT count(*) FROM appearance").fetchone() == (_appearances.MOST_VALUES,)
