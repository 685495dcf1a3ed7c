"""Two calls, one request: a retriever that is called by itself, and the call that is given what it found."""

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from contextvars import copy_context
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel
from langchain_fakes import PROMPT, FixedRetriever, ScriptedModel, TellingModel, Watch, graph_of, joined
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import use_span

from ragmeter.requests import lone_retrieval

FACTS = {
    "card": "Refunds take five working days and go back to the original card.",
    "fee": "Shipping costs four euros and is not paid back with a refund.",
    "gift": "Gift cards are valid for three years from the day of purchase.",
}
QUESTION = "How long do refunds take?"
ANSWER = "They take five working days."


class Picking(TypedDict):
    question: str
    found: list[Document]
    answer: str


def retriever(*names: str) -> FixedRetriever:
    return FixedRetriever(found=[Document(FACTS[name], id=name) for name in names])


def answering(*replies: str) -> Runnable[Any, str]:
    return PROMPT | ScriptedModel(script=[*(replies or [ANSWER])]) | StrOutputParser()


def pasted(documents: list[Document], question: str = QUESTION) -> dict[str, str]:
    return {"context": joined(documents), "question": question}


def requests_of(watch: Watch) -> list[tuple[Any, ...]]:
    """What each request is: status, question, its contexts' ids, what its retrievals were asked and found."""
    return [
        (
            one.sample.status,
            one.sample.question,
            [item.id for item in one.sample.contexts or ()],
            [(item.query, [document.id for document in item.contexts]) for item in one.run.retrievals],
        )
        for one in watch.results
    ]


def pasted_by_the_caller(config: Any) -> None:
    answering().invoke(pasted(retriever("card", "fee").invoke(QUESTION, config)), config)


def chosen_by_the_caller(config: Any) -> None:
    answering().invoke(pasted(retriever("card", "fee").invoke(QUESTION, config)[:1]), config)


def asked_in_other_words(config: Any) -> None:
    answering().invoke(pasted(retriever("card", "fee").invoke("refund duration", config)), config)


def handed_as_documents(config: Any) -> None:
    found = retriever("card", "fee").invoke(QUESTION, config)
    chain = RunnableLambda(lambda x: pasted(x["documents"], x["question"])) | answering()
    chain.invoke({"documents": found, "question": QUESTION}, config)


def handed_as_a_graphs_state(config: Any) -> None:
    """What a graph was given, and gives out again, it did not retrieve."""
    graph = graph_of(Picking, ("reply", lambda state: {"answer": answering().invoke(pasted(state["found"]))}))
    found = retriever(*BOTH).invoke(QUESTION, config)
    graph.invoke({"question": QUESTION, "found": found}, config)


def two_retrievers(config: Any) -> None:
    found = retriever("card").invoke("refund time", config) + retriever("fee").invoke("fees", config)
    answering().invoke(pasted(found), config)


def retrievers_side_by_side(config: Any) -> None:
    branches = RunnableParallel(one=retriever("card"), two=retriever("fee"))
    both = branches.invoke(QUESTION, {**config, "max_concurrency": 1})  # always in this order
    answering().invoke(pasted(both["one"] + both["two"]), config)


def graded_one_by_one(config: Any) -> None:
    found = retriever("card", "fee").invoke(QUESTION, config)
    kept = [one for one in found if answering("yes").invoke(pasted([one]), config) == "yes"]
    answering().invoke(pasted(kept), config)


def asked_twice_about_the_same(config: Any) -> None:
    found = retriever("card", "fee").invoke(QUESTION, config)
    answering().invoke(pasted(found), config)
    answering("It costs four euros.").invoke(pasted(found, "What does it cost?"), config)


def answered_in_a_stream(config: Any) -> None:
    found = retriever("card", "fee").invoke(QUESTION, config)
    list(answering().stream(pasted(found), config))


def failed_to_answer(config: Any) -> None:
    found = retriever("card", "fee").invoke(QUESTION, config)
    with suppress(ValueError):
        TellingModel(fail=1).invoke(PROMPT.format(**pasted(found)), config)


def left_while_it_answered(config: Any) -> None:
    found = retriever("card", "fee").invoke(QUESTION, config)
    stream = FakeListChatModel(responses=[ANSWER]).stream(PROMPT.format(**pasted(found)), config)
    next(stream)
    stream.close()


def answered_from_something_else(config: Any) -> None:
    retriever("card", "fee").invoke("gift cards", config)
    answering("I do not know.").invoke({"context": FACTS["gift"], "question": QUESTION}, config)


