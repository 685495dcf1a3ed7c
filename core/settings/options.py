"""Arguments of a `RagMeter`: groups of them as frozen dataclasses, and the checks of all of them.

Each check returns the value or raises `ConfigurationError` with the allowed values. Groups are checked at
construction and only hold values: the meter reads files and starts threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from ragmeter.exporters.change_words import LANGUAGES, Language
from ragmeter.metrics import ConfigurationError, Metric, VerdictRules

if TYPE_CHECKING:
    from ragmeter.metrics.judge.protocol import Judge
    from ragmeter.quality.objectives import Objective

T = TypeVar("T")

PREFIXES = ("RAGMETER_", "OTEL_INSTRUMENTATION_RAGMETER_")
"""Prefixes of environment variables; the first wins."""
FOREVER_S = 1e6
"""Seconds that stand for infinity, which clocks and locks do not accept."""


def one_of(name: str, value: str, *allowed: str) -> str:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        words = " or ".join(repr(word) for word in allowed)
        raise ConfigurationError(f"{name} is {value!r}; it is {words}")
    return value


def at_least(least: float, name: str, value: float) -> float:
    """Return `value` if it is `least` or more."""
    if not _is_number(value) or not value >= least:
        raise ConfigurationError(f"{name} is {value!r}; it must be a number of at least {least:g}")
    return value


def more_than_0(name: str, value: float) -> float:
    """Return `value` if it is positive."""
    if not _is_number(value) or not value > 0:
        raise ConfigurationError(f"{name} is {value!r}; it must be a number greater than 0")
    return value


def probability(name: str, value: float) -> float:
    """Return `value` if it is between 0 and 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name} is {value!r}; it is a probability from 0.0 to 1.0")
    return float(value)


def whole(name: str, value: float) -> int:
    """Return a checked number as an integer."""
    try:
        return int(value)
    except OverflowError:
        raise ConfigurationError(f"{name} is {value!r}; it must be finite") from None


def seconds_of(timeout_s: float) -> float:
    """Return a time limit in seconds, at most `FOREVER_S`.

    Raises:
        ConfigurationError: It is not a number.
    """
    if not _is_number(timeout_s) or math.isnan(timeout_s):
        raise ConfigurationError(f"timeout_s is a {type(timeout_s).__name__}; pass seconds, e.g. timeout_s=10")
    return float(min(max(timeout_s, 0), FOREVER_S))


def window_of(window_s: float) -> float:
    """Return the length of a time window in seconds.

    Raises:
        ConfigurationError: It is not a positive number.
    """
    if not _is_number(window_s) or not window_s > 0:
        raise ConfigurationError(f"window_s is {window_s!r}; pass seconds greater than 0, e.g. window_s=3600")
    return float(min(window_s, FOREVER_S))


def value_of(name: str) -> str:
    """Return the value of a variable, named without its prefix; empty: not set."""
    return next(filter(None, (os.environ.get(prefix + name) for prefix in PREFIXES)), "")


def rules_in_environment(name: str) -> list[str]:
    """Return the rules of a variable, separated by ``;``, as they may contain commas."""
    return [rule.strip() for rule in value_of(name).split(";") if rule.strip()]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def sequence_of(name: str, value: Iterable[T]) -> tuple[T, ...]:
    """Return the items of a list argument."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ConfigurationError(f"{name} is {value!r}; pass a list")
    return tuple(value)


def check_methods(argument: str, given: Sequence[object], *methods: str) -> None:
    """Refuse values of `argument` that lack one of `methods`."""
    for item in given:
        lacks = [name for name in methods if not callable(getattr(item, name, None))]
        if lacks or isinstance(item, type):
            wrong = f"has no method {', '.join(lacks)}" if lacks else "is a class; pass an object"
            raise ConfigurationError(f"{argument}: {item!r} {wrong}")


def check_askable(metrics: Iterable[Metric], judge: Judge | None) -> None:
    """Refuse metrics that need a missing judge or embedder."""
    awaited = tuple(metrics)
    needing = [metric.name for metric in awaited if metric.judged]
    if needing and judge is None:
        raise ConfigurationError(
            f"metrics {', '.join(needing)} ask a judge; pass "
            "judge=OpenAIJudge(model=...) from ragmeter.metrics.judge"
        )
    lacking = [metric.name for metric in awaited if metric.lacks_embedder]
    if lacking:
        raise ConfigurationError(
            f"metrics {', '.join(lacking)} ask an embedder; pass embedder=, e.g. the one of your "
            "vector store, or OpenAIEmbedder(model=...) from ragmeter.metrics.embedder"
        )


def verdict_rules(verdict: VerdictRules | None, labels: str | os.PathLike[str] | None = None) -> VerdictRules:
    """Return the rules of the verdict, with the rates of people's labels, if given."""
    rules = VerdictRules() if verdict is None else verdict
    if not isinstance(rules, VerdictRules):
        raise ConfigurationError(f"verdict is {verdict!r}; pass ragmeter.VerdictRules(...)")
    if labels is None:
        return rules
    from ragmeter.quality.verdict_rates import rated_rules  # noqa: PLC0415 -- only when wanted

    return rated_rules(rules, Path(labels))


