"""The words for changes of quality in English, Russian and Chinese, as texts for people."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

__all__ = ["LANGUAGES", "Language", "change_words"]

Language = Literal["en", "ru", "zh"]
LANGUAGES: Mapping[str, str] = {"en": "English", "ru": "Русский", "zh": "中文"}
"""Language codes, with their names."""


class _Russian(string.Formatter):
    """Writes numbers with a comma, and a space before the sign of percent."""

    def format_field(self, value: Any, format_spec: str) -> str:
        text: str = super().format_field(value, format_spec)
        if not isinstance(value, float):
            return text
        return text.replace(".", ",").replace("%", "\N{NO-BREAK SPACE}%")


_FORMATTERS = {"ru": _Russian()}
_PLAIN = string.Formatter()


def change_words(language: str, key: str, *values: object) -> str:
    """Return a text of ``change_words.json`` with its values, in a language of `LANGUAGES`."""
    return _FORMATTERS.get(language, _PLAIN).format(_texts()[language][key], *values)


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    # Read on first use: few processes ever describe a change.
    return json.loads(Path(__file__).with_name("change_words.json").read_text("utf-8"))  # type: ignore[no-any-return]
