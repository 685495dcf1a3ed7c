"""``ragmeter doctor`` on healthy and on ill environments, with real servers on the other side."""

import json
import os
from contextlib import contextmanager
from importlib import metadata
from importlib.metadata import PackageNotFoundError

import pytest
from embedding_server import EmbeddingServer
from loopback_server import LoopbackServer
from openai_server import OpenAIServer, error, well_formed
from typer.testing import CliRunner

from ragmeter.cli._telemetry import SignalDelivery
from ragmeter.cli.app import app
from ragmeter.cli.demo.corpus import load_questions
from ragmeter.cli.doctor import _trial
from ragmeter.cli.doctor._backends import Destination, find_destinations
from ragmeter.cli.doctor._golden import check_golden
from ragmeter.metrics.errors import install_command
from ragmeter.settings.config import Settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """No variable of the developer's own reaches the doctor."""
    for name in os.environ:
        if name.startswith(("RAGMETER_", "OTEL_", "OPENAI_")):
            monkeypatch.delenv(name)


def doctor(*arguments):
    """Run the command; return its exit code and its findings by what was looked at."""
    done = CliRunner().invoke(app, ["doctor", "--json", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    report = json.loads(done.stdout)
    return done.exit_code, report["state"], report["findings"]


def without(*distributions, monkeypatch):
    """Let distributions look as if they were not installed."""

    def version(name):
        if name in distributions:
            raise PackageNotFoundError(name)
        return metadata.version(name)

    monkeypatch.setattr("ragmeter.cli.doctor._packages.version", version)


def about(findings, *words):
    """Return the only finding that speaks of all `words`."""
    found = [one for one in findings if all(word in f"{one['what']} {one['detail']}" for word in words)]
    assert len(found) == 1, (words, findings)
    return found[0]


@pytest.fixture
def judge(monkeypatch):
    """A judge that the environment names."""
    with OpenAIServer() as server:
        monkeypatch.setenv("RAGMETER_JUDGE_MODEL", "scripted")
        monkeypatch.setenv("RAGMETER_JUDGE_BASE_URL", server.url)
        yield server


@contextmanager
def http_server(accepts, refusal=405):
    """A server that answers 200 to the given paths and a status to others."""

    def reply(received):
        return 200 if received.path in accepts else refusal, b"", {"Location": "/elsewhere"}

    with LoopbackServer(reply) as server:
        yield server.url


def test_without_configuration_both_frameworks_are_scored_and_the_missing_endpoint_is_named():
    code, state, findings = doctor()
    assert (code, state) == (0, "warning")
    for framework in ("LangChain", "LlamaIndex"):
        assert "scores" in about(findings, framework, "recall")["detail"]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in about(findings, "exporter", "traces")["fix"]
    assert {one["area"] for one in findings} == {"installed", "configured", "reachable", "test request"}


def test_a_scored_request_arrives_at_the_configured_endpoint(monkeypatch, otlp):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    code, state, findings = doctor()
    assert (code, state) == (0, "skipped")
    for signal in ("traces", "logs", "metrics"):
        assert "accepted" in about(findings, f"{signal} to {otlp.url}/v1/{signal}")["detail"]
    names = {span.name for span in otlp.spans}
    assert any(name.startswith("invoke_workflow") for name in names)
    question = load_questions()[0]
    assert not [t for t in (question.question, question.answer) if t.encode() in b"".join(otlp.bodies)]


@pytest.mark.parametrize(
    ("accepts", "refusal", "code", "expected"),
    [
        (
            {"/v1/traces"},
            405,
            0,
            {
                "traces to": ("ok", "accepted"),
                "logs to": ("warning", "RAGMETER_EVENTS=span_event"),
                "metrics to": ("warning", "OTEL_METRICS_EXPORTER=none"),
            },
        ),
        (set(), 405, 1, {"traces to": ("failed", "4318")}),
        # A server that points elsewhere has taken nothing.
        (
            {"/elsewhere"},
            307,
            1,
            {"traces to": ("failed", ""), "logs to": ("failed", ""), "metrics to": ("failed", "")},
        ),
    ],
)
def test_what_a_backend_takes_is_told_signal_by_signal(accepts, refusal, code, expected):
    with http_server(accepts, refusal) as url:
        ended, _, findings = doctor("--otlp", url)
    assert ended == code
    for signal, (state, words) in expected.items():
        found = about(findings, signal)
        assert found["state"] == state
        assert words in found["detail"] + found["fix"]


def test_a_password_in_the_endpoint_is_not_shown():
    with http_server(set()) as url:
        secret = url.replace("http://", "http://team:hunter2@") + "?key=opensesame"
        done = CliRunner().invoke(app, ["doctor", "--otlp", secret])
    assert done.exit_code == 1
    assert "hunter2" not in done.output
    assert "opensesame" not in done.output


@pytest.mark.parametrize("url", ["localhost", "http://me:hunter2@", "ftp://team:hunter2@host:1"])
def test_an_endpoint_that_is_no_address_is_explained_and_not_shown(url):
    code, _, findings = doctor("--otlp", url)
    assert code == 1
    assert "http://localhost:4318" in about(findings, "traces", "no address")["fix"]
    assert "hunter2" not in json.dumps(findings)


@pytest.mark.usefixtures("judge")
def test_a_judge_that_answers_scores_the_test_request(monkeypatch):
    monkeypatch.setenv("RAGMETER_METRICS", "context_relevancy")
    code, _, findings = doctor()
    assert code == 0
    assert "scripted at 127.0.0.1 answered" in about(findings, "judge", "answered")["detail"]
    assert "context_relevancy" in about(findings, "LangChain", "scores")["detail"]


@pytest.mark.parametrize(
    ("supports", "silent", "state", "told"),
    [
        ({"json_schema", "json_object"}, False, "ok", "json_schema yes"),
        ({"json_object"}, False, "ok", "json_schema no (400), json_object yes"),
        ({"json_object"}, True, "ok", "json_schema no (400), json_object yes"),
        (set(), False, "warning", "json_schema no (400), json_object no (400)"),
    ],
)
def test_what_the_judges_endpoint_takes_is_found_out(monkeypatch, judge, supports, silent, state, told):
    """Before the first real request has to, even where it refuses without a word."""
    judge.supports = {"json_schema", "json_object"} if silent else supports

    def refusing(request):
        if request.body.get("response_format", {}).get("type") == "json_schema":
            return error(400, "bad", "no")
        return well_formed(request, lambda request, item_id: True)

    if silent:
        judge.script.extend([refusing] * 40)
    monkeypatch.setenv("RAGMETER_METRICS", "context_relevancy")
    code, _, findings = doctor()
    takes = about(findings, "judge takes")

    assert code == 0
    assert (takes["state"], told in takes["detail"]) == (state, True)
    assert "temperature yes" in takes["detail"]
    assert "usage yes" in takes["detail"]


def test_a_folder_is_asked_what_waits_and_what_is_dead(monkeypatch, tmp_path):
    from ragmeter.fleet.spool import SpoolReader, SpoolSender

    monkeypatch.setenv("RAGMETER_SCORING", "queue")
    monkeypatch.setenv("RAGMETER_QUEUE_URL", f"spool://{tmp_path}/queue")
    assert [state for state, _ in _of_queue(tmp_path)] == ["failed"]

    sender = SpoolSender(tmp_path / "queue")
    sender.send(b"x", count=1)
    reader = SpoolReader(tmp_path / "queue")
    reader.bury(b"y", 1, "it kills", 4)
    reader.close()
    sender.close(1.0)

    waits, dead = _of_queue(tmp_path)
    assert (waits[0], "1 messages wait" in waits[1]) == ("ok", True)
    assert (dead[0], dead[1].startswith("1 ")) == ("warning", True)


def _of_queue(folder):
    _, _, findings = doctor("--no-judge")
    return [(one["state"], one["detail"]) for one in findings if str(folder) in one["what"]]


def test_no_judge_leaves_a_configured_judge_in_peace(judge):
    code, _, _ = doctor("--no-judge")
    assert (code, judge.requests) == (0, [])


def test_a_refused_key_is_named_and_not_shown(monkeypatch, judge):
    judge.script.extend([error(401, "invalid_api_key")] * 20)
    monkeypatch.setenv("RAGMETER_JUDGE_API_KEY", "sk-very-secret")
    code, _, findings = doctor()
    assert code == 1
    refused = about(findings, "judge", "judge_error")
    assert "RAGMETER_JUDGE_API_KEY" in refused["fix"]
    assert "sk-very-secret" not in json.dumps(findings)
    # The rest works all the same.
    assert "scores" in about(findings, "LangChain", "recall")["detail"]


def test_the_embedder_is_asked_for_a_vector(monkeypatch):
    with EmbeddingServer() as server:
        monkeypatch.setenv("RAGMETER_EMBEDDING_MODEL", "e5")
        monkeypatch.setenv("RAGMETER_EMBEDDING_BASE_URL", server.url)
        monkeypatch.setenv("RAGMETER_EMBEDDING_API_KEY", "sk-very-secret")
        monkeypatch.setenv("RAGMETER_METRICS", "semantic_context_relevance,retrieval_health")
        code, _, findings = doctor()
        server.script.extend([(401, {"error": {"message": "sk-very-secret"}}, {})])
        _, _, refused = doctor()

    assert code == 0
    assert "e5 at 127.0.0.1 answered, with 17 numbers" in about(findings, "embedder")["detail"]
    assert "RAGMETER_EMBEDDING_API_KEY" in about(refused, "embedder", "authentication")["fix"]
    assert "sk-very-secret" not in json.dumps(findings + refused)


@pytest.mark.parametrize(
    ("endpoint", "named"),
    [("https://127.0.0.1:4318/v1/traces", True), ("http://127.0.0.1:4318/v1/traces", False)],
)
def test_tls_is_named_where_an_address_asks_for_it(monkeypatch, endpoint, named):
    refused = SignalDelivery("traces", endpoint, 1, False, "timeout")
    monkeypatch.setattr(_trial, "send", lambda *_, **__: [refused])
    destination = Destination("traces", "http/protobuf", endpoint, "--otlp")
    [finding] = _trial.try_delivery(None, [destination])
    assert ("TLS" in finding.fix) is named


@pytest.mark.parametrize(
    ("environment", "words", "state", "remedy"),
    [
        ({"RAGMETER_SAMPLE_RATE": "1.5"}, "RAGMETER_SAMPLE_RATE='1.5'", "failed", "correct"),
        ({"RAGMETER_METRICS": "no_such_metric"}, "no_such_metric", "failed", "ragmeter metrics"),
        ({"RAGMETER_METRICS": "faithfulness"}, "ask a judge", "failed", "RAGMETER_JUDGE_MODEL"),
        (
            {"RAGMETER_METRICS": "semantic_context_relevance"},
            "ask an embedder",
            "failed",
            "RAGMETER_EMBEDDING_MODEL",
        ),
        ({"RAGMETER_JUDGE_MODEL": "gpt-4o-mini"}, "OPENAI_API_KEY", "failed", "RAGMETER_JUDGE_API_KEY"),
        ({"RAGMETER_REFERENCES": "/no/golden.jsonl"}, "golden.jsonl", "failed", "RAGMETER_REFERENCES"),
        ({"RAGMETER_JSONL": "/no/scores.jsonl"}, "/no does not exist", "failed", "create it"),
        ({"OTEL_SDK_DISABLED": "true"}, "drops everything", "failed", "unset"),
        ({"OTEL_SDK_DISABLED": "true", "RAGMETER_CONSOLE": "1"}, "drops everything", "warning", ""),
        ({"RAGMETER_SAMPEL_RATE": "0.1"}, "no such setting", "warning", "did you mean RAGMETER_SAMPLE_RATE?"),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "redis, ragmeter_langchain"},
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS turns ragmeter_langchain off",
            "warning",
            "",
        ),
    ],
)
def test_what_cannot_work_is_told_with_its_remedy(monkeypatch, environment, words, state, remedy):
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    code, _, findings = doctor()
    found = [one for one in findings if words in f"{one['what']} {one['detail']}"]
    assert [one["state"] for one in found][:1] == [state]
    assert remedy in found[0]["fix"]
    assert code == int(any(one["state"] == "failed" for one in findings))