@dataclass(frozen=True, kw_only=True)
class Cascade:
    """Runs the detector where the words are undecided, and the judge where the detector is.

    Applies to `span_support` and to all judged scores; the words' score is `support`, or
    `lexical_groundedness`. Without a detector the judge runs where the words are undecided. A missing value,
    as when the detector failed, is undecided.

    Args:
        least: Probability that a decided request continues to the next step nevertheless, above 0.0. Smaller
            ones cost less and widen the intervals: each such request stands for 1 / `least`.
        words: Support from the first up to below the second is undecided.
        detector: The same for `span_support`: by default, answers that are unsupported by more than half, or
            have no unsupported span, are decided.

    Raises:
        ConfigurationError: A number is out of range, or no value would be undecided.
    """

    least: float = 0.1
    words: tuple[float, float] = (0.4, 0.8)
    detector: tuple[float, float] = (0.5, 1.0)

    def __post_init__(self) -> None:
        if not 0.0 < self.least <= 1.0:
            raise ConfigurationError(
                f"Cascade: least is {self.least!r}; it is a probability above 0.0: with none the means "
                "would be those of undecided requests"
            )
        for name, (lower, upper) in (("words", self.words), ("detector", self.detector)):
            if not 0.0 <= lower < upper <= 1.0:
                raise ConfigurationError(
                    f"Cascade: {name} is {(lower, upper)!r}; pass two numbers from 0 to 1, rising"
                )

    def probability(self, value: float | None, undecided: tuple[float, float]) -> float:
        """Return the probability of the next step.

        Args:
            value: Score of the step before; None: missing.
            undecided: Lower and upper end of the undecided range.
        """
        lower, upper = undecided
        return 1.0 if value is None or lower <= value < upper else self.least


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Which requests are scored, and which of these are judged.

    Args:
        rate: Probability, by a hash of the trace id, that a request is scored; `RagMeter(sample_rate=...)` says
            the same.
        judge_rate: Probability that a scored request is judged, too; a judge's budget lowers it. The same as
            `RagMeter(judge_sample_rate=...)`.
        keep: ``"worst"`` scores every request for free, and exports and judges failed requests, empty
            retrievals, ``bad`` verdicts and the worst lexical scores even when they are not sampled.
        cascade: Run judge and detector where a cheaper step is undecided, else with a small probability: a
            `Cascade`, or its `least`.

    Raises:
        ConfigurationError: A value is not allowed.
    """

    rate: float = 1.0
    judge_rate: float = 1.0
    keep: Literal["none", "worst"] = "none"
    cascade: Cascade | float | None = None

    def __post_init__(self) -> None:
        probability("rate", self.rate)
        probability("judge_rate", self.judge_rate)
        one_of("keep", self.keep, "none", "worst")
        if type(self.cascade) in (int, float):
            object.__setattr__(self, "cascade", Cascade(least=float(self.cascade)))  # type: ignore[arg-type]
        elif not (self.cascade is None or isinstance(self.cascade, Cascade)):
            raise ConfigurationError(f"cascade is {self.cascade!r}; pass a Cascade, or a probability")

    def with_rates(self, sample_rate: float, judge_sample_rate: float) -> Sampling:
        """Return a copy with the meter's own rate arguments.

        Raises:
            ConfigurationError: One is not a probability, or set in both places.
        """
        given = {
            "rate": probability("sample_rate", sample_rate),
            "judge_rate": probability("judge_sample_rate", judge_sample_rate),
        }
        named = {name: value for name, value in given.items() if value != 1.0}
        for name in named:
            if getattr(self, name) != 1.0:
                raise ConfigurationError(
                    f"Sampling({name}=...) and an argument of the meter name the same rate; pass one of them"
                )
        return replace(self, **named)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on waiting, memory and concurrency.

    Args:
        hold_s: Seconds that a request's spans wait for judged scores; later ones follow on a linked
            span. Without meaning for ``scoring="queue"``, where spans leave at once.
        queue_size: Most requests that wait to be scored; beyond that, the oldest is dropped and counted.
        queue_bytes: Most bytes of memory for their texts and metadata, estimated.
        max_text_chars: Characters of one text beyond which the metrics that read it are ``skipped``
            (too long): nothing else bounds how long one call holds the interpreter lock.
        judge_concurrency: Requests judged at the same time.
        judge_deadline_s: Seconds after which unjudged metrics score ``timeout``.
        shutdown_timeout_s: Longest delay of the exit of the process, or of the end of a ``with`` block, in
            seconds. None: 10, and at the exit of a process only 1.5 without progress of judge or exporters.
        late_window: Most requests remembered for `RagMeter.attach_reference` and `RagMeter.feedback`; 0:
            none.
        late_window_s: Seconds for which they are remembered.

    Raises:
        ConfigurationError: A number is out of range.
    """

    hold_s: float = 5.0
    queue_size: int = 2048
    queue_bytes: int = 64 * 1024 * 1024
    max_text_chars: int = 300_000
    judge_concurrency: int = 16
    judge_deadline_s: float = 60.0
    shutdown_timeout_s: float | None = None
    late_window: int = 512
    late_window_s: float = 900.0

    def __post_init__(self) -> None:
        at_least(0, "hold_s", self.hold_s)
        if self.shutdown_timeout_s is not None:
            at_least(0, "shutdown_timeout_s", self.shutdown_timeout_s)
        for name in ("judge_deadline_s", "late_window_s"):
            more_than_0(name, getattr(self, name))
        for name in ("queue_size", "queue_bytes", "max_text_chars", "judge_concurrency"):
            object.__setattr__(self, name, whole(name, at_least(1, name, getattr(self, name))))
        late_window = whole("late_window", at_least(0, "late_window", self.late_window))
        object.__setattr__(self, "late_window", late_window)


