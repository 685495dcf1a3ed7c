"""What the framework runs within a request told by hand add up to: its contexts and its status."""

from __future__ import annotations

from collections.abc import Sequence

from ragmeter.metrics import RagSample, RetrievedContext
from ragmeter.metrics.sample import ContextsBy, SampleStatus

__all__ = ["contexts_of", "rule_of", "status_of"]


def contexts_of(samples: Sequence[RagSample]) -> tuple[RetrievedContext, ...] | None:
    """Return what reached the model: an answering part's contexts win over a bare retriever's."""
    counted = _counted(samples)
    return tuple(context for s in counted for context in s.contexts or ()) if counted else None


def rule_of(samples: Sequence[RagSample]) -> ContextsBy:
    """Return by which rule they are known: the weakest of those of the parts that count."""
    rules = {sample.contexts_by for sample in _counted(samples)}
    return "runs" if "runs" in rules else "prompt" if "prompt" in rules else "given"


def _counted(samples: Sequence[RagSample]) -> list[RagSample]:
    known = [s for s in samples if s.contexts is not None]
    return [s for s in known if s.answer is not None] or known


def status_of(samples: Sequence[RagSample], answer: str | None) -> SampleStatus:
    """Return the status of the last part that answered, or of the last that ended badly."""
    for sample in reversed(samples):
        if answer is not None and sample.answer is not None:
            return sample.status
        if answer is None and sample.status not in ("ok", "retrieval_only"):
            return sample.status
    return "ok" if answer is not None else "retrieval_only"
