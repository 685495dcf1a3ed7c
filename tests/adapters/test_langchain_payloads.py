"""The extraction rules, as a table, without LangChain."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragmeter.adapters.langchain._answers import answer_in, note_output
from ragmeter.adapters.langchain._payloads import (
    document_lists,
    find_question,
    is_control_flow,
    is_interrupt,
    snapshot_documents,
    tool_documents,
)


@dataclass
class Message:
    """A message as LangChain has it."""

    type: str
    content: Any
    tool_calls: list[Any] = field(default_factory=list)


@dataclass
class Document:
    """A document as LangChain has it."""

    page_content: str
    id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class State:
    """A graph's state as a dataclass."""

    question: str
    answer: str = ""


class Model(BaseModel):
    """A graph's state as a pydantic model."""

    query: str
    result: str | None = None


class Prompt:
    """A prompt value."""

    def to_messages(self) -> list[Message]:
        return [Message("system", "s"), Message("human", "who?")]


class Command:
    """LangGraph's, by name."""


class Tuple(NamedTuple):
    """A state as a named tuple."""

    question: str
    other: Any


BLOCKS = [{"type": "text", "text": "wh"}, {"type": "image", "url": "x"}, {"type": "text", "text": "o?"}]
HUMAN, AI = Message("human", "who?"), Message("ai", "it is she")


@pytest.mark.parametrize(
    "given_input",
    [
        "who?",
        HUMAN,
        [HUMAN],
        [Message("human", "old"), AI, HUMAN],
        [HUMAN, AI],
        [Message("system", "s"), HUMAN, Message("tool", "t")],
        {"role": "user", "content": "who?"},
        [{"role": "system", "content": "s"}, {"role": "user", "content": "who?"}],
        ("user", "who?"),
        [("system", "s"), ("human", "who?")],
        Message("human", BLOCKS),
        BLOCKS,
        {"role": "user", "content": BLOCKS},
        Prompt(),
        {"question": "who?", "chat_history": [Message("human", "old"), AI]},
        {"query": "who?", "k": 3},
        {"input": "who?", "context": "no"},
        {"input": [HUMAN]},
        {"input": {"role": "user", "content": "who?"}},
        {"question": BLOCKS},
        {"user_input": "who?"},
        {"messages": [HUMAN]},
        {"messages": [Message("human", "old"), AI, HUMAN], "documents": []},
        {"messages": "who?"},
        {"message": HUMAN},
        State("who?"),
        Model(query="who?"),
        Tuple("who?", None),
        {"question": "", "query": "who?"},
    ],
)
def test_question(given_input: Any) -> None:
    """Every shape in which users ask."""
    assert find_question(given_input).text == "who?"


@pytest.mark.parametrize(
    "given_input",
    [
        None,
        "",
        {},
        [],
        7,
        {"input": ""},
        Command(),
        {"a": "x", "b": "y"},
        {"run_id": "7f3a", "n": 4},
        object(),
        [AI],
        {"n": 1},
        print,
        str,
    ],
)
def test_no_question(given_input: Any) -> None:
    """Rather unknown than wrong."""
    assert find_question(given_input).text is None


def test_candidates() -> None:
    """Strings without a known key wait for a retriever's query to tell which one it is."""
    assert find_question({"a": "x", "b": "y", "n": 1}).others == ("x", "y")


@pytest.mark.parametrize(
    ("output", "given_input"),
    [
        ("it is she", None),
        (AI, None),
        (Message("ai", [{"type": "text", "text": "it is she"}]), None),
        (Message("AIMessageChunk", "it is she"), None),
        ({"answer": "it is she", "context": []}, {"input": "who?"}),
        ({"query": "who?", "result": "it is she"}, {"query": "who?"}),
        ({"input": "who?", "text": "who?", "output": "it is she"}, {"input": "who?", "text": "who?"}),
        ({"answer": "old", "generation": "it is she"}, {"answer": "old"}),
        ({"answer": AI}, None),
        ({"messages": [HUMAN, AI]}, None),
        ({"messages": [{"role": "assistant", "content": "it is she"}]}, None),
        (State("who?", "it is she"), State("who?")),
        (Model(query="who?", result="it is she"), None),
        ([HUMAN, AI], None),
        ({"output": {"role": "assistant", "content": "it is she"}}, None),
    ],
)
def test_answer(output: Any, given_input: Any) -> None:
    """Every shape in which chains answer; what was copied from the input is no answer."""
    assert answer_in(note_output(output, given_input), (), ()) == "it is she"


@pytest.mark.parametrize(
    "output",
    [
        None,
        "",
        {},
        [],
        [Document("d")],
        {"context": [Document("d")]},
        {"messages": [HUMAN]},
        {"messages": [AI, HUMAN]},
        {"messages": [Message("ai", "", [{"name": "search"}])]},
        {"messages": [Message("ai", "thinking", [{"name": "search"}])]},
        Message("human", "no"),
        42,
        object(),
    ],
)
def test_no_answer(output: Any) -> None:
    """Questions, tool calls and documents are none."""
    assert answer_in(note_output(output), (), ()) is None


def test_snapshots() -> None:
    """Text, id, score and metadata of every kind of document."""
    document = Document("text", "7", {"relevance_score": 0.5, "source": "s"})
    scored = Document("text", None, {"score": 1, "_id": "m"})
    taken = snapshot_documents([document, (scored, 0.25), scored, "plain", {"text": "mapped", "id": 3}])

    assert [(item.text, item.id, item.score) for item in taken] == [
        ("text", "7", 0.5),
        ("text", "m", 0.25),
        ("text", "m", 1.0),
        ("plain", None, None),
        ("mapped", "3", None),
    ]
    assert snapshot_documents(None) == ()
    assert [item.text for item in snapshot_documents("one text")] == ["one text"]


def test_a_score_that_is_no_number() -> None:
    """numpy scalars are numbers; texts, NaN and vectors are none."""

    class Scalar:
        def __float__(self) -> float:
            return 0.5

    class Vector:
        def __float__(self) -> float:
            raise TypeError

    scores = [Scalar(), "high", float("nan"), True, None, Vector()]
    found = snapshot_documents([(Document("t"), score) for score in scores])
    assert [item.score for item in found] == [0.5, None, None, None, None, None]


def test_graph_control_flow_by_name() -> None:
    """LangGraph's exceptions are known without importing it."""
    bubble = type("GraphBubbleUp", (Exception,), {})
    pause = type("GraphInterrupt", (bubble,), {})
    parent = type("ParentCommand", (bubble,), {})

    assert is_interrupt(pause())
    assert is_control_flow(pause())
    assert is_control_flow(parent())
    assert not is_interrupt(parent())
    assert not is_control_flow(ValueError())


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.sampled_from(
                ["question", "input", "messages", "role", "content", "type", "text", "answer", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_like, json_like)
def test_odd_payloads_never_raise(one: Any, other: Any) -> None:
    """Whatever the payload: texts or nothing, and no exception."""
    question = find_question(one)
    answer = answer_in(note_output(one, other), (), ())

    assert question.text is None or isinstance(question.text, str)
    assert answer is None or isinstance(answer, str)
    assert isinstance(document_lists(one), dict)
    assert all(isinstance(item.text, str) for item in snapshot_documents(one))
    assert list(tool_documents(one)) == []
