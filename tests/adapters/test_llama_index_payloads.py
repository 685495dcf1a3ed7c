"""The extraction tables and the context rule, without LlamaIndex."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmeter.adapters._open_requests import MAX_REMEMBERED, ReportedOnce
from ragmeter.adapters._snapshots import ContextSnapshot
from ragmeter.adapters.llama_index._answers import answer_of, source_ids_of
from ragmeter.adapters.llama_index._contexts import Reached, nodes_that_reached
from ragmeter.adapters.llama_index._payloads import (
    NO_FACTS,
    is_combining,
    kind_of,
    kind_of_span,
    nodes_of,
    question_of,
    retriever_facts,
    text_of,
)
from ragmeter.adapters.llama_index._state import LlamaRequest, RetrievalNote, Synthesis
from ragmeter.requests.by_hand import error_type, status_of_error


def library(name: str, *bases: type, module: str = "llama_index.core.x", **fields: Any) -> type:
    """A class that looks like one of LlamaIndex's."""
    return type(name, bases or (object,), {"__module__": module, **fields})


QueryEngine = library("BaseQueryEngine")
WorkflowBase = library("Workflow", module="workflows.workflow")


@pytest.mark.parametrize(
    ("base", "method", "kind"),
    [
        ("BaseQueryEngine", "query", "query"),
        ("BaseQueryEngine", "aquery", "query"),
        ("BaseQueryEngine", "_query", None),
        ("BaseChatEngine", "astream_chat", "chat"),
        ("Workflow", "run", "run"),
        ("BaseRetriever", "aretrieve", "retrieve"),
        ("BaseRetriever", "_retrieve", None),
        ("BaseSynthesizer", "synthesize", "synthesize"),
        ("BaseSynthesizer", "get_response", None),
        ("BaseNodePostprocessor", "_postprocess_nodes", "postprocess"),
        ("BaseTool", "acall", "tool"),
        ("BaseRetriever", "query", None),
        ("BaseLLM", "astream_chat", "llm"),
        ("BaseLLM", "predict_and_call", "call"),
        ("BaseLLM", "predict", "llm"),
        ("TransformComponent", "__call__", "transform"),
    ],
)
def test_kinds(base: str, method: str, kind: str | None) -> None:
    """Class and method decide; a user's subclass is what its base is."""
    mine = library("Mine", library(base), module="app")

    assert kind_of(mine, method) == kind


def test_classes_of_the_same_name_elsewhere_do_not_count() -> None:
    """Only LlamaIndex's own bases count."""
    assert kind_of(library("Workflow", module="airflow.models"), "run") is None
    assert kind_of(library("Mine", WorkflowBase, module="app"), "run") == "run"


def test_the_kind_of_a_span_is_its_classs_not_its_names() -> None:
    """Two classes of one name are two classes; spans without an instance are none."""
    uuid = "-12345678-1234-1234-1234-123456789012"
    engine, other = library("Same", QueryEngine)(), library("Same")()

    for _ in range(2):
        assert kind_of_span("Same.query" + uuid, engine) == "query"
        assert kind_of_span("Same.query" + uuid, other) is None
        assert kind_of_span("Same.query" + uuid, None) is None


class Bundle:
    query_str = "bundled"


class Message:
    def __init__(self, content: Any, role: Any = "user") -> None:
        self.content = content
        self.role = role


class Event:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("kind", "arguments", "question"),
    [
        ("query", {"str_or_query_bundle": "q"}, "q"),
        ("query", {"str_or_query_bundle": Bundle()}, "bundled"),
        ("query", {"my_own_name": "q"}, "q"),
        ("query", {}, None),
        ("retrieve", {"str_or_query_bundle": Bundle()}, "bundled"),
        ("synthesize", {"query": Bundle(), "nodes": []}, "bundled"),
        ("chat", {"message": "m", "chat_history": []}, "m"),
        ("chat", {"message": Message("m")}, "m"),
        ("run", {"start_event": Event(user_msg="m", query="q")}, "m"),
        ("run", {"start_event": Event(user_msg=None, query="q")}, "q"),
        ("run", {"kwargs": {"user_msg": Message("m")}}, "m"),
        ("run", {"kwargs": {"start_event": Event(question="q")}}, "q"),
        (
            "run",
            {"kwargs": {"chat_history": [Message("a"), Message("b"), Message("c", "assistant")]}},
            "b",
        ),
        ("run", {"start_event": Event(topic="t")}, None),
        ("run", {}, None),
    ],
)
def test_questions(kind: Any, arguments: dict[str, Any], question: str | None) -> None:
    """Where each kind of request carries its question."""
    assert question_of(kind, arguments) == question


