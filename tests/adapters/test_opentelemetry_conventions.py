"""Where question, documents and answer stand in each convention, beyond what is recorded."""

import json
from dataclasses import replace

import pytest
from otlp_spans import chat, documents, exchange, found, only, openinference, span, texts

from ragmeter.adapters.opentelemetry.build import sample_of
from ragmeter.adapters.opentelemetry.record import LogNote
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.adapters.reading.results import RetrievalTool, cut
from ragmeter.adapters.reading.values import answer_in, documents_in, messages_in, question_in
from ragmeter.metrics import ConfigurationError


def _request(*inner, question="Why?", answer="Because.", **more):
    return (openinference(1, None, "CHAIN", "qa", input=question, output=answer, **more), *inner)


def test_documents_as_one_json_are_read():
    """As OpenInference's Java instrumentation writes them."""
    one = json.dumps([{"document.content": "a text", "document.id": "7", "document.score": 0.5}])
    retriever = openinference(2, 1, "RETRIEVER", **{"retrieval.documents": one})

    [context] = only(*_request(retriever)).contexts

    assert (context.text, context.id, context.score) == ("a text", "7", 0.5)


def test_a_retriever_without_documents_found_none():
    request = only(*_request(openinference(2, 1, "RETRIEVER", input="Why?")))

    assert (request.contexts, request.usable, request.reason) == ((), "full", None)


def test_a_retriever_that_failed_is_an_error_and_no_empty_retrieval():
    request = only(*_request(openinference(2, 1, "RETRIEVER", failed=True), failed=True, answer=""))

    assert (request.usable, request.reason, request.failed) == ("none", "retrieval_error", True)


def test_one_retriever_of_two_failed():
    good = openinference(3, 1, "RETRIEVER", **documents("a text"))
    request = only(*_request(openinference(2, 1, "RETRIEVER", failed=True), good))

    assert (texts(request), request.usable) == (["a text"], "full")


def test_a_retriever_in_a_retriever_counts_once():
    outer = openinference(2, 1, "RETRIEVER", end=6, **documents("b", "a"))
    inner = [openinference(n, 2, "RETRIEVER", **documents("a", "b", "c")) for n in (3, 4)]

    assert texts(only(*_request(outer, *inner))) == ["b", "a"]


def test_the_inner_retriever_counts_where_the_outer_one_says_nothing():
    outer = openinference(2, 1, "RETRIEVER", end=9)
    inner = [openinference(n, 2, "RETRIEVER", **documents(text)) for n, text in ((3, "a"), (5, "b"))]

    assert texts(only(*_request(outer, *inner))) == ["a", "b"]


def test_the_last_of_two_rerankings_counts():
    def rerank(number, given, kept):
        return openinference(
            number,
            1,
            "RERANKER",
            **documents(*given, prefix="reranker.input_documents"),
            **documents(*kept, prefix="reranker.output_documents"),
        )

    request = only(
        *_request(
            openinference(2, 1, "RETRIEVER", **documents("a", "b", "c")),
            rerank(3, "abc", "cb"),
            rerank(4, "cb", "b"),
        )
    )

    assert texts(request) == ["b"]
    assert [one.read.span.span_id for one in request.seen] == [f"{4:016x}"]


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


def test_a_reranking_of_one_retrieval_leaves_the_other_alone():
    request = only(
        *_request(
            openinference(2, 1, "RETRIEVER", **documents("a", "b")),
            openinference(3, 1, "RETRIEVER", **documents("x", "y")),
            openinference(
                4,
                1,
                "RERANKER",
                **documents("a", "b", prefix="reranker.input_documents"),
                **documents("b", prefix="reranker.output_documents"),
            ),
        )
    )

    assert texts(request) == ["x", "y", "b"]


