"""An endpoint that misbehaves gives the documented status: never a false number, never an exception."""

import json
import logging

import pytest
from judging_tools import judge_at, only, precision, sample, verdicts
from openai_server import Misbehaviour, completion, content, error

from ragmeter.metrics import ContextPrecision, ContextRelevancy, Faithfulness, evaluate
from ragmeter.metrics.judge import OpenAIJudge

JSON = {"content-type": "application/json"}
GOOD = {"answers": [{"id": "c1", "reason": "", "verdict": True}, {"id": "c2", "verdict": False}]}


def reply(*entries):
    return lambda request: request.tagged({"answers": list(entries)})


def good(change=str, **options):
    """A good reply to the request, its text changed."""
    return lambda request: content(change(json.dumps(request.tagged(GOOD))), **options)


def broken_reply(body: bytes, **options) -> Misbehaviour:
    return Misbehaviour(body=body, headers=JSON, **options)


USELESS = {
    "truncated JSON": good(lambda text: text[:-9]),
    "prose": content("Yes, chunk 1 is relevant (score 1), chunk 2 is not."),
    "empty text": content(""),
    "no text": content(None),
    "empty choices": broken_reply(json.dumps({**completion("x"), "choices": []}).encode()),
    "no choices": broken_reply(b"{}"),
    "choices of another kind": broken_reply(b'{"choices": [7]}'),
    "a list": broken_reply(b"[1, 2]"),
    "not UTF-8": broken_reply(b'{"choices": "\xff\xfe"}'),
    "HTML page with status 200": Misbehaviour(body=b"<html><body>Welcome</body></html>"),
    "10 MB reply": good(lambda text: text + " " * 10_000_000),
    "deep nesting": content("[" * 200_000),
    "two objects": good(lambda text: text + text),
    "two fenced objects": good(lambda text: f"```json\n{text}\n```\n```json\n{text}\n```"),
    "another form": content('{"verdicts": [true, false]}'),
    "a key twice": good(lambda text: text.replace('"reason": ""', '"verdict": false')),
    "the ids of no request": content(json.dumps(GOOD)),
    "the form": lambda request: request.form,
}


@pytest.mark.parametrize("name", USELESS)
def test_replies_of_no_use_are_a_judge_error(server, name):
    """Asked once more, then ``judge_error`` with a class of its own and the cost of both calls."""
    server.script += [USELESS[name]] * 2
    result = only(server, ContextPrecision(), sample())

    assert (result.value, result.status) == (None, "judge_error")
    assert result.error_type in {"unusable_reply", "reply_too_large"}
    assert (result.judge_calls, len(server.requests)) == (2, 2)


@pytest.mark.parametrize("name", USELESS)
def test_one_such_reply_is_repaired_by_the_second(server, name):
    server.script.append(USELESS[name])
    server.answer = verdicts(True, False)
    result = only(server, ContextPrecision(), sample())

    assert (result.value, result.status, result.judge_calls) == (1.0, "ok", 2)


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
def test_what_the_judge_will_not_judge_it_is_asked_once(server, finish):
    """Asking again would be refused again; the next request is asked as ever."""
    refused = content(None, refusal="I cannot help with that.")
    server.script.append(refused if finish == "refusal" else good(finish=finish))
    result = only(server, ContextPrecision(), sample())

    assert (result.value, result.status, result.error_type) == (None, "judge_error", "refusal")
    assert (result.judge_calls, len(server.requests)) == (1, 1)


ONE = {"id": "c1", "verdict": True}
UNALIGNED = {
    "wrong ids": [{"id": "c7", "verdict": True}, {"id": "c8", "verdict": True}],
    "shifted ids": [{"id": "c2", "verdict": True}, {"id": "c3", "verdict": True}],
    "extra ids": [ONE, {"id": "c2", "verdict": True}, {"id": "c3", "verdict": True}],
    "no ids": [{"verdict": True}, {"verdict": True}],
}


@pytest.mark.parametrize("name", UNALIGNED)
def test_replies_that_are_not_aligned_count_for_nothing(server, name):
    """A group that answers other ids than asked is unknown as a whole: bounds 0 to 1."""
    server.script += [reply(*UNALIGNED[name])] * 2
    result = only(server, ContextPrecision(), sample())

    assert (result.value, result.status) == (None, "partial")
    assert (result.lower, result.upper) == (0.0, 1.0)
    assert server.requests[1].ids == ["c1", "c2"]


@pytest.mark.parametrize("verdict", ["maybe", 2, -1, 1.0, "2", "", "yes, it is", [True], {"v": True}, None])
def test_what_is_no_verdict_is_unknown(server, verdict):
    """One repair call for that id alone, then bounds."""
    entry = {"id": "c2", "verdict": verdict}
    server.script += [reply(ONE, entry), reply(entry)]
    result = only(server, ContextPrecision(), sample())

    assert (result.value, result.status) == (1.0, "partial")
    assert (result.lower, result.upper) == (1.0, 1.0)
    assert server.requests[1].ids == ["c2"]
    assert "harbour" in server.requests[1].user
    assert "31 metres tall.\n<<" not in server.requests[1].passages


