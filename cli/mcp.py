"""The tools for an assistant: a server's API, reduced to what an assistant needs.

An assistant sends the results to the provider of its model. So users' texts (questions, answers, chunks, and
fields that quote them) are left out unless the command was started with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timezone
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError, RagmeterError

Range = Annotated[Literal["15m", "1h", "6h", "24h", "7d"], Field(description="How far back to look.")]
Service = Annotated[str | None, Field(description="Only this service.")]
Workflow = Annotated[
    str | None, Field(description="Only this chain, engine or workflow; '-': those without a name.")
]
Segment = Annotated[str | None, Field(description="Only this part of the requests, e.g. language:zh.")]
Limit = Annotated[int, Field(ge=1, le=100)]
Said = Mapping[str, Any]
_TOKENS = ("RAGMETER_SERVE_VIEW_TOKEN", "RAGMETER_SERVE_TOKEN")
_TIMEOUT_S = 30.0
_CAUSES = {
    401: "it wants a token: pass --token-file, or set RAGMETER_SERVE_VIEW_TOKEN",
    403: "its token is another one: see --token-file and RAGMETER_SERVE_VIEW_TOKEN",
    404: "it knows nothing of that",
}


def token_of(file: Path | None) -> str | None:
    """Return the token for a server: that of a file, else that of a variable.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    if file is None:
        return next((value for name in _TOKENS if (value := os.environ.get(name))), None)
    try:
        return file.read_text("utf-8").strip() or None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--token-file: cannot read {str(file)!r}: {error}") from None


class UnreadableServerError(RagmeterError):
    """The server did not answer as expected; the message names the fix."""


class ServerApi:
    """The API of one server.

    Args:
        url: The server's address.
        token: The token for its viewers; None: it needs none.
        texts: Whether to return users' texts.
    """

    def __init__(self, url: str, token: str | None = None, *, texts: bool = False) -> None:
        try:
            import httpx  # noqa: PLC0415 -- an extra's
        except ImportError:
            raise MissingDependencyError("httpx", "mcp", "ragmeter mcp") from None

        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._url = url.rstrip("/")
        self._get = httpx.Client(headers=headers, timeout=_TIMEOUT_S).get
        self._texts = texts

    def overview(
        self,
        range: Range = "24h",  # noqa: A002 -- the API's name
        service: Service = None,
        workflow: Workflow = None,
        segment: Segment = None,
    ) -> dict[str, Any]:
        """Return the numbers of requests and their verdicts, every service's means, and changes."""
        said = self._ask("/api/overview", range=range, service=service, workflow=workflow, segment=segment)
        return {
            "from": _time(said["from_ms"]),
            "until": _time(said["until_ms"]),
            **_fields_named(said, "requests", "verdicts", "statuses", "nothing_retrieved"),
            "scores": [
                _fields_named(one, "service", "name", "direction", "usual")
                | _fields_named(one["estimate"], "mean", "lower", "upper", "n_requests", "n_judged")
                for one in said["scores"]
                if one["estimate"] is not None and one["estimate"]["mean"] is not None
            ],
            "workflows": [
                _fields_named(one, "service", "workflow", "segment", "requests") for one in said["groups"]
            ],
            "changes": said["changes"],
        }

    def changes(
        self,
        range: Range = "7d",  # noqa: A002
        service: Service = None,
        workflow: Workflow = None,
    ) -> list[Any]:
        """Return the changes of quality in a period, with the values that were new when each began."""
        said = self._ask("/api/overview", range=range, service=service, workflow=workflow)
        return list(said["changes"])

    def worst_requests(
        self,
        range: Range = "24h",  # noqa: A002
        service: Service = None,
        workflow: Workflow = None,
        segment: Segment = None,
        verdict: Annotated[
            Literal["good", "suspect", "bad"] | None, Field(description="Only this verdict.")
        ] = None,
        limit: Limit = 10,
    ) -> list[dict[str, Any]]:
        """Return the requests with the worst verdicts."""
        about = {"service": service, "workflow": workflow, "segment": segment, "verdict": verdict}
        said = self._ask("/api/requests", range=range, limit=str(limit), sort="worst", **about)
        return [self._row(one) for one in said["requests"]]

    def request(
        self, trace_id: Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="32 hex digits.")]
    ) -> dict[str, Any]:
        """Return one request: its verdict with the reasons, each score, and the missing parts."""
        said = self._ask(f"/api/requests/{trace_id}")
        quoting = ("summary", "explanation", "items") if self._texts else ()
        found = {
            **self._row(said),
            **_fields_named(said, "verdict_reasons", "missing", "metadata", "verdict_rate"),
            "scores": [
                _fields_named(one, "name", "value", "status", "direction", "usual", *quoting)
                for one in said["scores"]
                if one["value"] is not None or one["status"] not in ("missing_input", "undefined")
            ],
            "contexts": [
                _fields_named(one, "number", "id", "score", *(("text",) if self._texts else ()))
                for one in said["contexts"] or ()
            ],
        }
        if self._texts:
            found["answer"] = said["answer"]
        else:
            del found["metadata"]
        return found

    def conversations(
        self,
        range: Range = "24h",  # noqa: A002
        service: Service = None,
        workflow: Workflow = None,
        conversation_id: Annotated[str | None, Field(description="This one alone.")] = None,
        limit: Limit = 10,
    ) -> dict[str, Any]:
        """Return the conversations, the worst first: verdict, first bad turn, and the turns in order."""
        about = {"service": service, "workflow": workflow, "conversation_id": conversation_id}
        said = self._ask("/api/conversations", range=range, limit=str(limit), **about)
        shown = ("question",) if self._texts else ()
        return {
            **_fields_named(said, "total", "with_bad", "share", "lower", "upper"),
            "conversations": [
                {
                    **_fields_named(one, "conversation_id", "service", "workflow", "verdict", "first_bad"),
                    "turns": [
                        _fields_named(turn, "trace_id", "verdict", "status", *shown) for turn in one["turns"]
                    ],
                }
                for one in said["conversations"]
            ],
        }

    def gaps(self, service: Service = None, workflow: Workflow = None) -> dict[str, Any]:
        """Return the topics whose requests go badly; their names are words of questions."""
        said = self._ask("/api/gaps", service=service, workflow=workflow)
        found: dict[str, Any] = _without(said, () if self._texts else ("name", "examples"))
        return found

    def chunks(self, service: Service = None, workflow: Workflow = None) -> dict[str, Any]:
        """Return the chunks to look at; without texts, by their ids."""
        said = self._ask("/api/chunks", service=service, workflow=workflow)
        hidden = () if self._texts else ("quote", "sentences", "figures")
        return {key: _without(value, hidden) for key, value in said.items()}

    def not_scored(self) -> dict[str, Any]:
        """Return the numbers of requests without a score or not yet sent, with the reasons."""
        said = self._ask("/healthz")
        return {key: value for key, value in said.items() if key != "uptime_s"}

    def _row(self, said: Said) -> dict[str, Any]:
        shown = ("question",) if self._texts else ()
        return {
            "at": _time(said["at_ms"]),
            **_fields_named(
                said, "trace_id", "service", "workflow", "status", "duration_ms", "verdict", "verdict_codes",
                "segments", "times", *shown,
            ),
        }  # fmt: skip

    def _ask(self, path: str, **asked: str | None) -> Said:
        given = {name: value for name, value in asked.items() if value}
        try:
            answer = self._get(self._url + path, params=given)
        except self._errors as error:
            raise UnreadableServerError(
                f"nothing answers at {self._url} ({type(error).__name__}): start `ragmeter serve --store FILE`"
                ", or pass its address: ragmeter mcp --url URL"
            ) from None
        if answer.status_code != 200 and not (path == "/healthz" and answer.status_code == 503):
            why = _CAUSES.get(answer.status_code) or _reason(answer.json)
            raise UnreadableServerError(f"{self._url}{path} answered {answer.status_code}: {why}")
        try:
            said = answer.json()
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise UnreadableServerError(f"{self._url} is no `ragmeter serve`: it answers no JSON")
        return said


