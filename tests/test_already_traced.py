"""The Python blocks of "Already traced?" run as they stand, where what they trace with is installed."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest
from python_process import run_python

pytest.importorskip("opentelemetry.sdk.trace")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

PAGE = (Path(__file__).parents[1] / "docs" / "already-traced.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FIRST = BLOCKS[0]
AT_WORK = """
import json
from ragmeter.exporters.memory import InMemoryExporter

public_key = secret_key = "key"
question = "Why?"
class chain:
    invoke = staticmethod(lambda *given, **named: None)
memory = InMemoryExporter()
"""
TOLD = """
provider.force_flush()
assert meter.flush(30)
print(json.dumps([[one.sample.question, one.sample.answer] for one in memory.results]), flush=True)
import os
os._exit(0)
"""


def _run(block: str) -> subprocess.CompletedProcess[str]:
    setup = FIRST.replace("RagMeter()", "RagMeter(exporters=[memory])")
    return run_python("-c", AT_WORK + setup + block + TOLD, timeout=200)


@pytest.mark.timeout(240)
def test_what_is_written_by_hand_is_scored():
    """The block that needs nothing but an SDK."""
    [by_hand] = [block for block in BLOCKS if "start_as_current_span" in block]

    done = _run(by_hand)

    assert done.returncode == 0, done.stderr
    asked = json.loads(done.stdout)
    assert asked == [["How long do refunds take?", "14 days."]]


INSTRUMENTORS = [
    block for block in BLOCKS if re.search(r"^LangChainI|^LlamaIndexI|^Haystack|^DSPy", block, re.MULTILINE)
]


def test_the_page_has_a_block_for_each():
    """Four frameworks are traced by one line each."""
    assert len(INSTRUMENTORS) == 4


@pytest.mark.timeout(240)
@pytest.mark.parametrize("block", INSTRUMENTORS, ids=lambda block: block.split()[1])
def test_an_instrumentor_takes_the_provider(block):
    """Where the package is installed."""
    module = block.split()[1]
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip(f"{module} is not installed")

    done = _run(block)

    assert done.returncode == 0, done.stderr