def test_without_a_framework_a_request_told_by_hand_is_scored(monkeypatch):
    without("langchain-core", "llama-index-core", monkeypatch=monkeypatch)
    code, _, findings = doctor()
    assert code == 0
    assert about(findings, "neither LangChain nor LlamaIndex")["state"] == "warning"
    assert about(findings, "manual", "scores")["state"] == "ok"


def test_without_an_sdk_nothing_can_leave(monkeypatch):
    without("opentelemetry-sdk", monkeypatch=monkeypatch)
    code, _, findings = doctor()
    assert code == 1
    assert install_command("otlp") in about(findings, "OpenTelemetry SDK", "not installed")["fix"]


def test_instrumentation_without_code_needs_what_starts_it(monkeypatch):
    assert about(doctor()[2], "instrumentation without code")["state"] == "ok"
    without("opentelemetry-distro", monkeypatch=monkeypatch)
    _, _, findings = doctor()
    found = about(findings, "instrumentation without code")
    assert (found["state"], found["fix"]) == ("skipped", "to use it: pip install opentelemetry-distro")


def test_a_readable_reference_file_is_fine(monkeypatch, tmp_path):
    golden = tmp_path / "golden.jsonl"
    golden.write_text('{"question": "How?", "answer": "So."}\n')
    monkeypatch.setenv("RAGMETER_REFERENCES", str(golden))
    code, _, findings = doctor()
    assert code == 0
    assert about(findings, "reference file")["state"] == "ok"


