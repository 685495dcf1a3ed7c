"""A test question to a judge before its first use, to check address, key and model.

The question has no user's text, so the endpoint's answer may be quoted, except for the key.
"""

from __future__ import annotations

import re

from ragmeter.metrics import ConfigurationError, RagSample, RetrievedContext, Score
from ragmeter.metrics.judge import Judge, OpenAIJudge
from ragmeter.metrics.judged.context_relevancy import ContextRelevancy
from ragmeter.metrics.protocol import run_metric

_FIXES = {
    "authentication": "set {key} to a valid key",
    "permission": "the key may not use this model; ask its owner, or change {model}",
    "not_found": "correct {model}; or {url}, which usually ends in /v1",
    "rate_limited": "quota or rate used up: wait, raise it, or ask less",
    "timeout": "the endpoint is too slow: a smaller model, or a nearer one",
    "connection": "correct {url}, or start what should listen there",
    "quota": "the account behind the key has no credit: add some, or use another key",
    "redirected": "set {url} to the address that the endpoint moved to",
    "bad_request": "correct {model} or {url}: the endpoint does not take a harmless question",
    "refusal": "the endpoint refuses a harmless text: loosen its content filter, or use another",
    "prompt_cut": "give the endpoint a larger context window (Ollama: num_ctx)",
    "reply_cut_off": "the model spends its whole reply on thinking: turn that off, or raise its limit",
    "unusable_reply": "the model does not follow the form; choose a more capable one",
}
_LASTING = frozenset(
    {"authentication", "permission", "not_found", "connection", "quota", "redirected"}
    | {"bad_request", "timeout"}
)
"""Failures that every question would meet; others may be temporary, or concern one text."""
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|gsk|key|api)[-_][\w*.…-]{6,}|[\w.-]*(?:\*{3,}|•{3,})[\w*•.-]*|\b(?=\w*\d)\w{32,}\b"
)


def fix_of(error_type: str | None, *, key: str, model: str, url: str) -> str:
    """Return the fix for a failure, with the names under which key, model and address are set."""
    return _FIXES.get(error_type or "", "see the message").format(key=key, model=model, url=url)


def tiny_sample(number: int = 0) -> RagSample:
    """Return a harmless sample; each `number` is a new question, which is in no cache."""
    often = "How often is the tide high" + "?" * (number + 1)
    tide = (RetrievedContext(text="The tide is high twice a day."),)
    return RagSample(question=often, contexts=tide)


async def ask_first(judge: Judge, key: str) -> None:
    """Ask one question, outside the judge's budget and counters.

    Args:
        judge: The judge; only an `OpenAIJudge` is asked.
        key: The variable that holds its key.
    """
    if not isinstance(judge, OpenAIJudge):
        return
    settings, secrets = judge.settings_and_secrets()
    kept = False if judge.cache is None else judge.cache
    once = settings | secrets | {"budget": None, "cache": kept, "max_retries": 1, "concurrency": 1}
    trial = OpenAIJudge(**once)
    try:
        [score] = await run_metric(ContextRelevancy(), tiny_sample(), trial)
    finally:
        await trial.aclose()
    if score.value is None and score.error_type in _LASTING:
        raise ConfigurationError(_failure_words(score, trial, key, str(secrets["api_key"] or "")))


def _failure_words(score: Score, trial: OpenAIJudge, key: str, secret: str) -> str:
    why = (score.explanation or score.status).removeprefix("asking the judge failed: ")
    words = _without_key(trial.last_words, secret)
    fix = fix_of(score.error_type, key=key, model="--judge-model", url="--judge-base-url")
    return (
        f"the judge {trial.model!r} at {trial.address} does not answer: {why.partition(':')[0]}"
        + (f': "{words}"' if words else "")
        + f"; {fix} (--no-judge-check asks nothing before the first row)"
    )


def _without_key(words: str, secret: str) -> str:
    if secret:
        words = words.replace(secret, "…")
    pieces = (
        "…"
        if len(secret) >= 8 and any(len(p) >= 4 and p in secret for p in re.split(r"[*•….]+", word))
        else word
        for word in words.split(" ")
    )
    return _KEY_LIKE.sub("…", " ".join(pieces))