@dataclass(frozen=True, kw_only=True)
class Alarms:
    """Watch the scores for changes and notify of them; only for a service with one process.

    Each of several processes would see a part and raise its own false alarms; ``ragmeter serve`` sees all.

    Args:
        webhook: URL to post changes to, as JSON that chats can show.
        check: Path of a frozen set of judged requests, written by ``JsonlExporter(path,
            include_content=True)``: they are judged again, without the cache and within the budget, to detect
            drift of the judge.
        check_every_s: Seconds between two rounds, at least 60; the first begins with the first request.
        state: File for the learned baselines, so that a restart does not learn them again.
        page: Address of the page of ``ragmeter serve``, to which posted changes link.
        language: Language of posted changes: ``en``, ``ru`` or ``zh``.

    Raises:
        ConfigurationError: `check_every_s` is too small, or the language unknown.
    """

    webhook: str | None = None
    check: str | os.PathLike[str] | None = None
    check_every_s: float = 604_800.0
    state: str | os.PathLike[str] | None = None
    page: str | None = None
    language: Language = "en"

    def __post_init__(self) -> None:
        at_least(60, "check_every_s", self.check_every_s)
        one_of("language", self.language, *LANGUAGES)


@dataclass(frozen=True)
class Scoring:
    """Where requests are scored, how they are redacted, and which of them count as good.

    Args:
        mode: ``"thread"`` scores on a thread of this process. ``"process"`` scores and judges in ragmeter's own
            worker process, so that it does not hold this process's interpreter lock; metrics, judge and
            embedder must be importable there. See ``docs/production.md``. ``"queue"`` publishes requests where
            ``RAGMETER_QUEUE_URL`` says, to be scored by ``ragmeter worker`` with metrics, judge and exporters
            of its own; the requests' spans are written here, at once. See ``docs/configuration.md``.
        redact: Gets every text before metrics, judge, cache and exporters, and returns the redacted text. If
            it raises, the request is dropped and counted.
        fused: Judge precision, recall, relevancy and what `live_judged` asks in one call; for the
            default and presets only.
        verdict: The rules, with thresholds, by which a request is ``good``, ``suspect`` or ``bad``;
            see ``docs/verdict.md``. None: the default ones.
        labels: File of ``ragmeter label``: from 50 on, verdicts include the share of their word that people
            call bad.
        objectives: Targets of scores, with the share of requests to reach them, e.g.
            ``"shop_qa:faithfulness>=0.8 for 95%"``; see `RagMeter.objective`.

    Raises:
        ConfigurationError: A value is not allowed.
    """

    mode: Literal["thread", "process", "queue"] = "thread"
    redact: Callable[[str], str] | None = None
    fused: bool = False
    verdict: VerdictRules | None = None
    labels: str | os.PathLike[str] | None = None
    objectives: str | Iterable[str | Objective] | None = None

    def __post_init__(self) -> None:
        one_of("scoring", self.mode, "thread", "process", "queue")
        if self.redact is not None and not callable(self.redact):
            raise ConfigurationError(f"redact is {self.redact!r}; pass a function str -> str")
        verdict_rules(self.verdict)


def as_group(name: str, given: object, kind: type[T]) -> T:
    """Return a group argument of the meter; None, True: the default one.

    Raises:
        ConfigurationError: It has another type.
    """
    if given is None or given is True:
        return kind()
    if not isinstance(given, kind):
        raise ConfigurationError(f"{name} is {given!r}; pass ragmeter.{kind.__name__}(...)")
    return given
