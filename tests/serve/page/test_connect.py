"""What the page says to copy: each snippet is run as it stands there, and the server hears of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from served import served, until

from ragmeter.serve.page._connect import SETUPS
from ragmeter.serve.store import StoreOptions

TESTS = Path(__file__).parents[2]
PREPARED = {
    "langchain": "from rag_chain import QUESTION, rag_chain\nrag_chain().invoke(QUESTION)\n",
    "llama_index": """
from llama_index.core import Settings
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

class Lists(BaseRetriever):
    def _retrieve(self, query):
        return [NodeWithScore(node=TextNode(text="The river rises in the north.", id_="d1"), score=0.9)]

Settings.llm = MockLLM()
RetrieverQueryEngine.from_args(Lists()).query("Where does the river rise?")
""",
    "opentelemetry": """
from opentelemetry import trace
with trace.get_tracer("app").start_as_current_span("ask") as span:
    span.set_attributes({"openinference.span.kind": "RETRIEVER", "input.value": "Where does the river rise?",
        "retrieval.documents.0.document.content": "It rises in the north."})
""",
}
"""Applications that know nothing of ragmeter."""
VENDORS = os.environ.get("RAGMETER_TEST_VENDORS", "")


def run(lines, app, folder, python=sys.executable):
    """Run a snippet in a shell: its installation left out, as everything is there already."""
    (folder / "app.py").write_text(app)
    lines = "\n".join(line for line in lines.split("\n") if not line.startswith("pip install"))
    if "python app.py" not in lines:
        lines += "\nopentelemetry-instrument python app.py"
    done = subprocess.run(
        ["bash", "-ec", lines],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(TESTS),
            "HOME": str(folder),
            "NO_PROXY": "*",
            "OTEL_SERVICE_NAME": "shop",
            "OTEL_LOGS_EXPORTER": "otlp",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("setup", PREPARED)
def test_what_is_copied_is_heard_and_scored(tmp_path, setup):
    with served(store=StoreOptions(path=tmp_path / "serve.db"), grace_s=0.0) as server:
        run(SETUPS[setup].lines.replace("{http}", server.url), PREPARED[setup], tmp_path)
        reader = server.server.reader
        if setup == "opentelemetry":  # scored here; the others are scored where they run
            until(lambda: any(one.scored for one in server.server._scoring.reporter.heard()))
        else:
            until(lambda: reader.overview().requests)
            (service,) = reader.overview().services
            assert service == "shop"


@pytest.mark.parametrize("setup", ["phoenix", "langfuse"])
def test_what_is_copied_beside_a_vendor_is_heard(tmp_path, setup):
    python = Path(VENDORS, setup, "bin", "python")
    if not VENDORS or not python.exists():
        pytest.skip(f"no environment of {setup}: .ci/vendors makes it")
    with served() as server:
        lines = SETUPS[setup].lines.replace("{http}", server.url)
        tracer = (
            "from opentelemetry import trace\nwith trace.get_tracer('app').start_as_current_span('ask'): pass\n"
        )
        end = "\ntrace.get_tracer_provider().force_flush()\n"
        variables = (
            "export LANGFUSE_PUBLIC_KEY=pk-lf-none LANGFUSE_SECRET_KEY=sk-lf-none LANGFUSE_BASE_URL=http://127.0.0.1:9 "
            "PHOENIX_COLLECTOR_ENDPOINT=http://127.0.0.1:9\npython app.py"
        )
        run(variables, f"{lines}\n{tracer}{end}", tmp_path, str(python))
        until(server.server._scoring.reporter.heard)
