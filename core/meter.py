"""`RagMeter`: the verbs a user calls; what adapters call is its `port`, a `MeterPort`.

What comes in is scored by the `Pipeline`, on worker threads.  Nothing here may raise into, block or slow
the host: only a wrong argument raises, at construction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from ragmeter.exporters.protocol import (
    Exporter,
    MeterStats,
    ObservesGaps,
    ObservesMeter,
    ObservesQuality,
)
from ragmeter.metrics import (
    ConfigurationError,
    Metric,
    RagSample,
    Reference,
    ScoreDirection,
)
from ragmeter.metrics.registry import resolve_metrics

from . import _port
from ._port import MeterPort
from ._quality_verbs import QualityVerbs
from .pipeline._admission import Admission
from .pipeline.cascade import check_cascade
from .pipeline.counting import Counting
from .pipeline.late import Amendment, feedback_score, request_key
from .pipeline.line import Pipeline
from .pipeline.provenance import Marking
from .pipeline.sampling import place, within
from .pipeline.scoring import MetricSet, Preparation
from .quality.estimates import Estimate, Estimates
from .quality.no_scores_warning import UnscoredWarning
from .quality.objectives import Objectives, parse_objectives
from .quality.population import Population
from .quality.segments import Segments
from .quality.sums import QualityTable
from .requests.by_hand import Request, SubmittedSample, request
from .requests.references import as_reference, load_references
from .requests.size import weight_of_sample
from .settings.arguments import (
    PREFIXES,
    check_askable,
    probability,
    seconds_of,
    verdict_rules,
    window_of,
)
from .settings.destinations import beside, exporters_of
from .settings.options import Alarms, Limits, Sampling, Scoring, as_group

if TYPE_CHECKING:
    from ragmeter.metrics.embedder import Embedder
    from ragmeter.metrics.judge.protocol import Judge

    from .pipeline.judging import Judges
    from .pipeline.process import ScoringProcess
    from .watch.alarming import Alarming
    from .watch.judge_check import JudgeCheck
    from .watch.shadow import Shadow

__all__ = ["RagMeter"]


DEFAULT_WINDOW_S = 3600.0
"""Seconds that an estimate looks back on, unless given."""


def _as_embedder(given: object) -> Embedder:
    from ragmeter.metrics.embedder import as_embedder  # noqa: PLC0415 -- brings asyncio

    return as_embedder(given)


def _with_detector(
    metrics: str | Sequence[str | Metric], detector: object
) -> str | Sequence[str | Metric]:
    if detector is None:
        return metrics
    from ragmeter.metrics.detector import SpanSupport  # noqa: PLC0415 -- brings asyncio

    return (*([metrics] if isinstance(metrics, str) else metrics), SpanSupport(detector))


def _default_exporters() -> tuple[str, ...]:
    """Return the names of the exporters where none are chosen in code; settings load only where they do."""
    if not any(os.environ.get(pre + name) for pre in PREFIXES for name in ("CONSOLE", "EXPORTERS")):
        return ("otel",)
    from .settings.config import read_settings  # noqa: PLC0415 -- see above

    settings = read_settings()
    return (settings.exporters or ("otel",)) + (("console",) if settings.console else ())


class RagMeter(QualityVerbs):
    """Scores live RAG requests in the background and hands the scores to exporters.

    Args:
        metrics: A preset: ``"live"``, the few that need no reference, ``"golden"``, those and all that
            read one, or ``"all"``; or names of metrics and presets and `Metric` objects, in order.
            Presets bring judged metrics once a `judge` is given: to ``"live"`` one call, `live_judged`.
            Default: the live ones, and the golden ones for requests that have a reference or, once
            `references` are given, for all.
        judge: Who gives verdicts, e.g. ``ragmeter.metrics.judge.OpenAIJudge(model=...)``.
        references: Path of a ``.jsonl`` or ``.csv`` file, a mapping from question to reference, or a
            callable. A reference that a request brings along wins.
        exporters: Where results go: ``"console"``, one line per request on standard error; ``"otel"``,
            `ragmeter.exporters.otel.OpenTelemetryExporter`, which writes spans, events and metrics through
            the global providers; ``"phoenix"`` or ``"langfuse"``, which bring ``"otel"`` along and whose
            addresses and keys stand in their own variables; ``"gaps"`` and ``"conversations"``, which keep what
            `gaps` and `conversations` list; or a
            list of those and of exporters. Default:
            what ``RAGMETER_EXPORTERS`` names, else ``"otel"``, and ``"console"`` where ``RAGMETER_CONSOLE``
            is set.
        sample_rate: Probability, by a hash of the trace id, that a request is scored.
        judge_sample_rate: Probability that a scored request is judged, too; a judge's budget lowers it.
        embedder: What turns texts into vectors for `semantic_context_relevance`: a LangChain
            ``Embeddings``, a LlamaIndex embedding, a function from texts to vectors, or an
            ``OpenAIEmbedder`` of ``ragmeter.metrics.embedder``. Sampled and asked as the judge is, off the
            request's path. None: no such score.
        detector: What finds unsupported spans in an answer, for `span_support`: a function of question,
            contexts and answer, an ``HttpSpanDetector`` or an ``OnnxSpanDetector`` of
            ``ragmeter.metrics.detector``.
        segments: Parts of a workflow's requests that have means of quality of their own, too: ``"language"`` of
            the question, ``"retriever"``, what was searched, ``"metadata.tenant"`` or any other name of
            metadata, of the resource's attributes, or of what adapters know; see ``docs/quality.md``.
        scoring: Where requests are scored, ``"thread"``, ``"process"`` or ``"queue"``; or a `Scoring`, which
            says, too, what is redacted and what is good.
        sampling: Which bad requests escape `sample_rate`, and which ones the judge is spared: `Sampling`.
        limits: How much waits, for how long, and how much is done at a time: `Limits`.
        alarms: Watch the scores for changes and tell of them; an `Alarms` says how.

    Raises:
        ConfigurationError: An argument is wrong; the message says what is allowed.
    """

    def __init__(
        self,
        metrics: Literal["live", "golden", "all"] | Sequence[str | Metric] | None = None,
        judge: Judge | None = None,
        references: str | os.PathLike[str] | Mapping[str, Any] | Callable[[str], Any] | None = None,
        exporters: Literal["otel", "console", "phoenix", "langfuse", "gaps", "conversations"]
        | Sequence[str | Exporter]
        | None = None,
        sample_rate: float = 1.0,
        judge_sample_rate: float = 1.0,
        *,
        embedder: object = None,
        detector: object = None,
        segments: Sequence[str] | None = None,
        scoring: Literal["thread", "process", "queue"] | Scoring = "thread",
        sampling: Sampling | None = None,
        limits: Limits | None = None,
        alarms: Alarms | bool = False,
    ) -> None:
        how = scoring if isinstance(scoring, Scoring) else Scoring(scoring)
        chances = as_group("sampling", sampling, Sampling).with_rates(
            sample_rate, judge_sample_rate
        )
        self._sampling, self._limits, self._labels = (
            chances,
            as_group("limits", limits, Limits),
            how.labels,
        )
        watched = as_group("alarms", alarms or None, Alarms) if alarms else None
        if how.mode == "queue":
            from .settings.queue_exporters import queued_exporters  # noqa: PLC0415 -- only when wanted

            theirs = {
                "metrics": metrics,
                "judge": judge,
                "embedder": embedder,
                "detector": detector,
                "cascade": chances.cascade,
                "alarms": alarms or None,
            }
            exporters = queued_exporters(exporters, theirs, judge_sample_rate=chances.judge_rate)
            metrics = ()
        rules = self._rules = verdict_rules(how.verdict, how.labels)
        self._metrics = MetricSet(
            resolve_metrics(
                _with_detector("golden" if metrics is None else metrics, detector),
                judged=judge is not None,
                fused=how.fused,
                embedder=None if embedder is None else _as_embedder(embedder),
            ),
            self._limits.max_text_chars,
            sparing=()
            if metrics is not None
            else ("reference", "stages")
            if references is None
            else ("stages",),
        )
        check_askable(self._metrics.awaited, judge)
        self._redact, patience = how.redact, self._limits.shutdown_timeout_s
        self._shutdown_timeout_s = 10.0 if patience is None else patience
        port = self.port = MeterPort(
            sample_rate=None if chances.keep == "worst" else chances.rate,
            shutdown_timeout_s=patience,
        )
        self._submit_guard = port.guard("meter.submit")
        self._amend_guard = port.guard("meter.amend")
        self._flush_guard = port.guard("meter.flush")
        self._stats_guard = port.guard("meter.stats")
        self._quality_guard = port.guard("meter.quality")
        chosen = exporters_of(_default_exporters() if exporters is None else exporters)
        if judge is not None:
            from ragmeter.metrics.judge.counting import as_judge  # noqa: PLC0415 -- if asked for

            judge = as_judge(judge)
        self._objectives = port.objectives = Objectives(parse_objectives(how.objectives or ()))
        told_apart = Segments(() if segments is None else segments)
        self._quality = QualityTable(objectives=self._objectives, segments=told_apart)
        self._unscored = UnscoredWarning(
            partial(self._quality.estimates, None, DEFAULT_WINDOW_S, segment="")
        )
        process = self._scoring_process(judge) if how.mode == "process" else None
        self._alarming = None if watched is None else self._watch(watched, chosen, judge)
        source = load_references(references, port.guard("meter.references"))
        for join in beside:
            with port.guard("meter.beside"):
                chosen = (*chosen, *join(chosen))
        pipeline = Pipeline(
            metrics=self._metrics,
            computes=process or self._metrics,
            judges=self._judges(judge, process) if self._metrics.awaited else None,
            preparation=Preparation(source, how.redact, port.counters, port.guard),
            admission=Admission(None if judge is None else judge.budget, chances.judge_rate),
            sampling=chances,
            counting=Counting(
                self._quality,
                Population(self._metrics.awaited, None if judge is None else judge.model),
                self._quality_guard,
                scores_all=chances.keep == "worst",
                versions=None if self._alarming is None else self._alarming.watch.versions,
            ),
            rules=rules,
            exporters=chosen,
            limits=self._limits,
            counters=port.counters,
            no_data=port.no_data,
            guard_for=port.guard,
            alarming=self._alarming,
            marking=Marking(told_apart, judge, alarms=watched is not None),
            cascade=check_cascade(chances.cascade, self._metrics.awaited),
        )
        port.serve(pipeline)
        port.alarming = self._alarming
        if _port.examined is not None:
            _port.examined[self] = chosen
        self._judge_budget = None if judge is None else judge.budget
        if judge is not None:
            judge.subscribe(pipeline.judge_called)
        self._gaps, self._conversations = (
            next((found for one in chosen if (found := getattr(one, name, None))), None)
            for name in ("gap_exporter", "conversation_memory")
        )
        for exporter in chosen:
            with port.guard("exporter.observe"):  # the application's own meter may refuse
                if isinstance(exporter, ObservesMeter):
                    exporter.observe_meter(self.stats)
                if isinstance(exporter, ObservesQuality):
                    exporter.observe_quality(self._quality.totals)
                if self._gaps is not None and isinstance(exporter, ObservesGaps):
                    found = self._in_guard("exporter.gap_found", exporter.gap_found)
                    self._gaps.on_gap(lambda gap, count=found: count(gap.diagnosis, gap.language))

    def _watch(
        self, alarms: Alarms, exporters: Sequence[Exporter], judge: Judge | None
    ) -> Alarming:
        from .watch.alarming import alarming_of  # noqa: PLC0415 -- only when wanted

        check = (
            None if alarms.check is None else self._check(alarms.check, alarms.check_every_s, judge)
        )
        slots = self._quality.slots
        return alarming_of(slots, exporters, self.port.guard, alarms.webhook, check, alarms.state)

    def _check(
        self, frozen: str | os.PathLike[str], every_s: float, judge: Judge | None
    ) -> JudgeCheck:
        from .watch.judge_check import judge_check_of  # noqa: PLC0415 -- brings asyncio

        if judge is None:
            raise ConfigurationError(
                "a check of the judge is for a meter with a judge; pass judge= (RAGMETER_JUDGE_MODEL), too"
            )
        return judge_check_of(
            frozen,
            self._metrics.awaited,
            judge,
            every_s=every_s,
            deadline_s=self._limits.judge_deadline_s,
            guard=self.port.guard("meter.judge_check"),
        )

    def _scoring_process(self, judge: Judge | None) -> ScoringProcess:
        from .pipeline.process import ScoringProcess  # noqa: PLC0415 -- only when wanted

        return ScoringProcess(
            self._metrics,
            judge,
            log=self.port.log,
            concurrency=self._limits.judge_concurrency,
            deadline_s=self._limits.judge_deadline_s,
        )

    def _judges(self, judge: Judge | None, process: ScoringProcess | None) -> Judges:
        if process is not None:
            return process.judges
        # Brings asyncio, which free metrics do not need.
        from .pipeline.judging import JudgesHere  # noqa: PLC0415

        return JudgesHere(
            judge,
            self._limits.judge_deadline_s,
            guard=self.port.guard("meter.judge"),
            metrics=self._metrics.awaited,
            max_text_chars=self._limits.max_text_chars,
        )

    @classmethod
    def from_env(cls) -> RagMeter:
        """Build a meter from ``RAGMETER_*`` variables; see `ragmeter.settings.config.Settings`.

        Raises:
            ConfigurationError: A value is not allowed; names variable, value and what is allowed.
            MissingDependencyError: A judge is configured but ``openai`` is not installed.
        """
        from .settings.from_settings import meter_arguments  # noqa: PLC0415 -- settings load only when asked

        return cls(**meter_arguments())

    def submit(self, sample: RagSample) -> None:
        """Score a finished sample. It belongs to the span that is current here, if any.

        A sample without a reference gets that of the `ragmeter.reference` block it is in. Never
        blocks, never raises: anything but a sample is counted as lost and logged.
        """
        with self._submit_guard:
            if not isinstance(sample, RagSample):
                self.port.counters.count_lost("error")
                raise ConfigurationError(
                    f"submit() was given a {type(sample).__name__}; pass a ragmeter.RagSample, e.g. "
                    "RagSample(question=..., contexts=[...], answer=...)"
                )
            self._submit(sample)

    def _submit(self, sample: RagSample) -> None:
        build = SubmittedSample(sample)
        parent = build.parent
        self.port.offer(
            build,
            run_id=build.run_id,
            trace_id=None if parent is None else parent.trace_id,
            size_bytes=weight_of_sample(sample),
        )

    def request(
        self,
        question: str | None = None,
        *,
        reference: Reference | Mapping[str, Any] | str | None = None,
        name: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Request:
        """Record a request manually: ``with meter.request(question) as request: ...``.

        Args:
            question: What the user asked.
            reference: What should be said and found: a `Reference`, its fields, or the answer.
            name: Name of the workflow; low cardinality.
            session_id: Session, thread or conversation id.
            user_id: The user's id.
            tags: Tags of the request.
            metadata: Anything else; scalars go on spans.
        """
        return request(
            question,
            reference=reference,
            name=name,
            session_id=session_id,
            user_id=user_id,
            tags=tags,
            metadata=metadata,
            meter=self.port,
        )

    def attach_reference(
        self, run_or_trace_id: str | int, reference: Reference | Mapping[str, Any] | str
    ) -> None:
        """Say, after the fact, what should have been said and found for a request.

        The metrics that need a reference are measured again and their scores exported as late
        ones. Never blocks, never raises; a request that is not remembered any more is counted in
        ``stats().amendments``.

        Args:
            run_or_trace_id: The run id, or the trace id as a number or 32 hexadecimal digits.
            reference: The reference, its fields, or just the answer.
        """
        with self._amend_guard:
            value = as_reference(reference, "attach_reference")
            self.port.pipeline.put(Amendment(request_key(run_or_trace_id), reference=value))

    def feedback(
        self,
        run_or_trace_id: str | int,
        name: str,
        value: float,
        *,
        label: str | None = None,
        explanation: str | None = None,
        direction: ScoreDirection = "higher",
    ) -> None:
        """Note, after the fact, what a user thought of a request. Never blocks, never raises.

        Args:
            run_or_trace_id: The run id, or the trace id as a number or 32 hexadecimal digits.
            name: Name of the score, snake case, e.g. ``thumbs_up``.
            value: The score; between 0.0 and 1.0 if it is to appear in the score histogram.
            label: A low-cardinality word for it.
            explanation: A comment. Content: leaves only when content capture is on.
            direction: Which way is better.
        """
        with self._amend_guard:
            score = feedback_score(name, value, label, explanation, direction)
            self.port.pipeline.put(Amendment(request_key(run_or_trace_id), score=score))

    def stats(self) -> MeterStats:
        """Return the meter's own counters as of now."""
        with self._stats_guard:  # it logs, and the host's logging may raise
            self.port.no_data.check(self.port.counters.n_captured)
            self._unscored.check()
        budget = self._judge_budget
        return self.port.counters.snapshot(
            **self.port.pipeline.backlog(),
            internal_errors=self.port.log.counts,
            judge_budget_local=0 if budget is None else budget.granted_alone,
        )

    @overload
    def quality(
        self,
        score: None = None,
        *,
        workflow: str | None = None,
        segment: str | None = None,
        service: str | None = None,
        window_s: float = 3600.0,
    ) -> Estimates: ...

    @overload
    def quality(
        self,
        score: str,
        *,
        workflow: str | None = None,
        segment: str | None = None,
        service: str | None = None,
        window_s: float = 3600.0,
    ) -> Estimate: ...

    def quality(
        self,
        score: str | None = None,
        *,
        workflow: str | None = None,
        segment: str | None = None,
        service: str | None = None,
        window_s: float = 3600.0,
    ) -> Estimate | Estimates:
        """Return the mean of a score over the last while, with its 95 % interval.

        Judged scores of a few requests speak for all requests: see `docs/quality.md` for what
        may be concluded. Only what this process has seen counts. Never raises; a window that is no number
        of seconds is counted as ragmeter's own error and not used. Printed, what is returned is a table.

        Args:
            score: Name of the score; None: all of them, by score, workflow and segment.
            workflow: Name of the chain, engine or workflow; None: all of them, together if `score`
                is named.
            segment: A part of the requests, e.g. ``"language:zh"``; empty: all requests; None: all requests
                and, unless `score` is named, each part beside.
            service: ``service.name`` of requests that ran in other processes; None: all of them, together.
            window_s: Seconds, rounded up to whole five minutes and, beyond three hours, to whole hours;
                at most a day.
        """
        seconds = DEFAULT_WINDOW_S
        with self._quality_guard:
            seconds = window_of(window_s)
        if score is None:
            return self._quality.estimates(workflow, seconds, segment=segment, service=service)
        return self._quality.estimate(
            score, workflow, seconds, segment=segment or "", service=service
        )

    def shadow(
        self,
        retriever: Any,
        *,
        rate: float = 0.05,
        name: str | None = None,
        workflow: str | None = None,
        calls_per_hour: int = 1_000,
        judge: Judge | None = None,
    ) -> Shadow:
        """Ask another retriever the questions of some requests, after the answer, and compare both lists.

        In the background, on a thread of its own: a retriever that fails or hangs costs the comparison, and
        nothing else.  Its ``result()`` says *worse* or *nothing seen*, and *better* with a judge alone;
        ``docs/improve.md`` has what words cannot tell.

        Args:
            retriever: A function from question to documents, also an ``async`` one, or a retriever of LangChain
                or LlamaIndex.
            rate: Probability, by a hash of the trace id, that it is asked about a scored request.
            name: What to call it; None: its own name.
            workflow: Only requests of this workflow; None: of all.
            calls_per_hour: Most questions to it.
            judge: Says which chunks of both lists are relevant, in one call a question; none where the lists
                are equal. None: words do.

        Raises:
            ConfigurationError: It is nothing that retrieves, or a number is out of range.
        """
        from ragmeter.metrics.judge.counting import as_judge  # noqa: PLC0415 -- if asked for

        from .watch.shadow import Shadow  # noqa: PLC0415 -- only when wanted

        share = probability("rate", rate)
        made = Shadow(
            retriever,
            name=name,
            chosen=lambda scored: within(
                place("shadow", scored.run.trace_id, str(scored.run.run_id)), share
            ),
            workflow=workflow,
            calls_per_hour=calls_per_hour,
            guard=self.port.guard("meter.shadow"),
            judge=None if judge is None else as_judge(judge),
            redact=self._redact,
        )
        self.port.pipeline.add_shadow(made, made.differences)
        return made

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all that came so far, to span processors too, is scored, judged and exported.

        Returns:
            Whether that came true within `timeout_s` seconds: nothing of it waits any more, and nothing was
            given up for want of time. What an exporter refused for good is counted in `stats` (``dropped``,
            ``export_errors``); what it may take later (`TryLaterError`) waits, and this is False.
        """
        with self._flush_guard:
            drained = self.port.drain(deadline := self._deadline(timeout_s))
            return self.port.pipeline.flush(deadline) and drained
        return False

    def _deadline(self, timeout_s: float) -> float:
        """Return when a time limit is over, on the monotonic clock; nonsense is counted and not used."""
        seconds = self._shutdown_timeout_s
        with self._flush_guard:
            seconds = seconds_of(timeout_s)
        return time.monotonic() + seconds

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Flush, then stop all threads and exporters, within `timeout_s` seconds. Idempotent.

        Requests offered afterwards are dropped and counted; requests not scored by then likewise;
        requests scored but not judged by then are exported without judged scores.
        """
        with self._flush_guard:
            self.port.end_once(self._deadline(timeout_s))

    def __enter__(self) -> RagMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(self._shutdown_timeout_s)

    def __repr__(self) -> str:
        names = ", ".join(metric.name for metric in self._metrics.all)
        return f"<RagMeter metrics=[{names}] sample_rate={self._sampling.rate:g}>"
