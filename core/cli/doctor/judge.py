"""Does the configured judge answer? Asks it one small question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragmeter.metrics import RagmeterError, RagSample, RetrievedContext, evaluate
from ragmeter.metrics.context_relevancy import ContextRelevancy
from ragmeter.settings import Settings

from .findings import Finding, failed, ok, skipped

__all__ = ["check_judge"]

_MENDS = {
    "authentication": "set RAGMETER_JUDGE_API_KEY, or OPENAI_API_KEY, to a valid key",
    "permission": "the key may not use this model; ask its owner, or change RAGMETER_JUDGE_MODEL",
    "not_found": "correct RAGMETER_JUDGE_MODEL; or RAGMETER_JUDGE_BASE_URL, which mostly ends in /v1",
    "rate_limited": "quota or rate used up: wait, raise it, or lower RAGMETER_JUDGE_SAMPLE_RATE",
    "timeout": "the endpoint is too slow: a smaller model, or a nearer one",
    "connection": "correct RAGMETER_JUDGE_BASE_URL, or start what should listen there",
    "unusable_reply": "the model does not follow the form; choose a more capable one",
}
_SETTINGS = (
    "set RAGMETER_JUDGE_API_KEY or OPENAI_API_KEY, or RAGMETER_JUDGE_BASE_URL to an endpoint that needs "
    "no key; else correct the RAGMETER_JUDGE_* variable that the message speaks of"
)


def check_judge(settings: Settings, judge: Any) -> Iterator[Finding]:
    """Yield whether the judge gives a verdict.

    Args:
        settings: The environment's settings.
        judge: The judge made from them; None: none is configured. An error: making it failed.
    """
    if isinstance(judge, RagmeterError):
        mend = "pip install 'ragmeter[judge]'" if isinstance(judge, ImportError) else _SETTINGS
        yield failed("reachable", "judge", str(judge), mend)
        return
    if judge is None:
        yield skipped("reachable", "judge", "none configured: judged metrics are off")
        return
    sample = RagSample(
        question="How often is the tide high?",
        contexts=(RetrievedContext(text="The tide is high twice a day."),),
    )
    [scores] = evaluate([sample], [ContextRelevancy()], judge)
    [score] = scores.values()
    if score.value is not None:
        detail = (
            f"{settings.judge_model} at {judge.host} answered, with {score.input_tokens} tokens in"
        )
        yield ok("reachable", "judge", detail)
        return
    mend = _MENDS.get(score.error_type or "", "see the message")
    yield failed("reachable", "judge", f"{score.status}: {score.explanation}", mend)
