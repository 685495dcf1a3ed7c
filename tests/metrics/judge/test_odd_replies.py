"""Replies that no endpoint was recorded with: never a false score, the right class, nothing lost for good."""

import asyncio
import gzip
import json

import pytest
from judging_tools import judge_at, sample
from openai_server import Misbehaviour, well_formed
from replayed_endpoint import REPLIES, Replayed, answer

from ragmeter.metrics import ContextPrecision, evaluate
from ragmeter.metrics._connection.address import Address
from ragmeter.metrics._connection.wires import Caller, Wire


def failing(status, body, **headers):
    told = body if isinstance(body, (bytes, str)) else json.dumps(body, ensure_ascii=False)
    told = told.encode() if isinstance(told, str) else told
    return Misbehaviour(status, told, {name.replace("_", "-"): v for name, v in headers.items()})


def message(status, words, **more):
    return failing(status, {"error": {"message": words, **more}})


def said(text, finish="stop", **more):
    return {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **more}}


def replying(choice, body=lambda raw: raw, headers=None, **more):
    """A reply made of the right answer; `choice` and `body` bend it."""

    def reply(request):
        whole = {
            "choices": [choice(answer(request))],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20},
            **more,
        }
        return Misbehaviour(200, body(json.dumps(whole).encode()), headers or {})

    return reply


def without(option, refusal):
    """Refuses, until `option` is gone from the body."""

    def reply(request):
        body = request.body
        there = option in body
        if option == "system":
            there = body["messages"][0]["role"] == "system"
        return refusal if there else replying(said)(request)

    return reply


