"""The public names, pinned: adding or removing one is a decision, made here."""

import importlib
import json

import pytest
from python_process import run_python

PUBLIC = {
    "ragmeter": set("""
        Alarms Cascade Change ConfigurationError Estimate JudgeError Limits MatchingStrategy
        MeterStats Metric MissingDependencyError Objective RagMeter RagRun RagSample RagmeterError
        Reference ReferenceFileError Request Retrieval RetrievedContext RunsLostError Sampling Score
        ScoreItem ScoredRun Scorer Scoring TooLongError TryLaterError UnknownMetricError Verdict
        VerdictRules evaluate instrument metric reference request suppress uninstrument
    """.split()),
    "ragmeter.exporters": set(),
    "ragmeter.exporters.memory": {"InMemoryExporter", "Results"},
    "ragmeter.exporters.protocol": {
        "CarriesRequests", "Exporter", "HoldsRuns", "JudgeIdentity", "ListPoint", "MayLackDestination",
        "MeasuresEveryRequest", "MeterStats", "ObservesJudge", "ObservesLists",
        "ObservesMeter", "ObservesQuality", "QualitySums", "RagRun", "Retrieval", "RunsLostError", "ScoredRun",
        "TryLaterError", "UnbufferedExporter", "WriteCount",
    },
}  # fmt: skip


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_public_names_are_exactly_these(module):
    loaded = importlib.import_module(module)

    assert set(getattr(loaded, "__all__", ())) == PUBLIC[module]
    for name in PUBLIC[module]:
        assert getattr(loaded, name).__doc__


def test_no_public_function_is_hidden_by_a_module_of_its_name():
    """``ragmeter.request`` must be the function, whatever was imported before."""
    import pkgutil

    import ragmeter

    modules = {module.name for module in pkgutil.iter_modules(ragmeter.__path__)}

    assert not modules & set(ragmeter.__all__)


def _imported_by(statement: str) -> set[str]:
    done = run_python("-Ic", f"{statement}\nimport sys, json; print(json.dumps([*sys.modules]))", check=True)
    return set(json.loads(done.stdout))


FRAMEWORKS = {"langchain_core", "llama_index", "openai", "opentelemetry.sdk", "httpx", "typer"}
HEAVY = {"numpy", "nltk", "rouge_score", "pydantic_settings", "jieba"}


@pytest.mark.parametrize(
    "statement",
    ["import ragmeter", "import ragmeter.metrics", "from ragmeter import RagMeter", "import ragmeter.adapters"],
)  # fmt: skip
def test_importing_loads_no_framework_and_nothing_heavy(statement):
    assert not _imported_by(statement) & (FRAMEWORKS | HEAVY)


def test_importing_ragmeter_loads_nothing_of_it():
    assert {name for name in _imported_by("import ragmeter") if name.startswith("ragmeter")} == {"ragmeter"}


def test_importing_the_metrics_loads_neither_meter_nor_exporters():
    loaded = _imported_by("import ragmeter.metrics")

    assert not {n for n in loaded if n.startswith(("ragmeter.meter", "ragmeter.exporters"))}
    assert not {name for name in loaded if name.startswith("opentelemetry")}


def test_a_wrong_name_is_an_attribute_error():
    import ragmeter

    with pytest.raises(AttributeError, match="has no attribute 'RagMetre'"):
        ragmeter.RagMetre  # noqa: B018


def test_every_public_name_is_listed_and_documented():
    import ragmeter

    assert set(ragmeter.__all__) <= set(dir(ragmeter))
    assert ragmeter.__version__


def test_every_error_stands_at_the_front_door_or_beside_what_raises_it():
    import ragmeter
    from ragmeter.metrics import errors

    for name in errors.__all__:
        if isinstance(getattr(errors, name), type):
            assert getattr(ragmeter, name) is getattr(errors, name)


def test_the_front_doors_names_are_those_of_their_rooms():
    import ragmeter
    import ragmeter.adapters
    import ragmeter.metrics

    assert ragmeter.instrument is ragmeter.adapters.instrument
    assert ragmeter.RagSample is ragmeter.metrics.RagSample


@pytest.mark.parametrize("name", ["RagSample", "ConfigurationError"])
def test_the_vocabulary_loads_neither_meter_nor_exporters(name):
    loaded = _imported_by(f"from ragmeter import {name}")

    assert not {n for n in loaded if n.startswith(("ragmeter.meter", "ragmeter.exporters"))}
