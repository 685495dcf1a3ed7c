"""`Front`: the server's port over HTTP, and its page, which is there before the rest of the server.

Scoring, gRPC and the OpenTelemetry SDK take most of a start. Meanwhile the page shows what is stored; other
requests wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn
from starlette.responses import JSONResponse
from starlette.routing import Route, Router

from ragmeter._runtime.guard import ErrorLog, Guard
from ragmeter.metrics import ConfigurationError
from ragmeter.requests.references import load_references

from ._access import Access, guard_access
from ._connections import connections
from ._counts import Counts
from ._limits import KEEP_ALIVE_S, RECEIVE_S, Limits
from ._listening import address_of, bind, grpc_path, token_of
from ._public_path import public_address, under
from ._tls import certificate_of
from .options import ServeOptions
from .page import GoldenSet, Labels, Pages, Sources, Standing
from .store import Reader, Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ragmeter.adapters.opentelemetry.heard import HeardService
    from ragmeter.watch.change import Change

_START_S = 30.0
_QUIET_S = 0.05
"""Seconds without a request after which no reader waits for the first page."""
_MOST_S = 1.0
"""Most seconds that the rest of the server gives way to the page."""
_NO_VIEWS = frozenset({"/live", "/healthz", "/readyz"})
"""Paths of probes, and of a stream that never ends."""


class Front:
    """Listens over HTTP, and serves the page of the store.

    Raises:
        ConfigurationError: The port is in use, or an option of the page, the store or the port is invalid.
    """

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.limits = Limits(
            body_bytes=options.max_body_bytes,
            bodies_bytes=8 * options.max_body_bytes,
            header_s=options.header_timeout_s,
            held_bytes=options.max_held_bytes,
        )
        self.counts = Counts()
        self.state = "starting"
        token, self._may_print_token = token_of(options)
        view_token, self._may_print_view_token = token_of(options, looks=True)
        self.access = Access(options.host, token, view_token)
        self.certificate = certificate_of(options)
        self.store: Store | None = None
        self.reader: Reader | None = None
        self.page: Pages | None = None
        self.grpc_port = options.grpc_port
        self._sources: Sources | None = None
        self._errors = _Errors()
        self._whole: Future[ASGIApp] = Future()
        self._views: set[int] = set()
        """The requests for which a page is being made."""
        self._answered_at = 0.0
        self._application = self._router()
        self._socket = bind(options)
        self.http_port = 0 if options.uds else int(self._socket.getsockname()[1])
        try:
            if options.store is not None:
                self.store = Store(options.store)
                self.reader = self.store.reader()
            self._http = uvicorn.Server(
                uvicorn.Config(
                    under(
                        public_address(options.page),
                        guard_access(self._answer, self.access, self.counts, self.limits),
                    ),
                    http=connections(self.limits, self.counts),
                    ws="none",
                    lifespan="off",
                    log_config=None,
                    access_log=False,
                    proxy_headers=False,
                    server_header=False,
                    timeout_keep_alive=KEEP_ALIVE_S,
                    timeout_graceful_shutdown=int(RECEIVE_S),
                    backlog=self.limits.connections,
                )
            )
            if options.grpc_port or options.uds is not None:
                self.make_page(options.grpc_port)
        except BaseException:
            self.close()
            raise
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._listen()), name="ragmeter-http", daemon=True
        )

    @property
    def addresses(self) -> tuple[str, str]:
        """The addresses for OTLP over HTTP and over gRPC."""
        options = self.options
        if options.uds is not None:
            return f"unix:{options.uds}", f"unix:{grpc_path(options.uds)}"
        return address_of(options, self.http_port), address_of(options, self.grpc_port)

    @property
    def url(self) -> str:
        """The page's address, with the token if it may be printed: not for logs that others can read."""
        query = f"?token={self.access.token}" if self.access.token and self._may_print_token else ""
        return f"{self.addresses[0]}/{query}"

    @property
    def view_url(self) -> str | None:
        """The address for viewers; None: no viewers' token, or it was printed before."""
        token = self.access.view_token
        return f"{self.addresses[0]}/?token={token}" if token and self._may_print_view_token else None

    def make_page(self, grpc_port: int) -> None:
        """Make the page, which names the port for gRPC; none without a store."""
        self.grpc_port = grpc_port
        if self.store is None or self.reader is None or self.page is not None:
            return
        options, (http_address, grpc_address) = self.options, self.addresses
        for address in options.trace_urls:
            if urlsplit(address).scheme not in ("http", "https") or "{trace_id}" not in address:
                raise ConfigurationError(
                    f"--trace-url {address!r}: give an address with {{trace_id}} in it, for example "
                    "http://localhost:16686/trace/{trace_id}"
                )
        golden, beside = options.golden, self.store.options.beside
        if golden is None and beside is not None:
            golden = beside / "golden.jsonl"
        self._sources = Sources(
            reader=self.reader,
            decide_gap=self.store.decide_gap,
            health=lambda: {"status": self.state},
            ended=lambda: self.state not in ("starting", "ok"),
            guard=Guard("serve.page", self._errors),
            http_address=http_address,
            grpc_address=grpc_address,
            public_address=public_address(options.page),
            trace_urls=options.trace_urls,
            references=load_references(options.references),
            labels=None if golden is None else Labels(golden.with_name("labels.jsonl"), GoldenSet(golden)),
            keeps_texts=self.store.options.texts,
            wait_s=options.idle_s,
        )
        self.page = Pages(self._sources)
        self._application = self._router(self.page.routes())

    def start(self) -> None:
        """Begin to listen, unless it does; return once it does."""
        if self._thread.ident is not None:
            return
        self._thread.start()
        deadline = time.monotonic() + _START_S
        while not self._http.started and self._thread.is_alive():
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)

    def give_way(self) -> None:
        """Return when no page is being made: with imports beside it, it would take twice the time."""
        began = self._answered_at = time.monotonic()
        while (now := time.monotonic()) - began < _MOST_S:
            if not self._views and now - self._answered_at > _QUIET_S:
                return
            time.sleep(0.005)

    def join(
        self,
        application: ASGIApp,
        *,
        changes: Callable[[], Sequence[Change]],
        standing: Callable[[], Standing],
        health: Callable[[], Mapping[str, Any]],
        heard: Callable[[], Sequence[HeardService]],
        report: Callable[[str, Exception], None],
    ) -> None:
        """Have the rest of the server answer from now on.

        Args:
            application: Answers every request.
            changes: As in `Sources`, like the next three.
            standing: Returns the state of the detectors.
            health: Returns `Server.health`.
            heard: Returns the received requests of each service.
            report: Counts and logs a contained error of a component.
        """
        if self._sources is not None:
            self._sources.changes, self._sources.standing = changes, standing
            self._sources.health, self._sources.heard = health, heard
        self._errors.passed_on = report
        self._application = application
        self._whole.set_result(application)

    def end_listening(self) -> None:
        """Accept no connection any more; requests in progress are answered."""
        self._http.should_exit = True

    def wait(self, timeout_s: float) -> None:
        """Wait until the requests in progress are answered; then end the page."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout_s))
        if self.page is not None:
            self.page.close()

    def close(self) -> None:
        """End the store, and free the port."""
        if self.store is not None:
            self.store.close()
        self._socket.close()

    def abandon(self) -> None:
        """End, as the rest of the server cannot be made."""
        self.state = "ended"
        self._whole.cancel()
        self.end_listening()
        self.wait(RECEIVE_S)
        self.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in _NO_VIEWS:
            self._views.add(id(scope))
        try:
            await self._application(scope, receive, send)
        finally:
            if id(scope) in self._views:
                self._views.discard(id(scope))
                self._answered_at = time.monotonic()

    async def _wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer when the rest of the server is there."""
        self._views.discard(id(scope))
        whole = await asyncio.shield(asyncio.wrap_future(self._whole))
        await whole(scope, receive, send)

    def _router(self, routes: Sequence[Route] = ()) -> ASGIApp:
        """Return what answers until then: probes, these routes, and `_wait`."""

        async def healthz(_: Request) -> JSONResponse:
            return JSONResponse({"status": self.state}, 503)

        async def readyz(_: Request) -> JSONResponse:
            return JSONResponse({"ready": False, "why": self.state}, 503)

        probes = (Route("/healthz", healthz), Route("/readyz", readyz))
        return Router([*probes, *routes], default=self._wait)

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an error of the loop, which logs one for each connection that no file is left for."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self._errors.report("serve.http", error)
        else:
            loop.default_exception_handler(context)

    async def _listen(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._note_error)
        if self.certificate is not None:
            self.certificate.wrap(asyncio.get_running_loop())
        await self._http.serve([self._socket])


class _Errors(ErrorLog):
    """Errors of the page, which are the meter's once there is one."""

    passed_on: Callable[[str, Exception], None] | None = None

    def report(self, component: str, error: Exception) -> None:
        """Count and log an error."""
        (self.passed_on or super().report)(component, error)
