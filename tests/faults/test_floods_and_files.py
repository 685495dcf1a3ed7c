"""Faults of backends, disks and files, floods, and forks at the worst moment: what each one costs.

For each: the application's answers are what they were, and the counts reconcile exactly.
``RAGMETER_SOAK=1`` lets the floods last some minutes.
"""

import gc
import json
import os
import textwrap
import threading
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from loopback_server import LoopbackServer
from memory_sdk import memory_sdk
from openai_server import OpenAIServer
from python_process import run_python
from rag_chain import QUESTION, ask, check, rag_chain

from ragmeter import Limits, RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.exporters.otel import OpenTelemetryExporter
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.metrics import metric
from ragmeter.metrics.judge import OpenAIJudge
from ragmeter.requests import references

TESTS = Path(__file__).resolve().parent.parent
FLOOD = 20_000 if os.environ.get("RAGMETER_SOAK") else 400
"""Requests of a flood, ten for each that can be scored meanwhile."""


@pytest.mark.contains_errors
def test_a_backend_rejects_everything():
    """Its losses are counted run by run; what goes elsewhere arrives."""
    memory = InMemoryExporter()
    spans = OpenTelemetryExporter(**memory_sdk().providers)
    with LoopbackServer(lambda _: 422) as server:
        sink = PhoenixAnnotations(server.url, spans=spans)
        with RagMeter(exporters=[spans, sink, memory]) as meter:
            stats = check(meter, ask(meter, 12))

    assert stats.export_errors == {"PhoenixAnnotations": 12}
    assert len(memory.results) == stats.exported == 12


FULL_DISK = """
import json, resource, sys
from openai_server import OpenAIServer
from ragmeter import Limits, RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample
from ragmeter.metrics.judge import OpenAIJudge

with OpenAIServer() as server:
    memory = InMemoryExporter()
    judge = OpenAIJudge("m", server.url, "k", cache=sys.argv[1])
    meter = RagMeter(metrics=["context_relevancy"], judge=judge, exporters=[memory], limits=Limits(hold_s=90))
    # No file may grow beyond this: what a full disk does, for this process alone.
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    for number in range(300):
        meter.submit(RagSample(question=f"q{number}", contexts=[f"chunk {number} " * 20]))
    assert meter.flush(90)
    stats = meter.stats()
    meter.shutdown(60)
values = [result.scores["context_relevancy"].value for result in memory.results]
print(json.dumps([stats.captured, stats.exported, sum(stats.dropped.values()), values]))
"""


def test_the_disk_is_full_for_the_judges_cache(tmp_path):
    """Answers are then kept in memory, which is said once; no score is lost or changed."""
    pytest.importorskip("resource")
    path = tmp_path / "cache.sqlite"
    done = run_python("-c", textwrap.dedent(FULL_DISK), str(path), env={**os.environ, "PYTHONPATH": str(TESTS)})

    assert done.returncode == 0, done.stderr
    captured, exported, dropped, values = json.loads(done.stdout)
    assert (captured, exported, dropped) == (300, 300, 0)
    assert values == [1.0] * 300
    assert done.stderr.count("kept in memory") == 1
    assert path.stat().st_size <= 50_000


@pytest.mark.contains_errors
def test_the_reference_file_is_replaced_while_running(tmp_path, monkeypatch):
    """The new one is used from then on; half a file is refused and nothing that was in force is lost."""
    monkeypatch.setattr(references, "RECHECK_AFTER_S", 0.0)
    path = tmp_path / "golden.jsonl"

    def replace(text):
        new = tmp_path / "new"
        new.write_text(text, encoding="utf-8")
        new.replace(path)

    def row(answer):
        return json.dumps({"question": QUESTION, "answer": answer})

    replace(row("first"))
    memory = InMemoryExporter()
    meter = RagMeter(metrics=["answer_overlap"], references=path, exporters=[memory])
    answers = []
    for text in (None, row("second"), '{"question": "half a li', row("third"), ""):
        if text is not None:
            replace(text)
        answers += ask(meter)
        meter.flush(60)
    path.unlink()
    answers += ask(meter)
    check(meter, answers)

    found = [r.sample.reference.answer if r.sample.reference else None for r in memory.results]
    assert found[:4] == ["first", "second", "second", "third"]
    assert len(found) == 6
    assert set(meter.stats().internal_errors) == {"meter.references"}


