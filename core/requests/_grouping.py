"""Combine the parts of one request, each a sample of a framework's run.

`Request` calls it on the meter's worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmeter.metrics import RagSample, RetrievalStage, RetrievedContext
from ragmeter.metrics.sample import ContextsBy, SampleStatus


def joined_stages(parts: Iterable[Sequence[RetrievalStage] | None]) -> list[RetrievalStage]:
    """Concatenate the stages of a request's parts."""
    joined: list[RetrievalStage] = []
    for stages in parts:
        before = len(joined)
        joined += [
            stage
            if not (before and stage.inputs)
            else stage.model_copy(update={"inputs": tuple(at + before for at in stage.inputs)})
            for stage in stages or ()
        ]
    return joined


def alike(
    before: Iterable[RetrievedContext], contexts: Iterable[RetrievedContext]
) -> tuple[RetrievedContext, ...]:
    """Replace unchanged contexts by their earlier objects, so that they are counted and sent once."""
    known = {(one.id, one.text, one.score): one for one in before}
    return tuple(known.get((one.id, one.text, one.score), one) for one in contexts)


def contexts_of(samples: Sequence[RagSample]) -> tuple[RetrievedContext, ...] | None:
    """Return the contexts that reached the model: those of answering parts, else of bare retrievers."""
    counted = _samples_that_count(samples)
    return tuple(context for s in counted for context in s.contexts or ()) if counted else None


def rule_of(samples: Sequence[RagSample]) -> ContextsBy:
    """Return the rule that identified these contexts: the weakest one among the parts."""
    rules = {sample.contexts_by for sample in _samples_that_count(samples)}
    if "ids" in rules:
        return "ids"
    return "runs" if "runs" in rules else "prompt" if "prompt" in rules else "given"


def _samples_that_count(samples: Sequence[RagSample]) -> list[RagSample]:
    known = [s for s in samples if s.contexts is not None]
    return [s for s in known if s.answer is not None] or known


def status_of(samples: Sequence[RagSample], answer: str | None) -> SampleStatus:
    """Return the status of the last part that answered, or else of the last that failed."""
    for sample in reversed(samples):
        if answer is not None and sample.answer is not None:
            return sample.status
        if answer is None and sample.status not in ("ok", "retrieval_only"):
            return sample.status
    return "ok" if answer is not None else "retrieval_only"
