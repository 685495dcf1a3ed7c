"""The base class of embedders: embed each text once, for many requests at a time, and within limits.

`SemanticContextRelevance` uses it. Subclasses compute the vectors, in this process or at an endpoint;
`BatchedModel` saves and limits calls.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ragmeter.metrics._connection.batched_model import BatchedModel
from ragmeter.metrics._connection.sent_text import estimate_tokens, sendable
from ragmeter.metrics.errors import ConfigurationError
from ragmeter.metrics.judge.budget import JudgeBudget
from ragmeter.metrics.judge.protocol import JudgeError

from .vectors import BYTES_A_NUMBER, Vector, unit

Numbers = Sequence[Sequence[float]]
"""One vector per text, in order: lists, or rows of a numpy array."""

MAX_VECTORS = 20_000
"""Default number of cached vectors."""
MAX_BYTES = 64 * 2**20
"""Memory for them: 20,000 vectors of 384 numbers take half of it, of 1,536 numbers there is room for 10,000."""


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """The counts of an embedder in this process since it was built."""

    calls: int = 0
    """Calls, each of many texts; every retry counts."""
    texts: int = 0
    """Texts embedded."""
    remembered: int = 0
    """Texts that were known, or pending for another request."""
    failed: int = 0
    """Failed calls."""


class Embedder(BatchedModel[str, Vector]):
    """Turns texts into vectors. Thread-safe; works on several event loops; a fork starts empty.

    Args:
        name: The model's name; it is part of every score's ``definition``: another model is another score.
        query_prefix: Prefix of every question. Some models need one (e5: ``"query: "``), most none; it is
            never guessed.
        passage_prefix: Prefix of every chunk (e5: ``"passage: "``).
        batch_size: Most texts of one call.
        concurrency: Most concurrent calls, per event loop.
        timeout_s: Seconds for one call.
        max_vectors: Most cached vectors; the least recently used is evicted first. They take at most 64 MiB.
        budget: Limits on calls and tokens per minute; tokens are estimated. None: no limits.

    Raises:
        ConfigurationError: A number is out of range, or the name is empty.
    """

    whose, items, says = "embedder", "texts", "vectors"
    max_bytes = MAX_BYTES
    knows_questions = False
    """Whether questions need separate calls, as the model treats them differently, other than by a prefix."""

    def __init__(
        self,
        name: str,
        *,
        query_prefix: str = "",
        passage_prefix: str = "",
        batch_size: int = 64,
        concurrency: int = 1,
        timeout_s: float = 30.0,
        max_vectors: int = MAX_VECTORS,
        budget: JudgeBudget | None = None,
    ) -> None:
        if max_vectors < 0:
            raise ConfigurationError(f"max_vectors is {max_vectors!r}; pass 0 or more")
        super().__init__(
            name,
            batch_size=batch_size,
            concurrency=concurrency,
            timeout_s=timeout_s,
            budget=budget,
            max_known=max_vectors,
        )
        self.query_prefix = query_prefix
        self.passage_prefix = passage_prefix
        self.max_vectors = max_vectors

    @property
    def definition(self) -> str:
        """The model and its prefixes, if any, on which a score depends."""
        prefixes = f"{self.query_prefix}|{self.passage_prefix}"
        return f"model={self.name}" + (f";prefixes={prefixes}" if prefixes != "|" else "")

    @property
    def stats(self) -> EmbedderStats:
        """The counts so far in this process."""
        with self._lock:
            counts = dict(self._counts)
        return EmbedderStats(texts=counts.pop("items"), **counts)

    @abstractmethod
    async def embed(self, texts: Sequence[str], *, query: bool) -> Numbers:
        """Return one vector per text, in order; the texts include prefixes. Makes one call.

        Args:
            texts: At most `batch_size` texts, none blank.
            query: Whether they are questions; models may treat them differently.

        Raises:
            FailedCall: The endpoint refused, or there was no connection.
            Exception: Any exception of the model.
        """

    async def vectors(self, texts: Sequence[str], *, query: bool = False) -> list[Vector]:
        """Return the unit vector of each text; known texts are not embedded again.

        Raises:
            JudgeError: A call failed (``error_type`` has the class), there is no room in the budget (status
                ``skipped``), or a text has no usable vector.
        """
        prefix = self.query_prefix if query else self.passage_prefix
        items = [(_key(text, query=query), prefix + sendable(text)) for text in texts]
        # A model without a question mode gets both kinds in one call.
        return await self.results(items, query if self.knows_questions else None)

    async def _ask(self, items: Sequence[str], group: Hashable) -> Numbers:
        return await self.embed(items, query=bool(group))

    def _tokens(self, item: str) -> int:
        return estimate_tokens(item)

    def _read(self, said: Sequence[float], item: str) -> Vector | JudgeError:
        del item
        try:
            return unit(said)
        except (TypeError, ValueError):
            words = "the embedder returned a vector that is none: no numbers, no length, or not finite"
            return JudgeError(words, "unusable_vector")

    def _size(self, result: Vector) -> int:
        return len(result) * BYTES_A_NUMBER


def _key(text: str, *, query: bool) -> bytes:
    kind = b"q" if query else b"p"
    return blake2b(kind + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
