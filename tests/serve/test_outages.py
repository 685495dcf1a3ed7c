"""When the judge failed: from when to when, which models, with which errors, and of how many requests."""

import time

import pytest
from stored import judged, scored, store

from ragmeter.serve.store.views import Filters, JudgeOutage

MINUTE_MS = 60_000


@pytest.fixture
def told(fresh):
    """A store of an hour in which the judge failed twice, and what it was told."""
    now_ms = int(time.time() * 1000)
    began = now_ms - 50 * MINUTE_MS
    (one,) = scored(1)
    runs = []
    for minute in range(50):
        failed = []
        if 5 <= minute < 15:  # requests fail in one score, or in both, in two ways
            failed = [("faithfulness", "APITimeoutError")]
            if minute % 2:
                failed.append(("context_precision", "RateLimitError"))
        elif minute in (40, 41):
            failed = [("faithfulness", "AuthenticationError")]
        model = "judge-2" if 10 <= minute < 45 else "judge-1"
        runs.append(judged(one, *failed, at_ms=began + minute * MINUTE_MS, model=model, number=minute))
    with store(fresh(), clock=lambda: now_ms / 1000) as kept:
        kept.export(runs)
        yield kept.reader(), began


def test_each_time_in_which_the_judge_failed_is_told_with_models_errors_and_requests(told):
    reader, began = told
    assert reader.outages() == (
        JudgeOutage(
            from_ms=began + 5 * MINUTE_MS,
            until_ms=began + 14 * MINUTE_MS,
            requests=10,
            models=("judge-1", "judge-2"),
            errors={"APITimeoutError": 10, "RateLimitError": 5},
        ),
        JudgeOutage(
            from_ms=began + 40 * MINUTE_MS,
            until_ms=began + 41 * MINUTE_MS,
            requests=2,
            models=("judge-2",),
            errors={"AuthenticationError": 2},
        ),
    )
    assert sum(one.requests for one in reader.outages()) == reader.overview().judge.failed


def test_it_is_told_of_what_is_looked_at(told):
    reader, began = told
    (later,) = reader.outages(Filters(since_ms=began + 20 * MINUTE_MS))
    assert later.errors == {"AuthenticationError": 2}
    assert reader.outages(Filters(workflow="another")) == ()
    assert reader.outages(Filters(segment="metadata.tenant:nobody")) == ()
    (first, _) = reader.outages(Filters(segment="metadata.tenant:umbrella"))
    assert first.requests == 10


def test_who_told_no_class_of_an_error_is_told_by_its_status():
    (one,) = scored(1)
    late = judged(one, ("faithfulness", None))
    with store() as kept:
        kept.export([late])
        (found,) = kept.reader().outages()
    assert found.errors == {"judge_error": 1}
