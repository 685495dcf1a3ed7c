"""A real local HTTP server that speaks the OpenAI chat completions API, and misbehaves on request.

`OpenAIServer` answers each request by a script: by default a rule that reads ids and form in ragmeter's
prompts and answers from `verdicts`; tests can queue replies and misbehaviours. Shared by all tests that need
a judge; also used by the benchmarks. It knows the prompts' form, not ragmeter's code.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """One request as the server received it."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        return self.body["messages"][0]["content"]

    @property
    def user(self) -> str:
        return self.body["messages"][-1]["content"]

    @property
    def marker(self) -> str:
        return re.search(r"a line <<(\w+) title>>", self.system)[1]

    @property
    def prompts_without_marker(self) -> tuple[str, str]:
        """System and user message, comparable between judges: without the marker drawn per call."""
        user = self.user.replace(self.marker, "").replace(self.tag, "")
        return self.system.replace(self.marker, ""), user

    @property
    def form(self) -> dict[str, Any]:
        """The example in the last line 'Form: {...}'."""
        return json.loads(re.findall(r"^Form: (\{.*\})$", self.user, re.MULTILINE)[-1])

    @property
    def tag(self) -> str:
        """The prefix of every id, in the asked ones and in the example's: all letters except the last."""
        return re.search(r'"([a-z]+)[a-z]0+"', self.user.rsplit("\nForm: ", 1)[1])[1]

    @property
    def sent_ids(self) -> list[str]:
        """The requested ids, as they are sent, spans written out."""
        spans = re.findall(r"^Ids to answer: (.*)$", self.user, re.MULTILINE)[-1]
        ids: list[str] = []
        for span in spans.split(", "):
            first, _, last = span.partition("-")
            letters, low = re.fullmatch(r"([a-z]+)(\d+)", first).groups()
            high = re.fullmatch(r"[a-z]+(\d+)", last)[1] if last else low
            ids += [f"{letters}{number}" for number in range(int(low), int(high) + 1)]
        return ids

    @property
    def ids(self) -> list[str]:
        """The requested ids, without the tag: ``c1``, ``r2``."""
        return [sent.removeprefix(self.tag) for sent in self.sent_ids]

    def tagged(self, reply: Any) -> Any:
        """Return a reply to ids without the tag as a reply to the sent ids."""
        if isinstance(reply, list):
            return [self.tag + r if isinstance(r, str) else self.tagged(r) for r in reply]
        if not isinstance(reply, dict):
            return reply
        return {
            key: self.tag + str(value)
            if key == "id"
            else self.tagged(value)
            if isinstance(value, (dict, list)) and key not in ("texts", "pairs", "verdict")
            else value
            for key, value in reply.items()
        }

    @property
    def passages(self) -> dict[str, str]:
        """The texts between delimiters, by title; lines with their ids without the tag."""
        pattern = rf"^<<{self.marker} (.*?)>>\n(.*?)\n<<{self.marker}>>$"
        found = re.findall(pattern, self.user, re.MULTILINE | re.DOTALL)
        tagged = re.compile(rf"^{self.tag}(?=[a-z]\d+: )", re.MULTILINE)
        return {title: tagged.sub("", text) for title, text in found}

    def text_of(self, item_id: str) -> str:
        """Return the text with an id: a chunk, or a numbered line."""
        for title, text in self.passages.items():
            if title in (f"chunk {item_id}", f"text {item_id}"):
                return re.sub(r"^s\d+: ", "", text, flags=re.MULTILINE)
            line = re.search(rf"^{item_id}: (.*)$", text, re.MULTILINE)
            if line:
                return line[1]
        if item_id == "t1":  # asked along with the lines of the same text
            return re.sub(r"^r\d+: ", "", self.passages["claims"], flags=re.MULTILINE)
        raise KeyError(item_id)


Answerer = Callable[[Request, str], Any]
"""Returns the value for an id: a bool, a word, a text, a list of texts or of (question, answer)."""