def _reason(read: Callable[[], Any]) -> str:
    try:
        return str(read()["error"])
    except (ValueError, KeyError, TypeError):
        return "without a reason"


def _fields_named(answer: Said, *names: str) -> dict[str, Any]:
    return {name: answer[name] for name in names if answer.get(name) is not None}


def _without(value: Any, hidden: Collection[str]) -> Any:
    """Return a value without these fields, at any depth."""
    if isinstance(value, list):
        return [_without(item, hidden) for item in value]
    if isinstance(value, dict):
        return {key: _without(item, hidden) for key, item in value.items() if key not in hidden}
    return value


def _time(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(timespec="seconds")


_HOMES = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))
"""Module of the server in the protocol's SDK: since 2.0, and before."""
_ABOUT = """\
ragmeter scores live RAG (retrieval-augmented generation) requests. Begin with `overview`; take a trace id \
from `worst_requests` to `request`, which says why. A verdict is good, suspect or bad: a hint where to look, \
not a proof. Intervals are 95 %; do not call two means different whose intervals overlap."""

_DESCRIPTIONS: Mapping[str, str] = {
    "overview": "How retrieval and answers are: verdicts, mean of every score with interval, what has changed.",
    "worst_requests": "The requests to look at first, the worst one first, with trace ids and the reasons' "
    "codes.",
    "request": "Why one request has its verdict: reasons, scores beside what is usual, chunks, what was "
    "missing.",
    "changes": "What got worse or better, since when, by how much, and what was new at that moment.",
    "conversations": "Conversations of several turns, those that went badly first, with their first bad turn.",
    "gaps": "Topics of the last 14 days whose questions go badly, and what is lacking.",
    "chunks": "Chunks of the last 14 days that serve bad answers, are never used, contradict others, are "
    "stale.",
    "not_scored": "What the server received and did not score or could not send, by reason, and how it is.",
}
"""The tools, methods of `ServerApi`, with their descriptions for an assistant."""


def _protocol() -> tuple[str, Any]:
    if find_spec("mcp") is None:
        raise MissingDependencyError("mcp", "mcp", "ragmeter mcp")
    module, name = next(home for home in _HOMES if find_spec(home[0]) is not None)
    return module, getattr(import_module(module), name)


def tools(reading: ServerApi) -> Any:
    """Return a server of the protocol, not yet running, whose tools read from one ragmeter server.

    Raises:
        MissingDependencyError: The protocol's SDK is not installed.
    """
    home, server_class = _protocol()
    server = server_class("ragmeter", instructions=_ABOUT, log_level="WARNING")
    error_class = import_module(f"{home}.exceptions").ToolError

    def tool(read: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(read)
        def answer(*args: Any, **given: Any) -> Any:
            try:
                return read(*args, **given)
            except UnreadableServerError as error:
                raise error_class(str(error)) from None  # other exceptions are not shown

        return answer

    for name, description in _DESCRIPTIONS.items():
        server.tool(description=description)(tool(getattr(reading, name)))
    return server
