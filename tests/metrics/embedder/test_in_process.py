"""Frameworks' embedders and functions: how they are called, named and pickled."""

import asyncio
import contextvars
import pickle
import threading

import pytest
from embedding_server import vector_of
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from llama_index.core.base.embeddings.base import BaseEmbedding

from ragmeter.metrics import ConfigurationError
from ragmeter.metrics.embedder import InProcessEmbedder, as_embedder
from ragmeter.metrics.judge import JudgeError


class OfLangChain(Embeddings):
    """Treats questions apart, as the interface has it."""

    model = "langchain-model"

    def embed_query(self, text):
        return vector_of(f"query {text}")

    def embed_documents(self, texts):
        return [vector_of(f"document {text}") for text in texts]


class OfLlamaIndex(BaseEmbedding):
    """Likewise."""

    def _get_query_embedding(self, query):
        return vector_of(f"query {query}")

    async def _aget_query_embedding(self, query):
        raise NotImplementedError

    def _get_text_embedding(self, text):
        return vector_of(f"document {text}")


class OfOurs:
    """Any object with `embed`."""

    name = "any-model"

    def embed(self, texts, *, query=False):
        kind = "query" if query else "document"
        return [vector_of(f"{kind} {text}") for text in texts]


def by_function(texts):
    return [vector_of(text) for text in texts]


async def by_async_function(texts):
    await asyncio.sleep(0)
    return by_function(texts)


def asked(given):
    async def ask():
        embedder = as_embedder(given)
        return await asyncio.gather(embedder.vectors(["one"], query=True), embedder.vectors(["one", "two"]))

    return asyncio.run(ask())


def numbers(vectors):
    return [pytest.approx(list(made), abs=1e-6) for made in vectors]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (OfLangChain(), "langchain-model"),
        (OfLlamaIndex(model_name="llama-model"), "llama-model"),
        (OfOurs(), "any-model"),
    ],
)
def test_questions_and_chunks_go_to_the_methods_made_for_them(given, name):
    expected = asyncio.run(as_embedder(by_function).vectors(["query one", "document one", "document two"]))
    [question], chunks = asked(given)

    assert [list(v) for v in (question, *chunks)] == numbers(expected)
    assert as_embedder(given).name == name


@pytest.mark.parametrize("given", [by_function, by_async_function])
def test_a_function_gets_all_texts_alike(given):
    [question], [one, _] = asked(given)

    assert question == one
    assert as_embedder(given).name == given.__name__


def test_a_model_without_a_name_is_called_by_its_class():
    assert as_embedder(DeterministicFakeEmbedding(size=3)).name == "DeterministicFakeEmbedding"
    assert InProcessEmbedder(OfOurs(), name="mine").name == "mine"
    assert as_embedder(made := InProcessEmbedder(OfOurs())) is made


@pytest.mark.parametrize("given", ["text-embedding-3-small", 3, OfLangChain, None, object()])
def test_what_does_not_embed_is_refused(given):
    with pytest.raises(ConfigurationError, match=r"embedder is .*; pass a LangChain Embeddings"):
        as_embedder(given)


def test_the_refusal_shows_no_secret():
    class Client:
        def __repr__(self):
            return "Client(key='sk-very-secret')"

    with pytest.raises(ConfigurationError) as caught:
        as_embedder(Client())
    assert "secret" not in str(caught.value)


def test_it_is_called_on_a_thread_of_its_own_in_the_askers_context():
    """So the loop goes on, and what instruments the model sees that it is suppressed."""
    mark = contextvars.ContextVar("mark", default="none")
    seen = []

    def embed(texts):
        seen.append((threading.current_thread().name, mark.get()))
        return by_function(texts)

    async def ask():
        mark.set("ours")
        await as_embedder(embed).vectors(["a"])

    asyncio.run(ask())
    assert seen == [("ragmeter-embedder", "ours")]


def test_numpy_rows_are_vectors():
    numpy = pytest.importorskip("numpy")

    [made] = asyncio.run(as_embedder(lambda texts: numpy.array([[3.0, 4.0]] * len(texts))).vectors(["a"]))
    assert list(made) == pytest.approx([0.6, 0.8])


def test_a_model_that_wants_to_end_the_program_ends_its_call():
    def leaves(texts):
        raise SystemExit(3)

    embedder = as_embedder(leaves)
    for _ in range(2):
        with pytest.raises(JudgeError) as caught:
            asyncio.run(embedder.vectors(["a"]))
        assert caught.value.error_type == "RuntimeError"


def test_a_pickle_has_the_model_and_the_options_and_nothing_remembered():
    embedder = InProcessEmbedder(OfOurs(), query_prefix="query: ", batch_size=7)
    asyncio.run(embedder.vectors(["a"]))
    again = pickle.loads(pickle.dumps(embedder))

    assert (again.name, again.query_prefix, again.batch_size) == ("any-model", "query: ", 7)
    assert again.stats.texts == 0
    assert asyncio.run(again.vectors(["a"])) == asyncio.run(embedder.vectors(["a"]))
