"""A look before the answer: the bands, a calibration by the user's own labels, and none without them."""

import pytest

from ragmeter import RagMeter, VerdictRules
from ragmeter.metrics._display.mean_interval import wilson_interval
from ragmeter.quality.labels import Label, append_label
from ragmeter.settings.options import Scoring

QUESTION = "When was the harbour bridge opened?"
CASES = {
    "nothing_retrieved": [],
    "off_topic": ["Ferries leave every hour."],
    "on_topic": ["Ferries leave every hour.", "The harbour bridge was opened in March 1932."],
}


@pytest.fixture
def labels(tmp_path):
    """60 drawn requests off topic, of which people call 45 bad, 40 on topic, of which 4 are, and picked ones."""
    path = tmp_path / "labels.jsonl"

    def put(name, relevance, *, bad, probability=0.5):
        append_label(
            path,
            Label(
                request=name, score="faithfulness", value=0.0 if bad else 1.0, rater="a",
                at="2026-01-01T00:00:00Z", probability=probability, relevance=relevance,
            ),
        )  # fmt: skip

    for number in range(60):
        put(f"off-{number}", 0.1, bad=number < 45)
    for number in range(40):
        put(f"on-{number}", 0.9, bad=number < 4)
        put(f"picked-{number}", 0.9, bad=True, probability=None)
    return path


@pytest.mark.parametrize("band", CASES)
def test_without_labels_nothing_is_calibrated(band):
    with RagMeter(exporters=[]) as meter:
        seen = meter.look(QUESTION, CASES[band])
    assert (seen.band, seen.p_bad, seen.lower, seen.upper) == (band, None, None, None)
    assert seen.why.startswith("not calibrated")
    assert (seen.relevance is None) == (band == "nothing_retrieved")


def test_people_who_labelled_calibrate_it(labels):
    with RagMeter(exporters=[], scoring=Scoring(labels=labels)) as meter:
        seen = {band: meter.look(QUESTION, contexts) for band, contexts in CASES.items()}
    off, on = seen["off_topic"], seen["on_topic"]
    assert (off.p_bad, off.lower, off.upper) == (0.75, *wilson_interval(0.75, 60))
    assert (on.p_bad, on.lower, on.upper) == (0.1, *wilson_interval(0.1, 40))
    assert on.why == "40 labelled requests of this band"
    assert seen["nothing_retrieved"].p_bad is None


def test_the_verdicts_thresholds_part_the_bands(labels):
    rules = VerdictRules(off_topic_below=0.0, on_topic_from=1.0)
    with RagMeter(exporters=[], scoring=Scoring(verdict=rules)) as meter:
        assert meter.look(QUESTION, CASES["off_topic"]).band == "unclear"


@pytest.mark.contains_errors
def test_what_cannot_be_looked_at_is_counted():
    with RagMeter(exporters=[]) as meter:
        assert meter.look(QUESTION, 5) is None
        assert meter.stats().internal_errors == {"meter.look": 1}
