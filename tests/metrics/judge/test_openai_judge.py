"""`OpenAIJudge`: few calls, shared asks, safe loops, and secrets that stay secret."""

import asyncio
import copy
import logging
import pickle
import re
import sys

import pytest
from at_once import at_once
from forked import in_child
from judging_tools import judge_at, precision, sample, verdicts
from openai_server import Misbehaviour, OpenAIServer

from ragmeter.metrics import (
    ConfigurationError,
    ContextEntityRecall,
    ContextPrecision,
    ContextRecall,
    ContextRelevancy,
    FusedContextMetrics,
    MissingDependencyError,
    aevaluate,
    default_metrics,
    evaluate,
)
from ragmeter.metrics.errors import install_command
from ragmeter.metrics.judge import JudgeBudget, JudgeCache, OpenAIJudge
from ragmeter.metrics.judge.bypass_cache import bypassing_cache

FOUR = [ContextPrecision(), ContextRecall(), ContextEntityRecall(), ContextRelevancy()]
FIVE_CHUNKS = [f"Chunk {n} is about tower {n}. It has a second sentence." for n in range(5)]


def entities_or_true(request, item_id):
    return ["31 metres", "1846"] if item_id.startswith("t") else True


def calls(results):
    return [sum(s.judge_calls for s in scores.values()) for scores in results]


def test_four_metrics_cost_four_calls_cold_and_three_warm(server):
    """K = 5: precision, recall, entity recall and relevancy; warm = the reference is known."""
    server.answer = entities_or_true
    judge = judge_at(server)
    cold = evaluate([sample(contexts=FIVE_CHUNKS)], FOUR, judge)
    other = [f"{text} New." for text in FIVE_CHUNKS]
    warm = evaluate([sample(contexts=other, question="Another?")], FOUR, judge)

    assert (calls(cold), calls(warm), len(server.requests)) == ([4], [3], 7)


def test_fused_they_cost_one_call_cold_and_warm(server):
    server.answer = entities_or_true
    judge = judge_at(server)
    metrics = [FusedContextMetrics(), ContextEntityRecall()]
    cold = evaluate([sample(contexts=FIVE_CHUNKS)], metrics, judge)
    warm = evaluate([sample(contexts=FIVE_CHUNKS, question="Another?")], metrics, judge)

    assert (calls(cold), calls(warm)) == ([1], [1])


def test_nothing_is_asked_twice(server):
    """Fifty samples, 30 % repeated chunks and references: every text is sent once."""
    server.answer = lambda request, item_id: [] if item_id.startswith("t") else True
    judge = judge_at(server, concurrency=64)
    samples = []
    for n in range(50):
        source = n if n % 10 < 7 else n - 7
        samples.append(
            sample(
                question="The same question?",
                contexts=[f"Chunk {source}.", f"Other {source}."],
                reference=f"Reference {source}.",
            )
        )
    distinct = {s.reference.answer for s in samples}
    metrics = [ContextPrecision(), ContextEntityRecall(), ContextRelevancy()]
    evaluate(samples, metrics, judge, concurrency=64)

    sent = [(request.user.split(">>", 1)[1][:0], *texts(request)) for request in server.requests]
    assert len(sent) == len(set(sent))
    assert len(server.requests) == judge.stats.calls == 3 * len(distinct) == 105
    assert judge.stats.cache_misses == 5 * len(distinct)
    assert judge.stats.cache_hits == 5 * (50 - len(distinct))


def texts(request):
    return (str(sorted(request.form)), *(f"{k}={v}" for k, v in request.passages.items()), str(request.ids))


def test_those_who_share_a_call_share_its_failure(server):
    server.script += [Misbehaviour(500, delay_s=0.1)]
    judge = judge_at(server)
    results = evaluate([sample()] * 5, [ContextPrecision()], judge, concurrency=5)

    assert {scores["context_precision"].status for scores in results} == {"judge_error"}
    assert (len(server.requests), sum(calls(results))) == (1, 1)


def test_who_waits_for_a_cancelled_ask_asks_for_itself(server):
    """Cancelling the one who asked does not harm the others."""
    server.gate.clear()

    async def run():
        judge = judge_at(server)
        first = asyncio.create_task(aevaluate([sample()], [ContextPrecision()], judge))
        while not server.requests:
            await asyncio.sleep(0.005)
        second = asyncio.create_task(aevaluate([sample()], [ContextPrecision()], judge))
        await asyncio.sleep(0.05)
        first.cancel()
        server.gate.set()
        [scores] = await second
        with pytest.raises(asyncio.CancelledError):
            await first
        await judge.aclose()
        return scores["context_precision"]

    result = asyncio.run(run())

    assert (result.value, result.status, len(server.requests)) == (1.0, "ok", 2)


def test_one_judge_serves_loop_after_loop_and_several_at_once(server):
    """An event loop that ended does not take the judge with it; threads may share it."""
    judge = judge_at(server)

    def run(n):
        return precision(judge, question=str(n)).status

    assert [run(0), run(1), *at_once(run, range(2, 8))] == ["ok"] * 8
    assert judge.stats.calls == 8


def test_every_call_is_told(server):
    """Observers see metric, model, tokens, failures and answers that cost nothing."""
    judge, seen = judge_at(server), []
    judge.subscribe(seen.append)
    precision(judge)
    precision(judge)
    server.script.append(Misbehaviour(500))
    precision(judge, question="x")

    assert [(c.metric, c.cached, c.error_type) for c in seen] == [
        ("context_precision", False, None),
        ("context_precision", True, None),
        ("context_precision", False, "server_error"),
    ]
    assert (seen[0].model, seen[0].input_tokens, seen[0].output_tokens) == ("fake-model", 100, 20)
    assert seen[0].duration_s > 0
    assert judge.stats.errors == {"server_error": 1}


