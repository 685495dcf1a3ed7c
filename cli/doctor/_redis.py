"""Checks the Redis that processes share: reachable, durable, and used with the same settings by all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from ragmeter.metrics import RagmeterError
from ragmeter.metrics._process.redis import RedisLine
from ragmeter.settings.config import Settings
from ragmeter.settings.from_settings import budget_and_cache

from ._findings import CONFIGURED, REACHABLE, Finding

_BUDGET = "RAGMETER_JUDGE_SHARED_URL"
_MARKS = "RAGMETER_WORKER_DEDUPE_URL"
_LATELY_S = 6 * 3600


def check_shared(settings: Settings) -> Iterator[Finding]:
    """Yield findings about the judge's shared budget and the worker's marks; none if neither is set."""
    for variable, url in ((_BUDGET, settings.judge_shared_url), (_MARKS, settings.worker_dedupe_url)):
        if url is None:
            continue
        try:
            line = RedisLine(url.get_secret_value(), "the doctor", "nothing is examined")
        except RagmeterError as error:
            yield CONFIGURED.failed(variable, str(error), f"correct {variable}")
            continue
        yield from _redis(line, variable)
        if variable == _BUDGET and not line.trouble:
            yield from _others(line, settings)
        line.close()


def _redis(line: RedisLine, variable: str) -> Iterator[Finding]:
    found = line.ask([("INFO", "memory")])
    if found is None:
        yield REACHABLE.failed(line.address, line.trouble, f"start Redis, or correct {variable}")
        return
    yield REACHABLE.ok(line.address, f"answers ({variable})")
    memory = found[0] if isinstance(found[0], dict) else {}  # as redis-py reads it
    policy = str(memory.get("maxmemory_policy", ""))
    if variable == _BUDGET and memory.get("maxmemory") and policy.startswith("allkeys"):
        yield REACHABLE.warning(
            line.address,
            f"it may forget what was spent when its memory is full ({policy})",
            "give the budget a database of its own with maxmemory-policy noeviction or volatile-lru",
        )


def _others(line: RedisLine, settings: Settings) -> Iterator[Finding]:
    from ragmeter.metrics.judge.shared_budget import settings_key  # noqa: PLC0415 -- loads when wanted

    own: Any
    try:
        own, _ = budget_and_cache(settings)
    except RagmeterError as error:
        yield CONFIGURED.failed(_BUDGET, str(error), f"correct {_BUDGET}")
        return
    replies = line.ask([("HGETALL", settings_key(settings.judge_shared_name))])
    pairs = replies[0] if replies else []
    seen = pairs if isinstance(pairs, dict) else dict(zip(pairs[::2], pairs[1::2], strict=True))
    mine = json.loads(own.settings)
    for text, at in seen.items():
        theirs = json.loads(text)
        differing = sorted(name for name in mine if theirs.get(name) != mine[name])
        if differing and time.time() - int(at) < _LATELY_S:
            shown = ", ".join(f"{name}={theirs.get(name)!r}" for name in differing)
            yield REACHABLE.warning(
                line.address,
                f"another installation shares the budget {settings.judge_shared_name!r} with {shown}",
                "give all the same limits, prices and share, or each a budget of its own: "
                "RAGMETER_JUDGE_SHARED_NAME",
            )
    own.close()
