"""A judge of fixed latency in a separate process, which answers every package's prompts and counts them.

The judged benchmarks start it with `FakeJudge` and point each package at its address. It speaks the OpenAI
chat completions API: it answers ragmeter's prompts by their form and others' by the JSON schema that they
send or quote, so that each package finishes with valid replies of any content. It counts calls and prompt
tokens (cl100k_base), the same way for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from environments import ROOT, child_environment

ITEMS = 3
"""Entries in a list whose length the schema leaves open."""


def instance(schema: dict[str, Any], root: dict[str, Any], key: str = "", count: int = ITEMS) -> Any:
    """Return a value that `schema` allows."""
    if "$ref" in schema:
        found: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return instance(found, root, key, count)
    if schema.get("enum"):
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return instance(schema[several][0], root, key, count)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: instance(field, root, name, count) for name, field in fields.items()}
    if kind == "array":
        return [instance(schema.get("items", {}), root, key, count) for _ in range(count)]
    if kind == "string":
        return "yes" if key == "verdict" else "The council built the city."
    return {"boolean": True, "integer": 1, "number": 1.0, "null": None}[kind]


def quoted_schema(prompt: str) -> dict[str, Any] | None:
    """Return the JSON schema that a prompt quotes, the last one if there are several."""
    decoder = json.JSONDecoder()
    found, at = None, 0
    while (at := prompt.find("{", at)) >= 0:
        try:
            value, end = decoder.raw_decode(prompt, at)
        except json.JSONDecodeError:
            at += 1
            continue
        if isinstance(value, dict) and ("properties" in value or "$defs" in value):
            found = value
        at = end
    return found


def answer_text(body: dict[str, Any]) -> str:
    """Return the judge's reply to a request."""
    sys.path.insert(0, str(ROOT / "tests"))
    from openai_server import Request, well_formed

    prompt = prompt_text(body)
    if re.search(r"^Form: \{", prompt, re.MULTILINE) and "<<" in prompt:
        request = Request("", {}, body)
        return json.dumps(well_formed(request, own_value))
    # deepeval states the number of verdicts it wants; it then aligns one per chunk.
    wanted = re.search(r"number of 'verdicts' SHOULD BE STRICTLY EQUAL to.{0,60}?(\d+)", prompt)
    count = int(wanted[1]) if wanted else ITEMS
    form = body.get("response_format") or body.get("text", {}).get("format") or {}
    schema = form.get("json_schema", form).get("schema") or quoted_schema(prompt)
    if schema is not None:
        return json.dumps(instance(schema, schema, count=count))
    if form.get("type") == "json_object":
        return json.dumps({"score": 2, "criteria": "c", "supporting_evidence": "e"})
    return "Criteria: named\nSupporting Evidence: the text\nScore: 2"


def own_value(request: Any, item: str) -> Any:
    example = json.dumps(request.form)
    if "texts" in example and item.startswith("t"):
        return ["Brasília", "1960"]
    if "pairs" in example:
        return [["Which city?", "Brasília"]]
    if '"answer"' in example:
        return "Brasília"
    words = re.findall(r"\"(supported|relevant)\"", example)
    return words[0] if words else True


def prompt_text(body: dict[str, Any]) -> str:
    """Return the model's input, in either of OpenAI's two request formats."""
    asked = body.get("messages") or body.get("input") or []
    messages = [{"content": asked}] if isinstance(asked, str) else asked
    parts = [body.get("instructions") or ""]
    for message in messages:
        content = message.get("content") or ""
        pieces = [{"text": content}] if isinstance(content, str) else content
        parts += [str(piece.get("text") or "") for piece in pieces]
    return "\n".join(part for part in parts if part)


def forms(body: dict[str, Any]) -> Any:
    """Return the body's specification of the reply's form beside the prompt, if any."""
    return body.get("response_format") or body.get("text") or body.get("tools")


