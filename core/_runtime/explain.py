"""Says for one request, in words, why each metric was or was not scored.

For people who look at an empty panel.  The pipeline logs it for every request on
the logger ``ragmeter.explain`` when that logger is enabled for DEBUG.  It quotes no
question, context or answer.
"""

from __future__ import annotations

from ragmeter.exporters.protocol import ScoredRun

__all__ = ["explain"]


def explain(result: ScoredRun) -> str:
    """Return a few lines about a result: what was captured, and each score or why there is none."""
    run, sample = result.run, result.sample
    contexts = "not captured" if sample.contexts is None else f"{len(sample.contexts)} contexts"
    given = "no reference"
    if sample.reference is not None:
        given = "reference with " + (
            ", ".join(sorted(sample.reference.model_fields_set)) or "nothing"
        )
    lines = [
        f"request {run.run_id} ({run.framework}, status {sample.status}): {contexts}, "
        f"{'an' if sample.answer is not None else 'no'} answer, {given}"
        + (", late scores" if result.late else "")
    ]
    for score in result.scores.values():
        value = "no value" if score.value is None else f"{score.value:.4g}"
        # The explanation of a score with a value may quote content; that of one without is ours.
        why = f": {score.explanation}" if score.value is None and score.explanation else ""
        if score.status == "partial":
            why = f": some verdicts are unknown, {score.lower:.4g} to {score.upper:.4g}"
        lines.append(f"  {score.name}: {value}, {score.status}{why}")
    return "\n".join(lines)
