"""Words by which prompts in many languages name what they hold, as alternatives of a regular expression."""

from __future__ import annotations

import json
import re
from pathlib import Path

__all__ = [
    "ANSWER", "CONTENT", "CONTEXT", "CONTEXT_CJK", "CONTEXT_INFLECTED", "CONTEXT_PLURAL", "HISTORY",
    "INSTRUCTION", "LEADING", "OTHER", "PASSAGE", "PASSAGES", "QUESTION", "QUESTION_LABEL",
    "RULES", "SOURCE", "WIDE",
]  # fmt: skip

_WORDS = {
    what: "|".join(words)
    for what, words in json.loads(
        Path(__file__).with_name("label_words.json").read_text(encoding="utf-8")
    ).items()
}
ANSWER, HISTORY, INSTRUCTION, RULES = map(
    _WORDS.__getitem__, ("answer", "history", "instruction", "rules")
)
SOURCE, CONTENT = _WORDS["source"], _WORDS["content"]
"""Names of lines above a passage, and of its own."""
PASSAGE = _WORDS["passage"]
PASSAGES = _WORDS["passages"]
"""Of which more than the name may stand in a label."""
CONTEXT = _WORDS["context"]
CONTEXT_PLURAL = re.sub(
    r"(documents|sources|passages|excerpts|snippets|references)\?", r"\1", CONTEXT
)
"""Of which one may stand before a passage of its own: ``Source: a.md``."""
CONTEXT_INFLECTED = f"(?:{CONTEXT}|{_WORDS['context_inflected']})"
CONTEXT_CJK = _WORDS["context_cjk"]
"""A label that need not stand alone on its line."""
WIDE, LEADING = _WORDS["wide"], _WORDS["leading"]
"""Names of a context only beside a question's, and words of the sentence that leads to it."""
OTHER = "|".join((HISTORY, RULES, INSTRUCTION, ANSWER, _WORDS["other"]))
"""Names of what is no context."""
QUESTION = _WORDS["question"]
QUESTION_LABEL = (
    r"(?:(?:the|my|user(?:['’]?s)?|current|original|actual)[ _])*"
    rf"(?:{QUESTION})(?: is| пользователя| клиента| d(?:o|el|e l['’]) ?[cu]\w+)?"
)
