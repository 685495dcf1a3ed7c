"""A score without a value for many requests is said in the log, once."""

import pytest

from ragmeter import RagMeter, RagSample
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import metric
from ragmeter.quality import no_scores_warning as unscored
from ragmeter.quality.estimate import estimate
from ragmeter.quality.estimates import QualityKey
from ragmeter.quality.moments import FreeMoments
from ragmeter.quality.no_scores_warning import UnscoredWarning


def _found(with_value, without, segment=""):
    sums = FreeMoments()
    for _ in range(with_value):
        sums.add_value(0.5)
    for _ in range(without):
        sums.add_value(None)
    return {QualityKey("goodness", "qa", segment): estimate(sums)}


def _said(caplog):
    return [one.getMessage() for one in caplog.records if "no value" in one.getMessage()]


def test_it_is_said_once_and_again_when_it_was_well_in_between(caplog):
    now, found = [0.0], {}
    warning = UnscoredWarning(lambda: found, lambda: now[0])
    for with_value, without, expected in (
        (2, 10, 0),  # too few
        (80, 20, 0),
        (60, 40, 1),
        (10, 90, 1),
        (80, 20, 1),
        (0, 30, 2),
    ):
        found = _found(with_value, without)
        warning.check()
        now[0] += 300.0
        warning.check()
        assert len(_said(caplog)) == expected
    assert "goodness of qa has no value for 40 % of the 100 requests" in _said(caplog)[0]


def test_undefined_scores_and_parts_of_the_requests_are_not_meant(caplog):
    now = [0.0]
    undefined = FreeMoments()
    for _ in range(50):
        undefined.add_value(None, undefined=True)
    found = _found(0, 50, "language:zh") | {QualityKey("other", "qa"): estimate(undefined)}
    warning = UnscoredWarning(lambda: found, lambda: now[0])
    now[0] = 300.0
    warning.check()
    assert _said(caplog) == []


@metric(needs=("answer",), target="answer", name="goodness")
def fails(sample):
    raise ValueError("no value")


@pytest.mark.contains_errors
def test_a_meter_whose_every_score_is_an_error_says_so(caplog, monkeypatch):
    monkeypatch.setattr(unscored, "SLOT_S", 0.0)
    with RagMeter([fails], exporters=[InMemoryExporter()]) as meter:
        for _ in range(30):
            meter.submit(RagSample(question="q", answer="a", name="qa"))
        assert meter.flush(60)
        meter.stats()
        meter.stats()
        assert len(_said(caplog)) == 1
