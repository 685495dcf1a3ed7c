"""Decompression of export requests, within a limit: a small body may expand to gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from ragmeter.adapters.opentelemetry.otlp import MalformedError
from ragmeter.metrics import RagmeterError

_WINDOWS: Mapping[str, int] = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Content encodings, with zlib's parameter for each."""
_MEMBERS = 1_000
"""Most compressed members of one body, as some senders compress in parallel; they may be empty."""
_PIECE = 65_536
ENCODINGS = "gzip, deflate, identity"
"""The supported encodings, for error messages."""


class TooLargeError(RagmeterError):
    """A body exceeds a limit; repeating it is useless."""


class UnknownEncodingError(RagmeterError):
    """The content encoding of a body is not supported."""


def unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """Return the decompressed body.

    Args:
        body: The received body.
        encoding: Its content encoding; "" or ``identity``: not compressed.
        limit: Most bytes of the result.

    Raises:
        TooLargeError: The result is larger.
        MalformedError: The body does not match its encoding.
        UnknownEncodingError: The encoding is not supported.
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
