"""One model behind the arguments, the ``RAGMETER_*`` variables, the flags and the page about them."""

import dataclasses
import importlib.util
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragmeter import Alarms, Limits, RagMeter, Sampling, Scoring, VerdictRules
from ragmeter.metrics import ConfigurationError
from ragmeter.settings import config
from ragmeter.settings.config import Settings, argument_of, fields_of, read_settings
from ragmeter.settings.from_settings import meter_arguments


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith(("RAGMETER_", "OTEL_INSTRUMENTATION_RAGMETER_")):
            monkeypatch.delenv(name)


def test_nothing_set_gives_the_defaults():
    assert read_settings() == Settings()


JUDGE = {"JUDGE_MODEL": "m", "JUDGE_API_KEY": "none"}
PRICES = {"INPUT_PRICE": "2", "CACHED_INPUT_PRICE": "1", "OUTPUT_PRICE": "8", "MAX_COST": "30"}


@pytest.mark.parametrize(
    ("variables", "reads", "expected"),
    [
        (
            {"METRICS": "support, precision_recall_f1 ,"},
            lambda made: made.settings.metrics,
            ("support", "precision_recall_f1"),
        ),
        ({"SAMPLE_RATE": "0.25"}, lambda made: made.settings.sample_rate, 0.25),
        ({"FUSED": "true"}, lambda made: made.settings.fused, True),
        ({"HOLD_S": ""}, lambda made: made.settings.hold_s, 5.0),
        ({"OTEL_INSTRUMENTATION_RAGMETER_SAMPLE_RATE": "0.5"}, lambda made: made.settings.sample_rate, 0.5),
        (
            {"OTEL_INSTRUMENTATION_RAGMETER_SAMPLE_RATE": "0.5", "SAMPLE_RATE": "0.75"},
            lambda made: made.settings.sample_rate,
            0.75,
        ),
        ({}, lambda made: made.segments, None),
        (
            {"SEGMENTS": "language, metadata.tenant"},
            lambda made: made.segments,
            ("language", "metadata.tenant"),
        ),
        ({}, lambda made: made.limits.max_text_chars, 300_000),
        ({"MAX_TEXT_CHARS": "1000"}, lambda made: made.limits.max_text_chars, 1_000),
        ({"LATE_WINDOW": "7"}, lambda made: made.limits.late_window, 7),
        ({"LATE_WINDOW_S": "60"}, lambda made: made.limits.late_window_s, 60.0),
        ({"VERDICT_UNSUPPORTED_BELOW": "0.4"}, lambda made: made.scoring.verdict.unsupported_below, 0.4),
        ({"VERDICT_ON_TOPIC_FROM": "0.7"}, lambda made: made.scoring.verdict.on_topic_from, 0.7),
        ({**JUDGE, "JUDGE_CONCURRENCY": "3"}, lambda made: made.limits.judge_concurrency, 3),
        (
            {**JUDGE, "JUDGE_CONCURRENCY": "3"},
            lambda made: made.judge.settings_and_secrets()[0]["concurrency"],
            3,
        ),
        *(
            ({**JUDGE, **{f"JUDGE_{name}": price for name, price in PRICES.items()}}, *read)
            for read in (
                (lambda made: made.judge.budget.price(1_000_000, 1_000_000), 10.0),
                (lambda made: made.judge.budget.cached_input_price, 1.0),
                (lambda made: made.judge.budget.max_cost, 30.0),
            )
        ),
    ],
)
def test_what_a_variable_sets(monkeypatch, variables, reads, expected):
    """The variable of OpenTelemetry's form is read, too; the short name wins."""
    for name, value in variables.items():
        monkeypatch.setenv(name if name.startswith("OTEL_") else f"RAGMETER_{name}", value)
    made = SimpleNamespace(settings=read_settings(), **meter_arguments())
    assert reads(made) == expected


def test_a_key_is_never_shown(monkeypatch):
    monkeypatch.setenv("RAGMETER_JUDGE_API_KEY", "sk-secret")

    assert "sk-secret" not in repr(read_settings())


