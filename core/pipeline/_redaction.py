"""Apply the user's redaction hook to every text of a request and of its scores.

The pipeline calls this on the worker before metrics, judge, cache and exporters see a request, and again for
the texts of scores. A hook that raises or returns something other than text loses the request, or the
explanations; both are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ragmeter.exporters.protocol import RagRun
from ragmeter.metrics import RagSample, Reference, RetrievedContext, Score

Redact = Callable[[str], str]
"""The user's hook: returns the redacted text."""


def redacted_run(run: RagRun, redact: Redact) -> RagRun:
    """Return `run` with every text redacted.

    Raises:
        TypeError: `redact` returned something other than a string.
    """
    sample = run.sample
    contexts = _ContextRedaction(redact)
    return replace(
        run,
        sample=RagSample(
            question=_optional(sample.question, redact),
            contexts=None if sample.contexts is None else contexts.of(sample.contexts),
            carried=contexts.of(sample.carried),
            contexts_by=sample.contexts_by,
            stages=(
                None
                if sample.stages is None
                else [
                    stage
                    if stage.contexts is None
                    else stage.model_copy(update={"contexts": contexts.of(stage.contexts)})
                    for stage in sample.stages
                ]
            ),
            answer=_optional(sample.answer, redact),
            reference=(None if sample.reference is None else redacted_reference(sample.reference, redact)),
            status=sample.status,
            name=sample.name,
            search_query=_optional(sample.search_query, redact),
        ),
        retrievals=tuple(
            replace(item, contexts=contexts.of(item.contexts), query=_optional(item.query, redact))
            for item in run.retrievals
        ),
        metadata=_values(run.metadata, redact),
        framework_metadata=_values(run.framework_metadata, redact),
    )


def redacted_reference(reference: Reference, redact: Redact) -> Reference:
    """Return `reference` with redacted texts; ids and unset fields are unchanged."""
    fields: dict[str, Any] = {}
    for name in reference.model_fields_set:
        value = getattr(reference, name)
        if name in {"context_ids", "orphaned_ids"} or value is None:
            fields[name] = value
        elif isinstance(value, str):
            fields[name] = _text(value, redact)
        else:
            fields[name] = tuple(_text(item, redact) for item in value)
    return Reference(**fields)


def redacted_scores(scores: Mapping[str, Score], redact: Redact) -> dict[str, Score]:
    """Return `scores` with explanations and evidence redacted, as a judge may quote any text.

    Raises:
        TypeError: `redact` returned something other than a string.
    """
    return _rewrite_details(scores, lambda text: _text(text, redact))


def without_texts(scores: Mapping[str, Score]) -> dict[str, Score]:
    """Return `scores` without explanations and without the texts of their evidence."""
    return _rewrite_details(scores, lambda _: None)


def _rewrite_details(scores: Mapping[str, Score], change: Callable[[str], str | None]) -> dict[str, Score]:
    def changed(text: str | None) -> str | None:
        return None if text is None else change(text)

    return {
        name: score.model_copy(
            update={
                "explanation": changed(score.explanation),
                "items": tuple(
                    item._replace(
                        text=changed(item.text), evidence=changed(item.evidence), reason=changed(item.reason)
                    )
                    for item in score.items
                ),
            }
        )
        for name, score in scores.items()
    }


def _text(text: str, redact: Redact) -> str:
    result: object = redact(text)
    if not isinstance(result, str):
        raise TypeError(f"redact returned a {type(result).__name__}; it must return a str")
    return result


def _optional(text: str | None, redact: Redact) -> str | None:
    return None if text is None else _text(text, redact)


class _ContextRedaction:
    """Redacts each context once, so that one that passed several stages stays one object."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._known: dict[int, RetrievedContext] = {}

    def of(self, contexts: Iterable[RetrievedContext]) -> tuple[RetrievedContext, ...]:
        return tuple(self._redact_context(context) for context in contexts)

    def _redact_context(self, context: RetrievedContext) -> RetrievedContext:
        known = self._known.get(id(context))
        if known is None:
            known = self._known[id(context)] = RetrievedContext(
                text=_text(context.text, self._redact),
                id=context.id,
                score=context.score,
                metadata=_values(context.metadata, self._redact),
            )
        return known


def _values(metadata: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    return {key: _value(value, redact) for key, value in metadata.items()}


def _value(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return _text(value, redact)
    if isinstance(value, Mapping):
        return _values(value, redact)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_value(item, redact) for item in value]
    return value
