"""What is new since a change is said with its time: on the page, by the API, in the sentence and to the webhook."""

import time
from dataclasses import replace

import pytest
from stored import moved, scored, store

from ragmeter import RagMeter
from ragmeter.exporters.changes import NewSince
from ragmeter.exporters.webhook import change_body
from ragmeter.quality.estimates import Estimate
from ragmeter.serve._watch import ScoredElsewhere
from ragmeter.serve.store import UnreadableStoreError
from ragmeter.watch.alarming import Alarming
from ragmeter.watch.change import Change
from ragmeter.watch.watch import ChangeNotice, Watch
from ragmeter.watch.wording import word_change

NOW = 1_800_000_000.0
SINCE = NOW - 3600
HALF = Estimate(mean=0.5, lower=0.4, upper=0.6, n_requests=100, n_judged=100, method="all")


def changed(**given):
    values = {
        "score": "lexical_groundedness", "workflow": "museum", "since": SINCE, "at": NOW - 1800,
        "before": HALF, "now": HALF, "evidence": 3.0, "kind": "fell",
    }  # fmt: skip
    return Change(**values | given)


def at(run, when, **metadata):
    """The run as of another time, with other metadata."""
    return moved(run, f"{run.run.run_id}-{when}", when, metadata=metadata, parent=None)


@pytest.fixture
def kept():
    """A store: a version that was there before, one that came with the change, one that came later."""
    runs = scored(30)
    with store(clock=lambda: NOW) as one:
        one.export([at(run, SINCE - 7200 + 60 * n, index_version="a") for n, run in enumerate(runs)])
        one.export([at(run, SINCE + 30 * n, index_version="b") for n, run in enumerate(runs)])
        late = {"index_version": "a", "prompt_version": "9"}
        one.export([at(run, SINCE + 2400 + n, **late) for n, run in enumerate(runs[:9])])
        yield one.reader()


def test_what_no_request_had_before_is_new_with_when_it_came(kept):
    found = kept.explained(changed()).new
    assert [(one.name, one.value, one.requests) for one in found] == [
        ("index_version", "b", 30),
        ("prompt_version", "9", 9),
    ]
    for one, came in zip(found, (SINCE, SINCE + 2400), strict=True):
        assert came - 300 <= one.at <= came


def test_what_came_shortly_before_the_estimated_beginning_is_new_too(kept):
    found = kept.explained(changed(since=SINCE + 300)).new
    assert [one.value for one in found] == ["b", "9"]


def test_where_nothing_was_known_before_nothing_is_new(kept):
    assert kept.explained(changed(since=SINCE - 7200)).new == ()
    assert kept.explained(changed(workflow="another")).new == ()


def test_a_new_version_of_a_service_is_seen_whoever_scores(kept):
    del kept
    [run] = scored(1)
    seen = {"service.version": "1.4.1", "telemetry.sdk.name": "opentelemetry"}
    with store(clock=lambda: NOW) as one:
        before = at(run, SINCE - 1800)
        after = at(run, SINCE + 60)
        one.export([before, replace(after, run=replace(after.run, framework_metadata=seen))])
        [found] = one.reader().explained(changed()).new
    assert (found.name, found.value, found.requests) == ("service.version", "1.4.1", 1)


NEW = NewSince(name="index_version", value="b", at=SINCE + 60, requests=83)


def test_it_is_told_in_the_sentence_and_to_the_webhook_and_is_kept():
    told = changed(new=(NEW,))
    said = word_change(told)
    assert said.endswith("; new since then: index_version = b (2027-01-15 07:01 UTC)")
    assert change_body(told, said)["new"] == [
        {"name": "index_version", "value": "b", "at": "2027-01-15T07:01:00+00:00", "requests": 83}
    ]
    assert ChangeNotice.from_json(ChangeNotice(told, {}).to_json()).change == told


class Explains(ScoredElsewhere):
    def __init__(self, fails):
        self.fails = fails

    def explained(self, change):
        if self.fails:
            raise UnreadableStoreError("away")
        return replace(change, new=(NEW,))

    def slots(self, since, until):
        return iter(())

    def complete(self):
        return 0.0

    def notifies_itself(self, resource):
        return False


@pytest.mark.parametrize("fails", [False, pytest.param(True, marks=pytest.mark.contains_errors)])
def test_a_change_is_explained_when_it_is_told_and_told_all_the_same_where_it_cannot_be(fails):
    meter = RagMeter(exporters=[])
    told = []
    alarming = Alarming(Watch(), lambda _: [], [], meter.port.guard, clock=lambda: NOW)
    alarming.look_elsewhere(Explains(fails))
    alarming.on_change(told.append)
    alarming.tell(changed())
    alarming.tell(changed(kind="recovered"))
    assert alarming.flush(time.monotonic() + 60)
    alarming.close(time.monotonic() + 60)
    meter.shutdown(60)
    assert [one.new for one in told] == [() if fails else (NEW,), ()]
