"""Bodies of export requests, unpacked within a limit: a small body may hold gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from ragmeter.adapters.opentelemetry.otlp import MalformedError
from ragmeter.metrics import RagmeterError

_WINDOWS: Mapping[str, int] = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Content encodings, and how zlib calls them."""
_MEMBERS = 1_000
"""Packed parts of one body, as some senders pack theirs in parallel; they may be empty."""
_PIECE = 65_536
ENCODINGS = "gzip, deflate, identity"
"""What a sender may choose from."""


class TooLargeError(RagmeterError):
    """A body is beyond a limit; sent again, it would be so again."""


class UnknownEncodingError(RagmeterError):
    """A body is packed in a way that is not known here."""


def unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """Return the decompressed body.

    Args:
        body: As it was sent.
        encoding: Its content encoding; "" or ``identity``: it is not packed.
        limit: Bytes that it may hold.

    Raises:
        TooLargeError: It holds more.
        MalformedError: It is not packed as it says.
        UnknownEncodingError: It cannot be unpacked here.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        plain = body
    elif name in _WINDOWS:
        plain = _inflate(body, _WINDOWS[name], limit)
    else:
        raise UnknownEncodingError(f"content encoding {name[:40]!r}: known are {ENCODINGS}")
    if len(plain) > limit:
        raise TooLargeError(f"more than {limit} bytes; send smaller batches")
    return plain


def _inflate(body: bytes, window: int, limit: int) -> bytes:
    """Decompress concatenated members in pieces, without copying the rest of the body for each."""
    view, at = memoryview(body), 0
    parts: list[bytes] = []
    left, members = limit + 1, 0
    try:
        while at < len(view) and left > 0:
            members += 1
            if members > _MEMBERS:
                raise MalformedError(f"more than {_MEMBERS} packed parts")
            member = zlib.decompressobj(window)
            while not member.eof and left > 0:
                if at == len(view):
                    raise MalformedError("the packed body breaks off")
                piece = view[at : at + _PIECE]
                part = member.decompress(piece, left)
                parts.append(part)
                left -= len(part)
                at += len(piece)
            at -= len(member.unused_data)
    except zlib.error:
        raise MalformedError("not packed as Content-Encoding says") from None
    return b"".join(parts)
