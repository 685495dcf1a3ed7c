"""Names, defaults, prefixes, pass marks, and scoring outside a live run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from python_process import run_python

import ragmeter.metrics
from ragmeter.metrics import (
    BUILTIN,
    ComputedMetric,
    ConfigurationError,
    LexicalGroundedness,
    MatchingStrategy,
    Metric,
    PrecisionRecallF1,
    RagSample,
    Reference,
    RetrievalHealth,
    Score,
    UnknownMetricError,
    aevaluate,
    default_metrics,
    evaluate,
    known_metrics,
    metric,
    resolve_metrics,
)
from ragmeter.metrics import registry as registry_module
from ragmeter.metrics.judge import Ask, CountingJudge, Reply
from ragmeter.metrics.protocol import missing_field
from ragmeter.metrics.registry import PRESETS, preset_metrics

SAMPLE = RagSample(question="a b", contexts=["b c"], reference=Reference(contexts=["b c"]))


class NoJudge(CountingJudge):
    """A judge that is never asked."""

    model = "none"

    async def ask(self, ask: Ask) -> Reply:
        raise NotImplementedError


@dataclass(frozen=True)
class Waiting(Metric):
    """Judged, but content with any judge."""

    name = "waiting"
    score_names = ("waiting",)
    needs = ("question",)
    method = "llm"
    target = "answer"
    definition = "1"

    async def measure(self, sample, judge) -> Sequence[Score]:
        await asyncio.sleep(0)
        return (self.make_score("waiting", 0.25),)


ON_REQUEST = {"lexical_query_coverage", "citations"}
"""Free, but no default: computed when asked for by name."""


def test_every_builtin_resolves_by_name():
    """Each name gives its class; names and score names are unique over the free metrics."""
    free = [kind for kind in BUILTIN if not kind.judged]
    for kind in free:
        assert isinstance(resolve_metrics([kind.name])[0], kind)
    resolve_metrics(default_metrics())
    assert {kind.name for kind in BUILTIN} <= set(known_metrics())


def test_an_unknown_name_tells_the_nearest():
    """And where all of them stand."""
    with pytest.raises(
        UnknownMetricError, match=r"Did you mean 'retrieval_health'.*`ragmeter metrics`"
    ) as caught:
        resolve_metrics(["retrieval_helth"])
    assert "retrieval_health" in caught.value.known


@pytest.mark.parametrize("wrong", ["retrieval_health", RetrievalHealth(), [RetrievalHealth], [3], [len]])
def test_what_is_no_metric_is_refused(wrong):
    """A lone name, a class, any other object: the message says what to pass."""
    with pytest.raises(ConfigurationError):
        resolve_metrics(wrong)


def test_two_of_a_kind_need_a_prefix():
    """Equal score names are refused with the way out; prefixed, both live side by side."""
    both = [PrecisionRecallF1(), PrecisionRecallF1(MatchingStrategy.EXACT_CHUNK_MATCH)]
    with pytest.raises(ConfigurationError, match=r"precision.*prefixed"):
        resolve_metrics(both)
    renamed = [both[0].prefixed("sentence_"), both[1]]
    (got,) = evaluate([SAMPLE], renamed)
    assert list(got) == ["sentence_precision", "sentence_recall", "sentence_f1", "precision", "recall", "f1"]
    assert got["sentence_recall"].method == "rouge"
    assert [m.name for m in resolve_metrics(renamed)] == ["sentence_precision_recall_f1", "precision_recall_f1"]


def test_a_pass_mark_labels_values_only():
    """pass from the mark on, fail below, nothing where there is no value; values stay."""
    marked = PrecisionRecallF1().passing(at_least=0.7).prefixed("s_")
    samples = [
        SAMPLE,
        SAMPLE.model_copy(update={"contexts": ()}),
        SAMPLE.model_copy(update={"reference": None}),
    ]
    got = [evaluate([sample], [marked])[0] for sample in samples]
    assert [one["s_recall"].label for one in got] == ["pass", "fail", None]
    assert [one["s_precision"].label for one in got] == ["pass", None, None]
    assert isinstance(marked, ComputedMetric)


@pytest.mark.parametrize(
    "adjust", [lambda m: m.prefixed("A-"), lambda m: m.prefixed(""), lambda m: m.passing(at_least=3)]
)
def test_wrong_adjustments_are_refused(adjust):
    """A prefix is snake case, a pass mark within the range."""
    with pytest.raises(ConfigurationError):
        adjust(PrecisionRecallF1())


def test_judged_metrics_can_be_adjusted():
    """A prefixed judged metric stays judged: without a judge it is skipped, not run."""
    adjusted = Waiting().prefixed("my_").passing(at_least=0.5)
    assert adjusted.judged
    assert evaluate([SAMPLE], [adjusted])[0]["my_waiting"].status == "skipped"
    got = evaluate([SAMPLE], [adjusted], judge=NoJudge())[0]["my_waiting"]
    assert (got.value, got.label) == (0.25, "fail")


def test_evaluate_works_inside_a_running_loop():
    """As in a notebook; `aevaluate` gives the same on the loop itself."""

    async def notebook():
        blocking = evaluate([SAMPLE, SAMPLE], [Waiting(), RetrievalHealth()], judge=NoJudge())
        return blocking, await aevaluate([SAMPLE, SAMPLE], [Waiting(), RetrievalHealth()], judge=NoJudge())

    blocking, awaited = asyncio.run(notebook())
    assert blocking == awaited == evaluate([SAMPLE, SAMPLE], [Waiting(), RetrievalHealth()], judge=NoJudge())
    assert list(blocking[0])[:4] == ["waiting", "context_count", "empty_retrieval", "duplicate_ratio"]


def test_evaluate_contains_a_failing_metric():
    """What a metric raises is a score with a status; the others are measured."""

    @metric
    def broken(sample):
        raise RuntimeError("no")

    (got,) = evaluate([SAMPLE], [broken, "retrieval_health"])
    assert (got["broken"].status, got["broken"].error_type) == ("metric_error", "RuntimeError")
    assert got["context_count"].value == 1.0
    with pytest.raises(ConfigurationError):
        evaluate(SAMPLE)
    with pytest.raises(ConfigurationError):
        evaluate([SAMPLE], concurrency=0)


class FakePoint:
    """An installed entry point."""

    def __init__(self, name, loaded):
        self.name, self.value, self._loaded = name, "package:thing", loaded

    def load(self):
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def test_third_parties_register_by_entry_point(monkeypatch):
    """A class, an object or a factory; what cannot be imported or is no metric says so."""
    points = [
        FakePoint("theirs", Waiting), FakePoint("object", Waiting()), FakePoint("gone", ImportError("no module")),
        FakePoint("text", str),
    ]  # fmt: skip
    monkeypatch.setattr(registry_module, "entry_points", lambda group: points)
    assert isinstance(resolve_metrics(["theirs"])[0], Waiting)
    assert isinstance(resolve_metrics(["object"])[0], Waiting)
    assert "theirs" in known_metrics()
    for name in ("gone", "text"):
        with pytest.raises(ConfigurationError, match="package:thing"):
            resolve_metrics([name])


def test_the_name_of_a_score_leads_to_its_metric():
    with pytest.raises(UnknownMetricError, match=r"'f1'\. It is a score of 'precision_recall_f1'"):
        resolve_metrics(["f1"])


def test_every_public_name_exists():
    """`__all__`, the lazy tables and the module agree."""
    for name in ragmeter.metrics.__all__:
        assert getattr(ragmeter.metrics, name) is not None
    assert set(ragmeter.metrics._HOMES) <= set(ragmeter.metrics.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ragmeter.metrics.no_such_name


def test_importing_costs_little():
    """No heavy package is loaded before a metric needs it."""
    code = (
        "import sys, ragmeter.metrics\n"
        "heavy = {'nltk', 'numpy', 'rapidfuzz', 'rouge_score', 'Stemmer', 'jieba', 'openai'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = run_python("-I", "-c", code, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name",
    [kind.name for kind in BUILTIN]
    + ["fused_context_metrics", "live_judged", "context_sufficiency", "judged_refusal"],
)
def test_a_built_in_is_registered_under_its_own_name(name):
    """Names are known without loading the metrics, so they must agree with them."""
    (found,) = resolve_metrics([name])

    assert found.name == name
    assert name in known_metrics()


def test_the_default_metrics_are_those_that_ask_nobody_unless_there_is_a_judge():
    free = [metric.name for metric in default_metrics()]
    usual = [kind for kind in BUILTIN if kind.name not in ON_REQUEST]

    assert free == [kind.name for kind in usual if not kind.judged]
    judged = [metric for metric in default_metrics(judged=True) if metric.judged]
    names = [kind.name for kind in BUILTIN if kind.judged and kind.name != "faithfulness"]
    assert [metric.name for metric in judged] == ["live_judged", *names]


def test_by_default_only_live_judged_asks_about_a_request_without_a_reference():
    judged = [metric for metric in default_metrics(judged=True) if metric.judged]

    assert [m.name for m in judged if missing_field(LIVE, m.needs) is None] == ["live_judged"]


def test_names_of_live_scores_become_one_metric():
    names = ["lexical_groundedness", "judged_ndcg", "faithfulness", "context_sufficiency"]
    groundedness, live = resolve_metrics(names)

    assert groundedness.name == "lexical_groundedness"
    assert live.score_names == ("context_sufficiency", "judged_ndcg", "faithfulness")
    assert resolve_metrics(["faithfulness"])[0].name == "faithfulness"
    assert [m.name for m in resolve_metrics(["live_judged", "faithfulness"])] == ["live_judged"]


def test_a_metric_can_be_kept_to_requests_with_a_reference():
    kept = LexicalGroundedness().needing("reference.answer")
    [live], [golden] = evaluate([LIVE], [kept]), evaluate([GOLDEN], [kept])

    assert live["lexical_groundedness"].status == "missing_input"
    assert live["lexical_groundedness"].missing == "reference.answer"
    assert golden["lexical_groundedness"].status == "ok"
    with pytest.raises(ConfigurationError, match=r"'reference' is no field"):
        LexicalGroundedness().needing("reference")


LIVE = RagSample(question="How?", contexts=["Tall."], answer="Tall.")
GOLDEN = LIVE.model_copy(update={"reference": Reference(answer="So.")})


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("judged", [False, True])
def test_each_preset_holds_the_one_before(judged, fused):
    """By score names: what is in ``live`` is in ``golden``, and that in ``all``."""
    live, golden, every = (
        {name for one in preset_metrics(preset, judged=judged, fused=fused) for name in one.score_names}
        for preset in PRESETS
    )

    assert live < golden < every
    assert "lexical_query_coverage" in every - golden


def test_the_live_preset_asks_a_judge_once():
    """One call for everything that can be judged without a reference."""
    judged = [one.name for one in preset_metrics("live", judged=True, fused=True) if one.judged]

    assert judged == ["live_judged"]
    assert not any(one.judged for one in preset_metrics("all"))


def test_what_a_preset_brings_need_not_be_named_again():
    plain = resolve_metrics(["live"], judged=True)
    again = resolve_metrics(["live", "faithfulness", "retrieval_health"], judged=True)

    assert [one.name for one in again] == [one.name for one in plain]
    assert [one.name for one in resolve_metrics("golden")] == [one.name for one in default_metrics()]