@pytest.mark.parametrize(
    ("true", "false"),
    [("да", "нет"), ("是", "否"), ("Yes.", "NO"), ("«Да»", "(Нет)."), (1, 0), ("true", "FALSE")],
)
def test_verdict_words_of_other_endpoints_are_understood(server, true, false):
    server.answer = verdicts(true, false)
    result = only(server, ContextPrecision(), sample())

    assert [item.verdict for item in result.items] == [True, False]
    assert (result.value, result.status, result.judge_calls) == (1.0, "ok", 1)


@pytest.mark.parametrize("thinking", ["<think>c1 is true? {}</think>\n", "Here you are:\n"])
def test_a_fenced_object_is_read(server, thinking):
    server.script.append(good(lambda text: f"{thinking}```json\n{text}\n```\nDone."))
    result = only(server, ContextPrecision(), sample())

    assert (result.value, result.judge_calls) == (1.0, 1)


def test_a_slow_endpoint_is_a_timeout(server):
    server.script.append(Misbehaviour(delay_s=30))
    result = only(server, ContextPrecision(), sample(), timeout_s=2.0)

    assert (result.value, result.status, result.error_type) == (None, "timeout", "timeout")
    assert result.judge_calls == 1


def test_too_many_requests_are_retried_when_the_endpoint_says(server):
    """429 with Retry-After: the value unharmed, every post counted."""
    server.script += [error(429, retry_after="0"), error(429, retry_after_ms="1")]
    server.answer = verdicts(True, False)
    result = only(server, ContextPrecision(), sample(), max_retries=3)

    assert (result.value, result.judge_calls, len(server.requests)) == (1.0, 3, 3)


def test_a_retry_after_beyond_the_deadline_is_given_up_at_once(server):
    server.script.append(error(429, retry_after="3000"))
    result = only(server, ContextPrecision(), sample(), max_retries=3)

    assert (result.status, result.error_type) == ("judge_error", "rate_limited")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("step", "error_type"),
    [
        (error(500), "server_error"),
        (error(503), "server_error"),
        (Misbehaviour(502, b"<html>Bad gateway</html>", {"content-type": "text/html"}), "server_error"),
        (broken_reply(json.dumps(completion("x")).encode(), cut_after=30), "connection"),
    ],
)
def test_passing_failures_are_retried_then_reported(server, step, error_type):
    server.script += [step] * 2
    result = only(server, ContextPrecision(), sample(), max_retries=1)
    again = only(server, ContextPrecision(), sample(), max_retries=1)

    assert (result.status, result.error_type, result.judge_calls) == ("judge_error", error_type, 2)
    assert (again.status, len(server.requests)) == ("ok", 3)


@pytest.mark.parametrize(
    ("status", "error_type"), [(401, "authentication"), (403, "permission"), (404, "not_found")]
)
def test_a_judge_that_refuses_us_is_not_asked_again(server, status, error_type, caplog):
    """One request, one log line, then ``judge_error`` without a call; the key is nowhere."""
    secret = "sk-this-is-secret"
    server.script += [error(status, "invalid_api_key", f"Incorrect API key: {secret}")] * 9
    judge = judge_at(server, max_retries=3, concurrency=1)
    with caplog.at_level(logging.DEBUG, logger="ragmeter"):
        results = evaluate(
            [sample(question=str(n)) for n in range(5)],
            [ContextPrecision(), ContextRelevancy(), Faithfulness()],
            judge,
        )
    scores = [score for scores in results for score in scores.values()]

    assert {(s.status, s.error_type) for s in scores} == {("judge_error", error_type)}
    assert len(server.requests) == 1
    assert sum(s.judge_calls for s in scores) == 1
    logged = [r for r in caplog.records if r.name.startswith("ragmeter")]
    assert [r.levelname for r in logged] == ["ERROR"]
    assert str(status) in logged[0].getMessage()
    assert "invalid_api_key" in logged[0].getMessage()
    assert not any(secret in text for text in (caplog.text, repr(scores), repr(judge)))


def test_an_endpoint_without_structured_outputs_is_asked_in_plain_text(server):
    """json_schema, then json_object, then text; remembered, so later calls are single requests."""
    server.supports = set()
    judge = judge_at(server)
    first = precision(judge)
    requests = len(server.requests)
    precision(judge, question="Another?")

    assert (first.status, first.judge_calls, requests) == ("ok", 3, 3)
    assert (len(server.requests), judge.structured_output) == (4, "text")


def test_an_endpoint_with_json_mode_only(server):
    server.supports = {"json_object"}
    judge = judge_at(server)
    evaluate([sample()], [ContextPrecision()], judge)

    assert judge.structured_output == "json_object"
    assert server.requests[-1].body["response_format"] == {"type": "json_object"}


def test_a_request_that_is_too_long_is_that_requests_problem(server):
    """context_length_exceeded: one judge_error; nothing is forgotten, the next call is as before."""
    server.script.append(error(400, "context_length_exceeded"))
    judge = judge_at(server)

    assert precision(judge).error_type == "request_too_large"
    assert (precision(judge).status, judge.structured_output) == ("ok", "json_schema")


def test_nothing_listens():
    """A connection that is refused is a judge_error of class ``connection``."""
    judge = OpenAIJudge("m", "http://127.0.0.1:9/v1", max_retries=0)

    assert precision(judge).error_type == "connection"
