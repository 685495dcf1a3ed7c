"""Detects an endpoint that silently cuts prompts off, by the prompt tokens it reports.

A server may drop text beyond its context window and answer about the rest: a verdict about texts the model
never saw. The endpoint checks each reply.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("ragmeter.judge")

_SMALLEST_WINDOW = 256
"""A smaller reported number of tokens does not count."""
_FAR_BELOW = 4
"""Largest ratio of estimated to actual tokens of any tokenizer."""
_DIFFERENT = 1.2
"""Least ratio of two prompts' estimates for an equal number of tokens to be no coincidence."""


class CutPrompts:
    """Compares the sent tokens with the tokens that the endpoint read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ceiling = 0
        self._shortest = 0
        self._longest = 0
        self._said = False

    def notice(self, estimated: int, stated: int | None) -> bool:
        """Return whether a prompt was cut off, by its estimated tokens and those that the endpoint reports."""
        if stated is None or stated < _SMALLEST_WINDOW:
            return False
        cut = stated * _FAR_BELOW < estimated or self._is_the_window(estimated, stated)
        if cut and not self._said:
            self._said = True
            logger.warning(
                "the judge %s seems to cut prompts off at %d tokens without saying so: give it a "
                "larger context window (Ollama: num_ctx); scores of prompts it cut are judge_error",
                self._name,
                stated,
            )
        return cut

    def _is_the_window(self, estimated: int, stated: int) -> bool:
        """Return whether prompts of different lengths had this token count, and none had a higher one."""
        if stated < self._ceiling:
            return False
        if stated > self._ceiling:
            self._ceiling = stated
            self._shortest = self._longest = estimated
        self._shortest = min(self._shortest, estimated)
        self._longest = max(self._longest, estimated)
        return self._longest >= stated and self._longest > self._shortest * _DIFFERENT
