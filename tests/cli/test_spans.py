"""`ragmeter spans`: one line for each request in recorded spans, and why it is not scored."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmeter.cli.app import app

RECORDED = Path(__file__).parent.parent / "adapters" / "recorded_spans"
KEYS = [
    "question", "contexts", "answer", "status", "usable", "reason", "trace_id", "span_id", "convention",
]  # fmt: skip
FULL = RECORDED / "openinference-langchain-py/reranked/001.traces.pb"

KIND = "openinference.span.kind"


def _run(*arguments):
    result = CliRunner().invoke(app, ["spans", *map(str, arguments)])
    return [json.loads(line) for line in result.stdout.splitlines()], result


def _files(case):
    return sorted((RECORDED / case).glob("*.pb"))


def test_each_request_is_a_line_with_these_keys():
    [row], result = _run(FULL)

    assert result.exit_code == 0
    assert list(row) == KEYS
    assert list(row["contexts"][0]) == ["text", "id", "score", "metadata"]
    assert (row["status"], row["usable"], row["reason"]) == ("ok", "full", None)
    assert row["convention"] == "openinference"


def test_scores_are_added():
    [row], _ = _run(FULL, "--score")

    assert row["scores"]["lexical_groundedness"] is not None
    assert row["scores"]["context_count"] == 2.0


def test_of_ids_alone_counts_and_emptiness_are_scored():
    [row], _ = _run(*_files("otel-genai-langchain-py/sub_questions"), "--score")

    assert row["usable"] == "ids_only"
    assert row["scores"]["context_count"] == 5.0
    assert row["scores"]["empty_retrieval"] == 0.0
    assert row["scores"]["lexical_groundedness"] is None
    assert row["scores"]["lexical_context_relevance"] is None


def test_a_truncated_retrieval_gets_no_score():
    [row], _ = _run(*_files("openinference-langchain-py/truncated_attributes"), "--score")

    assert (row["usable"], row["reason"], row["scores"]) == ("none", "truncated", {})


def test_tools_that_retrieve_are_found_by_what_they_gave_back_or_named():
    files = _files("vercel-ai-sdk-js/two_retrievals")

    [unnamed], _ = _run(*files)
    [row], _ = _run(*files, "--retrieval-tool", "other", "--retrieval-tool", "search_*")

    assert unnamed == row
    assert len(row["contexts"]) == 4


def test_several_files_are_one_recording():
    files = _files("openinference-langchain-py/late_spans")
    assert len(files) > 1

    [row], _ = _run(*files)

    assert row["usable"] == "full"


@pytest.mark.parametrize("name", ["packed.pb.gz", "no_ending", "other.bin"])
def test_the_content_says_what_a_file_is(tmp_path, name):
    body = FULL.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)

    rows, _ = _run(tmp_path / name)

    assert len(rows) == 1


def test_log_records_are_told_from_spans_by_their_content(tmp_path):
    files = _files("otel-genai-langchain-py/content_in_logs")
    for place, file in enumerate(files):
        shutil.copy(file, tmp_path / f"{place}.pb")

    [row], _ = _run(*sorted(tmp_path.iterdir()))

    assert (row["usable"], row["question"], row["answer"]) == (
        "full",
        "加急配送多少钱？",
        "加急配送费用为68元。",
    )


def test_everything_heard_is_scored_or_has_a_reason_and_a_line():
    rows, result = _run(*_files("otel-genai-langchain-py/content_off"), "--explain")

    assert rows[0]["missing"] == dict.fromkeys(("question", "contexts", "answer"), "content_off")
    assert rows[1]["heard"] == rows[1]["scored"] + sum(one["count"] for one in rows[1]["causes"])
    [cause] = rows[1]["causes"]
    assert (rows[1]["service"], cause["reason"]) == ("shop-assistant", "content_off")
    assert "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in cause["line"]
    assert cause["line"] in result.stderr


@pytest.mark.parametrize(
    ("key", "value", "reasons"),
    [
        ("gen_ai.operation.name", "create_agent", []),
        ("mcp.method.name", "tools/list", []),
        ("mcp.method.name", "tools/call", ["no_model_call"]),
    ],
)
def test_what_is_made_ready_before_requests_lacks_nothing(tmp_path, key, value, reasons):
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "start"}
    span["attributes"] = [{"key": key, "value": {"stringValue": value}}]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}), "utf-8")

    rows, _ = _run(path, "--explain")

    assert [cause["reason"] for row in rows for cause in row["causes"]] == reasons


def test_a_retrieval_and_a_call_of_another_trace_that_is_sent_its_documents_are_one_line(tmp_path):
    rain = "Rain falls when drops in a cloud grow too heavy for the air to carry them."
    made = [
        ("1", 1, {KIND: "RETRIEVER", "input.value": "Why?", "retrieval.documents.0.document.content": rain}),
        ("2", 3, {KIND: "LLM", "input.value": f"Context: {rain}\nQuestion: Why?", "output.value": "So."}),
    ]
    spans = [
        {
            "traceId": place * 32, "spanId": place * 16, "name": "step",
            "startTimeUnixNano": str(began * 10**8), "endTimeUnixNano": str((began + 1) * 10**8),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for place, began, attributes in made
    ]  # fmt: skip
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), "utf-8")

    [row], _ = _run(path)

    assert (row["question"], row["answer"], [one["text"] for one in row["contexts"]]) == ("Why?", "So.", [rain])


def _nested(depth):
    value = {"stringValue": "deep"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    spans = [{"attributes": [{"key": "a", "value": value}]}]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bad.pb", b"\xff\xff\xff", "bad.pb: no OTLP in protobuf"),
        ("bad.json", b'{"a": 1}', "neither resourceSpans nor resourceLogs"),
        ("bad.json", b"[1", "bad.json:1: no JSON"),
        ("bad.jsonl", b'{"resourceSpans": []}\n{"resourceSpans": [{]\n', "bad.jsonl:2: no JSON"),
        ("bad.json", b'{"resourceSpans": [{"scopeSpans": 7}]}', "no OTLP in JSON"),
        ("bad.json", b"[" * 100_000, "no JSON"),
        ("bad.json", _nested(100), "bad.json:1: no OTLP in JSON"),
        ("bad.pb.gz", b"\x1f\x8b\x08\x00oops", "cannot be unpacked"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_else_is_lost(tmp_path, name, content, said):
    bad = tmp_path / name
    bad.write_bytes(content)

    rows, result = _run(bad, FULL, tmp_path / "absent.pb")

    assert len(rows) == 1
    assert result.exit_code == 1
    assert said in result.stderr.replace("\n", "")
    assert "absent.pb: no such file or directory" in result.stderr.replace("\n", "")


def test_spans_without_an_id_are_counted(tmp_path):
    nameless = '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}'
    (tmp_path / "x.json").write_text(nameless, encoding="utf-8")

    rows, result = _run(tmp_path / "x.json", FULL)

    assert (len(rows), result.exit_code) == (1, 1)
    assert "1 spans without an id" in result.stderr


def test_metrics_between_them_are_passed_over(tmp_path):
    (tmp_path / "all.jsonl").write_text('{"resourceMetrics": []}\n{}\n', encoding="utf-8")

    rows, result = _run(tmp_path / "all.jsonl")

    assert (rows, result.exit_code) == ([], 0)
