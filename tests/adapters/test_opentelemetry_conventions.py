"""Where question, documents and answer stand in each convention, beyond what is recorded."""

import json
from dataclasses import replace
from operator import attrgetter

import pytest
from otlp_spans import chat, documents, exchange, found, only, openinference, span, texts

from ragmeter.adapters.opentelemetry.build import sample_of
from ragmeter.adapters.opentelemetry.record import LogNote
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.adapters.reading.documents import documents_in
from ragmeter.adapters.reading.messages import messages_in
from ragmeter.adapters.reading.request_texts import answer_in, question_in
from ragmeter.adapters.reading.results import RetrievalTool, cut
from ragmeter.metrics import ConfigurationError


def _request(*inner, question="Why?", answer="Because.", **more):
    return (openinference(1, None, "CHAIN", "qa", input=question, output=answer, **more), *inner)


def _retriever(*texts, number=2, parent=1, **more):
    return openinference(number, parent, "RETRIEVER", **documents(*texts), **more)


def _reranker(number, given, kept):
    taken = documents(*given, prefix="reranker.input_documents")
    return openinference(number, 1, "RERANKER", **taken, **documents(*kept, prefix="reranker.output_documents"))


def _nodes(*ids):
    """What LlamaIndex's steps of the application's own have on their spans."""
    return [f"<NodeWithScore(node=TextNode(id_={i}), score=0.5)>" for i in ids]


def _synthesizer(number, *chunks):
    given = {"query_str": "Why?", "text_chunks": chunks}
    return openinference(number, 1, "CHAIN", "CompactAndRefine.get_response", input=given, output="So.", end=9)


def _task(number, parent, name, given, gave, kind="task", **more):
    """A span of OpenLLMetry's."""
    values = {"entity.name": name, "entity.input": json.dumps(given), "entity.output": json.dumps(gave)}
    told = {f"traceloop.{key}": value for key, value in {"span.kind": kind, **values}.items()}
    return span(number, parent, name, attributes=told, **more)


def _of_llama_index(number, parent, name, given, gave):
    return _task(number, parent, f"{name}.task", given, gave, scope="opentelemetry.instrumentation.llamaindex")


def _node(identity, text):
    return json.dumps({"node": {"id_": identity, "text": text, "metadata": {}}, "score": 0.5})


def _operation(number, parent, name, **more):
    return span(number, parent, attributes={"gen_ai.operation.name": name, **more})


