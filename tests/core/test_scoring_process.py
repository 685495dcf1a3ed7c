"""Scoring in a worker process: the same scores, and nothing of the application in it."""

import json
import logging
import os
import pickle
import subprocess
import sys
import threading
from array import array
from collections import Counter
from pathlib import Path

import pytest
from fakes_worker import (
    AskedPid,
    Bare,
    EchoJudge,
    Outer,
    ends,
    misbehave,
    odd_number,
    of_metadata,
    question_length,
    scorer_pid,
    workers_of,
)
from hypothesis import given
from hypothesis import strategies as st
from openai_server import OpenAIServer

from ragmeter import Limits, RagMeter, Scoring
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import (
    ConfigurationError,
    RagSample,
    Reference,
    RetrievalStage,
    RetrievedContext,
    Score,
    metric,
)
from ragmeter.metrics.judge import JudgeBudget, OpenAIJudge
from ragmeter.metrics.score import ScoreItem
from ragmeter.pipeline.process.codec import pack_sample, pack_scores, unpack_scores

KEY = "sk-very-secret-key"
HERE = Path(__file__).parent


def samples() -> list[RagSample]:
    chunks = [
        "The Eiffel Tower stands in Paris. It was built in 1889 by Gustave Eiffel.",
        "Эйфелева башня построена в 1889 году. Она стоит в Париже.",
        "埃菲尔铁塔建于1889年，位于巴黎。",
    ]
    truth = Reference(
        answer="The tower in Paris was built in 1889.", contexts=chunks[:2], context_ids=["a", "c"]
    )
    contexts = [
        RetrievedContext(text=text, id=name, score=0.5, metadata={"page": 1})
        for text, name in zip(chunks, "abc", strict=True)
    ]
    return [
        RagSample(question="When was it built?", contexts=contexts, answer="In 1889.", reference=truth),
        RagSample(question="When?", contexts=contexts, answer="In 1889, in Paris."),
        RagSample(question="When?", contexts=(), answer="I do not know."),
        RagSample(question="When?", contexts=None, answer="1889", reference=Reference(answer="1889")),
        RagSample(question="\ud800?", contexts=["\udfff lone"], answer=None, status="error"),
        RagSample(question=None, contexts=["text"], status="retrieval_only", name="retriever"),
    ]  # fmt: skip


def scored(scoring, given, **arguments):
    exporter = InMemoryExporter()
    meter = RagMeter(exporters=[exporter], scoring=scoring, **arguments)
    try:
        for sample in given:
            meter.submit(sample)
        assert meter.flush(60)
        stats = meter.stats()
    finally:
        meter.shutdown()
    assert workers_of(os.getpid()) == []
    assert (stats.captured, stats.exported) == (len(given), len(given))
    # Judged requests go out as they are done.
    return sorted(exporter.results, key=lambda result: given.index(result.sample)), stats


def one(given=None, **arguments):
    [result], _ = scored("process", [given or RagSample(question="q")], **arguments)
    return result.scores


def as_written(results):
    return [
        {name: score.model_dump_json(exclude_unset=True) for name, score in result.scores.items()}
        for result in results
    ]


def test_every_free_metric_gives_the_same_scores_as_in_a_thread():
    """Bit for bit: values, statuses, evidence, what was set, and the order."""
    here, _ = scored("thread", samples())
    there, _ = scored("process", samples())

    assert [list(result.scores.items()) for result in there] == [list(result.scores.items()) for result in here]
    assert as_written(there) == as_written(here)
    assert sum(len(score.items) for score in there[0].scores.values()) > 10


def test_every_judged_metric_gives_the_same_scores_and_counts_as_in_a_thread():
    with OpenAIServer() as server:
        runs = []
        for scoring in ("thread", "process"):
            judge = OpenAIJudge("m", server.url, KEY, headers={"x-team": "a"})
            heard = []
            judge.subscribe(heard.append)
            runs.append((*scored(scoring, samples(), judge=judge, limits=Limits(hold_s=60)), judge, heard))
        headers = server.requests[-1].headers

    (here, at_thread, judge_here, heard_here), (there, at_process, judge_there, heard_there) = runs
    of_costs = {"judge_calls", "cache_hits", "input_tokens", "output_tokens"}
    for mine, theirs in zip(here, there, strict=True):
        assert list(theirs.scores) == list(mine.scores)
        for name, score in mine.scores.items():
            # Which of two concurrent metrics pays for a shared question is chance.
            assert theirs.scores[name].model_dump(exclude=of_costs) == score.model_dump(exclude=of_costs)
    assert at_process.judge_calls == at_thread.judge_calls > 10
    assert at_process.input_tokens == at_thread.input_tokens
    assert judge_there.stats == judge_here.stats
    assert Counter(call.metric for call in heard_there) == Counter(call.metric for call in heard_here)
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-team"] == "a"


