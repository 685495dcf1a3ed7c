"""The embedder in a meter: off the request's path, sampled, in the worker process, and never captured."""

import math
import os
import pickle
import textwrap
import threading

import pytest
from embedding_server import EmbeddingServer
from fakes_core import scored
from fakes_embedder import WithKey, by_length, by_process
from python_process import run_python

from ragmeter import ConfigurationError, Limits, RagMeter, RagSample
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics.embedder import InProcessEmbedder, OpenAIEmbedder
from ragmeter.pipeline.process.codec import Unpickler, make_payload

NAME = "semantic_context_relevance"
KEY = "sk-very-secret-key"


def sample(question="How tall is it?"):
    return RagSample(question=question, contexts=["31 metres.", "A harbour."], answer="31 metres.")


def results_of(*samples, **arguments):
    results, stats = scored(*samples, **{"metrics": None, "limits": Limits(hold_s=60), **arguments})
    assert stats.internal_errors == {}
    return results


@pytest.mark.parametrize("scoring", ["thread", "process"])
def test_every_request_gets_its_score(scoring):
    results = results_of(*(sample(f"How tall {n}?") for n in range(5)), embedder=by_length, scoring=scoring)

    assert [result.scores[NAME].status for result in results] == ["ok"] * 5
    assert results[0].scores[NAME].definition == "1;model=by_length"
    assert len({result.scores[NAME].value for result in results}) == 1


def test_with_a_process_it_runs_there():
    [result] = results_of(sample("?"), embedder=by_process, scoring="process")
    pid = math.tan(math.acos(result.scores[NAME].value))

    assert result.scores[NAME].status == "ok"
    assert round(pid) != os.getpid()


def test_without_an_embedder_there_is_no_such_score_and_nothing_of_it_is_loaded():
    [result] = results_of(sample())
    loaded = run_python(
        "-c", "import sys, ragmeter; ragmeter.RagMeter(exporters=[]); print(*sys.modules)", check=True
    ).stdout

    assert NAME not in result.scores
    assert "ragmeter.metrics.embedder" not in loaded


def test_it_can_be_named_and_needs_an_embedder():
    embeddings = pytest.importorskip("langchain_core.embeddings")

    [result] = results_of(sample(), metrics=[NAME], embedder=embeddings.DeterministicFakeEmbedding(size=4))

    assert next(iter(result.scores)) == NAME
    with pytest.raises(ConfigurationError, match="pass embedder="):
        RagMeter(metrics=[NAME])
    with pytest.raises(ConfigurationError, match="embedder is 'text-embedding-3-small'"):
        RagMeter(embedder="text-embedding-3-small")


def test_free_scores_do_not_wait_for_it():
    """It hangs; spans wait for hold_s, and go out with the free scores."""
    gate = threading.Event()

    def hangs(texts):
        gate.wait(60)
        return by_length(texts)

    memory = InMemoryExporter()
    meter = RagMeter(embedder=hangs, exporters=[memory], limits=Limits(hold_s=0.0))
    for number in range(5):
        meter.submit(sample(f"{number}?"))
    try:
        assert len(memory.wait_for(5, timeout_s=30)) == 5
        assert "lexical_groundedness" in memory.results[0].scores
    finally:
        gate.set()
        meter.shutdown(60)


def test_it_is_sampled_as_the_judge_is():
    [result] = results_of(sample(), embedder=by_length, judge_sample_rate=0.0)

    assert result.scores[NAME].status == "skipped"


@pytest.mark.contains_errors
def test_shutdown_does_not_wait_for_one_that_hangs():
    gate, begun = threading.Event(), threading.Event()

    def hangs(texts):
        begun.set()
        gate.wait(600)
        return by_length(texts)

    memory = InMemoryExporter()
    meter = RagMeter(embedder=hangs, exporters=[memory], limits=Limits(hold_s=60))
    meter.submit(sample())
    try:
        assert begun.wait(60)
        meter.shutdown(5)
    finally:
        gate.set()

    [result] = memory.results
    assert result.scores[NAME].status in {"skipped", "metric_error"}
    assert result.scores["lexical_groundedness"].status == "ok"


@pytest.mark.parametrize(
    "embedder",
    [
        WithKey(key=KEY),
        InProcessEmbedder(WithKey(key=KEY), query_prefix="query: "),
        OpenAIEmbedder("e5", "http://user:secret-password@localhost:1/v1", KEY, headers={"x": KEY}),
    ],
    ids=["framework", "with options", "endpoint"],
)
def test_no_secret_stands_in_what_is_pickled_for_the_worker(embedder):
    meter = RagMeter(metrics=[NAME], embedder=embedder, exporters=[])
    payload = make_payload(meter._metrics.all, None)
    [metric] = payload.metrics.values()
    pickled = metric + payload.judge
    made = Unpickler(metric, payload.secrets, lambda number, limits: None, {}).load()

    assert b"secret-password" not in pickled
    assert KEY.encode() not in pickled
    assert made.definition == meter._metrics.all[0].definition
    assert KEY not in repr(payload)


def test_a_framework_with_a_key_works_in_the_worker():
    [result] = results_of(sample(), embedder=WithKey(key=KEY), scoring="process")

    assert result.scores[NAME].value == 1.0


def test_what_cannot_be_sent_to_a_worker_is_said_at_construction():
    with pytest.raises(ConfigurationError, match=r"cannot send metric .semantic_context_relevance."):
        RagMeter(embedder=lambda texts: texts, scoring="process")


def test_an_endpoint_serves_the_worker():
    with EmbeddingServer() as server:
        embedder = OpenAIEmbedder("e5", server.url, KEY)
        [result] = results_of(sample(), embedder=embedder, scoring="process")
        [(_, headers, _)] = server.requests

    assert result.scores[NAME].status == "ok"
    assert headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_embeds_for_itself():
    """Its parent's call hangs at the moment of the fork."""
    code = """
        import os, sys, threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from ragmeter import Limits, RagMeter, RagSample
        from ragmeter.exporters.memory import InMemoryExporter
        gate, begun = threading.Event(), threading.Event()
        parent = os.getpid()
        def embed(texts):
            begun.set()
            if os.getpid() == parent:
                gate.wait(60)
            return [[1.0, len(text)] for text in texts]
        memory = InMemoryExporter()
        meter = RagMeter(metrics=["semantic_context_relevance"], embedder=embed, exporters=[memory], limits=Limits(hold_s=60))
        def ask():
            meter.submit(RagSample(question="How?", contexts=["So."], answer="So."))
        ask()
        assert begun.wait(30)
        pid = os.fork()
        if pid == 0:
            memory.clear()
            ask()
            assert meter.flush(30)
            [result] = memory.results
            assert result.scores["semantic_context_relevance"].status == "ok"
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        gate.set()
        assert meter.flush(30)
        assert memory.results[-1].scores["semantic_context_relevance"].status == "ok"
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    done = run_python("-c", textwrap.dedent(code))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pickled_metric_remembers_nothing():
    meter = RagMeter(metrics=[NAME], embedder=by_length, exporters=[])
    again = pickle.loads(pickle.dumps(meter._metrics.all[0]))

    assert again.definition == meter._metrics.all[0].definition
    assert again.embedder.stats.calls == 0