@pytest.mark.parametrize("nested", [True, False])
def test_stale_golden_labels_are_told_and_checked_against_the_index(tmp_path, nested):
    labels = {"context_ids": ["a"], "orphaned_ids": ["b", "c"], "contexts": ["The tower is tall."]}
    path, chunks = tmp_path / "golden.jsonl", tmp_path / "chunks.jsonl"
    row = {"question": "q", **({"reference": labels} if nested else labels)}
    path.write_text(json.dumps(row) + "\n")
    settings = Settings(references=str(path))
    (stale,) = check_golden(settings, None)
    assert (stale.state, stale.what) == ("warning", "golden labels")
    assert stale.detail.startswith("2 labels of 1 question orphaned")
    chunks.write_text(json.dumps({"id": "z", "text": "Boats are blue."}) + "\n")
    _, checked = check_golden(settings, chunks)
    assert checked.state == "warning"
    assert checked.detail == "of 3 labels: 3 orphaned"
    assert str(chunks) in checked.fix


def test_true_golden_labels_are_fine(tmp_path):
    path, chunks = tmp_path / "golden.jsonl", tmp_path / "chunks.jsonl"
    row = {"question": "q", "context_ids": ["a"], "contexts": ["The tower is tall."]}
    path.write_text(json.dumps(row) + "\n")
    chunks.write_text(json.dumps({"id": "a", "text": "The tower is tall."}) + "\n")
    assert list(check_golden(Settings(references=str(path)), None)) == []
    (fine,) = check_golden(Settings(references=str(path)), chunks)
    assert (fine.state, fine.detail) == ("ok", "1 valid, in 1 chunk")
    (lacking,) = check_golden(Settings(references=str(path)), tmp_path / "absent.jsonl")
    assert lacking.state == "failed"
    (nothing,) = check_golden(Settings(), chunks)
    assert nothing.state == "warning"


