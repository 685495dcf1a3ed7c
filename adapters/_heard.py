"""What the model calls of a request said, and what they had seen; on the worker, for every framework."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ._answers import MAX_SAID, Said, is_long
from ._prompts import Prompt, seen_in_prompts

__all__ = ["heard"]

MAX_SEARCHED = 50_000_000
"""Characters of prompts in which earlier calls' words are looked for, each prompt once per call."""


def heard(calls: Iterable[tuple[str, Prompt]], contexts: Sequence[str]) -> list[Said]:
    """Return what calls said, whether they had seen contexts, and whether they put drafts together.

    The call that reduces what others said of one document each was sent no document, yet it saw them all
    through their words.

    Args:
        calls: What each call said and was sent, in order; the last `MAX_SAID` count.
        contexts: Texts that were retrieved.
    """
    said: list[Said] = []
    drafts: dict[str, None] = {}
    searched = 0
    for text, prompt in list(calls)[-MAX_SAID:]:
        merges = False
        if len(drafts) > 1 and searched < MAX_SEARCHED:
            page = _plain("\n".join(prompt.texts))
            searched += len(page) * len(drafts)
            merges = sum(draft in page for draft in drafts) > 1
        saw = merges or seen_in_prompts(contexts, [prompt]) is not None
        said.append(Said(text, saw, merges))
        if saw and is_long(text):
            drafts[_plain(text)] = None
    return said


def _plain(text: str) -> str:
    return " ".join(text.split())
