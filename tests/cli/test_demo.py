"""`ragmeter demo` as a user runs it: in a process of its own, without key, server or network."""

import json
import re
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
from openai_server import OpenAIServer, content, error
from processes import free_port
from python_process import plain_environment, run_python
from typer.testing import CliRunner

from ragmeter import RagMeter
from ragmeter.cli._otlp import choose_protocol
from ragmeter.cli.app import app
from ragmeter.cli.demo._responders import split_sentences
from ragmeter.cli.demo.corpus import load_questions
from ragmeter.cli.demo.run import DemoOutcome, DemoQuestion
from ragmeter.metrics import Score
from ragmeter.metrics.errors import install_command

FRAMEWORKS = ["langchain", "llama-index"]


@pytest.fixture(scope="session")
def demo(command):
    """The real command, in a process of its own."""
    return partial(command, "demo")


FEW = """
from ragmeter.cli.demo import run as asking
few = asking.load_questions()[::5]
asking.load_questions = lambda: few
"""
SHORT = [one.question for one in load_questions()[::5]]


@pytest.fixture(scope="session")
def short(command):
    """The real command with five of its questions, where they do not matter."""
    return partial(command, "demo", before=FEW)


@pytest.fixture(scope="module", params=FRAMEWORKS)
def results(demo, request):
    """The JSON of one run per framework."""
    done = demo("--json", "--framework", request.param)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_question_is_answered_captured_and_scored(results):
    requests = results["requests"]
    assert [one["question"] for one in requests] == [one.question for one in load_questions()]
    assert len(requests) >= 15
    for one in requests:
        assert one["status"] == "ok"
        assert one["answer"]
        assert len(one["contexts"]) == 3
        assert one["scores"]["context_count"]["value"] == 3.0
    assert results["failures"] == []


def test_what_was_found_is_answered_from(results):
    """A prompt that the local model cannot read would be refused every time."""
    direct = [one["answer"] for one in results["requests"] if one["kind"] == "direct"]
    assert len(set(direct)) == len(direct)


def test_contexts_carry_the_ids_of_the_library(results):
    ids = {context["id"] for one in results["requests"] for context in one["contexts"]}
    assert "ru-baikal#1" in ids


def test_direct_questions_find_their_sentence_and_the_others_mostly_do_not(results):
    recalls = {}
    for one in results["requests"]:
        if one["reference"]:
            recalls.setdefault(one["kind"], []).append(one["scores"]["recall"]["value"])
    direct = recalls["direct"]
    assert sum(direct) / len(direct) > 0.8
    assert set(recalls["cross_language"]) == {0.0}


def test_half_of_the_questions_have_no_reference_and_a_verdict_all_the_same(results):
    requests = results["requests"]
    without = [one for one in requests if one["reference"] is None]
    assert len(without) * 2 == len(requests)
    assert {one["scores"]["recall"]["status"] for one in without} == {"missing_input"}
    words = {(one["verdict"]["word"], one["reference"] is None) for one in requests}
    assert {("good", True), ("good", False), ("suspect", True), ("bad", True)} <= words
    direct = [one["verdict"]["word"] for one in requests if one["kind"] == "direct"]
    assert direct.count("good") > 0.7 * len(direct)


def test_scores_differ_between_requests(results):
    for name in ("precision", "average_precision", "lexical_context_recall", "token_f1"):
        values = {one["scores"][name].get("value") for one in results["requests"]}
        assert len(values) > 3 or values >= {0.0, 1.0}, name


def test_the_worst_request_comes_with_the_reasons(results):
    worst = results["worst"]
    (asked,) = [one for one in results["requests"] if one["question"] == worst["question"]]
    assert asked["kind"] != "direct"
    assert worst["verdict"] == asked["verdict"]
    assert worst["verdict"]["word"] != "good"
    assert worst["verdict"]["reasons"]
    if asked["reference"] is not None:
        assert set(worst["not_retrieved"]) <= set(asked["reference"]["contexts"])


def test_everything_went_through_a_real_opentelemetry_sdk(results):
    count = len(results["requests"])
    telemetry = results["telemetry"]
    assert telemetry["spans"]["invoke_workflow"] == count
    assert telemetry["spans"]["retrieval"] == count
    assert telemetry["events"] > count * 5
    assert telemetry["metrics"]["gen_ai.evaluation.score"] > 5


