"""The verdict on its way: with the first result, anew when judged scores or a reference come, kept when bad."""

import threading
from dataclasses import dataclass

import pytest
from fakes_core import scored

from ragmeter import ConfigurationError, Limits, RagMeter, RagSample, Sampling, Scoring, Verdict, VerdictRules
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import Metric, metric

GOOD = RagSample(question="q", contexts=["a"], answer="supported")
BAD = RagSample(question="q", contexts=["a"], answer="invented")


@metric(name="lexical_groundedness", needs=("answer",), target="answer", method="lexical")
def groundedness(sample):
    return 0.2 if sample.answer == "invented" else 0.9


@metric(name="refusal", needs=("answer",), target="answer", method="lexical")
def refusal(sample):
    return 0.0


BOTH = [groundedness, refusal]


@metric(name="lexical_groundedness", needs=("answer",), target="answer", method="lexical")
def always_low(sample):
    return 0.2


@metric(name="lexical_context_relevance", needs=("contexts", "reference.answer"))
def relevance_by_reference(sample):
    """Stand for anything the verdict reads that only a reference makes known."""
    return 0.1


@dataclass(frozen=True, eq=False)
class Sufficiency(Metric):
    """A judged metric that answers when its gate opens."""

    gate: threading.Event
    value: float = 0.0
    name: str = "context_sufficiency"
    needs: tuple[str, ...] = ()
    score_names: tuple[str, ...] = ("context_sufficiency",)
    judged = False
    method = "llm"
    target = "retrieval"
    definition = "1"

    async def measure(self, sample, judge):
        import asyncio

        while not self.gate.is_set():
            await asyncio.sleep(0.002)
        return [self.make_score("context_sufficiency", self.value)]


@pytest.fixture
def memory():
    return InMemoryExporter()


UNSUPPORTED = Verdict(
    word="bad", codes=("unsupported_answer",), reasons=("20 % of the answer's words are in the chunks",)
)
LENIENT = VerdictRules(unsupported_below=0.1, partly_unsupported_below=0.1)


@pytest.mark.parametrize(
    ("sample", "metrics", "how", "verdict"),
    [
        (GOOD, BOTH, Scoring(), Verdict(word="good")),
        (BAD, BOTH, Scoring(), UNSUPPORTED),
        (GOOD, [refusal], Scoring(), None),
        (GOOD.model_copy(update={"status": "error"}), BOTH, Scoring(), None),
        (BAD, BOTH, Scoring(verdict=LENIENT), Verdict(word="good")),
        (GOOD, [always_low], Scoring(redact=lambda _: "***"), UNSUPPORTED),
    ],
    ids=["good", "bad", "nothing to judge by", "failed", "own thresholds", "redacted: it holds no text"],
)
def test_every_result_carries_its_verdict(sample, metrics, how, verdict):
    [result], _ = scored(sample, metrics=metrics, scoring=how)

    assert result.verdict == verdict


def test_what_is_no_rules_is_refused():
    with pytest.raises(ConfigurationError, match="VerdictRules"):
        RagMeter(scoring=Scoring(verdict={"unsupported_below": 0.4}))


def test_judged_scores_in_time_are_part_of_the_only_verdict():
    gate = threading.Event()
    gate.set()
    [result], _ = scored(GOOD, metrics=[*BOTH, Sufficiency(gate)], limits=Limits(hold_s=60))

    assert result.verdict.codes == ("insufficient_context",)


@pytest.mark.parametrize(("value", "codes"), [(0.0, ("insufficient_context",)), (1.0, None)])
def test_a_late_result_carries_the_verdict_when_it_changed(memory, value, codes):
    """What is known from the first result counts; what was said is not said again."""
    gate = threading.Event()
    metrics = [groundedness, refusal, Sufficiency(gate, value)]
    with RagMeter(metrics, exporters=[memory], limits=Limits(hold_s=0)) as meter:
        meter.submit(GOOD)
        (first,) = memory.wait_for(1)
        gate.set()
        assert meter.flush(60)

    late = memory.results[1]
    assert first.verdict == Verdict(word="good")
    assert late.late
    assert (late.verdict and late.verdict.codes) == codes


def test_a_late_reference_is_judged_with_what_was_known(memory):
    """The revision has but the scores that need a reference; the verdict reads the others, too."""
    with RagMeter([groundedness, refusal, relevance_by_reference], exporters=[memory]) as meter:
        with meter.request("q") as request:
            request.retrieved(["a"])
            request.answered("invented")
        assert meter.flush(60)
        meter.attach_reference(request.run_id, "Here.")
        meter.attach_reference(request.run_id, "Here.")
        assert meter.flush(60)

    first, second, again = (result.verdict for result in memory.results)
    assert first.codes == ("unsupported_answer",)
    assert second.codes == ("unsupported_answer", "off_topic_context")
    assert again is None


def test_a_bad_verdict_is_kept():
    """Whatever its place: the good one is sampled out."""
    [result], stats = scored(GOOD, BAD, metrics=BOTH, sample_rate=0.0, sampling=Sampling(keep="worst"))

    assert (result.verdict.word, result.selection) == ("bad", "worst")
    assert stats.dropped == {"sampled_out": 1}


def test_what_is_measured_only_has_a_verdict_too():
    """Counters of verdicts are of all requests, sampled out or not."""

    class Measuring(InMemoryExporter):
        def __init__(self):
            super().__init__()
            self.measured = []

        def measure(self, scored):
            self.measured.append(scored.verdict)

    measuring = Measuring()
    scored(GOOD, metrics=BOTH, exporters=[measuring], sample_rate=0.0, sampling=Sampling(keep="worst"))

    assert measuring.measured == [Verdict(word="good")]


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_the_free_verdict_is_worked_out_once_for_all_who_read_it(memory, monkeypatch, rate):
    """Who keeps the worst, who counts the shares and who exports: one look at the rules for the three."""
    asked = []
    of_values = VerdictRules.of_values
    monkeypatch.setattr(
        VerdictRules,
        "of_values",
        lambda self, values, status="ok": asked.append(values) or of_values(self, values, status),
    )
    options = {"sample_rate": rate, "sampling": Sampling(keep="worst"), "exporters": [memory]}
    with RagMeter([groundedness, refusal], **options) as meter:
        meter.submit(BAD)
        assert meter.flush(timeout_s=5)
        shares = meter.quality("verdict_bad")
    assert len(asked) == 1
    assert [result.verdict.word for result in memory.results] == ["bad"]
    assert (shares.n_requests, shares.n_judged) == (1, 1)
