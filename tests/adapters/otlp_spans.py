"""Hand-made spans as records, for shapes without a recording here."""

import json

from ragmeter.adapters.opentelemetry.record import SpanRecord
from ragmeter.adapters.opentelemetry.requests import read_trace
from ragmeter.adapters.reading.results import as_tools

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number, parent=None, name="step", *, start=None, end=None, **more):
    """Return a span: `number` is its id and, by default, its start in seconds."""
    begun = number if start is None else start
    fields = {
        "trace_id": TRACE,
        "span_id": f"{number:016x}",
        "parent_id": None if parent is None else f"{parent:016x}",
        "name": name,
        "started_ns": int(begun * 1e9),
        "ended_ns": int((begun + 0.5 if end is None else end) * 1e9),
        "attributes": {},
    }
    return SpanRecord(**{**fields, **more})


def openinference(number, parent, kind, name="step", **attributes):
    """Return a span of OpenInference's; ``input`` and ``output`` are its values, as JSON unless texts."""
    values = {"openinference.span.kind": kind}
    for key, value in attributes.items():
        if key in ("input", "output"):
            values[f"{key}.value"] = value if isinstance(value, str) else json.dumps(value)
        elif key not in ("failed", "dropped", "start", "end"):
            values[key] = value
    given = {key: attributes[key] for key in ("failed", "dropped", "start", "end") if key in attributes}
    return span(number, parent, name, attributes=values, **given)


def exchange(prompt=None, said=None):
    """Return attributes of a model's call with one message and its reply, as OpenInference writes them."""
    told = (("input", "user", prompt), ("output", "assistant", said))
    return {
        f"llm.{side}_messages.0.message.{key}": value
        for side, role, text in told
        for key, value in (("role", role), ("content", text))
        if text is not None
    }


def chat(sent, *said):
    """Return attributes of a model's call by the GenAI conventions: a text or messages, and what replies hold."""
    sent = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
    replies = [{"role": "assistant", **({"content": one} if isinstance(one, str) else one)} for one in said]
    messages = {"gen_ai.input.messages": json.dumps(sent), "gen_ai.output.messages": json.dumps(replies)}
    return {"gen_ai.operation.name": "chat", **messages}


def documents(*texts, prefix="retrieval.documents", ids=()):
    """Return attributes of documents, flattened as OpenInference does."""
    made = {f"{prefix}.{place}.document.content": text for place, text in enumerate(texts)}
    made |= {f"{prefix}.{place}.document.id": identity for place, identity in enumerate(ids)}
    return made


def found(*spans, tools=(), logs=()):
    """Return the requests in these spans."""
    return read_trace(spans, logs, as_tools(tools)).requests


def only(*spans, tools=(), logs=()):
    """Return the only request in these spans."""
    (one,) = found(*spans, tools=tools, logs=logs)
    return one


def texts(request):
    """Return the texts of a request's contexts."""
    return [item.text for item in request.contexts]