def test_a_made_up_answer_is_shown_first_with_the_sentence_at_fault(demo):
    """What the product is for, on one screen: everything else behind --all."""
    done = demo()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 36  # with the prompt, and what a terminal shows meanwhile
    assert max(map(len, lines)) <= 80
    [asked] = [one for one in load_questions() if one.made_up]
    said = " ".join(done.stdout.split())
    assert asked.language == "en"
    assert f"asked {asked.question} retrieved " in said
    assert f"answered {asked.made_up} bad unsupported_answer: " in said
    for sentence in split_sentences(asked.made_up):
        assert f"at fault {sentence} (" in said
    assert re.search(r"^ *bad +Who designed", done.stdout, re.MULTILINE)
    assert re.search(r"^ *good +\d+ of 24 questions", done.stdout, re.MULTILINE)
    assert lines[-1].startswith("ragmeter demo --page")
    for hidden in ("should say", "p90", "recall", "POST /ask"):
        assert hidden not in done.stdout


def test_the_whole_report_is_readable_and_complete(demo):
    done = demo("--all")
    assert done.returncode == 0, done.stderr
    for piece in (
        "Scores per question",
        "Worst request",
        "retrieved 1",
        "12 of 24 questions have a reference",
        "n/a: the request lacks",
        "Scores over all requests",
        "p90",
        "Emitted through OpenTelemetry",
        "POST /ask",
        "invoke_workflow",
        "RagMeterCallbackHandler(meter)",
    ):
        assert piece in done.stdout, piece
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "asking 24/24" in done.stderr


def test_a_terminal_without_unicode_gets_escapes_not_a_traceback(short):
    plain = FEW + "for one in (sys.stdout, sys.stderr): one.reconfigure(encoding='cp1251')"
    done = short("--json", before=plain)
    assert done.returncode == 0, done.stderr
    questions = [one["question"] for one in json.loads(done.stdout)["requests"]]
    assert questions == SHORT
    assert "\\u" in short("--all", before=plain).stdout


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_lines_shown_for_attaching_work_as_printed(framework, tmp_path, monkeypatch):
    """Run in a process of its own with a chain or engine of the user's already there."""
    (tmp_path / "golden.jsonl").write_text('{"question": "why?", "answer": "so"}\n')
    module = {"langchain": "_with_langchain", "llama-index": "_with_llama_index"}[framework]
    code = f"""
from ragmeter.cli.demo.{module} import SNIPPET
from ragmeter.cli.demo import {module} as own
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
trace.set_tracer_provider(provider)  # without one there would be nowhere to export to
question = "why?"
if {framework!r} == "langchain":
    from langchain_core.runnables import RunnableLambda
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_core.embeddings import DeterministicFakeEmbedding
    store = InMemoryVectorStore.from_texts(["because"], DeterministicFakeEmbedding(size=8))
    chain = store.as_retriever() | RunnableLambda(lambda found: found[0].page_content)
else:
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TextNode
    index = VectorStoreIndex([TextNode(text="because")], embed_model=MockEmbedding(8))
    query_engine = index.as_query_engine(llm=MockLLM())
exec(SNIPPET)
assert meter.flush(30)
stats = meter.stats()
assert answer and stats.captured == stats.exported == 1, stats
assert not stats.internal_errors, stats
"""
    done = run_python("-Ic", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_otlp_sends_all_three_signals_without_any_text_and_says_so(short, otlp):
    done = short("--otlp", otlp.url, "--json")
    assert done.returncode == 0, done.stderr
    said = {one["signal"]: one for one in json.loads(done.stdout)["otlp"]}
    assert set(said) == {"traces", "logs", "metrics"}
    assert all(one["accepted"] for one in said.values())
    assert len(otlp.spans) == said["traces"]["items"]
    assert len(otlp.records) == said["logs"]["items"]
    assert "gen_ai.evaluation.score" in otlp.metrics
    names = {span.name.split()[0] for span in otlp.spans}
    assert names == {"POST", "invoke_workflow", "retrieval"}
    assert not any(SHORT[0].encode() in body for body in otlp.bodies)


def test_signal_chooses_what_is_sent(short, otlp):
    done = short("--otlp", otlp.url, "--signal", "traces")
    assert done.returncode == 0, done.stderr
    assert otlp.spans
    assert not otlp.records
    assert not otlp.metrics


def test_an_endpoint_that_refuses_is_a_failure_with_its_reason(short, otlp):
    done = short("--otlp", f"{otlp.url}/nowhere", "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)["otlp"]
    assert not any(one["accepted"] for one in said)
    assert all("404" in one["detail"] for one in said)


def test_a_backend_that_refuses_one_signal_is_no_failure(short, otlp):
    """Few take all three: which arrived is said, with the reason of the others and how to send less."""
    otlp.serves = {"/v1/traces", "/v1/logs"}
    done = short("--otlp", otlp.url, NO_COLOR="1", COLUMNS="300")

    assert done.returncode == 0, done.stdout
    assert f"sent to {otlp.url}/v1/traces arrived" in done.stdout
    assert f"sent to {otlp.url}/v1/logs arrived" in done.stdout
    assert f"sent to {otlp.url}/v1/metrics did not arrive: " in done.stdout
    assert "404" in done.stdout
    assert "The backend takes traces and logs; the same without complaint: --signal traces" in done.stdout
    assert otlp.spans
    assert otlp.records
    assert not otlp.metrics


def test_an_endpoint_that_is_not_there_is_a_failure_not_a_traceback(short):
    port = free_port()
    done = short("--otlp", f"http://127.0.0.1:{port}", "--signal", "traces")
    assert done.returncode == 1
    assert f"cannot connect to 127.0.0.1:{port}: Connection refused" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        ("http://localhost:4318", None, "http/protobuf"),
        ("http://localhost:4317", None, "grpc"),
        ("http://localhost:4317", "http/protobuf", "http/protobuf"),
        ("https://otel.example/path", "grpc", "grpc"),
    ],
)
def test_protocol_follows_the_port_unless_told(url, protocol, expected):
    assert choose_protocol(url, protocol) == expected


