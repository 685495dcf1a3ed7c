"""An endpoint's address, and the secrets that people put into it.

A password before the host or a key in the query would stand in every log line of the HTTP library,
in pickles and in error messages.  Here they are taken out of the address; `wire` sends them all the
same, as the header that a password becomes anyhow, and as a query that is added after logging.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

__all__ = ["Address"]


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint's address, taken apart."""

    whole: str = field(repr=False)
    """As it was given."""
    plain: str
    """Without user, password, query and fragment."""
    host: str
    """Its host; nothing else of it."""
    login: str | None = field(repr=False)
    """The header ``Authorization`` that user and password become."""
    query: str = field(repr=False)
    """What is added to every request's address."""

    @classmethod
    def of(cls, url: str) -> Address:
        """Take `url` apart.

        Raises:
            ValueError: It has no host, or another scheme than HTTP; the message quotes nothing of it.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("no address")
        user, at, place = parts.netloc.rpartition("@")
        login = None
        if at:
            name, _, password = user.partition(":")
            said = f"{unquote(name)}:{unquote(password)}".encode()
            login = f"Basic {base64.b64encode(said).decode('ascii')}"
        plain = urlunsplit((parts.scheme, place, parts.path, "", ""))
        return cls(url, plain, parts.hostname, login, parts.query)

    @property
    def without_secrets(self) -> str:
        """The address as it may be stored: of its query only what says which version is meant."""
        told = [(n, v) for n, v in parse_qsl(self.query) if "version" in n.casefold()]
        return f"{self.plain}?{urlencode(told)}" if told else self.plain

    @property
    def has_secrets(self) -> bool:
        """Whether something is missing in `without_secrets`."""
        kept = self.without_secrets.partition("?")[2]
        return self.login is not None or parse_qsl(self.query) != parse_qsl(kept)

    def request_hooks(self, url_type: type[Any]) -> list[Callable[[Any], Awaitable[None]]]:
        """Return what adds the query to a request of the HTTP library with that `url_type`."""
        if not self.query:
            return []
        added = parse_qsl(self.query, keep_blank_values=True)

        class UnshownQuery(url_type):  # type: ignore[misc]
            """An address whose text, as it is logged, has no query."""

            def __str__(self) -> str:
                return str(url_type(self).copy_with(query=None))

            def __repr__(self) -> str:
                return repr(url_type(self).copy_with(query=None))

        async def add_query(request: Any) -> None:
            whole = request.url
            for name, value in added:
                whole = whole.copy_set_param(name, value)
            request.url = UnshownQuery(whole)

        return [add_query]
