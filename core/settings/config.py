"""The settings: one model behind ``RAGMETER_*``, command-line flags and docs.

`from_settings` turns it into a meter's arguments. Every variable also has a name with
``OTEL_INSTRUMENTATION_RAGMETER_``, which makes it a flag of ``opentelemetry-instrument``;
``docs/reference/settings.md`` is generated from it. A meter built in code does not load this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ragmeter.exporters.change_words import Language
from ragmeter.metrics import ConfigurationError, ReferenceFileError, VerdictRules

from .options import PREFIXES

PREFIX, _OTEL_PREFIX = PREFIXES

_OF_COMMANDS = "DEMO_MODEL DOCTOR SERVE_STORE SERVE_TOKEN SERVE_VIEW_TOKEN STARTUP".split()
"""Variables that are no settings: commands read them."""
_WITH_A_MODEL: Mapping[str, tuple[str, ...]] = {
    "judge_model": ("OpenAIJudge", "JudgeBudget", "SharedBudget"),
    "embedding_model": ("OpenAIEmbedder",),
}
"""The settings that name a model, and whose arguments mean nothing without it."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


def _setting(default: Any, argument: str = "", unit: str = "", **bounds: Any) -> Any:
    """Return a field.

    Args:
        default: Its value when the variable is not set.
        argument: The argument it sets; "": that of `RagMeter` with its name; "Limits(": that of `Limits`.
        unit: Unit of the number.
        bounds: Bounds of the number, as pydantic's arguments.
    """
    return Field(default, json_schema_extra={"argument": argument, "unit": unit}, **bounds)


def _threshold(name: str) -> Any:
    """Return the field of a threshold of the verdict."""
    return _setting(getattr(VerdictRules, name), f"VerdictRules({name})", "share", ge=0, le=1)


