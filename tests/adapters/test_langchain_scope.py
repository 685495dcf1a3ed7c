"""What travels with a request: references, names, tags, ids; and reading a request differently."""

import asyncio
import os
from typing import Any
from uuid import uuid4

import pytest
from forked import in_child
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_fakes import (
    PROMPT,
    EchoRetriever,
    FixedRetriever,
    HangingRetriever,
    TellingModel,
    Watch,
    docs,
    expect,
    frameworks_deprecate,
    joined,
    lcel,
    texts,
    watching,
)

import ragmeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.exporters.memory import InMemoryExporter
from ragmeter.metrics import Reference


def noted(watch: Watch, **note: Any) -> dict[str, Any]:
    """A config with the handler and a note."""
    return {**watch.config, "metadata": {"ragmeter": note}}


def test_everything_a_note_may_say(watch: Watch, chain: Any) -> None:
    """One nested dictionary; what is not ours to read becomes metadata."""
    config = noted(
        watch,
        reference={"answer": "A", "contexts": ["doc-a"], "context_ids": ["id-a"]},
        name="support-bot",
        session_id="s1",
        user_id="u1",
        tags=["beta"],
        tenant="acme",
    )
    config["tags"] = ["web"]
    chain.invoke("who?", config=config)

    run = watch.only.run
    assert run.sample.reference == Reference(answer="A", contexts=("doc-a",), context_ids=("id-a",))
    assert (run.name, run.conversation_id, run.user_id) == ("support-bot", "s1", "u1")
    assert run.tags == ("web", "beta")
    assert run.metadata == {"tenant": "acme"}


def test_metadata_of_the_config_makes_segments_and_goes_nowhere_else(chain: Any) -> None:
    """Also within a block that puts requests together."""
    memory = InMemoryExporter()
    with ragmeter.RagMeter(
        metrics=["lexical_groundedness"], exporters=[memory], segments=["tenant", "retriever"]
    ) as meter:
        config: Any = {
            "callbacks": [RagMeterCallbackHandler(meter=meter)],
            "metadata": {"tenant": "acme", "data_source_id": "ignored"},
        }
        chain.invoke("who?", config=config)
        with ragmeter.request("who?"):
            chain.invoke("who?", config=config)
        assert meter.flush(60)
        assert meter.quality("lexical_groundedness", segment="tenant:acme").n_requests == 2
        names = {key.segment for key in meter.quality() if key.segment.startswith("retriever:")}
        assert len(names) == 1
        assert "retriever:unknown" not in names
    assert [one.run.metadata for one in memory.results] == [{}, {}]


def test_reference_by_context_variable_leaks_nowhere(watch: Watch, chain: Any) -> None:
    """``with ragmeter.reference(...)`` is read once, when the request starts."""
    with ragmeter.reference(answer="A"):
        chain.invoke("inside", config=watch.config)
        asyncio.run(chain.ainvoke("async", config=watch.config))
    chain.invoke("outside", config=watch.config)

    given = {sample.question: sample.reference for sample in watch.samples}
    assert given == {"inside": Reference(answer="A"), "async": Reference(answer="A"), "outside": None}


@expect(reference=Reference(answer="A"), user_id="u1")
def test_annotate_by_run_id(watch: Watch, chain: Any) -> None:
    """A note for one request, by the run id the application chose."""
    run_id = uuid4()
    watch.handler.annotate(run_id, reference={"answer": "A"})
    watch.handler.annotate(str(run_id), user_id="u1")
    chain.invoke("who?", config={**watch.config, "run_id": run_id})

    run = watch.only.run
    assert run.run_id == str(run_id)


@pytest.mark.contains_errors
@pytest.mark.parametrize(
    ("run_id", "note", "fix"),
    [
        ("SECRET-ID", {"name": "n"}, "pass the one that the request's config has as run_id"),
        (None, {"name": "n"}, "pass the one that the request's config has as run_id"),
        (uuid4(), {"reference": {"anwser": "SECRET-TEXT"}}, "reference"),
        (uuid4(), {"reference": 5}, "reference"),
        (uuid4(), {"tags": 7}, ""),
    ],
)
def test_a_malformed_annotation_loses_itself(
    watch: Watch, chain: Any, caplog: Any, run_id: Any, note: Any, fix: str
) -> None:
    """Nothing raises into the application at run time; the log says what to pass, once, without texts."""
    for _ in range(3):
        watch.handler.annotate(run_id, **note)
    chain.invoke("who?", config=watch.config)

    assert watch.sample.reference is None
    assert watch.meter.stats().internal_errors["langchain.annotate"] == 3
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert fix in record.getMessage()
    assert "SECRET" not in record.getMessage()