def test_a_score_knows_its_calls_tokens_and_cache_hits(server):
    judge = judge_at(server)
    one, two = precision(judge), precision(judge)

    assert (one.judge_calls, one.input_tokens, one.output_tokens, one.cache_hits) == (1, 100, 20, 0)
    assert (two.judge_calls, two.input_tokens, two.output_tokens, two.cache_hits) == (0, 0, 0, 2)


def test_unknown_verdicts_are_not_remembered(server):
    server.answer = verdicts(True, None)
    judge = judge_at(server)
    precision(judge)
    server.answer = verdicts(True, False)

    assert precision(judge).status == "ok"
    assert server.requests[-1].ids == ["c2"]


def test_models_and_endpoints_do_not_share_answers(server):
    cache = JudgeCache()
    with OpenAIServer(verdicts(False, False)) as other:
        first, second = (precision(judge_at(one, cache=cache)) for one in (server, other))

    assert (first.value, second.value) == (1.0, 0.0)


def test_a_cache_file_outlives_the_judge(server, tmp_path):
    path = tmp_path / "judge.sqlite"
    for _ in range(2):
        score = precision(judge_at(server, cache=path))

    assert (len(server.requests), score.items[0].reason) == (1, "about c1")


def test_without_a_cache_everything_is_asked(server):
    judge = judge_at(server, cache=False)
    for _ in range(2):
        precision(judge)

    assert len(server.requests) == 2


def test_what_is_asked_anew_neither_reads_nor_changes_the_cache(server):
    """Otherwise the judge would say for ever what it said once."""
    judge = judge_at(server)
    precision(judge)
    with bypassing_cache():
        for asked in (2, 3):
            precision(judge)
            assert len(server.requests) == asked
    precision(judge)
    assert len(server.requests) == 3
    with bypassing_cache():
        precision(judge, question="another")
    precision(judge, question="another")
    assert len(server.requests) == 5


def test_an_exhausted_budget_skips(server):
    judge = judge_at(server, budget=JudgeBudget(calls_per_minute=2), concurrency=1)
    results = evaluate([sample(question=str(n)) for n in range(4)], [ContextPrecision()], judge)
    scores = [r["context_precision"] for r in results]

    assert [s.status for s in scores] == ["ok", "ok", "skipped", "skipped"]
    assert scores[3].error_type == "budget"
    assert len(server.requests) == 2


KEY = "sk-very-secret-1234567890"


def test_the_key_is_sent_and_shown_nowhere(server, caplog):
    """Not in repr, logs at DEBUG, errors or pickles; nor is a secret in the address."""
    with caplog.at_level(logging.DEBUG, logger="ragmeter"):
        judge = OpenAIJudge("m", server.url + "/tenant-secret", KEY, headers={"x-token": KEY})
        precision(judge)

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["x-token"] == KEY
    shown = repr(judge) + repr(judge.stats) + caplog.text
    assert KEY not in shown
    assert "tenant-secret" not in shown
    assert repr(judge) == "OpenAIJudge(model='m', host='127.0.0.1')"
    assert KEY.encode() not in pickle.dumps(judge)


def test_a_pickled_judge_takes_its_key_from_the_environment(server, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    cache = JudgeCache(path=tmp_path / "judge.sqlite")
    settings = {"budget": JudgeBudget(calls_per_minute=9), "cache": cache}
    judge = pickle.loads(pickle.dumps(judge_at(server, **settings)))
    copied = copy.deepcopy(judge)
    precision(judge)

    assert server.requests[0].headers["authorization"] == "Bearer sk-env"
    assert repr(copied) == repr(judge)
    assert repr(copied.budget) == repr(settings["budget"])
    assert repr(copied.cache) == repr(cache)


def test_a_missing_key_is_refused_with_the_fix(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAIJudge("m")
    assert OpenAIJudge("m", "http://localhost:1/v1").host == "localhost"


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"timeout_s": 0},
        {"max_retries": -1},
        {"concurrency": 0},
        {"base_url": "localhost:8000"},
        {"max_output_tokens": 0},
        {"api_version": "2024-10-21"},
        {"cache": "/nowhere/at/all/judge.sqlite"},
    ],
)
def test_wrong_settings_are_refused_at_construction(wrong, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError):
        OpenAIJudge(**{"model": "m", "api_key": "k", **wrong})


def test_without_openai_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(MissingDependencyError, match=re.escape(install_command("judge"))):
        OpenAIJudge("m", api_key="k")


def test_azure_by_its_dated_api(server):
    """A deployment behind Azure's address and version, with Azure's header."""
    judge = OpenAIJudge("my-deployment", server.url[:-3], "az-key", api_version="2024-10-21")
    precision(judge)
    request = server.requests[0]

    assert request.path.startswith("/openai/deployments/my-deployment/chat/completions")
    assert "api-version=2024-10-21" in request.path
    assert request.headers["api-key"] == "az-key"


def test_instrumented_by_nobody_else(server):
    """All judged metrics work with one judge at once, in one go."""
    server.answer = lambda request, item_id: (
        {"t": ["1846"], "q": None}.get(item_id[0], True)
        if "pairs" not in str(request.form)
        else [("Lit when?", "in 1846")]
    )
    [scores] = evaluate([sample()], default_metrics(judged=True), judge_at(server))

    assert {s.status for s in scores.values() if s.method == "llm"} <= {"ok", "undefined"}


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_judge_lives_through_fork(server, tmp_path):
    """A forked child asks with connections and a cache file of its own."""
    judge = judge_at(server, cache=tmp_path / "judge.sqlite")
    precision(judge)

    assert in_child(lambda: precision(judge, question="child").status) == "ok"
