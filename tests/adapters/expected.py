"""The facts of a scored request, by name: what a test expects of an application in either framework."""

from collections.abc import Callable, Mapping
from typing import Any

from ragmeter.exporters.protocol import ScoredRun


def _contexts(scored: ScoredRun, field: str) -> list[Any] | None:
    contexts = scored.sample.contexts
    return None if contexts is None else [getattr(item, field) for item in contexts]


FACTS: Mapping[str, Callable[[ScoredRun], Any]] = {
    "answer": lambda scored: scored.sample.answer,
    "any_order": lambda scored: sorted(map(str, _contexts(scored, "id") or ())),
    "contexts": lambda scored: scored.sample.contexts,
    "contexts_by": lambda scored: scored.sample.contexts_by,
    "conversation_id": lambda scored: scored.run.conversation_id,
    "error_type": lambda scored: scored.run.error_type,
    "ids": lambda scored: _contexts(scored, "id"),
    "name": lambda scored: scored.sample.name,
    "provider": lambda scored: scored.run.retrievals[0].provider,
    "queries": lambda scored: [item.query for item in scored.run.retrievals],
    "query": lambda scored: scored.run.retrievals[0].query,
    "question": lambda scored: scored.sample.question,
    "reference": lambda scored: scored.sample.reference,
    "retrieval_error": lambda scored: scored.run.retrievals[0].error_type,
    "retrievals": lambda scored: len(scored.run.retrievals),
    "retrieved": lambda scored: [item.id for item in scored.run.retrievals[0].contexts],
    "retriever": lambda scored: scored.run.retrievals[0].name,
    "search_query": lambda scored: scored.sample.search_query,
    "source": lambda scored: scored.run.retrievals[0].data_source_id,
    "status": lambda scored: scored.sample.status,
    "texts": lambda scored: _contexts(scored, "text"),
    "user_id": lambda scored: scored.run.user_id,
}


def check(scored: ScoredRun, facts: Mapping[str, Any]) -> None:
    """Check that a request has these facts."""
    found = {name: FACTS[name](scored) for name in facts}
    assert found == facts, found
