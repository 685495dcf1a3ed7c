"""The page's texts in English, Russian and Chinese, and the choice of the language.

Names of scores, statuses, verdicts and drops are never translated, as people search for them; their meanings
are. The texts are in ``words/*.json``, one file per language, with the same keys. Explanations of scores are
English, and so are error messages of queries: for another language its file has a text for each
pattern of a clause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

from ragmeter.exporters.change_words import LANGUAGES

from ._numbers import count

_CLAUSES = re.compile(r"(?:[^;“]|“[^”]{0,300}”|“|;(?! ))+")
_PLACE = re.compile(r"\{\w+\}")
_IN_PLACE = {
    "{n}": r"([\d.]+(?: %)?)",
    "{list}": r"((?:\d+, )*(?:\d+ and )?(?:\d+|…))",
    "{q}": "(“[^”]{0,300}”)",
    "{words}": "([^“”]+)",
    "{why}": "((?:: .+)?)",
}
"""What may stand in a clause of an explanation."""
_LONGEST = 3_000
"""Longest explanation that is translated, in characters; ragmeter's own are far shorter."""


_Clauses: TypeAlias = Mapping[re.Pattern[str], str]
"""Texts with places, by the pattern of what they translate."""


class Words:
    """The texts of one language. Called with a key, it returns the text."""

    def __init__(self, language: str, texts: Mapping[str, Any]) -> None:
        self.language = language
        """Code of the language."""
        self._words: Mapping[str, str | list[str]] = texts["words"]
        self._scores: Mapping[str, str] = texts["scores"]
        self._explanations = _patterns(texts.get("explanations", {}))
        self._queries = _patterns(texts.get("queries", {}))

    def __getitem__(self, key: str) -> str:
        """Return the translation of a key without placeholders."""
        found = self._words[key]
        return found if isinstance(found, str) else self(key)

    def __call__(self, key: str, **values: object) -> str:
        """Return the text of a key with its values; a count ``n`` selects the plural form.

        Raises:
            KeyError: There is no such key: an error in a template.
        """
        found = self._words[key]
        if isinstance(found, list):
            found = found[_form(self.language, values.get("n"))]
        if not values:
            return found
        return found.format(**{name: count(one) if type(one) is int else one for name, one in values.items()})

    def asks(self, score: str) -> str:
        """Return the question that a score answers; empty for other than ragmeter's scores."""
        return self._scores.get(score, "")

    def explanation(self, said: str) -> str:
        """Return an explanation or reason in this language, clause by clause; others, as a judge's, stay."""
        return self._translated(said, self._explanations)

    def query_error(self, said: str) -> str:
        """Return the message of an `InvalidQueryError` in this language."""
        return self._translated(said, self._queries)

    def _translated(self, said: str, clauses: _Clauses) -> str:
        if not clauses or len(said) > _LONGEST:
            return said
        between = "；" if self.language == "zh" else "; "
        return between.join([_translated_clause(clause.lstrip(), clauses) for clause in _CLAUSES.findall(said)])

    def name(self, kind: str, name: str) -> str:
        """Return the text for one of ragmeter's names: of a ``code``, a ``score``; else the name, as a word."""
        found = self._words.get(f"{kind}_{name}")
        return found if isinstance(found, str) else name.replace("_", " ")

    def status(self, status: str) -> str:
        """Return the meaning of a status without a value; empty for other words."""
        found = self._words.get(f"status_{status}", "")
        return found if isinstance(found, str) else ""


def _patterns(clauses: Mapping[str, str]) -> _Clauses:
    return {
        re.compile(_PLACE.sub(lambda place: _IN_PLACE[place[0]], clause)): text
        for clause, text in clauses.items()
    }


def _translated_clause(clause: str, clauses: _Clauses) -> str:
    for pattern, text in clauses.items():
        found = pattern.fullmatch(clause)
        if found is not None:
            parts = [one.replace(" and ", ", ") if one[:1].isdigit() else one for one in found.groups()]
            return text.format(*parts)
    return clause


@cache
def words_in(language: str) -> Words:
    """Return the texts of a language of `LANGUAGES`."""
    text = (resources.files("ragmeter.serve.page") / "words" / f"{language}.json").read_text("utf-8")
    return Words(language, json.loads(text))


def chosen_language(asked: str | None, kept: str | None, accepted: str) -> str:
    """Return the language of a page.

    Args:
        asked: The parameter of the address.
        kept: The cookie.
        accepted: The header ``Accept-Language``.
    """
    wishes = [(2.0, asked or ""), (1.5, kept or "")]
    for part in accepted.split(",")[:20]:
        name, _, quality = part.partition(";")
        share = quality.strip().removeprefix("q=")
        try:
            wishes.append((float(share) if share else 1.0, name.strip()))
        except ValueError:
            continue
    for weight, name in sorted(wishes, key=lambda wish: -wish[0]):
        code = name.lower().partition("-")[0]
        if weight > 0 and code in LANGUAGES:
            return code
    return "en"


def _form(language: str, count: object) -> int:
    """Return the plural form for a count (CLDR's rules for whole numbers)."""
    n = count if isinstance(count, int) else 0
    if language != "ru":
        return int(n != 1)
    if n % 10 == 1 and n % 100 != 11:
        return 0
    return 1 if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else 2
