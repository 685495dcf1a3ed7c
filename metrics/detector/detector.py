"""The base class of detectors: find the parts of an answer that its chunks do not support.

`SpanSupport` uses it. Subclasses find the spans: at an address, by a function, or by a model file;
`BatchedModel` saves and limits calls.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from ragmeter.metrics._connection.batched_model import BatchedModel
from ragmeter.metrics._connection.sent_text import estimate_tokens, sendable
from ragmeter.metrics.judge.protocol import JudgeError

_SPAN_BYTES = 160
_PROBABILITIES = ("probability", "hallucination_score", "confidence", "score", "prob")
"""Accepted keys of the probability, by precedence."""


class DetectionRequest(NamedTuple):
    """The input of a detector."""

    question: str
    """The question; empty: unknown."""
    contexts: tuple[str, ...]
    """The chunks, in the order of the prompt."""
    answer: str


class UnsupportedSpan(NamedTuple):
    """A part of an answer that the chunks do not support."""

    start: int
    """Start, as an index of a character of the answer,"""
    end: int
    """and end, exclusive."""
    probability: float
    """Probability that it is not supported, 0 to 1."""


Spans = tuple[UnsupportedSpan, ...]


class SpanDetector(BatchedModel[DetectionRequest, Spans]):
    """Finds unsupported parts of answers. Thread-safe; works on several event loops; a fork starts empty.

    Args:
        name: The model's name; it is part of every score's ``definition``: another model is another score.
        batch_size: Most answers of one call.
        concurrency: Most concurrent calls, per event loop.
        timeout_s: Seconds for one call.
        budget: Limits on calls and tokens per minute; tokens are estimated. None: no limits.

    Raises:
        ConfigurationError: A number is out of range, or the name is empty.
    """

    whose, items, says = "detector", "answers", "lists of spans"
    max_bytes = 8 * 2**20

    @property
    def definition(self) -> str:
        """The model, on which a score depends."""
        return f"model={self.name}"

    @abstractmethod
    async def detect(self, requests: Sequence[DetectionRequest]) -> Sequence[Any]:
        """Return the spans of each answer, in order, in a form for `spans_of`. Makes one call.

        Args:
            requests: At most `batch_size` requests, none with a blank answer.

        Raises:
            FailedCall: The address refused, or there was no connection.
            Exception: Any exception of the model.
        """

    async def spans(self, request: DetectionRequest) -> Spans:
        """Return the unsupported spans of an answer, in order, without overlaps.

        Raises:
            JudgeError: A call failed (``error_type`` has the class), there is no room in the budget (status
                ``skipped``), or the result is not a list of spans.
        """
        texts = (request.question, request.answer, *request.contexts)
        question, answer, *contexts = map(sendable, texts)
        sent = DetectionRequest(question, tuple(contexts), answer)
        key = blake2b(repr(sent).encode(), digest_size=16).digest()
        (found,) = await self.results([(key, sent)])
        return found

    async def _ask(self, items: Sequence[DetectionRequest], group: Hashable) -> Sequence[Any]:
        del group
        return await self.detect(items)

    def _tokens(self, item: DetectionRequest) -> int:
        return sum(map(estimate_tokens, (item.question, item.answer, *item.contexts)))

    def _read(self, said: Any, item: DetectionRequest) -> Spans | JudgeError:
        try:
            return spans_of(said, item.answer)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            words = "the detector returned something that is no list of spans: start, end and probability"
            return JudgeError(words, "unusable_reply")

    def _size(self, result: Spans) -> int:
        return 64 + _SPAN_BYTES * len(result)


def spans_of(said: Any, answer: str) -> Spans:
    """Return a detector's result as spans: sorted, merged if they overlap, with the larger probability.

    Args:
        said: Spans, each a tuple of start, end and probability, or a mapping with ``start``, ``end`` and
            ``probability`` (or ``hallucination_score``, ``confidence``, ``score``, ``prob``; none: 1.0).
        answer: The text that the indexes refer to.

    Raises:
        ValueError, TypeError, LookupError: It has another form, or an index is outside the answer.
    """
    if isinstance(said, (str, bytes, Mapping)) or not isinstance(said, Iterable):
        raise TypeError("no list of spans")
    merged: list[UnsupportedSpan] = []
    for start, end, probability in sorted(_span_of(one, answer) for one in said):
        if merged and start < merged[-1].end:
            last = merged.pop()
            merged.append(UnsupportedSpan(last.start, max(last.end, end), max(last.probability, probability)))
        else:
            merged.append(UnsupportedSpan(start, end, probability))
    return tuple(merged)


def _span_of(one: Any, answer: str) -> UnsupportedSpan:
    if isinstance(one, Mapping):
        named = [one[name] for name in _PROBABILITIES if one.get(name) is not None]
        start, end, probability = one["start"], one["end"], named[0] if named else 1.0
    else:
        start, end, *rest = one
        (probability,) = rest or (1.0,)
    if isinstance(start, bool) or int(start) != start or int(end) != end:
        raise ValueError("places are whole numbers")
    value = float(probability)
    if not (0 <= start < end <= len(answer) and math.isfinite(value) and 0.0 <= value <= 1.0):
        raise ValueError("a span that is not in the answer")
    return UnsupportedSpan(int(start), int(end), value)
