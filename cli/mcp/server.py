"""The tools for an assistant, and the server that offers them on standard input and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ragmeter.metrics.errors import MissingDependencyError

from ._reading import ServerApi, UnreadableServerError

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
