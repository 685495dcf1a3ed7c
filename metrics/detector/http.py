"""`HttpSpanDetector`: a detector behind an address, with the protocol of LettuceDetect's server and others.

It uses the same client as the judge, with the same care for keys and addresses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragmeter.metrics._connection.arguments import connect, made_again
from ragmeter.metrics._connection.failures import FailedCall
from ragmeter.metrics._connection.remote_model import RemoteModel
from ragmeter.metrics.judge.budget import JudgeBudget

from .detector import DetectionRequest, SpanDetector, Spans

_MOST_REPLY_BYTES = 4 * 2**20
_LISTS = ("spans", "predictions")
"""Accepted keys of an answer's spans, by precedence."""


class HttpSpanDetector(RemoteModel[DetectionRequest, Spans], SpanDetector):
    """A detector behind an HTTP address.

    With `batch_size` 1 a call posts ``{"question": …, "contexts": […], "answer": …}`` and reads ``{"spans":
    [{"start": 0, "end": 12, "probability": 0.9}]}``, or ``predictions`` as LettuceDetect's server has them.
    With more it posts ``{"requests": [those]}`` and reads ``{"results": [those]}``, in order. Temporary
    failures are retried with backoff; no redirect is followed.

    Args:
        url: The whole address, e.g. ``http://127.0.0.1:8000/v1/lettucedetect/spans``. Its secrets are neither
            shown, logged nor pickled.
        name: The model's name; None: the address's host and path.
        api_key: Sent as a bearer token; None: none. Never shown, logged or pickled.
        headers: Sent with every call.
        max_retries: Attempts after the first.
        batch_size: Answers of one call.
        concurrency: Most concurrent calls on the wire, per event loop.
        timeout_s: Seconds for one call, including retries.
        budget: Limits on calls and tokens per minute.

    Raises:
        MissingDependencyError: The package ``openai``, whose client is used, is not installed.
        ConfigurationError: `url` is not an address, or a number is out of range.
    """

    def __init__(
        self,
        url: str,
        name: str | None = None,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_retries: int = 2,
        batch_size: int = 1,
        concurrency: int = 4,
        timeout_s: float = 30.0,
        budget: JudgeBudget | None = None,
    ) -> None:
        parts = urlsplit(url)
        folder, _, last = parts.path.rpartition("/")
        base = urlunsplit((parts.scheme, parts.netloc, folder or "/", parts.query, ""))
        # A server without a key accepts any, but the client requires one.
        self._connect(
            connect("detector", base, api_key or "none", headers),
            max_retries=max_retries,
            concurrency=concurrency,
        )
        self._path = f"/{last}"
        options: dict[str, Any] = {
            "batch_size": batch_size,
            "concurrency": concurrency,
            "timeout_s": timeout_s,
            "budget": budget,
        }
        self._settings = {"name": name, "max_retries": max_retries, **options}
        super().__init__(name or f"{self.host}{parts.path}", **options)

    def __repr__(self) -> str:
        return f"HttpSpanDetector(name={self.name!r}, host={self.host!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings without key, headers and secrets of the address."""
        url = f"{(self._caller.stored_url or '').rstrip('/')}{self._path}"
        return made_again, (HttpSpanDetector, {**self._settings, "url": url})

    async def detect(self, requests: Sequence[DetectionRequest]) -> Sequence[Any]:
        """Post the answers, retry temporary failures, and return their spans in order."""
        bodies = [
            {"question": one.question, "contexts": list(one.contexts), "answer": one.answer} for one in requests
        ]
        single = self.batch_size == 1
        body: dict[str, Any] = bodies[0] if single else {"requests": bodies}
        reply = await self._post(self._path, body, _MOST_REPLY_BYTES, _parsed)
        return _results([reply] if single else reply)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise FailedCall("unusable_reply", "its reply is no JSON") from None


def _results(reply: Any) -> list[Any]:
    """Return the spans of each answer.

    Raises:
        FailedCall: The reply has another form.
    """
    found = reply.get("results") if isinstance(reply, dict) else reply
    if not isinstance(found, list):
        raise FailedCall("unusable_reply", "its reply has no list of results")
    results = []
    for one in found:
        spans = one
        if isinstance(one, dict):
            spans = next((one[name] for name in _LISTS if isinstance(one.get(name), list)), None)
        if not isinstance(spans, list):
            raise FailedCall("unusable_reply", "its reply has no list of spans for an answer")
        results.append(spans)
    return results