@expect(texts=["doc-a", "doc-b"], reference=None)
@pytest.mark.contains_errors
def test_a_malformed_note_loses_the_note_not_the_request(watch: Watch, chain: Any) -> None:
    """A wrong reference in metadata is contained; the sample is there without it."""
    chain.invoke("who?", config=noted(watch, reference={"anwser": "A"}))

    assert watch.meter.stats().internal_errors == {"langchain.metadata": 1}


@expect(conversation_id="c1", user_id="7")
@pytest.mark.parametrize("key", ["thread_id", "session_id", "conversation_id"])
@pytest.mark.parametrize("place", ["metadata", "configurable"])
def test_ids_of_the_config(watch: Watch, chain: Any, place: str, key: str) -> None:
    """Where other tracers read them, and in LangChain's own place, which newer releases do not copy."""
    chain.invoke("who?", config={**watch.config, place: {key: "c1", "user_id": 7, "api_key": "k"}})


@expect(reference=Reference(answer="inner"))
def test_the_note_of_the_call_wins_over_the_context(watch: Watch, chain: Any) -> None:
    """The nearer, the stronger."""
    with ragmeter.reference(answer="outer"):
        chain.invoke("who?", config=noted(watch, reference={"answer": "inner"}))


@expect(question="original")
def test_a_question_told_by_note(watch: Watch, chain: Any) -> None:
    """Where the framework's view of the question is not the user's."""
    chain.invoke("translated", config=noted(watch, question="original"))


@expect(question="the whole question", texts=["doc-a", "doc-b"] * 2)
def test_a_request_by_hand_takes_the_chain_in(watch: Watch, chain: Any) -> None:
    """Framework requests within ``meter.request`` belong to it."""
    with watch.meter.request("the whole question"):
        chain.invoke("part one", config=watch.config)
        chain.invoke("part two", config=watch.config)


@expect(question="who?")
def test_suppressed_requests_are_not_captured(watch: Watch, chain: Any) -> None:
    """An offline evaluation of the same chain is not traffic."""
    with ragmeter.suppress():
        chain.invoke("unheard", config=watch.config)
        asyncio.run(chain.ainvoke("unheard", config=watch.config))
        list(chain.stream("unheard", config=watch.config))
        chain.invoke("unheard", config=watch.config)
    chain.invoke("who?", config=watch.config)


@expect(question="who?", answer="saw doc-a", texts=["doc-a"], retrievals=1)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_suppress_inside_a_request_leaves_that_part_out(watch: Watch, asynchronous: bool) -> None:
    """A step that grades its own answer by a chain leaves nothing in the sample."""
    chain = lcel(FixedRetriever(found=docs("a")))
    grader = lcel(FixedRetriever(found=docs("of-the-grader")))
    broken = FixedRetriever(found=[], error=True)

    def step(question: str) -> str:
        answer = chain.invoke(question)
        with ragmeter.suppress():
            grader.batch([f"is {answer!r} right?", "really?"])
            with pytest.raises(LookupError):
                broken.invoke(question)
        return answer

    async def async_step(question: str) -> str:
        answer = await chain.ainvoke(question)
        with ragmeter.suppress():
            await grader.ainvoke(f"is {answer!r} right?")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(HangingRetriever().ainvoke(question), 0.01)
        return answer

    if asynchronous:
        asyncio.run(RunnableLambda(async_step).ainvoke("who?", config=watch.config))
    else:
        RunnableLambda(step).invoke("who?", config=watch.config)


def test_tagged_requests_are_ignored(watch: Watch, chain: Any) -> None:
    """``ragmeter:ignore`` on the call."""
    chain.invoke("unheard", config={**watch.config, "tags": ["ragmeter:ignore"]})

    assert watch.results == []