def test_a_flood_of_ten_times_what_can_be_scored():
    """The queue is full all the time: answers as ever, memory flat, every request accounted for."""
    may_score = threading.Semaphore(0)

    @metric
    def slow(sample):
        assert may_score.acquire(timeout=60)
        return 1.0

    memory = InMemoryExporter()
    meter = RagMeter(metrics=[slow], exporters=[memory], limits=Limits(queue_size=20, late_window=0))
    chain = rag_chain()
    config = {"callbacks": [RagMeterCallbackHandler(meter)]}
    answers = Counter()

    def offer(count):
        for number in range(count):
            answers[chain.invoke(QUESTION, config=config)] += 1
            if number % 10 == 0:
                may_score.release()

    offer(FLOOD // 2)
    gc.collect()
    tracemalloc.start()
    offer(FLOOD // 2)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert meter.stats().queue_size <= 20
    for _ in range(FLOOD):
        may_score.release()
    stats = check(meter, [answer for answer, count in answers.items() for _ in range(count)])

    # What is waiting at the end: a queue of 20 and what one scoring thread has taken.
    assert stats.exported <= FLOOD // 10 + 20 + 64
    assert stats.dropped == {"queue_full": FLOOD - stats.exported}
    assert len(memory.results) == stats.exported
    # What the memory exporter keeps by order of this test, and nothing that grows with the flood.
    assert grown < 200_000 + 20_000 * stats.exported


def test_a_judge_ten_times_too_slow_leaves_the_free_metrics_complete():
    """Judged scores are skipped, oldest first, and counted; each request has its free scores."""
    memory = InMemoryExporter()
    with OpenAIServer(latency_s=0.05) as server:
        # Two requests at a time, and none is answered before 400 have come.
        server.gate.clear()
        judge = OpenAIJudge("m", server.url, "k", max_retries=0, cache=False, concurrency=2)
        meter = RagMeter(
            metrics=["context_relevancy", "retrieval_health"],
            judge=judge,
            exporters=[memory],
            limits=Limits(hold_s=0.05, judge_concurrency=2, queue_size=40),
        )
        answers = []
        while len(answers) < 400:
            answers += ask(meter, 10)
            while meter.stats().queue_size > 20:
                time.sleep(0.001)
        server.gate.set()
        stats = check(meter, answers)
        meter.shutdown(60)

    first = [result for result in memory.results if not result.late]
    assert len(first) == stats.exported == 400
    assert stats.dropped == {}
    assert all(result.scores["context_count"].value == 2.0 for result in first)
    judged = [s for r in memory.results if (s := r.scores.get("context_relevancy")) is not None]
    assert len(judged) == 400
    statuses = Counter(score.status for score in judged)
    assert statuses["skipped"] == sum(stats.judge_skipped.values()) > 200
    assert statuses["ok"] > 0
    assert set(statuses) <= {"ok", "skipped", "timeout"}


FORKING = """
import faulthandler, os, sys, threading, time
import ragmeter
from rag_chain import ANSWER, QUESTION, ask, check, rag_chain
from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import metric

@metric
def slow(sample):
    time.sleep(0.001)
    return 1.0

memory = InMemoryExporter()
meter = RagMeter(metrics=[slow, "lexical_groundedness"], exporters=[memory])
chain = rag_chain()
config = {"callbacks": [RagMeterCallbackHandler(meter)]}

def work():
    while not stop.is_set():
        assert chain.invoke(QUESTION, config=config) == ANSWER
        time.sleep(0.01)

def reconciled(stats):
    return stats.captured == stats.exported + sum(stats.dropped.values()) + stats.in_flight

# A fork while the application's own threads import something is the application's own affair.
with ragmeter.suppress():
    chain.invoke(QUESTION, config=config)
stop = threading.Event()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
children = []
for _ in range(5):
    time.sleep(0.03)
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(100, exit=True)
        inherited = meter.stats().dropped.get("fork", 0)
        memory.clear()
        for _ in range(10):
            assert chain.invoke(QUESTION, config=config) == ANSWER
        good = meter.flush(60)
        stats = meter.stats()
        good = good and stats.exported == 10 == len(memory.results)
        good = good and stats.captured == inherited + 10 and stats.in_flight == 0
        good = good and set(stats.dropped) <= {"fork"} and reconciled(stats)
        if not good:
            print(stats, len(memory.results), file=sys.stderr)
        os._exit(0 if good else 1)
    children.append(pid)
stop.set()
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
for thread in threads:
    thread.join()
assert meter.flush(60)
stats = meter.stats()
assert codes == [0] * 5, codes
assert reconciled(stats) and stats.in_flight == 0, stats
assert len(memory.results) == stats.exported
assert set(stats.dropped) <= {"queue_full"}, stats
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forks_in_the_middle_of_scoring():
    """Five children, forked while three threads ask and the worker scores: each counts its own."""
    done = run_python(
        "-W", "ignore", "-c", textwrap.dedent(FORKING), env={**os.environ, "PYTHONPATH": str(TESTS)}
    )

    assert (done.returncode, done.stderr) == (0, "")