def test_a_meter_from_the_environment(monkeypatch, tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "q", "answer": "a"}', encoding="utf-8")
    monkeypatch.setenv("RAGMETER_REFERENCES", str(path))
    monkeypatch.setenv("RAGMETER_SAMPLE_RATE", "0.5")

    with RagMeter.from_env() as meter:
        assert "sample_rate=0.5" in repr(meter)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("RAGMETER_METRICS", "nonsense", "unknown metric 'nonsense'. `ragmeter metrics` lists all"),
        ("RAGMETER_EXPORTERS", "jsonl", "RAGMETER_JSONL with the path"),
        ("RAGMETER_METRICS", "faithfulness", "faithfulness ask a judge; set RAGMETER_JUDGE_MODEL"),
        ("RAGMETER_REFERENCES", "nowhere.jsonl", "cannot read"),
        ("RAGMETER_SEGMENTS", "language,two words", "'two words' is no name"),
        ("OTEL_INSTRUMENTATION_RAGMETER_REFERENCES", "golden.txt", "ends in none of .jsonl"),
        ("RAGMETER_TRACE_URL", "http://here/trace", "write {trace_id} where the id stands"),
        ("RAGMETER_JUDGE_MAX_COST", "5", "needs input_price"),
        ("RAGMETER_JUDGE_COST_PER_MINUTE", "0.5", "needs input_price"),
        ("RAGMETER_METRICS", "semantic_context_relevance", "set RAGMETER_EMBEDDING_MODEL"),
        ("RAGMETER_VERDICT_UNSUPPORTED_BELOW", "0.9", "at most partly_unsupported_below"),
        ("RAGMETER_OBJECTIVES", "faithfulness is good", "write it as in"),
    ],
)
def test_what_only_the_meter_can_check_names_the_variable_too(monkeypatch, variable, value, said):
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("RAGMETER_CONSOLE", "1")
    if "JUDGE" in variable:
        monkeypatch.setenv("RAGMETER_JUDGE_MODEL", "m")

    with pytest.raises(ConfigurationError) as caught:
        RagMeter.from_env()

    assert f"{variable}={value!r}: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("RAGMETER_SAMPEL_RATE", "no such setting: it has no effect; did you mean RAGMETER_SAMPLE_RATE?"),
        ("RAGMETER_SERVE_TOKN", "no such setting: it has no effect; did you mean RAGMETER_SERVE_TOKEN?"),
        ("RAGMETER_SERVE_TOKEN", None),
        ("RAGMETER_LOG", "no such setting: it has no effect; check its spelling, or unset it"),
        ("RAGMETER_JUDGE_BASE_URL", "without effect; set RAGMETER_JUDGE_MODEL, too"),
    ],
)
def test_what_has_no_effect_is_said_once(monkeypatch, caplog, variable, said):
    monkeypatch.setenv(variable, "1")
    RagMeter.from_env().shutdown()
    RagMeter.from_env().shutdown()

    expected = [] if said is None else [f"ragmeter: {variable}: {said}"]
    assert [record.message for record in caplog.records] == expected


def test_a_broken_reference_file_is_named_with_its_variable_and_line(monkeypatch, tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "q", "answer": "a"}\n{"question": q}', encoding="utf-8")
    monkeypatch.setenv("RAGMETER_REFERENCES", str(path))

    with pytest.raises(ConfigurationError, match=r"RAGMETER_REFERENCES=.*golden.jsonl:2: not JSON"):
        RagMeter.from_env()


