"""Bodies of export requests, unpacked within a limit: a small body may hold gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from ragmeter.adapters.opentelemetry.otlp import MalformedError
from ragmeter.metrics import RagmeterError

__all__ = ["ENCODINGS", "TooLargeError", "UnknownEncodingError", "unpacked"]

_WINDOWS: Mapping[str, int] = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Content encodings, and how zlib calls them."""
ENCODINGS = "gzip, deflate, identity"
"""What a sender may choose from."""


class TooLargeError(RagmeterError):
    """A body is beyond a limit; sent again, it would be so again."""


class UnknownEncodingError(RagmeterError):
    """A body is packed in a way that is not known here."""


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """Return what a body holds.

    Args:
        body: As it was sent.
        encoding: Its content encoding; "" or ``identity``: it is not packed.
        limit: Bytes that it may hold.

    Raises:
        TooLargeError: It holds more.
        MalformedError: It is not packed as it says.
        UnknownEncodingError: Nobody here can unpack it.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        plain = body
    elif name in _WINDOWS:
        plain = _inflated(body, _WINDOWS[name], limit)
    else:
        raise UnknownEncodingError(f"content encoding {name[:40]!r}: known are {ENCODINGS}")
    if len(plain) > limit:
        raise TooLargeError(f"more than {limit} bytes; send smaller batches")
    return plain


def _inflated(body: bytes, window: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left, rest = limit + 1, body
    try:
        while rest and left > 0:
            member = zlib.decompressobj(window)
            part = member.decompress(rest, left)
            parts.append(part)
            left -= len(part)
            if left > 0 and not member.eof:
                raise MalformedError("the packed body breaks off")
            # Several packed parts behind each other are one body; each must hold something new.
            rest = member.unused_data
    except zlib.error:
        raise MalformedError("not packed as Content-Encoding says") from None
    return b"".join(parts)
