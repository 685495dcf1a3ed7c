"""Whether the configured judge answers, and what its endpoint accepts. Asks a few tiny questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragmeter.cli._judge_question import fix_of, tiny_sample
from ragmeter.metrics import RagmeterError, Score, evaluate
from ragmeter.metrics.errors import install_command
from ragmeter.metrics.judge import OpenAIJudge
from ragmeter.metrics.judged.context_relevancy import ContextRelevancy
from ragmeter.settings.config import Settings

from ._findings import REACHABLE, Finding

__all__ = ["check_judge"]

_MOST_TINY_ASKS = 4
_SETTINGS = (
    "set RAGMETER_JUDGE_API_KEY or OPENAI_API_KEY, or RAGMETER_JUDGE_BASE_URL to an endpoint that needs "
    "no key; else correct the RAGMETER_JUDGE_* variable that the message names"
)


def check_judge(settings: Settings, judge: Any) -> Iterator[Finding]:
    """Yield whether the judge gives a verdict.

    Args:
        settings: The environment's settings.
        judge: The judge made from them; None: none is configured. An error: making it failed.
    """
    if isinstance(judge, RagmeterError):
        fix = install_command("judge") if isinstance(judge, ImportError) else _SETTINGS
        yield REACHABLE.failed("judge", str(judge), fix)
        return
    if judge is None:
        yield REACHABLE.skipped("judge", "none configured: judged metrics are off")
        return
    score = _tiny_ask(judge, 0)
    if score.value is not None:
        detail = (
            f"{settings.judge_model} at {judge.host} answered, with {score.input_tokens} tokens in"
        )
        yield REACHABLE.ok("judge", detail)
        yield _what_it_takes(judge)
        return
    fix = fix_of(
        score.error_type,
        key="RAGMETER_JUDGE_API_KEY, or OPENAI_API_KEY,",
        model="RAGMETER_JUDGE_MODEL",
        url="RAGMETER_JUDGE_BASE_URL",
    )
    yield REACHABLE.failed("judge", f"{score.status}: {score.explanation}", fix)


def _what_it_takes(judge: OpenAIJudge) -> Finding:
    """Ask until it is known which form of reply it accepts: each is given up after two unexplained refusals."""
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
    """Judge one sentence; `number` varies the question, or the cache would answer."""
    [scores] = evaluate([tiny_sample(number)], [ContextRelevancy()], judge)
    [score] = scores.values()
    return score
