"""An endpoint's address, split so that its secrets are sent but never shown."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from ragmeter.metrics.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Address:
    """An endpoint's address, split into public and secret parts.

    A password before the host or a key in the query would be in every log line of the HTTP library,
    in pickles and in error messages. Both are still sent: the password as the header that it
    becomes anyway, the query added after logging.
    """

    whole: str = field(repr=False)
    """The given address."""
    plain: str
    """Without user, password, query and fragment."""
    host: str
    """Its host only."""
    login: str | None = field(repr=False)
    """The header ``Authorization`` for user and password."""
    query: str = field(repr=False)
    """The query, added to the address of every request."""

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse `url`.

        Raises:
            ConfigurationError: It is not an HTTP address; neither message nor cause quotes it.
        """
        wrong = ConfigurationError("base_url is no address; pass e.g. 'http://localhost:8000/v1'")
        try:
            parts = urlsplit(url)
            host = parts.hostname if parts.scheme in ("http", "https") else None
        except ValueError:
            raise wrong from None
        if not host:
            raise wrong
        user, at, place = parts.netloc.rpartition("@")
        login = None
        if at:
            name, _, password = user.partition(":")
            said = f"{unquote(name)}:{unquote(password)}".encode()
            login = f"Basic {base64.b64encode(said).decode('ascii')}"
        plain = urlunsplit((parts.scheme, place, parts.path, "", ""))
        return cls(url, plain, host, login, parts.query)

    @property
    def without_secrets(self) -> str:
        """The address for storage: of its query only the version."""
        kept = [(n, v) for n, v in parse_qsl(self.query) if "version" in n.casefold()]
        return f"{self.plain}?{urlencode(kept)}" if kept else self.plain

    def request_hooks(self, url_type: type[Any]) -> list[Callable[[Any], Awaitable[None]]]:
        """Return hooks that add the query to a request of the HTTP library with that `url_type`."""
        if not self.query:
            return []
        added = parse_qsl(self.query, keep_blank_values=True)

        class UnshownQuery(url_type):  # type: ignore[misc]
            """An address that is logged without its query."""

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