@pytest.fixture
def endpoint():
    with OpenAIServer() as server:
        server.script.extend([content("From the endpoint.")] * len(SHORT))
        yield server


def test_a_configured_endpoint_writes_the_answers(short, endpoint):
    done = short("--json", OPENAI_BASE_URL=endpoint.url, RAGMETER_DEMO_MODEL="tiny")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["model"] == "tiny"
    assert {one["answer"] for one in results["requests"]} == {"From the endpoint."}
    assert {one.body["model"] for one in endpoint.requests} == {"tiny"}


def test_offline_ignores_the_configured_endpoint(short, endpoint):
    done = short("--json", "--offline", OPENAI_BASE_URL=endpoint.url)
    assert done.returncode == 0, done.stderr
    assert endpoint.requests == []


def test_a_judge_that_fails_is_said_once_with_an_example():
    failed = Score(
        name="faithfulness", value=None, status="judge_error", method="llm", definition="1", explanation="401"
    )
    scored = SimpleNamespace(scores={"faithfulness": failed})
    asked = [DemoQuestion(one, "a", None, scored) for one in load_questions()[:3]]
    stats = RagMeter(exporters=[]).stats()
    outcome = DemoOutcome("langchain", None, asked, [], None, [], stats, 1.0)
    assert outcome.failures == [f"3 judge_error, e.g. faithfulness of {asked[0].question.question!r}: 401"]


def test_a_failing_endpoint_fails_requests_not_the_demo(short, endpoint):
    """Each failed request is still a scored sample: its retrieval happened."""
    endpoint.script = deque([error(401)] * len(SHORT))
    done = short("--json", OPENAI_BASE_URL=endpoint.url, OPENAI_API_KEY="sk-secret-key")
    assert done.returncode == 1
    results = json.loads(done.stdout)
    assert {one["status"] for one in results["requests"]} == {"error"}
    assert all(one["scores"]["context_count"]["value"] == 3.0 for one in results["requests"])
    assert len(results["failures"]) == len(results["requests"])
    assert "sk-secret-key" not in done.stdout + done.stderr


def test_judged_metrics_run_on_demand(short):
    with OpenAIServer() as server:
        done = short("--json", "--offline", "--judge-model", "fake", OPENAI_BASE_URL=server.url)
    assert done.returncode == 0, done.stdout[-2000:]
    requests = json.loads(done.stdout)["requests"]
    assert all(one["scores"]["judged_precision"]["value"] == 1.0 for one in requests)
    with_reference = [one["scores"] for one in requests if one["reference"]]
    assert all(scores["context_precision"]["value"] == 1.0 for scores in with_reference)


