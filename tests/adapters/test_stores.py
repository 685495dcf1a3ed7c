"""`adapters/_stores.py`: the collection or index that a retriever searches, as its store's object keeps it."""

from typing import Any

import pytest
from pydantic import BaseModel, PrivateAttr

from ragmeter.adapters._stores import source_of


class Holds:
    """Stores what it is given, as clients and stores do."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Slotted:
    """A store with slots."""

    __slots__ = ("_index_name",)

    def __init__(self) -> None:
        self._index_name = "docs"


class Fields(BaseModel):
    """A store of fields, as LlamaIndex's are."""

    collection_name: str = "docs"


class Private(BaseModel):
    """A store that keeps its client privately."""

    _collection: Any = PrivateAttr(default_factory=lambda: Holds(name="docs"))


class Computes:
    """A store whose code must not run."""

    @property
    def collection_name(self) -> str:
        raise AssertionError("ran")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("ran")


LAYOUTS = {
    "Chroma": Holds(_collection_name="docs", _collection=Holds(name="other")),
    "Chroma, the client's collection": Holds(_collection=Holds(_model=Holds(name="docs"))),
    "Qdrant, Milvus, PGVector": Holds(collection_name="docs", _client=Holds()),
    "Weaviate": Holds(_index_name="docs", _client=Holds()),
    "Pinecone, its index": Holds(_index=Holds(_index_name="docs")),
    "Elasticsearch, a store within": Holds(_store=Holds(index="docs")),
    "OpenSearch, a client within": Holds(_client=Holds(_index="docs")),
    "Redis, by its configuration": Holds(config=Holds(index_name="docs")),
    "Redis, by its schema": Holds(_index=Holds(schema=Holds(index=Holds(name="docs")))),
    "PGVector, a table": Holds(table_name="docs"),
    "MongoDB's collection": Holds(_collection=Holds(_Collection__name="docs")),
    "slots": Slotted(),
    "fields": Fields(),
    "private attributes": Private(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["vectorstore", "_vector_store"])
def test_the_name_is_found_where_stores_keep_it(layout, name):
    """In the store, or in what it keeps of its client."""
    assert source_of(Holds(**{name: LAYOUTS[layout]})) == "docs"


def test_a_retriever_around_another_one_searches_what_that_does():
    """A compressor's retriever has no store of its own."""
    inner = Holds(vectorstore=Holds(collection_name="docs"))

    assert source_of(Holds(base_retriever=Holds(retriever=inner))) == "docs"


def test_a_retriever_without_a_store_may_name_its_source():
    """Services that search by themselves."""
    assert source_of(Holds(knowledge_base_id="KB1")) == "KB1"


def test_no_code_of_a_store_runs():
    """Properties and ``__getattr__`` of others are not called."""
    assert source_of(Holds(vectorstore=Computes())) is None


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines", 7, None, b"docs"])
def test_what_is_no_name_is_none(name):
    """Only a short line of text is."""
    assert source_of(Holds(vectorstore=Holds(collection_name=name))) is None


def test_retrievers_in_circles_end():
    """A retriever that holds itself."""
    circle = Holds()
    circle.retriever = circle

    assert source_of(circle) is None
