"""Put untrusted texts between delimiters that nobody who wrote them can know.

The prompt builder calls it.  The delimiter is derived from the texts and a
secret that is drawn at random when the judge is built: unguessable for whoever wrote the texts,
different from request to request, and yet the same for the metrics of one request,
so that a provider's prompt cache can share their common beginning.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256

from .contract import Passage

__all__ = ["enclose", "marker_for"]


def marker_for(secret: bytes, passages: Sequence[Passage]) -> str:
    """Return a delimiter that occurs in none of `passages`.

    It depends on the chunks alone where there are chunks, else on all texts.
    """
    chunks = [passage for passage in passages if passage.title.startswith("chunk")] or passages
    texts = [_body(passage) for passage in passages]
    seed = "\x00".join(_words(passage) for passage in chunks).encode("utf-8", "surrogatepass")
    attempt = 0
    while True:
        digest = hmac.new(secret, seed + attempt.to_bytes(4, "big"), sha256).hexdigest()[:12]
        if not any(digest in text for text in texts):
            return digest
        attempt += 1


def _words(passage: Passage) -> str:
    if passage.lines:
        return " ".join(" ".join(text.split()) for _, text in passage.lines)
    return " ".join(passage.text.split())


def _body(passage: Passage) -> str:
    if not passage.lines:
        return _sendable(passage.text)
    # One line per part: a text that brings its own line break and id cannot pose as a part.
    return "\n".join(
        f"{part_id}: {' '.join(_sendable(text).split())}" for part_id, text in passage.lines
    )


def _sendable(text: str) -> str:
    """Replace lone surrogates, which no request body can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def enclose(passage: Passage, marker: str) -> str:
    """Return `passage` between its delimiters, ready to be sent."""
    return f"<<{marker} {passage.title}>>\n{_body(passage)}\n<<{marker}>>"
