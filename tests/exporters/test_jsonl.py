"""`JsonlExporter`: what stands on a line, and that lines stay whole."""

import json
import os
import stat
import textwrap

import pytest
from python_process import run_python

from ragmeter import RagMeter
from ragmeter.exporters.jsonl import JsonlExporter
from ragmeter.exporters.protocol import RunsLostError
from ragmeter.metrics import ConfigurationError


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_one_object_per_run_with_scores_and_ids_and_no_text(tmp_path, make):
    """Everything a notebook needs, nothing that was said."""
    path = tmp_path / "scores.jsonl"
    exporter = JsonlExporter(path)
    exporter.export([make.scored_run(), make.scored_run(make.scores[:1], late=True)])
    first, second = read(path)

    assert "-TEXT" not in path.read_text("utf-8")
    assert first["run_id"] == second["run_id"] == "run-1"
    assert (first["late"], second["late"]) == (False, True)
    assert first["trace_id"] == f"{0xA1:032x}"
    assert first["span_id"] == f"{0xB1:016x}"
    assert first["context_count"] == 2
    assert first["contexts_by"] == "given"
    assert first["retrievals"][0]["documents"] == [{"id": "doc-1", "score": 0.8}, {"id": None, "score": None}]
    assert list(first["scores"]) == [score.name for score in make.scores]
    assert first["scores"]["context_precision"]["value"] == 0.73
    assert first["scores"]["context_recall"]["status"] == "judge_error"
    assert first["scores"]["recall"]["items"] == [{"id": "chunk-1", "verdict": True, "value": None}]
    assert first["metadata"] == {"tenant": "acme", "turn": 3}
    exporter.shutdown(60)


def test_content_is_written_when_asked_for(tmp_path, make):
    """Question, contexts, answer, reference, query, explanations, items; Chinese and Russian as such."""
    path = tmp_path / "scores.jsonl"
    exporter = JsonlExporter(path, include_content=True)
    exporter.export([make.scored_run()])
    (line,) = read(path)

    assert line["question"] == make.content["question"]
    assert line["contexts"][0]["text"] == make.content["context"]
    assert line["answer"] == make.content["answer"]
    assert line["reference"] == {"answer": make.content["reference"]}
    assert line["retrievals"][0]["query"] == make.content["query"]
    assert line["scores"]["recall"]["items"][0]["text"] == make.content["item"]
    assert "检索到的段落" in path.read_text("utf-8")
    exporter.shutdown(60)


@pytest.mark.parametrize(
    ("variable", "written"),
    [("SPAN_AND_EVENT", True), ("true", True), ("EVENT_ONLY", True), ("NO_CONTENT", False), ("", False)],
)
def test_content_is_written_where_the_standard_variable_asks_for_it(
    tmp_path, make, monkeypatch, variable, written
):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", variable)
    for include_content, expected in ((None, written), (False, False), (True, True)):
        path = tmp_path / f"{include_content}.jsonl"
        exporter = JsonlExporter(path, include_content)
        exporter.export([make.scored_run()])
        (line,) = read(path)

        assert ("question" in line) is expected
        exporter.shutdown(60)


def test_the_file_is_the_owners_alone(tmp_path):
    """Mode 0600, whatever the umask."""
    path = tmp_path / "scores.jsonl"
    JsonlExporter(path).shutdown(60)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_odd_values_become_valid_json(tmp_path, make):
    """NaN, lone surrogates, cycles and foreign objects in what frameworks keep."""
    path = tmp_path / "scores.jsonl"
    loop: dict = {"self": None, "when": object}
    loop["self"] = loop
    contexts = ({"text": "\ud800", "score": float("nan"), "metadata": {"loop": loop, "s": {1}}},)
    exporter = JsonlExporter(path, include_content=True)
    exporter.export([make.scored_run(sample={"contexts": contexts})])
    (line,) = read(path)

    assert line["contexts"][0]["text"] == "\ud800"
    assert line["contexts"][0]["score"] is None
    exporter.shutdown(60)


def test_half_a_line_left_by_a_crash_does_not_spoil_the_next(tmp_path, make):
    """The torn line stays alone; everything after it can be read."""
    path = tmp_path / "scores.jsonl"
    path.write_text('{"torn": ')
    exporter = JsonlExporter(path)
    exporter.export([make.scored_run(), make.scored_run()])
    lines = path.read_text("utf-8").splitlines()

    assert lines[0] == '{"torn": '
    assert [json.loads(line)["run_id"] for line in lines[1:]] == ["run-1", "run-1"]
    exporter.shutdown(60)


class _Unprintable:
    def __str__(self):
        raise RuntimeError("no text")