FIRST, SECOND = "The first of two long enough texts.", "The other one, which nobody sent."
PROMPT = f"Context:\n- {FIRST}\n- {SECOND}\nQuestion: Why?"
CHUNKS = [
    ("The kiosk keeps a missed parcel for seven days. " * 6)[start : start + 60] for start in range(0, 240, 60)
]
ONE_JSON = json.dumps([{"document.content": "a text", "document.id": "7", "document.score": 0.5}])
LEAK = {"llm.prompt_template.variables": json.dumps({"context": "a text"})}
ASKS = {"gen_ai.retrieval.query.text": "Why?"}
BROKEN = {"traceloop.entity.output": '{"documents": [{"page_content": "a text that br'}
REASONED = {
    f"llm.output_messages.0.message.{key}": value
    for key, value in (
        ("role", "assistant"), ("contents.0.message_content.type", "reasoning"),
        ("contents.0.message_content.text", "Hm."), ("contents.1.message_content.type", "text"),
        ("contents.1.message_content.text", "So."),
    )
}  # fmt: skip
TRUNCATED = {"usable": "none", "reason": "truncated"}
TOLD = {
    "documents as one JSON, as OpenInference's Java instrumentation writes them": (
        _request(openinference(2, 1, "RETRIEVER", **{"retrieval.documents": ONE_JSON})),
        {"texts": ["a text"], "ids": ["7"], "scores": [0.5]},
    ),
    "a retriever without documents found none": (
        _request(openinference(2, 1, "RETRIEVER", input="Why?")),
        {"texts": [], "usable": "full", "reason": None},
    ),
    "a retriever that failed is an error and no empty retrieval": (
        _request(openinference(2, 1, "RETRIEVER", failed=True), failed=True, answer=""),
        {"usable": "none", "reason": "retrieval_error", "failed": True},
    ),
    "one retriever of two failed": (
        _request(openinference(2, 1, "RETRIEVER", failed=True), _retriever("a text", number=3)),
        {"texts": ["a text"], "usable": "full"},
    ),
    "a retriever in a retriever counts once": (
        _request(_retriever("b", "a", end=6), *(_retriever(*"abc", number=n, parent=2) for n in (3, 4))),
        {"texts": ["b", "a"]},
    ),
    "the inner retriever counts where the outer one says nothing": (
        _request(
            openinference(2, 1, "RETRIEVER", end=9),
            _retriever("a", number=3, parent=2),
            _retriever("b", number=5, parent=2),
        ),
        {"texts": ["a", "b"]},
    ),
    "the last of two rerankings counts": (
        _request(_retriever(*"abc"), _reranker(3, "abc", "cb"), _reranker(4, "cb", "b")),
        {"texts": ["b"], "seen": [f"{4:016x}"]},
    ),
    "a reranking of one retrieval leaves the other alone": (
        _request(_retriever(*"ab"), _retriever(*"xy", number=3), _reranker(4, "ab", "b")),
        {"texts": ["x", "y", "b"]},
    ),
    "a step of LlamaIndex' that reranks is known by its nodes": (
        _request(
            openinference(2, 1, "RETRIEVER", **documents("one", "two", "three", ids="abc")),
            openinference(
                3, 1, "CHAIN", "Mine._postprocess_nodes", input={"nodes": _nodes(*"abc")}, output=_nodes(*"ca")
            ),
        ),
        {"texts": ["three", "one"]},
    ),
    "a step of LlamaIndex' that leaves no node leaves nothing": (
        _request(
            openinference(2, 1, "RETRIEVER", **documents("one", "two", ids="ab")),
            openinference(3, 1, "CHAIN", "Cutoff._postprocess_nodes", input={"nodes": _nodes(*"ab")}, output="[]"),
        ),
        {"texts": []},
    ),
    "a step of LlamaIndex' whose output is not known changes nothing": (
        _request(
            openinference(2, 1, "RETRIEVER", **documents("one", "two", ids="ab")),
            openinference(3, 1, "CHAIN", "Cutoff._postprocess_nodes", input={"nodes": _nodes(*"ab")}),
        ),
        {"texts": ["one", "two"]},
    ),
    "a step of LlamaIndex' changed or added texts that only its synthesizer was handed": (
        _request(
            openinference(2, 1, "RETRIEVER", **documents("one", "two", "three", ids="abc")),
            openinference(3, 1, "CHAIN", "Mine._postprocess_nodes", output=_nodes(*"bdc")),
            _synthesizer(4, "lang: en\n\ntwo", "new", "th"),
        ),
        {"texts": ["two", "new", "th"], "ids": ["b", "d", "c"]},
    ),
    "an engine of LlamaIndex' without a retriever hands over what it found": (
        _request(_synthesizer(2, "[(1911,)]"), openinference(3, 2, "LLM", **exchange("Rows: [(1911,)]", "So."))),
        {"texts": ["[(1911,)]"], "usable": "full"},
    ),
    "Haystack's builder of a prompt is no model, whose reply the prompt would be": (
        _request(
            _retriever(FIRST, SECOND),
            openinference(3, 1, "LLM", "PromptBuilder.run", input={"question": "Why?"}, output=PROMPT),
            openinference(4, 1, "LLM", **exchange(PROMPT, SECOND[::-1])),
            answer=SECOND[::-1],
        ),
        {"texts": [FIRST, SECOND]},
    ),
    "what the model was not sent was not seen": (
        _request(_retriever(FIRST, SECOND), openinference(3, 1, "LLM", **exchange(f"Use this: {FIRST}"))),
        {"texts": [FIRST]},
    ),
    "what a model would have been sent is not known when it was not called": (
        _request(
            _retriever(FIRST),
            openinference(3, 1, "LLM", **exchange(FIRST)),
            _retriever(SECOND, number=4),
            failed=True,
        ),
        {"texts": [FIRST, SECOND]},
    ),
    "what a model reasoned is not its answer": (
        _request(openinference(2, 1, "RETRIEVER"), openinference(3, 1, "LLM", **REASONED), answer=""),
        {"answer": "So."},
    ),
    "hidden texts are not taken from where they leak": (
        _request(
            openinference(2, 1, "RETRIEVER", **documents("__REDACTED__", ids=["7"])),
            openinference(3, 1, "PROMPT", **LEAK),
            question="__REDACTED__",
            answer="__REDACTED__",
        ),
        {"question": None, "answer": None, "texts": [None], "usable": "ids_only", "reason": "redacted"},
    ),
    "attributes were dropped beside documents": (_request(_retriever("a", "b", dropped=3)), TRUNCATED),
    "attributes were dropped, all of them": (_request(_retriever(dropped=9)), TRUNCATED),
    "the first seven documents are gone": (
        _request(openinference(2, 1, "RETRIEVER", **{"retrieval.documents.7.document.content": "the eighth"})),
        TRUNCATED,
    ),
    "JSON breaks off": (
        [
            span(1, None, attributes={"traceloop.span.kind": "workflow"}),
            _operation(2, 1, "vector_db_retrieve", **{"traceloop.span.kind": "task"}, **BROKEN),
        ],
        {"reason": "truncated"},
    ),
    "chunks of one size are whole: many cut an index so, within sentences": (
        _request(_retriever(*CHUNKS), openinference(3, 1, "LLM", input="Why?", output="For seven days.")),
        {"usable": "full", "texts": CHUNKS},
    ),
    "texts in the documents of the GenAI conventions, where some emitters add them": (
        [
            _operation(
                1, None, "retrieval", **ASKS,
                **{"gen_ai.retrieval.documents": '[{"id": "1", "score": 0.5, "content": "a text"}]'},
            )
        ],
        {"texts": ["a text"], "usable": "full", "span": None},
    ),
    "a reranking by the AI SDK is told by places": (
        [
            span(1, None, attributes={"ai.operationId": "ai.generateText", "ai.prompt": '{"prompt": "Why?"}'}),
            span(
                2, 1,
                attributes={
                    "ai.operationId": "ai.rerank.doRerank",
                    "ai.documents": [json.dumps(text) for text in ("one", "two", "three")],
                    "ai.ranking": [json.dumps({"index": place, "relevanceScore": 0.5}) for place in (2, 0)],
                },
            ),
        ],
        {"texts": ["three", "one"], "question": "Why?"},
    ),
    "LlamaIndex by OpenLLMetry is told by its nodes": (
        [
            _of_llama_index(1, None, "Engine", {"str_or_query_bundle": "Why?"}, {"response": "So."}),
            _of_llama_index(
                2, 1, "ShopSearch", {"bundle": {"query_str": "Why?"}}, [_node("a", "one"), _node("b", "two")]
            ),
            _of_llama_index(3, 1, "Cut", {"nodes": [_node("a", "one"), _node("b", "two")]}, [_node("b", "two")]),
        ],
        {"question": "Why?", "answer": "So.", "texts": ["two"]},
    ),
    "a function traced as a task is a retrieval by its name and what it gave": (
        [
            _task(1, None, "ask", {"args": ["Why?"]}, "So.", kind="workflow"),
            _task(2, 1, "retrieve_docs", {"args": ["Why?"]}, ["one", "two"]),
            _task(3, 1, "retrieve_and_answer", {"args": ["Why?"]}, ["no document"]),
        ],
        {"texts": ["one", "two"]},
    ),
    "a retriever within a tool is the retrieval": (
        [
            openinference(1, None, "AGENT", input="Why?", output="So."),
            openinference(2, 1, "TOOL", "search_docs", output="one\n\ntwo", end=9),
            openinference(3, 2, "RETRIEVER", **documents("one", "two", ids="ab")),
        ],
        {"ids": ["a", "b"]},
    ),
    "a tool that hands out its last answer is no retrieval": (
        [
            openinference(1, None, "AGENT", input={"task": "Why?"}, output="So."),
            openinference(2, 1, "TOOL", "Search", **{"tool.name": "search_docs"}, output='["one"]'),
            openinference(3, 1, "TOOL", "FinalAnswer", **{"tool.name": "final_answer"}, output="So."),
        ],
        {"texts": ["one"], "question": "Why?"},
    ),
}  # fmt: skip
PARTS = {
    "ids": lambda request: [item.id for item in request.contexts],
    "scores": lambda request: [item.score for item in request.contexts],
    "seen": lambda request: [one.read.span.span_id for one in request.seen],
    "texts": texts,
}
"""Parts of a request that are no fields of it."""


