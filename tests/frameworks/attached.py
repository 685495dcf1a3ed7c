"""A pytest plugin that runs other projects' tests with ragmeter attached to the whole process.

``run.py`` loads it into the test suites of the frameworks themselves (``-p attached``), once with and once
without ragmeter, and compares its records: the outcome of every test, the errors contained by ragmeter's
guards, and the requests still open after the last test.
"""

from __future__ import annotations

import gc
import json
import os
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

LOG = Path(os.environ["RAGMETER_FRAMEWORKS_LOG"])
ATTACH = os.environ.get("RAGMETER_FRAMEWORKS_ATTACH", "").split()
"""Frameworks to attach to: ``langchain``, ``llama_index``; none: only the outcomes are recorded."""

_outcomes: dict[str, str] = {}
"""The reason for a test's failure, on one line."""
_attached: dict[str, Any] = {}


class _Unended:
    """Spans that LlamaIndex began and never ended: a run whose event loop was closed has none."""

    open_spans: dict[str, Any]

    def __init__(self) -> None:
        self.open_spans = {}
        self.ids: set[str] = set()

    def span_enter(self, id_: str, **_: Any) -> None:
        self.ids.add(id_)

    def span_exit(self, id_: str, **_: Any) -> None:
        self.ids.discard(id_)

    span_drop = span_exit

    def close(self) -> None:
        """Do nothing."""

    def capture_propagation_context(self) -> dict[str, Any]:
        return {}

    def restore_propagation_context(self, context: dict[str, Any]) -> None:
        """Do nothing."""

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__


def pytest_configure() -> None:
    """Attach before the first module of the suite is imported, as ``sitecustomize`` would."""
    if not ATTACH:
        return
    from ragmeter import Limits, RagMeter
    from ragmeter._runtime.guard import observed_errors
    from ragmeter.exporters.memory import InMemoryExporter

    _attached["contained"], _attached["tracebacks"] = Counter(), []
    _attached["observing"] = observed_errors(_record_contained)
    _attached["observing"].__enter__()
    # A few bytes stay in memory: leaks of ragmeter's show in open requests, not here.
    memory = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[memory], limits=Limits(queue_size=100_000))
    _attached["meter"], _attached["memory"] = meter, memory
    if "langchain" in ATTACH:
        from ragmeter.adapters import instrument
        from ragmeter.adapters.langchain import RagMeterCallbackHandler

        instrument(meter, frameworks=["langchain"])
        _attached["langchain"] = RagMeterCallbackHandler(meter)
    if "llama_index" in ATTACH:
        from llama_index_instrumentation import get_dispatcher

        from ragmeter.adapters.llama_index import RagMeterHandler

        _attached["llama_index"] = RagMeterHandler(meter).attach()
        _attached["unended"] = _Unended()
        get_dispatcher().add_span_handler(_attached["unended"])


def _record_contained(component: str, error: Exception) -> None:
    """Record a contained error, unless it comes from the race of a frozen clock.

    freezegun replaces ``time.monotonic`` for all threads, and its replacement raises ``IndexError`` in a
    thread that reads the clock at the moment another one unfreezes it, in those of other libraries, too.
    """
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    if "freezegun" in Path(innermost.filename).parts:
        return
    _attached["contained"][component] += 1
    _attached["tracebacks"].append("".join(traceback.format_exception(error)) + f"in {component}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record a test's outcome; a failure of its setup or teardown is one, too."""
    if report.when == "call" or report.outcome != "passed":
        earlier = _outcomes.get(report.nodeid)
        if earlier in (None, "passed"):
            _outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish() -> None:
    """Write the records."""
    facts: dict[str, Any] = {"outcomes": _outcomes}
    if _attached:
        for _ in range(3):
            gc.collect()
        meter = _attached["meter"]
        flushed = meter.flush(60)
        stats = meter.stats()
        opened: dict[str, int] = {}
        if "langchain" in _attached:
            opened["langchain"] = _attached["langchain"].open_requests
        if "llama_index" in _attached:
            followed = set(_attached["llama_index"]._spans._frames)
            opened["llama_index"] = len(followed - _attached["unended"].ids)
        facts["ragmeter"] = {
            "flushed": flushed,
            "captured": stats.captured,
            "exported": stats.exported,
            "dropped": dict(stats.dropped),
            "contained": dict(_attached["contained"]),
            "tracebacks": _attached["tracebacks"][:20],
            "open": opened,
        }
        meter.shutdown(10)
    LOG.write_text(json.dumps(facts), encoding="utf-8")
