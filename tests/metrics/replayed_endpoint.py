"""Replays recorded replies of real endpoints, selected by the fields of a request.

Each record: the endpoint's reply to a first request (json_schema, temperature, a cap of 500 tokens, system
and user message), its reply `when_the_request_has` other fields, its replies `in_sequence`, and the expected
outcome. ``<ANSWER>`` stands for a correct reply.
"""

import json
from pathlib import Path

from openai_server import Misbehaviour, Request, well_formed

REPLIES = [
    json.loads(line)
    for line in (Path(__file__).parent / "endpoint_replies.jsonl").read_text("utf-8").splitlines()
]


def _has(body: dict, what: str) -> bool:
    kind = body.get("response_format", {}).get("type", "text")
    return {
        "no temperature": "temperature" not in body,
        "json_object": kind == "json_object",
        "text": kind == "text",
        "max_tokens instead": "max_tokens" in body,
        "no cap": "max_tokens" not in body and "max_completion_tokens" not in body,
        "no system": all(message["role"] != "system" for message in body["messages"]),
        "effort none": body.get("reasoning_effort") == "none",
        "effort low": body.get("reasoning_effort") == "low",
    }[what]


def answer(request: Request) -> str:
    """Return the correct reply: the first id true, the others false."""
    ids = request.ids
    return json.dumps(well_formed(request, lambda _, item_id: item_id == ids[0]))


def filled(said: dict, request: Request) -> Misbehaviour:
    """Return a recorded reply with the correct answer inserted."""
    body = said["body"]
    text = body if isinstance(body, str) else json.dumps(body)
    quoted = answer(request) if isinstance(body, str) else json.dumps(answer(request))[1:-1]
    return Misbehaviour(said["status"], text.replace("<ANSWER>", quoted).encode(), said.get("headers", {}))


class Replayed:
    """One endpoint; a function of the request, as the server's scripts require."""

    def __init__(self, record: dict) -> None:
        self._record = record
        self._sequence = list(record.get("in_sequence", ()))

    def __call__(self, request: Request) -> Misbehaviour:
        if self._sequence:
            said = self._sequence.pop(0)
        else:
            said = self._record["first"]
            for what, other in self._record.get("when_the_request_has", {}).items():
                if _has(request.body, what):
                    said = other
        return filled(said, request)