@pytest.mark.parametrize("case", TOLD)
def test_what_spans_tell_of_a_request(case):
    spans, expected = TOLD[case]
    request = only(*spans, tools=["search_*"])

    assert {name: PARTS.get(name, attrgetter(name))(request) for name in expected} == expected


def test_what_left_retriever_and_reranker_are_stages_of_the_sample():
    request = only(
        *_request(
            openinference(2, 1, "RETRIEVER", "search", **documents("a", "b", "c")),
            openinference(
                3, 1, "RERANKER", "rerank", **documents("c", "a", prefix="reranker.output_documents")
            ),
        )
    )

    sample = sample_of(request)

    told = [(one.name, one.kind, [c.text for c in one.contexts], one.inputs) for one in sample.stages]
    assert told == [("search", "retriever", ["a", "b", "c"], ()), ("rerank", "postprocessor", ["c", "a"], (0,))]
    assert sample.stages[1].contexts[0] is sample.stages[0].contexts[2]


def test_two_requests_below_one_server_span_are_two():
    server = span(1, None, "POST /ask", kind="server", end=99)
    spans = [server]
    for first in (10, 20):
        spans += [
            openinference(first, 1, "CHAIN", input=f"Question {first}?", output="An answer."),
            openinference(first + 1, first, "RETRIEVER", **documents(f"text {first}")),
        ]

    assert [one.question for one in found(*spans)] == ["Question 10?", "Question 20?"]