@expect(texts=["doc-a"])
def test_tagged_retrievers_are_ignored(watch: Watch) -> None:
    """The same tag on a retriever, and on a part of a chain."""
    tagged = FixedRetriever(found=docs("x"), tags=["ragmeter:ignore"])
    chain = (
        {
            "context": RunnableLambda(lambda q: tagged.invoke(q) and FixedRetriever(found=docs("a")).invoke(q))
            | joined,
            "question": lambda q: q,
        }
        | PROMPT
        | TellingModel()
    )
    chain.invoke("who?", config=watch.config)


@frameworks_deprecate
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include": ["first"]}, ["doc-a"]),
        ({"include": ["by-tag"]}, ["doc-b"]),
        ({"exclude": ["first"]}, ["doc-b"]),
        ({"exclude": ["by-tag"]}, ["doc-a"]),
    ],
)
def test_include_and_exclude(options: Any, expected: list[str]) -> None:
    """Retrievers by name or tag."""
    first = FixedRetriever(found=docs("a")).with_config(run_name="first")
    second = FixedRetriever(found=docs("b")).with_config(tags=["by-tag"])
    with watching(strict=True, **options) as watch:
        RunnableLambda(lambda q: [first.invoke(q), second.invoke(q)]).invoke("q", config=watch.config)

        assert texts(watch.sample) == expected


def test_included_retriever_within_one_that_is_not() -> None:
    """The wrapper is looked through, the wrapped one counts."""

    class Wrapper(FixedRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            inner = FixedRetriever(found=docs("a")).with_config(run_name="inner")
            return inner.invoke(query, config={"callbacks": run_manager.get_child()}) * 2

    with watching(include=["inner"], strict=True) as watch:
        lcel(Wrapper(found=[])).invoke("who?", config=watch.config)

        assert texts(watch.sample) == ["doc-a"]


class Odd:
    """A payload no rule knows."""

    def __init__(self, text: str) -> None:
        self.text_inside = text


def odd_chain() -> Any:
    """Takes and gives what no rule knows."""
    inner = lcel(EchoRetriever(k=1))
    return RunnableLambda(lambda x: {"weird": Odd(inner.invoke("rewritten")), "docs_used": ["one"]})


def test_overrides_by_function() -> None:
    """Functions of the root's input and output."""
    with watching(
        question=lambda given: given["deep"]["text"],
        answer=lambda output: output["weird"].text_inside,
        contexts=lambda output: output["docs_used"],
    ) as watch:
        odd_chain().invoke({"deep": {"text": "who?"}}, config=watch.config)

        sample = watch.sample
        assert (sample.question, sample.answer) == ("who?", "saw doc-rewritten-1")
        assert texts(sample) == ["one"]


def test_overrides_by_key() -> None:
    """Keys of the root's input and output, streamed or not."""
    inner = lcel(FixedRetriever(found=docs("a")))
    chain = RunnableLambda(lambda x: {"question": "no", "reply": inner.invoke(x["ask"]), "c": docs("z")})
    with watching(question="ask", answer="reply", contexts="c") as watch:
        chain.invoke({"ask": "who?", "question": "wrong"}, config=watch.config)
        list(chain.stream({"ask": "who?", "question": "wrong"}, config=watch.config))

        for sample in watch.samples:
            assert (sample.question, sample.answer) == ("who?", "saw doc-a")
            assert texts(sample) == ["doc-z"]
        assert len(watch.samples) == 2


@pytest.mark.contains_errors
def test_an_override_that_fails_falls_back(chain: Any) -> None:
    """The application's own function may be wrong; the usual rules still work."""
    with watching(
        question=lambda given: given["no"]["such"],
        answer=lambda output: 1 / 0,
        contexts=lambda output: output.missing,
    ) as watch:
        chain.invoke("who?", config=watch.config)

        sample = watch.sample
        assert (sample.question, sample.answer) == ("who?", "saw doc-a,doc-b")
        assert texts(sample) == ["doc-a", "doc-b"]


@expect(question="parent")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@frameworks_deprecate
def test_a_forked_child_starts_empty(watch: Watch, chain: Any) -> None:
    """gunicorn --preload: requests in flight in the parent end in the parent, and the child works."""
    stream = chain.stream("parent", config=watch.config)
    next(stream)

    def ask() -> list[Any]:
        still_open = watch.handler.open_requests
        chain.invoke("child", config=watch.config)
        return [still_open, *(sample.question for sample in watch.samples)]

    assert in_child(ask) == "[0, 'child']"
    "".join(stream)