TWO = "First: {0}\nRevised: {0}"
ODD = {
    # The same refusals in other words and languages.
    "zh moderation": (message(400, "系统检测到输入或生成内容可能包含不安全或敏感内容", code="1301"), "refusal"),
    "ru moderation": (failing(400, {"error": "Запрос не прошёл модерацию контента"}), "refusal"),
    "usage policy": (message(400, "Your prompt was flagged as potentially violating our usage policy."), "refusal"),
    "guardrail": (failing(400, {"message": "Guardrail was enabled and blocked the request"}), "refusal"),
    "filter as 500": (message(500, "litellm.ContentPolicyViolationError"), "refusal"),
    "filter inside 200": (failing(200, {"error": {"code": "content_filter", "message": "no"}}), "refusal"),
    "finish SAFETY": (replying(lambda text: said(text, finish="SAFETY")), "refusal"),
    "refusing part": (replying(lambda text: said([{"type": "refusal"}, {"type": "text", "text": text}])), "refusal"),
    "no credit, 400": (message(400, "Your credit balance is too low to access the API."), "quota"),
    "no credit, 429": (message(429, "Account suspended: insufficient balance"), "quota"),
    "quota through a gateway": (message(429, "You exceeded your current quota, please check your plan"), "quota"),
    "prompt too long": (message(400, "prompt is too long: 210000 tokens > 200000 maximum"), "request_too_large"),
    "input tokens": (message(400, "The input token count (12) exceeds the maximum number of tokens allowed (9)."), "request_too_large"),
    "input range": (message(400, "Range of input length should be [1, 98304]"), "request_too_large"),
    "cap and context": (message(400, "max_completion_tokens is too large: 500. This model's maximum context length is 2048"), "request_too_large"),
    "page 413": (failing(413, "<html>Request Entity Too Large</html>"), "request_too_large"),
    "page 403": (failing(403, "<html>Attention Required! You have been blocked</html>"), "permission"),
    "page 404": (failing(404, "<html>nginx</html>"), "not_found"),
    "page 502": (failing(502, "<html>Bad gateway</html>"), "server_error"),
    "zh model": (message(400, "模型不存在，请检查模型代码。", code="1211"), "not_found"),
    "case-sensitive": (message(404, "Model names are case-sensitive: not found"), "not_found"),
    "case-sensitive key": (message(401, "API keys are case sensitive"), "authentication"),
    "key inside 200": (failing(200, {"error": {"code": 401, "message": "No auth credentials found"}}), "authentication"),
    "overloaded inside 200": (failing(200, {"error": "model overloaded"}), "server_error"),
    "rate inside 200": (failing(200, {"error": {"code": "429", "message": "slow"}}), "rate_limited"),
    "too long inside 200": (failing(200, {"object": "error", "message": "maximum context length is 9", "code": 400}), "request_too_large"),
    "tokens 1301": (message(400, "hiccup at token 1301"), "bad_request"),
    # Bodies that are none.
    "truncated": (failing(200, b'{"choices":[{"message":{"content":"{'), "unusable_reply"),
    "empty": (failing(200, b""), "unusable_reply"),
    "no choices": (failing(200, {"choices": []}), "unusable_reply"),
    "no message": (failing(200, {"choices": [{"message": None}]}), "unusable_reply"),
    "not gzip": (Misbehaviour(200, b"not gzip", {"content-encoding": "gzip"}), "connection"),
    "status 204": (failing(204, b""), "unusable_reply"),
    # Good replies in odd clothes.
    "plain text type": (replying(said, headers={"content-type": "text/plain"}), None),
    "mark before the body": (replying(said, body=lambda raw: b"\xef\xbb\xbf" + raw), None),
    "mark before the text": (replying(lambda text: said("\ufeff" + text)), None),
    "padding": (replying(said, body=lambda raw: b"\n\n  \n" + raw), None),
    "gzip": (replying(said, body=gzip.compress, headers={"content-encoding": "gzip"}), None),
    "NaN tokens": (replying(said, body=lambda raw: raw.replace(b": 100", b": NaN")), None),
    "negative usage": (replying(said, usage={"prompt_tokens": -5, "completion_tokens": -1}), None),
    "huge usage": (replying(said, usage={"prompt_tokens": 10**30, "completion_tokens": "x"}), None),
    "usage of another kind": (replying(said, usage=[1]), None),
    "no role": (replying(lambda text: {"message": {"role": None, "content": text}}), None),
    "null error": (replying(said, error=None), None),
    "large headers": (replying(said, headers={f"x-{n}": "v" * 900 for n in range(40)}), None),
    "thinking tag": (replying(lambda text: said(f"<thinking>c {{x: 1}}</thinking>\n{text}")), None),
    "constrained channel": (replying(lambda text: said(f"<|channel|>analysis<|message|>x<|end|><|channel|>final <|constrain|>json<|message|>{text}<|return|>")), None),
    "end token": (replying(lambda text: said(text + "<|im_end|>")), None),
    "loc names it": (without("temperature", failing(422, {"detail": [{"loc": ["body", "temperature"], "msg": "bad"}]})), None),
    "developer instruction": (without("system", message(400, "Developer instruction is not enabled for models/g")), None),
    # Answers that are none.
    "two answers": (replying(lambda text: said(TWO.format(text))), "unusable_reply"),
    "unended thought": (replying(lambda text: said(f"<think> perhaps {text}")), "unusable_reply"),
    "thoughts in prose": (replying(lambda text: said("", reasoning=f"I think {text}")), "unusable_reply"),
    "starved thoughts": (replying(lambda text: said("", finish="length", reasoning=text)), "reply_cut_off"),
    "thoughts that begin with a draft": (replying(lambda text: said("", reasoning_content=f"{text} No, not so.")), "unusable_reply"),
    "two kinds of thoughts": (replying(lambda text: said("", reasoning_content=text, reasoning="{}")), "unusable_reply"),
    "thoughts of one object": (replying(lambda text: said("", reasoning_content=f" {text}", reasoning=text)), None),
    "content beside an error": (replying(said, error={"message": "overloaded", "code": 503}), "server_error"),
    "content beside its choice's error": (replying(lambda text: {**said(text), "error": {"code": 429, "message": "slow"}}), "rate_limited"),
    "content of an error": (replying(said, object="error", message="slow", code=429), "rate_limited"),
    "inside another object": (replying(lambda text: said(f'{{"result": {text}}}')), "unusable_reply"),
    "a delta": (replying(lambda text: {"delta": {"content": text}}), "unusable_reply"),
    "a completion of old": (replying(lambda text: {"text": text}), "unusable_reply"),
    "content of another kind": (replying(lambda text: said({"text": text})), "unusable_reply"),
    "just true": (replying(lambda text: said("true")), "unusable_reply"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_an_odd_reply_is_a_score_or_says_why_not(server, name):
    """And afterwards a good reply to the same judge is scored, unless it may not be asked for now."""
    reply, expected = ODD[name]
    server.script.extend([reply] * 8)
    judge = judge_at(server, max_output_tokens=500, cache=False)
    [scores] = evaluate([sample()], [ContextPrecision()], judge)
    score = scores["context_precision"]
    server.script.clear()
    server.script.append(lambda request: well_formed(request, lambda _, item_id: True))
    [after] = evaluate([sample(question="Another?")], [ContextPrecision()], judge)

    assert (score.value, score.error_type) == (1.0 if expected is None else None, expected)
    assert judge.structured_output == "json_schema"
    stopped = {"quota", "permission", "not_found", "authentication"}
    assert after["context_precision"].error_type == (expected if expected in stopped else None)


def as_litellm(reply):
    """LiteLLM keeps the status, as a string, and quotes the rest in words."""
    text = reply["body"] if isinstance(reply["body"], str) else json.dumps(reply["body"])
    words = f"litellm.BadRequestError: OpenAIException - {text}"
    body = {"error": {"message": words, "type": None, "param": None, "code": str(reply["status"])}}
    return {**reply, "body": body}


def as_openrouter(reply):
    """OpenRouter wraps a provider's error as text, and may say 200."""
    text = reply["body"] if isinstance(reply["body"], str) else json.dumps(reply["body"])
    inner = {"message": "Provider returned error", "code": reply["status"], "metadata": {"raw": text}}
    return {**reply, "status": 200, "body": {"error": inner}}


@pytest.mark.parametrize("gateway", [as_litellm, as_openrouter])
@pytest.mark.parametrize(
    "name",
    ["openai_reasoning", "llamacpp_ctx", "azure_filter", "deepseek", "groq_validate", "mistral",
     "gemini_401", "openai_model404", "system_role", "cohere_498", "moonshot_filter"],
)  # fmt: skip
def test_a_gateway_in_between_changes_nothing(server, name, gateway):
    [record] = [one for one in REPLIES if one["name"] == name]
    wrapped = {**record, "first": gateway(record["first"])}
    if "in_sequence" in record:
        first, *rest = record["in_sequence"]
        wrapped["in_sequence"] = [gateway(first), *rest]
    replayed = Replayed(wrapped)
    server.script.extend([replayed] * 9)
    judge = judge_at(server, max_output_tokens=500, cache=False)
    [scores] = evaluate([sample()], [ContextPrecision()], judge)
    score, expected = scores["context_precision"], record["expected"]

    assert (score.value, score.error_type) == (expected["value"], expected["error_type"])


def test_of_an_error_page_without_end_only_the_beginning_is_read(server):
    """Sixty megabytes of words: one is read."""
    page = b'{"error": {"message": "slow down, please' + b" and wait" * 7_000_000
    server.script.append(Misbehaviour(429, page))

    async def run():
        wire = Wire(Caller(Address.of(server.url), "key", None, {}).client())
        reply = await wire.post({"messages": [{"content": ""}]}, 4 * 2**20)
        await wire.close()
        return reply

    reply = asyncio.run(run())

    assert reply.status == 429
    assert 2**20 < len(reply.body) < 2 * 2**20
