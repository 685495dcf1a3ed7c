"""`RagMeter`: the verbs a user calls; what adapters call is `MeterPort`.

What comes in is scored by the `Pipeline`, on worker threads.  Nothing here may raise into, block or slow
the host: only a wrong argument raises, at construction.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from ragmeter.exporters.protocol import Exporter, MeterStats, ObservesMeter, ObservesQuality
from ragmeter.metrics import (
    ConfigurationError,
    Metric,
    RagSample,
    Reference,
    ScoreDirection,
    VerdictRules,
)
from ragmeter.metrics.registry import resolve_metrics

from ._port import MeterPort
from ._quality_verbs import QualityVerbs
from .pipeline._admission import Admission
from .pipeline.cascade import Cascade, as_cascade
from .pipeline.counting import Counting
from .pipeline.late import Amendment, feedback_score, request_key
from .pipeline.line import Limits, Pipeline
from .pipeline.provenance import Marking
from .pipeline.sampling import TailSampling
from .pipeline.scoring import MetricSet, Scoring
from .quality.estimates import Estimate, Estimates
from .quality.no_scores_warning import UnscoredWarning
from .quality.objectives import Objective, Objectives, parse_objectives
from .quality.population import Population
from .quality.segments import Segments
from .quality.sums import QualityTable
from .requests.by_hand import Request, SubmittedSample, request
from .requests.references import as_reference, load_references
from .requests.size import weight_of_sample
from .settings.arguments import (
    PREFIXES,
    at_least,
    check_askable,
    more_than_0,
    one_of,
    probability,
    seconds_of,
    verdict_rules,
    whole,
    window_of,
)
from .settings.destinations import beside, exporters_of

if TYPE_CHECKING:
    from ragmeter.metrics.embedder import Embedder
    from ragmeter.metrics.judge.protocol import Judge

    from .pipeline.judging import Judges
    from .pipeline.process import ScoringProcess
    from .watch.alarming import Alarming
    from .watch.judge_check import JudgeCheck

__all__ = ["RagMeter"]


DEFAULT_WINDOW_S = 3600.0
"""Seconds that an estimate looks back on, unless given."""


def _as_embedder(given: object) -> Embedder:
    from ragmeter.metrics.embedder import as_embedder  # noqa: PLC0415 -- brings asyncio

    return as_embedder(given)


def _default_exporters() -> tuple[str, ...]:
    """Return the names of the exporters where none are chosen in code; settings load only where they do."""
    if not any(os.environ.get(pre + name) for pre in PREFIXES for name in ("CONSOLE", "EXPORTERS")):
        return ("otel",)
    from .settings.config import read_settings  # noqa: PLC0415 -- see above

    settings = read_settings()
    return (settings.exporters or ("otel",)) + (("console",) if settings.console else ())


class RagMeter(MeterPort, QualityVerbs):
    """Scores live RAG requests in the background and hands the scores to exporters.

    Args:
        metrics: A preset: ``"live"``, the few that need no reference, ``"golden"``, those and all that
            read one, or ``"all"``; or names of metrics and presets and `Metric` objects, in order.
            Presets bring judged metrics once a `judge` is given: to ``"live"`` one call, `live_judged`.
            Default: the live ones, and the golden ones for requests that have a reference or, once
            `references` are given, for all.
        judge: Who gives verdicts, e.g. ``ragmeter.metrics.judge.OpenAIJudge(model=...)``.
        embedder: What turns texts into vectors for `semantic_context_relevance`: a LangChain
            ``Embeddings``, a LlamaIndex embedding, a function from texts to vectors, or an
            ``OpenAIEmbedder`` of ``ragmeter.metrics.embedder``. Sampled and asked as the judge is, off the
            request's path. None: no such score.
        references: Path of a ``.jsonl`` or ``.csv`` file, a mapping from question to reference, or a
            callable. A reference that a request brings along wins.
        exporters: Where results go: ``"console"``, one line per request on standard error; ``"otel"``,
            `ragmeter.exporters.otel.OpenTelemetryExporter`, which writes spans, events and metrics through
            the global providers; ``"phoenix"`` or ``"langfuse"``, which bring ``"otel"`` along and whose
            addresses and keys stand in their own variables; or a list of those and of exporters. Default:
            what ``RAGMETER_EXPORTERS`` names, else ``"otel"``, and ``"console"`` where ``RAGMETER_CONSOLE``
            is set.
        sample_rate: Probability, by a hash of the trace id, that a request is scored.
        judge_sample_rate: Probability that a scored request is judged, too; a judge's budget lowers it.
        cascade: Ask judge and detector where something cheaper is undecided, else with a small probability.
        scoring: ``"process"`` scores and judges in ragmeter's own worker process, so that it does not
            hold this process's interpreter lock; metrics, judge and embedder must be importable there. See
            ``docs/production.md``. ``"queue"`` publishes requests where ``RAGMETER_QUEUE_URL`` says, to be
            scored by ``ragmeter worker`` with metrics, judge and exporters of its own; the requests' spans
            are written here, at once. See ``docs/configuration.md``.
        keep: ``"worst"`` scores every request for free, and exports and judges failed requests, empty
            retrievals, ``bad`` verdicts and the worst lexical scores even when they are not sampled.
        verdict: The rules, with thresholds, by which a request is ``good``, ``suspect`` or ``bad``;
            see ``docs/verdict.md``.
        labels: File of ``ragmeter label``: from 50 on, verdicts say which share of their word people call bad.
        segments: Parts of a workflow's requests that have means of quality of their own, too: ``"language"`` of
            the question, ``"retriever"``, what was searched, ``"metadata.tenant"`` or any other name of
            metadata, of the resource's attributes, or of what adapters know; see ``docs/quality.md``.
        fused: Judge precision, recall, relevancy and what `live_judged` asks in one call; for the
            default and presets only.
        hold_s: Seconds that a request's spans wait for judged scores; later ones follow on a linked
            span. Without meaning for ``scoring="queue"``, where spans leave at once.
        queue_size: Requests that may wait to be scored; beyond, the oldest is dropped and counted.
        queue_bytes: Bytes of memory that their texts and metadata may take up, estimated.
        max_text_chars: Characters of one text beyond which the metrics that read it are ``skipped``
            (too long): nothing else bounds how long one call holds the interpreter lock.
        judge_concurrency: Requests judged at the same time.
        judge_deadline_s: Seconds after which unjudged metrics score ``timeout``.
        shutdown_timeout_s: Seconds that the exit of the process, or the end of a ``with`` block, may be
            held up. None: 10, and of the exit of a process only 1.5 in which neither judge nor
            exporters get anything done.
        redact: Sees every text first, before metrics, judge, cache and exporters, and returns what
            they may see. When it raises, the request is dropped and counted.
        late_window: Requests remembered for `attach_reference` and `feedback`; 0: none.
        late_window_s: Seconds for which they are remembered.
        objectives: How good scores are to be and for which share of requests, e.g.
            ``"shop_qa:faithfulness>=0.8 for 95%"``; see `objective`.
        alarms: Watch the scores for changes and tell of them; for the only process of a service. Of
            several, each would see a part and raise false alarms of its own: ``ragmeter serve`` sees all.
        change_webhook: Address that changes are posted to, as JSON that chats show, too.
        judge_check: Path of a frozen set of judged requests, as ``JsonlExporter(path,
            include_content=True)`` wrote them: the judge is asked again, past its cache and inside its budget,
            to see whether it still judges as it did. Needs `alarms`.
        judge_check_every_s: Seconds between two rounds over it; the first begins with the first request.
        alarms_state: File that what is usual is kept in, so that a restart does not learn it again.

    Raises:
        ConfigurationError: An argument is wrong; the message says what is allowed.
    """

    def __init__(
        self,
        metrics: Literal["live", "golden", "all"] | Sequence[str | Metric] | None = None,
        judge: Judge | None = None,
        references: str | os.PathLike[str] | Mapping[str, Any] | Callable[[str], Any] | None = None,
        exporters: Literal["otel", "console", "phoenix", "langfuse"]
        | Sequence[str | Exporter]
        | None = None,
        sample_rate: float = 1.0,
        judge_sample_rate: float = 1.0,
        *,
        embedder: object = None,
        cascade: Cascade | float | None = None,
        scoring: Literal["thread", "process", "queue"] = "thread",
        keep: Literal["none", "worst"] = "none",
        verdict: VerdictRules | None = None,
        labels: str | os.PathLike[str] | None = None,
        segments: Sequence[str] | None = None,
        fused: bool = False,
        hold_s: float = 5.0,
        queue_size: int = 2048,
        queue_bytes: int = 64 * 1024 * 1024,
        max_text_chars: int = 300_000,
        judge_concurrency: int = 16,
        judge_deadline_s: float = 60.0,
        shutdown_timeout_s: float | None = None,
        redact: Callable[[str], str] | None = None,
        late_window: int = 512,
        late_window_s: float = 900.0,
        objectives: str | Iterable[str | Objective] | None = None,
        alarms: bool = False,
        change_webhook: str | None = None,
        judge_check: str | os.PathLike[str] | None = None,
        judge_check_every_s: float = 604_800.0,
        alarms_state: str | os.PathLike[str] | None = None,
    ) -> None:
        one_of("keep", keep, "none", "worst")
        one_of("scoring", scoring, "thread", "process", "queue")
        if scoring == "queue":
            from .settings.queue_exporters import queued_exporters  # noqa: PLC0415 -- only when wanted

            theirs = {
                "metrics": metrics,
                "judge": judge,
                "embedder": embedder,
                "cascade": cascade,
                "alarms": alarms or None,
            }
            exporters = queued_exporters(exporters, theirs, judge_sample_rate=judge_sample_rate)
            metrics = ()
        self._limits = Limits(
            sample_rate=probability("sample_rate", sample_rate),
            judge_sample_rate=probability("judge_sample_rate", judge_sample_rate),
            hold_s=at_least(0, "hold_s", hold_s),
            queue_size=whole("queue_size", more_than_0("queue_size", queue_size)),
            queue_bytes=whole("queue_bytes", more_than_0("queue_bytes", queue_bytes)),
            max_text_chars=whole("max_text_chars", at_least(1, "max_text_chars", max_text_chars)),
            judge_concurrency=whole(
                "judge_concurrency", more_than_0("judge_concurrency", judge_concurrency)
            ),
            judge_deadline_s=more_than_0("judge_deadline_s", judge_deadline_s),
            late_window=whole("late_window", at_least(0, "late_window", late_window)),
            late_window_s=more_than_0("late_window_s", late_window_s),
        )
        if redact is not None and not callable(redact):
            raise ConfigurationError(f"redact is {redact!r}; pass a function str -> str")
        rules = verdict_rules(verdict, labels)
        self._metrics = MetricSet(
            resolve_metrics(
                "golden" if metrics is None else metrics,
                judged=judge is not None,
                fused=fused,
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
        if shutdown_timeout_s is not None:
            shutdown_timeout_s = at_least(0, "shutdown_timeout_s", shutdown_timeout_s)
        self._shutdown_timeout_s = 10.0 if shutdown_timeout_s is None else shutdown_timeout_s
        super().__init__(
            sample_rate=None if keep == "worst" else self._limits.sample_rate,
            shutdown_timeout_s=shutdown_timeout_s,
        )
        self._submit_guard = self.guard("meter.submit")
        self._amend_guard = self.guard("meter.amend")
        self._flush_guard = self.guard("meter.flush")
        self._stats_guard = self.guard("meter.stats")
        self._quality_guard = self.guard("meter.quality")
        self._shutting_down = threading.Lock()
        chosen = exporters_of(_default_exporters() if exporters is None else exporters)
        if judge is not None:
            from ragmeter.metrics.judge.counting import as_judge  # noqa: PLC0415 -- if asked for

            judge = as_judge(judge)
        self._objectives = Objectives(parse_objectives(objectives or ()))
        told_apart = Segments(() if segments is None else segments)
        self._quality = QualityTable(objectives=self._objectives, segments=told_apart)
        self._unscored = UnscoredWarning(
            partial(self._quality.estimates, None, DEFAULT_WINDOW_S, segment="")
        )
        process = self._scoring_process(judge) if scoring == "process" else None
        if not alarms and (change_webhook is not None or alarms_state is not None):
            raise ConfigurationError(
                "change_webhook and alarms_state are for changes; pass alarms=True, too (RAGMETER_ALARMS=true)"
            )
        every_s = at_least(60, "judge_check_every_s", judge_check_every_s)
        check = None if judge_check is None else self._check(judge_check, judge, every_s, alarms)
        self._alarming = (
            self._watch(chosen, change_webhook, check, alarms_state) if alarms else None
        )
        source = load_references(references, self.guard("meter.references"))
        for join in beside:
            with self.guard("meter.beside"):
                chosen = (*chosen, *join(chosen))
        pipeline = Pipeline(
            self._metrics,
            process or self._metrics,
            self._judges(judge, process) if self._metrics.awaited else None,
            Scoring(source, redact, self._counters, self.guard),
            Admission(None if judge is None else judge.budget, self._limits.judge_sample_rate),
            TailSampling() if keep == "worst" else None,
            Counting(
                self._quality,
                Population(self._metrics.awaited, None if judge is None else judge.model),
                self._quality_guard,
                scores_all=keep == "worst",
            ),
            rules,
            chosen,
            self._limits,
            self._counters,
            self._no_data,
            self.guard,
            self._alarming,
            Marking(told_apart, judge, alarms=alarms),
            None if scoring == "queue" else as_cascade(cascade, self._metrics.awaited),
        )
        self._serve(pipeline)
        self._judge_budget = None if judge is None else judge.budget
        if judge is not None:
            judge.subscribe(pipeline.judge_called)
        for exporter in chosen:
            with self.guard("exporter.observe"):  # the application's own meter may refuse
                if isinstance(exporter, ObservesMeter):
                    exporter.observe_meter(self.stats)
                if isinstance(exporter, ObservesQuality):
                    exporter.observe_quality(self._quality.totals)

    def _watch(
        self,
        exporters: Sequence[Exporter],
        webhook: str | None,
        check: JudgeCheck | None,
        state: str | os.PathLike[str] | None,
    ) -> Alarming:
        from .watch.alarming import alarming_of  # noqa: PLC0415 -- only when wanted

        return alarming_of(self._quality.slots, exporters, self.guard, webhook, check, state)

    def _check(
        self, frozen: str | os.PathLike[str], judge: Judge | None, every_s: float, alarms: bool
    ) -> JudgeCheck:
        from .watch.judge_check import judge_check_of  # noqa: PLC0415 -- brings asyncio

        if judge is None or not alarms:
            lacking = (
                "alarms=True (RAGMETER_ALARMS=true)"
                if judge is not None
                else "a judge (RAGMETER_JUDGE_MODEL)"
            )
            raise ConfigurationError(
                f"judge_check is for a judge that is watched; pass {lacking}, too"
            )
        return judge_check_of(
            frozen,
            self._metrics.awaited,
            judge,
            every_s=every_s,
            deadline_s=self._limits.judge_deadline_s,
            guard=self.guard("meter.judge_check"),
        )

    def _scoring_process(self, judge: Judge | None) -> ScoringProcess:
        from .pipeline.process import ScoringProcess  # noqa: PLC0415 -- only when wanted

        return ScoringProcess(
            self._metrics,
            judge,
            log=self._log,
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
            guard=self.guard("meter.judge"),
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
        from .settings.config import meter_arguments  # noqa: PLC0415 -- settings load only when asked

        return cls(**meter_arguments())

    def submit(self, sample: RagSample) -> None:
        """Score a finished sample. It belongs to the span that is current here, if any.

        A sample without a reference gets that of the `ragmeter.reference` block it is in. Never
        blocks, never raises: anything but a sample is counted as lost and logged.
        """
        with self._submit_guard:
            if not isinstance(sample, RagSample):
                self._counters.count_lost("error")
                raise ConfigurationError(
                    f"submit() was given a {type(sample).__name__}; pass a ragmeter.RagSample, e.g. "
                    "RagSample(question=..., contexts=[...], answer=...)"
                )
            self._submit(sample)

    def _submit(self, sample: RagSample) -> None:
        build = SubmittedSample(sample)
        parent = build.parent
        self.offer(
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
            meter=self,
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
            self._pipeline.put(Amendment(request_key(run_or_trace_id), reference=value))

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
            self._pipeline.put(Amendment(request_key(run_or_trace_id), score=score))

    def stats(self) -> MeterStats:
        """Return the meter's own counters as of now."""
        with self._stats_guard:  # it logs, and the host's logging may raise
            self._no_data.check(self._counters.n_captured)
            self._unscored.check()
        budget = self._judge_budget
        return self._counters.snapshot(
            queue_size=self._pipeline.queue_size,
            queue_bytes=self._pipeline.queue_bytes,
            backlog_bytes=self._pipeline.backlog_bytes,
            export_backlog=self._pipeline.export_backlog,
            internal_errors=self._log.counts,
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

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all that came so far, to span processors too, is scored, judged and exported.

        Returns:
            Whether that came true within `timeout_s` seconds: nothing of it waits any more, and nothing was
            given up for want of time. What an exporter refused for good is counted in `stats` (``dropped``,
            ``export_errors``); what it may take later (`TryLaterError`) waits, and this is False.
        """
        with self._flush_guard:
            drained = self._drain(deadline := self._deadline(timeout_s))
            return self._pipeline.flush(deadline) and drained
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
        # Taken for good: a signal handler on top of it must not wait for it.
        if not self._shutting_down.acquire(blocking=False):
            return
        with self._flush_guard:
            self._drain(deadline := self._deadline(timeout_s))
            self._shut_down = True
            self._pipeline.close(deadline)

    def __enter__(self) -> RagMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(self._shutdown_timeout_s)

    def __repr__(self) -> str:
        names = ", ".join(metric.name for metric in self._metrics.all)
        return f"<RagMeter metrics=[{names}] sample_rate={self._limits.sample_rate:g}>"