def test_a_server_called_by_an_agent_is_a_request_of_its_own():
    spans = [
        openinference(1, None, "AGENT", input="Plan."),
        span(2, 1, "GET", kind="client"),
        span(3, 2, "GET /ask", kind="server"),
        openinference(4, 3, "CHAIN", input="Why?"),
        openinference(5, 4, "RETRIEVER", **documents("a text")),
    ]

    assert [one.question for one in found(*spans)] == ["Why?"]


def test_two_conventions_tell_of_one_request_once():
    spans = [
        openinference(1, None, "CHAIN", input="Why?", output="So.", start=1, end=9),
        openinference(2, 1, "RETRIEVER", **documents("a text", ids=["7"])),
        span(
            3, None, start=1, end=9,
            attributes={
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": '{"inputs": "Why?"}',
            },
        ),
        span(
            4, 3,
            attributes={
                "traceloop.span.kind": "task",
                "gen_ai.operation.name": "vector_db_retrieve",
                "traceloop.entity.output": '{"documents": [{"page_content": "a text", "metadata": {}}]}',
            },
        ),
    ]  # fmt: skip

    assert [one.convention for one in found(*spans)] == ["openinference"]


def test_evaluations_and_what_is_ours_are_no_requests():
    judged = [
        openinference(1, None, "EVALUATOR", input="Was it good?"),
        openinference(2, 1, "CHAIN", input="Why?"),
        openinference(3, 2, "RETRIEVER", **documents("a text")),
    ]
    ours = [
        span(11, None, scope="ragmeter", attributes={"gen_ai.operation.name": "invoke_workflow"}),
        span(12, 11, scope="ragmeter", attributes={"gen_ai.operation.name": "retrieval"}),
    ]

    assert found(*judged, *ours) == []