def response(name: str, module: str = "llama_index.core.y", **fields: Any) -> Any:
    instance = library(name, module=module)()
    instance.__dict__.update(fields)
    return instance


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, None),
        ("", None),
        ("text", "text"),
        (response("Response", response="r"), "r"),
        (response("Response", response=""), None),
        (response("Response", response=None), None),
        (response("AgentChatResponse", response="r"), "r"),
        (response("StreamingResponse", response_txt="read already"), "read already"),
        (response("PydanticResponse", response=None), None),
        (response("StopEvent", "workflows.events", result="r"), "r"),
        (response("StopEvent", "workflows.events", result=None), None),
        (response("StopEvent", "workflows.events", result=response("Response", response="r")), "r"),
        ({"a": 1}, None),
        (response("AgentOutput", response="r", structured_response={"é": 1}), '{"é": 1}'),
        (response("AgentOutput", response="r", structured_response=None), "r"),
        (iter(()), None),
    ],
)
def test_answers(result: Any, text: str | None) -> None:
    """Where each kind of result carries its answer; empty text is none."""
    assert answer_of(result).text == text


def test_streams_and_nodes_are_told_apart_from_texts() -> None:
    """A stream is still to come; a list of nodes asks for no answer."""
    stream = response("StreamingResponse", response_txt=None)
    node = response("NodeWithScore", node_id="a")

    assert (answer_of(stream).stream, answer_of(stream).holder) == ("query", stream)
    assert answer_of(response("AsyncStreamingResponse", response_txt=None)).stream == "query"
    assert answer_of(response("StreamingAgentChatResponse")).stream == "chat"
    assert answer_of([node]).nodes_only
    assert answer_of([]).nodes_only
    assert not answer_of(["text"]).nodes_only


def test_sources_nodes_and_combining() -> None:
    """The ids a response names, a synthesis's nodes, and whether they are made up."""
    found = [response("NodeWithScore", node_id=name) for name in ("b", "a", "b")]
    answer = response("Response", source_nodes=found)

    assert source_ids_of(answer) == ("b", "a")
    assert source_ids_of(response("StopEvent", result=answer)) == ("b", "a")
    assert source_ids_of("text") == ()
    assert list(nodes_of({"nodes": found})) == found
    assert list(nodes_of({})) == []
    assert is_combining({"additional_source_nodes": []})
    assert not is_combining({"additional_source_nodes": None})
    assert not is_combining({})
    assert text_of(3) is None


def test_retriever_facts() -> None:
    """Store class, depth and embedding model, where a retriever shows them."""
    retriever = Event(
        _vector_store=Bundle(), _similarity_top_k=4, _embed_model=Event(model_name="m")
    )

    assert retriever_facts(retriever) == ("Bundle", 4, "m")
    assert retriever_facts(object()) == (None, None, None)
    assert retriever_facts(Event(_embed_model=Event(model_name="unknown"))) == (None, None, None)


def node(id_: str, text: str = "") -> ContextSnapshot:
    return ContextSnapshot(text or id_, id_, None, {})


def scope(given: Any = (), combined: Any = (), found: Any = ()) -> list[tuple[str, Any]]:
    """What happened in a scope: which nodes retrievers found, and syntheses were given."""
    kinds = {"found": found, "given": given, "combined": combined}
    return [(kind, ids) for kind, lists in kinds.items() for ids in lists]


def reached(scopes: list[list[tuple[str, Any]]], sources: Any) -> Reached:
    request = LlamaRequest(
        run_id="", kind="query", name="", question=None, scope=None, tags={},
        grow=lambda *_: None, in_scope=True,
    )  # fmt: skip
    for place, events in enumerate(scopes):
        for kind, ids in events:
            nodes = tuple(node(id_) for id_ in ids)
            if kind == "found":
                note = RetrievalNote(place, "", None, NO_FACTS, None)
                note.end(nodes)
                request.trail.append(note)
            else:
                combines = kind == "combined"
                request.trail.append(Synthesis("", place, nodes, None, combines=combines))
    request.source_ids = tuple(sources)
    return nodes_that_reached(request.ended("ok", None, None, 0), [], None)