def test_it_is_another_process_that_scores_and_judges_and_it_ends_with_the_meter():
    scores = one(metrics=[scorer_pid, AskedPid()], judge=EchoJudge())

    assert scores["scorer_pid"].value == scores["asked_pid"].value != os.getpid()
    assert ends(int(scores["scorer_pid"].value), 60)


def test_metrics_of_ones_own_are_sent_by_name_or_by_what_they_hold():
    plain = metric(name="static_length", range=(0.0, None))(Outer.length)
    scores = one(
        RagSample(question="four"),
        metrics=[question_length, question_length.prefixed("my_"), plain, odd_number.passing(at_least=0.5)],
    )  # fmt: skip

    assert {name: score.value for name, score in scores.items()} == {
        "question_length": 4, "my_question_length": 4, "static_length": 4, "odd_number": 0.5,
    }  # fmt: skip
    assert scores["odd_number"].label == "pass"
    assert pickle.loads(pickle.dumps(question_length)) is question_length


def test_a_score_that_cannot_be_sent_back_says_so():
    assert one(metrics=[Bare("fine")])["bare"].value == 0.5

    score = one(metrics=[Bare(None)])["bare"]

    assert (score.value, score.status, score.error_type) == (None, "metric_error", "worker")


@metric
def of_this_test_module(sample):
    return 1.0


def unsendable():
    @metric
    def local(sample):
        return 1.0

    class Locked(EchoJudge):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    return {
        "a lambda": ({"metrics": [metric(name="short")(lambda sample: 1.0)]}, "metric 'short'"),
        "a local function": ({"metrics": [local]}, "metric 'local'"),
        "a judge with a lock": ({"metrics": [AskedPid()], "judge": Locked()}, "the judge"),
    }


@pytest.mark.parametrize("what", unsendable())
def test_what_cannot_be_sent_is_a_misconfiguration(what):
    arguments, said = unsendable()[what]

    with pytest.raises(ConfigurationError, match=rf"cannot send {said}.*module that can be imported"):
        RagMeter(exporters=[], scoring="process", **arguments)


def test_a_wrong_value_is_refused():
    with pytest.raises(ConfigurationError, match="scoring is 'fork'; it is 'thread' or 'process'"):
        RagMeter(exporters=[], scoring="fork")


