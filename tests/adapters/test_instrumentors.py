"""Zero-code start: ``opentelemetry-instrument python app.py`` scores an application as it is."""

import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ragmeter import RagMeter
from ragmeter.adapters import default_meter, uninstrument
from ragmeter.adapters.instrumentors import RagMeterLangChainInstrumentor, RagMeterLlamaIndexInstrumentor
from ragmeter.exporters.memory import InMemoryExporter

APP = """
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("The kettle boils at noon.")]

chain = (
    {"context": Shelf() | (lambda found: found[0].page_content), "question": RunnablePassthrough()}
    | ChatPromptTemplate.from_template("{context} {question}")
    | FakeListChatModel(responses=["At noon."])
)
print(chain.invoke("When does the kettle boil?").content)
"""


@pytest.fixture(autouse=True)
def detached() -> Iterator[None]:
    """No test leaves anything attached."""
    yield
    uninstrument()


def test_entry_points_load() -> None:
    """OpenTelemetry finds one class per framework, and a module of flags."""
    found = {point.name: point for point in entry_points(group="opentelemetry_instrumentor")}
    flags = {point.name: point for point in entry_points(group="opentelemetry_environment_variables")}

    assert found["ragmeter_langchain"].load() is RagMeterLangChainInstrumentor
    assert found["ragmeter_llama_index"].load() is RagMeterLlamaIndexInstrumentor
    assert flags["ragmeter"].load().OTEL_INSTRUMENTATION_RAGMETER_SAMPLE_RATE


def test_the_class_takes_a_meter() -> None:
    """By hand, like other instrumentors; foreign arguments are not ours to refuse."""
    meter = RagMeter(metrics=[], exporters=[InMemoryExporter()])
    instrumentor = RagMeterLangChainInstrumentor()
    instrumentor.instrument(meter=meter, skip_dep_check=True, tracer_provider=None)

    assert default_meter() is meter
    assert list(instrumentor.instrumentation_dependencies()) == ["langchain-core >= 0.3, < 2"]
    instrumentor.uninstrument()
    assert default_meter() is None
    meter.shutdown(timeout_s=60)


def test_switched_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``RAGMETER_ENABLED=false`` attaches nothing."""
    monkeypatch.setenv("RAGMETER_ENABLED", "false")
    RagMeterLangChainInstrumentor().instrument()

    assert default_meter() is None


@pytest.mark.parametrize("elsewhere", ["RAGMETER_JSONL", "RAGMETER_CONSOLE", "RAGMETER_SCORING"])
def test_a_disabled_sdk_attaches_nothing_unless_scores_go_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, elsewhere: str
) -> None:
    """``OTEL_SDK_DISABLED=true``: scores would go nowhere, and a judge would be paid for them."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "True")
    RagMeterLangChainInstrumentor().instrument()
    assert default_meter() is None

    places = {"RAGMETER_JSONL": str(tmp_path / "scores.jsonl"), "RAGMETER_CONSOLE": "1"}
    monkeypatch.setenv("RAGMETER_QUEUE_URL", f"spool://{tmp_path}")
    monkeypatch.setenv(elsewhere, places.get(elsewhere, "queue"))
    RagMeterLangChainInstrumentor().instrument()
    assert default_meter() is not None


def test_a_wrong_setting_is_logged_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception here would take OpenTelemetry's other instrumentations down."""
    monkeypatch.setenv("RAGMETER_SAMPLE_RATE", "7")
    with caplog.at_level(logging.ERROR, logger="ragmeter"):
        RagMeterLangChainInstrumentor().instrument()
        RagMeterLlamaIndexInstrumentor().instrument()

    (said,) = [record.message for record in caplog.records]
    assert "ragmeter: not attached" in said
    assert "RAGMETER_SAMPLE_RATE" in said
    assert default_meter() is None


LLAMA_INDEX_APP = """
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM

index = VectorStoreIndex.from_documents(
    [Document(text="The kettle boils at noon.")], embed_model=MockEmbedding(8)
)
index.as_query_engine(llm=MockLLM()).query("When does the kettle boil?")
print("At noon.")
"""


def run_app(
    tmp_path: Path, *flags: str, source: str = APP, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the application under the real command."""
    if find_spec("opentelemetry.instrumentation") is None or find_spec("opentelemetry.distro") is None:
        pytest.skip("opentelemetry-instrumentation and opentelemetry-distro are not installed")
    app = tmp_path / "app.py"
    app.write_text(textwrap.dedent(source), encoding="utf-8")
    quiet: dict[str, Any] = {
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "langchain,genai_langchain,llama_index",
    }
    # The environment's own site-packages only: `-m` would put the repository's root on the path.
    code = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
    return subprocess.run(
        [sys.executable, "-I", "-c", code, *flags, sys.executable, str(app)],
        env={**os.environ, **quiet, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize("how", [pytest.param("variable", marks=pytest.mark.slow), "flag"])
def test_an_unchanged_application_is_scored(tmp_path: Path, how: str) -> None:
    """Spans on the application's exporter, and scores in a file, without a line of code."""
    out = str(tmp_path / "scores.jsonl")
    if how == "flag":
        done = run_app(tmp_path, "--instrumentation_ragmeter_jsonl", out)
    else:
        done = run_app(tmp_path, RAGMETER_JSONL=out)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("At noon.")
    assert '"name": "invoke_workflow app"' in done.stdout
    assert "ragmeter.score.context_count" in done.stdout
    (line,) = Path(out).read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["scores"]


def test_an_unchanged_llama_index_application_is_scored(tmp_path: Path) -> None:
    """The second entry point, by the same command."""
    done = run_app(tmp_path, source=LLAMA_INDEX_APP)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("At noon.")
    assert '"name": "invoke_workflow app"' in done.stdout
    assert "ragmeter.score.context_count" in done.stdout


@pytest.mark.parametrize(
    "variables",
    [{"RAGMETER_SAMPLE_RATE": "7"}, {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "ragmeter_langchain"}],
)
def test_the_application_runs_without_us(tmp_path: Path, variables: dict[str, str]) -> None:
    """Switched off, or set wrongly: the application is the same."""
    done = run_app(tmp_path, **variables)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("At noon.")
    assert "ragmeter.score" not in done.stdout
