"""The extraction tables, without LlamaIndex."""

from __future__ import annotations

from typing import Any

import pytest

from ragmeter.adapters.llama_index._answers import answer_of
from ragmeter.adapters.llama_index._payloads import question_of


def library(name: str, *bases: type, module: str = "llama_index.core.x", **fields: Any) -> type:
    """A class that looks like one of LlamaIndex's."""
    return type(name, bases or (object,), {"__module__": module, **fields})


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
        ("run", {"kwargs": {"chat_history": [Message("a"), Message("b"), Message("c", "assistant")]}}, "b"),
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
