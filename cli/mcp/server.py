"""The tools that an assistant gets, and the server that offers them on standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from ragmeter.metrics.errors import MissingDependencyError

from ._reading import ServerApi, UnreadableServerError

__all__ = ["tools"]

_HOMES = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))
"""Where the protocol's SDK has its server: since 2.0, and before."""
_ABOUT = """\
ragmeter scores live RAG (retrieval-augmented generation) requests. Begin with `overview`; take a trace id \
from `worst_requests` to `request`, which says why. A verdict is good, suspect or bad: a hint where to look, \
not a proof. Intervals are 95 %; do not call two means different whose intervals overlap."""

Range = Annotated[
    Literal["15m", "1h", "6h", "24h", "7d"], Field(description="How far back to look.")
]
Service = Annotated[str | None, Field(description="Only this service.")]
Workflow = Annotated[
    str | None, Field(description="Only this chain, engine or workflow; '-': those without a name.")
]
Segment = Annotated[
    str | None, Field(description="Only this part of the requests, e.g. language:zh.")
]
F = TypeVar("F", bound=Callable[..., Any])


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

    def tool(read: F) -> F:
        @wraps(read)
        def told(*args: Any, **given: Any) -> Any:
            try:
                return read(*args, **given)
            except UnreadableServerError as error:
                raise error_class(str(error)) from None  # what else is raised is not shown

        server.tool()(told)
        return read

    @tool
    def overview(
        range: Range = "24h",  # noqa: A002 -- the API's name
        service: Service = None,
        workflow: Workflow = None,
        segment: Segment = None,
    ) -> dict[str, Any]:
        """How retrieval and answers are: verdicts, mean of every score with interval, what has changed."""
        return reading.overview(range=range, service=service, workflow=workflow, segment=segment)

    @tool
    def worst_requests(
        range: Range = "24h",  # noqa: A002
        service: Service = None,
        workflow: Workflow = None,
        segment: Segment = None,
        verdict: Annotated[
            Literal["good", "suspect", "bad"] | None, Field(description="Only this verdict.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> list[dict[str, Any]]:
        """The requests to look at first, the worst one first, with trace ids and the reasons' codes."""
        return reading.worst_requests(
            range=range,
            service=service,
            workflow=workflow,
            segment=segment,
            verdict=verdict,
            limit=str(limit),
        )

    @tool
    def request(
        trace_id: Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="32 hex digits.")],
    ) -> dict[str, Any]:
        """Why one request has its verdict: reasons, scores beside what is usual, chunks, what was missing."""
        return reading.request(trace_id)

    @tool
    def changes(
        range: Range = "7d",  # noqa: A002
        service: Service = None,
        workflow: Workflow = None,
    ) -> list[Any]:
        """What got worse or better, since when, by how much, and what was new at that moment."""
        return reading.changes(range=range, service=service, workflow=workflow)

    @tool
    def conversations(
        range: Range = "24h",  # noqa: A002
        service: Service = None,
        workflow: Workflow = None,
        conversation_id: Annotated[str | None, Field(description="This one alone.")] = None,
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> dict[str, Any]:
        """Conversations of several turns, those that went badly first, with their first bad turn."""
        return reading.conversations(
            range=range,
            service=service,
            workflow=workflow,
            conversation_id=conversation_id,
            limit=str(limit),
        )

    @tool
    def gaps(service: Service = None, workflow: Workflow = None) -> dict[str, Any]:
        """Topics of the last 14 days whose questions go badly, and what is lacking."""
        return reading.gaps(service=service, workflow=workflow)

    @tool
    def chunks(service: Service = None, workflow: Workflow = None) -> dict[str, Any]:
        """Chunks of the last 14 days that serve bad answers, are never used, contradict others, are stale."""
        return reading.chunks(service=service, workflow=workflow)

    @tool
    def not_scored() -> dict[str, Any]:
        """What the server received and did not score or could not send, by reason, and how it is."""
        return reading.not_scored()

    return server
