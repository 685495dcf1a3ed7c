"""Explains failed TLS handshakes, and how to fix them, as the error only reads "Operation not permitted".

Used for connections to brokers and Redis.  Failures are recognised by OpenSSL's numbers and names, which are
stable; others keep OpenSSL's name.  The check of a broker's certificate cannot be switched off; that of a Redis
has redis-py's own switch.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

_OTHER_NAME = (62, 63, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_ and _IP_ADDRESS_MISMATCH."""
_UNTRUSTED = (18, 19, 20, 21)
"""Self-signed, self-signed in the chain, no local issuer, leaf that cannot be verified."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")


def tls_failure(error: BaseException, authority: str, *, own: str, other_name: str = "") -> str | None:
    """Return the TLS failure of a connection, and its fix.

    Args:
        error: The error of connecting; its causes are examined, too.
        authority: The option for an authority's certificates, e.g. ``?cacertfile=FILE``.
        own: The options for the client's certificate and its key, e.g. ``?certfile=FILE&keyfile=FILE``.
        other_name: The option for the name in the certificate; empty: no such option.

    Returns:
        One sentence that quotes no address and no file; None: the failure has another cause.
    """
    for one in _chain(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            if one.verify_code in _OTHER_NAME:
                hint = f" or give that name with {other_name}" if other_name else ""
                return f"its certificate is for another name: connect by the name in it{hint}"
            if one.verify_code in _UNTRUSTED:
                return f"its certificate has an unknown authority: name the authority with {authority}"
            return f"its certificate is refused: {one.verify_message}"
        if isinstance(one, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            # With TLS 1.3 a missing client certificate shows only after the handshake, or as a hang-up.
            return f"it hangs up within TLS; {_certificate_hint(own)}"
        if isinstance(one, ssl.SSLError):
            reason = one.reason or ""
            if reason in _NO_TLS:
                return "it speaks no TLS on this port"
            if "ALERT" in reason:
                return f"it refuses our side of TLS ({reason}); {_certificate_hint(own)}"
            if not one.library or one.library in ("X509", "PEM"):
                return f"a file holds no certificate or key ({reason or one.strerror})"
            return f"TLS fails ({reason})"
    return None


def _certificate_hint(own: str) -> str:
    return f"does it want a client certificate, from an authority that it knows? Name it with {own}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