@dataclass
class Misbehaviour:
    """A faulty reply. `raw` is sent unchanged and the connection closed."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut_after: int | None = None


def content(text: str | None, **extra: Any) -> Misbehaviour:
    """Return a well-formed completion with `text` as its message."""
    return Misbehaviour(body=json.dumps(completion(text, **extra)).encode())


def completion(
    text: str | None, prompt: int = 100, output: int = 20, finish: str = "stop", **message: Any
) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output},
    }


def error(status: int, code: str = "some_code", message: str = "no", **headers: str) -> Misbehaviour:
    """Return an error in OpenAI's form."""
    body = json.dumps({"error": {"message": message, "type": "x", "param": None, "code": code}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Misbehaviour(status, body.encode(), {"content-type": "application/json", **named})


def well_formed(request: Request, answer: Answerer) -> dict[str, Any]:
    """Return the reply that the prompt's form requires, with `answer` for every id.

    `answer` receives ids without the request's tag; the reply has the ids as requested.
    """
    groups = list(request.form.items())
    tag = request.tag
    reply: dict[str, Any] = {}
    for name, example in groups:
        listed = example["true"] if isinstance(example, dict) else [example[0]["id"]]
        prefix = re.match(r"[a-z]+", listed[0].removeprefix(tag))[0]
        ids = [i for i in request.ids if len(groups) == 1 or re.match(r"[a-z]+", i)[0] == prefix]
        if isinstance(example, dict):
            reply[name] = _two_lists(request, ids, answer)
        else:
            reply[name] = [_entry(request, example[0], item_id, answer) for item_id in ids]
    return reply


def _two_lists(request: Request, ids: list[str], answer: Answerer) -> dict[str, Any]:
    values = {i: answer(request, i) for i in ids}
    explained = '"reason"' in json.dumps(request.form)
    return {
        "true": [request.tag + i for i in ids if values[i] is True],
        "false": [
            {"id": request.tag + i, "reason": f"about {i}"} if explained else request.tag + i
            for i in ids
            if values[i] is False
        ],
    }


def _entry(request: Request, example: dict[str, Any], item_id: str, answer: Answerer) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": request.tag + item_id}
    value = answer(request, item_id)
    if value is True and not {"verdict", "answer"} & example.keys():
        value = []  # the default answer, where a list is asked for
    if "reason" in example:
        entry["reason"] = f"about {item_id}"
    if "verdict" in example:
        entry["verdict"] = value
    elif "answer" in example:
        entry["answer"] = "" if value in (True, None) else value
    elif "texts" in example:
        entry["texts"] = value
    else:
        # A text where pairs are requested is the question and the answer of one.
        given = [value] if isinstance(value, str) else value or ()
        pairs = [(one, one) if isinstance(one, str) else one for one in given]
        entry["pairs"] = [{"question": q, "answer": a} for q, a in pairs]
    return entry


class OpenAIServer:
    """The server. Use as a context manager; `url` is what to pass as ``base_url``.

    Attributes:
        answer: Returns the answer to an id; default: True.
        always: One reply to everything, created without reading the request; for benchmarks.
        script: Replies to send first, in order; each a `Misbehaviour` or a function of the request.
        supports: Values of ``response_format.type`` that are not rejected with 400.
        latency_s: Delay before each reply.
        together: Number of requests that must be open at once before the first is answered.
        gate: Nothing is answered while it is closed; initially open.
        requests: All requests so far.
    """

    def __init__(self, answer: Answerer | None = None, latency_s: float = 0.0) -> None:
        self.answer: Answerer = answer or (lambda request, item_id: True)
        self.latency_s = latency_s
        self.always: Misbehaviour | None = None
        self.script: deque[Misbehaviour | Callable[[Request], Any]] = deque()
        self.supports = {"json_schema", "json_object"}
        self.requests: list[Request] = []
        self.together = 0
        self.gate = threading.Event()
        self.gate.set()
        self.most_at_once = 0
        self._at_once = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="openai-server", daemon=True)
        self._ready = threading.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def prompts(self) -> list[str]:
        return [f"{request.system}\n{request.user}" for request in self.requests]

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._stop = asyncio.Event()
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        open_ones = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(first.split()[1], headers, json.loads(raw or b"{}"))
        self.requests.append(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            reply = self._reply(request)
            while self.most_at_once < self.together or not self.gate.is_set():
                await asyncio.sleep(0.002)
            await asyncio.sleep(max(reply.delay_s, self.latency_s))
        finally:
            self._at_once -= 1
        headers = {"content-type": "application/json", **reply.headers}
        head = f"HTTP/1.1 {reply.status} X\r\ncontent-length: {len(reply.body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        sent = reply.body if reply.cut_after is None else reply.body[: reply.cut_after]
        writer.write(head.encode("latin-1") + sent)
        await writer.drain()
        if reply.cut_after is not None:
            writer.transport.abort()
            return False
        return True

    def _reply(self, request: Request) -> Misbehaviour:
        if self.always is not None:
            return self.always
        kind = request.body.get("response_format", {}).get("type")
        if kind is not None and kind not in self.supports:
            return error(400, "invalid_value", f"response_format type {kind} is not supported")
        if self.script:
            step = self.script.popleft()
            reply = step if isinstance(step, Misbehaviour) else step(request)
            if isinstance(reply, Misbehaviour):
                return reply
            return content(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False))
        return content(json.dumps(well_formed(request, self.answer), ensure_ascii=False))
