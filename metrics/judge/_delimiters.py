"""Put untrusted texts between delimiters, and ask by ids, that nobody who wrote the texts can know.

The prompt builder calls it.  Delimiter and ids are derived from the texts and a
secret that is drawn at random when the judge is built: unguessable for whoever wrote the texts,
and different from request to request.  The delimiter is the same for the metrics of one request,
so that a provider's prompt cache can share their common beginning; the ids differ for every ask,
so that a reply to another one answers none of ours.
"""

import hmac
from collections.abc import Collection, Sequence
from hashlib import sha256

from .protocol import Passage

__all__ = ["enclose", "marker_for", "tag_for"]

_MARKER_LENGTH = 12
"""Decimal digits: models read three of them as one token."""
_LETTERS = "bcdfghjkmpqvwxz"
"""Those of a tag: no vowels, so that it is never a word, and none that is easily misread."""
_TAG_LENGTH = 3


def marker_for(secret: bytes, passages: Sequence[Passage]) -> str:
    """Return a delimiter that occurs in none of `passages`.

    It depends on chunks and question alone where there are any, else on all texts.
    """
    common = [passage for passage in passages if _is_common(passage.title)] or passages
    texts = [_body(passage, "") for passage in passages]
    seed = _bytes("\x00".join(_words(passage) for passage in common))
    attempt = 0
    while True:
        number = _drawn(secret, seed + attempt.to_bytes(4, "big")) % 10**_MARKER_LENGTH
        marker = f"{number:0{_MARKER_LENGTH}}"
        if not any(marker in text for text in texts):
            return marker
        attempt += 1


def tag_for(secret: bytes, prompt: str, passages: Sequence[Passage], ids: Collection[str]) -> str:
    """Return the letters that begin every id of this ask: three, one of 3375 ways."""
    texts = "\x00".join(f"{passage.title}\x00{_body(passage, '')}" for passage in passages)
    seed = _bytes("\x00".join([prompt, *ids, texts]))
    number = _drawn(secret, seed)
    letters = []
    for _ in range(_TAG_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)


def _drawn(secret: bytes, seed: bytes) -> int:
    return int.from_bytes(hmac.new(secret, seed, sha256).digest()[:8], "big")


def _is_common(title: str) -> bool:
    """Return whether the metrics of one request all show the text of that title."""
    return title == "question" or title.startswith("chunk ")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _words(passage: Passage) -> str:
    if passage.lines:
        return " ".join(" ".join(text.split()) for _, text in passage.lines)
    return " ".join(passage.text.split())


def _body(passage: Passage, tag: str) -> str:
    if not passage.lines:
        return _sendable(passage.text)
    # One line per part: a text that brings its own line break and id cannot pose as a part.
    return "\n".join(
        f"{tag}{part_id}: {' '.join(_sendable(text).split())}" for part_id, text in passage.lines
    )


def _sendable(text: str) -> str:
    """Replace lone surrogates, which no request body can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def enclose(passage: Passage, marker: str, tag: str = "") -> str:
    """Return `passage` between its delimiters, ready to be sent; `tag` begins the ids of its lines."""
    return f"<<{marker} {passage.title}>>\n{_body(passage, tag)}\n<<{marker}>>"
