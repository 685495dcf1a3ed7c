"""What cannot be connected to shows when judge or embedder is built, not with every score."""

import sys

import pytest
from judging_tools import judge_at
from python_process import run_python

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics._connection.wires import http_library
from ragmeter.metrics.embedder import OpenAIEmbedder
from ragmeter.metrics.judge import OpenAIJudge


def test_a_module_missing_inside_the_client_shows_at_construction():
    """Not as a judge_error on every row. Some versions import it with the client, some when it is made."""
    inside = http_library().__name__.replace("httpx", "httpcore")
    code = (
        f"import sys; sys.modules[{inside!r}] = None\n"
        "from ragmeter.metrics.judge import OpenAIJudge\n"
        "OpenAIJudge('m', 'http://127.0.0.1:1/v1')"
    )
    done = run_python("-c", code)

    last = done.stderr.splitlines()[-1]
    assert "MissingDependencyError" in last
    assert f"OpenAIJudge needs the package {inside!r}" in last


def test_a_proxy_that_needs_a_missing_module_shows_at_construction(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)

    with pytest.raises(ConfigurationError, match="socksio"):
        judge_at(server)


@pytest.mark.parametrize("kind", [OpenAIJudge, OpenAIEmbedder])
@pytest.mark.parametrize(
    "wrong", [{"api_key": "sk-\N{CYRILLIC SMALL LETTER A}"}, {"headers": {"x": "a\N{EN DASH}b"}}]
)
def test_a_key_or_header_that_cannot_be_sent_shows_at_construction(kind, wrong):
    with pytest.raises(ConfigurationError, match="api_key, headers") as caught:
        kind("m", "http://127.0.0.1:1/v1", **{"api_key": "sk-secret", **wrong})
    assert "sk-" not in str(caught.value)
    assert caught.value.__cause__ is None
