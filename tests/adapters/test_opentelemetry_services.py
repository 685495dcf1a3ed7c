"""Requests over several services of one trace, and those that a queue continues in another trace."""

from dataclasses import replace

import pytest
from otlp_spans import chat, documents, exchange, openinference, span, texts

from ragmeter.adapters.opentelemetry.requests import read_trace

QUESTION = "How long do refunds take?"
FIRST = "Refunds are paid within 14 days of the return of the goods to us."
SECOND = "Shipping to Switzerland takes five working days and costs 9 francs."
ANSWER = "Refunds are paid within 14 days."
PROMPT = f"{FIRST}\n{SECOND}\n{QUESTION}"
IN_AND_OUT = {"input": QUESTION, "output": ANSWER}


def _of(service, *spans):
    return [replace(one, resource={"service.name": service}) for one in spans]


def _entry(number, parent, end):
    """A call of another process, and its beginning there; a service's own spans are below it."""
    return span(number, parent, "POST", kind="server", end=end)


def _search(number, parent, *found, start=None, query=QUESTION):
    return openinference(number, parent, "RETRIEVER", input=query, **documents(*found), **_times(start, 0.5))


def _times(start, lasts):
    return {} if start is None else {"start": start, "end": start + lasts}


def _model(number, parent, prompt=PROMPT, answer=ANSWER):
    return openinference(number, parent, "LLM", **exchange(prompt, answer))


def _chain(number, parent, **more):
    return openinference(number, parent, "CHAIN", "rag", **{**IN_AND_OUT, **more})


RERANKED = {
    **documents(SECOND, FIRST, prefix="reranker.input_documents"),
    **documents(FIRST, SECOND, prefix="reranker.output_documents"),
}
SEARCHED = _of("search", _entry(2, 1, 4), _search(3, 2, FIRST, SECOND))
ASKED = _of("model", _entry(5, 1, 8), _model(6, 5))
ONE_REQUEST = {
    "search in another service": [*_of("bot", _chain(1, None, end=9), _model(6, 1)), *SEARCHED],
    "answer in another service": [*_of("bot", _chain(1, None, end=9), _search(3, 1, FIRST, SECOND)), *ASKED],
    "both in others": [*_of("bot", _chain(1, None, end=9)), *SEARCHED, *ASKED],
    "no step above": [*_of("bot", _entry(1, None, 9)), *SEARCHED, *ASKED],
    "a chain only where the model is": [
        *_of("bot", _entry(1, None, 9)),
        *SEARCHED,
        *_of("model", _entry(5, 1, 8), _chain(6, 5, end=7.8), _model(7, 6)),
    ],
    "two searches before that chain": [
        *_of("bot", _entry(1, None, 9)),
        *_of("search", _entry(2, 1, 3), _search(11, 2, FIRST, start=2.2)),
        *_of("search", _entry(3, 1, 4), _search(12, 3, SECOND, start=3.2)),
        *_of("model", _entry(5, 1, 8), _chain(6, 5, end=7.8), _model(7, 6)),
    ],
    "each a chain": [
        *_of("bot", _chain(1, None, end=9)),
        *_of("search", _entry(2, 1, 4), _chain(10, 2, output=[FIRST, SECOND], start=2.1, end=3.9)),
        *_of("search", _search(3, 10, FIRST, SECOND)),
        *ASKED,
    ],
    "a reranking elsewhere": [
        *_of("bot", _chain(1, None, end=9), _search(2, 1, SECOND, FIRST), _model(6, 1)),
        *_of("ranks", _entry(3, 1, 5), openinference(4, 3, "RERANKER", **RERANKED)),
    ],
    "a retriever that calls one": [
        *_of("bot", _chain(1, None, end=9), _model(6, 1)),
        *_of("bot", openinference(2, 1, "RETRIEVER", input=QUESTION, end=5, **documents(FIRST, SECOND))),
        *_of("search", _entry(3, 2, 4.5), _search(4, 3, FIRST, SECOND, start=4)),
    ],
}


@pytest.mark.parametrize("name", ONE_REQUEST)
def test_a_request_over_services_is_one(name):
    for spans in (ONE_REQUEST[name], ONE_REQUEST[name][::-1]):
        [request], unheard = read_trace(spans)

        assert (request.question, texts(request), request.answer) == (QUESTION, [FIRST, SECOND], ANSWER)
        assert (request.usable, unheard) == ("full", [])


def test_what_another_service_retrieves_and_answers_is_a_request_of_its_own():
    """As is what a job, which was asked nothing, has others do one after the other."""
    other = "Is it free?"
    agent = _of("desk", _entry(3, 1, 7), _chain(4, 3, input=other, output="Yes, it is.", end=6.9))
    agent += _of("desk", _search(5, 4, SECOND), _model(6, 4, f"{SECOND}\n{other}", "Yes, it is."))
    bot = _of("bot", _chain(1, None, end=9), _search(2, 1, FIRST), _model(8, 1, f"{FIRST}\n{QUESTION}"))
    job = _of("job", openinference(1, None, "CHAIN", "nightly", end=9))
    job += _of("search", _entry(2, 1, 3), _search(11, 2, FIRST, start=2.2))
    job += _of("model", _entry(3, 1, 4), _model(12, 3, f"{FIRST}\n{QUESTION}"))
    job += _of("search", _entry(5, 1, 6), _search(13, 5, SECOND, start=5.2, query=other))
    job += _of("model", _entry(6, 1, 7), _model(14, 6, f"{SECOND}\n{other}", "Yes, it is."))

    for spans in ([*bot, *agent], job):
        requests = read_trace(spans).requests

        assert sorted(map(texts, requests)) == [[FIRST], [SECOND]]
        assert {one.answer for one in requests} == {ANSWER, "Yes, it is."}


def test_a_call_elsewhere_that_was_sent_other_texts_answers_nothing_here():
    greeting = _of("hello", _entry(5, 1, 8), _model(6, 5, "Greet the user.", "Hello!"))

    [request], [note] = read_trace([*_of("bot", _entry(1, None, 9)), *SEARCHED, *greeting])

    assert (request.question, request.answer) == (QUESTION, None)
    assert (note.service, note.reason) == ("hello", "no_retrieval_seen")


@pytest.mark.parametrize("linked", [0, 1])
def test_a_consumer_that_links_to_its_producer_has_a_reason_of_its_own(linked):
    """Whichever of its spans has the link."""
    spans = [
        span(1, None, "process", kind="consumer", end=9, is_linked=not linked),
        span(2, 1, "chat", attributes=chat(PROMPT, ANSWER), is_linked=bool(linked)),
    ]

    [note] = read_trace(spans).unheard

    assert note.reason == "linked_trace"