def another_users_in_the_same_thread(config: Any) -> None:
    """A pool's thread goes on to another user, whose unseen search found one of the same documents."""
    retriever("card", "gift").invoke("gift cards", config)
    answering().invoke(pasted([Document(FACTS["card"])]), config)


BOTH = ["card", "fee"]
ONE_REQUEST = [("ok", QUESTION, BOTH, [(QUESTION, BOTH)])]


@pytest.mark.parametrize(
    ("application", "requests"),
    [
        (pasted_by_the_caller, ONE_REQUEST),
        (chosen_by_the_caller, [("ok", QUESTION, ["card"], [(QUESTION, BOTH)])]),
        (asked_in_other_words, [("ok", QUESTION, BOTH, [("refund duration", BOTH)])]),
        (handed_as_documents, ONE_REQUEST),
        (handed_as_a_graphs_state, ONE_REQUEST),
        (answered_in_a_stream, ONE_REQUEST),
        (failed_to_answer, [("error", *ONE_REQUEST[0][1:])]),
        (left_while_it_answered, [("cancelled", *ONE_REQUEST[0][1:])]),
        (two_retrievers, [("ok", QUESTION, BOTH, [("refund time", ["card"]), ("fees", ["fee"])])]),
        (retrievers_side_by_side, [("ok", QUESTION, BOTH, [(QUESTION, ["card"]), (QUESTION, ["fee"])])]),
        (asked_twice_about_the_same, [*ONE_REQUEST, ("ok", "What does it cost?", BOTH, [])]),
        (graded_one_by_one, [("ok", QUESTION, ["card"], []), ("ok", QUESTION, ["fee"], []), *ONE_REQUEST]),
        (
            another_users_in_the_same_thread,
            [
                ("ok", QUESTION, ["card"], []),
                ("retrieval_only", "gift cards", ["card", "gift"], [("gift cards", ["card", "gift"])]),
            ],
        ),
        (answered_from_something_else, [("retrieval_only", "gift cards", BOTH, [("gift cards", BOTH)])]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_retrieval_and_the_call_that_shows_its_documents_are_one_request(
    watch: Watch, application: Callable[[Any], None], requests: list[Any]
) -> None:
    copy_context().run(application, watch.config)

    assert sorted(map(json.dumps, requests_of(watch))) == sorted(map(json.dumps, requests))
    stats = watch.meter.stats()
    assert (stats.captured, stats.exported, stats.in_flight) == (len(requests), len(requests), 0)


def test_where_spans_or_ids_say_that_both_are_one_users_a_part_is_enough(watch: Watch) -> None:
    """Otherwise what was asked, or all that was found, must stand in the prompt."""
    tracer = TracerProvider().get_tracer("shop")

    def ask(around: Any, then: Any) -> list[str]:
        before = len(watch.results)
        with around:
            found = retriever("card", "fee").invoke("refund duration", watch.config)
        with then:
            answering().invoke(pasted(found[:1]), watch.config)
        return [one.status for one in watch.samples[before:]]

    def run(around: Any, then: Any) -> list[str]:
        return copy_context().run(ask, around, then)

    apart = ["ok", "retrieval_only"]
    assert sorted(run(nullcontext(), nullcontext())) == apart
    assert sorted(run(tracer.start_as_current_span("GET /a"), nullcontext())) == apart
    one, other = tracer.start_span("GET /b"), tracer.start_span("GET /c")

    assert sorted(run(use_span(one), use_span(other))) == apart
    assert run(use_span(one), use_span(one)) == ["ok"]


@pytest.mark.parametrize("place", ["span", "conversation"])
def test_retrievers_of_other_tasks_are_of_the_request_within_the_same_span_or_conversation(
    watch: Watch, place: str
) -> None:
    """What they note in their own contexts is gone when they end."""
    metadata = {"session_id": "7"} if place == "conversation" else {}
    config = {**watch.config, "metadata": metadata}

    async def ask() -> None:
        one, other = await asyncio.gather(
            asyncio.to_thread(retriever("card").invoke, "refund time", config),
            retriever("fee").ainvoke("fees", config),
        )
        await answering().ainvoke(pasted([*one, *other]), config)

    tracer = TracerProvider().get_tracer("shop")
    with tracer.start_as_current_span("POST /ask") if place == "span" else nullcontext():
        asyncio.run(ask())

    (only,) = requests_of(watch)
    assert (only[:3], sorted(only[3])) == (
        ("ok", QUESTION, BOTH),
        [("fees", ["fee"]), ("refund time", ["card"])],
    )


def test_what_a_person_picked_is_of_the_request_that_was_interrupted(watch: Watch) -> None:
    """Resumed by another request of the web server, in a context of its own."""
    shop = graph_of(
        Picking,
        ("find", lambda state: {"found": retriever(*BOTH).invoke(state["question"])}),
        ("pick", lambda state: {"found": [state["found"][interrupt("Which?")]]}),
        ("reply", lambda state: {"answer": answering().invoke(pasted(state["found"]))}),
        checkpointer=InMemorySaver(),
    )
    config = {**watch.config, "configurable": {"thread_id": "7"}}
    copy_context().run(shop.invoke, {"question": QUESTION}, config)
    copy_context().run(shop.invoke, Command(resume=0), config)

    assert requests_of(watch) == [("ok", QUESTION, ["card"], [(QUESTION, BOTH)])]


def test_a_search_is_scored_after_a_moment_and_waits_for_a_call_that_is_under_way(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow() -> None:
        found = retriever("card").invoke(QUESTION, watch.config)
        began, go_on = threading.Event(), threading.Event()

        def wait(prompt: Any) -> Any:
            began.set()
            assert go_on.wait(30)
            return prompt

        chain = PROMPT | RunnableLambda(wait) | ScriptedModel(script=[ANSWER]) | StrOutputParser()
        context = copy_context()
        asking = threading.Thread(target=context.run, args=(chain.invoke, pasted(found), watch.config))
        asking.start()
        assert began.wait(30)
        monkeypatch.setattr(lone_retrieval, "WAIT_S", 0.0)
        retriever("gift").invoke("gift cards", watch.config)
        while not watch.memory.results:
            scored.wait(0.01)
        go_on.set()
        asking.join()

    scored = threading.Event()
    copy_context().run(follow)

    assert [row[1] for row in requests_of(watch)] == ["gift cards", QUESTION]


def test_too_many_searches_are_scored_at_once_and_none_is_lost(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lone_retrieval, "MOST_WAITING", 3)

    def search() -> None:
        for number in range(20):
            retriever("card").invoke(f"query {number}", watch.config)

    copy_context().run(search)

    assert [row[1] for row in requests_of(watch)] == [f"query {number}" for number in range(20)]


def test_what_waits_at_the_end_is_scored_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for timeout_s, exported in ((30.0, 1), (0.0, 0)):
        made = Watch()
        copy_context().run(retriever("card").invoke, QUESTION, made.config)
        while made.meter.stats().queue_size:
            threading.Event().wait(0.01)
        made.meter.shutdown(timeout_s=timeout_s)
        stats = made.meter.stats()
        assert stats.exported == exported
        assert stats.captured == stats.exported + sum(stats.dropped.values()) + stats.in_flight


@settings(max_examples=25, deadline=None)
@given(order=st.permutations([0, 0, 1, 1, 2, 2, 3, 3]), documents=st.permutations([*FACTS]))
def test_requests_at_once_never_get_each_others_documents(order: list[int], documents: list[str]) -> None:
    """Four tasks and, in the same order, one thread: each user gets their own documents in every order of steps."""
    users = [(f"What about {name}?", list(dict.fromkeys([name, "card"]))) for name in documents]
    users.append(("Why so?", ["fee"]))
    turns: list[asyncio.Semaphore] = []

    async def user(config: Any, number: int) -> None:
        question, names = users[number]
        await turns[number].acquire()
        found = await retriever(*names).ainvoke(question, config)
        await turns[number].acquire()
        await answering().ainvoke(pasted(found, question), config)

    async def all_users(config: Any) -> None:
        turns[:] = [asyncio.Semaphore(0) for _ in users]
        tasks = [asyncio.create_task(user(config, number)) for number in range(4)]
        for number in order:
            turns[number].release()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    def one_thread(config: Any) -> None:
        found: dict[int, list[Document]] = {}
        for number in order:
            question, names = users[number]
            if number in found:
                answering().invoke(pasted(found[number], question), config)
            else:
                found[number] = retriever(*names).invoke(question, config)

    expected = sorted(json.dumps(("ok", question, names, [(question, names)])) for question, names in users)
    for run in (lambda config: asyncio.run(all_users(config)), one_thread):
        made = Watch()
        copy_context().run(run, made.config)
        assert sorted(map(json.dumps, requests_of(made))) == expected
        made.close()
