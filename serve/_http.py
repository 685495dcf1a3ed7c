"""OTLP over HTTP: ``POST /v1/traces``, ``/v1/logs`` and ``/v1/metrics``, and ``GET /healthz`` and ``/readyz``.

Bodies are received on the event loop, within limits of size and time; they are unpacked and read on a few
threads, so that a large one does not delay other senders. Answers are in the request's format, as the
protocol demands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from google.protobuf.json_format import MessageToJson
from google.rpc.status_pb2 import Status
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from ragmeter.adapters.opentelemetry.otlp import Signal
from ragmeter.metrics import RagmeterError

from ._answers import Answer, answer_to
from ._api import NoSuchMethod
from ._bodies import ENCODINGS, TooLargeError, UnknownEncodingError, unpack
from ._counts import Counts
from ._intake import BusyError, Intake
from ._limits import RETRY_AFTER_S, Limits
from ._lingering import LingeringResponse
from ._readers import FailedError, Readers

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

_SIGNALS: Mapping[str, Signal | None] = {"/v1/traces": "traces", "/v1/logs": "logs", "/v1/metrics": None}
"""The signal of each path; None: metrics, which are ignored."""
_INVALID_ARGUMENT = 3
_NOT_FOUND = 5
_RESOURCE_EXHAUSTED = 8
_INTERNAL = 13
_UNAVAILABLE = 14
"""Codes of ``google.rpc.Status``."""


class _RefusedError(Exception):
    def __init__(self, status: int, code: int, why: str, outcome: str, **headers: str) -> None:
        super().__init__(why)
        self.status = status
        self.code = code
        self.outcome = outcome
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def http_application(
    intake: Intake,
    limits: Limits,
    counts: Counts,
    readers: Readers,
    health: Callable[[], Mapping[str, Any]],
    why_not_ready: Callable[[], str | None],
    more: Sequence[BaseRoute] = (),
) -> Starlette:
    """Return the ASGI application."""
    door = _Door(intake, limits, counts, readers)

    async def healthz(_: Request) -> Response:
        state = await asyncio.get_running_loop().run_in_executor(None, health)
        return JSONResponse(state, status_code=200 if state["status"] == "ok" else 503)

    async def readyz(_: Request) -> Response:
        why = await asyncio.get_running_loop().run_in_executor(None, why_not_ready)
        return JSONResponse({"ready": why is None, "why": why}, 200 if why is None else 503)

    routes = [
        *(Route(path, door.endpoint(signal), methods=["POST"]) for path, signal in _SIGNALS.items()),
        *(Route(path, NoSuchMethod("POST")) for path in _SIGNALS),
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        _Misplaced("/{path:path}", door.refuse_path, methods=["POST"]),
        *more,
    ]
    return Starlette(routes=routes)


class _Misplaced(Route):
    """Takes OTLP that was sent to another path, by an address with a path too many or none."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match nothing but such a request, so that others are answered as they are without this route."""
        match, found = super().matches(scope)
        path = scope["path"].rstrip("/")
        if match is not Match.FULL or path in _SIGNALS:  # all requests for pages come by here
            return Match.NONE, {}
        media_type = _media_type_of(Request(scope))
        is_otlp = media_type == PROTOBUF or (
            media_type == JSON and (not path or path.endswith(tuple(_SIGNALS)))
        )
        return (match, found) if is_otlp else (Match.NONE, {})


