"""Whether the configured embedder answers. Embeds two words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ragmeter.metrics import RagmeterError
from ragmeter.metrics.embedder import Embedder
from ragmeter.metrics.errors import install_command
from ragmeter.metrics.judge.protocol import JudgeError
from ragmeter.settings.config import Settings
from ragmeter.settings.from_settings import embedder_of

from ._findings import REACHABLE, Finding

__all__ = ["check_embedder"]

_SETTINGS = (
    "set RAGMETER_EMBEDDING_API_KEY or OPENAI_API_KEY, or RAGMETER_EMBEDDING_BASE_URL to an endpoint "
    "that needs no key; else correct the RAGMETER_EMBEDDING_* variable that the message names"
)
_FIXES = {
    "authentication": "set RAGMETER_EMBEDDING_API_KEY, or OPENAI_API_KEY, to a valid key",
    "permission": "the key may not use this model; ask its owner, or change RAGMETER_EMBEDDING_MODEL",
    "not_found": (
        "correct RAGMETER_EMBEDDING_MODEL; or RAGMETER_EMBEDDING_BASE_URL, which usually ends in /v1"
    ),
    "connection": "correct RAGMETER_EMBEDDING_BASE_URL, or start what should listen there",
    "timeout": "the endpoint is too slow: a smaller model, or a nearer one",
    "quota": "the account behind the key has no credit: add some, or use another key",
}


def check_embedder(settings: Settings) -> Iterator[Finding]:
    """Yield whether the embedder turns a text into a vector."""
    if settings.embedding_model is None:
        yield REACHABLE.skipped("embedder", "none configured: semantic metrics are off")
        return
    try:
        embedder = embedder_of(settings)
        numbers = 0 if embedder is None else asyncio.run(_dimensions(embedder))
    except JudgeError as error:
        fix = _FIXES.get(error.error_type, "see the message")
        yield REACHABLE.failed("embedder", f"{error.error_type}: {error}", fix)
    except RagmeterError as error:
        fix = install_command("judge") if isinstance(error, ImportError) else _SETTINGS
        yield REACHABLE.failed("embedder", str(error), fix)
    else:
        host = getattr(embedder, "host", "this process")
        detail = f"{settings.embedding_model} at {host} answered, with {numbers} numbers a vector"
        yield REACHABLE.ok("embedder", detail)


async def _dimensions(embedder: Embedder) -> int:
    try:
        [vector] = await embedder.vectors(["High tide"])
        return len(vector)
    finally:
        await embedder.aclose()
