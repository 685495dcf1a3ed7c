"""Words, in many languages, by which prompts label their parts, as alternatives of a regular expression."""

from __future__ import annotations

import json
import re
from pathlib import Path

_WORDS = {
    what: "|".join(words)
    for what, words in json.loads(
        Path(__file__).with_name("label_words.json").read_text(encoding="utf-8")
    ).items()
}
ANSWER, HISTORY, INSTRUCTION, RULES = map(_WORDS.__getitem__, ("answer", "history", "instruction", "rules"))
MARK = "[=#*■●◆▼▶◇□○◎-]"
"""Characters before a heading."""
SOURCE, CONTENT = _WORDS["source"], _WORDS["content"]
"""Names of lines above a passage, and of the passage."""
PASSAGE = _WORDS["passage"]
PASSAGES = _WORDS["passages"]
"""Words whose label may contain more than the name."""
CONTEXT = _WORDS["context"]
CONTEXT_PLURAL = re.sub(r"(documents|sources|passages|excerpts|snippets|references)\?", r"\1", CONTEXT)
"""Words that may label a single passage: ``Source: a.md``."""
CONTEXT_INFLECTED = f"(?:{CONTEXT}|{_WORDS['context_inflected']})"
CONTEXT_CJK = _WORDS["context_cjk"]
"""A label that may share its line with text."""
WIDE, LEADING = _WORDS["wide"], _WORDS["leading"]
"""Names of a context only beside a question's, and words of the sentence that leads to it."""
OTHER = "|".join((HISTORY, RULES, INSTRUCTION, ANSWER, _WORDS["other"]))
"""Names of anything but a context."""
QUESTION = _WORDS["question"]
QUESTION_LABEL = (
    r"(?:(?:the|my|user(?:['’]?s)?|current|original|actual)[ _])*"
    rf"(?:{QUESTION})(?: is| пользователя| клиента| d(?:o|el|e l['’]) ?[cu]\w+)?"
)