class Settings(BaseSettings):
    """All settings. The field ``sample_rate`` is ``RAGMETER_SAMPLE_RATE``, and so on."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, env_ignore_empty=True, use_attribute_docstrings=True
    )

    enabled: bool = _setting(True, "instrument()")
    """``false``: instrumentation without code does nothing."""
    retrieval_tools: str | None = _setting(None, "instrument(")
    """Tools whose results are retrieved documents, such as ``search_*:text=body,id=sku``; ``;`` between
    several. Read where code, or a command, names none."""
    retrieval_spans: str | None = _setting(None, "RagMeterSpanProcessor(")
    """The same for spans and, in this process, for runs, workflows' steps and functions."""
    metrics: Names | None = _setting(None)
    """``live``, ``golden`` or ``all``, or names of metrics, separated by commas; unset: ``live``, and
    ``golden`` for requests that have a reference or, with a file of references, for all."""
    references: str | None = _setting(None)
    """Path of a ``.jsonl`` or ``.csv`` file of references."""
    labels: str | None = _setting(None, "Scoring(")
    """Path of labels (``ragmeter label``): from 50 on, the share of each word called bad by people."""
    sample_rate: float = _setting(1.0, unit="probability", ge=0, le=1)
    """Probability that a request is scored."""
    judge_sample_rate: float = _setting(1.0, unit="probability", ge=0, le=1)
    """Probability that a scored request is judged, too."""
    cascade: float | None = _setting(None, "Sampling(", unit="probability", gt=0, le=1)
    """Ask judge and detector only where something cheaper is undecided, and elsewhere with this probability."""
    scoring: Literal["thread", "process", "queue"] = _setting("thread")
    """``process``: score and judge in a worker process, outside the application's interpreter lock. ``queue``:
    publish requests, to be scored by ``ragmeter worker``, which reads metrics, judge and exporters from its own
    settings."""
    queue_url: SecretStr | None = _setting(None, "FleetPublisher(queue)")
    """Where requests are published, and where ``ragmeter worker`` takes them from: ``spool:///dir``, a folder
    that the processes of a machine share, or the address of a broker."""
    queue_batch: int = _setting(32, "FleetPublisher(batch)", unit="requests", gt=0, le=32)
    """Requests in a message, at most."""
    queue_linger_s: float = _setting(0.05, "FleetPublisher(linger_s)", unit="seconds", ge=0, le=60)
    """Rest after a message that was not full, in which the next one fills up."""
    queue_patience_s: float = _setting(300.0, "FleetPublisher(patience_s)", unit="seconds", ge=0)
    """How long a message is tried before its requests are given up, and counted."""
    queue_confirm_s: float = _setting(2.0, "FleetPublisher(confirm_s)", unit="seconds", gt=0, le=60)
    """How long a broker may take to say that a message is safe."""
    queue_spool: str | None = _setting(None, "FleetPublisher(spool)")
    """Path of a folder that keeps messages while the broker is away; unset: they wait in memory."""
    queue_spool_bytes: int = _setting(256 * 1024 * 1024, "FleetPublisher(spool_bytes)", unit="bytes", gt=0)
    """What each publishing process may keep there, or in the folder of a ``spool:///dir``."""
    worker_processes: int | None = _setting(None, "ragmeter worker", unit="processes", gt=0, le=256)
    """Processes of ``ragmeter worker``; unset: as many as cores."""
    worker_limit_s: float = _setting(300.0, "ragmeter worker", unit="seconds", gt=0, le=1500)
    """How long a worker may take over a message; then what hangs is ended with its process, and the message is
    tried again, in the end one request at a time."""
    worker_dedupe_url: SecretStr | None = _setting(None, "ragmeter worker")
    """Address of a Redis in which workers mark what is done, so that a message that comes twice is not scored
    twice; unset: it is."""
    keep: Literal["none", "worst"] = _setting("none", "Sampling(")
    """``worst``: failed requests, empty retrievals, bad verdicts and the worst scores escape sampling."""
    segments: Names | None = _setting(None)
    """Parts of the requests that have means of quality of their own: ``language``, ``retriever``, names of
    metadata, separated by commas; unset: none."""
    fused: bool = _setting(False, "Scoring(")
    """Judge precision, recall, relevancy and what live requests are asked in one call."""
    hold_s: float = _setting(5.0, "Limits(", unit="seconds", ge=0, le=300)
    """How long spans wait for judged scores; later ones follow on a linked span."""
    queue_size: int = _setting(2048, "Limits(", unit="requests", gt=0)
    """Requests that may wait to be scored; beyond, the oldest is dropped and counted."""
    queue_bytes: int = _setting(64 * 1024 * 1024, "Limits(", unit="bytes", gt=0)
    """Memory that the texts and metadata of waiting requests may take up, estimated."""
    max_text_chars: int = _setting(300_000, "Limits(", unit="characters", gt=0)
    """Length of one text beyond which the metrics that read it are skipped."""
    judge_concurrency: int = _setting(16, "Limits(", unit="requests", gt=0, le=1024)
    """Requests judged at the same time; of a judge made from settings, its calls on the wire, too."""
    judge_deadline_s: float = _setting(60.0, "Limits(", unit="seconds", gt=0)
    """Time after which a request that is not judged gets ``timeout`` scores."""
    shutdown_timeout_s: float | None = _setting(None, "Limits(", unit="seconds", ge=0, le=600)
    """How long the exit of the process may be held up; unset: 10, of which only 1.5 may pass without the
    judge or an exporter getting anything done."""
    late_window: int = _setting(512, "Limits(", unit="requests", ge=0)
    """Requests remembered for ``attach_reference`` and ``feedback``; 0: none."""
    late_window_s: float = _setting(900.0, "Limits(", unit="seconds", gt=0)
    """How long they are remembered."""
    objectives: str | None = _setting(None, "Scoring(")
    """How good scores are to be and for which share of requests, such as ``shop_qa:faithfulness>=0.8 for 95%``;
    ``;`` between several."""
    alarms: bool = _setting(False)
    """Watch the scores for changes and announce them; for the only process of a service. ``ragmeter serve``
    does so anyway."""
    change_webhook: SecretStr | None = _setting(None, "Alarms(webhook)")
    """Address that changes are posted to, as JSON that chats show, too."""
    judge_check: str | None = _setting(None, "Alarms(check)")
    """Path of a frozen set of judged requests: the judge is asked again, to see whether it still judges
    as it did. Needs ``RAGMETER_ALARMS``, except in ``ragmeter serve``."""
    judge_check_every_s: float = _setting(604_800.0, "Alarms(check_every_s)", unit="seconds", ge=60)
    """Time between two rounds over it; the first begins with the first request."""
    page_url: str | None = _setting(None, "Alarms(page)")
    """Address of the page of ``ragmeter serve``: what is posted links to the requests there."""
    language: Language = _setting("en", "Alarms(language)")
    """Language of what is posted."""
    alarms_state: str | None = _setting(None, "Alarms(state)")
    """Path of a file that what is usual is kept in, so that a restart does not learn it again."""
    verdict_unsupported_below: float = _threshold("unsupported_below")
    """Support below which an answer is unsupported, and the verdict ``bad``."""
    verdict_partly_unsupported_below: float = _threshold("partly_unsupported_below")
    """Support below which it is partly unsupported, and the verdict ``suspect``."""
    verdict_off_topic_below: float = _threshold("off_topic_below")
    """Relevance below which the retrieved chunks are off topic, and the verdict ``suspect``."""
    verdict_on_topic_from: float = _threshold("on_topic_from")
    """Relevance from which a refusal is one that had context."""
    verdict_right_documents_missing_from: float = _threshold("right_documents_missing_from")
    """Share of right documents that did not reach the model from which the verdict is ``suspect``."""
    judge_model: str | None = _setting(None, "OpenAIJudge(model)")
    """Model of the judge; unset: no judge."""
    judge_base_url: str | None = _setting(None, "OpenAIJudge(base_url)")
    """OpenAI-compatible endpoint of the judge; unset: the client's own default."""
    judge_api_key: SecretStr | None = _setting(None, "OpenAIJudge(api_key)")
    """Key of the judge's endpoint; unset: ``OPENAI_API_KEY``."""
    judge_cache: str | None = _setting(None, "OpenAIJudge(cache)")
    """Path of a SQLite file for the judge's cache; unset: in memory, or in the Redis that is shared."""
    judge_shared_url: SecretStr | None = _setting(None, "SharedBudget(url)")
    """Redis in which all processes share the judge's limits and, without a file for it, its cache:
    ``redis://``, ``rediss://`` or ``unix://``; unset: each has its own. Needs the extra ``redis``."""
    judge_shared_name: str = _setting("default", "SharedBudget(name)")
    """Processes that give the same name share one budget."""
    judge_budget_share: float = _setting(0.125, "SharedBudget(share)", "share", ge=0, le=1)
    """Share of each limit that a process grants itself while that Redis is away: 1 divided by the number of
    processes."""
    judge_calls_per_minute: int | None = _setting(None, "JudgeBudget(calls_per_minute)", "calls", gt=0)
    """Most calls in any sixty seconds; unset: no limit."""
    judge_tokens_per_minute: int | None = _setting(None, "JudgeBudget(tokens_per_minute)", "tokens", gt=0)
    """Most tokens, of prompts and replies, in any sixty seconds; unset: no limit."""
    judge_cost_per_minute: float | None = _setting(None, "JudgeBudget(cost_per_minute)", "money", gt=0)
    """Most money in any sixty seconds, in the currency of the prices; unset: no limit."""
    judge_max_cost: float | None = _setting(None, "JudgeBudget(max_cost)", "money", gt=0)
    """Stop judging for good once this much was spent; unset: no limit."""
    judge_input_price: float | None = _setting(None, "JudgeBudget(input_price)", "money", ge=0)
    """Price of a million prompt tokens."""
    judge_output_price: float | None = _setting(None, "JudgeBudget(output_price)", "money", ge=0)
    """Price of a million tokens written by the judge."""
    judge_cached_input_price: float | None = _setting(None, "JudgeBudget(cached_input_price)", "money", ge=0)
    """Price of a million prompt tokens from the endpoint's own cache; unset: as the others."""
    embedding_model: str | None = _setting(None, "OpenAIEmbedder(model)")
    """Model of the embedder for semantic metrics; unset: no embedder."""
    embedding_base_url: str | None = _setting(None, "OpenAIEmbedder(base_url)")
    """OpenAI-compatible endpoint with ``/embeddings``; unset: the client's own default."""
    embedding_api_key: SecretStr | None = _setting(None, "OpenAIEmbedder(api_key)")
    """Key of the embedder's endpoint; unset: ``OPENAI_API_KEY``."""
    embedding_query_prefix: str = _setting("", "OpenAIEmbedder(query_prefix)")
    """Put before every question, if the model wants it, such as ``query: `` for e5."""
    embedding_passage_prefix: str = _setting("", "OpenAIEmbedder(passage_prefix)")
    """Put before every chunk, likewise, such as ``passage: ``."""
    embedding_calls_per_minute: int | None = _setting(None, "OpenAIEmbedder(budget)", "calls", gt=0)
    """Most calls to the embedder in any sixty seconds; unset: no limit."""
    embedding_tokens_per_minute: int | None = _setting(None, "OpenAIEmbedder(budget)", "tokens", gt=0)
    """Most tokens, estimated, in any sixty seconds; unset: no limit."""
    span_mode: Literal["auto", "own", "evaluation", "off"] = _setting(
        "auto", "OpenTelemetryExporter(span_mode)"
    )
    """Which spans are written."""
    events: Literal["log", "span_event", "both", "off"] = _setting("log", "OpenTelemetryExporter(events)")
    """How score events are written."""
    exporters: Names | None = _setting(None)
    """Where results go: ``otel``, ``console``, ``phoenix``, ``langfuse``, ``gaps``, separated by commas; unset:
    ``otel``. The backends' addresses and keys stand in their own variables. `RagMeter()` reads it, too."""
    console: bool = _setting(False, "ConsoleExporter()")
    """One line per request on standard error, too. Also read by a `RagMeter` that is given no exporters."""
    trace_url: str | None = _setting(None, "ConsoleExporter(trace_url)")
    """Where a trace is shown, with ``{trace_id}`` in it: the link at the end of each line on the console."""
    jsonl: str | None = _setting(None, "JsonlExporter(path)")
    """Path of a file to which results are also appended."""

    @property
    def writes_elsewhere(self) -> bool:
        """Whether results go to other places than the process's OpenTelemetry SDK."""
        named = set(self.exporters or ()) - {"otel"}
        return bool(named or self.console or self.jsonl is not None)


