"""What `OpenAIJudge` checks and makes of its arguments: what is wrong shows when it is built.

Every error names the fix and quotes no secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError

from ._addresses import Address
from ._transport import Caller
from .cache import JudgeCache

__all__ = [
    "address_of",
    "cache_from",
    "check_client",
    "check_numbers",
    "checked_body",
    "identity",
    "require_openai",
]


def require_openai() -> None:
    """Raise unless the package ``openai`` is there."""
    try:
        import openai  # noqa: F401, PLC0415 -- optional dependency, looked for when it is needed
    except ImportError as error:
        raise MissingDependencyError(error.name or "openai", "judge", "OpenAIJudge") from error


def check_client(caller: Caller) -> None:
    """Make a client once: what is missing shows now, not on every score.

    Raises:
        MissingDependencyError: A module that the client needs is missing.
        ConfigurationError: The address, the key, a header or a proxy in the environment is unusable.
    """
    try:
        caller.client()
    except ImportError as error:
        if error.name is None:
            # Such as "Using SOCKS proxy, but the 'socksio' package is not installed": theirs says it.
            raise ConfigurationError(f"the judge's client cannot be made: {error}") from error
        raise MissingDependencyError(error.name, "judge", "OpenAIJudge") from error
    except ValueError as error:
        # Not its message, nor itself as the cause: it may quote the key.
        raise ConfigurationError(
            f"the judge's client cannot be made ({type(error).__name__}): check base_url, api_key, "
            "headers, and the proxy variables of the environment"
        ) from None


def check_numbers(
    model: str, timeout_s: float, max_retries: int, concurrency: int, max_output_tokens: int | None
) -> None:
    """Raise `ConfigurationError` for a number out of range, or a model without a name."""
    if not model:
        raise ConfigurationError("model is empty; pass the judge's model, e.g. 'gpt-4o-mini'")
    if not timeout_s > 0:
        raise ConfigurationError(f"timeout_s is {timeout_s!r}; pass seconds above 0")
    if max_retries < 0:
        raise ConfigurationError(f"max_retries is {max_retries!r}; pass 0 or more")
    if concurrency < 1:
        raise ConfigurationError(f"concurrency is {concurrency!r}; pass 1 or more")
    if max_output_tokens is not None and max_output_tokens < 1:
        raise ConfigurationError(
            f"max_output_tokens is {max_output_tokens!r}; pass 1 or more, or None"
        )


def address_of(base_url: str) -> Address:
    """Take an address apart, or say what one looks like."""
    try:
        return Address.of(base_url)
    except ValueError:
        # Not itself as the cause: it may quote a password.
        raise ConfigurationError(
            "base_url is no address; pass e.g. 'http://localhost:8000/v1'"
        ) from None


def identity(model: str, address: Address | None, extra: Mapping[str, Any]) -> str:
    """Return what tells apart judges that may answer differently, for the cache's keys."""
    said = f"{model}\n{'' if address is None else address.without_secrets}"
    return f"{said}\n{json.dumps(extra, sort_keys=True)}" if extra else said


_NOT_EXTRA = {
    "model": "pass it as model=",
    "messages": "metrics write them",
    "stream": "replies are read whole",
}


def checked_body(extra_body: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of `extra_body` that nobody changes any more."""
    if not extra_body:
        return {}
    for name, reason in _NOT_EXTRA.items():
        if name in extra_body:
            raise ConfigurationError(f"extra_body must not have {name!r}: {reason}")
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(extra_body), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "extra_body is not a mapping of what JSON can say; pass e.g. {'enable_thinking': False}"
        ) from error
    return copy


def cache_from(cache: str | os.PathLike[str] | bool) -> JudgeCache | None:
    """Return the cache that the argument ``cache`` asks for."""
    if isinstance(cache, bool):
        return JudgeCache() if cache else None
    return JudgeCache(path=cache)
