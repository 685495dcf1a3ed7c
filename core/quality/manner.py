"""Split a fall of `lexical_groundedness` by kinds of words: manner of writing, or invented facts.

The style of another model ("Based on the provided passages, here is …") lowers the share of an answer's words
that occur in chunks just as an invented sentence does. So the missing words are also counted by kind, as the
shares of verdicts are: in no result of a request, and without separate alarms. The kinds add up to the fall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragmeter.metrics import Score
from ragmeter.metrics._ungrounded import GROUNDEDNESS, KINDS, ungrounded

from .verdict_shares import CountedShare

if TYPE_CHECKING:
    from ragmeter.exporters.changes import ChangeNote

PARTS: Mapping[str, str] = {f"ungrounded_{kind}": kind for kind in KINDS}
"""Names of the shares of an answer's words that occur in no chunk, each with its kind."""
_MANNER = frozenset({"framing", "other"})
_MOSTLY = 2 / 3
_LEAST = 0.005
"""Least fall to split."""


def ungrounded_shares(scores: Mapping[str, Score]) -> Sequence[CountedShare]:
    """Return the share of an answer's words in no chunk, by kind; empty if unknown."""
    found = scores.get(GROUNDEDNESS)
    parts = {} if found is None else parts_of(found.summary, found.value)
    definition = "" if found is None else found.definition
    return [CountedShare(name, share, definition) for name, share in parts.items()]


def parts_of(summary: str | None, value: float | None) -> dict[str, float]:
    """Return these shares by name, from summary and value of the score; empty if unknown."""
    shares = ungrounded(summary, value)
    return {} if shares is None else {name: shares[kind] for name, kind in PARTS.items()}


def notes_on_fall(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[ChangeNote, ...]:
    """Describe the components of a fall of groundedness, and whether they are a matter of style.

    Args:
        before: Means of the shares before, by name; they add up to 1 less groundedness.
        now: Means since then.

    Returns:
        Empty: A share is not known, or nothing fell.
    """
    from ragmeter.exporters.changes import ChangeNote  # noqa: PLC0415 -- counting a request needs none

    if not (PARTS.keys() <= before.keys() and PARTS.keys() <= now.keys()):
        return ()
    rises = {kind: now[name] - before[name] for name, kind in PARTS.items()}
    fall = sum(rises.values())
    if fall < _LEAST:
        return ()
    notes = [ChangeNote("fall", (fall,))]
    notes += [
        ChangeNote(kind, (rise,))
        for kind, rise in sorted(rises.items(), key=lambda one: -one[1])
        if abs(rise) >= _LEAST / 10
    ]
    manner = sum(rise for kind, rise in rises.items() if kind in _MANNER) / fall
    if manner >= _MOSTLY:
        notes.append(ChangeNote("mostly_manner"))
    elif manner <= 1 - _MOSTLY:
        notes.append(ChangeNote("mostly_invented"))
    return tuple(notes)
