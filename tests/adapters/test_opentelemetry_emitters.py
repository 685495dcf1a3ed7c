"""Requests as emitters of many frameworks and languages write them: by shape, whatever the names."""

import json
import logging
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from otlp_spans import documents, exchange, openinference, span

from ragmeter import RagMeter
from ragmeter.adapters.opentelemetry._accounts import Accounts, Unheard, account_of, line_of
from ragmeter.adapters.opentelemetry.assembly import AssembledTrace
from ragmeter.adapters.opentelemetry.otlp import read_json
from ragmeter.adapters.opentelemetry.reporter import Reporter
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.adapters.reading.results import as_tools

LINES = (Path(__file__).parent / "recorded_spans" / "emitters.jsonl").read_text("utf-8")
TRACES = [(json.loads(line), line.encode()) for line in LINES.splitlines()]
EMITTERS = {told["emitter"]: line for told, line in TRACES if "reason" not in told}
UNHEARD = {told["emitter"]: (told["reason"], line) for told, line in TRACES if "reason" in told}
"""Export requests written by hand after what each emitter documents: all tell the same request."""

QUESTION = "How long do refunds take?"
FIRST = "Refunds are paid within 14 days of the return of the goods to us."
SECOND = "Shipping to Switzerland takes five working days and costs 9 francs."
ANSWER = "Refunds are paid within 14 days."


@pytest.mark.parametrize("emitter", EMITTERS)
def test_an_emitter_gives_question_contexts_and_answer(emitter):
    """In whatever order its spans arrive."""
    records = read_json(EMITTERS[emitter])

    for spans in (records.spans, records.spans[::-1]):
        [request], unheard = read_trace(spans, records.logs)

        texts = [item.text for item in request.contexts]
        assert (request.question, texts, request.answer) == (QUESTION, [FIRST, SECOND], ANSWER)
        assert (request.usable, request.reason, unheard) == ("full", None, [])


@pytest.mark.parametrize("name", UNHEARD)
def test_what_is_no_request_has_one_reason(name):
    reason, line = UNHEARD[name]
    records = read_json(line)

    requests, unheard = read_trace(records.spans, records.logs)

    assert (requests, [one.reason for one in unheard]) == ([], [reason])


def _application(name, given, *, kind="CHAIN"):
    """An agent whose inner step, or tool, gives something out; the model is sent it in words of its own."""
    prompt = f"Known: {FIRST.upper()!r} and more. Question: {QUESTION}"
    return [
        openinference(1, None, "AGENT", "qa", input=QUESTION, output=ANSWER, end=9),
        openinference(2, 1, kind, name, input=QUESTION, output=given),
        openinference(3, 1, "LLM", **exchange(prompt, ANSWER)),
    ]


OPERATION, MEMORY = "gen_ai.operation.name", "gen_ai.memory.records"
SHORT = [{"label": "14 days", "sku": 7, "more": {"unit": 1}}, {"label": "9 francs", "sku": 8}]


@pytest.mark.parametrize(
    ("spans", "line", "ids"),
    [
        (_application("look_up", SHORT), "--retrieval-span 'look_up'", ["7", "8"]),
        (_application("look_up", SHORT, kind="TOOL"), "--retrieval-tool 'look_up'", ["7", "8"]),
        (
            [
                *_application("", "")[::2],
                span(2, 1, "look_up", attributes={OPERATION: "search_memory", MEMORY: json.dumps(SHORT)}),
            ],
            "--retrieval-span 'look_up'",
            ["7", "8"],
        ),
        (
            _application("look_up", {"n": [SHORT]}, kind="RETRIEVER"),
            "--retrieval-span 'look_up:text=…,id=…'",
            ["7", "8"],
        ),
    ],
)
def test_the_line_to_add_makes_a_request_of_what_was_none(spans, line, ids):
    """A user copies it, and writes the names of the fields where it leaves them open."""
    requests, unheard = read_trace(spans)
    accounts = Accounts()
    for one in [*unheard, *(account_of(found, scored=False) for found in requests)]:
        accounts.add(one)
    [account] = accounts.table()
    [cause] = account.causes
    assert cause.line.endswith(line)

    option, rule = shlex.split(re.search("--.*", cause.line)[0])
    rule = rule.partition(":")[0] + ":text=label,id=sku"
    [request], unheard = read_trace(spans, (), as_tools([rule], is_span="span" in option))

    assert [item.id for item in request.contexts] == ids
    assert (request.question, request.answer, request.usable) == (QUESTION, ANSWER, "full")
    assert unheard == []


