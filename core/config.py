"""The meter's settings from the environment: ``RAGMETER_*``, read once when asked.

`RagMeter.from_env` and the zero-code entry points call this.  Where a flag of
``opentelemetry-instrument`` is wanted, every variable is also read under
``OTEL_INSTRUMENTATION_RAGMETER_``.  Nothing here reads a file or changes the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ragmeter.metrics import ConfigurationError

__all__ = ["PREFIX", "Settings", "read_settings", "variable_of"]

PREFIX = "RAGMETER_"
OTEL_PREFIX = "OTEL_INSTRUMENTATION_RAGMETER_"

Rate = Annotated[float, Field(ge=0.0, le=1.0)]


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings):
    """What can be set from outside. The field ``sample_rate`` is ``RAGMETER_SAMPLE_RATE``, and so on."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, env_ignore_empty=True
    )

    enabled: bool = True
    """False: instrumentation entry points do nothing."""
    metrics: Names | None = None
    """Names of metrics, separated by commas; unset: the free ones, and the judged ones with a judge."""
    references: str | None = None
    """Path of a ``.jsonl`` or ``.csv`` file of references."""
    sample_rate: Rate = 1.0
    """Probability that a request is scored."""
    judge_sample_rate: Rate = 1.0
    """Probability that a scored request is judged."""
    scoring: Literal["thread", "process"] = "thread"
    """``process``: score and judge in a worker process, outside the application's interpreter lock."""
    keep: Literal["none", "worst"] = "none"
    """``worst``: failed requests, empty retrievals and the worst scores escape sampling."""
    judge_model: str | None = None
    """Model of the judge; unset: no judge."""
    judge_base_url: str | None = None
    """OpenAI-compatible endpoint of the judge; unset: the client's own default."""
    judge_api_key: SecretStr | None = None
    """Key of the judge's endpoint; unset: ``OPENAI_API_KEY``."""
    judge_calls_per_minute: Annotated[int, Field(gt=0)] | None = None
    """Budget of the judge in calls per minute; unset: none."""
    judge_tokens_per_minute: Annotated[int, Field(gt=0)] | None = None
    """Budget of the judge in tokens per minute; unset: none."""
    judge_cost_per_minute: Annotated[float, Field(gt=0)] | None = None
    """Budget of the judge in money per minute, in the currency of the prices; unset: none."""
    judge_input_price: Annotated[float, Field(ge=0)] | None = None
    """Price of a million tokens sent to the judge."""
    judge_output_price: Annotated[float, Field(ge=0)] | None = None
    """Price of a million tokens written by the judge."""
    judge_cache: str | None = None
    """Path of a SQLite file for the judge's cache; unset: in memory."""
    judge_concurrency: Annotated[int, Field(gt=0, le=1024)] = 16
    """Requests judged at the same time."""
    judge_deadline_s: Annotated[float, Field(gt=0)] = 60.0
    """Seconds after which a request that is not judged gets ``timeout`` scores."""
    fused: bool = False
    """Judge precision, recall and relevancy in one call."""
    hold_s: Annotated[float, Field(ge=0, le=300)] = 5.0
    """Seconds that spans wait for judged scores."""
    queue_size: Annotated[int, Field(gt=0)] = 2048
    """Requests that may wait to be scored."""
    queue_bytes: Annotated[int, Field(gt=0)] = 64 * 1024 * 1024
    """Bytes of text that may wait to be scored."""
    max_text_chars: Annotated[int, Field(gt=0)] = 300_000
    """Characters of one text beyond which the metrics that read it are skipped."""
    shutdown_timeout_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    """Seconds that the exit of the process may be held up."""
    span_mode: Literal["auto", "own", "evaluation", "off"] = "auto"
    """Which spans are written."""
    events: Literal["log", "span_event", "both", "off"] = "log"
    """How score events are written."""
    jsonl: str | None = None
    """Path of a file to which results are also appended."""


def read_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        ConfigurationError: A value is not allowed; names the variable, the value and what is
            allowed.
    """
    names = {field: variable_of(field) for field in Settings.model_fields}
    given: dict[str, Any] = {
        field: os.environ[name] for field, name in names.items() if name.startswith(OTEL_PREFIX)
    }
    try:
        return Settings(**given)
    except ValidationError as error:
        raise ConfigurationError(_explain(error, names)) from error


def variable_of(field: str) -> str:
    """Return the name of the variable that sets `field` here: the short one wins over the flag."""
    variable, flag = PREFIX + field.upper(), OTEL_PREFIX + field.upper()
    return flag if os.environ.get(flag) and not os.environ.get(variable) else variable


def _explain(error: ValidationError, names: Mapping[str, str]) -> str:
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        field = str(problem["loc"][0]) if problem["loc"] else "?"
        shown = "(hidden)" if field == "judge_api_key" else repr(problem["input"])
        lines.append(f"{names.get(field, field)}={shown}: {problem['msg']}")
    return "; ".join(lines)
