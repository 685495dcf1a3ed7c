"""What a user says of how good is good enough, and asks about changes: verbs of `ragmeter.RagMeter`.

`objective` is for what must be, the others for what changes; none is on a request's path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ragmeter.metrics import ConfigurationError, VerdictRules

from .quality.objectives import DEFAULT_SHARE, Objective, Objectives

if TYPE_CHECKING:
    from ._port import MeterPort
    from .quality.corpus.view import ChunkReport
    from .quality.gaps.exporter import GapExporter
    from .quality.gaps.gap import Gap, GapList
    from .quality.look import Look, RetrievalLook
    from .quality.turns import Conversation, ConversationExporter
    from .watch.alarming import Alarming
    from .watch.change import Change
    from .watch.watch import Watch

__all__ = ["QualityVerbs"]

C = TypeVar("C", bound="Callable[[Change], object]")
G = TypeVar("G", bound="Callable[[Gap], object]")


class QualityVerbs:
    """The side of a `ragmeter.RagMeter` that objectives and changes are seen from."""

    _objectives: Objectives
    _alarming: Alarming | None
    port: MeterPort
    _gaps: GapExporter | None
    _rules: VerdictRules
    _labels: str | os.PathLike[str] | None
    _retrieval_look: RetrievalLook | None = None
    _conversations: ConversationExporter | None

    def gaps(self, workflow: str | None = None) -> GapList:
        """Return the knowledge gaps of the last 14 days: topics whose questions go badly more than others.

        Found by words and counts, without a language model; see ``docs/improve.md``. It takes up to a second,
        so call it where no one waits. What has not left the queue yet is missing: `flush` first.

        Args:
            workflow: Of this workflow; None: of all.

        Raises:
            ConfigurationError: The meter keeps nothing for it.
        """
        return self._gap_exporter("gaps").gap_memory.gaps(workflow=workflow)

    def on_gap(self, callback: G) -> G:
        """Call `callback` once with each new `Gap` from now on; may be a decorator.

        Looked for every ten minutes while requests come, and at `shutdown`, on ragmeter's own thread; what it
        raises is contained and logged. A new process announces again what it sees.

        Raises:
            ConfigurationError: The meter keeps nothing for it, or this is no function.
        """
        if not callable(callback):
            raise ConfigurationError(
                f"on_gap is {callback!r}; pass a function that takes a ragmeter.quality.gaps.gap.Gap"
            )
        self._gap_exporter("on_gap").on_gap(self._in_guard("meter.on_gap", callback))
        return callback

    def chunks(
        self,
        current: Mapping[str, str] | None = None,
        *,
        updated_at: Mapping[str, object] | None = None,
        older_than_s: float | None = None,
    ) -> ChunkReport:
        """Return what traffic says of the corpus since the process began: lists of chunks to look at.

        Those that lead requests that go badly, that no answer used, that contradict each other in numbers or
        months, and that are stale; see ``docs/improve.md``. It takes up to a second, so call it where no one
        waits. What has not left the queue yet is missing: `flush` first.

        Args say what the corpus has now, so that what is stale is listed. They are remembered, in place of
        those of the call before; without any, these stand.

        Args:
            current: By id of a chunk, ``sha256:`` and the hash of its text in hex, or what its metadata has as
                ``version``, ``etag``, ``hash``, ``content_hash`` or ``revision``.
            updated_at: By id, when it was changed: ISO 8601, a `datetime` or seconds; else the metadata's
                ``updated_at`` or ``last_modified`` counts.
            older_than_s: Age in seconds from which on a chunk is stale; None: none is too old.

        Raises:
            ConfigurationError: The meter keeps nothing for it, or a value is no version, date or age.
        """
        exporter = self._gap_exporter("chunks")
        if (current, updated_at, older_than_s) != (None, None, None):
            exporter.corpus_memory.know(current, updated_at, older_than_s)
        return exporter.chunks()

    def _gap_exporter(self, verb: str) -> GapExporter:
        if self._gaps is None:
            raise ConfigurationError(
                f'{verb}: this meter keeps no questions; make it with RagMeter(exporters=["otel", "gaps"])'
            )
        return self._gaps

    def _in_guard(self, component: str, call: Callable[..., object]) -> Callable[..., None]:
        guard = self.port.guard(component)

        def guard_call(*given: object) -> None:
            with guard:
                call(*given)

        return guard_call

    def conversations(self, workflow: str | None = None) -> tuple[Conversation, ...]:
        """Return the last conversations with their turns in order, those that went badly first.

        What has not left the queue yet is missing: `flush` first.

        Args:
            workflow: Of this workflow; None: of all.

        Raises:
            ConfigurationError: The meter keeps nothing for it.
        """
        if self._conversations is None:
            raise ConfigurationError(
                "conversations: this meter keeps none; make it with "
                'RagMeter(exporters=["otel", "conversations"])'
            )
        return self._conversations.conversations(workflow)

    def look(self, question: str, contexts: Iterable[Any]) -> Look | None:
        """Look at what was retrieved before the answer is written, at once, by words alone. Never raises.

        It blocks for about a millisecond, more for long chunks, and errs as `lexical_context_relevance` does:
        no gate. How often requests like it go badly is known from `Scoring`'s ``labels``, or not at all.

        Args:
            question: What is searched for: the condensed question, where a turn was condensed.
            contexts: Texts, or documents of LangChain or LlamaIndex, as the model will see them.

        Returns:
            What is known; None: it failed, which is counted in `stats`.
        """
        with self.port.guard("meter.look"):
            if self._retrieval_look is None:
                from .quality.look import RetrievalLook  # noqa: PLC0415 -- only when wanted

                self._retrieval_look = RetrievalLook(self._rules, self._labels)
            return self._retrieval_look.look(question, contexts)
        return None

    def objective(
        self,
        score: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        share: float = DEFAULT_SHARE,
        workflow: str | None = None,
    ) -> Objective:
        """Say how good a score is to be, and for which share of requests; best before the first one.

        Requests on the bad side are counted from now on, in `ragmeter.quality.low`; the shipped Prometheus
        rules compare their share with the budget, 1 - share, and call out when it is used up too fast.

        Args:
            score: Name of the score.
            at_least: The lowest good value, on the score's own scale.
            at_most: The highest good value, where lower is better; exactly one of the two.
            share: Share of the requests with a value that are to be good; above 0, below 1.
            workflow: Name of the chain, engine or workflow; None: of each that has none of its own.

        Returns:
            The objective; its text is what ``RAGMETER_OBJECTIVES`` and ``--objective`` take.

        Raises:
            ConfigurationError: It makes no sense, or the score has another one in this workflow.
        """
        made = Objective(
            score=score, at_least=at_least, at_most=at_most, share=share, workflow=workflow
        )
        self._objectives.add(made)
        return made

    def on_change(self, callback: C) -> C:
        """Call `callback` with every `ragmeter.Change` of quality from now on; may be a decorator.

        It is called on ragmeter's own thread, one change at a time; what it raises is contained and logged.
        Needs ``RagMeter(alarms=True)``.

        Raises:
            ConfigurationError: The meter does not watch, or this is no function.
        """
        if not callable(callback):
            raise ConfigurationError(
                f"on_change is {callback!r}; pass a function that takes a ragmeter.Change"
            )
        self._watching("on_change").on_change(callback)
        return callback

    @property
    def watch(self) -> Watch:
        """The watch over the scores: `changes` that it saw, how each score stands (`series`), `accept`, `mark`.

        Raises:
            ConfigurationError: The meter does not watch.
        """
        return self._watching("watch").watch

    def _watching(self, verb: str) -> Alarming:
        if self._alarming is None:
            raise ConfigurationError(
                f"{verb}: this meter does not watch its scores; make it with RagMeter(alarms=True)"
            )
        return self._alarming