CALL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up"}


@pytest.mark.parametrize(
    "call",
    [
        {**CALL, "gen_ai.tool.call.arguments": json.dumps({"q": QUESTION})},
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look_up", "ai.toolCall.args": "{}"},
    ],
)
def test_a_tool_without_a_recorded_result_has_found_something_unknown(call):
    """Nor does it become an empty retrieval when the user names it, as the line says."""
    spans = _application("look_up", "nothing")[::2]
    spans.append(span(2, 1, "look_up", attributes=call))

    [one] = read_trace(spans).unheard
    [request] = read_trace(spans, (), as_tools(["look_up"])).requests

    assert one.reason == "content_off"
    assert line_of(one).endswith("--retrieval-tool 'look_up'")
    assert (request.usable, request.reason) == ("none", "content_off")


@pytest.mark.parametrize(
    ("scope", "switch"),
    [
        ("opentelemetry.instrumentation.openai.v1", "TRACELOOP_TRACE_CONTENT"),
        ("opentelemetry.instrumentation.ollama", "TRACELOOP_TRACE_CONTENT"),
        ("litellm", "turn_off_message_logging"),
        ("opentelemetry.instrumentation.qdrant", "trace the function around it"),
        ("opentelemetry.instrumentation.openai_v2", "GENAI_CAPTURE_MESSAGE_CONTENT=true, and send log records"),
        ("opentelemetry.instrumentation.genai.langchain", "GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
        ("io.quarkus.opentelemetry", "include-tool-result"),
    ],
)
def test_the_switch_is_the_one_that_the_instrumentation_obeys(scope, switch):
    assert switch in line_of(Unheard("", scope, "content_off", convention="gen_ai"))


def test_each_service_is_named_in_the_log_with_its_reason_once(caplog):
    meter = RagMeter(exporters=[])
    reporter = Reporter(meter, remote=True)
    with caplog.at_level(logging.WARNING, "ragmeter"):
        for number, service in enumerate(["shop", "shop", "desk"], 1):
            store = span(1, None, "qdrant.search", attributes={"db.system": "qdrant", "db.operation": "search"})
            trace = f"{number:032x}"
            sent = replace(store, trace_id=trace, scope="qdrant", resource={"service.name": service})
            reporter.report(AssembledTrace(trace, [sent], ()))
    meter.shutdown(60)

    said = [record.getMessage() for record in caplog.records if "traced by qdrant" in record.getMessage()]
    assert [line.partition(" are ")[0] for line in said] == [
        "requests traced by qdrant of shop", "requests traced by qdrant of desk"
    ]  # fmt: skip


def test_a_span_of_no_convention_retrieves_if_the_user_says_so():
    """Nor does a rule make a retrieval of a model's call, or of another span."""
    spans = [
        *_application("look_up", "nothing")[::2],
        span(2, 1, "retrieve_docs", attributes={"db.system": "mine", "acme.rows": "x"}),
        span(4, 1, "load", attributes={"output": json.dumps(SHORT)}),
    ]

    [request] = read_trace(spans, (), as_tools(["l*:text=label"], is_span=True)).requests

    assert [item.text for item in request.contexts] == ["14 days", "9 francs"]
    assert read_trace(spans, (), as_tools(["*:text=label"])).requests == []


def _model(number, parent, said="yes"):
    """A judge's or an indexer's call of a model."""
    sent = f"Context: {FIRST}\nAnswer: {ANSWER}\nIs it supported?"
    return openinference(number, parent, "LLM", output=said, **exchange(sent))


ROW = {"user_input": QUESTION, "response": ANSWER, "retrieved_contexts": [FIRST]}
NO_REQUESTS = {
    "evaluator": [openinference(1, None, "EVALUATOR", "faithful", input=ROW, output="1", end=9)],
    "chain": [openinference(1, None, "CHAIN", "run_evaluation", input=ROW, output="1", end=9)],
    "rows": [
        openinference(1, None, "CHAIN", "ragas", input=[ROW], output=[1], end=9),
        openinference(4, 1, "CHAIN", "row 0", input=ROW, output="1", start=1, end=9),
    ],
    "operation": [span(1, None, "evaluate answers", attributes={OPERATION: "evaluate"}, end=9)],
    "metric": [span(1, None, "FaithfulnessMetric.measure", attributes={"input": QUESTION}, end=9)],
    "index": [
        openinference(1, None, "CHAIN", "ingest", input="files", output="nodes", end=9),
        span(4, 1, "collection.add", attributes={"db.system": "chroma", "db.operation": "add"}),
    ],
}


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_judges_or_fills_a_store_is_no_request(name):
    """Though it calls a model, and documents stand in its prompt."""
    requests, unheard = read_trace([*NO_REQUESTS[name], _model(2, 1)])

    wanted = "indexing" if name == "index" else "evaluation"
    assert (requests, {one.reason for one in unheard}) == ([], {wanted})


@pytest.mark.parametrize("kind", ["server", "internal"])
def test_a_route_that_evaluates_something_for_users_is_no_evaluation_run(kind):
    """The same name, of a step that no one called from outside, is."""
    prompt = f"Use these:\n<doc>{FIRST}</doc>\n<doc>{SECOND}</doc>\n\nQuestion: {QUESTION}"
    sent = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": prompt,
        "llm.output_messages.0.message.content": ANSWER,
    }
    spans = [span(1, None, "POST /evaluate", kind=kind, end=9), openinference(2, 1, "LLM", **sent)]

    requests, unheard = read_trace(spans)

    texts = [[item.text for item in one.contexts] for one in requests]
    assert (texts, [one.reason for one in unheard]) == (
        ([[FIRST, SECOND]], []) if kind == "server" else ([], ["evaluation"])
    )