def responses_reply(model: str, said: str) -> dict[str, Any]:
    """Return a reply in the format of OpenAI's newer endpoint, ``/responses``."""
    content = [{"type": "output_text", "text": said, "annotations": [], "logprobs": []}]
    message = {"id": "m-1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    usage = {
        "input_tokens": 100, "output_tokens": 20, "total_tokens": 120,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    return {
        "id": "resp-1", "object": "response", "created_at": 1, "status": "completed", "model": model,
        "output": [message], "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto",
        "tools": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
    }  # fmt: skip


def tag_of(raw: bytes) -> str:
    """Return the prefix of the ids in one of ragmeter's prompts, from its example."""
    found = re.search(rb'\\"([a-z]+)[a-z]0\\"', raw)
    return found[1].decode() if found else ""


class Server:
    """Counts and answers. Its CPU is in no figure, because it is a separate process."""

    def __init__(self, latency_s: float, always: str = "") -> None:
        self.latency_s = latency_s
        self.always = always
        self.bodies: list[dict[str, Any]] = []

    def stats(self) -> dict[str, Any]:
        import tiktoken

        encode = tiktoken.get_encoding("cl100k_base").encode_ordinary
        tokens = [len(encode(prompt_text(body))) for body in self.bodies]
        schemas = [len(encode(json.dumps(form))) for body in self.bodies if (form := forms(body))]
        return {"calls": len(tokens), "tokens": sum(tokens), "schema_tokens": sum(schemas)}

    def reset(self) -> dict[str, Any]:
        self.bodies.clear()
        return {}

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"content-length: *(\d+)", head, re.IGNORECASE)
                raw = await reader.readexactly(int(length[1]) if length else 0)
                try:
                    reply, status = await self.reply(head.split(" ", 2)[1], raw), 200
                except Exception as error:
                    reply, status = json.dumps({"error": {"message": repr(error)}}).encode(), 400
                writer.write(
                    b"HTTP/1.1 %d -\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % (status, len(reply))
                    + reply
                )
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()

    async def reply(self, path: str, raw: bytes) -> bytes:
        if path == "/stats":
            return json.dumps(self.stats()).encode()
        if path == "/reset":
            return json.dumps(self.reset()).encode()
        body = json.loads(raw)
        arrived = time.monotonic()
        self.bodies.append(body)
        text = self.always.replace("TAG", tag_of(raw)) if self.always else answer_text(body)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if body.get("tools"):
            function = body["tools"][0]["function"]
            said = json.dumps(instance(function["parameters"], function["parameters"]))
            call = {
                "id": "call-1",
                "type": "function",
                "function": {"name": function["name"], "arguments": said},
            }
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", "fake"),
            "choices": [{"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
        if path.endswith("/responses"):
            answer = responses_reply(body.get("model", "fake"), text)
        await asyncio.sleep(max(0.0, self.latency_s - (time.monotonic() - arrived)))
        return json.dumps(answer).encode()


async def serve(latency_s: float, always: str) -> None:
    server = Server(latency_s, always)
    listening = await asyncio.start_server(server.connection, "127.0.0.1", 0, backlog=1024, limit=2**22)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the caller ends


class FakeJudge:
    """The client side of the server. A context manager.

    Args:
        latency_s: Seconds after which a call is answered.
        always: A constant reply, at little cost, with ``TAG`` for the prefix of the prompt's ids; empty: the
            reply that each prompt asks for.
    """

    def __init__(self, latency_s: float, always: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(latency_s), always],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )
        assert self._process.stdout is not None
        self.address = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.url = f"{self.address}/v1"

    def get(self, what: str) -> dict[str, Any]:
        """Ask for ``stats``, or ``reset`` them."""
        with urllib.request.urlopen(f"{self.address}/{what}") as reply:
            return json.loads(reply.read())

    def __enter__(self) -> FakeJudge:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(float(sys.argv[1]), sys.argv[2]))