def _is_secret(field: str) -> bool:
    info = Settings.model_fields.get(field)
    return info is not None and info.annotation == (SecretStr | None)


# OpenTelemetry's launcher loads this module by the entry-point group ``opentelemetry_environment_variables``
# and makes a flag of every name that begins with OTEL_. Secrets get none: other users of the machine can see
# a command line.
globals().update(
    {
        name: name
        for name in (_OTEL_PREFIX + field.upper() for field in Settings.model_fields if not _is_secret(field))
    }
)


def read_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        ConfigurationError: A value is not allowed; names the variable, the value and the allowed values.
    """
    names = {field: variable_of(field) for field in Settings.model_fields}
    given: dict[str, Any] = {
        field: os.environ[name] for field, name in names.items() if name.startswith(_OTEL_PREFIX)
    }
    try:
        return Settings(**given)
    except ValidationError as error:
        raise ConfigurationError(_explain(error, names)) from error


def variable_of(field: str) -> str:
    """Return the variable that sets `field`: the short one wins over the flag."""
    variable, flag = PREFIX + field.upper(), _OTEL_PREFIX + field.upper()
    return flag if os.environ.get(flag) and not os.environ.get(variable) else variable


def argument_of(field: str) -> str:
    """Return the argument that a field sets, as in code: ``sample_rate``, ``JudgeBudget(max_cost)``."""
    argument = str(_extra(field)["argument"] or field)
    return f"{argument}{field})" if argument.endswith("(") else argument


def unit_of(field: str) -> str:
    """Return the unit of a field's number; "" for other types."""
    return str(_extra(field)["unit"])