def test_judged_scores_are_on_the_span_of_their_request_however_slow_the_judge(short):
    """Judging takes longer than the demo's progress lines are apart, and nothing goes out late."""
    with OpenAIServer(latency_s=1.5) as server:
        done = short("--json", "--offline", "--judge-model", "fake", OPENAI_BASE_URL=server.url)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "requests to go" in done.stderr
    count = len(SHORT)
    spans = json.loads(done.stdout)["telemetry"]["spans"]
    assert spans == {"POST /ask": count, "invoke_workflow": count, "retrieval": count}


def test_a_judge_without_an_endpoint_is_explained(demo):
    done = demo("--judge-model", "fake")
    assert done.returncode == 2
    assert "ragmeter: " in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help_need_no_framework():
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).stdout.startswith("ragmeter 0.")
    shown = runner.invoke(app, ["--help"]).stdout
    assert all(command in shown for command in ("demo", "evaluate", "metrics"))
    code = (
        "import sys; from ragmeter.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('langchain_core', 'llama_index', 'opentelemetry.sdk', 'numpy')"
        " if m in sys.modules])"
    )
    done = run_python("-Ic", code, check=True)
    assert done.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("typer", ["--help"], "cli"),
        ("rich", ["--help"], "cli"),
        ("opentelemetry.sdk", ["demo"], "otlp"),
        ("langchain_core", ["demo", "--framework", "langchain"], "langchain"),
        ("llama_index", ["demo", "--framework", "llama-index"], "llama-index"),
    ],
)
def test_without_a_package_the_command_says_which_extra_brings_it(module, command, extra):
    code = f"import sys; sys.modules[{module!r}] = None; from ragmeter.cli.main import run; run()"
    done = run_python("-Ic", code, *command)
    assert done.returncode == 2
    assert install_command(extra) in done.stderr
    assert "Traceback" not in done.stderr


def test_langchain_without_numpy_is_enough():
    """LangChain does not install it, and its own vector store fails without it; LlamaIndex cannot do without."""
    code = "import sys; sys.modules['numpy'] = None; from ragmeter.cli.main import run; run()"
    env = {**plain_environment(), "RAGMETER_METRICS": "lexical_groundedness"}

    shown = run_python("-Ic", code, "demo", env=env)
    checked = run_python("-Ic", code, "doctor", env=env)

    assert shown.returncode == 0, shown.stderr
    assert re.search(r"ok +LangChain: 1 scores", checked.stdout), checked.stdout + checked.stderr
    assert "FAIL LlamaIndex: " in checked.stdout


def test_the_package_runs_as_a_module():
    done = run_python("-Im", "ragmeter", "--version", check=True)
    assert done.stdout.startswith("ragmeter 0.")


def test_otlp_over_grpc_is_accepted_by_a_real_server(short):
    import grpc

    received = set()

    class Receiver(grpc.GenericRpcHandler):
        def service(self, details):
            received.add(details.method.split(".")[3])
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((Receiver(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        done = short("--otlp", f"http://127.0.0.1:{port}", "--protocol", "grpc", "--json")
    finally:
        server.stop(None).wait(60)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert received == {"trace", "logs", "metrics"}


def test_a_narrow_terminal_is_readable(short):
    """Forty columns: no line is wider, names and verdicts are whole, the code can be copied."""
    assert max(map(len, short(COLUMNS="40", NO_COLOR="1").stdout.splitlines())) <= 40
    done = short("--offline", "--all", COLUMNS="40", NO_COLOR="1")
    lines = done.stdout.splitlines()

    assert done.returncode == 0, done.stderr
    assert max(map(len, lines)) <= 40
    for words in ("suspect", "lexical_context_relevance", "retrieved 1", "answered"):
        assert words in done.stdout
    assert "\x1b" not in done.stdout
    assert "RagMeterCallbackHandler" in "".join(line.strip() for line in lines)


def test_its_requests_are_on_the_page(monkeypatch):
    import httpx

    from ragmeter.cli.demo._page import server_with
    from ragmeter.cli.demo.run import run_demo

    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    outcome = run_demo(offline=True)
    server = server_with(outcome)
    server.start()
    try:
        shown = server.reader.requests(limit=100).requests

        assert {one.question for one in shown} == {one.question.question for one in outcome.asked}
        assert shown[0].question in httpx.get(f"{server.url}requests", timeout=60).text
        assert all(one.verdict for one in shown)
    finally:
        server.stop(60)