def test_a_step_that_reranks_is_known_by_its_nodes():
    """LlamaIndex: a node postprocessor of the application's own has no documents on its span."""

    def nodes(*ids):
        return json.dumps([f"<NodeWithScore(node=TextNode(id_={i}), score=0.5)>" for i in ids])

    request = only(
        *_request(
            openinference(2, 1, "RETRIEVER", **documents("one", "two", "three", ids="abc")),
            openinference(
                3, 1, "CHAIN", "Mine._postprocess_nodes", input={"nodes": json.loads(nodes(*"abc"))},
                output=nodes("c", "a"),
            ),
        )
    )  # fmt: skip

    assert texts(request) == ["three", "one"]


def test_what_the_model_was_not_sent_was_not_seen():
    first, second = "The first of two long enough texts.", "The other one, which nobody sent."
    model = openinference(3, 1, "LLM", **exchange(f"Use this: {first}"))
    request = only(*_request(openinference(2, 1, "RETRIEVER", **documents(first, second)), model))

    assert texts(request) == [first]


def test_what_a_model_would_have_been_sent_is_not_known_when_it_was_not_called():
    first, second = "The first of two long enough texts.", "The other one, found after it."
    request = only(
        *_request(
            openinference(2, 1, "RETRIEVER", **documents(first)),
            openinference(3, 1, "LLM", **exchange(first)),
            openinference(4, 1, "RETRIEVER", **documents(second)),
            failed=True,
        )
    )

    assert texts(request) == [first, second]


def test_what_a_model_reasoned_is_not_its_answer():
    said = "llm.output_messages.0.message"
    model = openinference(
        3,
        1,
        "LLM",
        **{
            f"{said}.role": "assistant",
            f"{said}.contents.0.message_content.type": "reasoning",
            f"{said}.contents.0.message_content.text": "Hm.",
            f"{said}.contents.1.message_content.type": "text",
            f"{said}.contents.1.message_content.text": "So.",
        },
    )

    assert only(*_request(openinference(2, 1, "RETRIEVER"), model, answer="")).answer == "So."


def test_hidden_texts_are_not_taken_from_where_they_leak():
    leak = openinference(3, 1, "PROMPT", **{"llm.prompt_template.variables": json.dumps({"context": "a text"})})
    request = only(
        *_request(
            openinference(2, 1, "RETRIEVER", **documents("__REDACTED__", ids=["7"])),
            leak,
            question="__REDACTED__",
            answer="__REDACTED__",
        )
    )

    assert (request.question, request.answer, texts(request)) == (None, None, [None])
    assert (request.usable, request.reason) == ("ids_only", "redacted")


@pytest.mark.parametrize(
    "attributes",
    [
        {"dropped": 3, **documents("a", "b")},
        {"retrieval.documents.7.document.content": "the first seven are gone"},
        {"dropped": 9},
    ],
)
def test_a_retrieval_whose_attributes_were_dropped_is_truncated(attributes):
    request = only(*_request(openinference(2, 1, "RETRIEVER", **attributes)))

    assert (request.usable, request.reason) == ("none", "truncated")


def test_json_that_breaks_off_is_truncated():
    broken = '{"documents": [{"page_content": "a text that br'
    attributes = {"traceloop.span.kind": "task", "gen_ai.operation.name": "vector_db_retrieve"}
    request = only(
        span(1, None, attributes={"traceloop.span.kind": "workflow"}),
        span(2, 1, attributes={**attributes, "traceloop.entity.output": broken}),
    )

    assert request.reason == "truncated"


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


def test_texts_in_the_documents_of_the_genai_conventions_are_read():
    """The conventions allow more keys; some emitters add the text."""
    told = json.dumps([{"id": "1", "score": 0.5, "content": "a text"}])
    attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "Why?"}
    request = only(span(1, None, attributes={**attributes, "gen_ai.retrieval.documents": told}))

    assert (texts(request), request.usable, request.span) == (["a text"], "full", None)


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