class _Door:
    def __init__(self, intake: Intake, limits: Limits, counts: Counts, readers: Readers) -> None:
        self._intake = intake
        self._limits = limits
        self._counts = counts
        self._readers = readers
        self._requests = 0
        self._under_way = 0

    def endpoint(self, signal: Signal | None) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a signal; None: metrics, which are ignored."""

        async def export(request: Request) -> Response:
            media_type = _media_type_of(request)
            try:
                return await self._export(request, signal, media_type)
            except _RefusedError as refused:
                return self._refuse(refused, media_type)
            except ClientDisconnect:
                self._counts.export("broken_off")
                return Response(status_code=400)

        return export

    async def refuse_path(self, request: Request) -> Response:
        """Answer OTLP that was sent to a path where nothing takes it."""
        why = (
            f"OTLP is taken at {', '.join(_SIGNALS)}, not at {request.url.path[:80]}: "
            "OTEL_EXPORTER_OTLP_ENDPOINT is the address without a path, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT the "
            "one with /v1/traces"
        )
        refused = _RefusedError(404, _NOT_FOUND, why, "otlp_path", Connection="close")
        return self._refuse(refused, _media_type_of(request))

    def _refuse(self, refused: _RefusedError, media_type: str) -> Response:
        if refused.outcome == "busy":
            self._counts.busy(str(refused))
        else:
            self._counts.export(refused.outcome)
        body = Status(code=refused.code, message=str(refused))
        return _answer(body, media_type, refused.status, refused.headers)

    async def _export(self, request: Request, signal: Signal | None, media_type: str) -> Response:
        if media_type not in (PROTOBUF, JSON):
            raise _RefusedError(
                415, _INVALID_ARGUMENT, f"Content-Type must be {PROTOBUF} or {JSON}", "media_type"
            )
        why = self._intake.busy() or self._readers.why_not()
        if why is None and self._requests >= self._limits.connections * 3 // 4:
            # The rest is reserved for viewers of the page.
            why = "too many requests at once"
        if why is not None:
            raise _refusal_of(BusyError(why))
        held: list[int] = []
        self._requests += 1
        try:
            body = await self._receive_body(request, held)
            encoding = request.headers.get("content-encoding", "")
            answer = await self._readers.aread(partial(self._read, signal, body, encoding, media_type))
        except RagmeterError as error:
            raise _refusal_of(error) from None
        except asyncio.TimeoutError:
            raise _RefusedError(
                408, _INVALID_ARGUMENT, "the body did not come in time", "slow", Connection="close"
            ) from None
        finally:
            self._requests -= 1
            self._under_way -= sum(held)
        self._counts.export("accepted" if signal is not None else "metrics")
        return _answer(answer, media_type)

    async def _receive_body(self, request: Request, held: list[int]) -> bytes:
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._limits.body_bytes:
            raise self._too_long()
        return await asyncio.wait_for(self._collect(request, held), self._limits.body_s)

    async def _collect(self, request: Request, held: list[int]) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            held.append(len(part))
            self._under_way += len(part)
            if size > self._limits.body_bytes:
                raise self._too_long()
            if self._under_way > self._limits.bodies_bytes:
                raise _RefusedError(
                    429, _UNAVAILABLE, "too many bodies at once", "busy",
                    Retry_After=str(RETRY_AFTER_S),
                )  # fmt: skip
        return b"".join(parts)

    def _too_long(self) -> _RefusedError:
        # The rest is not read, so the connection cannot be reused.
        return _RefusedError(
            413, _RESOURCE_EXHAUSTED,
            f"more than {self._limits.body_bytes} bytes; send smaller batches", "too_large",
            Connection="close",
        )  # fmt: skip

    def _read(self, signal: Signal | None, body: bytes, encoding: str, media_type: str) -> Answer:
        """Unpack and accept a body, on a thread; return the answer."""
        plain = unpack(body, encoding, self._limits.body_bytes)
        return answer_to(self._intake, signal, plain, as_json=media_type == JSON)


def _media_type_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _refusal_of(error: RagmeterError) -> _RefusedError:
    if isinstance(error, BusyError):
        return _RefusedError(503, _UNAVAILABLE, str(error), "busy", Retry_After=str(RETRY_AFTER_S))
    if isinstance(error, TooLargeError):
        return _RefusedError(413, _RESOURCE_EXHAUSTED, str(error), "too_large")
    if isinstance(error, UnknownEncodingError):
        return _RefusedError(415, _INVALID_ARGUMENT, str(error), "encoding", Accept_Encoding=ENCODINGS)
    if isinstance(error, FailedError):
        return _RefusedError(500, _INTERNAL, str(error), "error")
    how = f"{PROTOBUF} or {JSON} as Content-Type says, packed as Content-Encoding says"
    return _RefusedError(400, _INVALID_ARGUMENT, f"{error}; send {how}", "malformed")


def _answer(
    message: Any, media_type: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    if media_type == JSON:
        body: str | bytes = MessageToJson(message, indent=None)
    else:
        media_type, body = PROTOBUF, message.SerializeToString()
    kind = LingeringResponse if "Connection" in (headers or {}) else Response
    return kind(body, status, dict(headers or {}), media_type)
