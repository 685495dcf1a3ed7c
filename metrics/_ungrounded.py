"""Kinds of an answer's words that no chunk has: the parts of 1 - `lexical_groundedness`.

The metric counts them and writes them into its summary; aggregation reads them from there, wherever the score
was measured: `ragmeter.quality.manner` explains a fall by them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

GROUNDEDNESS = "lexical_groundedness"
KINDS = ("framing", "facts", "sentences", "chunks", "other")
"""Words without a claim; numbers and names; words of sentences without support in the chunks; all words, if
nothing was retrieved; words of otherwise supported sentences."""
NOTHING_RETRIEVED = "nothing was retrieved that the answer could rest on"
_SAID = re.compile(r"[\d.]+ of ([\d.]+) words?(?:; lacking: ([^;]*))?")


def lacking_said(counts: Mapping[str, float]) -> str:
    """Return the numbers of words that no chunk has, by kind, as a clause; empty without such words."""
    said = ", ".join(f"{kind} {counts[kind]:g}" for kind in KINDS if counts.get(kind))
    return f"; lacking: {said}" if said else ""


def ungrounded(summary: str | None, value: float | None) -> dict[str, float] | None:
    """Return the share of an answer's words that no chunk has, by kind; the sum is 1 - `value`.

    None: no value of the score, or the summary of another version.
    """
    if value is None or summary is None:
        return None
    shares: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    if summary == NOTHING_RETRIEVED:
        shares["chunks"] = 1.0
        return shares
    if value == 1.0:
        return shares
    found = _SAID.match(summary)
    if found is None or found[2] is None:
        return None
    for said in found[2].split(", "):
        kind, _, count = said.rpartition(" ")
        if kind not in shares:
            return None
        shares[kind] = float(count) / float(found[1])
    return shares