def test_an_endpoint_where_nothing_listens_is_a_failure_with_a_fix_for_programs_and_people():
    code, _, findings = doctor("--otlp", "http://127.0.0.1:9")
    assert (code, about(findings, "sending")["state"]) == (1, "skipped")
    fix = about(findings, "127.0.0.1:9 (traces, logs, metrics)")["fix"]
    done = CliRunner().invoke(app, ["doctor", "--otlp", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert fix == "start what should listen there, or correct --otlp"
    for said in ("FAIL", f"-> {fix}", "Fix the lines marked FAIL"):
        assert said in done.output


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"},
            dict.fromkeys(("traces", "logs", "metrics"), ("grpc", "http://c:4317")),
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"},
            {s: ("http/protobuf", f"http://c:4318/v1/{s}") for s in ("traces", "logs", "metrics")},
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://t/api/otel/v1/traces"},
            {"traces": ("http/protobuf", "https://t/api/otel/v1/traces")},
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317",
                "OTEL_EXPORTER_OTLP_INSECURE": "true",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_LOGS_EXPORTER": "none",
                "OTEL_METRICS_EXPORTER": "prometheus",
            },
            {"traces": ("grpc", "http://c:4317")},
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none"},
            {"traces": ("grpc", "http://localhost:4317")},
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            {"traces": ("http/protobuf", "http://localhost:4318/v1/traces")},
        ),
        ({}, {}),
    ],
)
def test_the_standard_variables_say_where_each_signal_goes(environ, expected):
    destinations, _ = find_destinations(None, environ)
    assert {one.signal: (one.protocol, one.endpoint) for one in destinations} == expected


@pytest.mark.parametrize(
    ("environ", "warned"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:6006"}, True),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:6006", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            False,
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, False),
    ],
)
def test_an_http_endpoint_without_a_protocol_is_pointed_out(monkeypatch, environ, warned):
    """``opentelemetry-instrument`` would speak gRPC to it, and every score would be lost."""
    monkeypatch.setattr("ragmeter.cli.doctor._backends.installed_version", lambda _: "0.66b1")
    _, findings = find_destinations(None, environ)
    (finding,) = findings or (None,)

    assert (finding is not None) is warned
    if finding is not None:
        assert (finding.what, finding.state) == ("OTEL_EXPORTER_OTLP_PROTOCOL", "warning")
        assert "http/protobuf" in finding.fix
