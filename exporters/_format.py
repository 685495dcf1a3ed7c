"""Format exported data: texts, values, details and evidence of a score; `ContentPolicy`: which texts may leave.

Content (questions, contexts, answers, explanations) passes `outgoing`, after its caller has asked the policy:
nothing else decides about content, and without an opt-in none passes. Names, ids, tags and summaries pass
`clean` only. A lone surrogate would make the application's whole OTLP batch unencodable, so nothing skips
both.

A `ScoreItem`'s id, verdict and value are not text of the request; its text, evidence and reason are, and are
not exported, except evidence that only names pieces of the request (``chunk-1, chunk-3#2``). Items are
bounded in count and size, with the number left out.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from typing import Any

from ragmeter.metrics import ConfigurationError, RagSample, Score, ScoreItem

from . import semconv
from .protocol import ScoredRun

logger = logging.getLogger("ragmeter")

MAX_TEXT_CHARS = 16_384
"""Longest text on a span or event, in characters; the rest is cut."""
UNKNOWN_ID = "unknown"
"""The id of a chunk of which neither id nor text is known."""
MAX_NAME_CHARS = 1_024
"""Longest name, id, tag, summary or metadata value, in characters; the rest is cut."""


def clean(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return `text` cut to `limit` characters, without lone surrogates."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


clean_name = lru_cache(maxsize=1024)(clean)
"""The same, cached, for the few short names and labels of metrics."""


def outgoing(text: str) -> str:
    """Return a text, already redacted by the meter, cut and encodable."""
    return clean(text, MAX_TEXT_CHARS)


def text_id(text: str) -> str:
    """Return the name of a chunk without an id: a hash of its text, the same in every process."""
    if not text:
        return UNKNOWN_ID
    return f"sha256:{sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


ANNOTATOR_KINDS = defaultdict(
    lambda: str(semconv.ANNOTATOR_CODE), llm=str(semconv.ANNOTATOR_LLM), human=str(semconv.ANNOTATOR_HUMAN)
)
"""Who judged by a score's method, in OpenInference's words."""


def identifier(score: Score) -> str:
    """Return an identifier of this score among others of the same name on the same span.

    It changes with the definition, so that a score by a new formula is added and the same score sent twice is
    deduplicated.
    """
    return f"{semconv.OWN}:{score.definition}"


def explanation(score: Score, *, texts: bool) -> str | None:
    """Return a score's explanation if texts may be exported, else its summary."""
    if texts and score.explanation:
        return outgoing(score.explanation)
    return clean(score.summary) if score.summary else None


def missing_inputs(scored: ScoredRun) -> tuple[str, ...]:
    """Return the inputs that scores of a request lacked, each once, sorted.

    ``reference`` if there is none at all, ``reference.contexts`` if only those are missing. Missing scores of
    a retriever do not count, as users cannot supply them.
    """
    lacking = {s.missing for s in scored.scores.values() if s.status == "missing_input"}
    lacking.discard("contexts.score")
    if not lacking:
        return ()
    return tuple(sorted({_input(field, scored.sample) for field in lacking}))


def _input(field: str | None, sample: RagSample) -> str:
    if field is None:
        return "unknown"
    # A metric that reads either of two inputs ("a|b") lacks the first.
    field = field.split("|")[0]
    whole = field.split(".")[0]
    return whole if getattr(sample, whole, None) is None else field


MAX_ITEMS = 64
"""The largest number of items of one score."""
MAX_ITEMS_CHARS = 4_096
"""The largest number of characters of JSON for them; all of it is ASCII, so these are bytes."""
MAX_ID_CHARS = 64
MAX_NAMES_CHARS = 256
"""Most characters of an item's evidence that is names."""
_NAME = r"chunk-[1-9]\d{0,8}(?:#[1-9]\d{0,8})?"
_NAME_ONLY = re.compile(_NAME, re.ASCII)
_NAMES = re.compile(rf"{_NAME}(?:, {_NAME})*", re.ASCII)
_ENVELOPE = len('{"items":[],"left_out":999999999}')