def test_the_embedder_from_the_environment(monkeypatch):
    monkeypatch.setenv("RAGMETER_EMBEDDING_MODEL", "e5")
    monkeypatch.setenv("RAGMETER_EMBEDDING_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("RAGMETER_EMBEDDING_API_KEY", "sk-very-secret")
    monkeypatch.setenv("RAGMETER_EMBEDDING_QUERY_PREFIX", "query: ")
    monkeypatch.setenv("RAGMETER_EMBEDDING_CALLS_PER_MINUTE", "7")
    embedder = meter_arguments()["embedder"]

    assert (embedder.name, embedder.host, embedder.query_prefix) == ("e5", "localhost", "query: ")
    assert embedder.budget.calls_per_minute == 7
    assert "secret" not in repr(read_settings()) + repr(embedder)


def test_the_judges_budget_from_the_environment(monkeypatch):
    """Calls, tokens and, with a price, money per minute."""
    monkeypatch.setenv("RAGMETER_JUDGE_MODEL", "m")
    monkeypatch.setenv("RAGMETER_JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RAGMETER_JUDGE_COST_PER_MINUTE", "0.5")
    monkeypatch.setenv("RAGMETER_JUDGE_INPUT_PRICE", "0.15")
    RagMeter.from_env().shutdown()


PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"


def _writer():
    spec = importlib.util.spec_from_file_location("configuration", PAGE.parents[1] / "configuration.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_argument_of_the_meter_has_a_variable_with_the_same_default_or_is_an_object():
    arguments = inspect.signature(RagMeter).parameters
    fields = {field for field in Settings.model_fields if argument_of(field) == field}

    assert fields | set(_writer().IN_CODE_ONLY) == set(arguments)
    for field in fields:
        assert Settings.model_fields[field].default == arguments[field].default


@pytest.mark.parametrize(
    ("group", "in_code_only"),
    [
        (Sampling, {"rate", "judge_rate"}),  # the meter's own arguments have the variables
        (Limits, set()),
        (Alarms, set()),
        (Scoring, {"mode", "redact", "verdict"}),
    ],
)
def test_every_argument_of_a_group_has_a_variable_with_the_same_default(group, in_code_only):
    known = {
        argument_of(field).partition("(")[2][:-1]: Settings.model_fields[field].default
        for field in fields_of(group.__name__)
    }
    defaults = {one.name: one.default for one in dataclasses.fields(group)}

    assert known == {name: value for name, value in defaults.items() if name not in in_code_only}


def test_every_setting_says_what_it_means_and_what_its_number_counts():
    for field, info in Settings.model_fields.items():
        assert info.description
        assert (
            isinstance(info.default, bool)
            or not isinstance(info.default, (int, float))
            or (config.unit_of(field))
        )


def test_the_page_says_what_the_model_says():
    assert PAGE.read_text(encoding="utf-8") == _writer().page(), "run: python docs/configuration.py"


def test_every_setting_but_the_secrets_is_a_flag():
    flags = {name for name in dir(config) if name.startswith("OTEL_")}

    assert flags == {f"OTEL_INSTRUMENTATION_RAGMETER_{field.upper()}" for field in Settings.model_fields} - {
        "OTEL_INSTRUMENTATION_RAGMETER_JUDGE_API_KEY",
        "OTEL_INSTRUMENTATION_RAGMETER_EMBEDDING_API_KEY",
        "OTEL_INSTRUMENTATION_RAGMETER_CHANGE_WEBHOOK",
        "OTEL_INSTRUMENTATION_RAGMETER_JUDGE_SHARED_URL",
        "OTEL_INSTRUMENTATION_RAGMETER_QUEUE_URL",
        "OTEL_INSTRUMENTATION_RAGMETER_WORKER_DEDUPE_URL",
    }


def test_objectives_from_the_environment(monkeypatch):
    monkeypatch.setenv("RAGMETER_OBJECTIVES", "shop_qa:faithfulness>=0.8 for 95%; refusal<=0 for 80%")
    assert [str(one) for one in meter_arguments()["scoring"].objectives] == [
        "shop_qa:faithfulness>=0.8 for 95%",
        "refusal<=0.0 for 80%",
    ]


def test_verdict_settings_have_the_rules_own_defaults():
    settings = Settings()

    assert VerdictRules() == VerdictRules(
        **{
            name: getattr(settings, f"verdict_{name}")
            for name in (field.name for field in dataclasses.fields(VerdictRules))
        }
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("RAGMETER_SAMPLE_RATE", "2", "write a number of at most 1"),
        ("RAGMETER_HOLD_S", "-1", "write a number of at least 0"),
        ("RAGMETER_HOLD_S", "soon", "write a number"),
        ("RAGMETER_QUEUE_SIZE", "0", "write a number above 0"),
        ("RAGMETER_QUEUE_SIZE", "many", "write a whole number"),
        ("RAGMETER_MAX_TEXT_CHARS", "1.5", "write a whole number"),
        ("RAGMETER_CONSOLE", "maybe", "write true or false"),
        ("RAGMETER_KEEP", "best", "write 'none' or 'worst'"),
        ("RAGMETER_SPAN_MODE", "all", "write 'auto', 'own', 'evaluation' or 'off'"),
        ("RAGMETER_SCORING", "fork", "write 'thread', 'process' or 'queue'"),
        ("OTEL_INSTRUMENTATION_RAGMETER_EVENTS", "yes", "write 'log', 'span_event', 'both' or 'off'"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_must_be(monkeypatch, name, value, said):
    """In the words of a person who sets variables, not in those of a validator."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        read_settings()
    assert str(caught.value) == f"{name}={value!r}: {said}"


def test_every_variable_that_is_read_stands_on_its_page():
    root = Path(__file__).parents[2]
    found = {
        name
        for folder in ("core", "exporters", "metrics", "adapters", "cli", "serve", "fleet")
        for path in (root / folder).rglob("*.py")
        for name in re.findall(r"\bRAGMETER_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))
    }
    page = "".join(
        (root / one).read_text("utf-8") for one in ("docs/configuration.md", "docs/reference/settings.md")
    )
    assert len(found) > 20
    assert {name for name in found if f"`{name}`" not in page} == set()