def test_a_program_that_embeds_python_is_told_what_to_do(monkeypatch, tmp_path):
    import multiprocessing

    from ragmeter.pipeline.process import worker

    chosen = multiprocessing.spawn.get_executable()
    monkeypatch.setattr(sys, "executable", "/usr/sbin/uwsgi")
    monkeypatch.setattr(worker.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_exec_prefix", str(tmp_path))
    multiprocessing.set_executable("")
    try:
        with pytest.raises(ConfigurationError, match=r"multiprocessing\.set_executable"):
            RagMeter(exporters=[], scoring="process")
        multiprocessing.set_executable(chosen)
        RagMeter(exporters=[], scoring="process")
    finally:
        multiprocessing.set_executable(chosen)


@pytest.mark.contains_errors
def test_a_metric_that_the_worker_cannot_import_costs_no_other(contained_errors):
    """Pytest made this module importable here, but not by its name elsewhere."""
    scores = one(metrics=[of_this_test_module, question_length])

    assert scores["question_length"].value == 1
    assert scores["of_this_test_module"].status == "metric_error"
    assert "could not load" in scores["of_this_test_module"].explanation
    assert [component for component, _ in contained_errors] == ["worker"]


@pytest.mark.contains_errors
def test_metadata_that_cannot_be_sent_costs_nothing_but_itself(contained_errors):
    metadata = {"number": 1, "lock": threading.Lock(), "set": {1}, "path": Path("/a")}
    sample = RagSample(question="q", contexts=[RetrievedContext(text="t", metadata=metadata)])

    scores = one(sample, metrics=[of_metadata, "retrieval_health"])

    assert scores["of_metadata"].value == 1
    assert scores["context_count"].value == 1
    assert [component for component, _ in contained_errors] == ["worker"]


def test_buffers_in_metadata_stay_what_they_are():
    metadata = {"bytes": bytearray(b"a"), "array": array("d", [0.5]), "path": Path("/a")}
    sample = RagSample(question="q", contexts=[RetrievedContext(text="t", metadata=metadata)])

    received = pickle.loads(pack_sample(sample, no_complaint))

    [context] = received.contexts
    assert context.metadata == metadata
    assert [type(value) for value in context.metadata.values()] == [bytearray, array, type(Path())]


@pytest.mark.parametrize("value", [1, threading.Lock()], ids=["sendable", "not sendable"])
@pytest.mark.parametrize("plain", [False, True])
def test_a_document_that_passed_several_stages_is_sent_once(value, plain):
    kept = RetrievedContext(text="kept", metadata={"value": value})
    lost = RetrievedContext(text="lost", metadata={"value": value})
    stages = (
        RetrievalStage(name="store", kind="retriever", contexts=(kept, lost)),
        RetrievalStage(name="unseen", kind="unknown", contexts=None, inputs=(0,), recorded=False),
        RetrievalStage(name="rerank", kind="function", contexts=(kept,), inputs=(1,)),
    )
    sample = RagSample(question="q", contexts=[kept], stages=stages)

    left_out = []

    received = pickle.loads(pack_sample(sample, left_out.append, plain=plain))

    assert left_out == ([] if value == 1 else ["lock", "lock"])  # once of each document
    found, unseen, last = received.stages
    assert [context.text for context in found.contexts] == ["kept", "lost"]
    assert received.contexts[0] is last.contexts[0] is found.contexts[0]
    assert unseen == stages[1]
    assert found.contexts[0].metadata == ({"value": 1} if value == 1 else {})


class Special(RagSample):
    """A sample of one's own, from a module that the worker cannot import."""


@pytest.mark.contains_errors
def test_a_sample_that_cannot_be_read_scores_an_error_and_the_next_is_fine():
    results, _ = scored(
        "process",
        [Special(question="q"), RagSample(question="q")],
        metrics=[question_length, AskedPid()],
        judge=EchoJudge(),
    )

    strange, plain = (result.scores for result in results)
    assert strange["question_length"].status == "metric_error"
    assert strange["asked_pid"].status == "judge_error"
    assert "cannot be sent" in strange["question_length"].explanation
    assert plain["question_length"].value == 1


def test_prints_and_logs_of_metrics_do_no_harm(capfd, caplog):
    with caplog.at_level(logging.WARNING):
        scored("process", [RagSample(question="print"), RagSample(question="log")], metrics=[misbehave])

    captured = capfd.readouterr()
    assert captured.out == ""
    assert "words" in captured.err
    assert ("fakes", logging.WARNING, "words of a metric") in caplog.record_tuples


def test_the_key_is_in_no_pickle_and_in_nothing_others_can_see(monkeypatch):
    """Neither in the worker's arguments nor in its environment, beyond what it inherits."""
    from ragmeter.pipeline.process.codec import make_payload

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    seen = {}
    with OpenAIServer() as server:
        judge = OpenAIJudge("m", server.url, KEY, headers={"Authorization": f"Basic {KEY}"})
        payload = make_payload([], judge)
        exporter = InMemoryExporter()
        with RagMeter(
            ["context_precision"], judge, exporters=[exporter], scoring="process", limits=Limits(hold_s=60)
        ) as meter:
            meter.submit(samples()[0])
            assert meter.flush(60)
            [pid] = workers_of(os.getpid())
            seen = {name: Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")}

    assert exporter.results[0].scores["context_precision"].value == 1.0
    assert KEY.encode() not in payload.judge + seen["cmdline"] + seen["environ"]
    assert KEY not in repr(payload)


def test_the_budget_is_kept_where_it_was_set():
    """Two meters share one: what one worker spends, the other cannot; the cost can be read here."""
    budget = JudgeBudget(max_cost=0.0002, input_price=1.0)
    statuses = []
    with OpenAIServer() as server:
        for _ in range(2):
            judge = OpenAIJudge("m", server.url, KEY, budget=budget, cache=False)
            results, _ = scored(
                "process",
                samples()[:1] * 2,
                metrics=["context_precision"],
                judge=judge,
                limits=Limits(judge_concurrency=1, hold_s=60),
            )
            statuses += [result.scores["context_precision"] for result in results]
        calls = len(server.requests)

    assert calls == 2
    assert [score.status for score in statuses] == ["ok", "ok", "skipped", "skipped"]
    assert statuses[-1].error_type == "budget"
    assert budget.cost == pytest.approx(0.0002)


def test_late_references_and_redaction_go_through_the_worker():
    exporter = InMemoryExporter()
    with RagMeter(
        ["answer_overlap", question_length],
        exporters=[exporter],
        scoring=Scoring("process", redact=lambda text: text.replace("Paris", "X")),
    ) as meter:
        with meter.request("in Paris?") as request:
            request.retrieved(["Paris"])
            request.answered("Paris")
        assert meter.flush(30)
        meter.attach_reference(exporter.results[0].run.run_id, "Paris")
        assert meter.flush(30)

    first, late = exporter.results
    assert first.sample.question == "in X?"
    assert first.scores["question_length"].value == len("in X?")
    assert late.late
    assert late.scores["token_f1"].value == 1.0


def run_script(source, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, *arguments, "-c", source] if not arguments else [*arguments],
        env={**os.environ, "PYTHONPATH": str(HERE), **environment},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


SCRIPT = """
print("main module runs")
import os
from fakes_worker import scorer_pid, workers_of
from ragmeter import Limits, RagMeter
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import RagSample

class Printing(InMemoryExporter):
    def export(self, batch):
        for result in batch:
            print("scored by", int(result.scores["scorer_pid"].value))

meter = RagMeter([scorer_pid], exporters=[Printing()], scoring="process", limits=Limits(shutdown_timeout_s=60))
print("workers:", len(workers_of(os.getpid())))
meter.submit(RagSample(question="q"))
"""


def test_a_script_without_a_main_guard_exports_at_its_end_and_leaves_no_process(tmp_path):
    """The main module runs once; no process before the first request, none after the end."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    done = run_script("", sys.executable, "-X", "dev", "-W", "error", str(script))

    lines = done.stdout.splitlines()
    assert lines[:2] == ["main module runs", "workers: 0"]
    assert lines[2].startswith("scored by ")
    assert len(lines) == 3
    assert done.stderr == ""
    assert ends(int(lines[2].split()[-1]), 60)


def test_a_metric_of_the_main_module_is_refused_with_the_fix():
    source = """
from ragmeter import RagMeter
from ragmeter.metrics import ConfigurationError, metric

@metric
def mine(sample):
    return 1.0

try:
    RagMeter([mine], exporters=[], scoring="process")
except ConfigurationError as error:
    print(error)
"""
    said = run_script(source).stdout

    assert "metric 'mine'" in said
    assert "main module" in said
    assert "module that can be imported" in said


def test_the_worker_is_not_instrumented_with_the_application(tmp_path):
    """`opentelemetry-instrument` works by PYTHONPATH and sitecustomize; the worker looks at neither."""
    pytest.importorskip("opentelemetry.instrumentation.auto_instrumentation")
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.replace("[scorer_pid]", "[scorer_pid, of_sitecustomize]").replace(
            "import scorer_pid", "import of_sitecustomize, scorer_pid"
        ).replace("int(result.scores", "result.scores['of_sitecustomize'].value, int(result.scores")
    )  # fmt: skip
    tool = Path(sys.executable).with_name("opentelemetry-instrument")
    command = [str(tool)] if tool.exists() else [
        sys.executable, "-c",
        "from opentelemetry.instrumentation.auto_instrumentation import run; run()",
    ]  # fmt: skip

    done = run_script(
        "", *command, sys.executable, str(script),
        OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none",
    )  # fmt: skip

    assert "scored by 0.0" in done.stdout


texts = st.text(alphabet=st.characters(), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
contexts = st.builds(
    RetrievedContext, text=texts, id=st.none() | texts, metadata=st.dictionaries(texts, values, max_size=3)
)
references = st.fixed_dictionaries(
    {}, optional={"answer": st.none() | texts, "contexts": st.lists(texts, max_size=3)}
).map(lambda given: Reference(**given))
any_sample = st.builds(
    RagSample,
    question=st.none() | texts,
    contexts=st.none() | st.lists(contexts, max_size=3),
    contexts_by=st.sampled_from(["prompt", "runs", "given"]),
    answer=st.none() | texts,
    reference=st.none() | references,
)
items = st.builds(
    ScoreItem, id=texts, verdict=st.none() | st.booleans(), text=st.none() | texts,
    evidence=st.none() | texts, value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
any_score = st.builds(
    Score, name=texts, value=st.floats(allow_nan=False, allow_infinity=False), status=st.just("ok"),
    method=st.just("exact"), definition=texts, explanation=st.none() | texts,
    items=st.lists(items, max_size=3),
)  # fmt: skip


def no_complaint(kind):
    raise AssertionError(kind)


@given(any_sample, st.lists(any_score, max_size=3))
def test_samples_and_scores_arrive_as_they_were_sent(sample, scores):
    received = pickle.loads(pack_sample(sample, no_complaint))
    (back,) = unpack_scores(pack_scores([scores]))

    assert received == sample
    assert received.model_fields_set == sample.model_fields_set
    if sample.reference is not None:
        assert received.reference.model_fields_set == sample.reference.model_fields_set
    # Not `model_dump_json`: it cannot write a lone surrogate, which a store may well hold.
    assert json.dumps(received.model_dump(), default=str) == json.dumps(sample.model_dump(), default=str)
    assert back == scores
    assert [one.model_fields_set for one in back] == [one.model_fields_set for one in scores]
