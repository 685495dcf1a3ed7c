"""Search in questions, answers and chunks: build SQL conditions from a query, and index tokens from texts.

A file has an index (FTS5) of whole words and of pairs of Han characters, filled by upkeep and not while
telemetry is acknowledged; texts not indexed yet are scanned. PostgreSQL uses its own index (`pg_trgm`), where
it has that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragmeter.metrics.text.stems import stem

from ._database import Database

MOST_CHARACTERS = 500
_MOST_WORDS = 12
_TYPED = re.compile(r'"([^"]+)"|(\S+)')
_YO = re.compile("[еёЕЁ]")
_WILD, _ESCAPED = re.compile(r"([%_\\])"), r"\\\1"
_WORD = re.compile(r"[^\W_]+")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\u3041-\u30ff]+")
_LEAST_STEM = 4
"""Characters of a stem from which on a search for it finds more than it should only rarely."""
_MANY = 20_000
"""Chunks with a word from which on the requests are scanned instead, the newest first."""
_HOLDS = (
    "r.id IN (SELECT id FROM request WHERE question IN ({held}) "
    "UNION SELECT id FROM request WHERE answer IN ({held}) "
    "UNION SELECT o.id FROM chunk c JOIN request o ON o.trace_id = c.trace_id AND o.span_id = c.owner "
    "WHERE c.text IN ({held}) "
    "UNION SELECT o.id FROM chunk c JOIN request o ON o.home = c.trace_id WHERE c.text IN ({held}))"
)
_EACH_HOLDS = (
    "(r.question IN ({held}) OR r.answer IN ({held}) OR EXISTS (SELECT 1 FROM chunk c "
    "WHERE c.trace_id = r.trace_id AND c.owner = r.span_id AND c.text IN ({held})) "
    "OR EXISTS (SELECT 1 FROM chunk c WHERE c.trace_id = r.home AND c.text IN ({held})))"
)


def holding(database: Database, typed: str) -> Iterator[str]:
    """Yield SQL conditions that each word is in a question, an answer or a chunk of request ``r``.

    `typed`: words, or phrases between quotation marks. The texts with each word are put in a temporary table.
    """
    words = [quoted or _inflected(word) for quoted, word in _TYPED.findall(typed[:MOST_CHARACTERS])]
    for place, word in enumerate(dict.fromkeys(words[:_MOST_WORDS])):
        texts, given = database.texts_with(word)
        database.execute(f"CREATE TEMP TABLE held{place} (id BIGINT PRIMARY KEY)")
        database.execute(f"INSERT INTO held{place} SELECT DISTINCT id FROM ({texts}) AS found", given)
        held = f"SELECT id FROM held{place}"
        (chunks,) = database.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM chunk WHERE text IN ({held}) LIMIT {_MANY}) AS found"
        ).fetchone()
        yield (_HOLDS if chunks < _MANY else _EACH_HOLDS).format(held=held)


def _inflected(word: str) -> str:
    """Return the beginning that a word has in all its inflections, or the word if it is short or no word."""
    lower = word.lower()
    begins = stem(lower)
    is_beginning = lower.replace("ё", "е").startswith(begins)
    return begins if word.isalpha() and is_beginning and len(begins) >= _LEAST_STEM else word


def index_words(text: str | None) -> str:
    """Return the index tokens of a text: its words, and Han characters as overlapping pairs."""
    return " ".join(_tokens((text or "").lower()))


def _tokens(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        at = 0
        for run in _HAN.finditer(word):
            if run.start() > at:
                yield word[at : run.start()]
            at = run.end()
            # The last character alone is a token, too, so that a search for it matches.
            yield from (run[0][place : place + 2] for place in range(len(run[0])))
        if at < len(word):
            yield word[at:]


def index_query(word: str) -> tuple[str, bool]:
    """Return the FTS5 query for a word, and whether matches must also be compared with the text.

    Several tokens may be apart in a text. An empty query: the index has no such words.
    """
    tokens = list(_tokens(word.lower()))
    if len(tokens) > 1 and len(tokens[-1]) == 1 and _HAN.fullmatch(tokens[-1]):
        tokens.pop()  # the previous pair contains it
    return " AND ".join(map(_any_form, dict.fromkeys(tokens))), len(tokens) > 1


def _any_form(token: str) -> str:
    """Return the FTS5 query for a token, with ё in place of one of its е, too."""
    places = [place for place, character in enumerate(token) if character == "е"]
    forms = [token, *(f"{token[:place]}ё{token[place + 1 :]}" for place in places)]
    return "(" + " OR ".join(f'"{form}" *' for form in forms) + ")"


def patterns(word: str) -> Sequence[str]:
    """Return LIKE patterns, with a backslash as escape, for a word in any letter case, with е or ё.

    Databases fold the case of ASCII only.
    """
    forms = dict.fromkeys((word,) if word.isascii() else (word, word.lower(), word.upper(), word.capitalize()))
    return [f"%{_YO.sub('_', _WILD.sub(_ESCAPED, form))}%" for form in forms]
