"""Checks by tiny questions whether judge and embedder answer, and which reply formats the judge supports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from ragmeter.cli._judge_question import fix_of, tiny_sample
from ragmeter.metrics import RagmeterError, Score, evaluate
from ragmeter.metrics.embedder import Embedder
from ragmeter.metrics.errors import install_command
from ragmeter.metrics.judge import OpenAIJudge
from ragmeter.metrics.judge.protocol import JudgeError
from ragmeter.metrics.judged.context_relevancy import ContextRelevancy
from ragmeter.settings.config import Settings
from ragmeter.settings.from_settings import embedder_of

from ._findings import REACHABLE, Finding

_MOST_TINY_ASKS = 4
_SETTINGS = (
    "set {prefix}API_KEY or OPENAI_API_KEY, or {prefix}BASE_URL to an endpoint that needs no key; else "
    "correct the {prefix}* variable that the message names"
)
_JUDGE, _EMBEDDER = "RAGMETER_JUDGE_", "RAGMETER_EMBEDDING_"


def check_judge(settings: Settings, judge: Any) -> Iterator[Finding]:
    """Yield whether the judge gives a verdict.

    Args:
        settings: The environment's settings.
        judge: The judge made from them; None: none is configured; an exception: it could not be made.
    """
    if isinstance(judge, RagmeterError):
        yield _unusable("judge", judge, _JUDGE)
        return
    if judge is None:
        yield REACHABLE.skipped("judge", "none configured: judged metrics are off")
        return
    score = _tiny_ask(judge, 0)
    if score.value is not None:
        detail = f"{settings.judge_model} at {judge.host} answered, with {score.input_tokens} tokens in"
        yield REACHABLE.ok("judge", detail)
        yield _what_it_takes(judge)
        return
    said = f"{score.status}: {score.explanation}"
    yield REACHABLE.failed("judge", said, _fix(score.error_type, _JUDGE))


def _unusable(what: str, error: RagmeterError, prefix: str) -> Finding:
    """Return the finding that no model could be made from the variables with this prefix."""
    is_missing = isinstance(error, ImportError)
    fix = install_command("judge") if is_missing else _SETTINGS.format(prefix=prefix)
    return REACHABLE.failed(what, str(error), fix)


def _fix(error_type: str | None, prefix: str) -> str:
    key = f"{prefix}API_KEY, or OPENAI_API_KEY,"
    return fix_of(error_type, key=key, model=f"{prefix}MODEL", url=f"{prefix}BASE_URL")


def _what_it_takes(judge: OpenAIJudge) -> Finding:
    """Ask until the supported reply format is known; each is abandoned after two unexplained refusals."""
    for number in range(1, _MOST_TINY_ASKS):
        if judge.learned.get(judge.structured_output) != "not tried":
            break
        _tiny_ask(judge, number)
    detail = ", ".join(f"{name} {answer}" for name, answer in judge.learned.items())
    if judge.structured_output == "text":
        fix = "replies are asked for in plain text, and weak models fail at it: prefer json_schema"
        return REACHABLE.warning("judge takes", detail, fix)
    return REACHABLE.ok("judge takes", detail)


def _tiny_ask(judge: OpenAIJudge, number: int) -> Score:
    """Judge one sentence; `number` varies the question, so that the cache does not answer."""
    [scores] = evaluate([tiny_sample(number)], [ContextRelevancy()], judge)
    [score] = scores.values()
    return score


def check_embedder(settings: Settings) -> Iterator[Finding]:
    """Yield whether the embedder turns a text into a vector."""
    if settings.embedding_model is None:
        yield REACHABLE.skipped("embedder", "none configured: semantic metrics are off")
        return
    try:
        embedder = embedder_of(settings)
        numbers = 0 if embedder is None else asyncio.run(_dimensions(embedder))
    except JudgeError as error:
        said = f"{error.error_type}: {error}"
        yield REACHABLE.failed("embedder", said, _fix(error.error_type, _EMBEDDER))
    except RagmeterError as error:
        yield _unusable("embedder", error, _EMBEDDER)
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
