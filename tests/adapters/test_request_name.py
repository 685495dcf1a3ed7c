"""A request that nobody named bears the name of the service or the script, not of a framework's plumbing."""

import subprocess
import sys

import pytest

PROGRAM = """
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.retrievers import BaseRetriever
from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter

class Search(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("Ferries leave every hour.")]

{setup}
memory = InMemoryExporter()
with RagMeter(exporters=[memory]) as meter:
    chain = (Search() | RunnableLambda(lambda found: found[0].page_content)){named}
    chain.invoke("When?", config={{"callbacks": [RagMeterCallbackHandler(meter)]}})
    meter.flush(60)
print(memory.results[0].sample.name)
"""
SDK = """
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider(resource=Resource.create({"service.name": "shop-api"})))
"""


@pytest.mark.parametrize(
    ("how", "setup", "named", "variables", "expected"),
    [
        ("file", "", "", {}, "shop_bot"),
        ("-c", "", "", {}, "RunnableSequence"),
        ("file", "", "", {"OTEL_SERVICE_NAME": "shop"}, "shop"),
        ("file", SDK, "", {}, "shop-api"),
        ("file", SDK, ".with_config(run_name='support')", {}, "support"),
    ],
)
def test_the_name_is_one_a_person_knows(tmp_path, how, setup, named, variables, expected):
    program = PROGRAM.format(setup=setup, named=named)
    (tmp_path / "shop_bot.py").write_text(program)
    given = ["shop_bot.py"] if how == "file" else ["-c", program]
    done = subprocess.run(
        [sys.executable, *given],
        cwd=tmp_path,
        env={"PATH": "", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == f"{expected}\n", done.stderr