def _extra(field: str) -> Mapping[str, Any]:
    extra = Settings.model_fields[field].json_schema_extra
    return extra if isinstance(extra, dict) else {}


def fields_of(kind: str) -> list[str]:
    """Return the fields that set arguments of a class."""
    return [field for field in Settings.model_fields if argument_of(field).startswith(f"{kind}(")]


@contextmanager
def naming(*fields: str, hidden: bool = False) -> Iterator[None]:
    """Name the variables that are set, and their values, in errors of the block; `hidden`: no values."""
    try:
        yield
    except (ConfigurationError, ReferenceFileError) as error:
        given = [name for name in map(variable_of, fields) if os.environ.get(name)]
        shown = ", ".join(name if hidden else f"{name}={os.environ[name]!r}" for name in given)
        raise ConfigurationError(f"{shown}: {error}" if shown else str(error)) from error


def without_effect(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield each variable that is set and changes nothing, why, and what to do."""
    known = [*map(str.upper, Settings.model_fields), *_OF_COMMANDS]
    for name in sorted(os.environ):
        bare = name.removeprefix(PREFIX)
        if bare != name and bare not in known and not bare.startswith("TEST_"):
            close = get_close_matches(bare, known, 1)
            fix = f"did you mean {PREFIX}{close[0]}?" if close else "check its spelling, or unset it"
            yield name, "no such setting: it has no effect", fix
    for model, kinds in _WITH_A_MODEL.items():
        lone = [one for kind in kinds for one in fields_of(kind) if one in settings.model_fields_set]
        if lone and getattr(settings, model) is None:
            yield ", ".join(map(variable_of, lone)), "without effect", f"set {variable_of(model)}, too"


def _explain(error: ValidationError, names: Mapping[str, str]) -> str:
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        field = str(problem["loc"][0]) if problem["loc"] else "?"
        shown = "(hidden)" if _is_secret(field) else repr(problem["input"])
        allowed = _ALLOWED.get(problem["type"])  # our own checks have a message of their own
        said = problem["msg"] if allowed is None else allowed.format_map(problem.get("ctx", {}))
        lines.append(f"{names.get(field, field)}={shown}: {said}")
    return "; ".join(lines)


_ALLOWED = {
    "bool_parsing": "write true or false",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_parsing": "write a number",
    "finite_number": "write a number",
    "greater_than": "write a number above {gt:g}",
    "greater_than_equal": "write a number of at least {ge:g}",
    "less_than": "write a number below {lt:g}",
    "less_than_equal": "write a number of at most {le:g}",
    "literal_error": "write {expected}",
}
