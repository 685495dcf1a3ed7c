"""What is learned of an endpoint: by name at once, by guess after two, and nothing for good."""

import json
import logging
import pickle

import pytest
from judging_tools import judge_at, precision, sample
from moved_clock import MovedClock
from openai_server import Misbehaviour, content, error, well_formed

from ragmeter.metrics import ConfigurationError, ContextPrecision, evaluate
from ragmeter.metrics.judge import JudgeCache, OpenAIJudge


def ask(judge, number=0):
    return precision(judge, question=f"Question {number}?")


def formats(server):
    return [r.body.get("response_format", {}).get("type", "text") for r in server.requests]


def silent_refusal(request):
    """400 without a reason, to every request for a schema."""
    kind = request.body.get("response_format", {}).get("type")
    return error(400, "bad", "no") if kind == "json_schema" else reply_to(request)


def reply_text(request):
    return json.dumps(well_formed(request, lambda _, item_id: True))


def reply_to(request):
    return content(reply_text(request))


@pytest.fixture
def timed(server):
    """A judge whose memory of the endpoint has a clock of ours."""
    judge = judge_at(server, cache=False)
    clock = MovedClock(1_000.0)
    judge._endpoint.learned._clock = clock
    return judge, clock


def test_one_unexplained_refusal_changes_nothing(server):
    server.script.append(error(400, "bad", "upstream hiccup"))
    judge = judge_at(server, cache=False)

    assert [ask(judge, n).status for n in range(3)] == ["ok"] * 3
    assert formats(server) == ["json_schema", "json_object", "json_schema", "json_schema"]


def test_hiccups_with_successes_between_them_change_nothing(server):
    judge = judge_at(server, cache=False)
    for number in range(5):
        server.script.append(error(400, "bad", "hiccup"))
        ask(judge, number)
        ask(judge, -number - 1)

    assert judge.structured_output == "json_schema"


def test_two_refusals_in_a_row_are_believed(server):
    server.script.extend([silent_refusal] * 9)
    judge = judge_at(server, cache=False)
    for number in range(4):
        ask(judge, number)

    assert judge.structured_output == "json_object"
    assert formats(server) == ["json_schema", "json_object"] * 2 + ["json_object"] * 2


def test_a_burst_of_refusals_is_one_hiccup(server):
    """Sixteen calls that were under way together say no more than one."""
    server.script.extend([error(400, "bad", "hiccup")] * 16)
    server.together = 16
    judge = judge_at(server, cache=False, concurrency=16)
    samples = [sample(question=str(n)) for n in range(16)]
    results = evaluate(samples, [ContextPrecision()], judge, concurrency=16)

    assert {scores["context_precision"].status for scores in results} == {"ok"}
    assert judge.structured_output == "json_schema"


def test_calls_that_wait_profit_from_what_was_learned(server):
    """Forty asks, eight at once and four on the wire: few of them pay for a silent refusal."""
    server.script.extend([silent_refusal] * 90)
    server.latency_s = 0.01
    judge = judge_at(server, cache=False, concurrency=4)
    samples = [sample(question=str(n)) for n in range(40)]
    evaluate(samples, [ContextPrecision()], judge, concurrency=8)

    assert judge.structured_output == "json_object"
    assert formats(server).count("json_schema") <= 24


def test_what_was_lost_is_looked_for_again(server, timed, caplog):
    """After ten minutes one call, and no other at the same time, goes out one level higher."""
    judge, clock = timed
    server.supports = set()
    with caplog.at_level(logging.INFO, logger="ragmeter"):
        assert ask(judge).status == "ok"
        server.requests.clear()
        clock.now += 599
        ask(judge, 1)
        assert formats(server) == ["text"]

        server.requests.clear()
        clock.now += 2
        assert ask(judge, 2).status == "ok"  # the trial is refused, and steps down as usual
        assert formats(server) == ["json_object", "text"]

        server.supports = {"json_object", "json_schema"}
        server.requests.clear()
        clock.now += 1_199
        ask(judge, 3)
        clock.now += 2
        ask(judge, 4)
        ask(judge, 5)
        clock.now += 600
        ask(judge, 6)

    assert formats(server) == ["text", "json_object", "json_object", "json_schema"]
    assert judge.structured_output == "json_schema"
    assert "takes format 'json_schema' again" in caplog.text