def test_circles_and_long_chains_of_parents_end():
    circle = [openinference(1, 2, "CHAIN"), openinference(2, 1, "CHAIN")]
    chain = [openinference(n, n - 1, "CHAIN", input="Why?") for n in range(11, 3_000)]
    deep = openinference(3_000, 2_999, "RETRIEVER", **documents("a text"))

    assert only(*circle, *chain, deep).span.span_id == f"{11:016x}"


def test_a_reranking_that_does_not_say_what_it_kept_hides_what_the_model_saw():
    told = {"gen_ai.retrieval.query.text": "Why?", "gen_ai.retrieval.documents": '[{"id": "1"}]'}
    spans = [
        span(1, None, attributes={"gen_ai.operation.name": "invoke_workflow"}),
        span(2, 1, attributes={"gen_ai.operation.name": "retrieval", **told}),
        span(3, 1, attributes={"gen_ai.operation.name": "rerank"}),
    ]

    assert (only(*spans).usable, only(*spans).reason) == ("none", "rerank_invisible")
    assert found(spans[0], spans[2]) == []


_KIOSK = ("The van delivers parcels on weekdays.", "The kiosk keeps a missed parcel for seven days.")
_ASKED, _SAID = "How long does the kiosk keep it?", "For seven days."
_CONTEXT = "Context:\n" + "\n\n".join(_KIOSK)
_RESPONSES = {"model": "m", "instructions": _CONTEXT, "input": _ASKED}
_FORM = {"answer": _SAID, "sources": ["kiosk.md"]}


def _model(sent, said, *, number=4, parent=None, **more):
    return span(number, parent, "chat", attributes=chat(sent, {"parts": [said]}) | more)


@pytest.mark.parametrize(
    ("spans", "kept"),
    [
        (  # the Responses API, as Langfuse and MLflow write it
            [
                span(
                    1,
                    attributes={
                        "mlflow.spanType": '"CHAT_MODEL"',
                        "mlflow.spanInputs": json.dumps(_RESPONSES),
                        "mlflow.spanOutputs": json.dumps({"output": [{"role": "assistant", "content": _SAID}]}),
                    },
                )
            ],
            _KIOSK,
        ),
        (  # a prompt that is one text, and completions
            [
                span(
                    1,
                    attributes={
                        "langfuse.observation.type": "generation",
                        "langfuse.observation.input": f"{_CONTEXT}\n\nQuestion: {_ASKED}",
                        "langfuse.observation.output": json.dumps({"choices": [{"text": _SAID}]}),
                    },
                )
            ],
            _KIOSK,
        ),
        (  # the arguments of a function that never runs
            [
                _model(
                    f"{_CONTEXT}\n\nQuestion: {_ASKED}",
                    {"type": "tool_call", "name": "Answer", "arguments": _FORM},
                )
            ],
            _KIOSK,
        ),
        (  # a reranking that does not say what it kept, and a prompt that does
            _request(
                openinference(2, 1, "RETRIEVER", **documents(*_KIOSK)),
                openinference(3, 1, "RERANKER"),
                openinference(4, 1, "LLM", input=f"Context:\n{_KIOSK[1]}\n\nQuestion: {_ASKED}", output=_SAID),
                question=_ASKED,
                answer=_SAID,
            ),
            _KIOSK[1:],
        ),
        (  # a crew without inputs; its tool's name stands in `tools`
            _request(
                openinference(2, 1, "TOOL", **{"tool.name": "kiosk"}, output={"rules": _KIOSK, "count": 2}),
                question={},
                answer={"raw": _SAID},
                crew_tasks=json.dumps([{"description": _ASKED}]),
            ),
            _KIOSK,
        ),
    ],
)
def test_question_documents_and_answer_stand_where_emitters_put_them(spans, kept):
    request = only(*spans, tools=["kiosk"])

    assert (request.question, tuple(texts(request)), request.answer) == (_ASKED, kept, _SAID)
    assert request.usable == "full"


