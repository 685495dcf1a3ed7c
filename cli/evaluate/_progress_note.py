"""What stands beside the progress: what the judge has done so far."""

from __future__ import annotations

from ragmeter.metrics.judge.protocol import JudgeStats

__all__ = ["note"]


def note(spent: JudgeStats) -> str:
    """Return it; nothing where nothing was asked."""
    if not spent.calls and not spent.cache_hits:
        return ""
    failed = sum(spent.errors.values())
    return (
        f"{spent.calls} calls, {spent.input_tokens:,} + {spent.output_tokens:,} tokens"
        + (f", {spent.cache_hits} cached" if spent.cache_hits else "")
        + (f", {failed} failed" if failed else "")
    )