def test_one_trial_at_a_time(server, timed):
    judge, clock = timed
    server.supports = {"json_object"}
    ask(judge)
    server.requests.clear()
    server.latency_s = 0.05
    clock.now += 601
    samples = [sample(question=str(n)) for n in range(8)]
    results = evaluate(samples, [ContextPrecision()], judge, concurrency=8)

    assert {scores["context_precision"].status for scores in results} == {"ok"}
    assert formats(server).count("json_schema") == 1


def test_a_trial_that_meets_trouble_proves_nothing(server, timed):
    """503 during the trial: neither believed nor lost."""
    judge, clock = timed
    server.supports = {"json_object"}
    ask(judge)
    server.supports = {"json_object", "json_schema"}
    clock.now += 601
    server.script.append(Misbehaviour(503))
    assert ask(judge, 1).error_type == "server_error"
    clock.now += 601
    assert ask(judge, 2).status == "ok"

    assert judge.structured_output == "json_schema"


def test_only_what_is_named_is_dropped(server):
    """A quotation of the model's failed reply names nothing."""
    quoted = '{"error": {"message": "%s", "code": "json_validate_failed", "failed_generation": "%s"}}'
    body = quoted % ("Failed to validate JSON", "the temperature is high, the system role too")
    for said in (body, quoted % ("GroqException - " + body.replace('"', '\\"'), "schema")):
        server.requests.clear()
        judge = judge_at(server, cache=False)
        server.script.append(Misbehaviour(400, said.encode()))

        assert ask(judge).status == "ok"
        assert {"temperature" in r.body for r in server.requests} == {True}
        assert set(formats(server)) == {"json_schema"}


def test_every_option_steps_alone(server):
    """Four options are refused by name, one after the other; the schema stays."""

    def picky(request):
        body = request.body
        if "temperature" in body:
            return error(400, "unsupported_value", "'temperature' does not support 0")
        if "max_completion_tokens" in body:
            return error(400, "bad", "Unrecognized request argument: max_completion_tokens")
        if "max_tokens" in body:
            return error(422, "bad", "max_tokens: Extra inputs are not permitted")
        if body["messages"][0]["role"] == "system":
            return error(400, "bad", "System role not supported")
        return reply_to(request)

    server.script.extend([picky] * 6)
    judge = judge_at(server, cache=False, max_output_tokens=500)
    first, second = ask(judge), ask(judge, 1)

    assert (first.status, first.judge_calls, second.judge_calls) == ("ok", 5, 1)
    assert judge.learned == {
        "json_schema": "yes",
        "json_object": "not tried",
        "temperature": "no (400)",
        "cap": "no (422)",
        "effort": "not sent",
        "system role": "no (400)",
        "usage": "yes",
        "cached_tokens": "no",
    }
    assert [message["role"] for message in server.requests[-1].body["messages"]] == ["user"]


def test_a_cap_that_is_ignored_is_told_by_its_other_name(server):
    """Ollama reads max_tokens only: 900 tokens were written where 500 were allowed."""
    judge = judge_at(server, cache=False, max_output_tokens=500)

    def verbose(request):
        text = reply_to(request)
        return Misbehaviour(body=text.body.replace(b'"completion_tokens": 20', b'"completion_tokens": 900'))

    server.script.append(verbose)
    ask(judge)
    ask(judge, 1)

    assert [r.body.get("max_tokens") for r in server.requests] == [None, 500]


