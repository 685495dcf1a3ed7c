"""The page's words in English, Russian and Chinese, and how a language is chosen.

Names of scores, statuses, verdicts and drops are never translated: they are what one searches for. What they
mean is. The words stand in ``words/*.json``, one file a language, with the same keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from ._numbers import count

LANGUAGES = {"en": "English", "ru": "Русский", "zh": "中文"}
"""Codes, and what the switch says."""


class Words:
    """The words of one language. Called with a key, it gives the sentence."""

    def __init__(
        self, language: str, words: Mapping[str, str | list[str]], scores: Mapping[str, str]
    ) -> None:
        self.language = language
        """Its code."""
        self._words = words
        self._scores = scores

    def __getitem__(self, key: str) -> str:
        """Return the translation of a key without placeholders."""
        found = self._words[key]
        return found if isinstance(found, str) else self(key)

    def __call__(self, key: str, **values: object) -> str:
        """Return the words under a key with the values put in; a count ``n`` chooses the form.

        Raises:
            KeyError: There are no such words: a mistake in a template.
        """
        found = self._words[key]
        if isinstance(found, list):
            found = found[_form(self.language, values.get("n"))]
        if not values:
            return found
        return found.format(
            **{name: count(one) if type(one) is int else one for name, one in values.items()}
        )

    def asks(self, score: str) -> str:
        """Return the question a score answers; empty for one that is not ragmeter's own."""
        return self._scores.get(score, "")

    def name(self, kind: str, name: str) -> str:
        """Return the word for a name of ragmeter's: of a ``code``, a ``score``; else the name, as a word."""
        found = self._words.get(f"{kind}_{name}")
        return found if isinstance(found, str) else name.replace("_", " ")

    def status(self, status: str) -> str:
        """Return what a status without a value means; empty for other words."""
        found = self._words.get(f"status_{status}", "")
        return found if isinstance(found, str) else ""


@cache
def words_in(language: str) -> Words:
    """Return the words of a language of `LANGUAGES`."""
    text = (resources.files("ragmeter.serve.page") / "words" / f"{language}.json").read_text(
        "utf-8"
    )
    read = json.loads(text)
    return Words(language, read["words"], read["scores"])


def chosen_language(asked: str | None, kept: str | None, accepted: str) -> str:
    """Return the language of a page.

    Args:
        asked: What the address says.
        kept: What the cookie says.
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
    """Return which of a language's plural forms a count takes (CLDR's rules for whole numbers)."""
    n = count if isinstance(count, int) else 0
    if language != "ru":
        return int(n != 1)
    if n % 10 == 1 and n % 100 != 11:
        return 0
    return 1 if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else 2
