"""Search in questions, answers and chunks: what is typed becomes conditions, texts become an index's words.

A file has an index (FTS5) of whole words and of pairs of Han characters, filled by upkeep and not while
telemetry is acknowledged; what it does not hold yet is read through.  PostgreSQL reads through its own
(`pg_trgm`), where it has that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ._database import Database

MOST_CHARACTERS = 500
_MOST_WORDS = 12
_TYPED = re.compile(r'"([^"]+)"|(\S+)')
_WILD, _ESCAPED = re.compile(r"([%_\\])"), r"\\\1"
_WORD = re.compile(r"[^\W_]+")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\u3041-\u30ff]+")
_MANY = 20_000
"""Chunks with a word from which on requests are looked through, the newest first."""
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
    """Yield the conditions on requests ``r`` that each word is in a question, an answer or a chunk of theirs.

    Args:
        database: What is asked; the texts with each word are put into a table for this moment.
        typed: Words, or phrases between quotation marks.
    """
    words = [quoted or word for quoted, word in _TYPED.findall(typed[:MOST_CHARACTERS])]
    for place, word in enumerate(dict.fromkeys(words[:_MOST_WORDS])):
        texts, given = database.texts_with(word)
        database.execute(f"CREATE TEMP TABLE held{place} (id BIGINT PRIMARY KEY)")
        database.execute(
            f"INSERT INTO held{place} SELECT DISTINCT id FROM ({texts}) AS found", given
        )
        held = f"SELECT id FROM held{place}"
        (chunks,) = database.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM chunk WHERE text IN ({held}) LIMIT {_MANY}) AS found"
        ).fetchone()
        yield (_HOLDS if chunks < _MANY else _EACH_HOLDS).format(held=held)


def index_words(text: str | None) -> str:
    """Return a text as the index has it: its words, and Han characters by overlapping pairs."""
    return " ".join(_tokens((text or "").lower()))


def _tokens(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        at = 0
        for run in _HAN.finditer(word):
            if run.start() > at:
                yield word[at : run.start()]
            at = run.end()
            # The last alone, so that what ends with a character is found by it.
            yield from (run[0][place : place + 2] for place in range(len(run[0])))
        if at < len(word):
            yield word[at:]


def index_query(word: str) -> tuple[str, bool]:
    """Return the index's query for a word, and whether the texts must be compared.

    Several tokens may stand apart in a text. Empty: the index does not know such words.
    """
    tokens = list(_tokens(word.lower()))
    if len(tokens) > 1 and len(tokens[-1]) == 1 and _HAN.fullmatch(tokens[-1]):
        tokens.pop()  # the pair before has it
    return " AND ".join(f'"{token}" *' for token in dict.fromkeys(tokens)), len(tokens) > 1


def patterns(word: str) -> Sequence[str]:
    """Return patterns of LIKE, with a backslash to escape, for a word however its letters are written.

    Databases fold the case of ASCII alone.
    """
    forms = dict.fromkeys(
        (word,) if word.isascii() else (word, word.lower(), word.upper(), word.capitalize())
    )
    return [f"%{_WILD.sub(_ESCAPED, form)}%" for form in forms]
