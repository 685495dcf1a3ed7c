"""A user's arguments for an endpoint: completed from the environment, checked, and kept secret."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from ragmeter.metrics.errors import ConfigurationError, MissingDependencyError

from .address import Address
from .wires import Caller

T = TypeVar("T")

_NOT_EXTRA = {
    "model": "pass it as model=",
    "messages": "metrics write them",
    "stream": "replies are read whole",
}


def connect(
    whose: Literal["judge", "embedder", "detector"],
    base_url: str | None,
    api_key: str | None,
    headers: Mapping[str, str] | None,
    api_version: str | None = None,
) -> Caller:
    """Return the caller of the endpoint; makes a client at once, so that errors are raised early.

    `OpenAIJudge` describes the arguments.

    Raises:
        MissingDependencyError: The package ``openai``, or one it needs, is not installed.
        ConfigurationError: There is neither key nor address; or the address, the key, a header or a
            proxy in the environment is unusable.
    """
    try:
        import openai  # noqa: F401, PLC0415 -- optional dependency, looked for when it is needed
    except ImportError as error:
        raise _missing_dependency(error.name or "openai", whose) from error
    base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
    if key is None:
        raise ConfigurationError(
            f"the {whose} has no key: pass api_key=, set OPENAI_API_KEY, or pass the base_url= of "
            "an endpoint that needs none"
        )
    address = None if base_url is None else Address.of(base_url)
    if api_version is not None and address is None:
        raise ConfigurationError("api_version is for Azure: pass the resource's address as base_url=")
    caller = Caller(address, key, api_version, dict(headers or {}))
    try:
        caller.client()
    except ImportError as error:
        if error.name is None:
            # For example "Using SOCKS proxy, but the 'socksio' package is not installed": the library's
            # message is enough.
            raise ConfigurationError(f"the {whose}'s client cannot be made: {error}") from error
        raise _missing_dependency(error.name, whose) from error
    except ValueError as error:
        # Neither its message nor itself as the cause: it may quote the key.
        raise ConfigurationError(
            f"the {whose}'s client cannot be made ({type(error).__name__}): check base_url, api_key, "
            "headers, and the proxy variables of the environment"
        ) from None
    return caller


def _missing_dependency(package: str, whose: str) -> MissingDependencyError:
    return MissingDependencyError(package, "judge", f"OpenAI{whose.title()}")


def extra_fields(extra_body: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of `extra_body`, which the caller cannot change later.

    Raises:
        ConfigurationError: It has a field that another argument sets, or a value that is not JSON.
    """
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


def made_again(kind: type[T], settings: dict[str, Any]) -> T:
    """Rebuild a pickled `kind`: the secrets of its address come from the environment, if they are there."""
    base_url = os.environ.get("OPENAI_BASE_URL")
    if base_url and Address.of(base_url).without_secrets == settings["base_url"]:
        settings = {**settings, "base_url": base_url}
    return kind(**settings)
