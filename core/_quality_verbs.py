"""Methods of `ragmeter.RagMeter` about objectives, changes, gaps and conversations.

None is on a request's path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ragmeter.metrics import ConfigurationError, VerdictRules

from .quality.objectives import DEFAULT_SHARE, Objective, Objectives

if TYPE_CHECKING:
    from ragmeter.exporters.protocol import ListPoint, ObservesLists

    from ._port import MeterPort
    from .quality.corpus.view import ChunkReport
    from .quality.gaps.exporter import GapExporter
    from .quality.gaps.gap import Gap, GapList
    from .quality.look import Look, RetrievalLook
    from .quality.turns import Conversation, ConversationExporter
    from .watch.alarming import Alarming
    from .watch.change import Change
    from .watch.watch import Watch

C = TypeVar("C", bound="Callable[[Change], object]")
G = TypeVar("G", bound="Callable[[Gap], object]")


class QualityVerbs:
    """Base class of `ragmeter.RagMeter` with its methods about quality."""

    _objectives: Objectives
    _alarming: Alarming | None
    port: MeterPort
    _gaps: GapExporter | None
    _rules: VerdictRules
    _labels: str | os.PathLike[str] | None
    _retrieval_look: RetrievalLook | None = None
    _conversations: ConversationExporter | None

    def gaps(self, workflow: str | None = None) -> GapList:
        """Return the knowledge gaps of the last 14 days: topics whose requests fail more often than others.

        Found by words and counts, without a language model; see ``docs/improve.md``. Takes up to a second: do
        not call it on a request's path. Requests still in the queue are missing: `flush` first.

        Args:
            workflow: Only of this workflow; None: all.

        Raises:
            ConfigurationError: The meter does not store what this needs.
        """
        return self._gap_exporter("gaps").gap_memory.gaps(workflow=workflow)

    def on_gap(self, callback: G) -> G:
        """Call `callback` once with each new `Gap`; usable as a decorator.

        Checked every ten minutes while requests come, and at `shutdown`, on ragmeter's own thread; errors of
        `callback` are contained and logged. A new process reports known gaps again.

        Raises:
            ConfigurationError: The meter does not store what this needs, or `callback` is not a function.
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
        """Return lists of chunks to check, from the traffic since the process began.

        Chunks that rank first in bad requests, that no answer used, that contradict each other in numbers or
        months, or that are stale; see ``docs/improve.md``. Takes up to a second: do not call it on a
        request's path. Requests still in the queue are missing: `flush` first.

        The arguments describe the current corpus, to find stale chunks. They are remembered until a call with
        new ones.

        Args:
            current: By chunk id, ``sha256:`` and the hex hash of its text, or its metadata's ``version``,
                ``etag``, ``hash``, ``content_hash`` or ``revision``.
            updated_at: By chunk id, its last change: ISO 8601, a `datetime` or seconds; default: the
                metadata's ``updated_at`` or ``last_modified``.
            older_than_s: Age in seconds from which a chunk is stale; None: no limit.

        Raises:
            ConfigurationError: The meter does not store what this needs, or a value is not a version, date or
                age.
        """
        exporter = self._gap_exporter("chunks")
        if (current, updated_at, older_than_s) != (None, None, None):
            exporter.corpus_memory.know(current, updated_at, older_than_s)
        return exporter.chunks()

    def _publish_lists(self, exporter: ObservesLists) -> None:
        """Have an exporter publish what this meter stores of gaps, chunks and conversations."""
        if self._gaps or self._conversations:
            exporter.observe_lists(self._list_points)
        if self._gaps is not None:
            count = self._in_guard("exporter.gap_found", exporter.gap_found)
            self._gaps.on_gap(lambda gap: count(gap.diagnosis, gap.language))

    def _list_points(self) -> Sequence[ListPoint]:
        """Return the counts of gaps, chunks and conversations, if this meter stores them."""
        found: list[ListPoint] = []
        with self.port.guard("meter.lists"):
            if self._gaps is not None:
                found += self._gaps.points()
            if self._conversations is not None:
                found += self._conversations.points()
        return found

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
        """Return recent conversations with their turns in order, bad ones first.

        Requests still in the queue are missing: `flush` first.

        Args:
            workflow: Only of this workflow; None: all.

        Raises:
            ConfigurationError: The meter does not store what this needs.
        """
        if self._conversations is None:
            raise ConfigurationError(
                "conversations: this meter keeps none; make it with "
                'RagMeter(exporters=["otel", "conversations"])'
            )
        return self._conversations.conversations(workflow)

    def look(self, question: str, contexts: Iterable[Any]) -> Look | None:
        """Check retrieved contexts before the answer is generated, using words only. Never raises.

        Blocks for about a millisecond, more for long chunks, and errs as `lexical_context_relevance` does: do
        not gate on it. The share of bad requests like it comes from `Scoring`'s ``labels``, else it is
        unknown.

        Args:
            question: The search query: the condensed question, if a turn was condensed.
            contexts: Texts, or documents of LangChain or LlamaIndex, as the model will see them, in order.

        Returns:
            The result; None: it failed, which is counted in `stats`.
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
        """Set an objective: the target of a score, and the share of requests to reach it.

        Best called before the first request. Requests that miss it are counted in `ragmeter.quality.low`; the
        shipped Prometheus rules compare their share with the error budget, 1 - share, and alert if it burns
        too fast.

        Args:
            score: Name of the score.
            at_least: The lowest good value, on the score's own scale.
            at_most: The highest good value, where lower is better; exactly one of the two.
            share: Target share of good requests among those with a value; above 0, below 1.
            workflow: Name of the chain, engine or workflow; None: each without its own objective.

        Returns:
            The objective; its text is what ``RAGMETER_OBJECTIVES`` and ``--objective`` take.

        Raises:
            ConfigurationError: A value is invalid, or the score has another objective in this workflow.
        """
        made = Objective(score=score, at_least=at_least, at_most=at_most, share=share, workflow=workflow)
        self._objectives.add(made)
        return made

    def on_change(self, callback: C) -> C:
        """Call `callback` with every `ragmeter.Change` of quality; usable as a decorator.

        Called on ragmeter's own thread, one change at a time; its errors are contained and logged.
        Needs ``RagMeter(alarms=True)``.

        Raises:
            ConfigurationError: The meter has no alarms, or `callback` is not a function.
        """
        if not callable(callback):
            raise ConfigurationError(f"on_change is {callback!r}; pass a function that takes a ragmeter.Change")
        self._watching("on_change").on_change(callback)
        return callback

    @property
    def watch(self) -> Watch:
        """The watch over the scores: detected `changes`, the state of each score (`series`), `accept`, `mark`.

        Raises:
            ConfigurationError: The meter has no alarms.
        """
        return self._watching("watch").watch

    def _watching(self, verb: str) -> Alarming:
        if self._alarming is None:
            raise ConfigurationError(
                f"{verb}: this meter does not watch its scores; make it with RagMeter(alarms=True)"
            )
        return self._alarming
