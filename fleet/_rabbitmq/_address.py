"""Parse an ``amqp://`` URL: the broker's address and the names of its queues. Never prints the password."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._process.malformed_url import SIGNS, is_torn

_PORTS = {"amqp": 5672, "amqps": 5671}
_TLS = {
    "cacertfile": "ca_certs",
    "certfile": "certfile",
    "keyfile": "keyfile",
    "server_name_indication": "server_hostname",
}
"""RabbitMQ's names of these parameters, and py-amqp's."""
_FILES = ("cacertfile", "certfile", "keyfile")
_EXAMPLE = "amqps://user:password@rabbitmq.example:5671/scoring"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker's address, and the names of the queues there."""

    host: str
    port: int
    virtual_host: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    tls: dict[str, Any] | None = field(default=None, repr=False)
    """TLS arguments of py-amqp; None: not encrypted."""
    prefix: str = "ragmeter"
    """Prefix of the queues' names."""

    @classmethod
    def of(cls, url: str) -> BrokerAddress:
        """Parse a URL.

        Args:
            url: ``amqp://`` or ``amqps://``, then user, password, host, port and virtual host in RabbitMQ's
                form. Its parameters may be ``queue=NAME`` (the queues are called ``NAME.score`` and
                ``NAME.dead``, ``ragmeter`` by default) and, with TLS, ``cacertfile``, ``certfile``,
                ``keyfile``, ``server_name_indication``. The certificate of the broker is always checked.

        Raises:
            ConfigurationError: The URL is invalid, or names a file that cannot be read; explains without user
                and password.
        """
        if is_torn(url):
            raise ConfigurationError(f"the queue's URL ends its host before an @; {SIGNS}, as in {_EXAMPLE}")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigurationError(f"the queue's URL has no such port; write {_EXAMPLE}") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigurationError(f"the queue's URL names no broker; write {_EXAMPLE}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        prefix = options.pop("queue", "ragmeter")
        if not re.fullmatch(r"[\w.-]{1,200}", prefix):
            raise ConfigurationError("queue= of the queue's URL: letters, digits, _ . - only")
        encrypted = parts.scheme == "amqps"
        unknown = sorted(set(options) - set(_TLS if encrypted else ()))
        if unknown:
            known = ", ".join(["queue", *(_TLS if encrypted else ())])
            raise ConfigurationError(
                f"the queue's URL has unknown parameters ({', '.join(unknown)}); known: {known}"
            )
        tls = {"server_hostname": parts.hostname} if encrypted else None
        if tls is not None:
            for name in set(_FILES) & set(options):
                if not os.access(options[name], os.R_OK):
                    raise ConfigurationError(
                        f"{name}= of the queue's URL: {options[name]} is no file that this user can read"
                    )
            tls |= {_TLS[name]: value for name, value in options.items()}
        return cls(
            host=parts.hostname,
            port=port or _PORTS[parts.scheme],
            virtual_host=unquote(parts.path[1:]) or "/",
            user="guest" if parts.username is None else unquote(parts.username),
            password="guest" if parts.password is None else unquote(parts.password),
            tls=tls,
            prefix=prefix,
        )

    @property
    def queue(self) -> str:
        """The queue of messages to score."""
        return f"{self.prefix}.score"

    @property
    def dead_queue(self) -> str:
        """The queue of dead letters."""
        return f"{self.prefix}.dead"

    @property
    def shown(self) -> str:
        """Host and port, safe to print."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The full URL with its password, for Celery only."""
        user, password = quote(self.user, safe=""), quote(self.password, safe="")
        return f"amqp://{user}:{password}@{self.shown}/{quote(self.virtual_host, safe='')}"
