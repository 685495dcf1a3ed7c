"""Describe a change of quality in one sentence, without any text of a request."""

from __future__ import annotations

from datetime import datetime, timezone

from ragmeter.quality.estimates import Estimate

from .change import Change

__all__ = ["moment", "word_change"]


def word_change(change: Change) -> str:
    """Return a sentence: what changed, where, since when, from what to what."""
    place = change.workflow or "requests without a workflow"
    if change.service:
        place = f"{place} ({change.service})"
    if change.segment:
        place = f"{change.segment} of {place}"
    before, now = _mean(change.before), _mean(change.now)
    about = f"{change.score} of {place}"
    if change.kind == "judge":
        sentence = (
            f"the judge of {change.score} measures differently: {before} became {now} on the same "
            "requests"
        )
    elif change.kind == "version":
        sentence = _version_sentence(change)
    elif change.kind == "recovered":
        sentence = f"{about} has recovered: {before} became {now}, since {moment(change.since)}"
    else:
        verb = "rose, where lower is better," if _rose(change) else "fell"
        what = f"the mean of {about}" if change.kind == "mix" else about
        sentence = f"{what} {verb} from {before} to {now}, since {moment(change.since)}"
    if change.note:
        sentence = f"{sentence}; {change.note}"
    if change.new:
        named = (f"{one.name} = {one.value} ({moment(one.at)})" for one in change.new)
        since = "at the same moment" if change.kind == "version" else "since then"
        sentence = f"{sentence}; new {since}: {', '.join(named)}"
    return sentence


def _version_sentence(change: Change) -> str:
    """Return a sentence: which version is worse than which, since when, and by how much."""
    version = " ".join((change.service, change.segment.partition(":")[2])).strip()
    was, is_ = change.before.mean or 0.0, change.now.mean or 0.0
    lower, upper = change.now.lower - was, change.now.upper - was
    return (
        f"{version} is worse than {change.earlier} since {moment(change.since)}: "
        f"{change.score} {was:.2f} → {is_:.2f} [{lower:+.2f}, {upper:+.2f}]"
    )


def moment(at: float) -> str:
    """Format a time (unix seconds) in UTC, for people."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _rose(change: Change) -> bool:
    before, now = change.before.mean, change.now.mean
    return before is not None and now is not None and now > before


def _mean(estimate: Estimate) -> str:
    interval = f"[{estimate.lower:.2f}, {estimate.upper:.2f}]"
    return interval if estimate.mean is None else f"{estimate.mean:.2f} {interval}"
