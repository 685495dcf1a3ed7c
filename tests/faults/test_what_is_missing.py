"""Where the platform lacks something: file descriptors, fork, what a value needs to be pickled."""

import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from fakes_worker import question_length
from python_process import run_python

from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample
from ragmeter.settings.from_settings import meter_arguments

TESTS = Path(__file__).resolve().parent.parent

NO_FILES = """
import faulthandler, os, resource, sys, time
faulthandler.dump_traceback_later(80, exit=True)
from fakes_worker import EchoJudge
from ragmeter import RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample
import ragmeter.pipeline.judging
memory = InMemoryExporter()
meter = RagMeter(
    metrics=["retrieval_health", "context_utilization"], judge=EchoJudge(), exporters=[memory]
)
warm = RagMeter(metrics=["retrieval_health"], exporters=[InMemoryExporter()])
warm.submit(RagSample(question="q", contexts=["a"])); warm.flush(30); warm.shutdown(60)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
for number in range(30):
    meter.submit(RagSample(question=f"q{number}", contexts=["a"], answer="b"))
assert meter.flush(60), meter.stats()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
stats = meter.stats()
assert (stats.exported, len(memory.results)) == (30, 30), stats
assert stats.judge_skipped == {"unavailable": 30}, stats
assert {r.scores["context_count"].value for r in memory.results} == {1.0}
assert {r.scores["context_utilization"].status for r in memory.results} == {"skipped"}
deadline = time.monotonic() + 30
while memory.results[-1].scores["context_utilization"].value is None:
    assert time.monotonic() < deadline
    meter.submit(RagSample(question="later", contexts=["a"], answer="b"))
    assert meter.flush(60)
meter.shutdown(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no resource limits on this platform")
def test_free_metrics_do_not_wait_for_a_judge_s_loop_that_cannot_start():
    """No file descriptors: judged scores are skipped, at once, and come back when there are some."""
    done = run_python(
        "-c",
        textwrap.dedent(NO_FILES),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "core")])},
    )

    assert done.returncode == 0, done.stderr


WINDOWS = """
import asyncio, os, signal, sys
import langchain_core.runnables, llama_index.core
del os.register_at_fork, os.fork
for name in ("SIGHUP", "SIGALRM", "SIGUSR1", "SIGKILL"):
    delattr(signal, name)
for name in ("resource", "fcntl", "pwd"):
    sys.modules[name] = None
import ragmeter
from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.metrics import ConfigurationError, RagSample
memory = InMemoryExporter()
meter = RagMeter(exporters=[memory, OpenTelemetryExporter()])
RagMeterCallbackHandler(meter); RagMeterHandler(meter)
meter.submit(RagSample(question="q", contexts=["a"], answer="b"))
assert meter.flush(30) and len(memory.results) == 1
try:
    RagMeter(exporters=[memory], scoring="process")
except ConfigurationError as error:
    assert "keep scoring='thread'" in str(error)
else:
    raise AssertionError
"""


def test_a_meter_is_built_where_there_is_no_fork():
    """As on Windows: everything but the scoring process works there."""
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    done = run_python("-W", "ignore", "-c", WINDOWS, timeout=120)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("absent", "adapter", "package"),
    [
        ("langchain_core", "langchain", "langchain-core"),
        ("llama_index", "llama_index", "llama-index-core"),
        ("wrapt", "llama_index", "wrapt"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(absent, adapter, package):
    done = run_python("-c", f"import sys; sys.modules[{absent!r}] = None; import ragmeter.adapters.{adapter}")

    assert f"adapter needs the package '{package}': pip install" in done.stderr.splitlines()[-1]


class Stubborn:
    """Raises what no pickling is expected to raise."""

    def __reduce__(self):
        raise OSError("a connection that is gone")


class Own(RagSample):
    """A sample with something of its own, which cannot be sent."""

    extra: object = None


@pytest.mark.contains_errors
def test_a_value_that_raises_while_it_is_pickled_loses_itself():
    memory = InMemoryExporter()
    meter = RagMeter([question_length], exporters=[memory], scoring="process")
    context = {"text": "a", "metadata": {"odd": Stubborn(), "fine": 1}}
    meter.submit(RagSample(question="four", contexts=[context]))
    meter.submit(Own(question="four", contexts=["a"], extra=Stubborn()))
    assert meter.flush(60)

    assert [r.scores["question_length"].value for r in memory.results] == [4.0, 4.0]
    assert meter.stats().internal_errors == {"worker": 2}
    meter.shutdown(60)


@pytest.mark.contains_errors
@pytest.mark.parametrize("build", ["in code", "from the environment"])
@pytest.mark.parametrize("broken", ["{not json\n", "\xff\xfe", '{"question": "q", "answer": 5}\n'])
def test_a_broken_reference_file_loses_nothing_that_was_in_force(tmp_path, monkeypatch, broken, build):
    """Not even the reference of the request that finds it; it is counted once."""
    from fakes_core import exact_answer

    import ragmeter.requests.references

    monkeypatch.setattr(ragmeter.requests.references, "RECHECK_AFTER_S", 0.0)
    path = tmp_path / "golden.jsonl"
    path.write_text('{"question": "q", "answer": "right"}\n', encoding="utf-8")
    memory = InMemoryExporter()
    monkeypatch.setenv("RAGMETER_REFERENCES", str(path))
    references = path if build == "in code" else meter_arguments()["references"]
    meter = RagMeter([exact_answer], exporters=[memory], references=references)
    path.write_bytes(broken.encode("latin-1"))
    for _ in range(3):
        meter.submit(RagSample(question="q", contexts=["a"], answer="right"))
    assert meter.flush(30)

    assert [r.scores["exact_answer"].value for r in memory.results] == [1.0] * 3
    assert meter.stats().internal_errors == {"meter.references": 1}
    meter.shutdown(60)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no SIGALRM on this platform")
def test_a_task_queue_s_time_limit_passes_through_langchain(monkeypatch):
    """Raised while our callback runs, it ends the task, as it would without us."""
    pytest.importorskip("langchain_core")
    from rag_chain import rag_chain

    from ragmeter.adapters.langchain import RagMeterCallbackHandler, _events

    class SoftTimeLimitExceeded(Exception):  # noqa: N818 -- as task queues call it
        pass

    def limit(signum, frame):
        raise SoftTimeLimitExceeded

    memory = InMemoryExporter()
    meter = RagMeter(metrics=["retrieval_health"], exporters=[memory])
    real = _events.time.time_ns
    struck = []

    def slow():
        if not struck:
            struck.append(1)
            signal.raise_signal(signal.SIGALRM)
        return real()

    before = signal.signal(signal.SIGALRM, limit)
    monkeypatch.setattr(_events.time, "time_ns", slow)
    try:
        with pytest.raises(SoftTimeLimitExceeded):
            rag_chain().invoke("q", {"callbacks": [RagMeterCallbackHandler(meter)]})
    finally:
        signal.signal(signal.SIGALRM, before)
    assert struck
    assert meter.stats().internal_errors == {}
    meter.shutdown(60)
