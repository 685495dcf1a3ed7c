"""Write tokens as characters: token lists become strings, which compare several times faster.

The matching of chunks and sentences and `overlap` call this. Two metrics match the same texts of one request:
the encoding for the first is cached for the second, until the next request.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, count, islice, repeat

from ragmeter.metrics._process.lazy_attribute import lazy_attribute

from .analysis import analyse, latest
from .tokens import MARK

_ALPHABET_SIZE = 0x110000


def _with_marks(texts: Iterable[Sequence[str]]) -> list[str]:
    marked: list[str] = []
    for words in texts:
        marked += words
        marked.append(MARK)
    return marked


def encode(golden: Sequence[Sequence[str]], retrieved: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Encode token lists as strings, in which equal tokens are equal characters.

    Tokens that no golden text has are left out of the retrieved texts, which changes no common subsequence of
    the two.

    Returns:
        The golden texts and the retrieved ones, in order.

    Raises:
        ValueError: The golden texts have more than a million distinct tokens.
    """
    return _encode(_with_marks(golden), _with_marks(retrieved))


def _encode(golden: Sequence[str], retrieved: Iterable[str]) -> tuple[list[str], list[str]]:
    # The mark is character 0.
    distinct = dict.fromkeys(chain((MARK,), golden))
    if len(distinct) > _ALPHABET_SIZE:
        raise ValueError("the texts have more than a million distinct tokens")
    alphabet = dict(zip(distinct, map(chr, count()), strict=False))
    wanted = "".join(map(alphabet.__getitem__, golden))
    found = "".join(map(alphabet.get, retrieved, repeat("")))
    # Nothing follows the last mark.
    return wanted.split(MARK)[:-1], found.split(MARK)[:-1]


class EncodedPair:
    """The golden and the retrieved texts of one request, as `encode` returns them."""

    def __init__(self, golden: Sequence[str], retrieved: Sequence[str]) -> None:
        self._texts = (golden, retrieved)

    @lazy_attribute
    def sentences(self) -> tuple[list[str], list[str]]:
        """The sentences of all golden and of all retrieved texts."""
        golden, retrieved = self._texts
        return _encode(
            [word for text in golden for word in analyse(text).marked_tokens],
            chain.from_iterable([analyse(text).marked_tokens for text in retrieved]),
        )

    @lazy_attribute
    def chunks(self) -> tuple[list[str], list[str]]:
        """Each golden and each retrieved text as a whole."""
        golden, retrieved = self._texts
        if "sentences" in self.__dict__:
            # No token crosses the end of a sentence.
            wanted, found = self.sentences
            return _join_by_text(wanted, golden), _join_by_text(found, retrieved)
        return encode([analyse(text).tokens for text in golden], [analyse(text).tokens for text in retrieved])


def _join_by_text(sentences: Iterable[str], texts: Iterable[str]) -> list[str]:
    left = iter(sentences)
    return ["".join(islice(left, len(analyse(text).sentences))) for text in texts]


def encoded_pair(golden: Sequence[str], retrieved: Sequence[str]) -> EncodedPair:
    """Return the `EncodedPair` of these texts, the same object if they are those of the last call."""
    texts = (tuple(golden), tuple(retrieved))
    return latest(texts, lambda: EncodedPair(*texts))
