"""P(people: bad | word): weighted by how requests were drawn, and nothing below fifty labels."""

import pytest

from ragmeter import RagMeter, RagSample, Scoring, VerdictRules
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import ConfigurationError
from ragmeter.quality.labels import Label, append_label
from ragmeter.quality.verdict_rates import rates_in, sentences, verdict_rates


def _label(number, word, value, **given):
    fields = {
        "request": f"{word}-{number}", "score": "faithfulness", "value": value, "rater": "anna",
        "at": "2026-11-22T09:00:00Z", "probability": 0.5, "verdict": word,
    }  # fmt: skip
    return Label(**(fields | given))


def test_each_word_has_its_share_with_wilsons_interval():
    labels = [_label(number, "good", 0.5 if number < 3 else 0.75) for number in range(30)]
    labels += [_label(number, "bad", 0.0) for number in range(10)]
    good, bad = verdict_rates(labels)
    assert (good.share, good.lower, good.upper) == pytest.approx((0.1, 0.0346, 0.2562), abs=1e-4)
    assert (bad.word, bad.n, bad.share, bad.upper) == ("bad", 10, 1.0, 1.0)
    assert bad.lower == pytest.approx(0.7225, abs=1e-4)


@pytest.mark.parametrize(
    "given", [{"probability": None}, {"value": None}, {"verdict": ""}, {"verdict": "perfect"}]
)
def test_what_was_picked_or_is_unknown_does_not_count(given):
    assert verdict_rates([_label(0, "good", **({"value": 1.0} | given))]) == ()


def test_who_was_judged_more_often_weighs_less_and_raters_are_averaged():
    labels = [_label(0, "bad", 0.0, judge_probability=0.1), _label(1, "bad", 1.0)]
    assert verdict_rates(labels)[0].share == pytest.approx(10 / 11)
    labels = [_label(0, "bad", 0.5), _label(0, "bad", 1.0, rater="boris")]
    assert verdict_rates(labels)[0][1::3] == (0.0, 1)
    assert verdict_rates(labels, 0.8)[0].share == 1.0


def test_below_fifty_labels_a_file_says_nothing(tmp_path):
    path = tmp_path / "labels.jsonl"
    for number in range(49):
        append_label(path, _label(number, "good", 1.0))
    append_label(path, _label(0, "bad", 1.0, score="answer_right"))
    assert rates_in(path) == {}
    append_label(path, _label(1, "bad", 0.0))
    rates = rates_in(path)
    assert {word: rate.n for word, rate in rates.items()} == {"good": 49, "bad": 1}
    assert sentences(rates)["good"] == ("of 49 labelled requests called good here, people call 0 % bad [0, 7]")
    path.write_text("{}\n")
    with pytest.raises(ConfigurationError, match="line 1"):
        rates_in(path)


def test_from_fifty_labels_on_the_meter_says_the_rate_beside_the_word(tmp_path):
    path, taken = tmp_path / "labels.jsonl", InMemoryExporter()
    for number in range(50):
        append_label(path, _label(number, "bad", float(number < 20)))
    with RagMeter(
        ["support"], exporters=[taken], scoring=Scoring(labels=path, verdict=VerdictRules())
    ) as meter:
        for answer in ("Rivers of lava burn down every village.", "The moon is far away."):
            meter.submit(RagSample(question="How far?", contexts=["The moon is far away."], answer=answer))
    said = {one.verdict.word: one.verdict for one in taken.results if one.verdict is not None}
    rate = "of 50 labelled requests called bad here, people call 60 % bad [46, 72]"
    assert said["bad"].rate == rate
    assert said["bad"].explanation.endswith(rate)
    with pytest.raises(ConfigurationError, match=r"none\.jsonl"):
        RagMeter(["support"], exporters=[taken], scoring=Scoring(labels=tmp_path / "none.jsonl"))
