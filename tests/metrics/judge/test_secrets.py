"""Keys and certificates: a key is in no repr, pickle or error; connections are verified."""

import base64
import logging
import pickle
import ssl
import subprocess
import sys
import traceback
from shutil import which

import pytest
from judging_tools import sample
from loopback_server import LoopbackServer
from openai_server import Misbehaviour, OpenAIServer, error

from ragmeter.exporters.langfuse import LangfuseScores
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.metrics import ConfigurationError, ContextPrecision, evaluate
from ragmeter.metrics.judge import OpenAIJudge

KEY = "sk-very-secret-key"


def test_keys_are_in_no_repr_and_no_pickle():
    """Judge and sinks; a key in the address or in a header counts as one, too."""
    judge = OpenAIJudge("m", f"http://user:{KEY}@127.0.0.1:1/v1", KEY, headers={"Authorization": KEY})
    phoenix = PhoenixAnnotations(f"http://user:{KEY}@127.0.0.1:1", KEY)
    langfuse = LangfuseScores("http://127.0.0.1:1", "pk", KEY)

    for thing in (judge, phoenix, langfuse):
        assert KEY not in repr(thing) + str(thing)
    plain = OpenAIJudge("m", "http://127.0.0.1:1/v1", KEY, headers={"Authorization": KEY})
    assert KEY.encode() not in pickle.dumps(plain)


PASSWORD, TOKEN = "swordfish-17", "query-token-4711"


def addressed(server):
    """The server's address with a password and with a key in its query."""
    place = server.url.removeprefix("http://")
    return f"http://user:{PASSWORD}@{place}?key={TOKEN}&api-version=preview"


def test_secrets_of_an_address_are_sent_and_stand_nowhere(server, caplog):
    """Logs of every library at every level, reprs, pickles, errors, the cache's keys."""
    server.script.append(error(500))
    with caplog.at_level(logging.DEBUG):
        judge = OpenAIJudge("m", addressed(server), KEY, max_retries=0, cache=False)
        results = evaluate([sample(), sample(question="?")], [ContextPrecision()], judge)
        gone = OpenAIJudge("m", addressed(server).replace(str(server.port), "9"), KEY)
        results += evaluate([sample()], [ContextPrecision()], gone)
    shown = [caplog.text, repr(judge), repr(judge.__dict__), repr(results), repr(judge.stats)]
    shown.append(pickle.dumps(judge).decode("latin-1"))
    login = base64.b64encode(f"user:{PASSWORD}".encode()).decode()

    assert server.requests[0].headers["authorization"] == f"Basic {login}"
    path, _, query = server.requests[0].path.partition("?")
    assert (path, query) == ("/v1/chat/completions", f"key={TOKEN}&api-version=preview")
    for secret in (PASSWORD, TOKEN, login):
        assert [text for text in shown if secret in text] == []


def test_an_address_that_is_none_is_not_quoted():
    for wrong in (f"ftp://user:{PASSWORD}@host", f"user:{PASSWORD}@host/v1", f"http://:{PASSWORD}@"):
        with pytest.raises(ConfigurationError) as caught:
            OpenAIJudge("m", wrong, KEY)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_a_pickled_judge_takes_the_secrets_of_its_address_from_the_environment(server, monkeypatch):
    judge = OpenAIJudge("m", addressed(server), KEY, cache=False)
    monkeypatch.setenv("OPENAI_BASE_URL", addressed(server))
    evaluate([sample()], [ContextPrecision()], pickle.loads(pickle.dumps(judge)))

    assert TOKEN in server.requests[0].path
    assert "authorization" in server.requests[0].headers


def test_a_worker_process_gets_the_secrets_of_the_address(server):
    """With the parcel's other secrets, not in its pickles."""
    judge = OpenAIJudge("m", addressed(server), KEY, cache=False, extra_body={"top_p": 0.5})
    settings, secrets = judge.settings_and_secrets()
    again = OpenAIJudge(**settings, **secrets)
    evaluate([sample()], [ContextPrecision()], again)

    assert PASSWORD not in repr(settings)
    assert TOKEN not in repr(settings)
    assert TOKEN in server.requests[0].path
    assert server.requests[0].body["top_p"] == 0.5


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server, status):
    """Neither the key nor a header nor a text goes to the address that a redirect names."""
    with OpenAIServer() as other:
        elsewhere = f"http://127.0.0.1:{other.port}/v1/chat/completions"
        server.script.append(Misbehaviour(status, headers={"location": elsewhere}))
        judge = OpenAIJudge("m", server.url, KEY, headers={"x-token": KEY}, cache=False)
        [scores] = evaluate([sample()], [ContextPrecision()], judge)
        score = scores["context_precision"]

        assert (score.value, score.error_type) == (None, "redirected")
        assert "pass the address it leads to as base_url=" in score.explanation
        assert elsewhere not in score.explanation
        assert (len(server.requests), len(other.requests)) == (1, 0)


@pytest.mark.skipif(which("openssl") is None, reason="no openssl here to make a certificate")
def test_an_endpoint_without_a_good_certificate_is_not_talked_to(tmp_path):
    """Self-signed: no request leaves, the score is a judge_error."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
            "/CN=127.0.0.1", "-keyout", str(key), "-out", str(certificate),
        ],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    received = []
    with LoopbackServer(received.append, context) as server:
        judge = OpenAIJudge("m", f"{server.url}/v1", KEY, max_retries=0, timeout_s=60)
        [scores] = evaluate([sample()], [ContextPrecision()], judge)
    assert not received, "a request was sent to an unverified server"

    score = scores["context_precision"]
    assert (score.value, score.error_type) == (None, "connection")


def test_nothing_of_a_reference_file_is_evaluated(tmp_path):
    """Code in a row stays text."""
    from ragmeter.requests.references import load_references

    trap = tmp_path / "trap"
    code = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    for ending, text in (("csv", f'question,answer\nq,"{code}"\n'), ("csv", f"question,answer\nq,={code}\n")):
        path = tmp_path / f"golden.{ending}"
        path.write_text(text, encoding="utf-8")
        assert "pathlib" in load_references(path)("q").answer
    assert not trap.exists()
    assert "pickle" not in sys.modules["ragmeter.requests.references"].__dict__
