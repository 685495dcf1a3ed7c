"""Keys and certificates: a key is in no repr, pickle or error; connections are verified."""

import pickle
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from shutil import which

import pytest
from judging_tools import sample

from ragmeter.exporters.langfuse import LangfuseScores
from ragmeter.exporters.phoenix import PhoenixAnnotations
from ragmeter.metrics import ContextPrecision, evaluate
from ragmeter.metrics.judge import OpenAIJudge

KEY = "sk-very-secret-key"


def test_keys_are_in_no_repr_and_no_pickle():
    """Judge and sinks; a key in the address or in a header counts as one, too."""
    judge = OpenAIJudge(
        "m", f"http://user:{KEY}@127.0.0.1:1/v1", KEY, headers={"Authorization": KEY}
    )
    phoenix = PhoenixAnnotations(f"http://user:{KEY}@127.0.0.1:1", KEY)
    langfuse = LangfuseScores("http://127.0.0.1:1", "pk", KEY)

    for thing in (judge, phoenix, langfuse):
        assert KEY not in repr(thing) + str(thing)
    plain = OpenAIJudge("m", "http://127.0.0.1:1/v1", KEY, headers={"Authorization": KEY})
    assert KEY.encode() not in pickle.dumps(plain)


class Answering(BaseHTTPRequestHandler):
    def do_POST(self):
        raise AssertionError("a request was sent to somebody unverified")

    def log_message(self, *_):
        """Keep quiet."""


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
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        judge = OpenAIJudge(
            "m", f"https://127.0.0.1:{server.server_port}/v1", KEY, max_retries=0, timeout_s=20
        )
        [scores] = evaluate([sample()], [ContextPrecision()], judge)
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()

    score = scores["context_precision"]
    assert (score.value, score.error_type) == (None, "connection")


def test_nothing_of_a_reference_file_is_evaluated(tmp_path):
    """Code in a row stays text."""
    from ragmeter.references import load_references

    trap = tmp_path / "trap"
    code = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    for ending, text in (
        ("csv", f'question,answer\nq,"{code}"\n'),
        ("csv", f"question,answer\nq,={code}\n"),
    ):
        path = tmp_path / f"golden.{ending}"
        path.write_text(text, encoding="utf-8")
        assert "pathlib" in load_references(path)("q").answer
    assert not trap.exists()
    assert "pickle" not in sys.modules["ragmeter.references"].__dict__
