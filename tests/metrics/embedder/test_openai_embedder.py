"""OpenAI-compatible embeddings endpoints."""

import asyncio
import pickle

import pytest
from embedding_server import EmbeddingServer, rows, vector_of

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.embedder import OpenAIEmbedder
from ragmeter.metrics.embedder.vectors import unit
from ragmeter.metrics.judge import JudgeBudget, JudgeError

KEY = "sk-very-secret-key"


@pytest.fixture
def server():
    with EmbeddingServer() as running:
        yield running


def at(server, **options):
    return OpenAIEmbedder("e5", server.url, KEY, **{"max_retries": 0, **options})


def vectors(embedder, *texts, query=False):
    async def ask():
        try:
            return await embedder.vectors(texts, query=query)
        finally:
            await embedder.aclose()

    return asyncio.run(ask())


def test_rows_are_put_in_the_order_of_the_texts(server):
    found = vectors(at(server), "one", "two three")
    [(path, headers, body)] = server.requests

    assert [list(v) for v in found] == [list(unit(vector_of(t))) for t in ("one", "two three")]
    assert path == "/v1/embeddings"
    assert body == {"model": "e5", "input": ["one", "two three"], "encoding_format": "float"}
    assert headers["authorization"] == f"Bearer {KEY}"


def test_prefixes_and_extra_fields_are_sent(server):
    embedder = at(server, query_prefix="query: ", extra_body={"dimensions": 3})
    vectors(embedder, "one", query=True)
    vectors(embedder, "one")

    assert server.texts == [["query: one"], ["one"]]
    assert server.requests[0][2]["dimensions"] == 3


def missing_one(texts):
    return rows(texts)[1:]


def one_twice(texts):
    return rows(texts) + rows(texts)[:1]


def index_twice(texts):
    return [{**row, "index": 0} for row in rows(texts)]


def not_rows(texts):
    return [{"vector": [1.0]}]


@pytest.mark.parametrize("reply", [missing_one, one_twice, index_twice, not_rows])
def test_rows_that_do_not_fit_the_texts_are_refused(server, reply):
    server.script.extend([reply] * 3)
    with pytest.raises(JudgeError) as caught:
        vectors(at(server), "one", "two")

    assert caught.value.error_type == "unusable_reply"
    assert len(server.requests) == 1


def test_what_may_pass_is_tried_again(server):
    server.script.append((503, {}, {"retry-after": "0"}))
    assert vectors(at(server, max_retries=1), "one")
    assert len(server.requests) == 2


@pytest.mark.contains_errors
def test_a_wrong_key_is_not_tried_again_and_never_shown(server, caplog):
    server.script.append((401, {"error": {"message": f"bad key {KEY}"}}, {}))
    embedder = at(server, max_retries=3)
    said = []
    for _ in range(2):
        with pytest.raises(JudgeError) as caught:
            vectors(embedder, "one")
        said.append(str(caught.value))

    assert len(server.requests) == 1
    assert caught.value.error_type == "authentication"
    assert KEY not in "".join(said) + repr(embedder) + caplog.text


def test_a_text_that_is_too_long_costs_no_other(server):
    server.refused = "too long"
    embedder = at(server)
    with pytest.raises(JudgeError) as caught:
        vectors(embedder, "a", "b", "c is too long")

    assert caught.value.error_type == "request_too_large"
    assert len(vectors(embedder, "a", "b")) == 2
    assert server.texts[0] == ["a", "b", "c is too long"]


def test_a_pickle_holds_no_key(server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    address = server.url.replace("http://", "http://user:secret-password@") + "?token=secret-token"
    embedder = OpenAIEmbedder("e5", address, KEY, headers={"x": "secret-header"}, batch_size=3)
    pickled = pickle.dumps(embedder)
    again = pickle.loads(pickled)
    settings, secret = embedder.settings_and_secrets()

    assert b"secret" not in pickled
    assert (again.name, again.host, again.batch_size) == ("e5", "127.0.0.1", 3)
    assert "secret" not in repr(settings) + repr(embedder)
    assert OpenAIEmbedder(**settings, **secret).host == "127.0.0.1"


def test_what_is_missing_is_said_at_construction(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="the embedder has no key"):
        OpenAIEmbedder("e5")
    with pytest.raises(ConfigurationError, match="max_retries is -1"):
        OpenAIEmbedder("e5", "http://localhost:1/v1", max_retries=-1)
    with pytest.raises(ConfigurationError, match="name is ''"):
        OpenAIEmbedder("", "http://localhost:1/v1")


def test_tokens_are_budgeted(server):
    embedder = at(server, budget=JudgeBudget(tokens_per_minute=10))
    assert vectors(embedder, "some eight words")
    with pytest.raises(JudgeError) as caught:
        vectors(embedder, "more than forty characters of text, which is more than ten tokens")
    assert caught.value.status == "skipped"