def test_a_run_that_cannot_be_written_loses_itself_only(tmp_path, make):
    """Not the sixty-three others that were handed over with it."""
    path = tmp_path / "scores.jsonl"
    odd = make.scored_run(
        sample={"contexts": [{"text": "t", "metadata": {"odd": _Unprintable()}}]}, run_id="odd"
    )
    runs = [make.scored_run(run_id="before"), odd, make.scored_run(run_id="after")]
    with pytest.raises(RunsLostError, match=r"1 of 3 runs: RuntimeError$") as caught:
        JsonlExporter(path, include_content=True).export(runs)

    assert caught.value.lost == 1
    assert [line["run_id"] for line in read(path)] == ["before", "after"]


def test_a_batch_of_one_that_cannot_be_written_says_why(tmp_path, make):
    """It is the exporter's whole failure, not part of one."""
    odd = make.scored_run(sample={"contexts": [{"text": "t", "metadata": {"odd": _Unprintable()}}]})
    with pytest.raises(RuntimeError, match="no text"):
        JsonlExporter(tmp_path / "scores.jsonl", include_content=True).export([odd])


def test_a_full_disk_raises_and_leaves_no_half_line():
    """The meter asks again; when there is room again, the file is as good as before."""
    code = """
    import json, os, resource, signal, sys, tempfile
    from ragmeter import RagRun, ScoredRun, TryLaterError
    from ragmeter.exporters.jsonl import JsonlExporter
    from ragmeter.metrics import RagSample
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    run = RagRun(sample=RagSample(question="q" * 500), run_id="r", framework="manual",
                 started_ns=1, ended_ns=2)
    scored = ScoredRun(run=run, scores={})
    path = os.path.join(tempfile.mkdtemp(), "scores.jsonl")
    exporter = JsonlExporter(path, include_content=True)
    exporter.export([scored])
    size = os.path.getsize(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
    try:
        exporter.export([scored])
    except TryLaterError as error:
        print(error.runs == [scored], os.path.getsize(path) == size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    exporter.export([scored])
    print(len([json.loads(line) for line in open(path)]))
    """
    done = run_python("-I", "-c", textwrap.dedent(code))

    assert done.stdout.splitlines() == ["True True", "2"], done.stderr


def test_several_processes_append_whole_lines(tmp_path, make):
    """gunicorn workers share one file."""
    path = tmp_path / "scores.jsonl"
    exporter = JsonlExporter(path, include_content=True)
    run = make.scored_run(sample={"question": "q" * 20_000})
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                exporter.export([run])
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    assert codes == [0, 0, 0, 0]
    assert len(read(path)) == 200
    exporter.shutdown(60)


def test_a_file_that_cannot_be_opened_says_so_at_construction(tmp_path):
    """Misconfiguration is the developer's to hear of, now."""
    with pytest.raises(ConfigurationError, match="folder that exists"):
        JsonlExporter(tmp_path / "missing" / "scores.jsonl")


def test_after_shutdown_nothing_is_written(tmp_path, make):
    """A late export raises for the meter to count instead of reopening the file."""
    path = tmp_path / "scores.jsonl"
    exporter = JsonlExporter(path)
    exporter.shutdown(60)
    exporter.shutdown(60)

    with pytest.raises(ValueError, match="shut down"):
        exporter.export([make.scored_run()])
    assert exporter.flush(60)
    assert path.read_bytes() == b""


def test_what_is_no_file_on_a_disk_need_not_be_put_there(make):
    exporter = JsonlExporter(os.devnull)
    exporter.export([make.scored_run()])

    assert exporter.flush(60)


def test_a_rotated_file_is_begun_anew_under_its_name(tmp_path, make):
    """logrotate moves the file away; the next lines are found where people look."""
    path = tmp_path / "scores.jsonl"
    exporter = JsonlExporter(path)
    exporter.export([make.scored_run()])
    path.rename(tmp_path / "scores.jsonl.1")
    exporter.export([make.scored_run()])

    assert len(read(path)) == len(read(tmp_path / "scores.jsonl.1")) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_stages_are_written_by_ids_and_counts(tmp_path):
    path = tmp_path / "runs.jsonl"
    with RagMeter(metrics=[], exporters=[JsonlExporter(path)]) as meter:
        with meter.request("q") as request:
            request.retrieved([{"id": "1", "text": "SECRET"}, {"id": "2", "text": "two"}], name="bm25")
            request.kept([{"id": "2", "text": "two"}], stage="rerank")
        assert meter.flush(60)

    (record,) = read(path)
    assert record["stages"] == [
        {
            "name": "bm25",
            "kind": "retriever",
            "recorded": True,
            "inputs": [],
            "context_count": 2,
            "documents": [{"id": "1"}, {"id": "2"}],
        },
        {
            "name": "rerank",
            "kind": "function",
            "recorded": True,
            "inputs": [0],
            "context_count": 1,
            "documents": [{"id": "2"}],
        },
    ]
    assert "SECRET" not in path.read_text("utf-8")