@pytest.mark.parametrize(
    ("scopes", "sources", "ids", "rejected"),
    [
        ([], (), None, set()),
        ([scope()], (), None, set()),
        ([scope(found=[""])], (), "", set()),
        ([scope(found=["abc"])], (), "abc", set()),
        ([scope(given=["b"], found=["abc"])], (), "b", set()),
        ([scope(given=["ba"], found=["abc"])], ("a",), "ba", set()),
        ([scope(given=["ab", "bc"])], (), "abc", set()),
        ([scope(given=["aba", "ab"])], (), "aba", set()),
        ([scope(found=["abc"])], ("c", "a"), "ca", set()),
        ([scope(found=["abc"])], ("x",), "abc", set()),
        ([scope(given=["ab"]), scope(given=["bc"])], (), "abc", set()),
        ([scope(given=["ab"]), scope(given=["cd"])], ("d", "c"), "dc", {0}),
        ([scope(combined=["xy"]), scope(given=["ab"])], ("x", "a", "b"), "ab", set()),
        ([scope(combined=["xy"])], (), "xy", set()),
        ([scope(combined=["xy"]), scope(given=[""])], ("x",), "", set()),
    ],
)
def test_what_reached_the_model(
    scopes: Any, sources: Any, ids: str | None, rejected: set[int]
) -> None:
    """Synthesis before postprocessor before retriever, per scope; then sources decide, if several."""
    found, left_out, by_prompt = reached(scopes, sources)

    assert not by_prompt
    assert (None if found is None else "".join(str(item.id) for item in found)) == ids
    assert left_out == frozenset(rejected)


batches = st.lists(st.text("abcdef", max_size=5), max_size=3)


@given(
    st.lists(st.builds(scope, batches, batches, batches), max_size=4),
    st.lists(st.sampled_from("abcdef"), max_size=6, unique=True),
)
def test_contexts_are_never_invented_nor_repeated(
    scopes: list[list[tuple[str, Any]]], sources: list[str]
) -> None:
    """Whatever happened: a subset of what was seen, no more copies than one call had; None only
    when nothing was seen."""
    found, rejected, _ = reached(scopes, sources)
    ids = [str(item.id) for item in found or ()]
    lists = [given for part in scopes for kind, given in part if kind != "combined"]

    assert set(ids) <= {id_ for part in scopes for _, given in part for id_ in given}
    if lists:
        assert found is not None
        for id_ in set(ids):
            assert ids.count(id_) <= max(given.count(id_) for given in lists)
    assert rejected <= set(range(len(scopes)))


def test_endings() -> None:
    """The caller gave up, or something failed."""
    import asyncio

    for error in (asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt()):
        assert status_of_error(error) == "cancelled"
    assert status_of_error(OSError()) == status_of_error(None) == "error"
    assert (error_type(OSError()), error_type(None)) == ("OSError", None)


def test_reported_once_remembers_a_bounded_number() -> None:
    """The same id twice is passed over; memory stays small."""
    once = ReportedOnce()

    assert [once.is_first("a"), once.is_first("a"), once.is_first("b")] == [True, False, True]
    for number in range(5 * MAX_REMEMBERED):
        assert once.is_first(str(number))
    assert len(once._ids) <= MAX_REMEMBERED


@pytest.mark.parametrize(
    ("score", "number"),
    [(0.5, 0.5), (1, 1.0), (None, None), (True, None), ("0.5", None), (float("inf"), None)],
)
def test_scores(score: Any, number: float | None) -> None:
    """Only finite numbers are scores."""
    assert ContextSnapshot.take("t", "i", score, {}).score == number


def test_scores_of_foreign_number_types() -> None:
    """numpy's and torch's scalars are numbers; their arrays are not."""

    class Scalar:
        def __float__(self) -> float:
            return 0.25

    class Array:
        def __float__(self) -> float:
            raise TypeError

    assert ContextSnapshot.take("t", "i", Scalar(), {}).score == 0.25
    assert ContextSnapshot.take("t", "i", Array(), {}).score is None