def test_chunks_of_one_size_are_whole():
    """Many cut an index into chunks of as many characters, within sentences."""
    text = " ".join(_KIOSK) * 3
    chunks = [text[start : start + 60] for start in range(0, 240, 60)]
    request = only(
        *_request(
            openinference(2, 1, "RETRIEVER", **documents(*chunks)),
            openinference(3, 1, "LLM", input=_ASKED, output=_SAID),
        )
    )

    assert (request.usable, texts(request)) == ("full", chunks)


def test_a_reranking_by_the_ai_sdk_is_told_by_places():
    ranking = [json.dumps({"index": place, "relevanceScore": 0.5}) for place in (2, 0)]
    request = only(
        span(1, None, attributes={"ai.operationId": "ai.generateText", "ai.prompt": '{"prompt": "Why?"}'}),
        span(
            2, 1,
            attributes={
                "ai.operationId": "ai.rerank.doRerank",
                "ai.documents": [json.dumps(text) for text in ("one", "two", "three")],
                "ai.ranking": ranking,
            },
        ),
    )  # fmt: skip

    assert (texts(request), request.question) == (["three", "one"], "Why?")


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


def test_llama_index_by_openllmetry_is_told_by_its_nodes():
    def task(number, parent, name, given, gave):
        return span(
            number, parent, f"{name}.task", scope="opentelemetry.instrumentation.llamaindex",
            attributes={
                "traceloop.span.kind": "task",
                "traceloop.entity.name": f"{name}.task",
                "traceloop.entity.input": json.dumps(given),
                "traceloop.entity.output": json.dumps(gave),
            },
        )  # fmt: skip

    def node(identity, text):
        return json.dumps({"node": {"id_": identity, "text": text, "metadata": {}}, "score": 0.5})

    request = only(
        task(1, None, "Engine", {"str_or_query_bundle": "Why?"}, {"response": "So."}),
        task(2, 1, "ShopSearch", {"bundle": {"query_str": "Why?"}}, [node("a", "one"), node("b", "two")]),
        task(3, 1, "Cut", {"nodes": [node("a", "one"), node("b", "two")]}, [node("b", "two")]),
    )

    assert (request.question, request.answer, texts(request)) == ("Why?", "So.", ["two"])


def test_a_function_traced_as_a_task_is_a_retrieval_by_its_name_and_what_it_gave():
    def decorated(number, parent, kind, name, gave):
        told = {"traceloop.span.kind": kind, "traceloop.entity.name": name}
        values = {"traceloop.entity.input": '{"args": ["Why?"]}', "traceloop.entity.output": json.dumps(gave)}
        return span(number, parent, attributes={**told, **values})

    request = only(
        decorated(1, None, "workflow", "ask", "So."),
        decorated(2, 1, "task", "retrieve_docs", ["one", "two"]),
        decorated(3, 1, "task", "retrieve_and_answer", ["no document"]),
    )

    assert texts(request) == ["one", "two"]


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


def test_a_retriever_within_a_tool_is_the_retrieval():
    request = only(
        openinference(1, None, "AGENT", input="Why?", output="So."),
        openinference(2, 1, "TOOL", "search_docs", output="one\n\ntwo", end=9),
        openinference(3, 2, "RETRIEVER", **documents("one", "two", ids="ab")),
        tools=["search_*"],
    )

    assert [item.id for item in request.contexts] == ["a", "b"]


def test_a_tool_that_hands_out_its_last_answer_is_no_retrieval():
    request = only(
        openinference(1, None, "AGENT", input={"task": "Why?"}, output="So."),
        openinference(2, 1, "TOOL", "Search", **{"tool.name": "search_docs"}, output='["one"]'),
        openinference(3, 1, "TOOL", "FinalAnswer", **{"tool.name": "final_answer"}, output="So."),
        tools=["search_*"],
    )

    assert (texts(request), request.question) == (["one"], "Why?")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("Why?", "Why?"),
        ('{"question": "Why?", "context": "texts"}', '{"question": "Why?", "context": "texts"}'),
        ({"input": "Why?", "chat_history": []}, "Why?"),
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
