"""Fates of documents in a captured request, for tests of the stages in either framework."""

from collections.abc import Mapping

import ragmeter
from ragmeter.exporters.protocol import ScoredRun
from ragmeter.metrics import RetrievalFunnel, RightDocumentLoss
from ragmeter.metrics.protocol import compute_metric


def fates_of(scored: ScoredRun, *right: str, texts: Mapping[str, str]) -> list[str | None]:
    """Return the fates of these documents, by id and by text."""
    found: list[list[str | None]] = []
    by_text = ragmeter.Reference(contexts=[texts[name] for name in right])
    for reference in (ragmeter.Reference(context_ids=right), by_text):
        sample = scored.sample.model_copy(update={"reference": reference})
        dropped, _ = compute_metric(RightDocumentLoss(), sample)
        found.append([item.reason for item in dropped.items])
    assert found[0] == found[1]
    return found[0]


def flow(scored: ScoredRun) -> str | None:
    """Return the counts per stage as one line."""
    (score,) = compute_metric(RetrievalFunnel(), scored.sample)
    return score.summary