@pytest.mark.parametrize(
    "spans",
    [
        _request(
            openinference(2, 1, "RETRIEVER", **documents(*_KIOSK)),
            openinference(3, 1, "LLM", input=f"{_CONTEXT}\n\n{_ASKED}", output=_SAID),
        ),
        [_model(f"{_CONTEXT}\n\nQuestion: {_ASKED}", {"type": "text", "content": _SAID})],
    ],
)
def test_values_cut_by_a_limit_on_their_length_are_truncated(spans):
    short = [
        replace(one, attributes={key: value[:30] for key, value in one.attributes.items()}) for one in spans
    ]
    reading = read_trace(short)

    reasons = [one.reason for one in (*reading.requests, *reading.unheard)]
    assert reasons == ["truncated"]


def test_log_records_tell_question_and_answer_of_a_request():
    note = LogNote(
        trace_id=span(1).trace_id,
        span_id=f"{3:016x}",
        event="gen_ai.client.inference.operation.details",
        attributes={
            "gen_ai.prompt.variable.question": "Why?",
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "So."}]}],
        },
    )
    request = only(
        span(1, None, attributes={"gen_ai.operation.name": "invoke_workflow"}),
        span(2, 1, attributes={"gen_ai.operation.name": "retrieval"}),
        span(3, 1, attributes={"gen_ai.operation.name": "chat"}),
        logs=[note],
    )

    assert (request.question, request.answer, request.reason) == ("Why?", "So.", "content_in_logs")


@pytest.mark.parametrize(
    "told",
    [
        {"text_resource": {"text": "one", "mimetype": None}, "id_": "a"},
        {"content": {"type": "TEXT", "text": "one"}, "id": "a"},
        {"node": {"text": "one", "id_": "a", "metadata": {}}},
        {"document": {"content": "one", "id": "a"}},
        {"document.content": "one", "document.id": "a"},
        {"lc": 1, "type": "constructor", "id": ["x"], "kwargs": {"page_content": "one", "id": "a"}},
    ],
)
def test_a_document_is_read_in_any_of_its_forms(told):
    [document] = documents_in([told])

    assert (document.text, document.id) == ("one", "a")


TOOL = RetrievalTool("search_*")


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ('[{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]', [("one", "a"), ("two", "b")]),
        ('["one", "two"]', [("one", None), ("two", None)]),
        ('{"results": [{"content": "one", "doc_id": 3}]}', [("one", "3")]),
        ("[a.md] one\n---\n[b.md] two\n\nmore", [("one", "a.md"), ("two\n\nmore", "b.md")]),
        ("one\n\ntwo", [("one", None), ("two", None)]),
        ("Document 1:\none\nDocument 2:\ntwo", [("one", None), ("two", None)]),
        ("===== Document 0 =====\none\n===== Document 1 =====\ntwo", [("one", None), ("two", None)]),
        ("[1] one\n[2] two", [("one", None), ("two", None)]),
        ('<doc id="a">one</doc>\n<doc id="b">two</doc>', [("one", "a"), ("two", "b")]),
        ('{"content": "one", "type": "tool"}', [("one", None)]),
        ('[{"type": "text", "text": "one"}]', [("one", None)]),
        ("[{'id': 'a', 'text': \"it's one\"}, {'text': 'two'}]", [("it's one", "a"), ("two", None)]),
        ("['one', 'two']", [("one", None), ("two", None)]),
        ("[refund.md] one", [("one", "refund.md")]),
        ("No results found.", []),
        ("[]", []),
        ("", []),
        (None, []),
    ],
)
def test_a_tools_result_is_cut_into_documents(result, wanted):
    assert [(item.text, item.id) for item in cut(result, TOOL)] == wanted


def test_a_rule_of_ones_own_cuts_a_tools_result():
    tool = RetrievalTool("search_*", separator=r"\|\|")

    assert [item.text for item in cut("one\n\nstill one||two", tool)] == ["one\n\nstill one", "two"]


ROWS = [{"sku": 7, "label": "Mug", "info": {"body": "short"}, "rank": 0.5, "note": "a longer text"}]


