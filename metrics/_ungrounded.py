"""Kinds of an answer's words that no chunk has: the parts of 1 - `lexical_groundedness`.

The metric counts them and writes them into its summary; aggregation reads them from there, wherever the score
was made: `ragmeter.quality.manner` explains a fall by them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

GROUNDEDNESS = "lexical_groundedness"
KINDS = ("framing", "facts", "sentences", "chunks", "other")
"""Words that claim nothing; numbers and names; words of sentences that the chunks do not carry; all words,
where nothing was retrieved; words of sentences that the chunks carry otherwise."""
NOTHING_RETRIEVED = "nothing was retrieved that the answer could rest on"
_SAID = re.compile(r"[\d.]+ of ([\d.]+) words?(?:; lacking: ([^;]*))?")


def lacking_said(counts: Mapping[str, float]) -> str:
    """Return the number of words that no chunk has, by kind, as a clause; empty: there are none."""
    said = ", ".join(f"{kind} {counts[kind]:g}" for kind in KINDS if counts.get(kind))
    return f"; lacking: {said}" if said else ""


def ungrounded(summary: str | None, value: float | None) -> dict[str, float] | None:
    """Return the share of an answer's words that no chunk has, by kind; the sum is 1 - `value`.

    Args:
        summary: Of the score.
        value: Of the score.

    Returns:
        None: There is no value, or another version wrote the summary.
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