def test_a_prompt_that_was_cut_off_in_silence_has_no_score(server, caplog):
    """Two prompts of different length are read as 2,048 tokens: that is the window, not the prompt."""

    def window(request):
        prompt = min(2_048, len(request.system + request.user) // 3)
        return content(reply_text(request), prompt=prompt)

    server.script.extend([window] * 9)
    judge = judge_at(server, cache=False)

    def of(words):
        return precision(judge, contexts=["lamp oil wick " * words, "harbour"])

    with caplog.at_level(logging.WARNING, logger="ragmeter"):
        assert of(100).status == "ok"
        of(700)
        longer, longest = of(1_000), of(1_400)

    assert (longer.value, longer.error_type) == (None, "prompt_cut")
    assert (longest.error_type, longest.judge_calls) == ("prompt_cut", 1)
    assert of(90).status == "ok"
    assert caplog.text.count("num_ctx") == 1


def test_a_server_that_does_not_count_is_not_suspected(server):
    """Always 10 tokens, or always 100: placeholders."""
    judge = judge_at(server, cache=False)
    for words in (1, 300, 3_000):
        assert precision(judge, contexts=["lamp " * words, "harbour"]).status == "ok"


def test_extra_body_is_merged_last_pickled_and_in_the_keys(server):
    """A field that the user sets is not stepped down."""
    cache = JudgeCache()
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": 0.7}
    judge = judge_at(server, cache=cache, extra_body=extra)
    extra["temperature"] = 2.0  # theirs, not ours any more
    ask(judge)
    ask(pickle.loads(pickle.dumps(judge)), 1)
    ask(judge_at(server, cache=cache))

    bodies = [request.body for request in server.requests]
    assert [body["temperature"] for body in bodies] == [0.7, 0.7, 0.0]
    assert bodies[1]["chat_template_kwargs"] == {"enable_thinking": False}
    server.script.append(error(400, "bad", "temperature: only 1 is allowed"))
    ask(judge, 2)
    assert {request.body["temperature"] for request in server.requests[3:]} == {0.7}


@pytest.mark.parametrize(
    "wrong", [{"messages": []}, {"stream": True}, {"model": "x"}, {"x": object()}, {"x": float("nan")}]
)
def test_an_extra_body_that_cannot_work_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="extra_body"):
        OpenAIJudge("m", "http://localhost:1/v1", extra_body=wrong)


def test_a_refused_text_never_touches_the_breaker(server):
    """Ten flagged texts in a row: the next one is judged."""
    flagged = error(403, "403", "Your input was flagged by moderation")
    judge = judge_at(server, cache=False, concurrency=1)
    for number in range(10):
        server.script.append(flagged)
        assert ask(judge, number).error_type == "refusal"

    assert ask(judge, 99).status == "ok"


def test_a_wait_beyond_the_timeout_holds_back_the_next_calls(server):
    """They fail at once, without a post, and no circuit opens."""
    server.script.append(error(429, retry_after="3000"))
    judge = judge_at(server, cache=False, concurrency=1)
    scores = [ask(judge, number) for number in range(8)]

    assert {score.error_type for score in scores} == {"rate_limited"}
    assert len(server.requests) == 1
    judge._endpoint.breaker.admit()


def test_a_403_after_answers_is_not_for_everybody(server):
    """A firewall's page about one text: after an answer, asking goes on."""
    judge = judge_at(server, cache=False, concurrency=1)
    ask(judge)
    server.script.append(Misbehaviour(403, b"<html>You have been blocked</html>"))

    assert [ask(judge, n).error_type for n in (1, 2)] == ["permission", None]


@pytest.mark.parametrize("header", ["inf", "nan", "-5", "soon", "", "1e999"])
def test_a_wait_that_is_none_holds_no_call_back(server, header):
    server.script.append(error(429, retry_after=header))
    judge = judge_at(server, cache=False)

    assert [ask(judge, n).error_type for n in (1, 2)] == ["rate_limited", None]