@pytest.mark.parametrize(
    ("rule", "result", "wanted"),
    [
        ("*:text=label,id=sku,score=rank", ROWS, [("Mug", "7", 0.5)]),
        ("*:text=info.body", json.dumps({"hits": {"hits": ROWS}}), [("short", None, None)]),
        ("*:text=body,id=key", [{"key": "k", "_source": {"body": "b"}}], [("b", None, None)]),
        ("*:id=sku", ROWS, [("a longer text", "7", None)]),
        ("*:text=label", [{"type": "text", "text": json.dumps(ROWS)}], [("Mug", None, None)]),
        ("*:text=label", {"total": 0, "rows": []}, []),
        ("*:text=label", "No results found.", []),
        ("*:text=label", {"rows": [{"other": "a text that is longer than a word"}]}, None),
        ("*:text=label", "a text that holds no record", None),
        ("server:search", "one", [("one", None, None)]),
    ],
)
def test_a_rule_names_the_fields_of_records(rule, result, wanted):
    items = cut(result, RetrievalTool.parse(rule))

    told = None if items is None else [(item.text, item.id, item.score) for item in items]
    assert told == wanted


@pytest.mark.parametrize("rule", ["search:body=x", "search:text=,id=a"])
def test_a_field_that_is_none_is_refused(rule):
    with pytest.raises(ConfigurationError, match="text=body,id=key"):
        RetrievalTool.parse(rule)


@pytest.mark.parametrize("arguments", [("",), ("search", "(")])
def test_a_rule_that_cannot_be_is_refused(arguments):
    with pytest.raises(ConfigurationError):
        RetrievalTool(*arguments)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("Why?", "Why?"),
        ('{"question": "Why?", "context": "texts"}', '{"question": "Why?", "context": "texts"}'),
        ({"input": "Why?", "chat_history": []}, "Why?"),
        ("null", None),
        ([{"name": "search", "args": {"query": "why"}, "id": "1", "type": "tool_call"}], None),
        ({"data": {"prompt": {"question": "Why?"}, "retriever": {"query": "why"}}}, "Why?"),
        ({"query_bundle": {"query_str": "Why?", "embedding": None}}, "Why?"),
        ({"messages": [{"role": "user", "content": "Hm"}, ["user", "Why?"]]}, "Why?"),
        ({"messages": [[{"id": ["m", "HumanMessage"], "lc": 1, "type": "constructor",
                         "kwargs": {"content": "Why?"}}]]}, "Why?"),
        ([{"type": "human", "data": {"content": "Why?"}}], "Why?"),
        ({"topic": "Why?"}, None),
        ({"topic": "one", "tone": "two"}, None),
        ("__REDACTED__", None),
        ("<Query object at 0x7f>", None),
        (None, None),
    ],
)  # fmt: skip
def test_the_question_is_found(value, wanted):
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
        wanted = value["question"]
    assert question_in(value) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("So.", "So."),
        ({"question": "Why?", "docs": ["a"], "answer": "So."}, "So."),
        ({"response": "So.", "source_nodes": ["<NodeWithScore(node=TextNode(id_=1), score=1)>"]}, "So."),
        ({"response_gen": "<generator object>", "source_nodes": []}, None),
        ({"llm": {"replies": ["ChatMessage(_role=<ChatRole.ASSISTANT: 'a'>, _content=[])"]}}, None),
        ({"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]}, "So."),
        ({"lc": 1, "type": "constructor", "id": ["x", "AIMessage"], "kwargs": {"content": "So."}}, "So."),
        ([{"role": "assistant", "parts": [{"type": "text", "content": "So."},
                                          {"type": "tool_call", "name": "x"}]}], "So."),
        ("<generator object f at 0x7f>", None),
        ([], None),
    ],
)  # fmt: skip
def test_the_answer_is_found(value, wanted):
    assert answer_in(value) == wanted


@pytest.mark.parametrize("value", ["a text", "12", {"a": 1}, [{"role": "user", "content": "x"}], 7, None])
def test_what_is_no_list_of_documents_is_none(value):
    assert documents_in(value) is None


def test_messages_and_documents_nested_without_end_are_given_up():
    value = "[" * 50_000 + "]" * 50_000
    deep = []
    for _ in range(50):
        deep = [deep]

    assert documents_in(value) is None
    assert documents_in(deep) is None
    assert messages_in(deep) == []
