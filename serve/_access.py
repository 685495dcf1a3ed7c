"""Who may speak to the server over HTTP: the rules of the whole port, before anything is read.

On this machine alone anybody may, but no web page of elsewhere: its browser says so by ``Host`` or ``Origin``.
Beyond this machine whoever knows the token may.  Bodies pass through untouched, so that what streams streams.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ragmeter.metrics import ConfigurationError

__all__ = ["COOKIE", "TOKEN_VARIABLE", "Access", "guarded"]

TOKEN_VARIABLE = "RAGMETER_SERVE_TOKEN"  # noqa: S105 -- a name
COOKIE = "ragmeter_token"
LEAST_TOKEN = 16
"""Characters of a token."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = frozenset({"/healthz", "/readyz"})
"""What whoever reaches the port may ask: it says no word of any request."""


class Access:
    """What is asked of those who come.

    Args:
        host: Where the server listens.
        token: What they must know; empty: nothing on this machine, and a new one beyond it.

    Raises:
        ConfigurationError: The token can be guessed.
    """

    def __init__(self, host: str, token: str = "") -> None:
        self.is_local = _is_loopback(host)
        if token and (len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable()):
            raise ConfigurationError(
                f"{TOKEN_VARIABLE} is too short, or has characters that a header cannot have; give at least "
                f"{LEAST_TOKEN} letters and digits"
            )
        self.token = token or ("" if self.is_local else secrets.token_urlsafe(24))
        self._hosts = {"localhost", "127.0.0.1", "::1", host.lower().strip("[]")}

    def knows(self, authorization: str) -> bool:
        """Return whether a header ``Authorization`` holds the token, or none is asked for."""
        kind, _, given = authorization.partition(" ")
        return not self.token or (kind.lower() == "bearer" and self.is_token(given.strip()))

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, in a time that tells nothing."""
        return bool(self.token) and hmac.compare_digest(given.encode(), self.token.encode())

    def is_own_host(self, host: str) -> bool:
        """Return whether a request was meant for this server, by its header ``Host``."""
        try:
            said = urlsplit(f"//{host}")
            name, _ = said.hostname, said.port  # a port that is none is no address at all
        except ValueError:
            return False
        if said.netloc != host or "@" in host:
            return False
        # Whoever has the token was given the address with it.
        return bool(name) and (bool(self.token) or name in self._hosts)


def guarded(application: ASGIApp, access: Access, counted: Callable[[str], None]) -> ASGIApp:
    """Return the application behind these rules.

    Args:
        application: Answers those who may come in.
        access: What is asked of them.
        counted: Counts what was refused, by the reason.
    """

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        refused = _refused(scope, access, counted)
        answer = application if refused is None else refused
        await answer(scope, receive, send)

    return guard


def _refused(scope: Scope, access: Access, counted: Callable[[str], None]) -> Response | None:
    """Return the answer to a request that may not come in; None: it may."""
    headers = Headers(scope=scope)
    path: str = scope["path"]
    if scope["method"] == "PRI":
        # The beginning of HTTP/2, which is what gRPC speaks.
        counted("grpc_on_http")
        return _said(
            421,
            "this port speaks HTTP/1.1, and this is gRPC: send to the port for gRPC, or set "
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        )
    if not access.is_own_host(headers.get("host", "")):
        counted("host")
        return _said(421, "this server goes by another name: use the address that it printed")
    origin = headers.get("origin")
    is_sending = path.startswith("/v1/")
    if (
        origin is not None
        and (is_sending or scope["method"] not in _READING)
        and (is_sending or not _is_same(origin, headers.get("host", "")))
    ):
        counted("origin")
        return _said(403, "web pages of elsewhere may not send anything here")
    if path in _OPEN or not access.token:
        return None
    return _without_token(scope, headers, access, counted)


def _without_token(
    scope: Scope, headers: Headers, access: Access, counted: Callable[[str], None]
) -> Response | None:
    if access.knows(headers.get("authorization", "")) or access.is_token(_cookie(headers)):
        return None
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if scope["method"] == "GET" and any(
        name == "token" and access.is_token(value) for name, value in query
    ):
        # Once: from now on the browser has it, and no address that is passed on holds it.
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"].lstrip("/")  # never another host's
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
        answer.set_cookie(COOKIE, access.token, httponly=True, samesite="strict", path="/")
        answer.headers["Referrer-Policy"] = "no-referrer"
        answer.headers["Cache-Control"] = "no-store"
        return answer
    counted("token")
    return _said(
        401,
        "a token is needed: senders set OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer%20TOKEN', browsers "
        "open the address that the server printed",
        {"WWW-Authenticate": "Bearer"},
    )


def _cookie(headers: Headers) -> str:
    try:
        found: Any = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else str(found.value)


def _said(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    # What a body holds that was not read would be taken for the next request.
    return JSONResponse(
        {"error": why},
        status_code=status,
        headers={"Connection": "close", "Cache-Control": "no-store", **(headers or {})},
    )


def _is_same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
