"""Describe a change of quality in one sentence, without any text of a request."""

from __future__ import annotations

from datetime import datetime, timezone

from ragmeter.exporters.change_words import change_words
from ragmeter.quality.estimates import Estimate

from .change import Change


def word_change(change: Change, language: str = "en") -> str:
    """Return a sentence in a language of `LANGUAGES`: what changed, where, since when, from what to what."""

    def words(key: str, *values: object) -> str:
        return change_words(language, key, *values)

    def mean(one: Estimate) -> str:
        return words("no_mean" if one.mean is None else "mean", one.mean, one.lower, one.upper)

    parts = [change.note_in(language)] if change.notes else []
    if change.new:
        named = ", ".join(f"{one.name} = {one.value} ({moment(one.at)})" for one in change.new)
        parts.append(words("new_with_version" if change.kind == "version" else "new", named))
    if change.kind == "version":
        version = " ".join((change.service, change.segment.partition(":")[2])).strip()
        was, is_ = change.before.mean or 0.0, change.now.mean or 0.0
        figures = was, is_, change.now.lower - was, change.now.upper - was
        names = version, change.earlier, moment(change.since), change.score
        said = words("version", *names, *figures)
    else:
        place = change.workflow or words("no_workflow")
        if change.service:
            place = words("of_service", place, change.service)
        if change.segment:
            place = words("of_segment", change.segment, place)
        means = mean(change.before), mean(change.now)
        said = words(_key(change), change.score, place, *means, moment(change.since))
    return words("stop").join([said, *parts])


def _key(change: Change) -> str:
    """Return the key of the sentence of a change other than a version's."""
    if change.kind in ("judge", "recovered"):
        return change.kind
    before, now = change.before.mean, change.now.mean
    verb = "rose" if before is not None and now is not None and now > before else "fell"
    return f"mix_{verb}" if change.kind == "mix" else verb


def moment(at: float) -> str:
    """Format a time (unix seconds) in UTC, for people."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
