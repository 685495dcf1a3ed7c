"""`OpenAIEmbedder`: any OpenAI-compatible ``/embeddings`` endpoint as an embedder.

It uses the same client as the judge, with the same care for keys and addresses. Rows are sorted by their
``index``, and counted: an endpoint may return them in any order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ragmeter.metrics._connection.arguments import connect, extra_fields, made_again
from ragmeter.metrics._connection.failures import FailedCall
from ragmeter.metrics._connection.remote_model import RemoteModel
from ragmeter.metrics.judge.budget import JudgeBudget

from .embedder import MAX_VECTORS, Embedder, Numbers
from .vectors import Vector

_MOST_REPLY_BYTES = 64 * 2**20
"""Longest reply to read: 64 vectors of 4,096 numbers take some 6 MiB."""


class OpenAIEmbedder(RemoteModel[str, Vector], Embedder):
    """An embedding model behind an OpenAI-compatible endpoint.

    Temporary failures are retried with backoff, honouring ``Retry-After``. No redirect is followed.

    Args:
        model: The model's name, e.g. ``text-embedding-3-small``.
        base_url: The endpoint, e.g. ``http://localhost:11434/v1``; None: ``OPENAI_BASE_URL``, else OpenAI's
            own. Its secrets are neither shown, logged nor pickled.
        api_key: The key; None: ``OPENAI_API_KEY``. Optional for endpoints with a `base_url`. Never shown,
            logged or pickled.
        timeout_s: Seconds for one call, including retries.
        max_retries: Attempts after the first.
        headers: Sent with every call.
        extra_body: Fields added to every request, e.g. ``{"dimensions": 256}``. Pickled: no secrets.
        query_prefix: As in `Embedder`, as are the others.
        passage_prefix: Likewise.
        batch_size: Texts of one call.
        concurrency: Most concurrent calls on the wire, per event loop.
        max_vectors: Most cached vectors.
        budget: Limits on calls and tokens per minute.

    Raises:
        MissingDependencyError: The package ``openai`` is not installed.
        ConfigurationError: A number is out of range, neither key nor `base_url` is known, or no client can be
            made with them.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        max_retries: int = 2,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        batch_size: int = 64,
        concurrency: int = 4,
        max_vectors: int = MAX_VECTORS,
        budget: JudgeBudget | None = None,
    ) -> None:
        self._connect(
            connect("embedder", base_url, api_key, headers), max_retries=max_retries, concurrency=concurrency
        )
        self._extra = extra_fields(extra_body)
        options: dict[str, Any] = {
            "query_prefix": query_prefix,
            "passage_prefix": passage_prefix,
            "batch_size": batch_size,
            "concurrency": concurrency,
            "timeout_s": timeout_s,
            "max_vectors": max_vectors,
            "budget": budget,
        }
        self._settings: dict[str, Any] = {
            "model": model,
            "max_retries": max_retries,
            "extra_body": self._extra or None,
            **options,
        }
        super().__init__(model, **options)

    def __repr__(self) -> str:
        return f"OpenAIEmbedder(model={self.name!r}, host={self.host!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without key, headers and secrets of the address."""
        settings = {**self._settings, "base_url": self._caller.stored_url}
        return made_again, (OpenAIEmbedder, settings)

    def settings_and_secrets(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its arguments: those that may be pickled, and those that must not be.

        For ragmeter's worker process, which builds the same embedder from both.
        """
        return self._settings, self._caller.secrets

    async def embed(self, texts: Sequence[str], *, query: bool) -> Numbers:
        """Post the texts, retry temporary failures, and return the rows in order."""
        del query  # the API has no question mode; models that need one use a prefix
        body = {"model": self.name, "input": list(texts), "encoding_format": "float", **self._extra}
        return await self._post("/embeddings", body, _MOST_REPLY_BYTES, partial(_rows, count=len(texts)))


def _rows(body: bytes, count: int) -> Numbers:
    """Return the vectors of a reply in the order of the texts.

    Raises:
        FailedCall: It is not a reply with one row for each text.
    """
    unusable = "unusable_reply"
    try:
        data = json.loads(body)["data"]
        rows = {row["index"]: row["embedding"] for row in data}
    except (ValueError, RecursionError, KeyError, TypeError):
        raise FailedCall(unusable, "its reply has not the form of embeddings") from None
    if len(data) != count or rows.keys() != set(range(count)):
        raise FailedCall(unusable, f"it returned {len(data)} rows for {count} texts") from None
    return [rows[place] for place in range(count)]
