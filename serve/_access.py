"""Access to the server over HTTP: the rules of the whole port, checked before anything is read.

A server on loopback serves any local client, but no web page of another site, which its browser identifies by
``Host`` or ``Origin``. Beyond this machine, clients need the token, and a client with the viewers' token may
only read. Bodies are passed through unbuffered, so that streaming works.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ragmeter.metrics import ConfigurationError

from ._counts import Counts
from ._limits import RETRY_AFTER_S, Limits
from ._lingering import LingeringResponse

TOKEN_VARIABLE = "RAGMETER_SERVE_TOKEN"  # noqa: S105 -- a name
VIEW_TOKEN_VARIABLE = "RAGMETER_SERVE_VIEW_TOKEN"  # noqa: S105 -- a name
COOKIE = "ragmeter_token"
LEAST_TOKEN = 16
"""Fewest characters of a token."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that any client may request: they reveal nothing of any request."""


class Access:
    """The access rules for clients of the server.

    Args:
        host: The address on which the server listens.
        token: The token of clients; empty: none on this machine, and a new one beyond it.
        view_token: The token of clients that only read; empty: they need the other one.

    Raises:
        ConfigurationError: A token can be guessed, or viewers would need no token or the same one.
    """

    def __init__(self, host: str, token: str = "", view_token: str = "") -> None:
        self.is_local = _is_loopback(host)
        for variable, one in ((TOKEN_VARIABLE, token), (VIEW_TOKEN_VARIABLE, view_token)):
            if one and (len(one) < LEAST_TOKEN or not one.isascii() or not one.isprintable()):
                raise ConfigurationError(
                    f"{variable} is too short, or has characters that a header cannot have; give at least "
                    f"{LEAST_TOKEN} letters and digits"
                )
        self.token = token or ("" if self.is_local else secrets.token_urlsafe(24))
        self.view_token = view_token
        if view_token and self.token in ("", view_token):
            raise ConfigurationError(
                f"a token for viewers needs another one for senders: set {TOKEN_VARIABLE}, or --token-file"
            )
        self._hosts = {"localhost", "127.0.0.1", "::1", host.lower().strip("[]")}

    def knows(self, authorization: str, *, looks: bool = False) -> bool:
        """Return whether a header ``Authorization`` has a sufficient token, or no token is required."""
        kind, _, given = authorization.partition(" ")
        return not self.token or (kind.lower() == "bearer" and self.lets(given.strip(), looks=looks))

    def lets(self, given: str, *, looks: bool = False) -> bool:
        """Return whether a token is sufficient, in constant time.

        Args:
            given: The client's token.
            looks: Whether the request only reads, for which the viewers' token suffices, too.
        """
        enough = [self.token, self.view_token] if looks else [self.token]
        return any(one and hmac.compare_digest(given.encode(), one.encode()) for one in enough)

    def is_own_host(self, host: str) -> bool:
        """Return whether a request is meant for this server, by its header ``Host``."""
        try:
            said = urlsplit(f"//{host}")
            name, _ = said.hostname, said.port  # an invalid port makes the whole address invalid
        except ValueError:
            return False
        if said.netloc != host or "@" in host:
            return False
        # A client with the token got the address with it.
        return bool(name) and (bool(self.token) or name in self._hosts)


def guard_access(application: ASGIApp, access: Access, counts: Counts, limits: Limits) -> ASGIApp:
    """Wrap the application so that every request is checked against the access rules."""
    under_way = 0

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal under_way
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        answer: ASGIApp = _refusal(scope, access, counts.export) or application
        is_full = under_way >= limits.connections and scope["path"] not in _OPEN
        if is_full and answer is application:
            counts.busy(why := "too many connections at once")
            answer = _error_response(503, why, {"Retry-After": str(RETRY_AFTER_S)})
        under_way += 1
        try:
            await answer(scope, receive, send)
        finally:
            under_way -= 1

    return guard


def _refusal(scope: Scope, access: Access, counted: Callable[[str], None]) -> Response | None:
    """Return the response that refuses a request, or None if it is admitted."""
    headers = Headers(scope=scope)
    path: str = scope["path"]
    if scope["method"] == "PRI":
        # The beginning of HTTP/2, which gRPC uses.
        counted("grpc_on_http")
        return _error_response(
            421,
            "this port speaks HTTP/1.1, and this is gRPC: send to the port for gRPC, or set "
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        )
    if not access.is_own_host(headers.get("host", "")):
        counted("host")
        return _error_response(421, "this server goes by another name: use the address that it printed")
    origin = headers.get("origin")
    is_sending = path.startswith("/v1/")
    if (
        origin is not None
        and (is_sending or scope["method"] not in _READING)
        and (is_sending or not _is_same(origin, headers))
    ):
        counted("origin")
        return _error_response(403, "web pages of elsewhere may not send anything here")
    if path in _OPEN or not access.token:
        return None
    return _without_token(scope, headers, access, counted)


def _without_token(
    scope: Scope, headers: Headers, access: Access, counted: Callable[[str], None]
) -> Response | None:
    authorization, cookie = headers.get("authorization", ""), _cookie(headers)
    looks = scope["method"] in _READING
    if access.knows(authorization, looks=looks) or access.lets(cookie, looks=looks):
        return None
    if access.knows(authorization, looks=True) or access.lets(cookie, looks=True):
        counted("token")
        return _error_response(403, "this token is for looking alone: sending and changing need the other one")
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    token = next((v for name, v in query if name == "token" and access.lets(v, looks=True)), "")
    if scope["method"] == "GET" and token:
        # Once: from now on the browser has the token, and addresses that people share do not contain it.
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"].lstrip("/")  # never another host's
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
        answer.set_cookie(
            COOKIE, token, httponly=True, samesite="strict", path="/", secure=scope["scheme"] == "https"
        )
        answer.headers["Referrer-Policy"] = "no-referrer"
        answer.headers["Cache-Control"] = "no-store"
        return answer
    counted("token")
    return _error_response(
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


def _error_response(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    # The unread rest of a body would be taken for the next request.
    return LingeringResponse(
        json.dumps({"error": why}),
        status_code=status,
        media_type="application/json",
        headers={"Connection": "close", "Cache-Control": "no-store", **(headers or {})},
    )


def _is_same(origin: str, headers: Headers) -> bool:
    # A proxy in front may put an address of its own into `Host`; no page can set what its browser says of it.
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] == "same-origin"
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
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