def bounded_items(items: Iterable[ScoreItem]) -> dict[str, Any]:
    """Return the first items as JSON-ready fields, and the number left out; empty without any.

    ``{"items": [{"id": "chunk-1", "verdict": true, "value": 0.75}, ...], "left_out": 12}``; ``value`` is
    present if the item has one, ``evidence`` if the deciding pieces are known by name (``["chunk-1"]``),
    ``left_out`` if any were left out.
    """
    attribute = items_attribute(items)
    bounded: dict[str, Any] = {} if attribute is None else json.loads(attribute)
    return bounded


def items_attribute(items: Iterable[ScoreItem]) -> str | None:
    """Return the same as JSON, at most `MAX_ITEMS_CHARS` long; None without any item."""
    pieces: list[str] = []
    room = MAX_ITEMS_CHARS - _ENVELOPE
    left_out = 0
    for item in items:
        # Nothing after the first that does not fit: ranks must not have gaps.
        if left_out or len(pieces) == MAX_ITEMS:
            left_out += 1
            continue
        # Our own names are plain JSON; an application's id is cleaned and escaped.
        plain = _NAME_ONLY.fullmatch(item.id)
        name = f'"{item.id}"' if plain else encode_basestring_ascii(clean(item.id, MAX_ID_CHARS))
        verdict = "null" if item.verdict is None else "true" if item.verdict else "false"
        value = "" if item.value is None else f',"value":{float(f"{item.value:.4g}")!r}'
        behind, named = item.evidence, ""
        # Only our own names: quoted texts have another form.
        if behind and len(behind) <= MAX_NAMES_CHARS and _NAMES.fullmatch(behind):
            named = ',"evidence":["' + behind.replace(", ", '","') + '"]'
        piece = f'{{"id":{name},"verdict":{verdict}{value}{named}}}'
        room -= len(piece) + 1
        if room < 0:
            left_out += 1
        else:
            pieces.append(piece)
    if not pieces and not left_out:
        return None
    cut = f',"left_out":{left_out}' if left_out else ""
    return f'{{"items":[{",".join(pieces)}]{cut}}}'


def score_metadata(score: Score) -> dict[str, Any]:
    """Return a score's definition, method, range, direction, status, bounds and items.

    All in JSON's types, and no text of the request among them.
    """
    metadata: dict[str, Any] = {
        "definition": score.definition,
        "method": score.method,
        "range": list(score.range),
        "direction": score.direction,
        "status": score.status,
    }
    if score.lower is not None:
        metadata["lower"] = score.lower
    if score.upper is not None:
        metadata["upper"] = score.upper
    metadata.update(bounded_items(score.items))
    return metadata


# (on spans, on events)
_MODES = {
    "NO_CONTENT": (False, False),
    "SPAN_ONLY": (True, False),
    "EVENT_ONLY": (False, True),
    "SPAN_AND_EVENT": (True, True),
    # Values that older and other instrumentations read from the same variable.
    "TRUE": (True, True),
    "1": (True, True),
    "FALSE": (False, False),
    "0": (False, False),
    "": (False, False),
}
_ALLOWED = "NO_CONTENT, SPAN_ONLY, EVENT_ONLY, SPAN_AND_EVENT, true or false"


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """The permitted destinations of content."""

    on_spans: bool
    """Whether spans may carry content."""
    on_events: bool
    """Whether events may."""

    @classmethod
    def resolve(cls, capture_content: bool | str | None) -> ContentPolicy:
        """Read the argument or, when it is None, the standard environment variable.

        Raises:
            ConfigurationError: The argument is not one of the four modes nor a boolean. A wrong
                environment variable only warns, and then nothing is captured.
        """
        if capture_content is not None:
            mode = _MODES.get(str(capture_content).strip().upper())
            if mode is None:
                raise ConfigurationError(f"capture_content={capture_content!r} is unknown; allowed: {_ALLOWED}")
            return cls(*mode)
        value = os.environ.get(semconv.CAPTURE_CONTENT_VARIABLE, "")
        mode = _MODES.get(value.strip().upper())
        if mode is None:
            logger.warning(
                "%s=%r is unknown; no content is captured. Allowed: %s",
                semconv.CAPTURE_CONTENT_VARIABLE,
                value,
                _ALLOWED,
            )
            mode = (False, False)
        return cls(*mode)
