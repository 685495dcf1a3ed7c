"""A request that spans tell of is the same sample for the command line, the processor and a callback."""

import pytest
from otlp_spans import documents, exchange, only, openinference

from ragmeter.adapters.opentelemetry.build import build_run, sample_of
from ragmeter.metrics import Reference
from ragmeter.requests.scope import RequestScope


def _reranked(*queries, asked=None):
    """A request whose retrievers had these queries; a reranker took their documents together."""
    retrievers = [
        openinference(
            number, 1, "RETRIEVER", **documents(f"text {number}"), **({} if query is None else {"input": query})
        )
        for number, query in enumerate(queries, start=2)
    ]
    reranker = openinference(
        9,
        1,
        "RERANKER",
        **documents("text 2", prefix="reranker.output_documents"),
        **({} if asked is None else {"reranker.query": asked}),
    )
    whole = openinference(1, None, "CHAIN", "qa", input="And there?", output="Rain.")
    return only(whole, *retrievers, reranker)


@pytest.mark.parametrize(
    ("queries", "asked", "expected"),
    [
        (("weather Riga",), None, "weather Riga"),
        (("weather Riga", "weather Riga"), "another", "weather Riga"),
        (("weather Riga", "climate Riga"), None, None),
        (("weather Riga", "climate Riga"), "weather Riga", None),
        (("weather Riga", None), None, None),
        ((None, None), "weather Riga", "weather Riga"),
        (("And there?",), None, None),
    ],
)
def test_what_was_searched_for_is_the_same_for_the_command_line_and_the_processor(queries, asked, expected):
    found = _reranked(*queries, asked=asked)

    assert sample_of(found).search_query == expected
    assert build_run(found).sample.search_query == expected


def test_two_queries_under_one_reranker_are_none_to_the_callback_too():
    pytest.importorskip("langchain_core")
    from langchain_core.runnables import RunnableLambda
    from langchain_fakes import FixedRetriever, Watch, docs

    one, two = FixedRetriever(found=docs("a")), FixedRetriever(found=docs("b"))

    def search(queries):
        found = one.invoke(queries[0]) + two.invoke(queries[1])
        return {"answer": "Rain.", "context": found[:1]}

    searched_for = []
    for queries in (["weather Riga", "climate Riga"], ["weather Riga", "weather Riga"]):
        watch = Watch()
        (RunnableLambda(lambda _, queries=queries: queries) | search).invoke(
            {"question": "And there?"}, config=watch.config
        )
        searched_for.append(watch.sample.search_query)
        watch.close()

    assert searched_for == [None, "weather Riga"]


def test_a_question_said_around_the_request_is_what_queries_are_compared_with():
    scope = RequestScope(question="weather Riga", name="weather", reference=Reference(answer="Rain."))
    sample = build_run(_reranked("weather Riga"), scope).sample

    assert (sample.question, sample.search_query, sample.name) == ("weather Riga", None, "weather")
    assert sample.reference == Reference(answer="Rain.")


@pytest.mark.parametrize(
    "attributes",
    [
        {"metadata": '{"tenant": "acme", "plan": "free"}'},
        {"ragmeter.metadata.tenant": "acme"},
        {"traceloop.association.properties.tenant": "acme"},
        {"langfuse.trace.metadata.tenant": "acme"},
        {"langsmith.metadata.tenant": "acme"},
    ],
)
def test_metadata_on_spans_is_that_of_the_request(attributes):
    """The request's own span wins over those within it."""
    retriever = openinference(2, 1, "RETRIEVER", **documents("text"), **{"ragmeter.metadata.tenant": "inner"})
    whole = openinference(1, None, "CHAIN", "qa", input="q", output="a", **attributes)
    run = build_run(only(whole, retriever))
    assert run.framework_metadata["tenant"] == "acme"
    assert run.metadata == {}


@pytest.mark.parametrize(
    ("raised", "status"),
    [("CancelledError", "cancelled"), ("GeneratorExit", "cancelled"), ("ValueError", "error")],
)
def test_a_request_that_its_caller_gave_up_did_not_fail(raised, status):
    chain = openinference(1, None, "CHAIN", input="q", failed=True, **{"error.type": raised})
    asked = only(chain, openinference(2, 1, "RETRIEVER", **documents("one")))

    assert (sample_of(asked).status, build_run(asked).error_type) == (status, raised)


LONG = "It rises in the north, far up in the valley."


@pytest.mark.parametrize(
    ("answer", "said", "ended", "raised", "status"),
    [
        ("It rises ", LONG, 9, None, "partial"),  # the model wrote on when nothing of it was read any more
        (None, None, 9, "GeneratorExit", "partial"),  # the stream was closed in the model
        (None, None, 3, "GeneratorExit", "partial"),  # and the spans around it end with it
        (None, LONG, 9, None, "ok"),  # read to its end, after the call had returned it
        (LONG, LONG, 9, None, "ok"),
        ("It rises ", LONG, 3, None, "ok"),  # the chain cut the reply itself
        (LONG, LONG, 3, "CancelledError", "ok"),  # a call that timed out, and another one answered
    ],
)
def test_a_stream_that_its_reader_left_is_partial(answer, said, ended, raised, status):
    whole = openinference(1, None, "CHAIN", input="q", end=4, **({} if answer is None else {"output": answer}))
    more = {"failed": True, "error.type": raised} if raised else {}
    model = openinference(3, 1, "LLM", end=ended, **exchange("Context: one\n\nQuestion: q", said), **more)
    retriever = openinference(2, 1, "RETRIEVER", **documents("one"))

    assert sample_of(only(whole, retriever, model)).status == status


@pytest.mark.parametrize(
    ("raised", "status"),
    [("GeneratorExit", "partial"), ("CancelledError", "cancelled"), ("ValueError", "error")],
)
def test_a_stream_whose_request_never_ended(raised, status):
    """An instrumentation that ends the span around a stream with the stream has none, if its reader left."""
    model = openinference(3, 1, "LLM", failed=True, **{"error.type": raised}, **exchange("Context: one", None))

    assert sample_of(only(openinference(2, 1, "RETRIEVER", **documents("one")), model)).status == status


@pytest.mark.parametrize(
    "told",
    [
        {"session.id": "c", "user.id": "u"},
        {"langsmith.metadata.thread_id": "c", "langsmith.metadata.user_id": "u"},
        {"traceloop.association.properties.session_id": "c", "traceloop.association.properties.user_id": "u"},
        {"ai.telemetry.metadata.sessionId": "c", "ai.telemetry.metadata.userId": "u"},
        {"metadata": '{"conversation_id": "c", "user_id": "u"}'},
    ],
)
def test_conversation_and_user_are_known_by_any_convention(told):
    run = build_run(only(openinference(2, None, "RETRIEVER", input="Why?", **documents("x"), **told)))

    assert (run.conversation_id, run.user_id) == ("c", "u")
