"""`HashedNgramEmbedding`: turns text into vectors without any model or network.

For the demo only.  It lets a real vector store rank real texts in English, Russian
and Chinese on any machine in a moment; it knows no meaning, only shared pieces of words.  Do not
use it in a product.  It must not know any framework: `_with_langchain` and
`_with_llama_index` wrap it.
"""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[㐀-鿿]+|[^\W_㐀-鿿]+")
_HAN = re.compile(r"[㐀-鿿]")
_NGRAM = 4
DIMENSIONS = 4096


def features(text: str) -> list[str]:
    """Split `text` into comparable pieces, repeats included.

    A Han run gives its characters and pairs of characters; any other word gives itself and the
    four-letter pieces of the word between ``<`` and ``>``, so that inflected forms share most of
    their pieces.
    """
    pieces: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if _HAN.match(word):
            pieces.extend(word)
            pieces.extend(word[at : at + 2] for at in range(len(word) - 1))
        else:
            framed = f"<{word}>"
            pieces.append(framed)
            pieces.extend(framed[at : at + _NGRAM] for at in range(len(framed) - _NGRAM + 1))
    return pieces


class HashedNgramEmbedding:
    """Hashed pieces of words, weighted by their rarity in the library. Deterministic."""

    def __init__(self, library: Iterable[str]) -> None:
        texts = 0
        found_in: Counter[int] = Counter()
        for text in library:
            texts += 1
            found_in.update({self._slot(piece) for piece in features(text)})
        self._weights = [math.log((texts + 1) / (found_in[slot] + 0.5)) for slot in range(DIMENSIONS)]

    def _slot(self, piece: str) -> int:
        return zlib.crc32(piece.encode("utf-8")) % DIMENSIONS

    def embed(self, text: str) -> list[float]:
        """Return the unit vector of `text`; all zero when it has no letter or digit."""
        counts = Counter(self._slot(piece) for piece in features(text))
        vector = [0.0] * DIMENSIONS
        for slot, count in counts.items():
            vector[slot] = (1.0 + math.log(count)) * max(self._weights[slot], 0.0)
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector] if length else vector

    def similarity(self, first: str, second: str) -> float:
        """Return the cosine of the two texts' vectors, 0.0 to 1.0."""
        return sum(a * b for a, b in zip(self.embed(first), self.embed(second), strict=True))
