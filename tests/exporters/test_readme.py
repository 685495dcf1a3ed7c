"""The exporter that the README shows, run as it is printed."""

import re
import sys
import types
from pathlib import Path

from ragmeter.metrics import RagSample

README = Path(__file__).parents[2] / "exporters" / "README.md"


def test_the_exporter_in_the_readme_works(monkeypatch):
    """Copied from the page, it writes one line per score."""
    lines = []
    logger = types.SimpleNamespace(info=lambda name, **facts: lines.append((name, facts)))
    log_library = types.ModuleType("structlog")
    log_library.get_logger = lambda _: logger
    monkeypatch.setitem(sys.modules, "structlog", log_library)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    names: dict = {}
    exec(next(block for block in blocks if "class LogLines" in block), names)
    meter = names["meter"]
    meter.submit(RagSample(question="q", contexts=("c",), answer="a"))
    assert meter.flush(60)
    meter.shutdown()

    assert ("context_count", 1.0) in {(name, facts["value"]) for name, facts in lines}