def test_a_question_about_an_evaluation_is_one():
    name = "answer_evaluation_question"
    spans = [openinference(1, None, "CHAIN", name, input=QUESTION, output=ANSWER, end=9)]
    retriever = openinference(3, 1, "RETRIEVER", input=QUESTION, output=[FIRST, SECOND])

    [request] = read_trace([*spans, retriever, _model(4, 1)]).requests

    assert request.question == QUESTION


@pytest.mark.parametrize("written", [f"{FIRST}\n\n{SECOND}", "2 documents found", "[Document(id='a')]"])
def test_what_a_retriever_prints_is_no_answer(written):
    """Only one that calls a model answers."""
    told = {"input": QUESTION, "output": written, "output.mime_type": "text/plain"}
    retriever = openinference(1, None, "RETRIEVER", **told, **documents(FIRST, SECOND))

    [request] = read_trace([retriever]).requests

    assert (request.answer, len(request.contexts)) == (None, 2)


@pytest.mark.parametrize(
    ("asked", "said", "requests"),
    [
        ("Refunds take five working days.", "YES", 1),
        ("Question: how long?\nResponse: Refunds take five working days.", "NO", 1),
        ("Refunds take five working days, but from when on?", "From the day on which we get the goods.", 2),
        ("Are they free?", "Yes", 2),
    ],
)
def test_a_retrieval_with_an_earlier_answer_whose_reply_is_a_label_judges_that_answer(asked, said, requests):
    """An evaluator asks an engine of its own, in the same trace, and no span has its name."""
    reading = read_trace([
        openinference(1, None, "CHAIN", "query", input="how long?", output="Refunds take five working days.", end=9),
        openinference(2, 1, "RETRIEVER", start=2, end=3, **documents(FIRST, SECOND)),
        openinference(4, None, "CHAIN", "query", input=asked, output=said, start=10, end=19),
        openinference(5, 4, "RETRIEVER", start=11, end=12, **documents(FIRST, SECOND)),
    ])  # fmt: skip

    assert len(reading.requests) == requests
    assert [note.reason for note in reading.unheard] == ["evaluation"] * (2 - requests)


@pytest.mark.parametrize(
    ("prompt", "requests"),
    [
        ("Please tell if a given piece of information is supported by the context.\nYou need to answer", 0),
        ("Your task is to evaluate if the response for the query     is in line with the context", 0),
        ("Your task is to evaluate if the retrieved context from the document sources are relevant", 0),
        ("Tell if the information is supported by the context.", 1),
    ],
)
def test_llama_index_evaluators_alone_are_known_by_their_prompts(prompt, requests):
    """They ask an engine of their own about a reply; no span has their name."""
    spans = [
        openinference(1, None, "CHAIN", "RetrieverQueryEngine.aquery", input=ANSWER, output="YES", end=9),
        openinference(2, 1, "RETRIEVER", start=2, end=3, **documents(FIRST, SECOND)),
        openinference(4, 1, "LLM", **exchange(f"{prompt}\n{ANSWER}\nContext:\n{FIRST}\n\n{SECOND}", "YES")),
    ]  # fmt: skip

    reading = read_trace(replace(one, scope="openinference.instrumentation.llama_index") for one in spans)

    assert len(reading.requests) == requests
    assert [note.reason for note in reading.unheard] == ["evaluation"] * (1 - requests)
