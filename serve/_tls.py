"""TLS for both ports: the certificate, reloaded when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragmeter.metrics import ConfigurationError

if TYPE_CHECKING:
    import grpc

    from .options import ServeOptions

_log = logging.getLogger("ragmeter")


class Certificate:
    """A certificate and its key, as PEM files.

    Args:
        cert: The certificate, followed by intermediate ones up to one that senders trust.
        key: Its key; the same file may contain both.
        handshake_s: Timeout of a handshake in seconds.

    Raises:
        ConfigurationError: The files cannot be used.
    """

    def __init__(self, cert: Path, key: Path, handshake_s: float) -> None:
        self._files = (cert, key)
        self._handshake_s = handshake_s
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._read: tuple[bytes, ...] = ()
        self._trouble = ""
        try:
            self._take()
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"--tls-cert {cert} and --tls-key {key} cannot be used ({_why(error)}): give PEM files that "
                "belong together and that this user may read, the key without a password"
            ) from None

    def renew(self) -> bool:
        """Reload certificate files that changed; unusable ones leave the earlier certificate in force."""
        try:
            self._take()
            why = ""
        except (OSError, ValueError) as error:
            why = _why(error)
        if why not in ("", self._trouble):
            _log.warning("the new certificate cannot be used (%s); that before stays", why)
        self._trouble = why
        return False

    def of_grpc(self) -> grpc.ServerCredentials:
        """Return the credentials for a gRPC port."""
        import grpc  # noqa: PLC0415 -- the page is there before it

        return grpc.dynamic_ssl_server_credentials(
            self._of_handshake(), self._of_handshake, require_client_authentication=False
        )

    def wrap(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use TLS for the servers of an event loop; uvicorn itself sets no deadline for handshakes."""
        plain: Any = loop.create_server
        encrypted: Any = partial(plain, ssl=self._context, ssl_handshake_timeout=self._handshake_s)

        def create_server(*given: Any, ssl: object = None, **named: Any) -> Any:
            del ssl
            return encrypted(*given, **named)

        loop.create_server = create_server  # type: ignore[method-assign]

    def _take(self) -> None:
        read = tuple(path.read_bytes() for path in self._files)
        if read == self._read:
            return
        # Tested in a new context first: half of a new pair would remain in the current one.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._context):
            context.load_cert_chain(*self._files, password=_no_password)
        self._read = read

    def _of_handshake(self) -> Any:
        import grpc  # noqa: PLC0415 -- as above

        cert, key = self._read
        return grpc.ssl_server_certificate_configuration([(key, cert)])


def certificate_of(options: ServeOptions) -> Certificate | None:
    """Return the configured certificate; None if the ports are not encrypted.

    Raises:
        ConfigurationError: Certificate or key is missing, or the files cannot be used.
    """
    cert, key = options.tls_cert, options.tls_key
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ConfigurationError("--tls-cert and --tls-key belong together; give both")
    if options.uds is not None:
        raise ConfigurationError("--tls-cert is for ports: leave it out, or --uds")
    return Certificate(cert, key, options.header_timeout_s)


def _no_password() -> str:
    raise ValueError("the key has a password")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "no PEM file").lower().replace("_", " ")
    return (getattr(error, "strerror", None) or str(error)).lower()
