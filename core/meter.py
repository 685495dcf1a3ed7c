"""`RagMeter`, the class that users call; adapters call its `port`, a `MeterPort`.

The `Pipeline` scores requests on worker threads. Nothing here may raise into, block or slow the host: only
invalid arguments raise, at construction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from ragmeter.exporters.protocol import Exporter, MeterStats, ObservesLists, ObservesMeter, ObservesQuality
from ragmeter.metrics import ConfigurationError, Metric, RagSample, Reference, ScoreDirection
from ragmeter.metrics.registry import resolve_metrics

from . import _port
from ._port import MeterPort
from ._quality_verbs import QualityVerbs
from .pipeline._admission import Admission
from .pipeline.counting import Counting
from .pipeline.late import Amendment, feedback_score, request_key
from .pipeline.pipeline import Pipeline
from .pipeline.sampling import Candidate, check_cascade
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
from .settings.beside import beside
from .settings.destinations import exporters_of
from .settings.options import (
    Alarms,
    Limits,
    Sampling,
    Scoring,
    as_group,
    check_askable,
    probability,
    seconds_of,
    value_of,
    verdict_rules,
    window_of,
)

if TYPE_CHECKING:
    from ragmeter.metrics.embedder import Embedder
    from ragmeter.metrics.judge.protocol import Judge

    from .pipeline.judging import Judges
    from .pipeline.process import ScoringProcess
    from .watch.alarming import Alarming
    from .watch.judge_check import JudgeCheck
    from .watch.shadow import Shadow

DEFAULT_WINDOW_S = 3600.0
"""Default window of an estimate in seconds."""


def _as_embedder(given: object) -> Embedder:
    from ragmeter.metrics.embedder import as_embedder  # noqa: PLC0415 -- brings asyncio

    return as_embedder(given)


def _with_detector(metrics: str | Sequence[str | Metric], detector: object) -> str | Sequence[str | Metric]:
    if detector is None:
        return metrics
    from ragmeter.metrics.detector import SpanSupport  # noqa: PLC0415 -- brings asyncio

    return (*([metrics] if isinstance(metrics, str) else metrics), SpanSupport(detector))


def _default_exporters() -> tuple[str, ...]:
    """Return the default exporters; settings are loaded only if a variable is set."""
    if not (value_of("CONSOLE") or value_of("EXPORTERS")):
        return ("otel",)
    from .settings.config import read_settings  # noqa: PLC0415 -- see above

    settings = read_settings()
    return (settings.exporters or ("otel",)) + (("console",) if settings.console else ())


class RagMeter(QualityVerbs):
    """Scores live RAG requests in the background and passes the scores to exporters.

    Args:
        metrics: A preset: ``"live"`` (few metrics, without a reference), ``"golden"`` (also all that read a
            reference) or ``"all"``; or names of metrics and presets and `Metric` objects, in order. With a
            `judge`, presets include judged metrics: ``"live"`` one call, `live_judged`. Default: ``"live"``,
            and ``"golden"`` for requests with a reference or, if `references` is set, for all.
        judge: The judge, e.g. ``ragmeter.metrics.judge.OpenAIJudge(model=...)``.
        references: Path of a ``.jsonl`` or ``.csv`` file, a mapping from question to reference, or a
            callable. A request's own reference wins.
        exporters: Where results go: ``"console"``, one line per request on standard error; ``"otel"``,
            `ragmeter.exporters.otel.OpenTelemetryExporter`, which writes spans, events and metrics through
            the global providers; ``"phoenix"`` or ``"langfuse"``, which include ``"otel"`` and read addresses
            and keys from their own variables; ``"gaps"`` and ``"conversations"``, which store what `gaps` and
            `conversations` list; or a list of names and exporters. Default: those in ``RAGMETER_EXPORTERS``,
            else ``"otel"``, and ``"console"`` if ``RAGMETER_CONSOLE`` is set.
        sample_rate: Probability, by a hash of the trace id, that a request is scored.
        judge_sample_rate: Probability that a scored request is judged, too; a judge's budget lowers it.
        embedder: Embeds texts for `semantic_context_relevance`: a LangChain ``Embeddings``, a LlamaIndex
            embedding, a function from texts to vectors, or an ``OpenAIEmbedder`` of
            ``ragmeter.metrics.embedder``. Sampled and called as the judge is, off the request's path. None:
            no such score.
        detector: Finds unsupported spans in an answer, for `span_support`: a function of question, contexts
            and answer, an ``HttpSpanDetector`` or an ``OnnxSpanDetector`` of
            ``ragmeter.metrics.detector``.
        segments: Parts of a workflow's requests with their own means of quality: ``"language"`` of the
            question, ``"retriever"`` (what was searched), ``"metadata.tenant"`` or any other name of
            metadata, resource attributes, or adapters' metadata; see ``docs/quality.md``.
        scoring: Where requests are scored, ``"thread"``, ``"process"`` or ``"queue"``; or a `Scoring`, also
            with redaction, verdict rules and objectives.
        sampling: Which bad requests bypass `sample_rate`, and which skip the judge: `Sampling`.
        limits: Limits on waiting, memory and concurrency: `Limits`.
        alarms: Watch the scores for changes and notify of them; an `Alarms` configures it.

    Raises:
        ConfigurationError: An argument is invalid; the message names the allowed values.
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
        chances = as_group("sampling", sampling, Sampling).with_rates(sample_rate, judge_sample_rate)
        self._sampling, self._limits, self._labels = (chances, as_group("limits", limits, Limits), how.labels)
        watched = as_group("alarms", alarms or None, Alarms) if alarms else None
        if how.mode == "queue":
            from .settings.from_settings import queued_exporters  # noqa: PLC0415 -- only when wanted

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
            sample_rate=None if chances.keep == "worst" else chances.rate, shutdown_timeout_s=patience
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
        by_segment = Segments(() if segments is None else segments)
        self._quality = QualityTable(objectives=self._objectives, segments=by_segment)
        self._unscored = UnscoredWarning(partial(self._quality.estimates, None, DEFAULT_WINDOW_S, segment=""))
        process = self._scoring_process(judge) if how.mode == "process" else None
        self._alarming = None if watched is None else self._watch(watched, chosen, judge)
        source = load_references(references, port.guard("meter.references"))
        for join in beside:
            with port.guard("meter.beside"):
                chosen = (*chosen, *join(chosen))
        pipeline = Pipeline(
            metrics=self._metrics,
            process=process,
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
            segments=by_segment,
            judge=judge,
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
            with port.guard("exporter.observe"):  # the application's OpenTelemetry meter may raise
                if isinstance(exporter, ObservesMeter):
                    exporter.observe_meter(self.stats)
                if isinstance(exporter, ObservesQuality):
                    exporter.observe_quality(self._quality.totals)
                if isinstance(exporter, ObservesLists):
                    self._publish_lists(exporter)

    def _watch(self, alarms: Alarms, exporters: Sequence[Exporter], judge: Judge | None) -> Alarming:
        from .watch.alarming import Alarming  # noqa: PLC0415 -- only when wanted
        from .watch.watch import Watch  # noqa: PLC0415 -- likewise

        check = None if alarms.check is None else self._check(alarms.check, alarms.check_every_s, judge)
        watch = Watch(check=check)
        return Alarming(watch, self._quality.slots, exporters, self.port.guard, alarms, check)

    def _check(self, frozen: str | os.PathLike[str], every_s: float, judge: Judge | None) -> JudgeCheck:
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
        """Score a finished sample, linked to the current span, if any.

        A sample without a reference gets that of the surrounding `ragmeter.reference` block. Never blocks,
        never raises: anything but a sample is counted as lost and logged.
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
            question: The user's question.
            reference: The expected answer and contexts: a `Reference`, its fields, or the answer.
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
        """Add a reference to a request after it was scored.

        The metrics that need a reference run again and their scores are exported as late ones. Never blocks,
        never raises; a request that is no longer remembered is counted in ``stats().amendments``.

        Args:
            run_or_trace_id: The run id, or the trace id as a number or 32 hexadecimal digits.
            reference: The reference, its fields, or just the answer.
        """
        with self._amend_guard:
            value = as_reference(reference, "attach_reference")
            self.port.pipeline.put(Amendment(request_key(run_or_trace_id), reference=value), 0)

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
        """Add a user's feedback to a request. Never blocks, never raises.

        Args:
            run_or_trace_id: The run id, or the trace id as a number or 32 hexadecimal digits.
            name: Name of the score, snake case, e.g. ``thumbs_up``.
            value: The score; only values from 0.0 to 1.0 appear in the score histogram.
            label: A low-cardinality word for it.
            explanation: A comment. Content: exported only if content capture is on.
            direction: Which way is better.
        """
        with self._amend_guard:
            score = feedback_score(name, value, label, explanation, direction)
            self.port.pipeline.put(Amendment(request_key(run_or_trace_id), score=score), 0)

    def stats(self) -> MeterStats:
        """Return the meter's own counters."""
        with self._stats_guard:  # the host's logging may raise
            self.port.no_data.check(self.port.counters.n_captured)
            self._unscored.check()
        budget = self._judge_budget
        others = replace(
            self.port.pipeline.backlog(),
            internal_errors=self.port.log.counts,
            judge_budget_local=0 if budget is None else budget.granted_alone,
        )
        return self.port.counters.snapshot(others)

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
        """Return the mean of a score over a recent window, with its 95 % interval.

        Judged scores of a sample estimate all requests: see `docs/quality.md` for what may be concluded.
        Covers only requests of this process. Never raises; an invalid window is counted as an internal error
        and not used. The result prints as a table.

        Args:
            score: Name of the score; None: all, by score, workflow and segment.
            workflow: Name of the chain, engine or workflow; None: all, together if `score` is named.
            segment: A segment, e.g. ``"language:zh"``; empty: all requests; None: all requests and, unless
                `score` is named, also each segment.
            service: ``service.name`` of requests of other processes; None: all, together.
            window_s: Seconds, rounded up to whole five minutes and, beyond three hours, to whole hours;
                at most a day.
        """
        seconds = DEFAULT_WINDOW_S
        with self._quality_guard:
            seconds = window_of(window_s)
        if score is None:
            return self._quality.estimates(workflow, seconds, segment=segment, service=service)
        return self._quality.estimate(score, workflow, seconds, segment=segment or "", service=service)

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
        """Run another retriever on the questions of some requests, after the answer, and compare both lists.

        In the background, on a separate thread: a retriever that fails or hangs affects only the comparison.
        Its ``result()`` says *worse* or *nothing seen*, and *better* only with a judge; ``docs/improve.md``
        has the limits of words.

        Args:
            retriever: A function from question to documents, also an ``async`` one, or a retriever of LangChain
                or LlamaIndex.
            rate: Probability, by a hash of the trace id, that it runs for a scored request.
            name: Its name; None: that of the function or class.
            workflow: Only requests of this workflow; None: all.
            calls_per_hour: Most calls of it.
            judge: Judges the relevance of the chunks of both lists, in one call per question; none if the
                lists are equal. None: words decide.

        Raises:
            ConfigurationError: `retriever` cannot retrieve, or a number is out of range.
        """
        from ragmeter.metrics.judge.counting import as_judge  # noqa: PLC0415 -- if asked for

        from .watch.shadow import Shadow  # noqa: PLC0415 -- only when wanted

        share = probability("rate", rate)
        made = Shadow(
            retriever,
            name=name,
            chosen=lambda scored: Candidate(scored.run.run_id, scored.run.trace_id).within("shadow", share),
            workflow=workflow,
            calls_per_hour=calls_per_hour,
            guard=self.port.guard("meter.shadow"),
            judge=None if judge is None else as_judge(judge),
            redact=self._redact,
        )
        self.port.pipeline.add_shadow(made, made.differences)
        return made

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all requests so far, also those in span processors, are scored, judged and exported.

        Returns:
            Whether this finished within `timeout_s` seconds, without giving up any for lack of time. Requests
            that an exporter refused for good are counted in `stats` (``dropped``, ``export_errors``); those
            that it may accept later (`TryLaterError`) wait, and this is False.
        """
        with self._flush_guard:
            drained = self.port.drain(deadline := self._deadline(timeout_s))
            return self.port.pipeline.flush(deadline) and drained
        return False

    def _deadline(self, timeout_s: float) -> float:
        """Return the end of a time limit on the monotonic clock; an invalid one is counted and not used."""
        seconds = self._shutdown_timeout_s
        with self._flush_guard:
            seconds = seconds_of(timeout_s)
        return time.monotonic() + seconds

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Flush, then stop all threads and exporters, within `timeout_s` seconds. Idempotent.

        Requests offered afterwards, or not scored by then, are dropped and counted; scored requests are
        exported without missing judged scores.
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
